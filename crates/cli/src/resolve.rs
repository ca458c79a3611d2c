//! The second level of arguments: from the command line to a plan.
//!
//! Everything that the engine and the display need is decided here, once. No disk or network is consulted, except for
//! the first line of a list, which names its host, and for filter files.

mod delta;
mod details;
mod digests;
mod duration;
mod filters;
mod metadata;
mod owners;
mod probe;
mod sweep;
mod sync;
mod verify;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

use haul_engine::job::location::{Host, Location};
use haul_engine::job::spec::{
    CacheUse, Cipher, CompressionMethod, CompressionPolicy, DirectIo, Fsync, Job, JobOptions, Login, NULL_TARGET,
    RemoteAccess, Retries, SILENCE_MIN, SkipOptions, Symlinks, Verify, is_null,
};
use haul_engine::policy::PolicyRule;
use haul_proto::compression::{LEVEL_DEFAULT, LEVEL_MAX};
use haul_proto::limits::{CONGESTION_MAX, RATE_MIN};
use haul_proto::path::escape;

use crate::args::limits::{RATE_MAX, STREAMS_MAX};
use crate::args::operand::{host_label, on_base};
use crate::args::table::typed;
use crate::args::values::Values;
use crate::args::{Dialect, UsageError, habits};
use crate::list::list;
use crate::network::{family, network};
use crate::pipes::{locations, pipes};
use crate::report::ReportFormat;
use crate::show::display::{Display, Mode};

use self::details::{
    Shell, base, buffer_size, buffers, bwlimit, in_the_way, log, modes, refuse_contradictions, shell, traffic_class,
    window,
};
pub use self::digests::{DigestSink, Digests};
pub use self::duration::ENDLESS_ZEROS;
pub use self::filters::{filters, typed_lists};
use self::owners::owners;
pub use self::probe::probe;
pub use self::sweep::sweep;
pub use self::sync::{contents, sync};
pub use self::verify::comparison;

/// Progress as events, unless `-P` says otherwise.
const JSON_PROGRESS_EVERY: Duration = Duration::from_secs(1);
/// Most times that a job is begun again without coming further.
const MAX_RETRIES: u32 = 1_000_000;
/// Longest time for which that is tried: 30 days.
const MAX_RETRY_FOR: Duration = Duration::from_secs(30 * 86_400);
/// Longest silence that is waited out.
const MAX_SILENCE: Duration = Duration::from_secs(3600);
/// Numbers of CPUs are below this.
const CPUS_END: u16 = 1024;
/// Longest time that `-t` takes: a year.
const MAX_TIME_LIMIT: Duration = Duration::from_secs(365 * 86_400);
/// Longest interval that `-P` takes: a day.
const MAX_PROGRESS_S: u32 = 86_400;

/// A copy, and its display.
#[derive(Debug)]
pub struct Plan {
    /// What the engine does.
    pub job: Job,
    /// What the user sees.
    pub display: Display,
    /// Where `--checksums` writes; `-` is standard output.
    pub checksums: Option<PathBuf>,
    /// What else becomes of digests.
    pub digests: Digests,
    /// Where `--report` writes.
    pub report: Option<PathBuf>,
    /// Where `--metrics` writes.
    pub metrics: Option<PathBuf>,
    /// `-t`: when it is given up, counted from the beginning of the command.
    pub time_limit: Option<Duration>,
    /// What is said before it begins.
    pub notes: Vec<String>,
}

/// Everything about a copy except its operands.
#[derive(Debug)]
pub struct ResolvedSettings {
    /// For the engine.
    pub options: JobOptions,
    /// For the engine.
    pub access: RemoteAccess,
    /// For the display.
    pub display: Display,
    /// Where `--checksums` writes.
    pub checksums: Option<PathBuf>,
    /// What else becomes of digests.
    pub digests: Digests,
    /// Where `--report` writes.
    pub report: Option<PathBuf>,
    /// Where `--metrics` writes.
    pub metrics: Option<PathBuf>,
    /// `-t`.
    pub time_limit: Option<Duration>,
}

/// The plan for a copy. The last operand is the target.
pub fn plan(values: &Values, operands: &[OsString], stderr_is_terminal: bool) -> Result<Plan, UsageError> {
    planned(values, operands, stderr_is_terminal, false)
}

/// The same for a copy or a sync.
fn planned(
    values: &Values,
    operands: &[OsString],
    stderr_is_terminal: bool,
    is_sync: bool,
) -> Result<Plan, UsageError> {
    sync::refuse_what_lacks(values, is_sync)?;
    let mut settings = settings(values, stderr_is_terminal)?;
    let TypedEnds { mut sources, mut target, base } = ends(values, operands)?;
    if is_sync {
        sources = sources.into_iter().map(contents).collect();
        settings.options = sync::implied(settings.options, values, &target);
    }
    settings.options.owners = owners(values, is_sync)?;
    check_hosts(&sources)?;
    crate::secret::complete(values, sources.iter_mut().chain([&mut target]))?;
    let pipes = pipes(values, operands, &sources, &target)?;
    sync::refuse_places(values, is_sync, &pipes, &sources.iter().chain([&target]).collect::<Vec<_>>())?;
    if is_null(&target.path) {
        target.path = NULL_TARGET.into();
        // A name that is discarded has nothing to be linked to.
        settings.options.kept.hard_links = false;
    }
    settings.options.filters = filters(values)?;
    if pipes.source.is_some() && !settings.options.filters.is_empty() {
        return Err(UsageError::new("a pipe cannot be filtered").remedy("remove the filters"));
    }
    settings.options.base = base.as_ref().map(|base| base.path.clone());
    let list = list(values, &mut sources, base)?;
    settings.options.duration = duration::of_copy(values, &mut sources, &target.path, &mut settings.time_limit)?;
    let ResolvedSettings { options, access, display, checksums, digests, report, metrics, time_limit } = settings;
    let options = JobOptions { source_pipe: pipes.source, target_pipe: pipes.target, ..options };
    let job = Job { sources, list, target, options, access };
    let is_remote = [job.source_host(), &job.target.host].into_iter().any(|host| *host != Host::Local);
    let notes = if values.dialect() == Dialect::Haul { habits::notes(values, is_remote) } else { Vec::new() };
    Ok(Plan { job, display, checksums, digests, report, metrics, time_limit, notes })
}

/// The names of the hosts at both ends, without users; none is this machine.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct HostNames {
    /// That of the sources.
    pub source: Option<String>,
    /// That of the target.
    pub target: Option<String>,
}

/// Between which hosts `operands` are copied.
pub fn hosts(values: &Values, operands: &[OsString]) -> Result<HostNames, UsageError> {
    let TypedEnds { sources, target, base } = ends(values, operands)?;
    let name = |place: &Location| match &place.host {
        Host::Local => None,
        Host::Remote { name, .. } | Host::Served { name, .. } => Some(name.clone()),
    };
    // Of a list, the base alone says it before the list is read.
    Ok(HostNames { source: sources.first().or(base.as_ref()).and_then(name), target: name(&target) })
}

/// What was typed of the ends.
struct TypedEnds {
    sources: Vec<Location>,
    target: Location,
    /// Where relative sources are.
    base: Option<Location>,
}

/// Locations of the operands. The last operand is the target.
fn ends(values: &Values, operands: &[OsString]) -> Result<TypedEnds, UsageError> {
    let mut sources = locations(values, operands)?;
    let target = sources.pop().ok_or_else(|| UsageError::new("no source given"))?;
    let base = base(values)?;
    base.iter().try_for_each(|base| sources.iter_mut().try_for_each(|source| on_base(source, base)))?;
    Ok(TypedEnds { sources, target, base })
}

/// What the options of a copy say.
pub fn settings(values: &Values, stderr_is_terminal: bool) -> Result<ResolvedSettings, UsageError> {
    let display = display(values, stderr_is_terminal)?;
    let checksums = checksums(values)?;
    let (checksum, digests) = digests::digests(values)?;
    refuse_contradictions(values)?;
    let defaults = JobOptions::default();
    let per_file = checksums.is_some() || tells_of_files(&display);
    let (direct_source, direct_target) = unbuffered(values)?;
    let (window_bytes, window_fixed) = window(values)?;
    let (source_under_way, target_under_way) = buffers(values)?;
    let is_bbcps = values.dialect() == Dialect::Bbcp;
    let options = JobOptions {
        recursive: values.flag("recursive") || values.flag("archive"),
        in_the_way: in_the_way(values),
        preserve: metadata::preserves(values),
        kept: metadata::kept(values)?,
        modes: modes(values)?,
        symlinks: symlinks(values)?.unwrap_or(if is_bbcps { Symlinks::Ignore } else { defaults.symlinks }),
        leave_out: SkipOptions { unreadable: values.flag("readable"), empty_directories: values.flag("no-empty-dirs") },
        check_space: !values.flag("nofschk"),
        make_directory: values.flag("mkdir"),
        streams: if values.flag("order") { Some(1) } else { streams(values)? },
        congestion: congestion(values)?,
        window_bytes,
        window_fixed,
        traffic_class: traffic_class(values)?,
        direct_source,
        direct_target,
        source_under_way,
        target_under_way,
        cache: cache(values)?,
        fsync: fsync(values)?,
        delta: delta::rules(values)?,
        cipher: cipher(values)?,
        compression: compression(values)?,
        frame_bytes: frame(values)?.or(buffer_size(values)?),
        rate_bytes_per_s: rate(values)?,
        cpus: values.numbers("cpus", CPUS_END)?,
        report_files: per_file,
        blake3: digests::blake3(values, checksums.is_some() && digests.of_lines.is_none())?,
        digest_existing: checksums.is_some() && digests.of_lines.is_none(),
        checksum,
        resume: !values.flag("no-resume"),
        small_journals: values.flag("keep") || values.flag("append"),
        keep_partial: !values.flag("no-keep"),
        journal_dir: values.last("append").filter(|dir| !dir.is_empty()).map(PathBuf::from),
        verify: verify(values)?,
        progress_every: progress_every(values, &display)?,
        network: network(values)?,
        ..sync::options(values, defaults)?
    };
    let time_limit = time_limit(values)?;
    let report = report(values)?;
    Ok(ResolvedSettings {
        options,
        access: access(values, stderr_is_terminal)?,
        display,
        checksums,
        digests,
        report,
        metrics: metrics(values)?,
        time_limit,
    })
}

fn metrics(values: &Values) -> Result<Option<PathBuf>, UsageError> {
    let file = values.last("metrics").map(PathBuf::from);
    match file.as_ref().is_some_and(|file| file.as_os_str().is_empty()) {
        true => Err(UsageError::new("--metrics: empty file name")),
        false => Ok(file),
    }
}

fn report(values: &Values) -> Result<Option<PathBuf>, UsageError> {
    let file = values.last("report").map(PathBuf::from);
    file.iter().try_for_each(|file| ReportFormat::of(file).map(|_| ()))?;
    Ok(file)
}

/// `-t`.
fn time_limit(values: &Values) -> Result<Option<Duration>, UsageError> {
    values.time("timelimit", Duration::from_secs(1)..=MAX_TIME_LIMIT, "from 1s to 365d")
}

/// How often progress is shown.
fn progress_every(values: &Values, display: &Display) -> Result<Duration, UsageError> {
    Ok(match values.number("progress", 1..=MAX_PROGRESS_S)? {
        Some(seconds) => Duration::from_secs(seconds.into()),
        None if display.mode == Mode::Json => JSON_PROGRESS_EVERY,
        None => JobOptions::default().progress_every,
    })
}

fn cache(values: &Values) -> Result<CacheUse, UsageError> {
    Ok(values
        .choice("cache", &[("keep", CacheUse::Keep), ("drop", CacheUse::Drop), ("cold", CacheUse::Cold)])?
        .unwrap_or_default())
}

/// `-s`, of a copy or of the demo.
pub fn streams(values: &Values) -> Result<Option<u16>, UsageError> {
    Ok(values.number("streams", 1..=STREAMS_MAX)?.and_then(|streams| u16::try_from(streams).ok()))
}

pub fn symlinks(values: &Values) -> Result<Option<Symlinks>, UsageError> {
    values.choice("symlinks", &[("keep", Symlinks::Keep), ("follow", Symlinks::Follow), ("ignore", Symlinks::Ignore)])
}

/// `-u`: at the source, at the target. An end that is not named stays automatic. What is written in order goes through
/// the page cache: past it, several writes are under way.
fn unbuffered(values: &Values) -> Result<(DirectIo, DirectIo), UsageError> {
    let (auto, always, never) = (DirectIo::Auto, DirectIo::Always, DirectIo::Never);
    if values.flag("order") {
        let source = values.choice("unbuffered", &[("s", always), ("off", never)])?;
        return Ok((source.unwrap_or(auto), never));
    }
    if values.dialect() == Dialect::Bbcp && values.last("unbuffered").is_some_and(|ends| ends == "ts") {
        return Ok((always, always));
    }
    let named = values.choice(
        "unbuffered",
        &[("s", (always, auto)), ("t", (auto, always)), ("st", (always, always)), ("off", (never, never))],
    )?;
    Ok(named.unwrap_or((auto, auto)))
}

fn rate(values: &Values) -> Result<Option<u64>, UsageError> {
    if let Some(limit) = values.last("bwlimit") {
        return bwlimit(limit);
    }
    values.size("xfrrate", RATE_MIN..=RATE_MAX, "from 1k to 1024g, in bytes a second")
}

fn congestion(values: &Values) -> Result<Option<String>, UsageError> {
    let name = values.text("congestion")?;
    match name {
        Some(name) if name.is_empty() || name.len() >= CONGESTION_MAX || !name.bytes().all(is_of_a_name) => {
            Err(UsageError::new(format!("--congestion {}: invalid name", escape(name.as_bytes())))
                .remedy("available names are in /proc/sys/net/ipv4/tcp_available_congestion_control, for example bbr"))
        }
        Some(name) if name == "auto" => Ok(None),
        name => Ok(name),
    }
}

fn is_of_a_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

fn frame(values: &Values) -> Result<Option<u32>, UsageError> {
    values.size_among("frame", &[256 << 10, 512 << 10, 1 << 20], "of 256k, 512k or 1m")
}

fn cipher(values: &Values) -> Result<Cipher, UsageError> {
    let named = values.choice(
        "cipher",
        &[
            ("auto", Cipher::Auto),
            ("aes-256-gcm", Cipher::Aes256Gcm),
            ("aes-128-gcm", Cipher::Aes128Gcm),
            ("chacha20-poly1305", Cipher::ChaCha20Poly1305),
        ],
    )?;
    match (named, values.flag("no-encrypt")) {
        (Some(_), true) => Err(UsageError::contradiction("cipher", "no-encrypt")),
        (None, true) => Ok(Cipher::AuthenticateOnly),
        (named, false) => Ok(named.unwrap_or(Cipher::Auto)),
    }
}

/// `-c`: a word, or a level; 0 is off, as in bbcp.
fn compression(values: &Values) -> Result<CompressionPolicy, UsageError> {
    let given = values.last("compress").map(OsStr::as_bytes);
    if given.is_some_and(|given| !given.is_empty() && given.iter().all(u8::is_ascii_digit)) {
        let level = values.number("compress", 0..=LEVEL_MAX.into())?.and_then(|level| u8::try_from(level).ok());
        return Ok(level
            .filter(|level| *level > 0)
            .map_or(CompressionPolicy::Off, |level| CompressionPolicy::Always(CompressionMethod::Zstd(level))));
    }
    let words = [
        ("auto", CompressionPolicy::Auto),
        ("off", CompressionPolicy::Off),
        ("lz4", CompressionPolicy::Always(CompressionMethod::Lz4)),
        ("zstd", CompressionPolicy::Always(CompressionMethod::Zstd(LEVEL_DEFAULT))),
    ];
    Ok(values.choice("compress", &words)?.unwrap_or_default())
}

fn fsync(values: &Values) -> Result<Fsync, UsageError> {
    let words = [("none", Fsync::None), ("data", Fsync::Data), ("full", Fsync::Full)];
    let bbcps = [("d", Fsync::Data), ("dd", Fsync::Full)];
    Ok(values.choice("fsync", &[&words[..], &bbcps].concat())?.unwrap_or_default())
}

/// Read-back needs a file that exists.
fn verify(values: &Values) -> Result<Verify, UsageError> {
    let verify = values.choice("verify", &[("memory", Verify::Memory), ("disk", Verify::Disk)])?.unwrap_or_default();
    if (verify, fsync(values)?) == (Verify::Disk, Fsync::None) {
        return Err(UsageError::new(format!("{} disk cannot be used with {} none", typed("verify"), typed("fsync"))));
    }
    Ok(verify)
}

fn access(values: &Values, in_turn: bool) -> Result<RemoteAccess, UsageError> {
    let Login { identity, ssh_config, port, ssh_options, deploy, worker_binary } = login(values)?;
    let default = RemoteAccess::default();
    Ok(RemoteAccess {
        identity,
        ssh_config,
        port,
        ssh_options,
        family: family(values, "c")?,
        source_command: command(values, "source-command")?,
        target_command: command(values, "target-command")?,
        deploy,
        worker_binary,
        target_login: values.at_target().map(login).transpose()?,
        in_turn,
        silence: silence(values)?.unwrap_or(default.silence),
        connect_timeout: silence(values)?.unwrap_or(default.connect_timeout),
        greeting_timeout: None,
        retries: retries(values)?,
    })
}

/// What is about one host. `--rsh` is on no line but the typed one: what it says goes before the others.
fn login(values: &Values) -> Result<Login, UsageError> {
    let Shell { port: shells_port, identity, config, options } = shell(values)?;
    let port = shells_port.or(values.number("ssh-port", 1..=u16::MAX.into())?);
    let ssh_options = [options, values.texts("ssh-option")?].concat();
    if let Some(option) =
        ssh_options.iter().find(|option| option.trim().is_empty() || option.contains(char::is_control))
    {
        return Err(UsageError::new(format!("--ssh-option {}: invalid ssh option", escape(option.as_bytes())))
            .remedy("write it as for ssh -o: --ssh-option ConnectTimeout=10"));
    }
    Ok(Login {
        identity: identity.or(values.last("idfile").map(PathBuf::from)),
        ssh_config: config.or(values.last("ssh-config").map(PathBuf::from)),
        port: port.and_then(|port| u16::try_from(port).ok()),
        ssh_options,
        deploy: !values.flag("no-deploy"),
        worker_binary: values.last("worker-binary").map(PathBuf::from),
    })
}

fn silence(values: &Values) -> Result<Option<Duration>, UsageError> {
    values.time("silence", SILENCE_MIN..=MAX_SILENCE, "from 3s to 1h")
}

/// One limit alone replaces the default; with any limit, the first attempt has it, too.
fn retries(values: &Values) -> Result<Retries, UsageError> {
    let times = values.number("retries", 0..=MAX_RETRIES)?;
    let time = values.time("retry-for", Duration::ZERO..=MAX_RETRY_FOR, "of at most 30d")?;
    Ok(match (times, time) {
        (None, None) => Retries::default(),
        (times, time) => Retries { times, time, breaks: None, from_the_start: true },
    })
}

fn command(values: &Values, id: &str) -> Result<Option<String>, UsageError> {
    let command = values.text(id)?;
    match command {
        Some(command) if command.trim().is_empty() => {
            Err(UsageError::new(format!("{}: the command is empty", typed(id)))
                .remedy(format!("for example {} 'ssh %I -l %U %H /opt/bin/haul'", typed(id))))
        }
        Some(command) => {
            let permitted = crate::host_policy::read().check(PolicyRule::NoOwnCommands);
            permitted.map(|()| Some(command)).map_err(|text| UsageError::new(format!("{}: {text}", typed(id))))
        }
        None => Ok(None),
    }
}

fn checksums(values: &Values) -> Result<Option<PathBuf>, UsageError> {
    match values.last("checksums") {
        Some(file) if file.is_empty() => Err(UsageError::new("--checksums: empty file name")),
        Some(file) if file == "-" && values.flag("json") => {
            Err(UsageError::new("--checksums - and --json both write to standard output")
                .remedy("name a file: --checksums FILE"))
        }
        file => Ok(file.map(PathBuf::from)),
    }
}

fn display(values: &Values, stderr_is_terminal: bool) -> Result<Display, UsageError> {
    let (quiet, json) = (values.flag("quiet"), values.flag("json"));
    let lines = values.last("progress").is_some();
    if let Some(id) = ["vverbose", "debug", "verbose"].into_iter().find(|id| quiet && values.flag(id)) {
        return Err(UsageError::contradiction("quiet", id));
    }
    if quiet && lines && !json {
        return Err(UsageError::contradiction("quiet", "progress"));
    }
    let dialect = values.dialect();
    let log = log(values)?;
    let tui = details::tui(values, stderr_is_terminal)?;
    let mode = match (json, quiet, lines) {
        _ if tui => Mode::Tui,
        (true, _, _) => Mode::Json,
        (_, true, _) => Mode::Quiet,
        _ if dialect == Dialect::Bbcp => Mode::BbcpLines,
        (_, _, true) => Mode::ProgressLines,
        _ if stderr_is_terminal && log.is_none() => Mode::Bar,
        _ => Mode::Plain,
    };
    let least = match (values.flag("debug"), values.flag("vverbose")) {
        (true, _) => 3,
        (_, true) => 2,
        _ => 0,
    };
    let verbosity = values.count("verbose").max(least);
    Ok(Display { mode, verbosity, progress_lines: lines, dialect, bits: values.flag("bits"), log })
}

/// Whether each complete file is reported.
fn tells_of_files(display: &Display) -> bool {
    match display.mode {
        Mode::Json => true,
        Mode::BbcpLines => display.verbosity > 0,
        _ => display.verbosity > 2,
    }
}

/// One host for all sources: one worker reads them all.
fn check_hosts(sources: &[Location]) -> Result<(), UsageError> {
    let Some(first) = sources.first() else { return Ok(()) };
    match sources.iter().find(|source| source.host != first.host) {
        None => Ok(()),
        Some(other) => Err(UsageError::new(format!(
            "sources are on different hosts: {} and {}",
            host_label(&first.host),
            host_label(&other.host)
        ))
        .remedy("run one copy for each host")),
    }
}

#[cfg(test)]
#[path = "resolve_tests.rs"]
pub mod tests;

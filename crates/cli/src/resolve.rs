//! The second level of arguments: from the command line to a plan.
//!
//! All decisions for the engine and the display are made here, once. Nothing is read from disk or network, except the
//! first line of a list, which names its host, and filter files.

mod delta;
mod details;
mod digests;
mod duration;
mod filters;
mod metadata;
mod owners;
mod probe;
mod rsync_filters;
mod sweep;
mod sync;
mod verify;

use std::ffi::{OsStr, OsString};
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use haul_base::copy::location::{Host, Location};
use haul_base::copy::spec::{
    Cipher, CopyOptions, CopySpec, DirectIo, DirectoryOptions, Fsync, IntegrityOptions, LiveSourceOptions, Login,
    NULL_TARGET, PartialOptions, RemoteAccess, ReportOptions, Retries, SkipOptions, SocketOptions, SourceOptions,
    StorageOptions, StorageRequest, StreamOptions, Symlinks, TargetOptions, Verify, WriteOptions, is_null,
};
use haul_base::shell_word::quote;
use haul_control::operand::{host_label, host_prefix, parse_operand};
use haul_engine::policy::PolicyRule;
use haul_proto::limits::CONGESTION_MAX;
use haul_proto::path::escape;
use haul_show::ListForm;
use haul_show::display::{Display, Mode};
use haul_show::report::ReportFormat;

use self::details::{Shell, buffer_size, buffers, log, mode_rules, modes, overwrite, refuse_contradictions, shell};
pub use self::digests::{DigestSink, Digests};
pub use self::duration::ENDLESS_ZEROS;
pub use self::filters::{filters, typed_lists};
pub use self::metadata::metadata;
use self::owners::owners;
pub use self::probe::probe;
pub use self::rsync_filters::{open_named, rsync_rules};
pub use self::sweep::sweep;
pub use self::sync::contents;
pub use self::verify::comparison;
use crate::args::flag::{Flag, Single};
use crate::args::operands::{on_base, refuse_wide_deletion};
use crate::args::values::Values;
use crate::args::{Dialect, UsageError, contradiction, flags, habits};
use crate::list::list;
use crate::network::{family, network};
use crate::pipes::{locations, pipes};

/// A copy, and its display.
#[derive(Debug)]
pub struct Plan {
    /// The copy for the engine.
    pub copy: CopySpec,
    /// The display.
    pub display: Display,
    /// The file of `--checksums`; `-` is standard output.
    pub checksums: Option<PathBuf>,
    /// Output of other digests.
    pub digests: Digests,
    /// The file of `--report`.
    pub report: Option<PathBuf>,
    /// The file of `--metrics`.
    pub metrics: Option<PathBuf>,
    /// `--timelimit`: the time limit, from the start of the command.
    pub time_limit: Option<Duration>,
    /// Lines to show before its start.
    pub notes: Vec<String>,
}

/// Everything about a copy except its operands.
#[derive(Debug)]
pub struct ResolvedSettings {
    /// For the engine.
    pub options: CopyOptions,
    /// For the engine.
    pub access: RemoteAccess,
    /// For the display.
    pub display: Display,
    /// The file of `--checksums`.
    pub checksums: Option<PathBuf>,
    /// Output of other digests.
    pub digests: Digests,
    /// The file of `--report`.
    pub report: Option<PathBuf>,
    /// The file of `--metrics`.
    pub metrics: Option<PathBuf>,
    /// `--timelimit`.
    pub time_limit: Option<Duration>,
}

/// The plan for a copy. The last operand is the target.
pub fn plan(values: &Values, operands: &[OsString], stderr_is_terminal: bool) -> Result<Plan, UsageError> {
    planned(values, operands, stderr_is_terminal, CopyRules::Copy)
}

/// The plan for a sync. The last operand is the target.
pub fn sync(values: &Values, operands: &[OsString], stderr_is_terminal: bool) -> Result<Plan, UsageError> {
    planned(values, operands, stderr_is_terminal, CopyRules::Sync)
}

/// The plan for a command line of rsync, whose options were translated. The last operand is the target.
pub fn rsync_plan(values: &Values, operands: &[OsString]) -> Result<Plan, UsageError> {
    planned(values, operands, false, CopyRules::Rsync)
}

/// The rules for existing entries and for a slash behind a source.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CopyRules {
    /// `haul SOURCE TARGET`.
    Copy,
    /// `haul sync SOURCE TARGET`.
    Sync,
    /// `haul rsync`: as a sync, but nothing is implied.
    Rsync,
}

/// The plan for a copy or a sync.
fn planned(
    values: &Values,
    operands: &[OsString],
    stderr_is_terminal: bool,
    rules: CopyRules,
) -> Result<Plan, UsageError> {
    let is_sync = rules != CopyRules::Copy;
    sync::refuse_incomplete(values, is_sync)?;
    let mut settings = settings(values, stderr_is_terminal)?;
    let TypedEnds { mut sources, mut target, base } = ends(values, operands)?;
    if let Some(target) = operands.last().filter(|_| rules != CopyRules::Rsync && values.is_set(&flags::DELETE)) {
        refuse_wide_deletion("--delete", target)?;
    }
    if is_sync {
        sources = sources.into_iter().map(contents).collect();
        sync::follow(&mut settings.options, values);
    }
    if rules == CopyRules::Sync {
        sync::imply(&mut settings.options, values, &target);
    }
    settings.options.metadata.owners = owners(values)?;
    check_hosts(&sources, operands, values)?;
    complete_secrets(values, sources.iter_mut().chain([&mut target]))?;
    let pipes = pipes(values, operands, &sources, &target)?;
    let places: Vec<_> = sources.iter().chain(&base).chain([&target]).collect();
    sync::refuse_places(values, is_sync, &pipes, &places)?;
    if is_null(&target.path) {
        target.path = NULL_TARGET.into();
        // Discarded files cannot be linked to.
        settings.options.metadata.preserve.hard_links = false;
    }
    settings.options.source.filters = filters(values)?;
    if pipes.source.is_some() && !settings.options.source.filters.is_empty() {
        return Err(UsageError::new("a pipe cannot be filtered").remedy("remove the filters"));
    }
    settings.options.source.base = base.as_ref().map(|base| base.path.clone());
    settings.options.source.patterns = values.dialect() == Dialect::Haul;
    let list = list(values, &mut sources, base)?;
    settings.options.target.directory.only_parents = values.dialect() == Dialect::Haul && list.is_none();
    settings.options.stop.after = duration::of_copy(values, &mut sources, &target.path, &mut settings.time_limit)?;
    let ResolvedSettings { options, access, display, checksums, digests, report, metrics, time_limit } = settings;
    let copy = CopySpec { sources, list, target, options: CopyOptions { pipes, ..options }, access };
    let is_remote = [copy.source_host(), &copy.target.host].into_iter().any(|host| *host != Host::Local);
    let mut notes = if values.dialect() == Dialect::Haul { habits::notes(values) } else { Vec::new() };
    notes.extend(duration::uncompressed(&copy).filter(|_| is_remote));
    Ok(Plan { copy, display, checksums, digests, report, metrics, time_limit, notes })
}

/// The names of the hosts at both ends, without users; `None` for this machine.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct HostNames {
    /// The host of the sources.
    pub source: Option<String>,
    /// The host of the target.
    pub target: Option<String>,
}

impl HostNames {
    /// The hosts of a source and a target.
    pub fn of(source: Option<&Location>, target: &Location) -> Self {
        let name = |place: &Location| place.host.name().map(str::to_owned);
        Self { source: source.and_then(name), target: name(target) }
    }
}

/// The hosts of `operands`.
pub fn hosts(values: &Values, operands: &[OsString]) -> Result<HostNames, UsageError> {
    let TypedEnds { sources, target, base } = ends(values, operands)?;
    // For a list, only the base is known before the list is read.
    Ok(HostNames::of(sources.first().or(base.as_ref()), &target))
}

/// Completes the credentials of `locations` from `--secret-file`.
fn complete_secrets<'l>(values: &Values, locations: impl Iterator<Item = &'l mut Location>) -> Result<(), UsageError> {
    haul_control::secret_file::complete(
        values.last(&flags::SECRET_FILE),
        values.is_typed(&flags::SECRET_FILE),
        locations,
    )
}

/// The ends as typed.
struct TypedEnds {
    sources: Vec<Location>,
    target: Location,
    /// The base of relative sources.
    base: Option<Location>,
}

/// Locations of the operands. The last operand is the target.
fn ends(values: &Values, operands: &[OsString]) -> Result<TypedEnds, UsageError> {
    let mut sources = locations(values, operands)?;
    let target = sources.pop().ok_or_else(|| UsageError::new("no source given"))?;
    let base = values.last(&flags::DIRBASE).map(parse_operand).transpose()?;
    base.iter().try_for_each(|base| sources.iter_mut().try_for_each(|source| on_base(source, base)))?;
    Ok(TypedEnds { sources, target, base })
}

/// The settings by the options of a copy.
pub fn settings(values: &Values, stderr_is_terminal: bool) -> Result<ResolvedSettings, UsageError> {
    let display = display(values, stderr_is_terminal)?;
    let checksums = checksums(values)?;
    let (checksum, digests) = digests::digests(values)?;
    refuse_contradictions(values)?;
    let digest_existing = checksums.is_some() && digests.of_lines.is_none();
    let options = CopyOptions {
        source: source(values)?,
        metadata: metadata(values)?,
        target: TargetOptions {
            write: WriteOptions {
                overwrite: overwrite(values),
                modes: modes(values)?,
                check_space: !values.is_set(&flags::NOFSCHK),
                striping: values.get(&flags::STRIPE)?.unwrap_or_default(),
            },
            directory: DirectoryOptions { create: values.is_set(&flags::MKDIR), ..DirectoryOptions::default() },
            partial: partial(values),
            delta: delta::rules(values)?,
            sync: sync::options(values)?,
            delete_first: sync::deletes_first(values)?,
        },
        storage: storage(values)?,
        streams: streams(values)?,
        integrity: IntegrityOptions {
            verify: verify(values)?,
            blake3: digests::blake3(values, digest_existing)?,
            digest_existing,
            checksum,
        },
        reports: ReportOptions {
            files: checksums.is_some() || display.reports_files(),
            progress_every: progress_every(values, &display)?,
        },
        cpus: values.get(&flags::CPUS)?.unwrap_or_default(),
        ..CopyOptions::default()
    };
    let time_limit = values.get(&flags::TIMELIMIT)?;
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

fn source(values: &Values) -> Result<SourceOptions, UsageError> {
    let by_default = if values.dialect() == Dialect::Bbcp { Symlinks::Ignore } else { Symlinks::Keep };
    Ok(SourceOptions {
        recursive: values.is_set(&flags::RECURSIVE) || values.is_set(&flags::ARCHIVE),
        symlinks: values.get(&flags::SYMLINKS)?.unwrap_or(by_default),
        judges_operands: values.is_set(&flags::ARCHIVE),
        skip: SkipOptions {
            unreadable: values.is_set(&flags::READABLE),
            empty_directories: values.is_set(&flags::NO_EMPTY_DIRS),
            other_file_systems: values.is_set(&flags::ONE_FILE_SYSTEM),
            ..SkipOptions::default()
        },
        modes: mode_rules(values)?,
        live: LiveSourceOptions {
            refuse_growing: values.is_set(&flags::REFUSE_GROWING),
            ..LiveSourceOptions::default()
        },
        ..SourceOptions::default()
    })
}

/// Without resume, the next run cannot use partial files.
fn partial(values: &Values) -> PartialOptions {
    let resume = !values.is_set(&flags::NO_RESUME);
    let journal_dir = values.last(&flags::JOURNAL_DIR).filter(|dir| !dir.is_empty());
    PartialOptions {
        resume,
        small_journals: values.is_set(&flags::KEEP) || values.is_set(&flags::JOURNAL_DIR),
        keep: resume && !values.is_set(&flags::NO_KEEP),
        journal_dir: journal_dir.map(|dir| dir.as_bytes().to_vec()),
        ..PartialOptions::NONE
    }
}

fn storage(values: &Values) -> Result<StorageOptions, UsageError> {
    let (direct_source, direct_target) = unbuffered(values)?;
    let (source_frames, target_frames) = buffers(values)?;
    let cache = values.get(&flags::CACHE)?.unwrap_or_default();
    Ok(StorageOptions {
        source: StorageRequest { direct: direct_source, cache, under_way: source_frames },
        target: StorageRequest { direct: direct_target, cache, under_way: target_frames },
        fsync: values.get(&flags::FSYNC)?.unwrap_or_default(),
    })
}

fn streams(values: &Values) -> Result<StreamOptions, UsageError> {
    let window = values.get(&flags::WINDOWSZ)?.or(values.get(&flags::FORCED_WINDOW)?);
    Ok(StreamOptions {
        count: if values.is_set(&flags::ORDER) { Some(1) } else { values.get(&flags::STREAMS)? },
        cipher: cipher(values)?,
        compression: values.get(&flags::COMPRESS)?.unwrap_or_default(),
        compresses_zeros: values.is_typed(&flags::COMPRESS),
        frame_bytes: values.get(&flags::FRAME)?.or(buffer_size(values)?),
        rate_bytes_per_s: rate(values)?,
        socket: SocketOptions {
            congestion: congestion(values)?,
            window_bytes: window.map(|(bytes, _)| bytes),
            window_fixed: window.is_some_and(|(_, is_fixed)| is_fixed),
            traffic_class: values.get(&flags::QOS)?.unwrap_or(0),
        },
        network: network(values)?,
        ..StreamOptions::default()
    })
}

fn metrics(values: &Values) -> Result<Option<PathBuf>, UsageError> {
    let file = values.last(&flags::METRICS).map(PathBuf::from);
    match file.as_ref().map(|file| file.to_string_lossy()) {
        Some(name) if name.is_empty() => Err(UsageError::new("--metrics: empty file name")),
        Some(name) if name.parse::<SocketAddr>().is_ok() => {
            Err(UsageError::new(format!("--metrics {name}: is an address, but a copy writes its metrics to a file"))
                .remedy(format!("name a file, such as haul.prom; for a file of that name, write ./{name}")))
        }
        _ => Ok(file),
    }
}

fn report(values: &Values) -> Result<Option<PathBuf>, UsageError> {
    let file = values.last(&flags::REPORT).map(PathBuf::from);
    if let Some(file) = &file {
        ReportFormat::of(file)?;
    }
    Ok(file)
}

/// The interval of progress.
fn progress_every(values: &Values, display: &Display) -> Result<Duration, UsageError> {
    let typed = values.get(&flags::PROGRESS)?.flatten().map(|seconds| Duration::from_secs(seconds.into()));
    Ok(typed.unwrap_or_else(|| display.mode.progress_every()))
}

/// `--unbuffered`: direct I/O at the source and at the target; automatic for an end that is not named. In-order writes
/// use the page cache, since direct I/O has several writes in flight.
fn unbuffered(values: &Values) -> Result<(DirectIo, DirectIo), UsageError> {
    let (auto, always, never) = (DirectIo::Auto, DirectIo::Always, DirectIo::Never);
    let ends = values.argument(&flags::UNBUFFERED);
    let (is_bbcps, in_order) = (values.dialect() == Dialect::Bbcp, values.is_set(&flags::ORDER));
    if in_order && !is_bbcps {
        let source = ends.map(|ends| ends.choice(&[("s", always), ("off", never)])).transpose()?;
        return Ok((source.unwrap_or(auto), never));
    }
    let words = [("s", (always, auto)), ("t", (auto, always)), ("st", (always, always)), ("off", (never, never))];
    let (source, target) = match ends {
        Some(ends) if is_bbcps && ends.value == "ts" => (always, always),
        ends => ends.map_or(Ok((auto, auto)), |ends| ends.choice(&words))?,
    };
    Ok((source, if in_order { never } else { target }))
}

fn rate(values: &Values) -> Result<Option<u64>, UsageError> {
    values.get(&flags::BWLIMIT)?.map_or_else(|| values.get(&flags::XFRRATE), Ok)
}

fn congestion(values: &Values) -> Result<Option<String>, UsageError> {
    let name = values.get(&flags::CONGESTION)?;
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

fn cipher(values: &Values) -> Result<Cipher, UsageError> {
    let named = values.get(&flags::CIPHER)?;
    match (named, values.is_set(&flags::NO_ENCRYPT)) {
        (Some(_), true) => Err(contradiction(&flags::CIPHER, &flags::NO_ENCRYPT)),
        (None, true) => Ok(Cipher::AuthenticateOnly),
        (named, false) => Ok(named.unwrap_or(Cipher::Auto)),
    }
}

/// Read-back needs a file that exists.
fn verify(values: &Values) -> Result<Verify, UsageError> {
    let verify = values.get(&flags::VERIFY)?.unwrap_or_default();
    if (verify, values.get(&flags::FSYNC)?.unwrap_or_default()) == (Verify::Disk, Fsync::None) {
        return Err(UsageError::new(format!(
            "{} disk cannot be used with {} none",
            flags::VERIFY.typed(),
            flags::FSYNC.typed()
        )));
    }
    Ok(verify)
}

fn access(values: &Values, in_turn: bool) -> Result<RemoteAccess, UsageError> {
    let default = RemoteAccess::default();
    Ok(RemoteAccess {
        login: login(values)?,
        target_login: values.at_target().map(login).transpose()?,
        family: family(values, "c")?,
        source_command: command(values, &flags::SOURCE_COMMAND)?,
        target_command: command(values, &flags::TARGET_COMMAND)?,
        in_turn,
        ssh_carries_data: false,
        silence: values.get(&flags::SILENCE)?.unwrap_or(default.silence),
        connect_timeout: values.get(&flags::SILENCE)?.unwrap_or(default.connect_timeout),
        greeting_timeout: None,
        start_timeout: values.get(&flags::SILENCE)?.unwrap_or(default.start_timeout),
        retries: retries(values)?,
    })
}

/// Resolves the login at a host. `--rsh` can only be typed, so it takes precedence.
pub fn login(values: &Values) -> Result<Login, UsageError> {
    let Shell { port: shells_port, identity, config, options } = shell(values)?;
    let port = shells_port.or(values.get(&flags::SSH_PORT)?);
    let ssh_options = [options, values.all(&flags::SSH_OPTION)?].concat();
    if let Some(option) =
        ssh_options.iter().find(|option| option.trim().is_empty() || option.contains(char::is_control))
    {
        return Err(UsageError::new(format!("--ssh-option {}: invalid ssh option", escape(option.as_bytes())))
            .remedy("write it as for ssh -o: --ssh-option ConnectTimeout=10"));
    }
    Ok(Login {
        identity: identity.or(values.last(&flags::IDFILE).map(PathBuf::from)),
        ssh_config: config.or(values.last(&flags::SSH_CONFIG).map(PathBuf::from)),
        port,
        ssh_options,
        deploy: !values.is_set(&flags::NO_DEPLOY),
        worker_binary: values.last(&flags::WORKER_BINARY).map(PathBuf::from),
        remote_dir: values.get(&flags::REMOTE_DIR)?,
        no_ssh_reuse: values.is_set(&flags::NO_SSH_REUSE),
    })
}

/// One limit alone replaces the default. Limits also apply to the first attempt.
fn retries(values: &Values) -> Result<Retries, UsageError> {
    let times = values.get(&flags::RETRIES)?;
    let time = values.get(&flags::RETRY_FOR)?;
    Ok(match (times, time) {
        (None, None) => Retries::default(),
        (times, time) => Retries { times, time, breaks: None, from_the_start: true },
    })
}

fn command(values: &Values, flag: &Flag<Single<String>>) -> Result<Option<String>, UsageError> {
    let command = values.get(flag)?;
    match command {
        Some(command) if command.trim().is_empty() => {
            Err(UsageError::new(format!("{}: the command is empty", flag.typed()))
                .remedy(format!("for example {} 'ssh %I -l %U %H /opt/bin/haul'", flag.typed())))
        }
        Some(command) => {
            let permitted = crate::host_policy::read().check(PolicyRule::NoOwnCommands);
            permitted.map(|()| Some(command)).map_err(|refusal| UsageError::new(format!("{}: {refusal}", flag.typed())))
        }
        None => Ok(None),
    }
}

fn checksums(values: &Values) -> Result<Option<PathBuf>, UsageError> {
    match values.last(&flags::CHECKSUMS) {
        Some(file) if file.is_empty() => Err(UsageError::new("--checksums: empty file name")),
        Some(file) if file == "-" && values.is_set(&flags::JSON) => {
            Err(UsageError::new("--checksums - and --json both write to standard output")
                .remedy("name a file: --checksums FILE"))
        }
        file => Ok(file.map(PathBuf::from)),
    }
}

fn display(values: &Values, stderr_is_terminal: bool) -> Result<Display, UsageError> {
    let (quiet, json) = (values.is_set(&flags::QUIET), values.is_set(&flags::JSON));
    let lines = values.get(&flags::PROGRESS)?.flatten().is_some();
    let verbose = values.first_of(&[&flags::VVERBOSE, &flags::DEBUG, &flags::VERBOSE]);
    if let Some(verbose) = verbose.filter(|_| quiet) {
        return Err(contradiction(&flags::QUIET, verbose));
    }
    if quiet && lines && !json {
        return Err(contradiction(&flags::QUIET, &flags::PROGRESS));
    }
    let dialect = values.dialect();
    let log = log(values)?;
    let tui = details::tui(values, stderr_is_terminal)?;
    let mode = match dialect {
        _ if tui => Mode::Tui,
        Dialect::Bbcp if !json && !quiet => Mode::BbcpLines,
        _ => Mode::of_copy(json, quiet, lines, stderr_is_terminal && log.is_none()),
    };
    let least = match (values.is_set(&flags::DEBUG), values.is_set(&flags::VVERBOSE)) {
        (true, _) => 3,
        (_, true) => 2,
        _ => 0,
    };
    let verbosity = values.count(&flags::VERBOSE).max(least);
    Ok(Display {
        mode,
        verbosity,
        progress_lines: lines,
        program: dialect.program(),
        bits: values.is_set(&flags::BITS),
        has_statistics: values.is_set(&flags::STATS),
        target: None,
        log,
        list: ListForm::default(),
    })
}

/// All sources must share a host, since one worker reads them.
fn check_hosts(sources: &[Location], operands: &[OsString], values: &Values) -> Result<(), UsageError> {
    let Some(first) = sources.first() else { return Ok(()) };
    let Some(other) = sources.iter().find(|source| source.host != first.host) else { return Ok(()) };
    let [first, other] = [first, other].map(|source| host_label(&source.host));
    let error = UsageError::new(format!("sources are on different hosts: {first} and {other}"));
    let error = match operands.last().filter(|_| !values.is_set(&flags::TO)) {
        Some(target) => error.remedy(format!("the last word is the target: {}", escape(target.as_bytes()))),
        None => error,
    };
    Err(match meant_operands(operands) {
        Some(meant) => {
            error.remedy(format!("haul{} {meant}", if values.given().is_empty() { "" } else { " [OPTIONS]" }))
        }
        None => error.remedy("run one copy for each host"),
    })
}

/// Operands that were meant by a line with sources on different hosts: no space behind a colon, a name with a space, or
/// several targets.
fn meant_operands(operands: &[OsString]) -> Option<String> {
    let words: Vec<_> = operands.iter().map(|word| word.to_str()).collect::<Option<_>>()?;
    let is_remote = |word: &str| !host_prefix(OsStr::new(word)).is_empty();
    let is_bare = |word: &str| word.ends_with(':') && is_remote(word);
    let quoted = |words: &[&str]| words.iter().map(|word| quote(word)).collect::<Vec<_>>().join(" ");
    let bare = words.iter().position(|word| is_bare(word)).filter(|at| at + 1 < words.len());
    if let Some(at) = bare.filter(|at| !is_remote(words[at + 1])) {
        let joined = words[at..=at + 1].concat();
        return Some(quoted(&[&words[..at], &[&joined], &words[at + 2..]].concat()));
    }
    let is_missing = |word: &str| !is_remote(word) && Path::new(word).symlink_metadata().is_err();
    let (_, before_last) = words.split_last()?;
    let split = before_last.windows(2).position(|pair| is_remote(pair[0]) && is_missing(pair[1]));
    if let Some(at) = split {
        let whole = words[at..=at + 1].join(" ");
        return Some(quoted(&[&words[..at], &[&whole], &words[at + 2..]].concat()));
    }
    let targets = words.iter().rev().take_while(|word| is_remote(word)).count();
    let (sources, targets) = words.split_at(words.len() - targets);
    let is_plain = targets.iter().all(|target| !target.contains([',', '\\']));
    (!sources.is_empty() && targets.len() > 1 && is_plain)
        .then(|| format!("{} --to {}", quoted(sources), quote(&targets.join(","))))
}

#[cfg(test)]
#[path = "resolve_tests.rs"]
pub mod tests;

//! The second level of arguments: from what was typed to what is to be done.
//!
//! Everything that the engine and the display need is decided here, once.
//! Nothing is looked up on disk or on the network.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use haul_engine::spec::{Access, Cipher, Host, Job, Location, Options, Symlinks};
use haul_proto::path::escape;

use crate::args::UsageError;
use crate::args::operand::parse_operand;
use crate::args::table::typed;
use crate::args::values::Values;

/// Progress as events, unless `-P` says otherwise.
const JSON_PROGRESS_EVERY: Duration = Duration::from_secs(1);
/// Most streams.
pub const MAX_STREAMS: u32 = 256;
/// Longest interval that `-P` takes: a day.
const MAX_PROGRESS_S: u32 = 86_400;

/// A copy, and what is shown of it.
#[derive(Debug)]
pub struct Plan {
    /// What the engine does.
    pub job: Job,
    /// What the user sees.
    pub display: Display,
    /// Where `--checksums` writes; `-` is standard output.
    pub checksums: Option<PathBuf>,
}

/// Everything about a copy except what is copied to where.
#[derive(Debug)]
pub struct Settings {
    /// For the engine.
    pub options: Options,
    /// For the engine.
    pub access: Access,
    /// For the display.
    pub display: Display,
    /// Where `--checksums` writes.
    pub checksums: Option<PathBuf>,
}

/// What the user sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Display {
    /// The form of progress.
    pub mode: Mode,
    /// `-v`.
    pub verbose: bool,
}

/// The form of progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// A bar on the terminal.
    Bar,
    /// None; errors and the summary.
    Plain,
    /// bbcp's lines.
    BbcpLines,
    /// Events on standard output.
    Json,
    /// Errors only.
    Quiet,
}

/// The plan for a copy of `operands`, the last of which is the target.
pub fn plan(values: &Values, operands: &[OsString], stderr_is_terminal: bool) -> Result<Plan, UsageError> {
    let settings = settings(values, stderr_is_terminal)?;
    let mut sources = operands.iter().map(|operand| parse_operand(operand)).collect::<Result<Vec<_>, _>>()?;
    let target = sources.pop().ok_or_else(|| UsageError::new("nothing to copy"))?;
    check_hosts(&sources, &target)?;
    let job = Job { sources, target, options: settings.options, access: settings.access };
    Ok(Plan { job, display: settings.display, checksums: settings.checksums })
}

/// What the options of a copy say.
pub fn settings(values: &Values, stderr_is_terminal: bool) -> Result<Settings, UsageError> {
    let display = display(values, stderr_is_terminal)?;
    let progress_s = values.number("progress", 1..=MAX_PROGRESS_S)?;
    let checksums = checksums(values)?;
    let defaults = Options::default();
    let per_file = checksums.is_some() || matches!(display.mode, Mode::Json | Mode::BbcpLines);
    let options = Options {
        recursive: values.flag("recursive"),
        force: values.flag("force"),
        preserve: values.flag("preserve"),
        symlinks: symlinks(values)?.unwrap_or(defaults.symlinks),
        make_directory: values.flag("mkdir"),
        streams: streams(values)?,
        window_bytes: window(values)?,
        cipher: cipher(values)?,
        frame_bytes: frame(values)?,
        report_files: per_file,
        digest_existing: checksums.is_some(),
        verify_memory: values.choice("verify", &[("memory", ())])?.is_some(),
        progress_every: match progress_s {
            Some(seconds) => Duration::from_secs(seconds.into()),
            None if display.mode == Mode::Json => JSON_PROGRESS_EVERY,
            None => defaults.progress_every,
        },
        ..defaults
    };
    Ok(Settings { options, access: access(values)?, display, checksums })
}

/// `-s`, of a copy or of the demo.
pub fn streams(values: &Values) -> Result<Option<u16>, UsageError> {
    Ok(values.number("streams", 1..=MAX_STREAMS)?.and_then(|streams| u16::try_from(streams).ok()))
}

fn symlinks(values: &Values) -> Result<Option<Symlinks>, UsageError> {
    values.choice("symlinks", &[("keep", Symlinks::Keep), ("follow", Symlinks::Follow), ("ignore", Symlinks::Ignore)])
}

fn window(values: &Values) -> Result<Option<u32>, UsageError> {
    let window = values.size("windowsz", 4 << 10..=1 << 30, "from 4k to 1g")?;
    Ok(window.and_then(|bytes| u32::try_from(bytes).ok()))
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
        (Some(_), true) => Err(contradiction("cipher", "no-encrypt")),
        (None, true) => Ok(Cipher::AuthenticateOnly),
        (named, false) => Ok(named.unwrap_or(Cipher::Auto)),
    }
}

fn access(values: &Values) -> Result<Access, UsageError> {
    let port = values.number("ssh-port", 1..=u16::MAX.into())?;
    let ssh_options = values.texts("ssh-option")?;
    if let Some(option) =
        ssh_options.iter().find(|option| option.trim().is_empty() || option.contains(char::is_control))
    {
        return Err(UsageError::new(format!("--ssh-option {}: not an option of ssh", escape(option.as_bytes())))
            .remedy("write it as ssh's -o takes it: --ssh-option ConnectTimeout=10"));
    }
    Ok(Access {
        identity: values.last("idfile").map(PathBuf::from),
        port: port.and_then(|port| u16::try_from(port).ok()),
        ssh_options,
        source_command: command(values, "source-command")?,
        target_command: command(values, "target-command")?,
        deploy: !values.flag("no-deploy"),
    })
}

fn command(values: &Values, id: &str) -> Result<Option<String>, UsageError> {
    let command = values.text(id)?;
    match command {
        Some(command) if command.trim().is_empty() => {
            Err(UsageError::new(format!("{}: the command is empty", typed(id)))
                .remedy(format!("for example {} 'ssh %I -l %U %H /opt/bin/haul'", typed(id))))
        }
        command => Ok(command),
    }
}

fn checksums(values: &Values) -> Result<Option<PathBuf>, UsageError> {
    match values.last("checksums") {
        Some(file) if file.is_empty() => Err(UsageError::new("--checksums: the name of the file is empty")),
        Some(file) if file == "-" && values.flag("json") => {
            Err(UsageError::new("--checksums - and --json both want standard output").remedy("give --checksums a file"))
        }
        file => Ok(file.map(PathBuf::from)),
    }
}

fn display(values: &Values, stderr_is_terminal: bool) -> Result<Display, UsageError> {
    let (quiet, json) = (values.flag("quiet"), values.flag("json"));
    let (lines, verbose) = (values.last("progress").is_some(), values.count("verbose") > 0);
    if quiet && verbose {
        return Err(contradiction("quiet", "verbose"));
    }
    if quiet && lines && !json {
        return Err(contradiction("quiet", "progress"));
    }
    let mode = match (json, quiet, lines) {
        (true, _, _) => Mode::Json,
        (_, true, _) => Mode::Quiet,
        (_, _, true) => Mode::BbcpLines,
        _ if stderr_is_terminal => Mode::Bar,
        _ => Mode::Plain,
    };
    Ok(Display { mode, verbose })
}

fn contradiction(a: &str, b: &str) -> UsageError {
    UsageError::new(format!("{} and {} contradict each other", typed(a), typed(b))).remedy("leave one of them out")
}

/// One host for all sources, and this machine at one end at least.
fn check_hosts(sources: &[Location], target: &Location) -> Result<(), UsageError> {
    let Some(first) = sources.first() else { return Err(UsageError::new("nothing to copy")) };
    if let Some(other) = sources.iter().find(|source| source.host != first.host) {
        return Err(UsageError::new(format!(
            "the sources are on two hosts: {} and {}",
            shown(&first.host),
            shown(&other.host)
        ))
        .remedy("copy from each host with a command of its own"));
    }
    match (&first.host, &target.host) {
        (Host::Remote { .. }, Host::Remote { .. }) => Err(UsageError::new(format!(
            "{} and {} are both remote: this version copies from or to this machine only",
            shown(&first.host),
            shown(&target.host)
        ))
        .remedy(format!("run haul on one of them: ssh -t {} haul ...", shown(&first.host)))),
        _ => Ok(()),
    }
}

/// A host as the user named it.
pub fn shown(host: &Host) -> String {
    match host {
        Host::Local => "this machine".to_owned(),
        Host::Remote { user: Some(user), name } => escape(format!("{user}@{name}").as_bytes()),
        Host::Remote { user: None, name } => escape(name.as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::parse::{Command, parse};

    fn plan_of(line: &str, terminal: bool) -> Result<Plan, UsageError> {
        match parse(line.split(' ').map(OsString::from).collect(), &|_| false)? {
            Command::Copy(values, operands) => plan(&values, &operands, terminal),
            other => panic!("{other:?}"),
        }
    }

    fn good(line: &str) -> Plan {
        plan_of(line, false).unwrap()
    }

    #[test]
    fn without_options_the_engine_decides() {
        let plan = good("a b h:c");
        assert_eq!(plan.job.sources.len(), 2);
        assert_eq!(plan.job.target.path, PathBuf::from("c"));
        let options = plan.job.options;
        assert_eq!((options.streams, options.window_bytes, options.frame_bytes), (None, None, None));
        assert_eq!((options.cipher, options.symlinks), (Cipher::Auto, Symlinks::Keep));
        assert!(!options.report_files && !options.force && !options.recursive && !options.verify_memory);
        assert!(plan.job.access.deploy);
        assert_eq!(plan.checksums, None);
    }

    #[test]
    fn every_option_reaches_its_setting() {
        let plan = good(
            "-rfpA -@ ignore -s 16 -w 4m --frame 1m --cipher chacha20-poly1305 --verify memory --checksums sums -i key \
             --ssh-port 2222 --ssh-option A=b --no-deploy -S s -T t h:a b",
        );
        let options = plan.job.options;
        assert!(options.recursive && options.force && options.preserve && options.make_directory);
        assert!(options.verify_memory && options.report_files);
        assert_eq!((options.symlinks, options.cipher), (Symlinks::Ignore, Cipher::ChaCha20Poly1305));
        assert_eq!(
            (options.streams, options.window_bytes, options.frame_bytes),
            (Some(16), Some(4 << 20), Some(1 << 20))
        );
        let access = plan.job.access;
        assert_eq!((access.port, access.identity, access.deploy), (Some(2222), Some("key".into()), false));
        assert_eq!((access.source_command.as_deref(), access.target_command.as_deref()), (Some("s"), Some("t")));
        assert_eq!(access.ssh_options, ["A=b"]);
        assert_eq!(plan.checksums, Some("sums".into()));
        assert_eq!(good("--no-encrypt a b").job.options.cipher, Cipher::AuthenticateOnly);
    }

    #[test]
    fn the_display_follows_the_options_and_the_terminal() {
        let mode = |line, terminal| plan_of(line, terminal).unwrap().display.mode;
        assert_eq!(mode("a b", true), Mode::Bar);
        assert_eq!(mode("a b", false), Mode::Plain);
        assert_eq!(mode("-P 2 a b", true), Mode::BbcpLines);
        assert_eq!(mode("--json -P 2 a b", true), Mode::Json);
        assert_eq!(mode("--quiet a b", true), Mode::Quiet);
        assert_eq!(good("-P 2 a b").job.options.progress_every, Duration::from_secs(2));
        assert_eq!(good("--json a b").job.options.progress_every, JSON_PROGRESS_EVERY);
        assert!(good("--json a b").job.options.report_files);
    }

    #[test]
    fn bad_values_name_the_option_and_the_remedy() {
        insta::assert_snapshot!(
            ["-s 0 a b", "-s x a b", "--streams 257 a b", "-w 1kb a b", "-w 1 a b", "--frame 300k a b", "--frame 2m a b",
             "-@ folow a b", "--cipher aes a b", "--cipher auto --no-encrypt a b", "--verify disk a b", "-P 0 a b",
             "--quiet -P 1 a b", "--quiet -v a b", "--checksums - --json a b", "--ssh-port 0 a b", "h:a g:b c",
             "h:a b c", "h:a me@g:b", "--checksums= a b", "-S= a b", "--ssh-option= a b"]
                .map(|line| format!("$ haul {line}\n{}", plan_of(line, false).unwrap_err()))
                .join("\n\n"),
            @r#"
            $ haul -s 0 a b
            --streams 0: needs a whole number from 1 to 256

            $ haul -s x a b
            --streams x: needs a whole number from 1 to 256

            $ haul --streams 257 a b
            --streams 257: needs a whole number from 1 to 256

            $ haul -w 1kb a b
            --windowsz 1kb: needs a size: a whole number, with k, m or g for powers of 1024 (512k, 4m)

            $ haul -w 1 a b
            --windowsz 1: needs a size from 4k to 1g

            $ haul --frame 300k a b
            --frame 300k: needs a size of 256k, 512k or 1m

            $ haul --frame 2m a b
            --frame 2m: needs a size of 256k, 512k or 1m

            $ haul -@ folow a b
            --symlinks folow: not one of keep, follow, ignore
            did you mean --symlinks follow?

            $ haul --cipher aes a b
            --cipher aes: not one of auto, aes-256-gcm, aes-128-gcm, chacha20-poly1305

            $ haul --cipher auto --no-encrypt a b
            --cipher and --no-encrypt contradict each other
            leave one of them out

            $ haul --verify disk a b
            --verify disk: can only be memory

            $ haul -P 0 a b
            --progress 0: needs a whole number from 1 to 86400

            $ haul --quiet -P 1 a b
            --quiet and --progress contradict each other
            leave one of them out

            $ haul --quiet -v a b
            --quiet and --verbose contradict each other
            leave one of them out

            $ haul --checksums - --json a b
            --checksums - and --json both want standard output
            give --checksums a file

            $ haul --ssh-port 0 a b
            --ssh-port 0: needs a whole number from 1 to 65535

            $ haul h:a g:b c
            the sources are on two hosts: h and g
            copy from each host with a command of its own

            $ haul h:a b c
            the sources are on two hosts: h and this machine
            copy from each host with a command of its own

            $ haul h:a me@g:b
            h and me@g are both remote: this version copies from or to this machine only
            run haul on one of them: ssh -t h haul ...

            $ haul --checksums= a b
            --checksums: the name of the file is empty

            $ haul -S= a b
            -S: the command is empty
            for example -S 'ssh %I -l %U %H /opt/bin/haul'

            $ haul --ssh-option= a b
            --ssh-option : not an option of ssh
            write it as ssh's -o takes it: --ssh-option ConnectTimeout=10
            "#
        );
    }
}

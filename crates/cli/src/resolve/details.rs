//! Arguments that have a form of their own, and options that exclude each other.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use haul_engine::job::location::Location;
use haul_engine::job::spec::{ModeOptions, OverwritePolicy};
use haul_proto::limits::{FRAME_MAX, FRAME_MIN, RATE_MIN, UNDER_WAY_MAX};
use haul_proto::path::escape;

use super::sync;
use crate::args::limits::RATE_MAX;
use crate::args::operand::parse_operand;
use crate::args::table::typed;
use crate::args::values::{Values, bad};
use crate::args::{Dialect, UsageError};

/// Pairs of contradictory options. Under bbcp's name, `-p` keeps the source's modes despite `-m`.
pub fn refuse_contradictions(values: &Values) -> Result<(), UsageError> {
    let is_hauls = values.dialect() == Dialect::Haul;
    let pairs = [
        ("force", "omit", is_hauls),
        ("keep", "truncate", true),
        ("keep", "no-keep", true),
        ("append", "no-resume", true),
        ("buffsz", "frame", true),
        ("windowsz", "forced-window", true),
        ("xfrrate", "bwlimit", true),
        ("preserve", "mode", is_hauls),
        ("archive", "mode", is_hauls),
        ("acls", "mode", is_hauls),
    ];
    match pairs.into_iter().find(|(a, b, holds)| *holds && values.flag(a) && values.flag(b)) {
        Some((a, b, _)) => Err(UsageError::contradiction(a, b)),
        None if values.flag("order") && values.last("streams").is_some_and(|streams| streams != "1") && is_hauls => {
            Err(UsageError::new("--order cannot be used with --streams: sequential writing takes one stream"))
        }
        None => {
            match values.last("unbuffered").filter(|ends| values.flag("order") && ends.as_bytes().ends_with(b"t")) {
                Some(ends) if is_hauls => Err(UsageError::new(format!(
                    "--order cannot be used with --unbuffered {}: sequential writing is buffered",
                    escape(ends.as_bytes())
                ))),
                _ => Ok(()),
            }
        }
    }
}

/// `--tui`. It needs a terminal, and a haul that was built with it.
pub fn tui(values: &Values, stderr_is_terminal: bool) -> Result<bool, UsageError> {
    if !values.flag("tui") {
        return Ok(false);
    }
    if !cfg!(feature = "tui") {
        return Err(UsageError::new("--tui: this haul was built without the dashboard")
            .remedy("released executables have it; to build one: cargo build --release --features tui"));
    }
    if let Some(other) = ["json", "quiet"].into_iter().find(|other| values.flag(other)) {
        return Err(UsageError::contradiction("tui", other));
    }
    if values.last("progress").is_some() {
        return Err(UsageError::contradiction("tui", "progress"));
    }
    if !stderr_is_terminal {
        return Err(UsageError::new("--tui needs a terminal, but standard error is not one")
            .remedy("-P 5 prints a progress line every 5 seconds"));
    }
    Ok(true)
}

/// The rule for existing files. bbcp reports any existing file, except with `-a`.
pub fn in_the_way(values: &Values) -> OverwritePolicy {
    match values.dialect() {
        _ if sync::leaves_what_is_there(values) => OverwritePolicy::Omit,
        _ if values.flag("force") && values.flag("delete") => OverwritePolicy::Follow,
        _ if values.flag("force") => OverwritePolicy::Replace,
        Dialect::Bbcp if !values.flag("append") => OverwritePolicy::ReportEqual,
        _ => OverwritePolicy::Report,
    }
}

/// `-m [DIRS/][FILES]`, in octal. Under bbcp's name modes are never the source's, unless `-p` says so.
pub fn modes(values: &Values) -> Result<ModeOptions, UsageError> {
    let (mut file, mut directory) = (None, None);
    if let Some(value) = values.last("mode") {
        let wrong = || {
            bad("mode", value, "must be octal modes, 1 to 7777: of files (640), or of directories and files (750/640)")
        };
        let octal = |text: &str| {
            let digits = (1..=4).contains(&text.len()) && text.bytes().all(|byte| (b'0'..=b'7').contains(&byte));
            let mode = u16::from_str_radix(text, 8).ok().filter(|mode| digits && *mode > 0);
            mode.ok_or_else(wrong)
        };
        match value.to_str().ok_or_else(wrong)?.split_once('/') {
            Some((of_directories, "")) => directory = Some(octal(of_directories)?),
            Some((of_directories, of_files)) => {
                (directory, file) = (Some(octal(of_directories)?), Some(octal(of_files)?));
            }
            None => file = Some(octal(value.to_str().unwrap_or_default())?),
        }
    }
    Ok(match values.dialect() {
        Dialect::Haul => ModeOptions { file, directory, less_umask: false },
        Dialect::Bbcp if file.or(directory).is_some() => {
            ModeOptions { file: file.or(Some(0o644)), directory: directory.or(Some(0o755)), less_umask: false }
        }
        Dialect::Bbcp => ModeOptions { file: Some(0o644), directory: Some(0o755), less_umask: true },
    })
}

/// `-d [user@][host:]BASE`.
pub fn base(values: &Values) -> Result<Option<Location>, UsageError> {
    values.last("dirbase").map(parse_operand).transpose()
}

/// `-w [=]SIZE` and `-U SIZE`: the size, and whether it is to be used even if tuning could do better.
pub fn window(values: &Values) -> Result<(Option<u32>, bool), UsageError> {
    let (id, value) = match (values.last("windowsz"), values.last("forced-window")) {
        (Some(value), _) => ("windowsz", value),
        (_, Some(value)) => ("forced-window", value),
        _ => return Ok((None, false)),
    };
    let fixed = value.as_bytes().strip_prefix(b"=").filter(|_| id == "windowsz");
    let size = fixed.map_or(value, OsStr::from_bytes);
    let bytes = Values::size_of(id, size, 4 << 10..=1 << 30, "from 4k to 1g")?;
    Ok((u32::try_from(bytes).ok(), fixed.is_some() || id == "forced-window"))
}

/// `-q`.
pub fn traffic_class(values: &Values) -> Result<u8, UsageError> {
    Ok(values.number("qos", 0..=255)?.and_then(|class| u8::try_from(class).ok()).unwrap_or(0))
}

/// `-b N` and `-b +N`: frames under way at the source, at the target; 0 where it was not said.
pub fn buffers(values: &Values) -> Result<(u8, u8), UsageError> {
    let mut ends = (0, 0);
    for value in values.each("buffers") {
        let at_target = value.as_bytes().strip_prefix(b"+");
        let number = at_target.map_or(value, OsStr::from_bytes);
        let frames = Values::number_of("buffers", number, 1..=UNDER_WAY_MAX.into())?;
        let frames = u8::try_from(frames).unwrap_or(UNDER_WAY_MAX);
        match at_target {
            Some(_) => ends.1 = frames,
            None => ends.0 = frames,
        }
    }
    Ok(ends)
}

/// `-B SIZE`: files are read and written in frames, and this is the nearest one.
pub fn buffer_size(values: &Values) -> Result<Option<u32>, UsageError> {
    let size = values.size("buffsz", 1 << 10..=1 << 30, "from 1k to 1g")?;
    let nearest = |bytes: u64| {
        let bytes = bytes.clamp(FRAME_MIN.into(), FRAME_MAX.into());
        u32::try_from(1 << bytes.ilog2()).unwrap_or(FRAME_MAX)
    };
    Ok(size.map(nearest))
}

/// rsync's limit: KiB a second where no unit is named; 0 is none.
pub fn bwlimit(value: &OsStr) -> Result<Option<u64>, UsageError> {
    let text = value.to_str().unwrap_or_default();
    let with_unit = if text.bytes().all(|byte| byte.is_ascii_digit()) { format!("{text}k") } else { text.to_owned() };
    match Values::size_of("bwlimit", OsStr::new(&with_unit), 0..=RATE_MAX, "from 1k to 1024g, in bytes a second")? {
        0 => Ok(None),
        rate if rate < RATE_MIN => Err(bad("bwlimit", value, "must be a rate of at least 1k per second")),
        rate => Ok(Some(rate)),
    }
}

/// `-l FILE`.
pub fn log(values: &Values) -> Result<Option<PathBuf>, UsageError> {
    match values.last("logfile") {
        Some(file) if file.is_empty() => Err(UsageError::new(format!("{}: empty file name", typed("logfile")))),
        file => Ok(file.map(PathBuf::from)),
    }
}

/// What `--rsh` says of ssh.
#[derive(Debug, Default)]
pub struct Shell {
    /// `-p`.
    pub port: Option<u32>,
    /// `-i`.
    pub identity: Option<PathBuf>,
    /// `-F`.
    pub config: Option<PathBuf>,
    /// `-o`, each.
    pub options: Vec<String>,
}

/// `--rsh 'ssh -F FILE -p PORT -i KEY -o OPTION'`, as rsync's users write it. Any other command needs `-S` or `-T`, which have
/// placeholders for host and user.
pub fn shell(values: &Values) -> Result<Shell, UsageError> {
    let mut shell = Shell::default();
    let Some(command) = values.text("rsh")? else { return Ok(shell) };
    let other = |what: &str| {
        UsageError::new(format!("--rsh {}: {what}", escape(command.as_bytes())))
            .remedy("only ssh with -F, -p, -i and -o is supported; for other commands, use -S and -T")
    };
    let mut words = command.split_whitespace();
    if words.next().is_none_or(|program| program.rsplit('/').next() != Some("ssh")) {
        return Err(other("not ssh"));
    }
    while let Some(word) = words.next() {
        let (option, attached) = word.split_at_checked(2).unwrap_or((word, ""));
        let argument = if attached.is_empty() { words.next() } else { Some(attached) };
        let Some(argument) = argument else { return Err(other(&format!("{word} needs an argument"))) };
        match option {
            "-p" => shell.port = Some(Values::number_of("rsh", OsStr::new(argument), 1..=u16::MAX.into())?),
            "-i" => shell.identity = Some(argument.into()),
            "-F" => shell.config = Some(argument.into()),
            "-o" => shell.options.push(argument.to_owned()),
            _ => return Err(other(&format!("{word} is not supported"))),
        }
    }
    Ok(shell)
}

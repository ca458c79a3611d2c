//! Arguments with special forms, and mutually exclusive options.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use haul_base::copy::spec::{ModeOptions, OverwritePolicy};
use haul_proto::limits::{FRAME_MAX, FRAME_MIN, MODE_RULES_MAX};
use haul_proto::mode_rules::ModeRule;
use haul_proto::path::escape;

use super::sync;
use crate::args::argument::{Argument, bad};
use crate::args::row::OptionRow;
use crate::args::values::Values;
use crate::args::{Dialect, UsageError, contradiction, flags};

/// Pairs of contradictory options. Under bbcp's name, `-p` keeps the source's modes despite `-m`.
pub fn refuse_contradictions(values: &Values) -> Result<(), UsageError> {
    let is_hauls = values.dialect() == Dialect::Haul;
    let pairs: [(&OptionRow, &OptionRow, bool); 13] = [
        (&flags::FORCE, &flags::OMIT, is_hauls),
        (&flags::KEEP, &flags::TRUNCATE, true),
        (&flags::KEEP, &flags::NO_KEEP, true),
        (&flags::JOURNAL_DIR, &flags::NO_RESUME, true),
        (&flags::BUFFSZ, &flags::FRAME, true),
        (&flags::WINDOWSZ, &flags::FORCED_WINDOW, true),
        (&flags::XFRRATE, &flags::BWLIMIT, true),
        (&flags::PRESERVE, &flags::MODE, is_hauls),
        (&flags::PERMS, &flags::MODE, is_hauls),
        (&flags::ARCHIVE, &flags::MODE, is_hauls),
        (&flags::ACLS, &flags::MODE, is_hauls),
        (&flags::CHMOD, &flags::MODE, true),
        (&flags::CHMOD, &flags::ACLS, true),
    ];
    if let Some((a, b, _)) = pairs.into_iter().find(|(a, b, holds)| *holds && values.is_set(a) && values.is_set(b)) {
        return Err(contradiction(a, b));
    }
    if !is_hauls || !values.is_set(&flags::ORDER) {
        return Ok(());
    }
    if values.get(&flags::STREAMS)?.is_some_and(|streams| streams != 1) {
        return Err(UsageError::new("--order cannot be used with --streams: sequential writing takes one stream"));
    }
    match values.last(&flags::UNBUFFERED).filter(|ends| ends.as_bytes().ends_with(b"t")) {
        Some(ends) => Err(UsageError::new(format!(
            "--order cannot be used with --unbuffered {}: sequential writing is buffered",
            escape(ends.as_bytes())
        ))),
        None => Ok(()),
    }
}

/// `--tui`. It needs a terminal, and a build with the feature.
pub fn tui(values: &Values, stderr_is_terminal: bool) -> Result<bool, UsageError> {
    if !values.is_set(&flags::TUI) {
        return Ok(false);
    }
    if !cfg!(feature = "tui") {
        return Err(UsageError::new("--tui: this haul was built without the dashboard")
            .remedy("released executables have it; to build one: cargo build --release --features tui"));
    }
    if let Some(other) = values.first_of(&[&flags::JSON, &flags::QUIET, &flags::PROGRESS]) {
        return Err(contradiction(&flags::TUI, other));
    }
    if !stderr_is_terminal {
        return Err(UsageError::new("--tui needs a terminal, but standard error is not one")
            .remedy("--progress=5 prints a progress line every 5 seconds"));
    }
    Ok(true)
}

/// The overwrite policy. bbcp reports any existing file, except with `-a`; its `-O` yields to `-f` and `-a`.
pub fn overwrite(values: &Values) -> OverwritePolicy {
    match values.dialect() {
        Dialect::Bbcp if values.is_set(&flags::FORCE) => OverwritePolicy::Replace,
        Dialect::Bbcp if values.is_set(&flags::JOURNAL_DIR) => OverwritePolicy::Report,
        _ if sync::keeps_existing_entries(values) => OverwritePolicy::Omit,
        _ if values.is_set(&flags::FORCE) && values.is_set(&flags::DELETE) => OverwritePolicy::Follow,
        _ if values.first_of(&[&flags::FORCE, &flags::UPDATE]).is_some() => OverwritePolicy::Replace,
        Dialect::Bbcp => OverwritePolicy::ReportEqual,
        _ => OverwritePolicy::Report,
    }
}

/// `-m [DIRS/][FILES]`, in octal. Under bbcp's name modes are never the source's, unless `-p` says so.
pub fn modes(values: &Values) -> Result<ModeOptions, UsageError> {
    let (mut file, mut directory) = (None, None);
    if let Some(value) = values.last(&flags::MODE) {
        let why = "must be octal modes, 1 to 7777: of files (640), or of directories and files (750/640)";
        let wrong = || bad(&flags::MODE, value, why);
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

/// `--chmod RULES`, all of them in order.
pub fn mode_rules(values: &Values) -> Result<Vec<ModeRule>, UsageError> {
    let mut all = Vec::new();
    for rules in values.each(&flags::CHMOD) {
        let parsed = rules.to_str().and_then(|text| ModeRule::parse_all(text, umask()));
        all.extend(
            parsed
                .ok_or_else(|| bad(&flags::CHMOD, rules, "must be rules of chmod, such as D2775,F664 or u+rwX,go-w"))?,
        );
    }
    if all.len() > MODE_RULES_MAX {
        return Err(UsageError::new(format!("--chmod: more than {MODE_RULES_MAX} rules")));
    }
    Ok(all)
}

/// This process's umask. umask(2) reads it only by setting it.
fn umask() -> u16 {
    const COMMON: u16 = 0o022;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    mask.and_then(|mask| u16::from_str_radix(mask.trim(), 8).ok()).unwrap_or(COMMON)
}

/// `-b N` and `-b +N`: frames in flight at the source and at the target; 0 if not given.
pub fn buffers(values: &Values) -> Result<(u8, u8), UsageError> {
    let mut ends = (0, 0);
    for (at_target, frames) in values.all(&flags::BUFFERS)? {
        match at_target {
            true => ends.1 = frames,
            false => ends.0 = frames,
        }
    }
    Ok(ends)
}

/// `-B SIZE`: the nearest frame length.
pub fn buffer_size(values: &Values) -> Result<Option<u32>, UsageError> {
    let size = values.get(&flags::BUFFSZ)?;
    let nearest = |bytes: u64| {
        let bytes = bytes.clamp(FRAME_MIN.into(), FRAME_MAX.into());
        u32::try_from(1 << bytes.ilog2()).unwrap_or(FRAME_MAX)
    };
    Ok(size.map(nearest))
}

/// `-l FILE`.
pub fn log(values: &Values) -> Result<Option<PathBuf>, UsageError> {
    match values.last(&flags::LOGFILE) {
        Some(file) if file.is_empty() => Err(UsageError::new(format!("{}: empty file name", flags::LOGFILE.typed()))),
        file => Ok(file.map(PathBuf::from)),
    }
}

/// ssh's options in `--rsh`.
#[derive(Debug, Default)]
pub struct Shell {
    /// `-p`.
    pub port: Option<u16>,
    /// `-i`.
    pub identity: Option<PathBuf>,
    /// `-F`.
    pub config: Option<PathBuf>,
    /// `-o`, each.
    pub options: Vec<String>,
}

/// `--rsh 'ssh -F FILE -p PORT -i KEY -o OPTION'`, as in rsync. Any other command needs `-S` or `-T`, which have
/// placeholders for host and user.
pub fn shell(values: &Values) -> Result<Shell, UsageError> {
    let mut shell = Shell::default();
    let Some(command) = values.get(&flags::RSH)? else { return Ok(shell) };
    let other = |what: &str| {
        UsageError::new(format!("--rsh {}: {what}", escape(command.as_bytes())))
            .remedy("only ssh with -F, -p, -i and -o is supported; see --source-command and --target-command")
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
            "-p" => {
                let port = Argument { row: &flags::RSH, value: OsStr::new(argument) };
                shell.port = Some(port.number(1..=u16::MAX)?);
            }
            "-i" => shell.identity = Some(argument.into()),
            "-F" => shell.config = Some(argument.into()),
            "-o" => shell.options.push(argument.to_owned()),
            _ => return Err(other(&format!("{word} is not supported"))),
        }
    }
    Ok(shell)
}

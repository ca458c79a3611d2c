//! Command lines of scp, rsync and other programs with another meaning in haul. They are refused with a hint.
//!
//! Only command lines that would do the wrong thing are refused. Each refusal names haul's equivalent.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use haul_base::copy::spec::ChecksumAlgorithm;
use haul_proto::limits::FRAME_MAX;
use haul_proto::path::escape;

use super::argument::bad;
use super::nearest::nearest;
use super::row::OptionRow;
use super::values::Values;
use super::{UsageError, flags};

/// Options of scp and rsync that haul lacks, and their replacements.
const FOREIGN: &[(&str, &str)] = &[
    ("-J", "scp's -J GATE is --ssh-option ProxyJump=GATE"),
    ("-3", "scp's -3 is automatic where the two hosts cannot reach each other: omit it"),
    ("-X", "scp's -X is for sftp; rsync's is --xattrs"),
    ("--files-from", "rsync's --files-from FILE BASE is -I FILE -d BASE"),
    ("--del", "rsync's --del is --delete=during"),
    ("--delete-before", "rsync's --delete-before is --delete=before"),
    ("--delete-during", "rsync's --delete-during is --delete=during"),
    ("--delete-delay", "rsync's --delete-delay is --delete, or --delete=after"),
    ("--delete-after", "rsync's --delete-after is --delete, or --delete=after"),
    ("--size-only", "rsync's --size-only is --compare size"),
    ("--ignore-times", "nearest to rsync's --ignore-times: --compare digest, which compares contents"),
    ("--ignore-non-existing", "rsync's --ignore-non-existing is --existing"),
    ("--itemize-changes", "rsync's --itemize-changes is --items"),
    ("--out-format", "--items lists each created, changed and deleted entry, and --json does so for programs"),
    ("--fuzzy", "nearest to rsync's --fuzzy: --detect-renames, which searches the whole target"),
    ("--backup", "rsync's --backup is --backup-dir DIR, which keeps replaced and deleted files in DIR"),
    ("--suffix", "--backup-dir DIR keeps replaced and deleted files under their own names"),
    ("--copy-dest", "nearest: --link-dest DIR, which hard-links unchanged files"),
    ("--compare-dest", "nearest: --link-dest DIR, which hard-links unchanged files"),
    ("--stats", "the summary is always printed, and --json has every figure"),
    ("--info", "the summary is always printed, and --json has every figure"),
    ("--port", "rsync's --port is for its daemon; ssh's is --ssh-port"),
    ("--whole-file", "rsync's --whole-file is --delta off"),
    ("--human-readable", "figures always have units"),
    ("--owner", "-p preserves mode, owner and group"),
    ("--group", "-p preserves mode, owner and group"),
    ("--perms", "-p preserves mode, owner and group"),
    ("--times", "times are always preserved"),
    ("--links", "symbolic links are kept by default: see --symlinks"),
    ("--copy-links", "rsync's --copy-links is --symlinks follow"),
    ("--relative", "nearest to rsync's --relative: -d BASE, which recreates paths relative to BASE"),
    ("--chmod", "-m 750/640 sets the modes of directories and files"),
    ("--completions", "write haul completions bash, zsh or fish"),
    ("--man", "write haul man"),
];

/// An option with an argument here, and with none or another one in scp or rsync.
struct Habit {
    row: &'static OptionRow,
    is_argument: fn(&str) -> bool,
    needs: &'static str,
    instead: &'static str,
}

const HABITS: [Habit; 7] = [
    habit(&flags::PROGRESS.row, is_number, "a number of seconds", "rsync's -P and --progress are automatic: omit them"),
    habit(&flags::CHECKSUM.row, is_digest, "a digest, for example sha256", "rsync's --checksum is --compare digest"),
    habit(&flags::QOS.row, is_list, "a traffic class, 0 to 255", "scp's and rsync's -q is --quiet"),
    habit(&flags::UNBUFFERED.row, is_ends, "s, t, st or off, for O_DIRECT", "rsync's -u is --update"),
    habit(
        &flags::BUFFERS.row,
        |text| is_number(text.trim_start_matches('+')),
        "a number of frames",
        "rsync's -b is --backup-dir DIR, which keeps replaced and deleted files in DIR",
    ),
    habit(&flags::BUFFSZ.row, begins_with_digit, "a size", "scp's -B is --ssh-option BatchMode=yes"),
    habit(&flags::TIMELIMIT.row, begins_with_digit, "a time", "rsync's -t is automatic: times are always preserved"),
];

const fn habit(
    row: &'static OptionRow,
    is_argument: fn(&str) -> bool,
    needs: &'static str,
    instead: &'static str,
) -> Habit {
    Habit { row, is_argument, needs, instead }
}

/// Shell commands on a host, which ssh runs: `ssh HOST WORD PATH`.
const SHELL_COMMANDS: [&str; 15] =
    ["cat", "chmod", "chown", "df", "du", "find", "ln", "ls", "mkdir", "mv", "rm", "rmdir", "stat", "touch", "tree"];
/// Other programs' words for a copy.
const COPY_COMMANDS: [&str; 14] = [
    "copy", "cp", "download", "fetch", "get", "move", "pull", "push", "put", "receive", "rsync", "scp", "send",
    "upload",
];
/// Other programs' words for a comparison.
const COMPARE_COMMANDS: [&str; 4] = ["check", "cmp", "compare", "diff"];

/// Beginnings and endings of ssh's cipher names.
const SSH_CIPHERS: [&str; 4] = ["-ctr", "-cbc", "-gcm@openssh.com", "-poly1305@openssh.com"];

/// Hint for a file that is not a file of options.
pub const SCPS_COMPRESSION: &str = "scp's -C is automatic where it pays: omit it";

/// The replacement for an option that haul lacks.
pub fn meant_by(shown: &str) -> Option<&'static str> {
    FOREIGN.iter().find(|(option, _)| *option == shown).map(|(_, instead)| *instead)
}

/// The replacement for an option without its argument.
pub fn meant_without_argument(row: &OptionRow) -> Option<&'static str> {
    HABITS.iter().find(|habit| habit.row.is(row)).map(|habit| habit.instead)
}

/// Refuses an argument of an option that has none in scp or rsync.
pub fn refuse_argument(row: &OptionRow, argument: &OsStr) -> Result<(), UsageError> {
    let is_argument = |habit: &&Habit| argument.to_str().is_some_and(habit.is_argument);
    match HABITS.iter().find(|habit| habit.row.is(row)).filter(|habit| !is_argument(habit)) {
        Some(habit) => Err(bad(row, argument, &format!("must be {}", habit.needs)).remedy(habit.instead)),
        None => Ok(()),
    }
}

/// Refuses the letter n: bbcp copies, rsync makes a dry run.
pub fn refuse_letter(row: &OptionRow) -> Result<(), UsageError> {
    match row.is(&flags::NODNS) {
        true => Err(UsageError::new("-n is ambiguous: rsync's is a dry run, bbcp's skips name lookups and copies")
            .remedy("write --dry-run for rsync's, or --nodns for bbcp's")),
        false => Ok(()),
    }
}

/// The replacement for another program's command, if no file has that name. Its arguments name `path` on `host`.
pub fn foreign_command(word: &str, host: &str, path: &Path) -> Option<String> {
    let path = escape(path.as_os_str().as_bytes());
    match word {
        _ if SHELL_COMMANDS.contains(&word) => Some(format!("did you mean ssh {host} {word} {path}?")),
        _ if COPY_COMMANDS.contains(&word) => Some(format!("did you mean haul SOURCE... TARGET, without {word}?")),
        _ if COMPARE_COMMANDS.contains(&word) => Some("did you mean haul verify SOURCE... TARGET?".to_owned()),
        "mirror" => Some("did you mean haul sync SOURCE... TARGET?".to_owned()),
        "continue" | "resume" => Some("rerun the interrupted command: it resumes".to_owned()),
        _ => None,
    }
}

/// Refuses words that bbcp's letters would split into other options.
pub fn refuse_split_words(words: &[OsString], exists: &dyn Fn(&OsStr) -> bool) -> Result<(), UsageError> {
    let before_dashes = || words.iter().take_while(|word| *word != "--").enumerate();
    for (at, word) in before_dashes() {
        let text = word.to_str().unwrap_or_default();
        let next = words.get(at + 1).and_then(|next| next.to_str()).unwrap_or_default();
        if text.strip_prefix("-a").is_some_and(is_rsyncs) {
            return Err(rsyncs_cluster(text));
        }
        if let Some(option) = text.strip_prefix("-o").filter(|option| is_ssh_option(option)) {
            return Err(sshs_option(text, option));
        }
        let error = match (text, next) {
            ("-o", option) if is_ssh_option(option) && !exists(OsStr::new(option)) => sshs_option("-o", option),
            ("-e", shell) if shell == "ssh" || shell.starts_with("ssh ") => {
                meant(&format!("-e {shell:?}: -e takes no argument"), &format!("rsync's -e is --rsh {shell:?}"))
            }
            ("-l", kilobits) if is_number(kilobits) && !exists(OsStr::new(kilobits)) => {
                let rate = kilobits.parse::<u64>().unwrap_or(0).saturating_mul(1000) / 8 / 1024;
                meant(
                    &format!("-l {kilobits}: -l takes the name of a log file"),
                    &format!("scp's limit is -x {}k; for a log file of that name, write ./{kilobits}", rate.max(1)),
                )
            }
            ("-c", cipher) if SSH_CIPHERS.iter().any(|end| cipher.ends_with(end)) => meant(
                &format!("-c {cipher}: -c is compression"),
                "scp's -c is --cipher, with aes-256-gcm, aes-128-gcm or chacha20-poly1305",
            ),
            _ => continue,
        };
        return Err(error);
    }
    Ok(())
}

/// Refuses the argument of scp's `-F` as an operand, and other words that are not operands.
pub fn refuse_operands(
    values: &Values,
    operands: &[OsString],
    exists: &dyn Fn(&OsStr) -> bool,
) -> Result<(), UsageError> {
    if let (Some(file), ..=1) = (values.last(&flags::CONFIG), operands.len()) {
        return Err(meant(
            &format!("-C {}: -C takes a configuration file, and source or target is missing", escape(file.as_bytes())),
            SCPS_COMPRESSION,
        ));
    }
    let is_config =
        |word: &&OsString| word.as_bytes().ends_with(b"ssh_config") || word.as_bytes().ends_with(b".ssh/config");
    match operands.first().filter(is_config) {
        Some(file) if values.is_set(&flags::NOFSCHK) && operands.len() > 2 && exists(file) => {
            let file = escape(file.as_bytes());
            Err(meant(
                &format!("-F {file}: -F takes no argument"),
                &format!("scp's -F is --ssh-config {file}; to copy that file, omit -F"),
            ))
        }
        _ => Ok(()),
    }
}

/// Returns notes on ambiguous command lines, which are still executed.
pub fn notes(values: &Values, is_remote: bool) -> Vec<String> {
    let mut notes = Vec::new();
    let seconds = values.get(&flags::PROGRESS).ok().flatten();
    let seconds = seconds.filter(|_| values.is_typed(&flags::PROGRESS));
    if let Some(seconds) = seconds.filter(|seconds| is_remote && (*seconds == 22 || *seconds >= 1024)) {
        notes.push(format!(
            "-P {seconds} prints progress every {seconds} s; scp's -P, the ssh port, is --ssh-port {seconds}"
        ));
    }
    if let Ok(Some(size)) = values.get(&flags::BUFFSZ)
        && size > FRAME_MAX.into()
    {
        let typed = values.last(&flags::BUFFSZ).unwrap_or_default();
        notes.push(format!("-B {}: the largest block is 1m, which is used", escape(typed.as_bytes())));
    }
    if values.is_typed(&flags::REVERSE) {
        notes.push("-z is bbcp's: the target connects to the source; rsync's -z, compression, is automatic".to_owned());
    }
    notes
}

fn meant(what: &str, instead: &str) -> UsageError {
    UsageError::new(what).remedy(instead)
}

fn rsyncs_cluster(typed: &str) -> UsageError {
    meant(
        &format!("{typed}: single letters are bbcp's here, not rsync's"),
        &format!("in haul sync they are rsync's: haul sync {typed} SOURCE... TARGET"),
    )
}

/// Error for fewer than two operands.
pub fn too_few_for_sync() -> UsageError {
    UsageError::new("haul sync needs a source and a target")
        .remedy("haul sync SOURCE... TARGET makes TARGET/SOURCE match SOURCE")
        .remedy("haul sync SOURCE/ TARGET makes TARGET match SOURCE")
}

fn sshs_option(typed: &str, option: &str) -> UsageError {
    let what = if typed == "-o" { format!("-o {option}") } else { typed.to_owned() };
    meant(&format!("{what}: -o (write sequentially) takes no argument"), &format!("ssh's -o is --ssh-option {option}"))
}

/// Letters behind -a as rsync's: bbcp's -z, -n and -X have other meanings.
fn is_rsyncs(letters: &str) -> bool {
    letters.contains(['z', 'n', 'X']) && letters.bytes().all(|byte| byte.is_ascii_alphabetic())
}

/// Whether this is an option of ssh_config(5): `BatchMode=yes`.
fn is_ssh_option(text: &str) -> bool {
    let name = text.split('=').next().unwrap_or_default();
    name.len() < text.len()
        && name.starts_with(|first: char| first.is_ascii_uppercase())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// Whether this resembles an argument of `--checksum`: `sha256`, `%md5`, `md5=FILE`.
fn is_digest(text: &str) -> bool {
    let name = text.trim_start_matches('%').split('=').next().unwrap_or_default().to_ascii_lowercase();
    let names: Vec<_> = ChecksumAlgorithm::all().map(ChecksumAlgorithm::name).collect();
    text.contains(['%', '=']) || names.contains(&name.as_str()) || nearest(&name, &names).is_some()
}

fn is_list(text: &str) -> bool {
    text.split(',').all(|word| word == "auto" || is_number(word))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn begins_with_digit(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_digit())
}

/// Whether this names ends of a copy.
fn is_ends(text: &str) -> bool {
    text.split(',').all(|ends| ["s", "t", "st", "off", "auto"].contains(&ends))
}

#[cfg(test)]
#[path = "habits_tests.rs"]
mod tests;

//! Words of other programs' users: hints for what haul lacks or calls otherwise.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use haul_base::copy::spec::ChecksumAlgorithm;
use haul_proto::limits::FRAME_MAX;
use haul_proto::path::escape;

use super::local_files::LocalFiles;
use super::nearest::nearest;
use super::values::Values;
use super::{UsageError, flags};

/// Long options of other programs, and what to write instead. Those of rsync are in [`super::rsync`].
const OPTIONS: &[(&str, &str)] = &[
    ("--append", "partial copies resume by themselves; --journal-dir DIR moves their journals"),
    ("--checkers", "haul reads directories in parallel by itself"),
    ("--completions", "haul completions bash, zsh or fish"),
    ("--continue", "rerun the command: it resumes"),
    ("--insecure", "--no-encrypt only authenticates; there is no copy without authentication"),
    ("--jobs", "--streams N sets the number of parallel streams"),
    ("--man", "haul man"),
    ("--no-checksum", "data is always checked; that costs no round trip"),
    ("--no-verify", "data is always checked; that costs no round trip"),
    ("--overwrite", "-f overwrites existing files that differ"),
    ("--parallel", "--streams N sets the number of parallel streams"),
    ("--password", "haul logs in with ssh, which asks; --secret-file FILE is for haul://HOST"),
    ("--range", "a copy moves whole files; haul read --range OFFSET+LENGTH HOST:PATH prints a part of one"),
    ("--resume", "rerun the command: it resumes"),
    ("--retry", "--retries N, or --retry-for TIME"),
    ("--silent", "-q prints errors only"),
    ("--threads", "--streams N sets the number of parallel streams"),
    ("--transfers", "--streams N sets the number of parallel streams"),
];

/// Commands of other programs, and what to write instead.
const COMMANDS: &[(&[&str], &str)] = &[
    (
        &["copy", "copyto", "cp", "download", "fetch", "get", "move", "pull", "push", "put", "transfer", "upload"],
        "haul SOURCE... TARGET copies: omit that word",
    ),
    (&["send", "share"], "haul SOURCE... HOST:PATH copies by ssh; without ssh, haul serve DIR on the receiving host"),
    (&["daemon", "receive", "recv", "server"], "haul serve DIR accepts transfers without ssh"),
    (&["check", "cmp", "compare", "diff"], "haul verify SOURCE... TARGET compares"),
    (&["bisync", "mirror"], "haul sync SOURCE... TARGET makes TARGET match SOURCE"),
    (&["continue", "restart", "resume"], "rerun the interrupted command: it resumes"),
    (
        &["bench", "benchmark", "iperf", "iperf3", "nuttcp", "ping", "speedtest", "test"],
        "haul net HOST measures the network, haul probe HOST:PATH the disks as well",
    ),
    (&["list", "ps"], "haul jobs shows jobs and detached copies, haul status PATH partial files"),
    (&["cancel", "stop"], "Ctrl-C stops a copy, haul copies cancel NAME a detached one, haul job cancel JOB a job"),
    (&["attach", "log", "logs", "rerun"], "haul copies attach|log|cancel|rerun NAME is about a detached copy"),
    (&["cat"], "haul read HOST:PATH prints a file"),
    (&["dir", "lsd", "lsl"], "haul ls HOST:PATH lists a directory"),
    (&["delete", "deletefile", "purge", "unlink"], "haul rm HOST:PATH deletes a file, haul rm -r a directory"),
    (&["monitor", "top", "watch"], "--tui shows a copy as a dashboard"),
    (&["info", "about"], "haul version, haul config or haul survey PATH"),
    (&["login", "ssh"], "haul logs in with ssh: name the host in SOURCE or TARGET"),
    (&["self-update", "update", "upgrade"], "install a newer package of haul"),
    (&["estimate", "exists", "size"], "haul du HOST:PATH sums up, haul survey PATH summarises what a copy would move"),
];

/// Commands on a host, which ssh runs.
const SHELL_COMMANDS: [&str; 10] = ["chmod", "chown", "df", "find", "ln", "mv", "rmdir", "stat", "touch", "tree"];

/// The replacement for an option that haul lacks.
pub fn meant_by(shown: &str) -> Option<&'static str> {
    OPTIONS.iter().find(|(option, _)| *option == shown).map(|(_, instead)| *instead)
}

/// The replacement for a command that haul lacks. Its argument is `path` on `host`, if there is one.
pub fn meant_by_command(word: &str, place: Option<(&str, &OsStr)>) -> Option<String> {
    if SHELL_COMMANDS.contains(&word) {
        return Some(match place {
            // The shell there would expand other characters.
            Some((host, path)) if is_plain(path) => {
                format!("ssh {host} {word} {}", path.to_string_lossy())
            }
            _ => format!("ssh HOST {word} PATH"),
        });
    }
    COMMANDS.iter().find(|(words, _)| words.contains(&word)).map(|(_, instead)| (*instead).to_owned())
}

/// Whether no shell gives another meaning to a path.
fn is_plain(path: &OsStr) -> bool {
    path.as_bytes().iter().all(|byte| byte.is_ascii_alphanumeric() || b"/._-+,@%~".contains(byte))
}

/// Whether this resembles an argument of `--checksum`: `sha256`, `%md5`, `md5=FILE`.
pub fn is_digest(word: &OsString) -> bool {
    let Some(text) = word.to_str() else { return false };
    let name = text.trim_start_matches('%').split('=').next().unwrap_or_default().to_ascii_lowercase();
    let names: Vec<_> = ChecksumAlgorithm::all().map(ChecksumAlgorithm::name).collect();
    text.contains(['%', '=']) || names.contains(&name.as_str()) || nearest(&name, &names).is_some()
}

/// Returns notes on command lines that are executed, but not to the letter.
pub fn notes(values: &Values) -> Vec<String> {
    let size = values.get(&flags::BUFFSZ).ok().flatten().filter(|size| *size > FRAME_MAX.into());
    let typed = || escape(values.last(&flags::BUFFSZ).unwrap_or_default().as_bytes());
    size.map(|_| format!("--buffsz {}: the largest block is 1m, which is used", typed())).into_iter().collect()
}

/// Error for bbftp's command lines, whose options would be bbcp's.
pub fn of_bbftp() -> UsageError {
    UsageError::new("haul has no commands of bbftp")
        .remedy("haul --pairs FILE copies what FILE lists, a source and a target on each line")
}

/// Error for fewer than two operands.
pub fn too_few_for_sync() -> UsageError {
    UsageError::new("haul sync needs a source and a target")
        .remedy("haul sync SOURCE... TARGET makes TARGET/SOURCE match SOURCE")
        .remedy("haul sync SOURCE/ TARGET makes TARGET match SOURCE")
}

/// A command line with too few operands: the option that took one of them, if any.
pub fn taken_operand(values: &Values, files: &dyn LocalFiles) -> Option<String> {
    let is_operand = |word: &OsStr| {
        let bytes = word.as_bytes();
        files.exists(word) || bytes.contains(&b':') || bytes.ends_with(b"/")
    };
    let mut given = values.given().iter().filter_map(|(row, argument)| Some((row, argument.as_deref()?)));
    let (row, word) = given.find(|(_, argument)| is_operand(argument))?;
    Some(format!("{} took {} as its argument", row.typed(), escape(word.as_bytes())))
}

#[cfg(test)]
#[path = "habits_tests.rs"]
mod tests;

//! Words of other programs' users: hints for what haul lacks or calls otherwise.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use haul_base::copy::location::{Host, Location};
use haul_base::copy::spec::ChecksumAlgorithm;
use haul_base::shell_word::quote;
use haul_control::operand::{host_label, parse_operand};
use haul_proto::limits::FRAME_MAX;
use haul_proto::path::escape;

use super::letters::NO_PORT_MAX;
use super::local_files::LocalFiles;
use super::nearest::nearest;
use super::values::Values;
use super::{UsageError, flags};

const COLOURS: &str = "terminals get colours: NO_COLOR=1 turns them off, CLICOLOR_FORCE=1 on";

/// Long options of other programs, and what to write instead. Those of rsync are in [`super::rsync`].
const OPTIONS: &[(&str, &str)] = &[
    ("--append", "partial copies resume by themselves; --journal-dir DIR moves their journals"),
    ("--bg", "--detach runs the copy in the background; haul copies lists such copies"),
    ("--background", "--detach runs the copy in the background; haul copies lists such copies"),
    ("--checkers", "haul reads directories in parallel by itself"),
    ("--color", COLOURS),
    ("--colour", COLOURS),
    ("--completions", "haul completions bash, zsh or fish"),
    ("--concurrency", "--streams N sets the number of parallel streams"),
    ("--connect-timeout", "-o ConnectTimeout=SECONDS limits the login"),
    ("--connections", "--streams N sets the number of parallel streams"),
    ("--continue", "rerun the command: it resumes"),
    ("--create-dirs", "--mkdir creates missing directories"),
    ("--fast-list", "omit it: haul lists directories while it copies"),
    ("--find-renames", "--detect-renames uses renamed files on the target"),
    ("--follow", "-L follows symbolic links; --realtime follows a growing file"),
    ("--follow-symlinks", "-L follows symbolic links"),
    ("--from-file", "--infiles FILE copies the paths that FILE lists, --pairs FILE sources and targets"),
    ("--hash", "--checksum ALG prints digests, such as --checksum sha256"),
    ("--host", "HOST:PATH, or USER@HOST:PATH, is a path on a host"),
    ("--identity", "-i KEY names ssh's private key"),
    ("--identity-file", "-i KEY names ssh's private key"),
    ("--ignore-checksum", "data is always checked; that costs no round trip"),
    ("--insecure", "--no-encrypt only authenticates; there is no copy without authentication"),
    ("--jobs", "--streams N sets the number of parallel streams"),
    ("--key", "-i KEY names ssh's private key"),
    ("--limit", "--bwlimit RATE limits the rate: 50m (MiB/s), 400Mbit/s"),
    ("--limit-rate", "--bwlimit RATE limits the rate: 50m (MiB/s), 400Mbit/s"),
    ("--log", "--logfile FILE appends messages to FILE"),
    ("--low-level-retries", "--retries N, or --retry-for TIME"),
    ("--ls", "haul ls PATH lists a directory"),
    ("--man", "haul man"),
    ("--max-age", "--newer WHEN copies files modified since then: --newer 7d"),
    ("--max-rate", "--bwlimit RATE limits the rate: 50m (MiB/s), 400Mbit/s"),
    ("--md5", "--checksum md5 prints digests"),
    ("--min-age", "--older WHEN copies files modified before then: --older 7d"),
    ("--mirror", "haul sync --delete SOURCE/ TARGET makes TARGET match SOURCE"),
    ("--move", "--remove-source-files deletes source files once they are copied"),
    ("--mtime", "omit it: times are always preserved"),
    ("--multi-thread-streams", "--streams N sets the number of parallel streams"),
    ("--no-color", COLOURS),
    ("--no-checksum", "data is always checked; that costs no round trip"),
    ("--no-clobber", "omit it: existing files are replaced only with -f"),
    ("--no-preserve", "-r alone preserves times only; --no-owner and the like undo parts of -a"),
    ("--no-verify", "data is always checked; that costs no round trip"),
    ("--overwrite", "-f overwrites existing files that differ"),
    ("--parallel", "--streams N sets the number of parallel streams"),
    ("--password", "haul logs in with ssh, which asks; --secret-file FILE is for haul://HOST"),
    ("--preserve-permissions", "-p preserves modes, -a modes, owners and groups"),
    ("--range", "a copy moves whole files; haul read --range OFFSET+LENGTH HOST:PATH prints a part of one"),
    ("--rate", "--bwlimit RATE limits the rate: 50m (MiB/s), 400Mbit/s"),
    ("--reflink", "omit it: a copy within a file system shares blocks where it can"),
    ("--resume", "rerun the command: it resumes"),
    ("--retry", "--retries N, or --retry-for TIME"),
    ("--serve", "haul serve DIR accepts transfers without ssh"),
    ("--sha256", "--checksum sha256 prints digests"),
    ("--silent", "-q prints errors only"),
    ("--skip-verify", "data is always checked; that costs no round trip"),
    ("--skip-existing", "--omit skips files that exist on the target"),
    ("--speed", "--bwlimit RATE limits the rate: 50m (MiB/s), 400Mbit/s"),
    ("--sudo", "--target-command 'ssh %U@%H sudo /usr/bin/haul' starts an installed haul as root at the target"),
    ("--sync", "haul sync SOURCE... TARGET makes TARGET match SOURCE"),
    ("--tar", "haul copies directories itself, with -r; tar's output goes into haul - HOST:FILE"),
    ("--threads", "--streams N sets the number of parallel streams"),
    ("--throttle", "--bwlimit RATE limits the rate: 50m (MiB/s), 400Mbit/s"),
    ("--transfers", "--streams N sets the number of parallel streams"),
    ("--time", "haul net --duration TIME measures for TIME; times of files are always preserved"),
    ("--tries", "--retries N, or --retry-for TIME"),
    ("--twoway", "haul twoway A B synchronises both ways"),
    ("--user", "USER@HOST:PATH names the user"),
    ("--workers", "--streams N sets the number of parallel streams"),
    ("--yes", "omit it: a copy asks nothing; -f overwrites existing files that differ"),
];

/// Commands of other programs, and what to write instead.
const COMMANDS: &[(&[&str], &str)] = &[
    (
        &["copy", "copyto", "cp", "download", "fetch", "get", "pull", "push", "put", "transfer", "upload"],
        "haul SOURCE... TARGET copies: omit that word",
    ),
    (&["send", "share"], "haul SOURCE... HOST:PATH copies by ssh; without ssh, haul serve DIR on the receiving host"),
    (&["daemon", "receive", "recv", "server"], "haul serve DIR accepts transfers without ssh"),
    (&["check", "cmp", "compare", "diff"], "haul verify SOURCE... TARGET compares"),
    (&["mirror"], "haul sync SOURCE... TARGET makes TARGET match SOURCE"),
    (&["bisync", "unison"], "haul twoway A B synchronises both ways"),
    (&["continue", "restart", "resume"], "rerun the interrupted command: it resumes"),
    (
        &["bench", "benchmark", "iperf", "iperf3", "nuttcp", "ping", "speedtest", "test"],
        "haul net HOST measures the network, haul probe HOST:PATH the disks as well",
    ),
    (&["list", "ps"], "haul jobs shows jobs and detached copies, haul status PATH partial files"),
    (
        &["abort", "cancel", "kill", "stop"],
        "Ctrl-C stops a copy, haul copies cancel NAME a detached one, haul job cancel JOB a job",
    ),
    (&["attach", "log", "logs", "rerun"], "haul copies attach|log|cancel|rerun NAME is about a detached copy"),
    (
        &["checksum", "hash", "hashsum"],
        "--checksum md5 prints digests during a copy; ssh HOST md5sum PATH prints those of files there",
    ),
    (&["completion", "complete"], "haul completions bash, zsh or fish"),
    (&["undo", "revert"], "haul keeps replaced files only with --backup or --backup-dir DIR"),
    (&["mount"], "haul mounts nothing: haul ls lists files, haul read prints them; sshfs mounts"),
    (&["link"], "--link-dest DIR hard-links unchanged files; on a host: ssh HOST ln PATH PATH"),
    (&["cat"], "haul read HOST:PATH prints a file"),
    (&["dir", "lsd", "lsf", "lsjson", "lsl"], "haul ls HOST:PATH lists a directory"),
    (&["delete", "deletefile", "purge", "unlink"], "haul rm HOST:PATH deletes a file, haul rm -r a directory"),
    (&["monitor", "top", "watch"], "--tui shows a copy as a dashboard"),
    (&["about", "free"], "ssh HOST df -h PATH shows free space; haul version tells about haul"),
    (&["info"], "haul version, haul config or haul survey PATH"),
    (&["login", "ssh"], "haul logs in with ssh: name the host in SOURCE or TARGET"),
    (&["self-update", "update", "upgrade"], "install a newer package of haul"),
    (&["exists"], "haul ls HOST:PATH lists what is there"),
    (&["estimate", "size"], "haul du HOST:PATH sums up, haul survey PATH summarises what a copy would move"),
];

/// Commands on a host, which ssh runs.
const SHELL_COMMANDS: [&str; 19] = [
    "chmod",
    "chown",
    "df",
    "find",
    "head",
    "ln",
    "md5sum",
    "mv",
    "ncdu",
    "quota",
    "rmdir",
    "sha1sum",
    "sha256sum",
    "sha512sum",
    "stat",
    "tail",
    "touch",
    "tree",
    "wc",
];
/// Commands that move files, also between hosts.
const MOVES: [&str; 4] = ["move", "moveto", "mv", "rename"];

/// The replacement for an option that haul lacks.
pub fn meant_by(shown: &str) -> Option<&'static str> {
    OPTIONS.iter().find(|(option, _)| *option == shown).map(|(_, instead)| *instead)
}

/// What shows the effect of a command that deletes, in place of its dry run or its questions.
pub fn instead_of_guard(command: &str, option: &OsStr) -> Option<&'static str> {
    let is_guard = option == "--dry-run" || option == "--items";
    let shown =
        [("clean", "haul status PATH lists what haul clean deletes"), ("rm", "haul ls PATH lists what is there")];
    shown.into_iter().find(|(name, _)| *name == command && is_guard).map(|(_, instead)| instead)
}

/// The replacement for a command that haul lacks, with `arguments`; `has_options` beside them.
pub fn meant_by_command(word: &str, arguments: &[OsString], has_options: bool) -> Option<String> {
    let is_move = MOVES.contains(&word);
    if is_move || SHELL_COMMANDS.contains(&word) {
        let command = if is_move { "mv" } else { word };
        let (words, paths) = arguments.split_at(arguments.len().min(usize::from(word.starts_with("ch"))));
        let on_host = on_one_host(words, paths).filter(|_| !has_options && paths.len() > usize::from(is_move));
        return Some(match on_host {
            Some((host, paths)) => format!("ssh {host} {command} {}", paths.join(" ")),
            None if is_move && arguments.len() > 1 && !has_options => {
                let words: Vec<_> = arguments.iter().map(|word| quote(&word.to_string_lossy())).collect();
                format!("haul --remove-source-files {}", words.join(" "))
            }
            None if is_move => "haul --remove-source-files SOURCE... TARGET moves".to_owned(),
            None => format!("ssh HOST {command} PATH"),
        });
    }
    COMMANDS.iter().find(|(words, _)| words.contains(&word)).map(|(_, instead)| (*instead).to_owned())
}

/// The host of all operands, if it is one, with their paths. `words` come before them, such as a mode.
fn on_one_host(words: &[OsString], operands: &[OsString]) -> Option<(String, Vec<String>)> {
    let places = operands.iter().map(|operand| parse_operand(operand).ok()).collect::<Option<Vec<_>>>()?;
    let host = &places.first()?.host;
    let is_there = |place: &Location| place.host == *host && matches!(host, Host::Remote { .. });
    let paths = words.iter().map(OsString::as_os_str).chain(places.iter().map(|place| place.path.as_os_str()));
    // The shell there would expand other characters.
    let plain: Option<Vec<_>> = paths.map(|path| path.to_str().filter(|_| is_plain(path)).map(str::to_owned)).collect();
    plain.filter(|_| places.iter().all(is_there)).map(|paths| (host_label(host), paths))
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

/// iperf's letters in `haul net`, whose own mean something else, and what to write instead.
const IPERF: [(char, &str); 5] = [
    ('R', "--reverse"),
    ('t', "--duration TIME"),
    ('P', "--streams N"),
    ('b', "--bwlimit RATE"),
    ('c', "omit it: haul net HOST"),
];

/// Error for iperf's letters. A number after `-P` that is no usual port is one of streams.
pub fn of_iperf(words: &[OsString]) -> Option<UsageError> {
    words.iter().enumerate().find_map(|(at, word)| {
        let (letter, attached) = word.to_str()?.strip_prefix('-')?.split_at_checked(1)?;
        let (letter, instead) = IPERF.iter().find(|(known, _)| letter.starts_with(*known))?;
        let argument =
            if attached.is_empty() { words.get(at + 1).and_then(|next| next.to_str()) } else { Some(attached) };
        let is_port = argument.and_then(|argument| argument.parse().ok()).is_none_or(|port: u16| port > NO_PORT_MAX);
        let is_group = !attached.is_empty() && !attached.starts_with(|c: char| c.is_ascii_digit());
        (!is_group && (*letter != 'P' || !is_port)).then(|| {
            UsageError::new(format!("-{letter} is no option of haul net"))
                .remedy(format!("iperf's -{letter}: {instead}"))
        })
    })
}

/// Error for bbftp's command lines, whose options would be bbcp's.
pub fn of_bbftp() -> UsageError {
    UsageError::new("haul has no commands of bbftp")
        .remedy("haul --pairs FILE copies what FILE lists, a source and a target on each line")
}

/// Error for fewer than two operands, one of which an option has perhaps taken.
pub fn too_few_for_sync(taken: Option<String>) -> UsageError {
    let error = UsageError::new("haul sync needs a source and a target");
    match taken {
        Some(taken) => error.remedy(taken),
        None => error
            .remedy("haul sync SOURCE... TARGET makes TARGET/SOURCE match SOURCE")
            .remedy("haul sync SOURCE/ TARGET makes TARGET match SOURCE"),
    }
}

/// A command line with too few operands: the option that took one of them, if any.
pub fn taken_operand(values: &Values, files: &dyn LocalFiles) -> Option<String> {
    let is_operand = |word: &OsStr| {
        let bytes = word.as_bytes();
        files.exists(word) || bytes.contains(&b':') || bytes.ends_with(b"/")
    };
    let mut given = values.given().iter().filter_map(|(row, argument)| Some((row, argument.as_deref()?)));
    let (row, word) = given.find(|(_, argument)| is_operand(argument))?;
    let argument = row.argument();
    Some(format!("{} took {} as its {}", row.typed(), escape(word.as_bytes()), argument.trim_start()))
}

#[cfg(test)]
#[path = "habits_tests.rs"]
mod tests;

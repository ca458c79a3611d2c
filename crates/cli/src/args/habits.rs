//! What people type who know scp and rsync, where bbcp's letters mean something else: said instead of done.
//!
//! Only what would go wrong without a word is refused here. Everything has the line of haul that was meant.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use haul_engine::job::spec::ChecksumAlgorithm;
use haul_proto::path::escape;

use super::UsageError;
use super::nearest::nearest;
use super::values::Values;

/// Options of scp and rsync that haul does not have, and what to type instead.
const FOREIGN: &[(&str, &str)] = &[
    ("-J", "scp's -J GATE is --ssh-option ProxyJump=GATE"),
    ("-3", "scp's -3 is what haul does where the two hosts cannot reach each other: leave it out"),
    ("-X", "scp's -X is for sftp; rsync's is --xattrs"),
    ("--files-from", "-I FILE -d BASE names what is below BASE in a list; rsync's --files-from FILE BASE"),
    ("--delete-before", "rsync's --delete-before is --delete=before"),
    ("--delete-during", "rsync's --delete-during is --delete=during"),
    ("--delete-delay", "rsync's --delete-delay is --delete, or --delete=after"),
    ("--delete-after", "rsync's --delete-after is --delete, or --delete=after"),
    ("--size-only", "rsync's --size-only is --compare size"),
    ("--ignore-times", "rsync's --ignore-times is next to --compare digest: what is in the files decides"),
    ("--ignore-non-existing", "rsync's --ignore-non-existing is --existing"),
    ("--itemize-changes", "rsync's --itemize-changes is --items"),
    ("--out-format", "--items says what is made, changed and removed, and --json the same for programs"),
    ("--fuzzy", "rsync's --fuzzy is --detect-renames, which looks in all of the target"),
    ("--suffix", "--backup-dir DIR keeps what is replaced or removed, under its own name"),
    ("--copy-dest", "--link-dest DIR makes names of files that are the same there"),
    ("--compare-dest", "--link-dest DIR makes names of files that are the same there"),
    ("--stats", "the summary is always shown, and --json has all of it"),
    ("--info", "the summary is always shown, and --json has all of it"),
    ("--port", "rsync's --port is for a daemon; ssh's port is --ssh-port"),
    ("--whole-file", "haul sends whole files, or what an interrupted copy still lacks"),
    ("--human-readable", "figures always have their units"),
    ("--owner", "-p keeps mode, owner and group"),
    ("--group", "-p keeps mode, owner and group"),
    ("--perms", "-p keeps mode, owner and group"),
    ("--times", "times are always kept"),
    ("--links", "links in directories are kept; see --symlinks"),
    ("--copy-links", "--symlinks follow"),
    ("--relative", "rsync's -R is -d BASE: paths below BASE are made anew below the target"),
    ("--chmod", "-m 750/640 sets modes of directories and of files"),
];

/// Ciphers by the names that ssh has for them begin or end like this.
const SSH_CIPHERS: [&str; 4] = ["-ctr", "-cbc", "-gcm@openssh.com", "-poly1305@openssh.com"];

/// Where a file of options is none, perhaps this was meant.
pub const SCPS_COMPRESSION: &str = "scp's -C is what haul does anyway where it pays: leave it out";

/// What to type instead of an option that haul does not have.
pub fn meant_by(shown: &str) -> Option<&'static str> {
    FOREIGN.iter().find(|(option, _)| *option == shown).map(|(_, instead)| *instead)
}

/// Refuses words that bbcp's letters would take apart into something else.
pub fn refuse_words(words: &[OsString], exists: &dyn Fn(&OsStr) -> bool) -> Result<(), UsageError> {
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
                meant(&format!("-e {shell:?}: -e takes no argument here"), &format!("rsync's -e is --rsh {shell:?}"))
            }
            ("-l", kilobits) if is_number(kilobits) && !exists(OsStr::new(kilobits)) => {
                let rate = kilobits.parse::<u64>().unwrap_or(0).saturating_mul(1000) / 8 / 1024;
                meant(
                    &format!("-l {kilobits}: -l is the name of a file for what is shown"),
                    &format!("scp's limit is -x {}k; a file of that name is written ./{kilobits}", rate.max(1)),
                )
            }
            ("-c", cipher) if SSH_CIPHERS.iter().any(|end| cipher.ends_with(end)) => meant(
                &format!("-c {cipher}: -c is for compression"),
                "scp's -c is --cipher, with aes-256-gcm, aes-128-gcm or chacha20-poly1305",
            ),
            ("-P", operand) if is_operand(operand) => meant(
                &format!("-P {operand}: needs a number of seconds"),
                "rsync's -P is what haul does anyway: leave it out",
            ),
            ("--progress", operand) if is_operand(operand) => meant(
                &format!("--progress {operand}: needs a number of seconds"),
                "rsync's --progress is what haul does anyway on a terminal: leave it out",
            ),
            ("-q", operand) if is_operand(operand) => {
                meant(&format!("-q {operand}: needs a traffic class, 0 to 255"), "scp's and rsync's -q is --quiet")
            }
            ("-u", operand) if is_operand(operand) && !["s", "t", "st", "off"].contains(&operand) => {
                meant(&format!("-u {operand}: needs s, t, st or off, for O_DIRECT"), "rsync's -u is --update")
            }
            ("-b", operand) if is_operand(operand) => meant(
                &format!("-b {operand}: needs a number of frames"),
                "rsync's -b is --backup-dir DIR: what is replaced or removed goes there",
            ),
            ("--del", _) => meant("--del: this could be several options", "rsync's --del is --delete=during"),
            ("--backup", _) => {
                meant("--backup: haul keeps what is replaced or removed in a directory", "name it: --backup-dir DIR")
            }
            ("--checksum", operand) if is_operand(operand) && !is_digest(operand) => meant(
                &format!("--checksum {operand}: needs a digest, such as sha256, that is printed of each file"),
                "rsync's --checksum is --compare digest",
            ),
            ("-B", operand) if is_operand(operand) => {
                meant(&format!("-B {operand}: needs a size"), "scp's -B is --ssh-option BatchMode=yes")
            }
            _ => continue,
        };
        return Err(error);
    }
    Ok(())
}

/// Refuses a file that scp's `-F` would have had as an argument, and other operands that are none.
pub fn refuse_operands(
    values: &Values,
    operands: &[OsString],
    exists: &dyn Fn(&OsStr) -> bool,
) -> Result<(), UsageError> {
    if let (Some(file), ..=1) = (values.last("config"), operands.len()) {
        return Err(meant(
            &format!(
                "-C {}: -C is a file of options, and what is to be copied where is missing",
                escape(file.as_bytes())
            ),
            SCPS_COMPRESSION,
        ));
    }
    let is_config =
        |word: &&OsString| word.as_bytes().ends_with(b"ssh_config") || word.as_bytes().ends_with(b".ssh/config");
    match operands.first().filter(is_config) {
        Some(file) if values.flag("nofschk") && operands.len() > 2 && exists(file) => {
            let file = escape(file.as_bytes());
            Err(meant(
                &format!("-F {file}: -F takes no argument here"),
                &format!(
                    "scp's -F is -T 'ssh -F {file} -l %U %H haul' (-S for a remote source); to copy that file, leave -F out"
                ),
            ))
        }
        _ => Ok(()),
    }
}

/// What is worth a line though it is done: where it may be something else than was meant.
pub fn notes(values: &Values, is_remote: bool) -> Vec<String> {
    let mut notes = Vec::new();
    let seconds = values.last("progress").and_then(|seconds| seconds.to_str()?.parse::<u32>().ok());
    let seconds = seconds.filter(|_| values.is_typed("progress"));
    if let Some(seconds) = seconds.filter(|seconds| is_remote && (*seconds == 22 || *seconds >= 1024)) {
        notes.push(format!("progress is shown every {seconds} seconds; ssh's port, scp's -P, is --ssh-port {seconds}"));
    }
    if values.is_typed("reverse") {
        notes.push("-z is bbcp's: the target connects to the source; compression (rsync's -z) is automatic".to_owned());
    }
    if values.is_typed("nodns") {
        notes
            .push("-n is bbcp's: no names are looked up, and files are copied; it is not rsync's --dry-run".to_owned());
    }
    notes
}

fn meant(what: &str, instead: &str) -> UsageError {
    UsageError::new(what).remedy(instead)
}

fn rsyncs_cluster(typed: &str) -> UsageError {
    meant(
        &format!("{typed}: letters are bbcp's here, and rsync's mean something else"),
        &format!("in haul sync they are rsync's: haul sync {typed} SOURCE... TARGET"),
    )
}

/// What is said where there are less than two operands.
pub fn too_few_for_sync() -> UsageError {
    UsageError::new("haul sync: say what, and which directory is to be the same")
        .remedy("haul sync SOURCE... TARGET        SOURCE becomes TARGET/SOURCE")
        .remedy("haul sync SOURCE/ TARGET          what is in SOURCE goes into TARGET")
}

fn sshs_option(typed: &str, option: &str) -> UsageError {
    let what = if typed == "-o" { format!("-o {option}") } else { typed.to_owned() };
    meant(
        &format!("{what}: -o writes in ascending order, and takes no argument"),
        &format!("ssh's -o is --ssh-option {option}"),
    )
}

/// rsync's -z, -n and -X behind its -a: bbcp's would be another direction, a copy, and nothing at all.
fn is_rsyncs(letters: &str) -> bool {
    letters.contains(['z', 'n', 'X']) && letters.bytes().all(|byte| byte.is_ascii_alphabetic())
}

/// `BatchMode=yes`, as ssh_config(5) has its words.
fn is_ssh_option(text: &str) -> bool {
    let name = text.split('=').next().unwrap_or_default();
    name.len() < text.len()
        && name.starts_with(|first: char| first.is_ascii_uppercase())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// `sha256`, `%md5`, `md5=FILE`: what `--checksum` takes, or something close to it.
fn is_digest(text: &str) -> bool {
    let name = text.trim_start_matches('%').split('=').next().unwrap_or_default();
    let names: Vec<_> = ChecksumAlgorithm::all().map(ChecksumAlgorithm::name).collect();
    text.contains(['%', '=']) || names.contains(&name) || nearest(name, &names).is_some()
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Something that is copied, or copied to: no number, and no option.
fn is_operand(text: &str) -> bool {
    !text.is_empty() && !text.starts_with(|first: char| first.is_ascii_digit() || first == '-' || first == '+')
}

#[cfg(test)]
#[path = "habits_tests.rs"]
mod tests;

//! Slips in operands: a host's name without its colon, which is a local path as with scp; a name with spaces and without
//! quotes.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use haul_base::shell_word::quote;
use haul_proto::path::escape;

/// Most read bytes of a file of ssh.
const READ_MAX: u64 = 4 << 20;

/// The warning for an operand, unless an entry has that name or holds it. `config` replaces ssh's configuration. Nothing
/// is looked up but names in ssh's files.
pub fn forgotten_colon(operand: &OsStr, config: Option<&OsStr>) -> Option<String> {
    let typed = operand.to_str().filter(|typed| !typed.contains(':'))?;
    let (before, path) = typed.split_once('/').unwrap_or((typed, ""));
    let host = before.rsplit_once('@').map_or(before, |(_, host)| host);
    let ssh = PathBuf::from(std::env::var_os("HOME")?).join(".ssh");
    if host.is_empty() || Path::new(before).symlink_metadata().is_ok() {
        return None;
    }
    let config = config.map_or_else(|| ssh.join("config"), PathBuf::from);
    let is_known = text(&config).lines().any(|line| has_section(line, host))
        || text(&ssh.join("known_hosts")).lines().any(|line| is_known_host(line, host));
    let [shown, before, path] = [typed, before, path].map(|text| escape(text.as_bytes()));
    is_known.then(|| format!("{shown} is a local path here; for the host of that name, write {before}:{path}"))
}

/// The warning for two missing operands that are one entry's name with a space between.
pub fn split_name(operands: &[OsString]) -> Option<String> {
    let is_missing = |name: &OsStr| Path::new(name).symlink_metadata().is_err();
    operands.windows(2).filter(|pair| pair.iter().all(|name| is_missing(name))).find_map(|pair| {
        let whole = pair.join(OsStr::new(" "));
        let quoted = whole.to_str().map(quote)?;
        (!is_missing(&whole)).then(|| format!("names with spaces need quotes: {quoted}"))
    })
}

/// The start of a file; empty if it is none.
fn text(path: &Path) -> String {
    let file = path.metadata().is_ok_and(|meta| meta.is_file()).then(|| File::open(path).ok()).flatten();
    let mut bytes = Vec::new();
    let read = file.map(|file| file.take(READ_MAX).read_to_end(&mut bytes));
    if matches!(read, Some(Ok(_))) { String::from_utf8_lossy(&bytes).into_owned() } else { String::new() }
}

/// Whether a line of ssh_config(5) begins a section of this host by its name.
fn has_section(line: &str, host: &str) -> bool {
    let mut words = line.split(|c: char| c.is_whitespace() || c == '=' || c == '"').filter(|word| !word.is_empty());
    words.next().is_some_and(|word| word.eq_ignore_ascii_case("host"))
        && words.take_while(|word| !word.starts_with('#')).any(|word| word == host)
}

/// Whether a line of known hosts (sshd(8)) names this host. Hashed names are not compared.
fn is_known_host(line: &str, host: &str) -> bool {
    let names = line.split_whitespace().next().unwrap_or_default().split(',');
    let mut bare = names.map(|name| name.strip_prefix('[').and_then(|rest| rest.split(']').next()).unwrap_or(name));
    bare.any(|name| name == host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_without_quotes_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name).into_os_string();
        std::fs::write(at("two words"), "").unwrap();
        let operands = |second: &str| ["x".into(), at("two"), second.into(), "host:".into()];
        let quoted = format!("names with spaces need quotes: {}", quote(at("two words").to_str().unwrap()));
        assert_eq!(split_name(&operands("words")), Some(quoted));
        assert_eq!(split_name(&operands("word")), None);
        std::fs::write(at("two"), "").unwrap();
        assert_eq!(split_name(&operands("words")), None);
    }

    #[test]
    fn hosts_of_sshs_files_are_recognised() {
        for line in ["Host db1", "host gate db1 # main", "  HOST=\"db1\"", "Host *.org\tdb1"] {
            assert!(has_section(line, "db1"), "{line}");
        }
        for line in ["Host db*", "Host gate # db1", "HostName db1", "#Host db1", ""] {
            assert!(!has_section(line, "db1"), "{line}");
        }
        for line in ["db1 ssh-ed25519 AAAA", "gate,db1 ssh-rsa AAAA", "[db1]:2222 ssh-rsa AAAA"] {
            assert!(is_known_host(line, "db1"), "{line}");
        }
        for line in ["|1|db1= ssh-rsa AAAA", "gate ssh-rsa db1", "@revoked db1 ssh-rsa A", "# db1", ""] {
            assert!(!is_known_host(line, "db1"), "{line}");
        }
    }
}

//! Slips on a command line that is none the less valid: each gets a warning before the start.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
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
    if host.is_empty() || !is_missing(OsStr::new(before)) {
        return None;
    }
    let config = config.map_or_else(|| ssh.join("config"), PathBuf::from);
    let is_known = text(&config).lines().any(|line| has_section(line, host))
        || text(&ssh.join("known_hosts")).lines().any(|line| is_known_host(line, host));
    let [shown, before, path] = [typed, before, path].map(|text| escape(text.as_bytes()));
    is_known.then(|| format!("{shown} is a local path here; for the host of that name, write {before}:{path}"))
}

fn is_missing(name: &OsStr) -> bool {
    Path::new(name).symlink_metadata().is_err()
}

/// The warning for two missing operands that are one entry's name with a space between.
pub fn split_name(operands: &[OsString]) -> Option<String> {
    operands.windows(2).filter(|pair| pair.iter().all(|name| is_missing(name))).find_map(|pair| {
        let whole = pair.join(OsStr::new(" "));
        let quoted = whole.to_str().map(quote)?;
        (!is_missing(&whole)).then(|| format!("names with spaces need quotes: {quoted}"))
    })
}

/// The warning for a missing local name with the letters of a pattern, which quotes have kept from the shell.
pub fn quoted_pattern(operands: &[OsString]) -> Option<String> {
    let is_pattern = |name: &&OsString| {
        let bytes = name.as_bytes();
        !bytes.contains(&b':') && bytes.iter().any(|byte| b"*?[".contains(byte))
    };
    let missing = operands.iter().filter(is_pattern).find(|name| is_missing(name))?;
    Some(format!("{}: the shell expands local patterns without quotes", escape(missing.as_bytes())))
}

/// The warning for a pattern of an option that can match nothing below these sources.
pub fn foreign_pattern(option: &str, pattern: &OsStr, sources: &[OsString]) -> Option<String> {
    let text = pattern.to_str()?.trim_start_matches('!');
    let (first, below) = text.split_once('/').filter(|(_, below)| !below.is_empty()).unwrap_or(("", ""));
    let is_of_source = |source: &OsString| {
        let path = Path::new(source);
        let whole = std::path::absolute(path).ok();
        let below_source = whole.and_then(|whole| Some(Path::new(text).strip_prefix(whole).ok()?.to_str()?.to_owned()));
        let is_whole = !source.as_bytes().ends_with(b"/") && path.file_name() == Some(OsStr::new(first));
        below_source.or_else(|| (is_whole && !path.join(text).exists()).then(|| below.to_owned()))
    };
    let meant = sources.iter().find_map(is_of_source).or_else(|| (first == ".").then(|| below.to_owned()));
    let why = match meant {
        Some(below) => format!("patterns begin below the source: write {}", quote(&format!("/{below}"))),
        None if text.contains('{') && text.contains(',') && text.contains('}') => {
            format!("patterns have no braces: write {option} for each")
        }
        None => return None,
    };
    Some(format!("{option} {}: {why}", quote(&escape(pattern.as_bytes()))))
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
    fn a_pattern_of_another_program_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let tree = dir.path().join("tree").into_os_string();
        std::fs::create_dir(&tree).unwrap();
        let whole = format!("{}/a", tree.to_str().unwrap());
        let warned = |pattern: &str, source: &OsString| {
            foreign_pattern("--exclude", OsStr::new(pattern), std::slice::from_ref(source))
        };
        for (pattern, hint) in [
            ("tree/a", "patterns begin below the source: write /a"),
            ("./a", "patterns begin below the source: write /a"),
            (whole.as_str(), "patterns begin below the source: write /a"),
            ("*.{o,txt}", "patterns have no braces: write --exclude for each"),
        ] {
            assert!(warned(pattern, &tree).is_some_and(|text| text.ends_with(hint)), "{pattern}");
        }
        for pattern in ["a", "/a", "*.o", "sub/a", "tree/", "**/tree/a"] {
            assert_eq!(warned(pattern, &tree), None, "{pattern}");
        }
        std::fs::create_dir_all(dir.path().join("tree/tree/a")).unwrap();
        assert_eq!(warned("tree/a", &tree), None);
    }

    #[test]
    fn a_pattern_in_quotes_is_found() {
        let warned = |operand: &str| quoted_pattern(&[operand.into(), "host:".into()]);
        assert!(warned("*.none").is_some() && warned("none[0]").is_some());
        assert!(warned("host:*.none").is_none() && warned("none").is_none());
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

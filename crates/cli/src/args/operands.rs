//! Operands that mean something else than what was typed, and sources relative to a base.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use haul_base::copy::location::{Host, Location};
use haul_base::shell_word::quote;
use haul_control::operand::{host_colon, host_label, host_prefix, parse_operand};
use haul_proto::path::escape;

use super::local_files::LocalFiles;
use super::{UsageError, flags};

/// Refuses `12:30.log` if a local file has that name: by scp's rule, it is a path on the host 12.
pub fn refuse_local_file_with_colon(operand: &OsStr, files: &dyn LocalFiles) -> Result<(), UsageError> {
    let bytes = operand.as_bytes();
    let is_remote = matches!(parse_operand(operand), Ok(Location { host: Host::Remote { .. }, .. }));
    let Some(colon) = host_colon(bytes).filter(|_| is_remote && files.exists(operand)) else { return Ok(()) };
    let host_at = bytes[..colon].iter().rposition(|&byte| byte == b'@').map_or(0, |at| at + 1);
    if bytes[host_at] == b'[' {
        return Ok(());
    }
    let [user, host, path] = [&bytes[..host_at], &bytes[host_at..colon], &bytes[colon + 1..]].map(escape);
    let shown = escape(bytes);
    Err(UsageError::new(format!("{shown}: a local file has this name, but {host} would be a host"))
        .remedy(format!("write ./{shown} for the file, or {user}[{host}]:{path} for the host")))
}

/// Refuses `:path`, unless a local file has that name. rsync takes it for a path on the host of the sources before it,
/// and `host :` has a space too many.
pub fn refuse_missing_hosts(operands: &[OsString], files: &dyn LocalFiles) -> Result<(), UsageError> {
    let is_missing = |operand: &OsStr| operand.as_bytes().starts_with(b":") && !files.exists(operand);
    let Some(at) = operands.iter().position(|operand| is_missing(operand)) else { return Ok(()) };
    let hosts = operands[..at].iter().map(|operand| host_prefix(operand)).filter(|host| !host.is_empty());
    let [shown, path] = [operands[at].as_bytes(), &operands[at].as_bytes()[1..]].map(escape);
    let before = hosts.map(|host| quote(&format!("{}{path}", escape(host.as_bytes())))).next();
    let before = before
        .or_else(|| (at > 0 && path.is_empty()).then(|| quote(&format!("{}:", escape(operands[at - 1].as_bytes())))));
    let meant = before.unwrap_or_else(|| format!("HOST:{path}"));
    Err(UsageError::new(format!("{shown}: the host before the colon is missing"))
        .remedy(format!("write {meant}, or {} for a local file", quote(&format!("./{shown}")))))
}

/// Refuses an option with the dash of a typeset page in place of a hyphen, unless there is such a file.
pub fn refuse_dash(operand: &OsStr, files: &dyn LocalFiles) -> Result<(), UsageError> {
    let text = operand.to_str().unwrap_or_default();
    let option = text.trim_start_matches(['\u{2010}', '\u{2011}', '\u{2013}', '\u{2014}', '\u{2212}']);
    if option.len() == text.len() || files.exists(operand) {
        return Ok(());
    }
    let hyphens = if option.trim_start_matches('-').len() > 1 { "--" } else { "-" };
    Err(UsageError::new(format!("{text} begins with a dash, not with a hyphen"))
        .remedy(format!("write {hyphens}{}", option.trim_start_matches('-'))))
}

/// Refuses `'~/x'` in quotes, which the shell did not expand, unless there is an entry `~`.
pub fn refuse_quoted_home(operand: &OsStr, files: &dyn LocalFiles) -> Result<(), UsageError> {
    let bytes = operand.as_bytes();
    let below = match bytes {
        b"~" => b"",
        [b'~', b'/', below @ ..] => below,
        _ => return Ok(()),
    };
    if files.exists(OsStr::new("~")) {
        return Ok(());
    }
    let home = std::env::var_os("HOME").map_or_else(|| PathBuf::from("~"), PathBuf::from);
    let meant = if below.is_empty() { home } else { home.join(OsStr::from_bytes(below)) };
    Err(UsageError::new(format!("{}: ~ in quotes is not your home directory", escape(bytes)))
        .remedy(format!("write {}, or ~ without quotes", escape(meant.as_os_str().as_bytes()))))
}

/// Refuses to let `command` delete files in a login directory or `/`, where the path may be missing: `host:./` and `/.`
/// name them.
pub fn refuse_wide_deletion(command: &str, place: &OsStr) -> Result<(), UsageError> {
    let host = host_prefix(place);
    let path = &place.as_bytes()[host.len()..];
    if path.iter().any(|byte| *byte != b'/') {
        return Ok(());
    }
    let host = escape(host.as_bytes());
    let (what, typed, explicit) = match path.is_empty() {
        true => ("the login directory", "", "./"),
        false => ("the root directory", "/", "/."),
    };
    Err(UsageError::new(format!("{command} can delete anything in {what}: {host}{typed}"))
        .remedy(format!("name a directory, or write {host}{explicit} for {what}")))
}

/// Puts a relative source without a host on the base's host.
pub fn on_base(source: &mut Location, base: &Location) -> Result<(), UsageError> {
    match source.host == base.host || source.path.is_absolute() {
        true => Ok(()),
        false if source.host == Host::Local => {
            source.host = base.host.clone();
            Ok(())
        }
        false => Err(UsageError::new(format!(
            "{}: BASE is on {}, but a source is on {}",
            flags::DIRBASE.typed(),
            host_label(&base.host),
            host_label(&source.host)
        ))
        .remedy("name the sources without a host: they are relative to BASE")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_colon_without_a_host_is_refused_unless_there_is_such_a_file() {
        let refused = |line: &str, exists: bool| {
            let operands: Vec<_> = line.split(' ').map(OsString::from).collect();
            refuse_missing_hosts(&operands, &|_: &OsStr| exists).err().map(|error| error.to_string())
        };
        for (line, meant) in [
            ("a :/tmp/x", "HOST:/tmp/x, or ./:/tmp/x"),
            ("ann@db1:a :b c", "ann@db1:b, or ./:b"),
            ("a db1 :", "db1:, or ./:"),
            ("a :b;c", "HOST:b;c, or './:b;c'"),
        ] {
            assert!(
                refused(line, false).unwrap().ends_with(&format!("hint: write {meant} for a local file")),
                "{line}"
            );
            assert_eq!(refused(line, true), None);
        }
        assert_eq!(refused("./:a h:b", false), None);
    }

    #[test]
    fn a_dash_of_a_web_page_is_no_hyphen() {
        let refused = |operand: &str, exists: bool| refuse_dash(OsStr::new(operand), &|_: &OsStr| exists).err();
        for (operand, meant) in [("\u{2013}r", "-r"), ("\u{2014}delete", "--delete"), ("\u{2013}-delete", "--delete")] {
            assert!(
                refused(operand, false).unwrap().to_string().ends_with(&format!("hint: write {meant}")),
                "{operand}"
            );
            assert!(refused(operand, true).is_none());
        }
        assert!(refused("a\u{2013}b", false).is_none() && refused("-", false).is_none());
    }

    #[test]
    fn a_quoted_home_is_refused_unless_there_is_such_an_entry() {
        let refused = |operand: &str, exists: bool| refuse_quoted_home(OsStr::new(operand), &|_: &OsStr| exists).err();
        for operand in ["~", "~/x", "~//x"] {
            let error = refused(operand, false).unwrap().to_string();
            assert!(error.contains("in quotes") && error.contains("\nhint: write /"), "{error}");
            assert!(refused(operand, true).is_none());
        }
        assert!(refused("~backup", false).is_none() && refused("a/~", false).is_none());
    }
}

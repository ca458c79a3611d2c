//! Operands, by scp's rules: local or remote.
//!
//! The host is the part before the first colon, if no slash comes earlier. No file and no name is looked up.

use std::ffi::OsStr;
use std::net::Ipv6Addr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use haul_base::copy::location::{Host, Location};
use haul_base::copy::spec::names_null;
use haul_base::usage_error::UsageError;
use haul_proto::path::escape;

use crate::launch;
use crate::served_operand::parse_served;

/// Parses an operand. `null:` and `null:SIZE` are local (a host of that name is `[null]:`).
pub fn parse_operand(operand: &OsStr) -> Result<Location, UsageError> {
    let bytes = operand.as_bytes();
    if bytes.is_empty() {
        return Err(UsageError::new("a source or target is empty").remedy("write . for the current directory"));
    }
    if let Some(served) = parse_served(operand) {
        return served;
    }
    refuse_url(bytes)?;
    refuse_bare_ipv6(bytes)?;
    let Some(colon) = host_colon(bytes).filter(|_| !names_null(operand)) else {
        return Ok(Location { host: Host::Local, path: PathBuf::from(operand) });
    };
    let (user, name) = split_host(bytes, &bytes[..colon])?;
    let path = remote_path(bytes, &bytes[colon + 1..])?;
    Ok(Location { host: Host::Remote { user, name }, path })
}

/// The host of an operand as typed, with its colon; empty for a local path.
pub fn host_prefix(operand: &OsStr) -> &OsStr {
    let bytes = operand.as_bytes();
    OsStr::from_bytes(host_colon(bytes).map_or(&[], |colon| &bytes[..=colon]))
}

/// Index of the colon after a host; `None` for a local path.
///
/// A colon in first place is part of a file's name. Brackets protect the colons of an IPv6 address.
pub fn host_colon(operand: &[u8]) -> Option<usize> {
    let host_at =
        operand.iter().take_while(|&&b| b != b':' && b != b'/').position(|&b| b == b'@').map_or(0, |at| at + 1);
    if operand.get(host_at) == Some(&b'[') {
        let close = operand.iter().position(|&b| b == b']')?;
        let inside = &operand[host_at + 1..close];
        return (!inside.contains(&b'/') && operand.get(close + 1) == Some(&b':')).then_some(close + 1);
    }
    let colon = operand.iter().position(|&b| b == b':' || b == b'/')?;
    (operand[colon] == b':' && colon > 0).then_some(colon)
}

/// The account and the host before the colon.
fn split_host(operand: &[u8], before: &[u8]) -> Result<(Option<String>, String), UsageError> {
    let before = std::str::from_utf8(before).map_err(|_| invalid(operand, "host", "not UTF-8"))?;
    let (user, name) = match before.rsplit_once('@') {
        Some((user, name)) => (Some(user), name),
        None => (None, before),
    };
    let name = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(name);
    check_word(operand, "host", name)?;
    if let Some(user) = user {
        check_word(operand, "user", user)?;
    }
    Ok((user.map(str::to_owned), name.to_owned()))
}

/// Refuses words that ssh would take for an option, or a shell for syntax.
fn check_word(operand: &[u8], what: &str, word: &str) -> Result<(), UsageError> {
    const NEVER: &str = "'\"`$\\;&<>|(){}[]*?!#";
    if word.is_empty() {
        return Err(invalid(operand, what, "empty"));
    }
    if word.starts_with('-') {
        return Err(invalid(operand, what, "must not begin with '-'"));
    }
    match word.chars().find(|&c| c.is_control() || c.is_whitespace() || NEVER.contains(c)) {
        Some(c) => Err(invalid(operand, what, &format!("must not contain {c:?}"))),
        None => Ok(()),
    }
}

fn invalid(operand: &[u8], what: &str, why: &str) -> UsageError {
    let shown = escape(operand);
    UsageError::new(format!("{shown}: invalid {what} before the colon: {why}"))
        .remedy(format!("for a local file, write ./{shown}"))
}

/// The path after the colon. A relative path starts in the login directory.
fn remote_path(operand: &[u8], path: &[u8]) -> Result<PathBuf, UsageError> {
    if path.contains(&0) {
        return Err(UsageError::new(format!("{}: a path cannot contain NUL", escape(operand))));
    }
    refuse_port(operand, path)?;
    if path.starts_with(b":") {
        let host = escape(&operand[..operand.len() - path.len()]);
        return Err(is_daemon(operand, "HOST::MODULE", &format!("{host}./{}", escape(path))));
    }
    let relative = match path {
        b"" | b"~" => b".",
        [b'~', b'/', rest @ ..] => match rest.iter().position(|&b| b != b'/') {
            Some(start) => &rest[start..],
            None => b".",
        },
        [b'~', ..] => return Err(other_home(operand, path)),
        path => path,
    };
    Ok(PathBuf::from(OsStr::from_bytes(relative)))
}

/// The error for a daemon of rsync; `file` names a file so called.
fn is_daemon(operand: &[u8], form: &str, file: &str) -> UsageError {
    UsageError::new(format!("{}: {form} is a daemon of rsync", escape(operand)))
        .remedy("by ssh, name the path: HOST:PATH")
        .remedy("haul serve DIR on that host accepts transfers without ssh")
        .remedy(format!("for a file of that name, write {file}"))
}

/// Refuses `host:2222:/path`: the port would be part of a name.
fn refuse_port(operand: &[u8], path: &[u8]) -> Result<(), UsageError> {
    let digits = path.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let is_port = |rest: &&[u8]| match rest {
        [] | [b'/' | b'~', ..] => (2..=5).contains(&digits),
        // Rather a port than the year or the time in a name.
        _ => digits == 5 || path.starts_with(b"22") && digits == 4,
    };
    let Some(rest) = path[digits..].strip_prefix(b":").filter(is_port) else { return Ok(()) };
    let [host, port, rest, whole] = [&operand[..operand.len() - path.len()], &path[..digits], rest, path].map(escape);
    Err(UsageError::new(format!("{}: a port has an option of its own", escape(operand)))
        .remedy(format!("write -P {port} {host}{rest}, or {host}./{whole} for a file of that name")))
}

fn other_home(operand: &[u8], path: &[u8]) -> UsageError {
    let host = escape(&operand[..operand.len() - path.len()]);
    let path = escape(path);
    UsageError::new(format!("{}: ~USER is not supported", escape(operand)))
        .remedy(format!("write the full path ({host}/home/...), or {host}./{path} for a file of that name"))
}

/// Refuses `::1:/x`, by scp's rule a local file, and `fe80::1:/x`, a path on the host fe80: neither is intended.
fn refuse_bare_ipv6(operand: &[u8]) -> Result<(), UsageError> {
    let end = operand.iter().position(|&b| b == b'/').unwrap_or(operand.len());
    let Some(colon) = operand[..end].iter().rposition(|&b| b == b':') else { return Ok(()) };
    let before = &operand[..colon];
    let host_at = before.iter().position(|&b| b == b'@').map_or(0, |at| at + 1);
    let address = std::str::from_utf8(&before[host_at..]).unwrap_or_default();
    let without_zone = address.split('%').next().unwrap_or_default();
    if without_zone.parse::<Ipv6Addr>().is_err() {
        return Ok(());
    }
    let shown = escape(operand);
    let user = escape(&operand[..host_at]);
    let path = escape(&operand[colon + 1..]);
    Err(UsageError::new(format!("{shown}: IPv6 address without brackets"))
        .remedy(format!("write {user}[{address}]:{path}, or ./{shown} for a local file")))
}

/// What other programs copy to and from.
const OTHER_SCHEMES: [&[u8]; 13] =
    [b"azure", b"b2", b"dav", b"davs", b"ftp", b"ftps", b"gs", b"gsiftp", b"hdfs", b"http", b"https", b"s3", b"swift"];

/// Refuses `ssh://host/path`, which would be the path `//host/path` on the host ssh.
fn refuse_url(operand: &[u8]) -> Result<(), UsageError> {
    let Some(at) = operand.windows(3).position(|three| three == b"://") else { return Ok(()) };
    if at == 0 || !operand[..at].iter().all(u8::is_ascii_alphanumeric) {
        return Ok(());
    }
    let shown = escape(operand);
    let rest = escape(&operand[at + 3..]);
    let (host, path) = rest.split_once('/').unwrap_or((&rest, ""));
    let instead = match &operand[..at] {
        b"file" => format!("write /{path}"),
        // As in scp, the path begins in the login directory.
        b"ssh" | b"scp" | b"sftp" => match host.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => {
                format!("write --ssh-port {port} {host}:{path}, or ./{shown} for a local file")
            }
            _ => format!("write {host}:{path}, or ./{shown} for a local file"),
        },
        b"rsync" => return Err(is_daemon(operand, "rsync://HOST/MODULE", &format!("./{shown}"))),
        scheme if OTHER_SCHEMES.contains(&scheme) => {
            "haul copies between file systems; for object stores use rclone".to_owned()
        }
        // A host, with a slash too many.
        host => format!("write {}:/{rest}, or ./{shown} for a local file", escape(host)),
    };
    Err(UsageError::new(format!("{shown}: a URL is not a path")).remedy(instead))
}

/// A host as typed.
pub fn host_label(host: &Host) -> String {
    match host {
        Host::Local => "this machine".to_owned(),
        host => launch::host_label(host),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn local(path: &str) -> Location {
        Location { host: Host::Local, path: path.into() }
    }

    fn remote(user: Option<&str>, name: &str, path: &str) -> Location {
        Location { host: Host::Remote { user: user.map(Into::into), name: name.into() }, path: path.into() }
    }

    fn parse(operand: &str) -> Result<Location, String> {
        parse_operand(OsStr::new(operand)).map_err(|error| error.to_string())
    }

    #[test]
    fn a_slash_before_the_colon_makes_it_local() {
        for path in ["a", "./a:b", "/x/a:b", "dir/host:path", ":a", "[a", "[a]b:c/d", "-x", "a@b", "~/x", "x/[::1]:y"] {
            assert_eq!(parse(path), Ok(local(path)), "{path}");
        }
    }

    #[test]
    fn local_paths_may_be_any_bytes() {
        let odd = OsStr::from_bytes(b"\xff\n:/");
        let odd = OsStr::from_bytes(&odd.as_bytes()[..2]);
        assert_eq!(parse_operand(odd).unwrap().path.as_os_str(), odd);
        let after = OsStr::from_bytes(b"h:/\xff:\n");
        assert_eq!(parse_operand(after).unwrap().path.as_os_str().as_bytes(), b"/\xff:\n");
    }

    #[test]
    fn the_host_is_before_the_first_colon() {
        assert_eq!(parse("db1:/a"), Ok(remote(None, "db1", "/a")));
        assert_eq!(parse("me@db1:a:b"), Ok(remote(Some("me"), "db1", "a:b")));
        assert_eq!(parse("me@corp@db1:a"), Ok(remote(Some("me@corp"), "db1", "a")));
        assert_eq!(parse("db1:dir/"), Ok(remote(None, "db1", "dir/")));
        assert_eq!(parse("[::1]:/a"), Ok(remote(None, "::1", "/a")));
        assert_eq!(parse("me@[fe80::1%eth0]:a"), Ok(remote(Some("me"), "fe80::1%eth0", "a")));
        assert_eq!(parse("[db1]:a"), Ok(remote(None, "db1", "a")));
    }

    #[test]
    fn a_port_between_host_and_path_is_refused() {
        let error = parse("me@db1:2222:/a").unwrap_err();
        assert!(error.contains("write -P 2222 me@db1:/a, or me@db1:./2222:/a"), "{error}");
        assert!(parse("db1:22:").is_err() && parse("db1:2222:~/a").is_err());
        assert_eq!(parse("db1:30:00.log"), Ok(remote(None, "db1", "30:00.log")));
    }

    #[test]
    fn zeros_and_null_are_no_host() {
        let local = |path: &str| Ok(Location { host: Host::Local, path: path.into() });
        for operand in ["null:16g", "null:", "null:0"] {
            assert_eq!(parse(operand), local(operand));
        }
        assert_eq!(parse("null:file"), Ok(remote(None, "null", "file")));
        assert_eq!(parse("[null]:16g"), Ok(remote(None, "null", "16g")));
        assert_eq!(parse("db1:null:16g"), Ok(remote(None, "db1", "null:16g")));
    }

    #[test]
    fn relative_remote_paths_start_in_the_login_directory() {
        for operand in ["h:", "h:~", "h:~/", "h:~//"] {
            assert_eq!(parse(operand), Ok(remote(None, "h", ".")), "{operand}");
        }
        assert_eq!(parse("h:~/x"), Ok(remote(None, "h", "x")));
        assert_eq!(parse("h:~//x"), Ok(remote(None, "h", "x")));
        assert_eq!(parse("h:./~joe"), Ok(remote(None, "h", "./~joe")));
    }

    #[test]
    fn meaningless_arguments_are_refused_with_the_remedy() {
        insta::assert_snapshot!(
            ["", "-oProxyCommand=x:a", "-x@h:a", "@h:a", "me@:a", "a b:c", "h:~joe/x", "::1:/x", "me@fe80::1:x",
             "ssh://h/x", "peer://tmp/x", "s3://b/x", "scp://h:22//x", "[::1;x]:a", "[]:x", "me@h::mod/x", "rsync://me@h:873/mod"]
                .map(|operand| parse(operand).unwrap_err())
                .join("\n---\n"),
            @"
        a source or target is empty
        hint: write . for the current directory
        ---
        -oProxyCommand=x:a: invalid host before the colon: must not begin with '-'
        hint: for a local file, write ./-oProxyCommand=x:a
        ---
        -x@h:a: invalid user before the colon: must not begin with '-'
        hint: for a local file, write ./-x@h:a
        ---
        @h:a: invalid user before the colon: empty
        hint: for a local file, write ./@h:a
        ---
        me@:a: invalid host before the colon: empty
        hint: for a local file, write ./me@:a
        ---
        a b:c: invalid host before the colon: must not contain ' '
        hint: for a local file, write ./a b:c
        ---
        h:~joe/x: ~USER is not supported
        hint: write the full path (h:/home/...), or h:./~joe/x for a file of that name
        ---
        ::1:/x: IPv6 address without brackets
        hint: write [::1]:/x, or ./::1:/x for a local file
        ---
        me@fe80::1:x: IPv6 address without brackets
        hint: write me@[fe80::1]:x, or ./me@fe80::1:x for a local file
        ---
        ssh://h/x: a URL is not a path
        hint: write h:x, or ./ssh://h/x for a local file
        ---
        peer://tmp/x: a URL is not a path
        hint: write peer:/tmp/x, or ./peer://tmp/x for a local file
        ---
        s3://b/x: a URL is not a path
        hint: haul copies between file systems; for object stores use rclone
        ---
        scp://h:22//x: a URL is not a path
        hint: write --ssh-port 22 h:/x, or ./scp://h:22//x for a local file
        ---
        [::1;x]:a: invalid host before the colon: must not contain ';'
        hint: for a local file, write ./[::1;x]:a
        ---
        []:x: invalid host before the colon: empty
        hint: for a local file, write ./[]:x
        ---
        me@h::mod/x: HOST::MODULE is a daemon of rsync
        hint: by ssh, name the path: HOST:PATH
        hint: haul serve DIR on that host accepts transfers without ssh
        hint: for a file of that name, write me@h:./:mod/x
        ---
        rsync://me@h:873/mod: rsync://HOST/MODULE is a daemon of rsync
        hint: by ssh, name the path: HOST:PATH
        hint: haul serve DIR on that host accepts transfers without ssh
        hint: for a file of that name, write ./rsync://me@h:873/mod
        "
        );
    }

    #[test]
    fn a_non_utf8_host_is_refused() {
        let error = parse_operand(OsStr::from_bytes(b"h\xff:a")).unwrap_err().to_string();
        assert!(error.contains("h\\xff:a") && error.contains("not UTF-8"), "{error}");
    }
}

//! Operands at a server: `haul://HOST[:PORT]/[DIRECTORY[/PATH]][#PASS[:PATH]]`. PASS is a secret, the server's public
//! key, or `open`.
//!
//! Its form is fixed: users paste the line that `haul serve` printed, and append `:PATH`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use haul_base::copy::credentials::OPEN;
use haul_base::copy::location::{Host, Location};
use haul_base::copy::spec::{ClientCredentials, PublicKey, Secret};
use haul_base::usage_error::UsageError;
use haul_proto::path::escape;
use haul_proto::wire::serve::is_directory_name;

/// Their prefix.
const SCHEME: &[u8] = b"haul://";
/// The default port, of a standing server.
pub const PORT: u16 = 5031;

/// Most clients of a server at a time.
pub const CLIENTS_MAX: u32 = 1024;

/// Parses an operand at a server; `None` for any other operand.
pub fn parse_served(operand: &OsStr) -> Option<Result<Location, UsageError>> {
    operand.as_bytes().strip_prefix(SCHEME).map(parse)
}

fn parse(rest: &[u8]) -> Result<Location, UsageError> {
    let (place, pass, behind) = split_credentials(rest)?;
    let slash = place.iter().position(|&byte| byte == b'/').unwrap_or(place.len());
    let (host, path) = (&place[..slash], place.get(slash + 1..).unwrap_or_default());
    let (name, port) = host_and_port(host).ok_or_else(|| refused(host, "invalid host or port"))?;
    // `:PATH` may be appended to any printed address.
    let (path, behind) = match path.iter().position(|byte| b":/".contains(byte)) {
        Some(colon) if path[colon] == b':' && behind.is_empty() => (&path[..colon], &path[colon + 1..]),
        _ => (path, behind),
    };
    let (directory, below) = match path.iter().position(|&byte| byte == b'/') {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (path, &path[path.len()..]),
    };
    let directory = std::str::from_utf8(directory).ok().filter(|name| is_directory_name(name));
    let directory = directory.ok_or_else(|| refused(place, "invalid directory name after the first slash"))?;
    let path = match (below, behind) {
        (below, b"") => below,
        (b"", behind) => behind,
        _ => return Err(refused(place, "two paths: before and after the secret")),
    };
    let path = if path.is_empty() { &b"."[..] } else { path };
    let host = Host::Served { name, port, directory: directory.to_owned(), pass };
    Ok(Location { host, path: PathBuf::from(OsStr::from_bytes(path)) })
}

/// Splits an operand into the address, the secret or key after `#`, and the path.
fn split_credentials(rest: &[u8]) -> Result<(&[u8], ClientCredentials, &[u8]), UsageError> {
    let Some(hash) = rest.iter().position(|&byte| byte == b'#') else {
        return Ok((rest, ClientCredentials::Missing, b""));
    };
    let (place, after) = (&rest[..hash], &rest[hash + 1..]);
    let (digits, path) = match after.iter().position(|&byte| byte == b':') {
        Some(colon) => (&after[..colon], &after[colon + 1..]),
        None => (after, &after[after.len()..]),
    };
    let text = std::str::from_utf8(digits).unwrap_or_default();
    let pass = (text == OPEN)
        .then_some(ClientCredentials::Open)
        .or_else(|| Secret::parse(text).map(ClientCredentials::Secret))
        .or_else(|| PublicKey::parse(text).map(ClientCredentials::Server));
    // The text may be a mistyped secret, so the message does not show it.
    let none =
        "# must be followed by a secret (32 hexadecimal digits), a public key (haul-public-...) or the word open";
    Ok((place, pass.ok_or_else(|| refused(place, none))?, path))
}

fn host_and_port(text: &[u8]) -> Option<(String, u16)> {
    let text = std::str::from_utf8(text).ok()?;
    let (name, port) = match text.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?,
        None => text.split_at(text.find(':').unwrap_or(text.len())),
    };
    let port = if port.is_empty() { PORT } else { port.strip_prefix(':')?.parse().ok().filter(|port| *port > 0)? };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || ".-_:%".contains(c);
    let is_good = !name.is_empty() && !name.starts_with('-') && name.chars().all(is_plain);
    is_good.then(|| (name.to_owned(), port))
}

fn refused(part: &[u8], why: &str) -> UsageError {
    UsageError::new(format!("haul://{}: {why}", escape(part)))
        .remedy("write haul://HOST:PORT/#SECRET:PATH or haul://HOST/DIRECTORY/PATH")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "000102030405060708090a0b0c0d0e0f";

    fn parsed(operand: &str) -> Result<(String, u16, String, bool, String), String> {
        let location = parse_served(OsStr::new(operand)).unwrap().map_err(|error| error.to_string())?;
        let Host::Served { name, port, directory, pass } = location.host else { panic!("another host") };
        Ok((name, port, directory, pass.line().is_some(), location.path.to_str().unwrap().to_owned()))
    }

    #[test]
    fn usage_errors_hide_secrets() {
        let error = UsageError::new("unknown 'HAUL://h/#0123456789abcdef:a b'").remedy(format!("haul://h/#{SECRET}"));
        assert_eq!(error.to_string(), "unknown 'HAUL://h/#***:a b'\nhint: haul://h/#***");
    }

    #[test]
    fn a_printed_address_can_be_pasted_with_a_path_appended() {
        let served = |name: &str, port, directory: &str, secret, path: &str| {
            Ok((name.to_owned(), port, directory.to_owned(), secret, path.to_owned()))
        };
        assert_eq!(parsed(&format!("haul://h:9/#{SECRET}")), served("h", 9, "", true, "."));
        assert_eq!(parsed(&format!("haul://h:9/#{SECRET}:a/b:c")), served("h", 9, "", true, "a/b:c"));
        assert_eq!(parsed(&format!("haul://[::1]:9/in/a#{SECRET}")), served("::1", 9, "in", true, "a"));
        assert_eq!(parsed("haul://h:9/:a/b:c"), served("h", 9, "", false, "a/b:c"));
        assert_eq!(parsed("haul://h:9/in:a"), served("h", 9, "in", false, "a"));
        assert_eq!(parsed("haul://h:9/in/a:b"), served("h", 9, "in", false, "a:b"));
        assert_eq!(parsed("haul://10.0.0.1/in/a/b"), served("10.0.0.1", PORT, "in", false, "a/b"));
        assert_eq!(parsed("haul://[fe80::1%eth0]/in/"), served("fe80::1%eth0", PORT, "in", false, "."));
        assert_eq!(parse_served(OsStr::new("h:/a")), None);
    }

    #[test]
    fn invalid_addresses_are_refused_without_showing_the_secret() {
        for bad in
            ["haul://", "haul://h:0/", "haul://h:x/", "haul://-x/", "haul://[::1/", "haul://h/../x", "haul://h/a b/"]
        {
            assert!(parsed(bad).is_err(), "{bad}");
        }
        let error = parsed(&format!("haul://h/#{SECRET}0")).unwrap_err();
        assert!(!error.contains("0102"), "{error}");
        assert!(parsed(&format!("haul://h/in/a#{SECRET}:b")).is_err());
    }
}

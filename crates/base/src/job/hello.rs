//! What a worker says first, and how a haul says which haul it is. Both are text; all that follows the greeting is binary.

/// The protocol that this haul speaks. Workers of another one are refused.
pub const PROTOCOL: u32 = haul_proto::feature::PROTOCOL_VERSION as u32;

/// The version that this haul was built as.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What a greeting line begins with. A protocol number, a space and a version follow.
pub const GREETING_PREFIX: &str = "HAUL-WORKER ";

/// Longest version text that is believed, in bytes.
const MAX_VERSION: usize = 64;

/// What a worker's greeting said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GreetingLine {
    /// The protocol it speaks.
    pub protocol: u32,
    /// The version it was built as: printable ASCII without spaces.
    pub version: String,
}

/// The greeting, to be written with one write as the very first thing on a worker's standard output.
///
/// It starts with a line feed because a login shell may have printed something that does not end with one.
pub fn greeting_line() -> String {
    format!("\n{GREETING_PREFIX}{PROTOCOL} {VERSION}\n")
}

/// What `haul worker --identify` prints, without a line feed.
pub fn worker_identify_line() -> String {
    format!("haul {VERSION} protocol {PROTOCOL}")
}

/// Reads a line without its line feed. `None` when it is no greeting.
pub fn parse_greeting(line: &[u8]) -> Option<GreetingLine> {
    let rest = std::str::from_utf8(line).ok()?.strip_prefix(GREETING_PREFIX)?;
    let (protocol, version) = rest.split_once(' ')?;
    let plain = protocol.bytes().all(|b| b.is_ascii_digit());
    let known = version.len() <= MAX_VERSION && !version.is_empty() && version.bytes().all(|b| b.is_ascii_graphic());
    if !plain || !known {
        return None;
    }
    Some(GreetingLine { protocol: protocol.parse().ok()?, version: version.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_greeting_is_read_back() {
        let line = greeting_line();
        let line = line.strip_prefix('\n').and_then(|l| l.strip_suffix('\n')).unwrap();
        assert_eq!(
            parse_greeting(line.as_bytes()),
            Some(GreetingLine { protocol: PROTOCOL, version: VERSION.to_owned() })
        );
    }

    #[test]
    fn what_only_looks_like_a_greeting_is_none() {
        let long = format!("HAUL-WORKER 1 {}", "9".repeat(MAX_VERSION + 1));
        let cases: [&[u8]; 10] = [
            b"",
            b"HAUL-WORKER",
            b"HAUL-WORKER 1",
            b"HAUL-WORKER 1 ",
            b"HAUL-WORKER +1 2",
            b"HAUL-WORKER 4294967296 0.1.0",
            b"HAUL-WORKER  1 0.1.0",
            b"HAUL-WORKER 1 0.1.0 ",
            b" HAUL-WORKER 1 0.1.0",
            long.as_bytes(),
        ];
        for case in cases {
            assert_eq!(parse_greeting(case), None, "{}", String::from_utf8_lossy(case));
        }
        assert_eq!(parse_greeting(b"HAUL-WORKER 7 9.9").map(|g| g.protocol), Some(7));
    }
}

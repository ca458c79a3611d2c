//! A worker's greeting, and the line that identifies a haul. Both are text; everything after the greeting is binary.

/// The protocol version of this haul. Workers with another one are refused.
pub const PROTOCOL: u32 = haul_proto::feature::PROTOCOL_VERSION as u32;

/// The version of this haul.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The prefix of a greeting line. A protocol number, a space and a version follow.
pub const GREETING_PREFIX: &str = "HAUL-WORKER ";

/// Longest accepted version text, in bytes.
const MAX_VERSION: usize = 64;

/// A worker's greeting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GreetingLine {
    /// Its protocol version.
    pub protocol: u32,
    /// Its version: printable ASCII without spaces.
    pub version: String,
}

/// The greeting, to be written in one call as the first output of a worker.
///
/// It starts with a line feed, since a login shell may have printed an incomplete line.
pub fn greeting_line() -> String {
    format!("\n{GREETING_PREFIX}{PROTOCOL} {VERSION}\n")
}

/// Output of `haul worker --identify`, without a line feed.
pub fn worker_identify_line() -> String {
    format!("haul {VERSION} protocol {PROTOCOL}")
}

/// Parses a line without its line feed; `None` if it is not a greeting.
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
    fn text_similar_to_a_greeting_is_rejected() {
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

//! Finds haul's own lines in the output of a login shell before a worker starts.
//!
//! Takes one byte at a time, so that no byte after the greeting leaves the reader. All other output is noise: it is
//! counted, and its end is kept for the error of a failed start.

use std::collections::VecDeque;

use haul_base::copy::hello::{GreetingLine, parse_greeting};
use haul_proto::path::escape;

/// Most bytes of noise before the greeting.
pub(super) const MAX_NOISE: usize = 64 * 1024;

/// Bytes of noise kept.
const KEPT_NOISE: usize = 2 * 1024;

/// Longest line of haul's own in bytes; a longer line is noise.
const MAX_LINE: usize = 8 * 1024;

/// A line of haul's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ScannedLine {
    /// A worker runs; binary data follows.
    Greeting(GreetingLine),
    /// The script waits for a description of the executable for this system: `uname -s` and `uname -m`, escaped.
    OtherSystem(String),
    /// The script found no haul to start. Escaped text.
    Absent {
        /// `uname -s` and `uname -m`.
        system: String,
        /// `none`, or `other` and what was found.
        found: String,
    },
    /// The script waits for the executable's bytes.
    Ready,
    /// The script gave up. Escaped text.
    Cannot {
        /// One of the codes in `script`.
        code: String,
        /// Details; may be empty.
        detail: String,
    },
    /// The executable was installed at this path (escaped) and is about to greet.
    Placed(String),
    /// The script has verified an executable: its SHA-256, and the identity of its file.
    Verified(String),
}

/// More than [`MAX_NOISE`] bytes arrived without a greeting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NoGreeting;

/// Turns bytes into lines.
#[derive(Debug, Default)]
pub(super) struct GreetingScanner {
    line: Vec<u8>,
    noise: VecDeque<u8>,
    noise_bytes: usize,
}

impl GreetingScanner {
    /// Adds the next byte. Returns a line if the byte ended one.
    pub(super) fn push(&mut self, byte: u8) -> Result<Option<ScannedLine>, NoGreeting> {
        if byte != b'\n' && self.line.len() < MAX_LINE {
            self.line.push(byte);
            return self.within_limit();
        }
        if byte == b'\n'
            && let Some(line) = parse(&self.line)
        {
            self.line.clear();
            return Ok(Some(line));
        }
        self.line.push(byte);
        self.line_is_noise();
        self.within_limit()
    }

    /// Returns the end of the noise as escaped lines, without empty ones.
    pub(super) fn noise(&self) -> Vec<String> {
        let bytes: Vec<u8> = self.noise.iter().chain(&self.line).copied().collect();
        let kept = &bytes[bytes.len().saturating_sub(KEPT_NOISE)..];
        kept.split(|&b| b == b'\n').map(|line| escape(line.trim_ascii())).filter(|line| !line.is_empty()).collect()
    }

    fn line_is_noise(&mut self) {
        self.noise_bytes += self.line.len();
        self.noise.extend(self.line.drain(..));
        let surplus = self.noise.len().saturating_sub(KEPT_NOISE);
        self.noise.drain(..surplus);
    }

    fn within_limit(&self) -> Result<Option<ScannedLine>, NoGreeting> {
        if self.noise_bytes + self.line.len() > MAX_NOISE { Err(NoGreeting) } else { Ok(None) }
    }
}

/// Parses a line without its line feed.
fn parse(line: &[u8]) -> Option<ScannedLine> {
    if let Some(greeting) = parse_greeting(line) {
        return Some(ScannedLine::Greeting(greeting));
    }
    if let Some(rest) = line.strip_prefix(b"HAUL-SYSTEM ") {
        return Some(ScannedLine::OtherSystem(escape(rest)));
    }
    if let Some(rest) = line.strip_prefix(b"HAUL-ABSENT ") {
        let text = escape(rest);
        let mut words = text.splitn(3, ' ');
        let (system, machine, found) = (words.next()?, words.next()?, words.next()?);
        return Some(ScannedLine::Absent { system: format!("{system} {machine}"), found: found.to_owned() });
    }
    if let Some(rest) = line.strip_prefix(b"HAUL-CANNOT ") {
        let text = escape(rest);
        let (code, detail) = text.split_once(' ').unwrap_or((&text, ""));
        return Some(ScannedLine::Cannot { code: code.to_owned(), detail: detail.trim().to_owned() });
    }
    if let Some(rest) = line.strip_prefix(b"HAUL-PLACED ") {
        return Some(ScannedLine::Placed(escape(rest)));
    }
    if let Some(rest) = line.strip_prefix(b"HAUL-VERIFIED ") {
        return Some(ScannedLine::Verified(escape(rest)));
    }
    (line == b"HAUL-READY").then_some(ScannedLine::Ready)
}

#[cfg(test)]
mod tests {
    use haul_base::copy::hello::greeting_line;
    use proptest::prelude::*;

    use super::*;

    /// Returns the lines in `bytes` with the number of bytes read at each.
    fn scan(bytes: &[u8]) -> (Vec<(ScannedLine, usize)>, GreetingScanner) {
        let mut scanner = GreetingScanner::default();
        let mut lines = Vec::new();
        for (at, &byte) in bytes.iter().enumerate() {
            if let Some(line) = scanner.push(byte).expect("not too much noise") {
                lines.push((line, at + 1));
            }
        }
        (lines, scanner)
    }

    proptest! {
        #[test]
        fn the_greeting_is_found_at_its_exact_end_after_any_noise(noise in proptest::collection::vec(any::<u8>(), 0..20_000)) {
            let mut bytes = noise.clone();
            bytes.extend(greeting_line().bytes());
            let (lines, _) = scan(&bytes);
            prop_assert_eq!(lines.len(), 1);
            prop_assert!(matches!(lines[0].0, ScannedLine::Greeting(_)));
            prop_assert_eq!(lines[0].1, bytes.len());
        }

        #[test]
        fn noise_made_of_pieces_of_our_own_lines_does_no_harm(
            pieces in proptest::collection::vec(prop_oneof!["HAUL-", "WORKER ", "1 ", "x", "HAUL-ABSENT", "\r", " "], 0..200),
        ) {
            let mut bytes: Vec<u8> = pieces.concat().into_bytes();
            bytes.extend(greeting_line().bytes());
            let (lines, _) = scan(&bytes);
            let last = lines.last().expect("a line");
            prop_assert!(matches!(&last.0, ScannedLine::Greeting(g) if g.protocol == 1));
            prop_assert_eq!(last.1, bytes.len());
        }
    }

    #[test]
    fn every_line_of_the_script_is_understood() {
        let text = b"motd\nHAUL-SYSTEM Linux aarch64\nHAUL-ABSENT Linux aarch64 other /usr/bin/haul haul 0.0.9 protocol 1\n\nHAUL-READY\n\nHAUL-PLACED /home/a b/haul\n\nHAUL-CANNOT no-space  head: \x1b[1m\n\nHAUL-CANNOT noexec\n";
        let (lines, scanner) = scan(text);
        let lines: Vec<ScannedLine> = lines.into_iter().map(|(line, _)| line).collect();
        let expected = [
            ScannedLine::OtherSystem("Linux aarch64".into()),
            ScannedLine::Absent {
                system: "Linux aarch64".into(),
                found: "other /usr/bin/haul haul 0.0.9 protocol 1".into(),
            },
            ScannedLine::Ready,
            ScannedLine::Placed("/home/a b/haul".into()),
            ScannedLine::Cannot { code: "no-space".into(), detail: "head: \\u{1b}[1m".into() },
            ScannedLine::Cannot { code: "noexec".into(), detail: String::new() },
        ];
        assert_eq!(lines, expected);
        assert_eq!(scanner.noise(), ["motd"]);
    }

    #[test]
    fn noise_is_limited_with_and_without_line_feeds() {
        for text in ["x".repeat(MAX_NOISE), "x\n".repeat(MAX_NOISE / 2)] {
            let (lines, mut scanner) = scan(text.as_bytes());
            assert!(lines.is_empty());
            assert_eq!(scanner.push(b'x'), Err(NoGreeting));
            assert!(scanner.line.len() <= MAX_LINE + 1 && scanner.noise.len() <= KEPT_NOISE);
        }
    }

    #[test]
    fn the_end_of_the_noise_is_kept_and_shown_harmlessly() {
        let mut text = "first\n".to_owned() + &"-".repeat(3000);
        text.push_str("\r\n\n  This account is \x07closed.");
        let (_, scanner) = scan(text.as_bytes());
        let noise = scanner.noise();
        assert_eq!(noise.last().map(String::as_str), Some("This account is \\u{7}closed."));
        assert!(noise.iter().all(|line| line != "first"));
    }
}

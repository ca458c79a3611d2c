//! Lines in a file, each with a timestamp.

use std::fs::File;
use std::io::{self, Write};

/// Writes a timestamp before each line.
pub struct StampedLines {
    out: File,
    stamp: fn() -> String,
    /// A line without a timestamp.
    bare: &'static str,
}

impl StampedLines {
    /// Appends lines to `out`.
    pub fn new(out: File, stamp: fn() -> String, bare: &'static str) -> Self {
        Self { out, stamp, bare }
    }
}

impl Write for StampedLines {
    /// Writes whole lines, as [`crate::text::TextOutput`] does.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let stamp = (self.stamp)();
        let mut stamped = Vec::with_capacity(bytes.len() + stamp.len() + 1);
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            let text = line.strip_suffix(b"\n").unwrap_or(line);
            if self.bare.is_empty() || text != self.bare.as_bytes() {
                stamped.extend_from_slice(stamp.as_bytes());
                stamped.push(b' ');
            }
            stamped.extend_from_slice(line);
        }
        self.out.write_all(&stamped)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// `2026-11-25T07:01:44+00:00` (RFC 3339).
pub fn rfc3339() -> String {
    jiff::Zoned::now().strftime("%Y-%m-%dT%H:%M:%S%:z").to_string()
}

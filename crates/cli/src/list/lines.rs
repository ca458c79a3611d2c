//! Reads a list's text as sources, line by line.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::time::Duration;

use haul_base::copy::location::{Host, Location};
use haul_base::copy::spec::{ListLine, ListReader};
use haul_control::operand::{host_label, parse_operand};
use haul_proto::limits::PATH_MAX;

use super::text::{Got, ListText};
use crate::args::UsageError;
use crate::args::operands::on_base;

/// Read size in bytes.
const PIECE: usize = 64 << 10;
/// Most bytes shown of a line that is too long.
const SHOWN_MAX: usize = 80;

/// A list's text and its format.
pub struct ListFormat {
    /// Its origin, for messages.
    pub name: String,
    /// Its text.
    pub text: ListText,
    /// The line terminator.
    pub end: u8,
    /// Typed sources, which come first.
    pub typed: Vec<Location>,
    /// The base of relative paths.
    pub base: Option<Location>,
}

/// Reads a list from its beginning.
pub struct ListFileReader {
    written: Arc<ListFormat>,
    /// The common host of all sources.
    host: Option<Host>,
    /// Number of returned typed sources.
    typed: usize,
    /// Bytes that were read, but not returned.
    buffer: Vec<u8>,
    at: usize,
    /// Offset of the next read.
    offset: u64,
    /// The number of the last line; 0 for typed sources.
    number: u64,
    /// The start of a line longer than any path, whose rest is skipped.
    too_long: Option<Vec<u8>>,
    ended: bool,
}

impl ListFileReader {
    /// A reader at the beginning.
    pub fn new(written: Arc<ListFormat>, host: Option<Host>) -> Self {
        let (buffer, too_long) = (Vec::new(), None);
        Self { written, host, typed: 0, buffer, at: 0, offset: 0, number: 0, too_long, ended: false }
    }

    /// The next buffered line, without its terminator.
    fn line_at_hand(&mut self) -> Option<Vec<u8>> {
        let rest = &self.buffer[self.at..];
        let line = match rest.iter().position(|byte| *byte == self.written.end) {
            Some(length) => {
                self.at += length + 1;
                rest[..length].to_vec()
            }
            None if self.ended && !rest.is_empty() => {
                let line = rest.to_vec();
                self.at = self.buffer.len();
                line
            }
            None => return None,
        };
        self.number += 1;
        Some(line)
    }

    /// Reads more. Returns a state if no data is available.
    fn read(&mut self, patience: Duration) -> Option<ListLine> {
        self.buffer.drain(..self.at);
        self.at = 0;
        let held = self.buffer.len();
        if held > PATH_MAX {
            self.too_long.get_or_insert_with(|| self.buffer[..SHOWN_MAX].to_vec());
            self.buffer.clear();
        }
        let held = self.buffer.len().min(held);
        self.buffer.resize(held + PIECE, 0);
        let got = self.written.text.read_at(self.offset, &mut self.buffer[held..], patience);
        let (length, state) = match got {
            Ok(Got::Bytes(length)) => (length, None),
            Ok(Got::NotYet) => (0, Some(ListLine::NotYet)),
            Ok(Got::End) => (0, None),
            Err(error) => (0, Some(ListLine::End(Some(error.to_string())))),
        };
        self.ended = length == 0 && state.is_none();
        self.offset += length as u64;
        self.buffer.truncate(held + length);
        state
    }

    /// The source of a line; `None` if it is empty.
    fn source(&mut self, mut line: Vec<u8>) -> Option<ListLine> {
        if let Some(beginning) = self.too_long.take() {
            return Some(ListLine::Bad(beginning, self.too_long_text()));
        }
        if self.written.end == b'\n' && line.last() == Some(&b'\r') {
            line.pop();
        }
        if line.is_empty() {
            return None;
        }
        Some(match self.parsed(&line) {
            Ok(source) => ListLine::Source(source),
            Err(error) => ListLine::Bad(line, error.to_string()),
        })
    }

    fn parsed(&self, line: &[u8]) -> Result<Location, UsageError> {
        if line.contains(&0) {
            return Err(
                UsageError::new("a path cannot contain NUL").remedy("-0 needs a list in which NUL ends each path")
            );
        }
        let mut source = parse_operand(OsStr::from_bytes(line))?;
        if let Some(base) = &self.written.base {
            on_base(&mut source, base)?;
        }
        match &self.host {
            Some(host) if *host != source.host => Err(UsageError::new(format!(
                "it is on {}, but the source is on {}",
                host_label(&source.host),
                host_label(host)
            ))
            .remedy("run one copy for each host")),
            _ => Ok(source),
        }
    }

    fn too_long_text(&self) -> String {
        let hint = if self.written.end == 0 {
            "if NUL ends each path, add -0"
        } else {
            "-0 needs a list in which NUL ends each path"
        };
        format!("path too long\n{hint}")
    }
}

impl ListReader for ListFileReader {
    fn next(&mut self, patience: Duration) -> ListLine {
        if let Some(source) = self.written.typed.get(self.typed) {
            self.typed += 1;
            return ListLine::Source(source.clone());
        }
        loop {
            while let Some(line) = self.line_at_hand() {
                if let Some(line) = self.source(line) {
                    return line;
                }
            }
            if self.ended {
                return ListLine::End(None);
            }
            if let Some(state) = self.read(patience) {
                return state;
            }
        }
    }

    fn position(&self) -> String {
        let what = if self.written.end == 0 { "path" } else { "line" };
        match self.number {
            0 => "on the command line".to_owned(),
            number => format!("{what} {number} of {}", self.written.name),
        }
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;

//! The first level of arguments: the command line, word by word.
//!
//! [`crate::resolve`] makes a copy from them. Nothing here reads files.

pub mod argument;
mod commands;
mod completions;
pub mod filters;
pub mod flag;
pub mod flags;
pub mod habits;
pub mod help;
pub mod job;
mod manual;
mod markdown;
mod measurement;
mod names;
pub mod nearest;
pub mod net;
pub mod operand;
pub mod parse;
pub mod parsers;
pub mod probe;
pub mod row;
mod rsync;
pub mod scan;
pub mod served;
pub mod size;
mod sweep;
pub mod time;
pub mod values;
pub mod version;
pub mod worker_task;

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;

use haul_show::report::UnknownReportFormat;
use haul_show::secrets::without_secrets;
use row::OptionRow;

/// The program of a command line: options, their prefixes and some defaults differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// haul's own.
    Haul,
    /// bbcp's, exactly: haul was started under that name.
    Bbcp,
}

impl Dialect {
    /// The dialect for a program name.
    pub fn of(program: &OsStr) -> Self {
        let name = program.as_bytes().rsplit(|&byte| byte == b'/').next();
        if name == Some(b"bbcp") { Self::Bbcp } else { Self::Haul }
    }

    /// Whether it has an option.
    fn has(self, row: &OptionRow) -> bool {
        self == Self::Haul || row.bbcp.is_some()
    }

    /// Prefix of its message.
    pub fn program(self) -> &'static str {
        match self {
            Self::Haul => "haul",
            Self::Bbcp => "bbcp",
        }
    }
}

/// An invalid command line: exit status 2. `Display` gives one line for the error, and a `hint:` line for each remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageError {
    what: String,
    remedies: Vec<String>,
}

impl UsageError {
    /// Makes an error from the first line, and a remedy from each further one.
    pub fn of_lines(text: &str) -> Self {
        let mut lines = text.lines();
        let error = Self::new(lines.next().unwrap_or_default());
        lines.fold(error, Self::remedy)
    }

    /// An error that names the invalid word.
    pub fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), remedies: Vec::new() }
    }

    /// Two options contradict each other.
    pub fn contradiction(a: &OptionRow, b: &OptionRow) -> Self {
        Self::new(format!("{} cannot be used with {}", a.typed(), b.typed()))
    }

    /// Prefixes the error with the position of the word.
    pub fn at(self, place: &str) -> Self {
        Self { what: format!("{place}: {}", self.what), ..self }
    }

    /// Adds a remedy.
    pub fn remedy(mut self, line: impl Into<String>) -> Self {
        self.remedies.push(line.into());
        self
    }
}

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&without_secrets(&self.what))?;
        let mut hints = self.remedies.iter().flat_map(|remedy| remedy.lines()).map(without_secrets);
        hints.try_for_each(|line| write!(f, "\nhint: {line}"))
    }
}

impl std::error::Error for UsageError {}

impl From<UnknownReportFormat> for UsageError {
    fn from(error: UnknownReportFormat) -> Self {
        Self::of_lines(&error.to_string())
    }
}

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
pub mod letters;
pub mod local_files;
mod manual;
mod markdown;
pub mod meaning;
mod names;
pub mod nearest;
pub mod operands;
pub mod parse;
pub mod parsers;
pub mod row;
pub mod rsync;
pub mod scan;
mod shared;
mod subjects;
mod sweep;
pub mod typed;
pub mod values;
pub mod version;
pub mod worker_task;

pub use haul_base::usage_error::UsageError;
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
    /// Whether it has an option.
    fn has(self, row: &OptionRow) -> bool {
        match self {
            Self::Haul => !row.bbcp_only,
            Self::Bbcp => row.bbcp.is_some(),
        }
    }

    /// Prefix of its message.
    pub fn program(self) -> &'static str {
        match self {
            Self::Haul => "haul",
            Self::Bbcp => "bbcp",
        }
    }
}

/// Two options contradict each other.
pub fn contradiction(a: &OptionRow, b: &OptionRow) -> UsageError {
    UsageError::new(format!("{} cannot be used with {}", a.typed(), b.typed()))
}

//! The first level of arguments: what was typed, checked word by word.
//!
//! Nothing here looks at files or decides what a job is; [`crate::resolve`] does that.

pub mod help;
pub mod nearest;
pub mod operand;
mod optional;
pub mod parse;
pub mod served;
pub mod size;
pub mod table;
mod time;
pub mod values;

use std::fmt;

/// What was typed makes no sense: exit status 2. `Display` gives one line for what is wrong and one for each remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageError {
    what: String,
    remedies: Vec<String>,
}

impl UsageError {
    /// An error that names the word that is wrong.
    pub fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), remedies: Vec::new() }
    }

    /// Adds a line that says what to write instead.
    pub fn remedy(mut self, line: impl Into<String>) -> Self {
        self.remedies.push(line.into());
        self
    }
}

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        self.remedies.iter().try_for_each(|line| write!(f, "\n{line}"))
    }
}

impl std::error::Error for UsageError {}

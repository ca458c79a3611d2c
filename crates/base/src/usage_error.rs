//! The error of invalid input, with its remedies.

use std::fmt;

use crate::secrets::without_secrets;

/// An invalid word of a command line, or a combination of words: exit status 2. `Display` gives one line for the error, and a `hint:` line for each remedy.
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

    /// Prefixes the error with the position of the word.
    pub fn at(self, place: &str) -> Self {
        Self { what: format!("{place}: {}", self.what), ..self }
    }

    /// Adds remedies.
    pub fn remedies(self, lines: impl IntoIterator<Item = impl Into<String>>) -> Self {
        lines.into_iter().fold(self, Self::remedy)
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

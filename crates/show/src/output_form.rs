//! The interface of all forms of output.

use std::io;

use haul_base::copy::error::Outcome;
use haul_base::copy::event::Observer;

/// A file or line without its counterpart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Half {
    /// A file.
    File,
    /// A line.
    Line,
}

/// Level of detail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verbosity {
    /// Failures only.
    Errors,
    /// Also warnings and the summary.
    Normal,
    /// Also connections.
    Verbose,
    /// Also figures of the path.
    Path,
    /// Also each complete file.
    Files,
}

/// The form of the lines of changed entries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ListForm {
    /// The change, the path and the reasons (`--items`, `--dry-run`).
    #[default]
    Changes,
    /// The path alone (`-v`).
    Names,
}

/// A form of output.
pub trait Show: Observer {
    /// Shows a message from outside the engine.
    fn complain(&mut self, message: &str);

    /// With `--expect`: a file without a line, or a line without a file. Text output reports them at the end.
    fn without_other_half(&mut self, _half: Half, _path: &[u8]) {}

    /// Shows the result, and ends. Fails only if lines for a program could not be written.
    fn finish(&mut self, outcome: &Outcome) -> io::Result<()>;
}

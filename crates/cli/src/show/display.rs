//! How a job is displayed: the form of progress, verbosity, and the log.

use std::path::PathBuf;

use crate::args::Dialect;

/// What the user sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Display {
    /// The form of progress.
    pub mode: Mode,
    /// The number of `-v` options.
    pub verbosity: u8,
    /// Whether bbcp's lines include progress: `-P`.
    pub progress_lines: bool,
    /// The program name in front of lines, and its wording.
    pub dialect: Dialect,
    /// `--bits`: rates are in bits per second.
    pub bits: bool,
    /// `-l`: where it is added to; `None` for standard error.
    pub log: Option<PathBuf>,
}

/// The form of progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// A bar on the terminal.
    Bar,
    /// None; errors and the summary.
    Plain,
    /// The whole terminal, and keys.
    Tui,
    /// haul's progress line, printed at intervals.
    ProgressLines,
    /// bbcp's lines.
    BbcpLines,
    /// Events on standard output.
    Json,
    /// Errors only.
    Quiet,
}

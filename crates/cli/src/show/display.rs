//! The display of a copy: progress, verbosity and the log.

use std::path::PathBuf;

/// The display.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Display {
    /// The form of progress.
    pub mode: Mode,
    /// The number of `-v` options.
    pub verbosity: u8,
    /// Whether bbcp's lines include progress: `-P`.
    pub progress_lines: bool,
    /// The program's name before messages: haul, or bbcp.
    pub program: &'static str,
    /// `--bits`: rates are in bits per second.
    pub bits: bool,
    /// `-l`: the log; `None` for standard error.
    pub log: Option<PathBuf>,
}

/// The form of progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// A bar on the terminal.
    Bar,
    /// Errors and the summary, without progress.
    Plain,
    /// The full-screen display with keys.
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

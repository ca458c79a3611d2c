//! What every form of output does.

use std::io;

use haul_base::job::error::Outcome;
use haul_base::job::event::Observer;

/// One half of a pair without the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Half {
    /// A file.
    File,
    /// A line.
    Line,
}

/// A form of output.
pub trait Show: Observer {
    /// Says something that the engine does not know of.
    fn complain(&mut self, message: &str);

    /// With `--expect`: a file without a line, or a line without a file. Text output reports them at the end.
    fn without_other_half(&mut self, _half: Half, _path: &[u8]) {}

    /// Shows the result and ends. Fails only where lines were for a program and could not be written.
    fn finish(&mut self, outcome: &Outcome) -> io::Result<()>;
}

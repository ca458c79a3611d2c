//! Pipes that the parent process leaves to a worker.

use std::io;
use std::sync::Arc;

use haul_base::sys::inherited_fds;

use crate::io::program::{InheritedPipe, PipeProgram};

/// Pipes handed over by the parent process: the standard input and output of the command, or the pipe of a server.
#[derive(Default)]
pub struct InheritedPipes {
    /// Input for a source.
    pub input: Option<InheritedPipe>,
    /// Output for a target.
    pub output: Option<InheritedPipe>,
}

impl InheritedPipes {
    /// Takes ownership of the descriptors by number. Call it once, before any other file is opened.
    pub fn adopt(input: Option<i32>, output: Option<i32>) -> io::Result<Self> {
        let take = |number: Option<i32>| number.map(inherited_fds::adopt).transpose();
        Ok(Self { input: take(input)?.map(InheritedPipe::from), output: take(output)?.map(InheritedPipe::from) })
    }

    /// The program behind them, if any.
    pub(crate) fn program(&self) -> Option<Arc<PipeProgram>> {
        self.input.as_ref().or(self.output.as_ref())?.program.clone()
    }
}

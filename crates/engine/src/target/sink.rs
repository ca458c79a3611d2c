//! What is open before anything is offered and takes bytes in order: standard output, or a program.

use rustix::pipe::fcntl_setpipe_size;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

use crate::fs::describe;
use crate::program::Program;
use crate::storage::file::Opened;
use crate::storage::{Access, PIPE_BYTES};
use crate::worker::lock;

/// Where bytes go, in order.
pub struct Sink {
    open: Mutex<Option<Arc<Opened>>>,
    program: Option<Program>,
}

impl Sink {
    /// What is read by nobody in particular, or by a program.
    pub fn new(fd: OwnedFd, program: Option<Program>) -> io::Result<Self> {
        // It is no pipe, or has all that this user may have.
        let _ = fcntl_setpipe_size(&fd, PIPE_BYTES);
        Ok(Self { open: Mutex::new(Some(Arc::new(Opened::new(fd, Access::Write)?))), program })
    }

    /// What is written to.
    pub fn file(&self) -> Result<Arc<Opened>, String> {
        lock(&self.open).clone().ok_or_else(|| "the job was stopped".into())
    }

    /// Everything was written: says so to the program, and waits for its end for as long as the job goes on.
    pub fn finish(&self, goes_on: impl Fn() -> bool) -> Result<(), String> {
        drop(lock(&self.open).take());
        self.program.as_ref().map_or(Ok(()), |program| program.finish(goes_on))
    }

    /// Whether a program reads it.
    pub fn has_program(&self) -> bool {
        self.program.is_some()
    }

    /// Its program has failed before it was told that all was written.
    pub fn has_failed(&self) -> Option<String> {
        let text = self.program.as_ref()?.has_failed()?;
        lock(&self.open).is_some().then_some(text)
    }

    /// What was written is not all: a program is ended before it could take it for that.
    pub fn abandon(&self) {
        self.program.iter().for_each(Program::end);
        drop(lock(&self.open).take());
    }

    /// Why it could not be written to.
    pub fn why(&self, error: &io::Error) -> String {
        let is_gone = error.kind() == io::ErrorKind::BrokenPipe;
        let reason = self.program.as_ref().filter(|_| is_gone).and_then(Program::why_it_ended);
        reason.unwrap_or_else(|| describe(error))
    }
}

//! A destination that is open before the first offer and accepts bytes in order: standard output, or a program.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use haul_base::sys::sync::lock;
use rustix::pipe::fcntl_setpipe_size;

use crate::io::program::{PipeProgram, ProgramError};
use crate::io::storage::PIPE_BYTES;
use crate::io::storage::calls::write_on;
use crate::receiver::place::error::FileError;

/// A sink for bytes in order.
pub struct InOrderSink {
    /// Locked during writes. This is the only descriptor: when it is dropped, the reader sees end of file.
    open: Mutex<Option<OwnedFd>>,
    /// Writes have ended.
    is_closed: AtomicBool,
    program: Option<Arc<PipeProgram>>,
}

impl InOrderSink {
    /// `program` is the reader, if known.
    pub fn new(fd: OwnedFd, program: Option<Arc<PipeProgram>>) -> Self {
        // Fails if it is not a pipe, or at the user's limit of pipe memory.
        let _ = fcntl_setpipe_size(&fd, PIPE_BYTES);
        Self { open: Mutex::new(Some(fd)), is_closed: AtomicBool::new(false), program }
    }

    /// Appends these bytes. The error is the program's, if it has failed.
    pub fn write(&self, bytes: &[u8]) -> Result<(), FileError> {
        let written = match &*lock(&self.open) {
            Some(fd) => write_on(fd, bytes),
            None => return Err(FileError::Stopped),
        };
        written.map_err(|error| self.write_error(error))
    }

    /// Signals the end of data to the program, and waits for its exit while the copy runs.
    pub fn finish(&self, goes_on: impl Fn() -> bool) -> Result<(), ProgramError> {
        self.is_closed.store(true, Ordering::SeqCst);
        drop(lock(&self.open).take());
        self.program.as_ref().map_or(Ok(()), |program| program.finish(goes_on))
    }

    /// Whether a program reads it.
    pub fn has_program(&self) -> bool {
        self.program.is_some()
    }

    /// The program's error, if it failed before the end of data.
    pub fn has_failed(&self) -> Option<ProgramError> {
        let error = self.program.as_ref()?.has_failed()?;
        (!self.is_closed.load(Ordering::SeqCst)).then_some(error)
    }

    /// Aborts: terminates a program before it could take its input as complete.
    pub fn abandon(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        self.program.iter().for_each(|program| program.end());
        // A blocked writer is not waited for: this process exits.
        if let Ok(mut open) = self.open.try_lock() {
            drop(open.take());
        }
    }

    fn write_error(&self, error: io::Error) -> FileError {
        let is_gone = error.kind() == io::ErrorKind::BrokenPipe;
        let program = self.program.as_ref().filter(|_| is_gone).and_then(|program| program.why_it_ended());
        program.map_or_else(|| error.into(), FileError::from)
    }
}

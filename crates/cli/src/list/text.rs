//! The text of a list. A restarted job reads it again from its beginning, so the data of a pipe is kept in a file
//! without a name.

use haul_base::sys::describe::describe;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::process;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Bytes that are read from a pipe at a time.
const PIECE: usize = 64 << 10;

/// The text of a list.
pub struct ListText {
    file: File,
    /// Where it comes out of a pipe: how far it is there.
    spooling: Option<Arc<Spooling>>,
}

/// What there is at some place of a list.
#[derive(Debug, PartialEq, Eq)]
pub enum Got {
    /// So many bytes.
    Bytes(usize),
    /// Nothing yet.
    NotYet,
    /// Nothing, and there will be no more.
    End,
}

#[derive(Default)]
struct Spooling {
    state: Mutex<ListTextState>,
    changed: Condvar,
}

#[derive(Default)]
struct ListTextState {
    written: u64,
    /// How it ended, once it has.
    ended: Option<Result<(), ListReadError>>,
}

/// Why the rest of a list is unknown.
#[derive(Debug, Clone)]
pub enum ListReadError {
    /// Its file or pipe cannot be read.
    Read(Arc<io::Error>),
    /// Its data cannot be kept for a restarted job.
    Keep(Arc<io::Error>),
}

impl fmt::Display for ListReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(error) => write!(f, "cannot read the rest of the list: {}", describe(error)),
            Self::Keep(error) => write!(
                f,
                "cannot keep the list for a second attempt: {}\nset TMPDIR to another directory, or use a file as the list",
                describe(error)
            ),
        }
    }
}

impl ListText {
    /// Of a file, or of what has a file's name: a FIFO, or a shell's `<(COMMAND)`.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        match file.metadata()?.file_type() {
            kind if kind.is_file() => Ok(Self { file, spooling: None }),
            kind if kind.is_dir() => Err(io::Error::other("is a directory")),
            _ => Self::spooled(file),
        }
    }

    /// Of standard input.
    pub fn standard_input() -> io::Result<Self> {
        Self::spooled(File::from(io::stdin().as_fd().try_clone_to_owned()?))
    }

    /// Of what can be read but once.
    pub fn spooled(pipe: File) -> io::Result<Self> {
        let file = nameless()?;
        let (spool, spooling) = (file.try_clone()?, Arc::new(Spooling::default()));
        let filling = Arc::clone(&spooling);
        // The pipe's writer may block this thread for ever: no other thread waits for it.
        thread::Builder::new().name("haul-spool".into()).spawn(move || filling.fill(pipe, &spool))?;
        Ok(Self { file, spooling: Some(spooling) })
    }

    /// What there is from `offset` on. Where that is nothing yet, waits for it no longer than `patience`.
    pub fn read_at(&self, offset: u64, buffer: &mut [u8], patience: Duration) -> Result<Got, ListReadError> {
        if let Some(spooling) = &self.spooling {
            match spooling.wait_beyond(offset, patience) {
                ListTextState { written, .. } if written > offset => {}
                ListTextState { ended: None, .. } => return Ok(Got::NotYet),
                ListTextState { ended: Some(ended), .. } => return ended.map(|()| Got::End),
            }
        }
        loop {
            match self.file.read_at(buffer, offset) {
                Ok(0) => return Ok(Got::End),
                Ok(length) => return Ok(Got::Bytes(length)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(ListReadError::Read(Arc::new(error))),
            }
        }
    }
}

impl Spooling {
    fn fill(&self, mut pipe: File, mut spool: &File) {
        let mut buffer = vec![0; PIECE];
        let ended = loop {
            match pipe.read(&mut buffer) {
                Ok(0) => break Ok(()),
                Ok(length) => match spool.write_all(&buffer[..length]) {
                    Ok(()) => self.lock().written += length as u64,
                    Err(error) => break Err(ListReadError::Keep(Arc::new(error))),
                },
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break Err(ListReadError::Read(Arc::new(error))),
            }
            self.changed.notify_all();
        };
        self.lock().ended = Some(ended);
        self.changed.notify_all();
    }

    /// How far it is, once it is beyond `offset`, has ended, or has taken too long.
    fn wait_beyond(&self, offset: u64, patience: Duration) -> ListTextState {
        let waits = |state: &mut ListTextState| state.written <= offset && state.ended.is_none();
        let waited = self.changed.wait_timeout_while(self.lock(), patience, waits);
        let state = waited.unwrap_or_else(PoisonError::into_inner).0;
        ListTextState { written: state.written, ended: state.ended.clone() }
    }

    fn lock(&self) -> MutexGuard<'_, ListTextState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A file of this process alone, which is gone when it ends.
fn nameless() -> io::Result<File> {
    let path = std::env::temp_dir().join(format!("haul-list-{}", process::id()));
    let made = File::options().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
    fs::remove_file(&path)?;
    Ok(made)
}

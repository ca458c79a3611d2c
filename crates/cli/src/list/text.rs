//! The text of a list. A restarted copy rereads it, so data from a pipe is kept in an unnamed file.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{fmt, process, thread};

use haul_base::sys::describe::describe;

/// Read size for pipes, in bytes.
const PIECE: usize = 64 << 10;

/// The text of a list.
pub struct ListText {
    file: File,
    /// The state of a pipe's copy; `None` for a file.
    spooling: Option<Arc<Spooling>>,
}

/// The available data at an offset of a list.
#[derive(Debug, PartialEq, Eq)]
pub enum Got {
    /// This number of bytes.
    Bytes(usize),
    /// Nothing yet.
    NotYet,
    /// The end of the list.
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
    /// The result, once it has ended.
    ended: Option<Result<(), ListReadError>>,
}

/// An error in reading a list.
#[derive(Debug, Clone)]
pub enum ListReadError {
    /// Its file or pipe cannot be read.
    Read(Arc<io::Error>),
    /// Its data cannot be stored for a restarted copy.
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
    /// Opens a file, a FIFO, or a shell's `<(COMMAND)`.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        match file.metadata()?.file_type() {
            kind if kind.is_file() => Ok(Self { file, spooling: None }),
            kind if kind.is_dir() => Err(io::Error::other("is a directory")),
            _ => Self::spooled(file),
        }
    }

    /// Opens standard input.
    pub fn standard_input() -> io::Result<Self> {
        Self::spooled(File::from(io::stdin().as_fd().try_clone_to_owned()?))
    }

    /// Copies a pipe, which can be read only once.
    pub fn spooled(pipe: File) -> io::Result<Self> {
        let file = nameless()?;
        let (spool, spooling) = (file.try_clone()?, Arc::new(Spooling::default()));
        let filling = Arc::clone(&spooling);
        // The pipe's writer may block this thread forever, so no other thread waits for it.
        thread::Builder::new().name("haul-spool".into()).spawn(move || filling.fill(pipe, &spool))?;
        Ok(Self { file, spooling: Some(spooling) })
    }

    /// Reads from `offset`. Waits for data for at most `patience`.
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

    /// Waits until data is beyond `offset`, the list has ended, or the time is up. Returns the state.
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

/// Creates an unnamed temporary file.
fn nameless() -> io::Result<File> {
    let path = std::env::temp_dir().join(format!("haul-list-{}", process::id()));
    let made = File::options().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
    fs::remove_file(&path)?;
    Ok(made)
}

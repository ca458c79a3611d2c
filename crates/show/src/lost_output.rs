//! Output that could not be written is an error of the command, whatever else it did.

use std::io::{self, Stdout, Write};
use std::sync::{Mutex, PoisonError};

use crate::exit::Exit;
use crate::text::TextOutput;

/// The outputs of this process that lost something, each with its first error.
static LOST: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// An output whose first error is remembered until the end of the command.
pub struct CheckedOutput<W> {
    out: W,
    name: String,
    /// Whether a reader may close it early, as `head` does.
    has_reader: bool,
    is_lost: bool,
}

/// Standard output, for all commands. A reader may close it.
pub fn stdout() -> CheckedOutput<Stdout> {
    CheckedOutput { has_reader: true, ..CheckedOutput::new(io::stdout(), "standard output".to_owned()) }
}

/// The exit status of a command, after a message on `text` for each output that lost something.
pub fn exit_status(status: u8, text: impl FnOnce() -> TextOutput) -> u8 {
    // The standard library keeps the last line without its end.
    let _ = stdout().flush();
    let lost = std::mem::take(&mut *LOST.lock().unwrap_or_else(PoisonError::into_inner));
    if lost.is_empty() {
        return status;
    }
    let mut text = text();
    lost.iter().for_each(|message| text.error(message));
    if status == Exit::Done.number() { Exit::Failed.number() } else { status }
}

impl<W: Write> CheckedOutput<W> {
    /// Writes to `out`, which messages call `name`.
    pub fn new(out: W, name: String) -> Self {
        Self { out, name, has_reader: false, is_lost: false }
    }

    fn check<T>(&mut self, result: io::Result<T>) -> io::Result<T> {
        if let Err(error) = &result
            && !self.is_lost
            && error.kind() != io::ErrorKind::Interrupted
            && !(self.has_reader && error.kind() == io::ErrorKind::BrokenPipe)
        {
            self.is_lost = true;
            let message = format!("{}: cannot be written: {error}", self.name);
            let mut lost = LOST.lock().unwrap_or_else(PoisonError::into_inner);
            if !lost.contains(&message) {
                lost.push(message);
            }
        }
        result
    }
}

impl<W: Write> Write for CheckedOutput<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes);
        self.check(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.out.flush();
        self.check(flushed)
    }
}

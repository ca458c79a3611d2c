//! Questions about the terminal: is there one, may it be drawn on, is it still there.

use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;

use rustix::io::Errno;

/// Whether standard error is a terminal.
pub fn stderr_is_terminal() -> bool {
    io::stderr().is_terminal()
}

/// Whether errors may be coloured: on a terminal that can, unless NO_COLOR is set (<https://no-color.org>).
pub fn stderr_takes_colour() -> bool {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    stderr_is_terminal() && !refused && !dumb
}

/// Whether this job is the one that the terminal of standard error listens to.
///
/// A terminal that controls no session (in some containers) has no background; one that is gone has no foreground.
pub fn in_foreground() -> bool {
    match holds(io::stderr().as_fd()) {
        Ok(holds) => holds,
        Err(error) => error == Errno::NOTTY && stderr_is_terminal(),
    }
}

/// Columns of standard error's terminal; 80 if it does not say.
pub fn stderr_columns() -> usize {
    let size = rustix::termios::tcgetwinsize(io::stderr());
    size.map_or(80, |size| if size.ws_col == 0 { 80 } else { size.ws_col.into() })
}

/// The terminal that controls this session, watched for its loss.
pub struct Controlling(File);

impl Controlling {
    /// `None` where the session has none.
    pub fn open() -> Option<Self> {
        File::open("/dev/tty").ok().map(Self)
    }

    /// Whether this job is in its foreground; `None` once the terminal is gone.
    pub fn in_foreground(&self) -> Option<bool> {
        holds(self.0.as_fd()).ok()
    }
}

fn holds(terminal: impl AsFd) -> Result<bool, Errno> {
    Ok(rustix::termios::tcgetpgrp(terminal)? == rustix::process::getpgrp())
}

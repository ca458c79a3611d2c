//! Properties of the terminal: existence, colours, size, and the foreground copy.

use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;

use rustix::io::Errno;

/// Whether standard error is a terminal.
pub fn stderr_is_terminal() -> bool {
    io::stderr().is_terminal()
}

/// Whether text may be coloured: not with NO_COLOR (<https://no-color.org>), always with CLICOLOR_FORCE
/// (<https://bixense.com/clicolors>), and else on a terminal with colours.
pub fn stderr_takes_colour() -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let (refused, forced) = (is_set("NO_COLOR"), is_set("CLICOLOR_FORCE"));
    let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    !refused && (forced || stderr_is_terminal() && !dumb)
}

/// Whether the locale has characters beyond ASCII (locale(7)).
pub fn takes_unicode() -> bool {
    let named = ["LC_ALL", "LC_CTYPE", "LANG"].iter().filter_map(std::env::var_os).find(|value| !value.is_empty());
    named.is_some_and(|locale| {
        let locale = locale.to_string_lossy().to_ascii_lowercase();
        locale.contains("utf-8") || locale.contains("utf8")
    })
}

/// Whether this copy is in the foreground of the terminal of standard error.
///
/// A terminal that controls no session (in some containers) has only foreground copies; a closed one has only background
/// copies.
pub fn in_foreground() -> bool {
    match holds(io::stderr().as_fd()) {
        Ok(holds) => holds,
        Err(error) => error == Errno::NOTTY && stderr_is_terminal(),
    }
}

/// Columns of standard error's terminal; 80 if unknown.
pub fn stderr_columns() -> usize {
    let size = rustix::termios::tcgetwinsize(io::stderr());
    size.map_or(80, |size| if size.ws_col == 0 { 80 } else { size.ws_col.into() })
}

/// Columns and rows of standard error's terminal; 80 and 24 if unknown.
#[cfg(feature = "tui")]
pub fn stderr_size() -> (u16, u16) {
    let size = rustix::termios::tcgetwinsize(io::stderr()).ok().filter(|size| size.ws_col > 0 && size.ws_row > 0);
    size.map_or((80, 24), |size| (size.ws_col, size.ws_row))
}

/// The terminal that controls this session, watched for its loss.
pub struct Controlling(File);

impl Controlling {
    /// Opens the session's terminal; `None` without one.
    pub fn open() -> Option<Self> {
        File::open("/dev/tty").ok().map(Self)
    }

    /// Whether this copy is in its foreground; `None` once the terminal is gone.
    pub fn in_foreground(&self) -> Option<bool> {
        holds(self.0.as_fd()).ok()
    }
}

fn holds(terminal: impl AsFd) -> Result<bool, Errno> {
    Ok(rustix::termios::tcgetpgrp(terminal)? == rustix::process::getpgrp())
}

//! What was asked for, on standard output.

use std::io::{self, Write};

use crate::show::display::Mode;

/// Text that was asked for, on standard output. A reader that has seen enough is no error.
pub fn print(text: &str) {
    let mut stdout = io::stdout().lock();
    let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
}

/// A result on standard output, for people or for programs. Results are the requested output; `--quiet` has none.
pub fn say(mode: Mode, line: impl FnOnce() -> String, json: impl FnOnce() -> String) {
    match mode {
        Mode::Json => print(&json()),
        Mode::Quiet => {}
        _ => print(&format!("{}\n", line())),
    }
}

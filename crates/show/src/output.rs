//! Requested output, on standard output.

use std::io::Write;

use crate::display::Mode;
use crate::lost_output::stdout;

/// Prints requested text on standard output. An error makes the command fail at its end; a closed pipe is none.
pub fn print(text: &str) {
    let mut stdout = stdout();
    let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
}

/// Prints a result on standard output, for people or for programs; with `--quiet`, nothing.
pub fn say(mode: Mode, line: impl FnOnce() -> String, json: impl FnOnce() -> String) {
    match mode {
        Mode::Json => print(&json()),
        Mode::Quiet => {}
        _ => print(&format!("{}\n", line())),
    }
}

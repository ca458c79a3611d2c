//! Helpers shared by all parts of `cargo xtask dist`: commands that have to succeed, and messages about files.

use std::fmt::Display;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::run::{Output, run};

/// Runs `command`. Gives its output, or a message with the command and the cause.
pub(super) fn succeeds(command: &mut Command, limit: Duration) -> Result<String, String> {
    let shown = shown(command);
    let ended = run(command, limit, Output::Kept);
    match ended.failure {
        None => Ok(ended.stdout),
        Some(why) => Err(format!("{shown}: {why}{}{}", if ended.stdout.is_empty() { "" } else { "\n" }, ended.stdout)),
    }
}

/// The command as one would type it.
fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

/// `path: error`.
pub(super) fn fail(path: &Path, error: impl Display) -> String {
    format!("{}: {error}", path.display())
}

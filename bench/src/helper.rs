//! Starts the benchmark's own programs as processes of their own.

use std::ffi::OsStr;
use std::process::Command;

use anyhow::{Context, Result, bail};

/// First words on the command line of a helper process; not for users.
const VERBS: [&str; 3] = ["bare-loop", "old-cpu", "primitives"];

/// The command for a helper: this program itself (the benchmark or `cargo xtask`) with the helper's arguments.
pub fn helper(verb: &str) -> Result<Command> {
    let own = std::env::current_exe().context("where is this program?")?;
    let name = own.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut command = Command::new(&own);
    match name.as_str() {
        "haul-bench" => {}
        "haul-xtask" => {
            command.arg("bench");
        }
        _ => bail!("{name} is neither haul-bench nor haul-xtask"),
    }
    command.arg(verb);
    Ok(command)
}

/// Whether a command line that begins with this word is a helper's.
pub fn is_meant(first: &OsStr) -> bool {
    VERBS.iter().any(|verb| first == *verb)
}

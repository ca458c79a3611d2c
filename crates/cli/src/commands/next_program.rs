//! The real program behind a link of its name: the other end of a real rsync or scp asks for it.

use std::env::{current_exe, split_paths, var_os};
use std::ffi::OsString;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Replaces this process by the next program called `name` in PATH. Returns a status if there is none.
pub fn hand_over(name: &str, words: &[OsString]) -> u8 {
    let own = current_exe().and_then(std::fs::canonicalize).ok();
    let path = var_os("PATH").unwrap_or_default();
    let others = split_paths(&path)
        .map(|dir| dir.join(name))
        .filter(|file| std::fs::canonicalize(file).is_ok_and(|found| found.is_file() && Some(&found) != own.as_ref()));
    for program in others {
        // Returns only if the program cannot be started.
        let _ = Command::new(program).args(words).exec();
    }
    let _ = writeln!(std::io::stderr(), "{name}: haul speaks its own protocol, and there is no other {name} in PATH");
    127
}

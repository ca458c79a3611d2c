//! Puts files into place, as install(1) does.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::{fs, io};

/// Mode of a program.
pub const PROGRAM: u32 = 0o755;
/// Mode of any other file.
pub const DOCUMENT: u32 = 0o644;

/// Copies `from` to `to` with the permissions `mode`, and makes the directory above it.
pub fn install(from: &Path, to: &Path, mode: u32) -> io::Result<()> {
    if let Some(directory) = to.parent() {
        fs::create_dir_all(directory)?;
    }
    // A running program cannot be overwritten, but it can be replaced.
    let fresh = to.with_file_name(".haul.new");
    fs::copy(from, &fresh)?;
    fs::set_permissions(&fresh, fs::Permissions::from_mode(mode))?;
    fs::rename(&fresh, to)
}

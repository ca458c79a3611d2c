//! Finds programs on this machine.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// Where administrators' programs are, which may not be on an ordinary user's PATH.
const MORE_DIRECTORIES: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// Finds a program on PATH or in the administrators' directories.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&path).chain(MORE_DIRECTORIES.iter().map(PathBuf::from));
    places.map(|directory| directory.join(name)).find(|file| {
        let meta = file.metadata();
        meta.is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_programs_and_only_programs() {
        assert!(find_program("sh").is_some_and(|path| path.is_absolute()));
        assert!(find_program("no-such-program-anywhere").is_none());
        assert!(find_program("/etc/passwd").is_none());
    }
}

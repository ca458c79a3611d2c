//! Programs on this machine: finds them, and installs scripts in their place.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Folders of administrators' programs, often missing from an ordinary user's PATH.
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

/// Writes an executable script from another process. A descriptor open for writing here could be inherited by another
/// test's child, and would prevent execution.
///
/// # Panics
/// If the file cannot be written.
pub fn install_script(path: &Path, text: &str) {
    let mut child = Command::new("sh")
        .args(["-c", "cat >\"$1\" && chmod 755 \"$1\"", "install"])
        .arg(path)
        .stdin(Stdio::piped())
        .spawn()
        .expect("a shell");
    child.stdin.take().expect("its input").write_all(text.as_bytes()).expect("the shell reads");
    assert!(child.wait().is_ok_and(|status| status.success()), "{} could not be written", path.display());
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

//! Finds the executable of this process, for its workers.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::hello::worker_identify_line;
use crate::sys::os;

/// This executable, also if renamed.
pub const BY_PROC: &str = "/proc/self/exe";

/// The path of this executable. Without `/proc`, it is the path of the process's start, if that is haul of this
/// version.
pub fn own_executable() -> io::Result<PathBuf> {
    let by_name = std::env::current_exe().ok().filter(|path| path.exists());
    let found = by_name.or_else(|| Some(PathBuf::from(BY_PROC)).filter(|path| path.exists()));
    found.or_else(|| os::started_by().filter(|path| is_this_haul(path))).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::NotFound,
            "haul cannot find its own executable: no /proc here, and no haul at the path it was started by",
        )
    })
}

/// Whether the executable at this path is haul of this version.
fn is_this_haul(path: &Path) -> bool {
    // /dev/null may be missing too.
    let output =
        Command::new(path).args(["worker", "--identify"]).stdin(Stdio::piped()).stderr(Stdio::piped()).output();
    output
        .is_ok_and(|output| output.status.success() && output.stdout.trim_ascii() == worker_identify_line().as_bytes())
}

#[cfg(test)]
mod tests {
    use haul_lab::install_script;

    use super::*;
    use crate::copy::hello::VERSION;

    #[test]
    fn the_starting_path_resolves_to_the_executable() {
        let by_kernel = std::fs::canonicalize(os::started_by().unwrap()).unwrap();
        assert_eq!(by_kernel, std::fs::canonicalize(std::env::current_exe().unwrap()).unwrap());
        assert!(own_executable().unwrap().exists());
    }

    #[test]
    fn another_program_at_that_path_is_not_accepted() {
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("haul");
        for (line, expected) in [(worker_identify_line(), true), (format!("haul {VERSION}1 protocol 1"), false)] {
            install_script(&program, &format!("#!/bin/sh\necho '{line}'\n"));
            assert_eq!(is_this_haul(&program), expected, "{line}");
        }
        assert!(!is_this_haul(Path::new("/bin/true")) && !is_this_haul(Path::new("/nonexistent")));
    }
}

//! A directory that serves as the root of a small system, to try packages in.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use haul_lab::emulating_aarch64;

use super::commands::{fail, succeeds};
use crate::install::{DOCUMENT, PROGRAM, install};

const STEP_LIMIT: Duration = Duration::from_secs(120);
const EMULATED_LIMIT: Duration = Duration::from_secs(300);
/// A copy in the cell; haul reports on standard error.
const DEMO: [&str; 3] = ["sh", "-c", "haul demo --size 10m 2>&1"];
const CHANGE: &str = "\n# changed by the administrator\n";

/// The system.
pub(super) struct Cell<'c> {
    root: &'c Path,
}

impl<'c> Cell<'c> {
    pub(super) fn new(root: &'c Path) -> Cell<'c> {
        Cell { root }
    }

    pub(super) fn root(&self) -> &Path {
        self.root
    }

    /// Runs a command in the cell, with its own `/proc` and process ids. Gives its output.
    pub(super) fn run(&self, words: &[&str]) -> Result<String, String> {
        self.run_after(&[], words, STEP_LIMIT)
    }

    /// As [`Self::run`], where programs for aarch64 run as well.
    pub(super) fn run_emulating(&self, words: &[&str]) -> Result<String, String> {
        let prefix = emulating_aarch64().map_err(|error| error.to_string())?;
        self.run_after(&prefix, words, EMULATED_LIMIT)
    }

    fn run_after(&self, prefix: &[OsString], words: &[&str], limit: Duration) -> Result<String, String> {
        // At the end of the first process, the kernel ends the others and removes the mount.
        let alone = ["unshare", "--mount", "--pid", "--fork", "--kill-child"].map(OsString::from);
        let mut all = prefix.iter().chain(&alone);
        let mut command = Command::new(all.next().ok_or("no command")?);
        command.args(all).arg(format!("--mount-proc={}", self.root.join("proc").display()));
        command.arg("chroot").arg(self.root).args(words);
        command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("DEBIAN_FRONTEND", "noninteractive");
        succeeds(command.env("HOME", "/root"), limit)
    }

    /// Copies a package into it; its path there.
    pub(super) fn put(&self, package: &Path) -> Result<String, String> {
        let name = package.file_name().unwrap_or_default().to_string_lossy();
        install(package, &self.root.join(&*name), DOCUMENT).map_err(|error| fail(package, error))?;
        Ok(format!("/{name}"))
    }

    /// Writes a script that can be executed.
    pub(super) fn write_script(&self, path: &str, text: &str) -> Result<(), String> {
        let file = tempfile::NamedTempFile::new().map_err(|error| format!("no temporary file: {error}"))?;
        fs::write(file.path(), text).map_err(|error| fail(file.path(), error))?;
        let path = self.root.join(path);
        install(file.path(), &path, PROGRAM).map_err(|error| fail(&path, error))
    }

    /// Copies files with the installed haul, and looks for its manual page.
    pub(super) fn use_haul(&self) -> Result<(), String> {
        let printed = self.run(&DEMO)?;
        if !printed.contains("source and target compared: identical") {
            return Err(format!("haul demo printed '{printed}'"));
        }
        let manual = "usr/share/man/man1/haul.1.gz";
        if self.has(manual) { Ok(()) } else { Err(format!("{manual} is not installed")) }
    }

    pub(super) fn has(&self, path: &str) -> bool {
        self.root.join(path).symlink_metadata().is_ok()
    }

    /// Appends a line to a configuration file; its text.
    pub(super) fn change(&self, path: &str) -> Result<String, String> {
        let path = self.root.join(path);
        let text = fs::read_to_string(&path).map_err(|error| fail(&path, error))? + CHANGE;
        fs::write(&path, &text).map_err(|error| fail(&path, error))?;
        Ok(text)
    }

    /// Fails where the file has another text.
    pub(super) fn expect(&self, path: &str, text: &str) -> Result<(), String> {
        let path = self.root.join(path);
        let found = fs::read_to_string(&path).map_err(|error| fail(&path, error))?;
        if found == text { Ok(()) } else { Err(fail(&path, "the administrator's change is lost")) }
    }

    /// Fails where a file of the package is left, other than directories that the system has anyway.
    pub(super) fn expect_gone<'l>(&self, listed: impl Iterator<Item = &'l str>) -> Result<(), String> {
        let is_left = |path: &&str| {
            let left = self.root.join(path.trim_start_matches('/')).symlink_metadata();
            left.is_ok_and(|meta| !meta.is_dir() || path.contains("haul"))
        };
        let left: Vec<_> = listed.filter(|path| path.starts_with('/')).filter(is_left).collect();
        if left.is_empty() { Ok(()) } else { Err(format!("the removed package left {}", left.join(", "))) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_left_by_a_removed_package_is_found() {
        let root = tempfile::tempdir().unwrap();
        let cell = Cell::new(root.path());
        fs::create_dir_all(root.path().join("usr/bin")).unwrap();
        let listed = ["/.", "/usr/bin", "/usr/bin/haul"];
        assert_eq!(cell.expect_gone(listed.into_iter()), Ok(()));
        fs::write(root.path().join("usr/bin/haul"), "").unwrap();
        assert!(cell.expect_gone(listed.into_iter()).is_err_and(|why| why.contains("/usr/bin/haul")));
    }

    #[test]
    fn a_changed_file_is_compared_with_its_text() {
        let root = tempfile::tempdir().unwrap();
        let cell = Cell::new(root.path());
        fs::write(root.path().join("file"), "a").unwrap();
        let text = cell.change("file").unwrap();
        assert_eq!(cell.expect("file", &text), Ok(()));
        fs::write(root.path().join("file"), "a").unwrap();
        assert!(cell.expect("file", &text).is_err_and(|why| why.contains("is lost")));
    }
}

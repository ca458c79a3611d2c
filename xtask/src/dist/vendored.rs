//! The archive of the sources with those of all crates, for builds without a network.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::commands::{fail, succeeds};
use crate::workspace::{cargo, root};

/// It fetches crates that no build here needed, and compresses.
const ARCHIVE_LIMIT: Duration = Duration::from_secs(600);
/// The crates' folder in the archive.
const CRATES: &str = "vendor";

/// Archives the last commit with all crates in `directory`; its path.
pub(super) fn write(directory: &Path, version: &str, date: u64) -> Result<PathBuf, String> {
    let folder = tempfile::tempdir().map_err(|error| format!("no temporary directory: {error}"))?;
    let name = format!("haul-{version}");
    let sources = folder.path().join(&name);
    let commit = folder.path().join("commit.tar");
    let mut archive = Command::new("git");
    archive.args(["archive", "--format=tar", &format!("--prefix={name}/"), "--output"]).arg(&commit).arg("HEAD");
    succeeds(archive.current_dir(root()), ARCHIVE_LIMIT)?;
    succeeds(Command::new("tar").arg("-xf").arg(&commit).arg("-C").arg(folder.path()), ARCHIVE_LIMIT)?;
    vendor(&sources)?;
    check(&sources)?;
    let path = directory.join(format!("{name}-vendored.tar.xz"));
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--use-compress-program=xz -T2"]);
    tar.arg(format!("--mtime=@{date}")).arg("-cf").arg(&path).arg("-C").arg(folder.path()).arg(&name);
    succeeds(&mut tar, ARCHIVE_LIMIT)?;
    Ok(path)
}

/// Adds the crates to `sources`, and cargo's configuration that uses them.
fn vendor(sources: &Path) -> Result<(), String> {
    let mut command = cargo(&["vendor", "--locked", CRATES]);
    let replacement = succeeds(command.current_dir(sources), ARCHIVE_LIMIT)?;
    let path = sources.join(".cargo/config.toml");
    let mut file = OpenOptions::new().append(true).open(&path).map_err(|error| fail(&path, error))?;
    write!(file, "\n{replacement}").map_err(|error| fail(&path, error))
}

/// Fails where cargo finds not every crate without a network or a registry's copy.
fn check(sources: &Path) -> Result<(), String> {
    let home = tempfile::tempdir().map_err(|error| format!("no temporary directory: {error}"))?;
    let mut command = cargo(&["metadata", "--locked", "--offline", "--format-version=1"]);
    succeeds(command.current_dir(sources).env("CARGO_HOME", home.path()), ARCHIVE_LIMIT).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dist::build::copy_sources;

    #[test]
    fn sources_without_crates_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        copy_sources(folder.path()).unwrap();
        assert!(check(folder.path()).is_err());
    }
}

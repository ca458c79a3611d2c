//! The release's Python wheel, and a trial of it in a fresh environment.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::check_size;
use super::commands::{fail, succeeds};
use super::packages::Release;
use crate::workspace::root;

/// It fetches the build backend, some 200 kB.
const BUILD_LIMIT: Duration = Duration::from_secs(300);
const CHECK_LIMIT: Duration = Duration::from_secs(120);
const INTERPRETER: &str = "python3";

/// Makes the wheel with the release's executable in `to`; its path.
pub(super) fn write(release: &Release, to: &Path) -> Result<PathBuf, String> {
    let folder = tempfile::tempdir().map_err(|error| format!("no temporary directory: {error}"))?;
    let mut command = Command::new(INTERPRETER);
    command.args(["-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir"]).arg(folder.path());
    command.arg(root().join("python")).env("HAUL_BIN", release.executable);
    succeeds(command.env("SOURCE_DATE_EPOCH", release.date.to_string()), BUILD_LIMIT)?;
    let entry = fs::read_dir(folder.path()).map_err(|error| fail(folder.path(), error))?.next();
    let built = entry.ok_or("pip wheel made no wheel")?.map_err(|error| fail(folder.path(), error))?.path();
    let content = fs::read(&built).map_err(|error| fail(&built, error))?;
    check_size(content.len()).map_err(|why| fail(&built, why))?;
    let wheel = to.join(built.file_name().ok_or("a wheel without a name")?);
    fs::write(&wheel, content).map_err(|error| fail(&wheel, error))?;
    Ok(wheel)
}

/// Installs it into a fresh environment without a package index, and copies with both of its faces.
pub(super) fn check(wheel: &Path) -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| format!("no temporary directory: {error}"))?;
    let environment = folder.path().join("environment");
    succeeds(Command::new(INTERPRETER).args(["-m", "venv"]).arg(&environment), CHECK_LIMIT)?;
    let run = |program: &str, words: &[&str]| {
        let mut command = Command::new(environment.join("bin").join(program));
        command.args(words).current_dir(folder.path()).env("HOME", folder.path());
        succeeds(command.env_remove("HAUL_BIN").env_remove("PYTHONPATH"), CHECK_LIMIT)
    };
    run("pip", &["install", "--quiet", "--no-index", &wheel.to_string_lossy()])?;
    run("haul", &["demo", "--size", "10m"])?;
    run("python", &["-c", "import haul; assert haul.copy('environment/pyvenv.cfg', 'copy').files_copied == 1"])?;
    println!("wheel: installed without an index, used as a program and from Python");
    Ok(())
}

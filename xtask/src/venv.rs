//! Python environments (venv) with the packages of a requirements file, made once and kept until an input changes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use haul_lab::find_program;

use crate::run::{Output, run};

/// The interpreter that makes environments; `HAUL_PYTHON` names another.
const INTERPRETER: &str = "python3";
/// Has the inputs of a complete environment; missing in an incomplete one.
const INPUTS: &str = "installed-requirements";
/// Fails where the version is too old or Debian's python3-venv is missing.
const SUITABLE: &str = "import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 9))";
const CHECK_LIMIT: Duration = Duration::from_secs(60);
/// Downloads some 100 MB, the first time.
const INSTALL_LIMIT: Duration = Duration::from_secs(480);

/// A virtual environment and its contents.
pub struct VirtualEnvironment<'a> {
    /// Its directory.
    pub directory: &'a Path,
    /// Where pip runs: names of files in `installs` are relative to it.
    pub project: &'a Path,
    /// Files whose contents decide what is installed: a change makes a new environment.
    pub inputs: &'a [&'a str],
    /// Arguments of `pip install`, one call after another.
    pub installs: &'a [&'a [&'a str]],
}

impl VirtualEnvironment<'_> {
    /// Makes the environment where it is missing or out of date. Fails with the reason and the remedy.
    pub fn provide(&self) -> Result<(), String> {
        let interpreter = interpreter()?;
        let inputs = self.inputs(&interpreter)?;
        let marker = self.directory.join(INPUTS);
        if fs::read_to_string(&marker).is_ok_and(|installed| installed == inputs) {
            return Ok(());
        }
        let mut make = Command::new(&interpreter);
        let made = run(make.args(["-m", "venv", "--clear"]).arg(self.directory), INSTALL_LIMIT, Output::Shown);
        made.failure.map_or(Ok(()), |why| Err(format!("{}: cannot be made: {why}", self.directory.display())))?;
        for packages in self.installs {
            let mut pip = self.program("python");
            pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(*packages);
            let ended = run(pip.current_dir(self.project), INSTALL_LIMIT, Output::Shown);
            ended.failure.map_or(Ok(()), |why| Err(format!("pip install {} failed: {why}", packages.join(" "))))?;
        }
        fs::write(&marker, inputs).map_err(|error| format!("{}: {error}", marker.display()))
    }

    /// A program of the environment.
    pub fn program(&self, name: &str) -> Command {
        let mut command = Command::new(self.directory.join("bin").join(name));
        command.env_remove("PYTHONPATH").env("PYTHONDONTWRITEBYTECODE", "1");
        command
    }

    /// Interpreter and contents of the input files.
    fn inputs(&self, interpreter: &Path) -> Result<String, String> {
        let mut version = Command::new(interpreter);
        version.args(["-c", "import sys; print(sys.version, sys.executable)"]);
        let mut inputs = run(&mut version, CHECK_LIMIT, Output::Kept).stdout;
        for name in self.inputs {
            let path = self.project.join(name);
            inputs += &fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        Ok(inputs)
    }
}

fn interpreter() -> Result<PathBuf, String> {
    let interpreter = std::env::var_os("HAUL_PYTHON").map(PathBuf::from).or_else(|| find_program(INTERPRETER));
    let interpreter = interpreter.ok_or("python3 is not installed: apt-get install python3-venv")?;
    if run(Command::new(&interpreter).args(["-c", SUITABLE]), CHECK_LIMIT, Output::Kept).succeeded() {
        return Ok(interpreter);
    }
    let name = interpreter.display();
    Err(format!("{name} is older than 3.9 or has no venv: apt-get install python3-venv, or set HAUL_PYTHON"))
}

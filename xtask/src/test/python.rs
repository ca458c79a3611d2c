//! The step `python`: an environment below `target/`, mypy, and the client's tests with the program that was built.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use haul_lab::find_program;

use super::Step;
use super::steps::{Context, build_program};
use crate::report::{Counts, StepResult};
use crate::run::{Output, run};
use crate::workspace::root;

/// The interpreter that makes the environment; `HAUL_PYTHON` names another.
const INTERPRETER: &str = "python3";
const REQUIREMENTS: &str = "requirements-test.txt";
/// Has the requirements that were installed; missing in an incomplete environment.
const INSTALLED: &str = "installed-requirements";
/// Fails where the version is too old or Debian's python3-venv is missing.
const SUITABLE: &str = "import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 9))";
const CHECK_LIMIT: Duration = Duration::from_secs(60);
/// Downloads some 100 MB, the first time.
const INSTALL_LIMIT: Duration = Duration::from_secs(480);
const MYPY_LIMIT: Duration = Duration::from_secs(180);

pub fn python(_: &mut Context, step: &Step) -> StepResult {
    let environment = match provide_environment() {
        Ok(environment) => environment,
        Err(why) => return StepResult { not_run: Some(why), ..StepResult::default() },
    };
    let haul = match build_program("haul", &["--workspace"], step.limit) {
        Ok(program) => program,
        Err(why) => return StepResult::failed(format!("nothing could be run: {why}")),
    };
    let mut mypy = in_project(&environment, &["-m", "mypy", "--cache-dir"]);
    let types = run(mypy.arg(environment.join("mypy-cache")), MYPY_LIMIT, Output::Shown);
    let mut pytest = in_project(&environment, &["-m", "pytest", "-q", "-n", "2"]);
    let tests = run(pytest.env("HAUL_BIN", haul), step.limit, Output::Shown);
    let counts = pytest_counts(&tests.stdout);
    let mut failures: Vec<_> = types.failure.map(|why| format!("mypy: {why}")).into_iter().collect();
    failures.extend(tests.failure.map(|why| format!("pytest: {why}")));
    if failures.is_empty() && counts.passed == 0 {
        failures.push("pytest ran no test".to_owned());
    }
    StepResult { failures, counts, skips: skip_reasons(&tests.stdout), ..StepResult::default() }
}

/// The environment with everything in it, or why there is none.
fn provide_environment() -> Result<PathBuf, String> {
    let interpreter = std::env::var_os("HAUL_PYTHON").map(PathBuf::from).or_else(|| find_program(INTERPRETER));
    let interpreter = interpreter.ok_or("python3 is not installed: apt-get install python3-venv")?;
    if !run(Command::new(&interpreter).args(["-c", SUITABLE]), CHECK_LIMIT, Output::Kept).succeeded() {
        let name = interpreter.display();
        return Err(format!(
            "{name} is older than 3.9 or has no venv: apt-get install python3-venv, or set HAUL_PYTHON"
        ));
    }
    let environment = root().join("target").join("python");
    let wanted = wanted(&interpreter)?;
    if fs::read_to_string(environment.join(INSTALLED)).is_ok_and(|installed| installed == wanted) {
        return Ok(environment);
    }
    install(&interpreter, &environment)?;
    let marker = environment.join(INSTALLED);
    fs::write(&marker, wanted).map_err(|error| format!("{}: {error}", marker.display()))?;
    Ok(environment)
}

/// A key of the environment's inputs. Another interpreter, package or requirement makes a new environment.
fn wanted(interpreter: &Path) -> Result<String, String> {
    let version = run(
        Command::new(interpreter).args(["-c", "import sys; print(sys.version, sys.executable)"]),
        CHECK_LIMIT,
        Output::Kept,
    );
    let mut wanted = version.stdout;
    for name in [REQUIREMENTS, "pyproject.toml"] {
        let path = project().join(name);
        wanted += &fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(wanted)
}

fn install(interpreter: &Path, environment: &Path) -> Result<(), String> {
    let mut make = Command::new(interpreter);
    let made = run(make.args(["-m", "venv", "--clear"]).arg(environment), INSTALL_LIMIT, Output::Shown);
    made.failure.map_or(Ok(()), |why| Err(format!("{}: cannot be made: {why}", environment.display())))?;
    // An editable install: the tests see changes, and the entry point of fsspec exists.
    for what in [&["--upgrade", "-r", REQUIREMENTS][..], &["--no-build-isolation", "--no-deps", "-e", "."]] {
        let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
        let ended = run(in_project(environment, &pip).args(what), INSTALL_LIMIT, Output::Shown);
        ended.failure.map_or(Ok(()), |why| Err(format!("pip install {} failed: {why}", what.join(" "))))?;
    }
    Ok(())
}

fn project() -> PathBuf {
    root().join("python")
}

/// Python of the environment, in the project's folder.
fn in_project(environment: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(environment.join("bin").join("python"));
    command.args(arguments).current_dir(project()).env_remove("PYTHONPATH").env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

/// pytest's last line contains one of these.
const ENDINGS: &[&str] = &[" passed", " failed", " error", " skipped"];

/// The numbers in the last line of pytest: `1 failed, 62 passed, 3 skipped, 1 error in 9.15s`.
fn pytest_counts(output: &str) -> Counts {
    let mut counts = Counts::default();
    let is_last = |line: &&str| line.contains(" in ") && ENDINGS.iter().any(|ending| line.contains(ending));
    let last = output.lines().rev().find(is_last);
    let words: Vec<_> = last.unwrap_or_default().split([' ', ',']).filter(|word| !word.is_empty()).collect();
    for pair in words.windows(2) {
        let Ok(number) = pair[0].parse::<u64>() else { continue };
        match pair[1] {
            "passed" => counts.passed += number,
            "failed" | "error" | "errors" => counts.failed += number,
            "skipped" | "xfailed" => counts.skipped += number,
            _ => {}
        }
    }
    counts
}

/// pytest's lines with reasons for skips: `SKIPPED [1] tests/test_x.py:9: no module`.
fn skip_reasons(output: &str) -> Vec<String> {
    output.lines().filter_map(|line| line.strip_prefix("SKIPPED ")).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_of_pytest_is_counted() {
        let output = "..F\n1 of 3 in use\nSKIPPED [2] tests/test_a.py:3: no dask\n1 failed, 62 passed, 2 skipped, 1 error in 75.10s (0:01:15)\n";
        let counts = |text: &str| pytest_counts(text);
        assert_eq!(counts("5 passed, 1 warning in 4.66s\n"), Counts { passed: 5, failed: 0, skipped: 0 });
        assert_eq!(counts("no tests ran in 0.01s\n"), Counts::default());
        assert_eq!(counts(&output.replace(" (0:01:15)", "")), Counts { passed: 62, failed: 2, skipped: 2 });
        assert_eq!(counts(output), Counts { passed: 62, failed: 2, skipped: 2 });
        assert_eq!(skip_reasons(output), ["[2] tests/test_a.py:3: no dask"]);
    }
}

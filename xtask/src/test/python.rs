//! The step `python`: an environment below `target/`, mypy, and the client's tests with the program that was built.

use std::time::Duration;

use super::Step;
use super::steps::Context;
use crate::report::{Counts, StepResult};
use crate::run::{Output, run};
use crate::venv::VirtualEnvironment;
use crate::workspace::root;

const REQUIREMENTS: &str = "requirements-test.txt";
const MYPY_LIMIT: Duration = Duration::from_secs(180);

pub fn python(context: &Context, step: &Step) -> StepResult {
    let directory = root().join("target").join("python");
    let project = root().join("python");
    let environment = VirtualEnvironment {
        directory: &directory,
        project: &project,
        inputs: &[REQUIREMENTS, "pyproject.toml"],
        // An editable install: the tests see changes, and the entry point of fsspec exists.
        installs: &[&["--upgrade", "-r", REQUIREMENTS], &["--no-build-isolation", "--no-deps", "-e", "."]],
    };
    if let Err(why) = environment.provide() {
        return StepResult { not_run: Some(why), ..StepResult::default() };
    }
    let haul = match context.haul() {
        Ok(program) => program,
        Err(why) => return StepResult::failed(format!("nothing could be run: {why}")),
    };
    let python = |module: &str| {
        let mut command = environment.program("python");
        command.args(["-m", module]).current_dir(&project);
        command
    };
    let types = run(python("mypy").arg("--cache-dir").arg(directory.join("mypy-cache")), MYPY_LIMIT, Output::Kept);
    let tests = run(python("pytest").args(["-q", "-n", "2"]).env("HAUL_BIN", haul), step.limit, Output::Kept);
    let counts = pytest_counts(&tests.stdout);
    [types.stdout, tests.stdout.clone()].iter().for_each(|text| print!("{text}"));
    let mut failures: Vec<_> = types.failure.map(|why| format!("mypy: {why}")).into_iter().collect();
    failures.extend(tests.failure.map(|why| format!("pytest: {why}")));
    if failures.is_empty() && counts.passed == 0 {
        failures.push("pytest ran no test".to_owned());
    }
    StepResult { failures, counts, skips: skip_reasons(&tests.stdout), ..StepResult::default() }
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

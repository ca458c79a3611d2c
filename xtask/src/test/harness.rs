//! Runs test executables one after the other and adds up what they report.
//!
//! A test that finds out that it cannot run (no root, no such tool) prints a line `SKIPPED: REASON` and returns; libtest then
//! calls it passed. So that it is not counted as such, the output of passed tests is asked for as well, and searched.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use super::steps::Done;
use crate::artifacts::Executable;
use crate::report::{Counts, add_cases};
use crate::run::{Output, run};

/// How a line begins with which a test says that it did not run.
const SKIPPED: &str = "SKIPPED: ";

/// How a step's test executables are to be run.
pub struct Harness<'a> {
    /// The workspace's root.
    pub root: &'a Path,
    /// For all of them together.
    pub limit: Duration,
    /// Variables to set.
    pub environment: Vec<(&'static str, String)>,
    /// Arguments for each of them.
    pub arguments: Vec<&'static str>,
}

impl Harness<'_> {
    /// Runs `executables`. No test at all is a failure.
    pub fn run(&self, executables: &[&Executable]) -> Done {
        let mut done = Done::default();
        let started = Instant::now();
        for executable in executables {
            println!("\n--- {}", executable.label(self.root));
            let left = self.limit.saturating_sub(started.elapsed());
            let ended = run(&mut self.command(executable), left, Output::Shown);
            let mut counts = Counts::parse(&ended.stdout);
            let skips = skips(&ended.stdout);
            counts.set_aside(skips.len() as u64);
            done.counts.add(counts);
            done.skips.extend(skips);
            add_cases(&mut done.cases, &ended.stdout);
            if let Some(why) = ended.failure {
                done.failures.push(format!("{}: {}", executable.label(self.root), reason(&why, counts, &ended.stdout)));
            }
        }
        if done.counts == Counts::default() && done.failures.is_empty() {
            done.failures.push("not one test was run".to_owned());
        }
        done
    }

    fn command(&self, executable: &Executable) -> Command {
        let mut command = Command::new(&executable.path);
        command
            .arg("--show-output")
            .args(&self.arguments)
            .current_dir(&executable.package_dir)
            .env("CARGO_MANIFEST_DIR", &executable.package_dir)
            // A snapshot that differs fails; it is never written from here.
            .env("INSTA_UPDATE", "no")
            .envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }
}

/// Tests that say in their output that they did not run: `NAME: REASON`.
fn skips(stdout: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut test = None;
    for line in stdout.lines() {
        if let Some(name) = line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----")) {
            test = Some(name);
        } else if let (Some(name), Some(why)) = (test, line.strip_prefix(SKIPPED)) {
            found.push(format!("{name}: {why}"));
            test = None;
        }
    }
    found
}

/// Why an executable failed: the tests by name, or how it ended where it did not get so far as to name any.
fn reason(ended: &str, counts: Counts, stdout: &str) -> String {
    if counts.failed == 0 {
        return ended.to_owned();
    }
    let mut names: Vec<_> =
        stdout.lines().filter_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED")).collect();
    names.sort_unstable();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_that_did_not_run_is_counted_once() {
        let stdout = "test a ... ok\n\nsuccesses:\n\n---- a stdout ----\nSKIPPED: needs root\nSKIPPED: again\n\n\
            ---- b stdout ----\nsomething else\n\nsuccesses:\n    a\n    b\n";
        assert_eq!(skips(stdout), ["a: needs root"]);
        assert!(skips("SKIPPED: outside of any test").is_empty());
    }

    #[test]
    fn names_the_tests_that_failed() {
        let stdout = "test a::b ... ok\ntest a::c ... FAILED\ntest result: FAILED. 1 passed; 1 failed; 0 ignored;\n";
        assert_eq!(reason("exit status 101", Counts::parse(stdout), stdout), "a::c");
        assert_eq!(reason("killed by signal 9", Counts::default(), ""), "killed by signal 9");
    }
}

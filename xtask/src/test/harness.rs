//! Runs test executables, in sequence or several at once, and sums their results.
//!
//! A test that cannot run (no root, a missing tool) prints a line `SKIPPED: REASON` and returns. libtest counts it as
//! passed, so this module searches the output of passed tests for that line.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::artifacts::BuiltExecutable;
use crate::report::{Counts, StepResult};
use crate::rows::add_cases;
use crate::run::{CommandEnd, Output, run};

/// The prefix of a skipped test's line.
const SKIPPED: &str = "SKIPPED: ";
/// Of a failed test's panic, the table of steps repeats so many lines.
const PANIC_LINES: usize = 30;

/// How a step's test executables are to be run.
pub struct Harness<'a> {
    /// The workspace's root.
    pub root: &'a Path,
    /// For all of them together.
    pub limit: Duration,
    /// Words before each of them, such as an emulator.
    pub prefix: Vec<OsString>,
    /// Variables to set.
    pub environment: Vec<(&'static str, String)>,
    /// Arguments for each of them.
    pub arguments: Vec<String>,
    /// The number of executables to run at once. With more than one, output appears when an executable ends.
    pub at_once: usize,
}

impl Harness<'_> {
    /// Runs `executables`. No test at all is a failure.
    pub fn run(&self, executables: &[&BuiltExecutable]) -> StepResult {
        let started = Instant::now();
        let (done, waiting) = (Mutex::new(StepResult::default()), Mutex::new(executables.iter()));
        std::thread::scope(|scope| {
            for _ in 0..self.at_once {
                scope.spawn(|| {
                    loop {
                        let next = waiting.lock().unwrap_or_else(PoisonError::into_inner).next();
                        let Some(executable) = next else { return };
                        let left = self.limit.saturating_sub(started.elapsed());
                        self.run_one(executable, left, &done);
                    }
                });
            }
        });
        let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
        if done.counts == Counts::default() && done.failures.is_empty() {
            done.failures.push("not one test was run".to_owned());
        }
        done
    }

    fn run_one(&self, executable: &BuiltExecutable, limit: Duration, all: &Mutex<StepResult>) {
        let title = format!("\n--- {}", executable.label(self.root));
        let alone = self.at_once == 1;
        if alone {
            println!("{title}");
        }
        let begun = Instant::now();
        let output = if alone { Output::Shown } else { Output::Kept };
        let CommandEnd { stdout, failure } = run(&mut self.command(executable), limit, output);
        let mut done = all.lock().unwrap_or_else(PoisonError::into_inner);
        if !alone {
            println!("{title} ({:.1} s)\n{}", begun.elapsed().as_secs_f64(), without_successes(&stdout));
        }
        let mut counts = Counts::parse(&stdout);
        let skips = skips(&stdout);
        counts.set_aside(skips.len() as u64);
        done.counts.add(counts);
        done.skips.extend(skips);
        add_cases(&mut done.cases, &stdout);
        if let Some(why) = failure {
            done.failures.push(format!("{}: {}", executable.label(self.root), reason(&why, counts, &stdout)));
        }
    }

    fn command(&self, executable: &BuiltExecutable) -> Command {
        let words = [&self.prefix[..], &[executable.path.clone().into()]].concat();
        let mut command = Command::new(&words[0]);
        command
            .args(&words[1..])
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

/// A harness's output without that of its passed tests.
fn without_successes(stdout: &str) -> String {
    let Some((head, rest)) = stdout.split_once("\nsuccesses:\n") else { return stdout.to_owned() };
    let tail = ["\nfailures:\n", "\ntest result: "].into_iter().filter_map(|mark| rest.find(mark)).min();
    format!("{head}{}", tail.map_or("", |tail| &rest[tail..]))
}

/// Why an executable failed: the failed tests, each with the start of its panic message (with the seed, if any), or the
/// exit status if no test is named.
fn reason(ended: &str, counts: Counts, stdout: &str) -> String {
    if counts.failed == 0 {
        return ended.to_owned();
    }
    let mut names: Vec<_> =
        stdout.lines().filter_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED")).collect();
    names.sort_unstable();
    let reasons = names.iter().map(|name| match panic_text(name, stdout) {
        Some(text) => format!("{name}: {text}"),
        None => (*name).to_owned(),
    });
    reasons.collect::<Vec<_>>().join("\n")
}

/// The beginning of a test's first panic, without its place.
fn panic_text(test: &str, stdout: &str) -> Option<String> {
    let (_, output) = stdout.split_once(&format!("---- {test} stdout ----\n"))?;
    let (_, panic) = output.split_once(" panicked at ")?;
    let is_of_panic = |line: &&str| !["note: ", "---- ", "stack backtrace:"].iter().any(|end| line.starts_with(end));
    let lines: Vec<_> = panic.lines().skip(1).take_while(is_of_panic).take(PANIC_LINES).collect();
    Some(lines.join("\n").trim_end().to_owned()).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skipped_test_is_counted_once() {
        let stdout = "test a ... ok\n\nsuccesses:\n\n---- a stdout ----\nSKIPPED: needs root\nSKIPPED: again\n\n\
            ---- b stdout ----\nsomething else\n\nsuccesses:\n    a\n    b\n";
        assert_eq!(skips(stdout), ["a: needs root"]);
        assert!(skips("SKIPPED: outside of any test").is_empty());
    }

    #[test]
    fn the_output_of_passed_tests_is_not_shown() {
        let stdout =
            "test a ... ok\n\nsuccesses:\n\n---- a stdout ----\nnoise\n\nsuccesses:\n    a\n\ntest result: ok.\n";
        assert_eq!(without_successes(stdout), "test a ... ok\n\ntest result: ok.\n");
        let failed =
            "test a ... ok\n\nsuccesses:\nnoise\n\nfailures:\n\n---- b stdout ----\nwhy\n\ntest result: FAILED.\n";
        assert_eq!(
            without_successes(failed),
            "test a ... ok\n\nfailures:\n\n---- b stdout ----\nwhy\n\ntest result: FAILED.\n"
        );
        assert_eq!(without_successes("test result: ok."), "test result: ok.");
    }

    #[test]
    fn names_failed_tests() {
        let stdout = "test a::b ... ok\ntest a::c ... FAILED\ntest result: FAILED. 1 passed; 1 failed; 0 ignored;\n";
        assert_eq!(reason("exit status 101", Counts::parse(stdout), stdout), "a::c");
        let said = format!(
            "---- a::c stdout ----\n\nthread 'a::c' (7) panicked at src/x.rs:1:2:\nseed 17: it was taken\nnote: x\n{stdout}"
        );
        assert_eq!(reason("exit status 101", Counts::parse(stdout), &said), "a::c: seed 17: it was taken");
        assert_eq!(reason("killed by signal 9", Counts::default(), ""), "killed by signal 9");
    }
}

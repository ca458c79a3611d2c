//! Runs tests with cargo-nextest: each in a process of its own, with a limit of its own; `.config/nextest.toml` has the
//! settings. Sums what nextest reports in JUnit's format.
//!
//! A test that cannot run (no root, a missing tool) prints a line `SKIPPED: REASON` and returns. That counts as
//! skipped here, while nextest sees a success.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use std::{fs, io};

use haul_lab::rebuild;
use roxmltree::{Document, Node};

use crate::report::{StepResult, TestTime};
use crate::rows::add_cases;
use crate::run::{Output, run};
use crate::tools::CARGO_NEXTEST;
use crate::workspace::root;

/// The prefix of a skipped test's line.
const SKIPPED: &str = "SKIPPED: ";
/// Of a failed test's panic, the table of steps repeats so many lines.
const PANIC_LINES: usize = 30;
/// nextest's exit status after failed tests.
const TESTS_FAILED: &str = "exit status 100";
/// Below `target/nextest`: the list of test executables, and cargo's metadata. A run with both needs no cargo, which
/// would wait for the lock of clippy's build.
const BINARIES: &str = "binaries.json";
const METADATA: &str = "metadata.json";

/// Tests to run.
pub struct TestRun<'a> {
    /// A profile of `.config/nextest.toml`. Runs at the same time need different ones.
    pub profile: &'a str,
    /// nextest's filter expression.
    pub filter: &'a str,
    /// For all of them together.
    pub limit: Duration,
    /// Words before the command, such as an emulator.
    pub prefix: Vec<OsString>,
    /// Variables to set.
    pub environment: Vec<(&'a str, OsString)>,
    /// The tests' packages, targets and filters; none where [`build`] was called before.
    pub build: &'a [&'a str],
}

/// Builds every test executable of the workspace.
pub fn build(limit: Duration) -> Result<usize, String> {
    let mut list = nextest(&["list", "--locked", "--workspace", "--list-type=binaries-only", "--message-format=json"])?;
    let listed = run(&mut list, limit, Output::Kept);
    listed.failure.map_or(Ok(()), |why| Err(format!("cargo nextest list: {why}")))?;
    let mut metadata = crate::workspace::cargo(&["metadata", "--locked", "--format-version=1"]);
    let described = run(&mut metadata, limit, Output::Kept);
    described.failure.map_or(Ok(()), |why| Err(format!("cargo metadata: {why}")))?;
    for (name, text) in [(BINARIES, &listed.stdout), (METADATA, &described.stdout)] {
        let path = store(name);
        let written = fs::create_dir_all(store("")).and_then(|()| fs::write(&path, text));
        written.map_err(|error| format!("{}: {error}", path.display()))?;
    }
    let listed: serde_json::Value = serde_json::from_str(&listed.stdout).map_err(|error| error.to_string())?;
    Ok(listed["rust-binaries"].as_object().map_or(0, |binaries| binaries.len()))
}

impl TestRun<'_> {
    /// Runs them. No test at all is a failure.
    pub fn run(&self) -> StepResult {
        let mut command = match nextest(&["run", "--profile", self.profile, "-E", self.filter]) {
            Ok(command) => command,
            Err(why) => return StepResult::failed(why),
        };
        if self.build.is_empty() {
            command.arg("--binaries-metadata").arg(store(BINARIES)).arg("--cargo-metadata").arg(store(METADATA));
        }
        command.args(self.build);
        // A snapshot that differs fails; it is never written from here.
        command.env("INSTA_UPDATE", "no").envs(self.environment.iter().map(|(name, value)| (name, value)));
        if let Some((program, words)) = self.prefix.split_first() {
            let mut wrapper = Command::new(program);
            wrapper.args(words);
            command = rebuild(&command, wrapper);
        }
        let report = store(self.profile).join("junit.xml");
        if let Err(error) = fs::remove_file(&report)
            && error.kind() != io::ErrorKind::NotFound
        {
            return StepResult::failed(format!("{}: {error}", report.display()));
        }
        let ended = run(&mut command, self.limit, Output::Shown);
        let mut done = match read(&report) {
            Ok(done) => done,
            Err(why) => StepResult::failed(ended.failure.clone().unwrap_or(why)),
        };
        if let Some(why) = ended.failure
            && (done.counts.failed == 0 || why != TESTS_FAILED)
            && !done.failures.contains(&why)
        {
            done.failures.push(why);
        }
        done
    }
}

fn nextest(words: &[&str]) -> Result<Command, String> {
    let mut command = CARGO_NEXTEST.command()?;
    command.arg("nextest").args(words).current_dir(root());
    Ok(command)
}

fn store(name: &str) -> PathBuf {
    root().join("target/nextest").join(name)
}

fn read(report: &Path) -> Result<StepResult, String> {
    let text = fs::read_to_string(report).map_err(|error| format!("{}: {error}", report.display()))?;
    parse(&text).map_err(|error| format!("{}: {error}", report.display()))
}

/// The results in JUnit's format.
fn parse(text: &str) -> Result<StepResult, roxmltree::Error> {
    let document = Document::parse(text)?;
    let mut done = StepResult::default();
    for case in document.descendants().filter(|node| node.has_tag_name("testcase")) {
        let name = case.attribute("name").unwrap_or_default();
        let stdout = text_of(case, "system-out");
        if let Some(failure) = case.children().find(|node| ["failure", "error"].contains(&node.tag_name().name())) {
            done.counts.failed += 1;
            let stderr = text_of(case, "system-err");
            let why = panic_text(stderr).or_else(|| failure.attribute("type").map(str::to_owned));
            done.failures.push(format!("{name}: {}", why.unwrap_or_default()));
        } else if let Some(why) = stdout.lines().find_map(skip_reason) {
            done.counts.skipped += 1;
            done.skips.push(format!("{name}: {why}"));
        } else {
            done.counts.passed += 1;
        }
        add_cases(&mut done.cases, stdout);
        let seconds = case.attribute("time").and_then(|time| time.parse().ok()).unwrap_or(0.0);
        done.times.push(TestTime { name: name.to_owned(), seconds });
    }
    Ok(done)
}

fn text_of<'d>(case: Node<'d, '_>, tag: &str) -> &'d str {
    case.children().find(|node| node.has_tag_name(tag)).and_then(|node| node.text()).unwrap_or_default()
}

/// The reason in a skipped test's line. On a machine with one core, libtest prints the test's name before it.
fn skip_reason(line: &str) -> Option<&str> {
    let (before, why) = line.split_once(SKIPPED)?;
    (before.is_empty() || before.ends_with(" ... ")).then_some(why)
}

/// The beginning of a test's first panic, without its place.
fn panic_text(stderr: &str) -> Option<String> {
    let (_, panic) = stderr.split_once(" panicked at ")?;
    let is_of_panic = |line: &&str| !["note: ", "stack backtrace:"].iter().any(|end| line.starts_with(end));
    let lines: Vec<_> = panic.lines().skip(1).take_while(is_of_panic).take(PANIC_LINES).collect();
    Some(lines.join("\n").trim_end().to_owned()).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Counts;

    const JUNIT: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="nextest-run" tests="4" failures="1" errors="0" time="1.5">
  <testsuite name="haul-e2e::e2e" tests="4" disabled="0" errors="0" failures="1">
    <testcase name="sync::a" classname="haul-e2e::e2e" time="0.500"><system-out>COUNT kills 98
test sync::a ... ok</system-out><system-err></system-err></testcase>
    <testcase name="sync::b" classname="haul-e2e::e2e" time="0.100"><system-out>running 1 test
SKIPPED: needs root
SKIPPED: again</system-out></testcase>
    <testcase name="sync::c" classname="haul-e2e::e2e" time="1.000">
      <failure type="test failure">thread panicked</failure>
      <system-out>nothing</system-out>
      <system-err>thread 'sync::c' (7) panicked at src/x.rs:1:2:
seed 17: it was taken &lt;twice&gt;
note: run with a backtrace</system-err></testcase>
    <testcase name="sync::d" classname="haul-e2e::e2e" time="60.000"><failure type="test timeout"/></testcase>
  </testsuite>
</testsuites>"#;

    #[test]
    fn results_are_summed_and_failures_named() {
        let done = parse(JUNIT).unwrap();
        assert_eq!(done.counts, Counts { passed: 1, failed: 2, skipped: 1 });
        assert_eq!(done.failures, ["sync::c: seed 17: it was taken <twice>", "sync::d: test timeout"]);
        assert_eq!(done.skips, ["sync::b: needs root"]);
        assert_eq!(done.cases.get("kills"), Some(&98));
        assert_eq!(done.times.len(), 4);
        assert!((done.times[0].seconds - 0.5).abs() < 1e-9);
    }

    #[test]
    fn only_a_line_of_the_test_itself_skips_it() {
        assert_eq!(skip_reason("SKIPPED: no rsync"), Some("no rsync"));
        assert_eq!(skip_reason("test sync::b ... SKIPPED: no rsync"), Some("no rsync"));
        assert_eq!(skip_reason("haul printed: SKIPPED: x"), None);
    }
}

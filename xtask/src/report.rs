//! Results of the steps of `cargo xtask test`: counts, the table, the closing line.
//!
//! Whatever did not run never counts as passed. A skipped step or test has a row with its reason.

use std::time::Duration;

use crate::rows::{self, Cases, ROWS};
use crate::run::CommandEnd;

/// The table has so many of the slowest tests.
const SLOWEST: usize = 10;

/// Tests that a harness reported, and tests that said that they could not run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Ran and passed.
    pub passed: u64,
    /// Ran and failed.
    pub failed: u64,
    /// Ignored by the harness, or returned early with a stated reason.
    pub skipped: u64,
}

impl Counts {
    /// Sums the `test result:` lines in the output of test harnesses.
    pub fn parse(output: &str) -> Self {
        let mut sum = Self::default();
        for line in output.lines().filter(|line| line.starts_with("test result:")) {
            sum.passed += number_before(line, " passed");
            sum.failed += number_before(line, " failed");
            sum.skipped += number_before(line, " ignored");
        }
        sum
    }

    /// Adds another count.
    pub fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

/// The number before `word` in a harness's result line, or 0.
fn number_before(line: &str, word: &str) -> u64 {
    let Some(end) = line.find(word) else { return 0 };
    let head = &line[..end];
    let start = head.rfind(|c: char| !c.is_ascii_digit()).map_or(0, |last| last + 1);
    head[start..].parse().unwrap_or(0)
}

/// The result of a step.
#[derive(Debug, Default)]
pub struct StepResult {
    /// Why it failed, one phrase each; none means that it did not.
    pub failures: Vec<String>,
    /// The reason for skipping it, if any.
    pub not_run: Option<String>,
    /// Its tests.
    pub counts: Counts,
    /// Tests that could not run, with reasons.
    pub skips: Vec<String>,
    /// Numbers of cases that repeated trials ran.
    pub cases: Cases,
    /// How long each test took.
    pub times: Vec<TestTime>,
}

/// How long a test took.
#[derive(Debug, Clone, PartialEq)]
pub struct TestTime {
    /// Its name.
    pub name: String,
    /// From start to end.
    pub seconds: f64,
}

impl StepResult {
    /// A step that failed for one reason.
    pub fn failed(why: String) -> Self {
        Self { failures: vec![why], ..Self::default() }
    }

    /// A step that ran one program.
    pub fn of(ended: &CommandEnd) -> Self {
        Self { failures: ended.failure.iter().cloned().collect(), ..Self::default() }
    }
}

/// How a step ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StepVerdict {
    /// A success.
    Passed,
    /// Did not; the reasons, one a line.
    Failed(Vec<String>),
    /// Was not run, and why.
    Skipped(String),
}

/// A step that is over.
#[derive(Debug, Clone)]
pub struct StepRow {
    /// Its name.
    pub step: &'static str,
    /// How it ended.
    pub verdict: StepVerdict,
    /// The tests in it, where it has any.
    pub counts: Counts,
    /// Tests that could not run, with their reasons.
    pub skips: Vec<String>,
    /// Numbers of cases from the harnesses' output.
    pub cases: Cases,
    /// How long each test took.
    pub times: Vec<TestTime>,
    /// How long it took.
    pub elapsed: Duration,
}

/// The whole run.
#[derive(Debug, Default)]
pub struct TestReport {
    rows: Vec<StepRow>,
    elapsed: Duration,
}

impl TestReport {
    /// A run with these steps, which took `elapsed` in all: steps overlap.
    pub fn new(rows: Vec<StepRow>, elapsed: Duration) -> Self {
        Self { rows, elapsed }
    }

    /// Adds a step that is over.
    pub fn push(&mut self, row: StepRow) {
        self.rows.push(row);
    }

    /// All tests. A step that failed without a failed test (formatting, a time limit) counts as one failure. The
    /// closing line is therefore never better than the run.
    pub fn totals(&self) -> Counts {
        let mut sum = Counts::default();
        for row in &self.rows {
            sum.add(row.counts);
            if matches!(row.verdict, StepVerdict::Failed(_)) && row.counts.failed == 0 {
                sum.failed += 1;
            }
        }
        sum
    }

    /// Whether a step that was run has failed.
    pub fn failed(&self) -> bool {
        self.rows.iter().any(|row| matches!(row.verdict, StepVerdict::Failed(_)))
    }

    /// The table of steps, reasons for failures and skips, and the closing line.
    pub fn render(&self) -> String {
        let mut text = format!(
            "\n{:<12} {:<8} {:>8} {:>8} {:>8} {:>8}\n",
            "step", "result", "passed", "failed", "skipped", "seconds"
        );
        for row in &self.rows {
            text.push_str(&self.line(row));
        }
        text.push_str(&format!("{:<56} {:>8.1}\n", "in all", self.elapsed.as_secs_f64()));
        text.push_str(&self.slowest());
        text.push_str(&self.cases());
        for row in &self.rows {
            text.push_str(&remarks(row));
        }
        let totals = self.totals();
        text.push_str(&format!("\n{} passed, {} failed\n", totals.passed, totals.failed));
        text
    }

    /// The slowest tests.
    fn slowest(&self) -> String {
        let mut times: Vec<_> = self.rows.iter().flat_map(|row| &row.times).collect();
        if times.is_empty() {
            return String::new();
        }
        times.sort_by(|one, other| other.seconds.total_cmp(&one.seconds));
        let line = |time: &&TestTime| format!("{:<81} {:>10.1}\n", time.name, time.seconds);
        times.iter().take(SLOWEST).map(line).fold("\nslowest tests\n".to_owned(), |text, line| text + &line)
    }

    /// Repeated trials, with the numbers of cases actually run.
    fn cases(&self) -> String {
        let mut all = Cases::new();
        for (name, number) in self.rows.iter().flat_map(|row| &row.cases) {
            *all.entry(name.clone()).or_default() += number;
        }
        if all.is_empty() {
            return String::new();
        }
        let others = all.iter().filter(|(name, _)| !rows::counts(name));
        let others = others.map(|(name, number)| format!("{name:<81} {number:>10}\n"));
        rows::table(ROWS.iter().map(|row| (row, row.everyday, row.ran(&all)))) + &others.collect::<String>()
    }

    fn line(&self, row: &StepRow) -> String {
        let result = match row.verdict {
            StepVerdict::Passed => "ok",
            StepVerdict::Failed(_) => "FAILED",
            StepVerdict::Skipped(_) => "skipped",
        };
        let Counts { passed, failed, skipped } = row.counts;
        let seconds = row.elapsed.as_secs_f64();
        if row.counts == Counts::default() {
            return format!("{:<12} {result:<8} {:>8} {:>8} {:>8} {seconds:>8.1}\n", row.step, "-", "-", "-");
        }
        format!("{:<12} {result:<8} {passed:>8} {failed:>8} {skipped:>8} {seconds:>8.1}\n", row.step)
    }
}

/// One line for each thing that a reader of the table must know.
fn remarks(row: &StepRow) -> String {
    let mut text = String::new();
    match &row.verdict {
        StepVerdict::Passed => {}
        StepVerdict::Failed(reasons) => {
            reasons.iter().for_each(|why| text.push_str(&format!("FAILED  {}: {why}\n", row.step)))
        }
        StepVerdict::Skipped(why) => text.push_str(&format!("skipped {}: {why}\n", row.step)),
    }
    row.skips.iter().for_each(|why| text.push_str(&format!("skipped {}: {why}\n", row.step)));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::add_cases;

    const HARNESS: &str = "running 2 tests\ntest a ... ok\n\ntest result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 3 filtered out; finished in 0.01s\n\
        test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.00s\n";

    fn row(verdict: StepVerdict, counts: Counts) -> StepRow {
        StepRow {
            step: "unit",
            verdict,
            counts,
            skips: Vec::new(),
            cases: Cases::new(),
            times: Vec::new(),
            elapsed: Duration::from_millis(1500),
        }
    }

    #[test]
    fn sums_result_lines() {
        assert_eq!(Counts::parse(HARNESS), Counts { passed: 15, failed: 2, skipped: 1 });
        assert_eq!(Counts::parse("nothing ran"), Counts::default());
    }

    #[test]
    fn repeated_trials_are_summed_and_shown() {
        let mut cases = Cases::new();
        add_cases(&mut cases, "COUNT kills 98\nCOUNT kills 20\nCOUNTED 3\nCOUNT bits on a stream 7\nCOUNT broken x\n");
        let mut report = TestReport::default();
        report.push(StepRow { cases, ..row(StepVerdict::Passed, Counts::default()) });
        let text = report.render();
        assert!(text.contains("       100        118\n") && text.contains("         7\n"), "{text}");
        assert!(!text.contains("broken"), "{text}");
    }

    #[test]
    fn the_slowest_tests_are_named() {
        let time = |name: usize| TestTime { name: format!("test {name:02}"), seconds: name as f64 };
        let times = (0..15).map(time).collect();
        let report =
            TestReport::new(vec![StepRow { times, ..row(StepVerdict::Passed, Counts::default()) }], Duration::ZERO);
        let text = report.render();
        assert!(text.contains("test 14") && text.contains("test 05") && !text.contains("test 04"), "{text}");
    }

    #[test]
    fn a_failed_step_without_tests_counts_as_a_failure() {
        let mut report = TestReport::default();
        report.push(row(StepVerdict::Passed, Counts { passed: 7, failed: 0, skipped: 0 }));
        report.push(row(StepVerdict::Failed(vec!["exit status 1".into()]), Counts::default()));
        assert!(report.failed());
        let text = report.render();
        assert!(text.ends_with("\n7 passed, 1 failed\n"), "{text}");
        assert!(text.contains("FAILED  unit: exit status 1"), "{text}");
    }

    #[test]
    fn a_skipped_step_gives_its_reason_and_is_not_green() {
        let mut report = TestReport::default();
        report.push(row(StepVerdict::Skipped("no such tool".into()), Counts::default()));
        let text = report.render();
        assert!(text.contains("skipped unit: no such tool"), "{text}");
        assert!(!text.contains(" ok "), "{text}");
    }
}

//! `cargo xtask soak`: runs the everyday tests many times as often: each row by the table's soak count, or within its
//! share of `--minutes`.
//!
//! With `--minutes`, a row first runs a few cases to measure the cost of one. It then runs as many as fit into its
//! share of the remaining time, and leaves the rest to later rows. A failed row does not stop the others.

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use clap::builder::PossibleValuesParser;

use crate::rows::{CaseRow, Cases, ROWS, table};
use crate::run::was_interrupted;
use crate::test::{TestRun, build_all};

/// Time limit for building.
const BUILD_LIMIT: Duration = Duration::from_secs(40 * 60);
/// How long a row may go on that has as much time as it likes.
const ROW_LIMIT: Duration = Duration::from_secs(24 * 3600);
/// How much longer than planned a row may take before it counts as stuck.
const GRACE: Duration = Duration::from_secs(15 * 60);
/// The part of its time that a row plans to use, since its estimate rests on a few cases.
const PLANNED_PERCENT: u128 = 90;

/// Options of the chore.
#[derive(Debug, PartialEq, Eq, Args)]
pub struct SoakArguments {
    /// Time for all rows (default: as often as each row's soak column says)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    minutes: Option<u64>,
    /// Only this row; repeatable
    #[arg(long = "only", value_name = "ROW", value_parser = PossibleValuesParser::new(ROWS.iter().map(|row| row.name)))]
    rows: Vec<String>,
    /// Names the rows
    #[arg(long)]
    list: bool,
}

/// The result of a row.
struct SoakOutcome {
    row: &'static CaseRow,
    ran: u64,
    failures: Vec<String>,
    elapsed: Duration,
}

/// Runs the chore.
pub fn main(arguments: &SoakArguments) -> ExitCode {
    match soak(arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("cargo xtask soak: {message}");
            ExitCode::from(2)
        }
    }
}

/// Runs the chosen rows. Returns whether all succeeded.
fn soak(asked: &SoakArguments) -> Result<bool, String> {
    if asked.list {
        ROWS.iter().for_each(|row| println!("{:<16}{:>10}  {}", row.name, row.soak, row.about));
        return Ok(true);
    }
    let haul = build_all(BUILD_LIMIT)?;
    let chosen: Vec<_> =
        ROWS.iter().filter(|row| asked.rows.is_empty() || asked.rows.iter().any(|name| name == row.name)).collect();
    let until = asked.minutes.map(|minutes| Instant::now() + Duration::from_secs(60 * minutes));
    let mut outcomes = Vec::new();
    for (at, row) in chosen.iter().enumerate() {
        if was_interrupted() {
            break;
        }
        let rows_left = u32::try_from(chosen.len() - at).unwrap_or(u32::MAX);
        let share = until.map(|until| until.saturating_duration_since(Instant::now()) / rows_left);
        outcomes.push(soak_row(&haul, row, share));
    }
    let less = chosen.len() - outcomes.len();
    print!("{}", table(outcomes.iter().map(|outcome| (outcome.row, outcome.row.soak, outcome.ran))));
    let failed: Vec<_> = outcomes.iter().filter(|outcome| !outcome.failures.is_empty()).collect();
    for outcome in &failed {
        outcome.failures.iter().for_each(|why| println!("FAILED  {}: {why}", outcome.row.name));
    }
    println!("\n{} rows without a failure, {} failed, {less} not run", outcomes.len() - failed.len(), failed.len());
    Ok(failed.is_empty() && less == 0)
}

/// Tries a row: in this time, or as often as it is to be.
fn soak_row(haul: &Path, row: &'static CaseRow, share: Option<Duration>) -> SoakOutcome {
    println!("\n==> {}: {}", row.name, row.about);
    let mut outcome = SoakOutcome { row, ran: 0, failures: Vec::new(), elapsed: Duration::ZERO };
    let Some(share) = share else {
        outcome.run(haul, row.soak, ROW_LIMIT);
        return outcome;
    };
    let begun = Instant::now();
    outcome.run(haul, row.least, share + GRACE);
    let left = share.saturating_sub(begun.elapsed());
    let more = more(row, outcome.elapsed, left);
    if outcome.failures.is_empty() && more > 0 {
        outcome.run(haul, more, left + GRACE);
    }
    outcome
}

/// How often a row can be tried in the time that is left, if its least number took `least`; 0 if not even that.
fn more(row: &CaseRow, least: Duration, left: Duration) -> u64 {
    if row.variables.is_empty() {
        return 0;
    }
    let planned = left.as_micros() * PLANNED_PERCENT / 100;
    let fits = planned * u128::from(row.least) / least.as_micros().max(1);
    let fits = u64::try_from(fits).unwrap_or(u64::MAX);
    let fits = fits.min(row.soak.saturating_sub(row.least));
    if fits < row.least { 0 } else { fits }
}

impl SoakOutcome {
    /// Tries it so often.
    fn run(&mut self, haul: &Path, number: u64, limit: Duration) {
        let begun = Instant::now();
        let mut cases = Cases::new();
        for tests in self.row.tests {
            let variables = self.row.environment(number).into_iter().map(|(name, value)| (name, value.into()));
            let environment = variables.chain([("HAUL_BIN", haul.into())]).collect();
            let limit = limit.saturating_sub(begun.elapsed());
            let done = TestRun {
                profile: "long",
                filter: &tests.expression(),
                limit,
                prefix: Vec::new(),
                environment,
                build: &[],
            }
            .run();
            self.failures.extend(done.failures);
            self.failures.extend(done.skips.into_iter().map(|why| format!("not run: {why}")));
            done.cases.into_iter().for_each(|(name, number)| *cases.entry(name).or_default() += number);
        }
        self.ran += self.row.ran(&cases);
        self.elapsed += begun.elapsed();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_tried_as_often_as_its_time_allows() {
        let row = ROWS.iter().find(|row| row.name == "kills").expect("it is there");
        let second = Duration::from_secs(1);
        assert_eq!(row.least, 12);
        assert_eq!(more(row, 12 * second, 100 * second), 90);
        assert_eq!(more(row, 12 * second, 10 * second), 0, "not even the least");
        assert_eq!(more(row, second / 1000, 100 * second), row.soak - row.least, "no more than it is to be");
    }
}

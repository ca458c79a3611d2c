//! The command: places, amounts of data, repetitions; the table, and the count at its end.

use std::process::ExitCode;

use clap::Parser;

use super::place::places;

/// A forecast is right that is off by no more than this.
const TOLERANCE: f64 = 0.15;

/// Probes, then copies, and compares the forecast with the rate reached. Needs root.
#[derive(Parser)]
#[command(bin_name = "cargo xtask lab probe", args_override_self = true)]
struct ForecastArguments {
    /// Only places with PATTERN in their name; repeatable
    #[arg(long = "case", value_name = "PATTERN")]
    patterns: Vec<String>,
    /// How much is copied; a quarter of it on the slowest link
    #[arg(long, value_name = "N", default_value_t = 4)]
    gib: u64,
    /// Each place N times
    #[arg(long, value_name = "N", default_value_t = 1)]
    runs: u32,
}

/// Runs the command. The status is 1 if a forecast is wrong.
pub fn main() -> ExitCode {
    let asked = ForecastArguments::parse();
    println!("{:<18}{:>14}{:>14}{:>8}   limits", "place", "forecast", "reached", "ratio");
    let is_asked = |name: &str| asked.patterns.is_empty() || asked.patterns.iter().any(|part| name.contains(part));
    let mut wrong = 0;
    for place in (0..asked.runs).flat_map(|_| places()).filter(|place| is_asked(place.name)) {
        match place.try_out(asked.gib << 30) {
            Ok(outcome) => {
                let is_right = (outcome.ratio() - 1.0).abs() <= TOLERANCE;
                wrong += u32::from(!is_right);
                let mbytes = |rate: f64| format!("{:.1} MB/s", rate / 1e6);
                println!(
                    "{:<18}{:>14}{:>14}{:>8.2}   {}{}",
                    place.name,
                    mbytes(outcome.forecast),
                    mbytes(outcome.reached),
                    outcome.ratio(),
                    outcome.limits.join(" / "),
                    if is_right { "" } else { "   WRONG" },
                );
            }
            Err(error) => {
                wrong += 1;
                println!("{:<18}{error:#}", place.name);
            }
        }
    }
    if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

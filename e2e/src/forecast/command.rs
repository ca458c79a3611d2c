//! The command: which places, how much, how often; the table, and the count at its end.

use std::process::ExitCode;

use super::place::places;

const HELP: &str = "\
usage: cargo xtask lab probe [OPTIONS]

Probes, then copies, and compares what was foretold with what was reached. Needs root.

  --case PATTERN    only places whose name holds PATTERN; can be repeated
  --gib N           how much is copied (default 4; a quarter of it on the slowest link)
  --runs N          each place N times (default 1)
";

/// A forecast is right that is off by no more than this.
const TOLERANCE: f64 = 0.15;

struct ForecastArguments {
    patterns: Vec<String>,
    gib: u64,
    runs: u32,
}

/// Runs the command. The status is 1 if a forecast is wrong.
pub fn main(arguments: Vec<String>) -> ExitCode {
    let asked = match parse(arguments) {
        Ok(Some(asked)) => asked,
        Ok(None) => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(message) => {
            eprintln!("haul-forecast: {message}");
            return ExitCode::from(2);
        }
    };
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

fn parse(arguments: Vec<String>) -> Result<Option<ForecastArguments>, String> {
    let mut asked = ForecastArguments { patterns: Vec::new(), gib: 4, runs: 1 };
    let mut words = arguments.into_iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        let number = |text: String| text.parse().map_err(|_| format!("{word} takes a number, not '{text}'"));
        match word.as_str() {
            "--case" => asked.patterns.push(value()?),
            "--gib" => asked.gib = number(value()?)?,
            "--runs" => asked.runs = u32::try_from(number(value()?)?).unwrap_or(u32::MAX),
            "--help" | "-h" => return Ok(None),
            _ => return Err(format!("there is no option {word}; see --help")),
        }
    }
    Ok(Some(asked))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Option<ForecastArguments>, String> {
        parse(line.split_whitespace().map(str::to_owned).collect())
    }

    #[test]
    fn every_option_of_the_help_is_taken() {
        let asked = parsed("--case disk --gib 1 --runs 3").expect("fine").expect("no help");
        assert_eq!((asked.patterns, asked.gib, asked.runs), (vec!["disk".to_owned()], 1, 3));
        assert!(parsed("--help").expect("fine").is_none());
        assert!(parsed("--gib x").is_err() && parsed("--case").is_err() && parsed("--gibs 1").is_err());
    }
}

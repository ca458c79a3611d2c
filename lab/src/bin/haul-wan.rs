//! A long link by hand: makes two hosts and the link between them, and runs a command (or a shell) on the first.
//!
//! Everything is gone when the command ends; what the link carried is then told on standard error.

use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use haul_lab::{Congestion, Wan, WanSettings};

const HELP: &str = "\
Makes two hosts with a long link between them, and runs a command on the first (default: a shell).

cargo run --package haul-lab --bin haul-wan -- [OPTIONS] [-- COMMAND [ARGUMENT...]]

  --rtt MS          round-trip time in milliseconds (default 50)
  --loss PERCENT    packets lost at random, each way (default 0)
  --rate MBITS      rate in Mbit/s (default 1000), Ethernet's framing included
  --queue KIB       the link's queue (default: what it carries in a round trip)
  --seed NUMBER     of the losses (default 1)
  --congestion NAME TCP's default on both hosts (default: this machine's)
  --only            no other congestion control than that can be had
  --window KIB      most of a TCP window (default: this machine's)

The command finds these variables in its environment: WAN_A and WAN_B, the hosts' addresses; ON_B, which put in front
of a command runs it on the second host:

  $ON_B iperf3 --server --daemon --one-off; iperf3 --client $WAN_B
";

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("haul-wan: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<ExitCode> {
    let Some((settings, command)) = parse(std::env::args().skip(1))? else {
        print!("{HELP}");
        return Ok(ExitCode::SUCCESS);
    };
    let wan = Wan::new(&settings)?;
    let mut client = wan.a().command(command.first().map_or("sh", String::as_str));
    client.args(command.iter().skip(1));
    client.env("WAN_A", Wan::ADDRESS_A.to_string()).env("WAN_B", Wan::ADDRESS_B.to_string());
    client.env("ON_B", words(&wan.b().command("")));
    let status = client.status().context("could not start nsenter")?;
    eprintln!("haul-wan: there {:?}; back {:?}", wan.forth(), wan.back());
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from))
}

/// The words of a command as one could type them; those here have nothing in them that a shell would see.
fn words(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ").trim_end().to_owned()
}

/// None when help was asked for.
fn parse(mut args: impl Iterator<Item = String>) -> Result<Option<(WanSettings, Vec<String>)>> {
    let (mut settings, mut only) = (WanSettings::default(), false);
    while let Some(option) = args.next() {
        match option.as_str() {
            "-h" | "--help" => return Ok(None),
            "--" => break,
            "--only" => only = true,
            _ => {
                let value =
                    args.next().with_context(|| format!("{option}: there is no such option, or it needs a value"))?;
                set(&mut settings, &option, value)?;
            }
        }
    }
    ensure!(!only || settings.congestion.is_some(), "--only needs --congestion NAME");
    if let Some(congestion) = &mut settings.congestion {
        congestion.only = only;
    }
    Ok(Some((settings, args.collect())))
}

fn set(settings: &mut WanSettings, option: &str, value: String) -> Result<()> {
    let number = || value.parse::<u64>().ok().filter(|number| *number < 1 << 40);
    let number = || number().with_context(|| format!("{option} {value}: not a whole number"));
    let fraction = || value.parse::<f64>().ok().filter(|number| (0.0..=1e6).contains(number));
    let fraction = || fraction().with_context(|| format!("{option} {value}: not a number"));
    match option {
        "--rtt" => settings.rtt = Duration::from_secs_f64(fraction()? / 1e3),
        "--loss" => settings.loss = fraction()? / 100.0,
        "--rate" => settings.rate_bits_per_s = number()? * 1_000_000,
        "--queue" => settings.queue_bytes = Some(number()? << 10),
        "--seed" => settings.seed = number()?,
        "--window" => settings.window_max_bytes = Some(number()? << 10),
        "--congestion" => settings.congestion = Some(Congestion { name: value, only: false }),
        _ => bail!("there is no option {option}"),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Option<(WanSettings, Vec<String>)>> {
        parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn every_option_is_taken() {
        let line =
            "--rtt 200 --loss 0.01 --rate 100 --queue 64 --seed 9 --congestion cubic --only --window 6 -- sh -c x";
        let expected = WanSettings {
            rtt: Duration::from_millis(200),
            loss: 0.0001,
            rate_bits_per_s: 100_000_000,
            queue_bytes: Some(65_536),
            seed: 9,
            congestion: Some(Congestion { name: "cubic".to_owned(), only: true }),
            window_max_bytes: Some(6144),
        };
        let (settings, command) = parsed(line).expect("all right").expect("no help");
        assert_eq!((settings, command.join(" ").as_str()), (expected, "sh -c x"));
        for option in line.split_whitespace().filter(|word| word.starts_with("--") && *word != "--") {
            assert!(HELP.contains(option), "{option}");
        }
    }

    #[test]
    fn wrong_words_are_named() {
        for (line, part) in
            [("--fast", "--fast"), ("--rtt x", "--rtt x"), ("--lost 1", "--lost"), ("--only", "--congestion")]
        {
            let error = parsed(line).expect_err("it is wrong");
            assert!(format!("{error:#}").contains(part), "{error:#}");
        }
        assert!(parsed("--rtt 5 --help").expect("fine").is_none());
    }
}

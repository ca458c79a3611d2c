//! A long link by hand: makes two hosts with a link between them, and runs a command (or a shell) on the first.
//!
//! The link ends with the command. Its traffic counts then go to standard error.

use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Parser;
use haul_lab::{Congestion, Wan, WanSettings};

/// Makes two hosts with a long link between them, and runs a command on the first (default: a shell).
#[derive(Parser)]
#[command(args_override_self = true, after_help = VARIABLES)]
struct WanArguments {
    /// Round-trip time in milliseconds
    #[arg(long, value_name = "MS", default_value = "50", value_parser = fraction)]
    rtt: f64,
    /// Packets lost at random, each way
    #[arg(long, value_name = "PERCENT", default_value = "0", value_parser = fraction)]
    loss: f64,
    /// Rate in Mbit/s, Ethernet's framing included
    #[arg(long, value_name = "MBITS", default_value_t = 1000)]
    rate: u32,
    /// The link's queue (default: one bandwidth-delay product)
    #[arg(long, value_name = "KIB")]
    queue: Option<u32>,
    /// Of the losses
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// TCP's default on both hosts (default: this machine's)
    #[arg(long, value_name = "NAME")]
    congestion: Option<String>,
    /// No other congestion control than that can be had
    #[arg(long, requires = "congestion")]
    only: bool,
    /// Most of a TCP window (default: this machine's)
    #[arg(long, value_name = "KIB")]
    window: Option<u32>,
    /// The command
    #[arg(last = true)]
    command: Vec<String>,
}

const VARIABLES: &str = "\
The command finds these variables in its environment: WAN_A and WAN_B, the hosts' addresses; ON_B, which put in front
of a command runs it on the second host:

  $ON_B iperf3 --server --daemon --one-off; iperf3 --client $WAN_B";

impl WanArguments {
    fn settings(&self) -> WanSettings {
        let bytes = |kib: u32| u64::from(kib) << 10;
        WanSettings {
            rtt: Duration::from_secs_f64(self.rtt / 1e3),
            loss: self.loss / 100.0,
            rate_bits_per_s: u64::from(self.rate) * 1_000_000,
            queue_bytes: self.queue.map(bytes),
            seed: self.seed,
            congestion: self.congestion.clone().map(|name| Congestion { name, only: self.only }),
            window_max_bytes: self.window.map(bytes),
        }
    }
}

fn fraction(text: &str) -> Result<f64, &'static str> {
    text.parse().ok().filter(|number| (0.0..=1e6).contains(number)).ok_or("not a number from 0 to 1000000")
}

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
    let asked = WanArguments::parse();
    let (wan, command) = (Wan::new(&asked.settings())?, &asked.command);
    let mut client = wan.a().command(command.first().map_or("sh", String::as_str));
    client.args(command.iter().skip(1));
    client.env("WAN_A", Wan::ADDRESS_A.to_string()).env("WAN_B", Wan::ADDRESS_B.to_string());
    client.env("ON_B", words(&wan.b().command("")));
    let status = client.status().context("could not start nsenter")?;
    eprintln!("haul-wan: there {:?}; back {:?}", wan.forth(), wan.back());
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from))
}

/// A command's words as typed. None of them needs quoting for a shell.
fn words(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<WanArguments, String> {
        WanArguments::try_parse_from(line.split_whitespace()).map_err(|error| error.to_string())
    }

    #[test]
    fn every_option_is_taken() {
        let line = "haul-wan --rtt 200 --loss 0.01 --rate 100 --queue 64 --seed 9 --congestion cubic --only --window 6 -- sh -c x";
        let expected = WanSettings {
            rtt: Duration::from_millis(200),
            loss: 0.0001,
            rate_bits_per_s: 100_000_000,
            queue_bytes: Some(65_536),
            seed: 9,
            congestion: Some(Congestion { name: "cubic".to_owned(), only: true }),
            window_max_bytes: Some(6144),
        };
        let asked = parsed(line).expect("all right");
        assert_eq!((asked.settings(), asked.command.join(" ").as_str()), (expected, "sh -c x"));
        assert_eq!(parsed("haul-wan").expect("all right").settings(), WanSettings::default());
    }

    #[test]
    fn wrong_words_are_named() {
        for (line, part) in
            [("--fast", "--fast"), ("--rtt x", "'x' for '--rtt"), ("--lost 1", "--lost"), ("--only", "--congestion")]
        {
            let error = parsed(&format!("haul-wan {line}")).err().expect("it is wrong");
            assert!(error.contains(part), "{error}");
        }
    }
}

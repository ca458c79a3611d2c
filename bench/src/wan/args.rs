//! The command line of `cargo xtask bench --wan`.

use std::convert::Infallible;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;

use super::links::{Control, WanLink};
use super::tools::{self, WanTool};
use crate::settings::seconds;

/// Runs haul beside its peers over long links that are emulated on this machine (needs root and /dev/net/tun).
#[derive(Debug, Clone, PartialEq, Parser)]
#[command(name = "cargo xtask bench --wan", no_binary_name = true, args_override_self = true)]
pub struct WanBenchSettings {
    #[arg(long, hide = true)]
    wan: bool,
    /// Measured rounds; each runs every tool once
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub runs: u32,
    /// 50ms, 50ms-loss, 200ms; repeatable (default: all)
    #[arg(long = "link", value_name = "NAME", value_parser = WanLink::from_name)]
    pub links: Vec<WanLink>,
    /// bbr (default of both hosts), cubic (the only one available); repeatable (default: both)
    #[arg(long = "congestion", value_name = "NAME")]
    pub controls: Vec<Control>,
    /// haul, iperf3-p8, iperf3-p1, rsync, scp, gridftp-p8, gridftp-p16; repeatable (default: all);
    /// iperf3 and gridftp with any number behind -p
    #[arg(long = "tool", value_name = "NAME", value_parser = tools::from_name)]
    pub tools: Vec<WanTool>,
    /// One more row: haul with these options, for example "-s 32"; repeatable
    #[arg(long = "haul-arg", value_name = "WORDS", allow_hyphen_values = true, value_parser = variant)]
    variants: Vec<WanTool>,
    /// Size of the file
    #[arg(long = "size", value_name = "MIB", default_value_t = 1024, value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    pub mebibytes: u64,
    /// Limit of one run; the bytes received by then count, and the row is marked ~
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = seconds)]
    pub limit: Duration,
    /// Directory for the data
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    pub dir: PathBuf,
    /// The haul to measure (default: this workspace's release build)
    #[arg(long, value_name = "PATH")]
    pub haul: Option<PathBuf>,
    /// File for the tables that are printed
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,
}

fn variant(words: &str) -> Result<WanTool, Infallible> {
    Ok(WanTool::haul_with(words))
}

/// Reads the arguments, including `--wan`.
pub fn parse<Word: Into<OsString> + Clone>(
    args: impl IntoIterator<Item = Word>,
) -> Result<WanBenchSettings, clap::Error> {
    let mut settings = WanBenchSettings::try_parse_from(args)?;
    settings.links = or_all(settings.links, &WanLink::ALL);
    settings.controls = or_all(settings.controls, &Control::ALL);
    settings.tools = or_all(settings.tools, &tools::all());
    settings.tools.append(&mut settings.variants);
    Ok(settings)
}

fn or_all<Item: Clone>(chosen: Vec<Item>, all: &[Item]) -> Vec<Item> {
    if chosen.is_empty() { all.to_vec() } else { chosen }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(words: &[&str]) -> Result<WanBenchSettings, String> {
        parse(words).map_err(|error| error.to_string())
    }

    #[test]
    fn the_default_is_everything_three_times() {
        let settings = settings(&["--wan"]).expect("no word is wrong");
        assert_eq!((settings.runs, settings.links.len(), settings.controls.len()), (3, 3, 2));
        assert_eq!((settings.tools, settings.mebibytes), (tools::all(), 1024));
    }

    #[test]
    fn every_option_is_taken() {
        let words = [
            ["--runs", "5"],
            ["--link", "200ms"],
            ["--congestion", "cubic"],
            ["--tool", "scp"],
            ["--tool", "haul"],
            ["--haul-arg", "-s 32"],
            ["--size", "64"],
            ["--limit", "7"],
            ["--dir", "/d"],
            ["--haul", "/h"],
            ["--markdown", "m"],
        ];
        let settings = settings(&words.concat()).expect("all right");
        let names: Vec<_> = settings.tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(names, ["scp", "haul", "haul -s 32"]);
        assert_eq!((settings.links[0].name, settings.links.len()), ("200ms", 1));
        assert_eq!((settings.controls[0].name(), settings.controls.len()), ("cubic", 1));
        assert_eq!((settings.runs, settings.mebibytes, settings.limit), (5, 64, Duration::from_secs(7)));
        assert_eq!(
            (settings.dir, settings.haul, settings.markdown),
            ("/d".into(), Some("/h".into()), Some("m".into()))
        );
    }

    #[test]
    fn wrong_words_are_named() {
        let wrong = [
            (vec!["--faster"], "--faster"),
            (vec!["--runs"], "a value is required"),
            (vec!["--runs", "0"], "'0' for '--runs"),
            (vec!["--link", "moon"], "moon"),
            (vec!["--tool", "pigeon"], "pigeon"),
            (vec!["--congestion", "vegas"], "vegas"),
        ];
        for (words, part) in wrong {
            let error = settings(&words).expect_err("it is wrong");
            assert!(error.contains(part), "{error}");
        }
    }
}

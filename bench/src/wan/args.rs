//! The command line of `cargo xtask bench --wan`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::links::{Control, WanLink};
use super::tools::{self, WanTool};

/// What `--wan --help` prints.
pub const HELP: &str = "\
Runs haul beside its peers over long links that are emulated on this machine (needs root and /dev/net/tun).

cargo xtask bench --wan [OPTIONS]

  --runs N            measured rounds (default 3); each runs every tool once
  --link NAME         50ms, 50ms-loss, 200ms; repeatable (default: all)
  --congestion NAME   bbr (default of both hosts), cubic (the only one to be had); repeatable (default: both)
  --tool NAME         haul, iperf3-p8, iperf3-p1, rsync, scp, gridftp-p8, gridftp-p16; repeatable (default: all);
                      iperf3 and gridftp with any number behind -p
  --haul-arg WORDS    one more row: haul with these options, for example \"-s 32\"; repeatable
  --size MIB          of the file (default 1024)
  --limit SECONDS     of one run (default 30); what had arrived by then counts, and is marked ~
  --dir DIR           where data is put (default /dev/shm)
  --haul PATH         the haul to measure (default: this workspace's release build)
  --markdown FILE     the tables that are printed
";

/// What was asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct WanBenchSettings {
    /// Measured rounds.
    pub runs: u32,
    /// In their own order.
    pub links: Vec<WanLink>,
    /// In their own order.
    pub controls: Vec<Control>,
    /// One row each.
    pub tools: Vec<WanTool>,
    /// Size of the file.
    pub bytes: u64,
    /// Limit of one run.
    pub limit: Duration,
    /// Where a directory for the data is made.
    pub dir: PathBuf,
    /// The program to measure; none for the release build.
    pub haul: Option<PathBuf>,
    /// Where to write the tables.
    pub markdown: Option<PathBuf>,
}

/// What is collected from the words before it is put together.
#[derive(Default)]
struct Chosen {
    links: Vec<WanLink>,
    controls: Vec<Control>,
    tools: Vec<WanTool>,
    variants: Vec<WanTool>,
}

/// Reads the arguments, of which `--wan` is one. None when help was asked for.
pub fn parse(mut args: impl Iterator<Item = OsString>) -> Result<Option<WanBenchSettings>> {
    let mut settings = WanBenchSettings {
        runs: 3,
        links: Vec::new(),
        controls: Vec::new(),
        tools: Vec::new(),
        bytes: 1 << 30,
        limit: Duration::from_secs(30),
        dir: PathBuf::from("/dev/shm"),
        haul: None,
        markdown: None,
    };
    let mut chosen = Chosen::default();
    while let Some(option) = args.next() {
        let option = option.to_string_lossy().into_owned();
        match option.as_str() {
            "-h" | "--help" => return Ok(None),
            "--wan" => {}
            _ => set(&mut settings, &mut chosen, &option, &mut args)?,
        }
    }
    settings.links = or_all(chosen.links, &WanLink::ALL);
    settings.controls = or_all(chosen.controls, &Control::ALL);
    settings.tools = or_all(chosen.tools, &tools::all());
    settings.tools.extend(chosen.variants);
    Ok(Some(settings))
}

fn or_all<Item: Clone>(chosen: Vec<Item>, all: &[Item]) -> Vec<Item> {
    if chosen.is_empty() { all.to_vec() } else { chosen }
}

/// Takes an option that has a value.
fn set(
    settings: &mut WanBenchSettings,
    chosen: &mut Chosen,
    option: &str,
    args: &mut impl Iterator<Item = OsString>,
) -> Result<()> {
    let mut value = || args.next().with_context(|| format!("{option} needs a value"));
    let mut text = || value().map(|value| value.to_string_lossy().into_owned());
    match option {
        "--runs" => settings.runs = number(option, &text()?, 1000)?,
        "--size" => settings.bytes = u64::from(number(option, &text()?, 1 << 20)?) << 20,
        "--limit" => settings.limit = Duration::from_secs(number(option, &text()?, 86_400)?.into()),
        "--link" => chosen.links.push(WanLink::from_name(&text()?)?),
        "--congestion" => chosen.controls.push(Control::from_name(&text()?)?),
        "--tool" => chosen.tools.push(tools::from_name(&text()?)?),
        "--haul-arg" => chosen.variants.push(WanTool::haul_with(&text()?)),
        "--dir" => settings.dir = value()?.into(),
        "--haul" => settings.haul = Some(value()?.into()),
        "--markdown" => settings.markdown = Some(value()?.into()),
        _ => bail!("there is no option {option} (with --wan)"),
    }
    Ok(())
}

fn number(option: &str, text: &str, max: u32) -> Result<u32> {
    let number = text.parse().ok().filter(|number| (1..=max).contains(number));
    ensure!(number.is_some(), "{option} {text}: not a number from 1 to {max}");
    Ok(number.unwrap_or(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(words: &[&str]) -> Result<WanBenchSettings> {
        parse(words.iter().map(OsString::from))?.context("help was asked for")
    }

    #[test]
    fn nothing_means_everything_three_times() {
        let settings = settings(&["--wan"]).expect("no word is wrong");
        assert_eq!((settings.runs, settings.links.len(), settings.controls.len()), (3, 3, 2));
        assert_eq!((settings.tools, settings.bytes), (tools::all(), 1 << 30));
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
        assert_eq!((settings.runs, settings.bytes, settings.limit), (5, 64 << 20, Duration::from_secs(7)));
        assert_eq!(
            (settings.dir, settings.haul, settings.markdown),
            ("/d".into(), Some("/h".into()), Some("m".into()))
        );
        for [option, _] in words {
            assert!(HELP.contains(option), "{option}");
        }
    }

    #[test]
    fn wrong_words_are_named() {
        let wrong = [
            (vec!["--faster"], "--faster"),
            (vec!["--runs"], "needs a value"),
            (vec!["--runs", "0"], "--runs 0"),
            (vec!["--link", "moon"], "moon"),
            (vec!["--tool", "pigeon"], "pigeon"),
            (vec!["--congestion", "vegas"], "vegas"),
        ];
        for (words, part) in wrong {
            let error = settings(&words).expect_err("it is wrong");
            assert!(format!("{error:#}").contains(part), "{error:#}");
        }
        assert_eq!(parse(["--wan", "-h"].iter().map(OsString::from)).expect("fine"), None);
    }
}

//! The benchmark's own command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::tools;
use crate::workload::Kind;

/// What `--help` prints.
pub const HELP: &str = "\
Runs haul beside every peer found on this machine, over loopback and an sshd of its own.

cargo xtask bench [OPTIONS]

  --install              apt-get install the peers that Debian has
  --runs N               measured rounds (default 3); each runs every tool once
  --workload NAME        big, null, small, mixed, empty; repeatable (default: all)
  --tool NAME            a tool or a family of them, haul or gridftp; repeatable (default: all)
  --scale FACTOR         of the workloads' sizes and counts, 0.0001 to 10 (default 1)
  --dir DIR              where data is put (default /dev/shm)
  --haul PATH            the haul to measure (default: this workspace's release build)
  --congestion NAME      cubic or bbr, in a network namespace made for it (needs root);
                         default: this machine's own setting
  --timeout SECONDS      of one run (default 300); a tool that needs more is not run again
  --json FILE            every single run
  --markdown FILE        the tables that are printed
";

/// What was asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Install peers first.
    pub install: bool,
    /// Measured rounds.
    pub runs: u32,
    /// In the order given.
    pub workloads: Vec<Kind>,
    /// Names or families; empty for all.
    pub tools: Vec<String>,
    /// Factor on sizes and counts.
    pub scale: f64,
    /// Where a directory for the data is made.
    pub dir: PathBuf,
    /// The program to measure; none for the release build.
    pub haul: Option<PathBuf>,
    /// Congestion control to set.
    pub congestion: Option<String>,
    /// Limit of one run.
    pub timeout: Duration,
    /// Where to write every run.
    pub json: Option<PathBuf>,
    /// Where to write the tables.
    pub markdown: Option<PathBuf>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            install: false,
            runs: 3,
            workloads: Kind::ALL.to_vec(),
            tools: Vec::new(),
            scale: 1.0,
            dir: PathBuf::from("/dev/shm"),
            haul: None,
            congestion: None,
            timeout: Duration::from_secs(300),
            json: None,
            markdown: None,
        }
    }
}

/// What the words mean.
#[derive(Debug, PartialEq)]
pub enum Parsed {
    /// Print [`HELP`].
    Help,
    /// Measure.
    Run(Box<Settings>),
}

/// Reads the arguments, without the program's name.
pub fn parse(args: impl Iterator<Item = OsString>) -> Result<Parsed> {
    let mut settings = Settings::default();
    let mut workloads = Vec::new();
    let mut args = args;
    while let Some(option) = args.next() {
        let option = option.to_string_lossy().into_owned();
        match option.as_str() {
            "-h" | "--help" => return Ok(Parsed::Help),
            "--install" => settings.install = true,
            _ => set(&mut settings, &mut workloads, &option, &mut args)?,
        }
    }
    if !workloads.is_empty() {
        settings.workloads = workloads;
    }
    Ok(Parsed::Run(Box::new(settings)))
}

/// Takes an option that has a value.
fn set(
    settings: &mut Settings,
    workloads: &mut Vec<Kind>,
    option: &str,
    args: &mut impl Iterator<Item = OsString>,
) -> Result<()> {
    const VALUED: [&str; 10] = [
        "--runs",
        "--workload",
        "--tool",
        "--scale",
        "--dir",
        "--haul",
        "--congestion",
        "--timeout",
        "--json",
        "--markdown",
    ];
    ensure!(VALUED.contains(&option), "there is no option {option}");
    let value = args.next().with_context(|| format!("{option} needs a value"))?;
    let text = value.to_string_lossy().into_owned();
    let wrong = || format!("{option} {text}: not a number in its range");
    match option {
        "--runs" => settings.runs = in_range(text.parse().ok(), 1, 1000).with_context(wrong)?,
        "--workload" => workloads.push(Kind::from_name(&text)?),
        "--tool" => settings.tools.push(known_tool(text)?),
        "--scale" => settings.scale = in_range(text.parse().ok(), 0.0001, 10.0).with_context(wrong)?,
        "--timeout" => {
            settings.timeout = Duration::from_secs(in_range(text.parse().ok(), 1, 86_400).with_context(wrong)?)
        }
        "--congestion" => settings.congestion = Some(known_congestion(text)?),
        "--dir" => settings.dir = value.into(),
        "--haul" => settings.haul = Some(value.into()),
        "--json" => settings.json = Some(value.into()),
        _ => settings.markdown = Some(value.into()),
    }
    Ok(())
}

fn in_range<Number: PartialOrd>(value: Option<Number>, low: Number, high: Number) -> Option<Number> {
    value.filter(|value| *value >= low && *value <= high)
}

fn known_tool(name: String) -> Result<String> {
    if tools::ALL.iter().any(|tool| tool.is_called(&name)) {
        return Ok(name);
    }
    let names: Vec<&str> = tools::ALL.iter().map(|tool| tool.name).collect();
    bail!("there is no tool {name}; there are {}", names.join(", "))
}

fn known_congestion(name: String) -> Result<String> {
    ensure!(["cubic", "bbr", "reno"].contains(&name.as_str()), "--congestion is cubic, bbr or reno, not {name}");
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(words: &[&str]) -> Result<Settings> {
        match parse(words.iter().map(OsString::from))? {
            Parsed::Run(settings) => Ok(*settings),
            Parsed::Help => bail!("help was asked for"),
        }
    }

    #[test]
    fn nothing_means_everything_three_times() {
        let settings = settings(&[]).expect("no word is wrong");
        assert_eq!(settings, Settings::default());
        assert_eq!((settings.runs, settings.workloads.len()), (3, 5));
    }

    #[test]
    fn every_option_is_taken() {
        let words = "--install --runs 5 --workload null --workload big --tool gridftp --tool cp --scale 0.25 --dir /d \
                     --haul /h --congestion cubic --timeout 7 --json j --markdown m";
        let settings =
            settings(&words.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>()).expect("all right");
        let expected = Settings {
            install: true,
            runs: 5,
            workloads: vec![Kind::Null, Kind::Big],
            tools: vec!["gridftp".to_owned(), "cp".to_owned()],
            scale: 0.25,
            dir: "/d".into(),
            haul: Some("/h".into()),
            congestion: Some("cubic".to_owned()),
            timeout: Duration::from_secs(7),
            json: Some("j".into()),
            markdown: Some("m".into()),
        };
        assert_eq!(settings, expected);
    }

    #[test]
    fn wrong_words_are_named() {
        let wrong = [
            (vec!["--faster"], "--faster"),
            (vec!["--runs"], "needs a value"),
            (vec!["--runs", "0"], "--runs 0"),
            (vec!["--scale", "nan"], "--scale nan"),
            (vec!["--tool", "pigeon"], "pigeon"),
            (vec!["--workload", "huge"], "huge"),
            (vec!["--congestion", "vegas"], "vegas"),
        ];
        for (words, part) in wrong {
            let error = settings(&words).expect_err("it is wrong");
            assert!(format!("{error:#}").contains(part), "{error:#}");
        }
        assert_eq!(parse(["--runs", "2", "-h"].iter().map(OsString::from)).expect("fine"), Parsed::Help);
    }

    #[test]
    fn help_names_every_option() {
        for option in [
            "--install",
            "--runs",
            "--workload",
            "--tool",
            "--scale",
            "--dir",
            "--haul",
            "--congestion",
            "--timeout",
            "--json",
            "--markdown",
        ] {
            assert!(HELP.contains(option), "{option}");
        }
    }
}

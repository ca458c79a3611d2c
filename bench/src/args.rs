//! The benchmark's own command line.

use std::ffi::{OsStr, OsString};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::cpuid::CpuLevel;
use crate::kind::WorkloadKind;
use crate::settings::BenchSettings;
use crate::{curves, sync, tools};

/// What the words mean.
#[derive(Debug, PartialEq)]
pub enum Parsed {
    /// Print [`help`].
    Help,
    /// Measure.
    Run(Box<BenchSettings>),
}

/// An option: its name, what its value is called, what it does, and how.
struct BenchOption {
    name: &'static str,
    value: Option<&'static str>,
    about: &'static str,
    set: fn(&mut BenchSettings, &OsStr) -> Result<()>,
}

const fn flag(
    name: &'static str,
    about: &'static str,
    set: fn(&mut BenchSettings, &OsStr) -> Result<()>,
) -> BenchOption {
    BenchOption { name, value: None, about, set }
}

const fn valued(
    name: &'static str,
    value: &'static str,
    about: &'static str,
    set: fn(&mut BenchSettings, &OsStr) -> Result<()>,
) -> BenchOption {
    BenchOption { name, value: Some(value), about, set }
}

/// Every option.
const OPTIONS: &[BenchOption] = &[
    flag("--compression", "text and noise over 1 Gbit/s, with and without -c (needs root)", |to, _| {
        to.compression = true;
        Ok(())
    }),
    flag("--install", "apt-get install the peers that Debian has", |to, _| {
        to.install = true;
        Ok(())
    }),
    valued("--runs", "N", "measured rounds (default 3); each runs every tool once", |to, value| {
        to.runs = number(value, 1, 1000)?;
        Ok(())
    }),
    valued(
        "--workload",
        "NAME",
        "a workload or a family of them; repeatable (default: those without *)",
        |to, value| {
            to.workloads.extend(WorkloadKind::named(&value.to_string_lossy())?);
            Ok(())
        },
    ),
    flag("--curves", "instead: how CPU time grows with bytes, files, depth, rules (needs root)", |to, _| {
        to.curves = true;
        Ok(())
    }),
    flag("--large", "with --curves: up to 10,000,000 files", |to, _| {
        to.large = true;
        Ok(())
    }),
    flag("--old-cpu", "the same as --workload old-cpu: AVX2, AVX-512, VAES masked", |to, _| {
        to.workloads.push(WorkloadKind::OldCpu);
        Ok(())
    }),
    flag("--pacing", "instead: how smoothly -x keeps its rate, 512 KB/s to 1 GB/s (needs root)", |to, _| {
        to.pacing = true;
        Ok(())
    }),
    flag("--primitives", "instead: how fast one core seals, hashes and checks, and older kinds of CPU", |to, _| {
        to.primitives = true;
        Ok(())
    }),
    flag("--strangers", "instead: what strangers at the port cost a copy (needs root)", |to, _| {
        to.strangers = true;
        Ok(())
    }),
    flag("--sync", "instead: what is moved where a copy is there already (needs root)", |to, _| {
        to.sync = true;
        Ok(())
    }),
    valued(
        "--case",
        "NAME",
        "with --sync: unchanged, added, pages, insert, renamed, sparse;\n\
            with --curves: size, data, files, trees, depth, links, holes,\n\
            frames, operands, renames, lines, rules; repeatable (default: all)",
        |to, value| {
            to.cases.push(known_case(value)?);
            Ok(())
        },
    ),
    flag("--quick", "with --pacing: fewer rates and numbers of streams", |to, _| {
        to.quick = true;
        Ok(())
    }),
    valued("--tool", "NAME", "a tool or a family of them, haul or gridftp; repeatable (default: all)", |to, value| {
        to.tools.push(known_tool(value)?);
        Ok(())
    }),
    valued("--scale", "FACTOR", "of the workloads' sizes and counts, 0.0001 to 10 (default 1)", |to, value| {
        to.scale = number(value, 0.0001, 10.0)?;
        Ok(())
    }),
    valued("--dir", "DIR", "where data is put (default /dev/shm)", |to, value| {
        to.dir = value.into();
        Ok(())
    }),
    valued("--disk-dir", "DIR", "where data on a disk is put (default: the build directory)", |to, value| {
        to.disk_dir = Some(value.into());
        Ok(())
    }),
    valued("--haul", "PATH", "the haul to measure (default: this workspace's release build)", |to, value| {
        to.haul = Some(value.into());
        Ok(())
    }),
    valued("--beside", "PATH", "another haul (a build from before a change): the tool haul-before", |to, value| {
        to.beside = Some(value.into());
        Ok(())
    }),
    valued(
        "--cpu",
        "KIND",
        "haul and the bare loop see an older CPU (masked CPUID): vaes (AVX2 and\n\
            VAES, as Zen 3), avx2 (AVX2 and AES-NI, as Zen 2) or avx",
        |to, value| {
            to.cpu = Some(value.to_str().and_then(CpuLevel::named).context("--cpu: vaes, avx2 or avx")?);
            Ok(())
        },
    ),
    valued(
        "--congestion",
        "NAME",
        "cubic, bbr or reno, or both (cubic, then bbr), in a network\n\
            namespace made for it (needs root); default: this machine's own setting",
        |to, value| {
            to.congestion = known_congestion(value)?;
            Ok(())
        },
    ),
    valued("--timeout", "SECONDS", "of one run (default 300); a tool that needs more is not run again", |to, value| {
        to.timeout = Duration::from_secs(number(value, 1, 86_400)?);
        Ok(())
    }),
    valued("--json", "FILE", "every single run, and the aims", |to, value| {
        to.json = Some(value.into());
        Ok(())
    }),
    valued("--markdown", "FILE", "the tables that are printed", |to, value| {
        to.markdown = Some(value.into());
        Ok(())
    }),
];

/// What `--help` prints.
pub fn help() -> String {
    const COLUMN: usize = 25;
    let mut text = "Runs haul beside every peer found on this machine, over loopback and an sshd of its own.\n\n\
                    cargo xtask bench [OPTIONS]\n\n"
        .to_owned();
    for row in OPTIONS {
        let left = format!("  {} {}", row.name, row.value.unwrap_or_default());
        let about = row.about.replace('\n', &format!("\n{:COLUMN$}", ""));
        text.push_str(&format!("{left:<COLUMN$}{about}\n"));
    }
    text.push_str("\nWorkloads:\n");
    for kind in WorkloadKind::ALL {
        let title = kind.title();
        let (name, about) = title.split_once(": ").unwrap_or((&title, ""));
        let mark = if WorkloadKind::usual().contains(&kind) { "" } else { " *" };
        text.push_str(&format!("{:<COLUMN$}{about}\n", format!("  {name}{mark}")));
    }
    text
}

/// Reads the arguments, without the program's name.
pub fn parse(args: impl Iterator<Item = OsString>) -> Result<Parsed> {
    let mut settings = BenchSettings::default();
    let mut args = args;
    while let Some(word) = args.next() {
        let word = word.to_string_lossy().into_owned();
        if word == "-h" || word == "--help" {
            return Ok(Parsed::Help);
        }
        let row = OPTIONS.iter().find(|row| row.name == word).with_context(|| format!("there is no option {word}"))?;
        let value = match row.value {
            Some(_) => args.next().with_context(|| format!("{word} needs a value"))?,
            None => OsString::new(),
        };
        (row.set)(&mut settings, &value).with_context(|| format!("{word} {}", value.to_string_lossy()))?;
    }
    if settings.workloads.is_empty() {
        settings.workloads = WorkloadKind::usual();
    }
    Ok(Parsed::Run(Box::new(settings)))
}

fn number<Number: PartialOrd + std::str::FromStr>(value: &OsStr, low: Number, high: Number) -> Result<Number> {
    let number = value.to_str().and_then(|text| text.parse().ok());
    number.filter(|number| *number >= low && *number <= high).context("not a number in its range")
}

fn known_tool(value: &OsStr) -> Result<String> {
    let name = value.to_string_lossy().into_owned();
    if tools::ALL.iter().any(|tool| tool.is_called(&name)) {
        return Ok(name);
    }
    let names: Vec<&str> = tools::ALL.iter().map(|tool| tool.name).collect();
    bail!("there is no tool {name}; there are {}", names.join(", "))
}

fn known_case(value: &OsStr) -> Result<String> {
    let name = value.to_string_lossy().into_owned();
    let known = [sync::case_names(), curves::case_names()].concat();
    ensure!(known.contains(&name.as_str()), "there is no case {name}; there are {}", known.join(", "));
    Ok(name)
}

fn known_congestion(value: &OsStr) -> Result<Vec<String>> {
    let name = value.to_string_lossy().into_owned();
    if name == "both" {
        return Ok(vec!["cubic".to_owned(), "bbr".to_owned()]);
    }
    ensure!(["cubic", "bbr", "reno"].contains(&name.as_str()), "it is cubic, bbr, reno or both");
    Ok(vec![name])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(words: &[&str]) -> Result<BenchSettings> {
        match parse(words.iter().map(OsString::from))? {
            Parsed::Run(settings) => Ok(*settings),
            Parsed::Help => bail!("help was asked for"),
        }
    }

    #[test]
    fn nothing_means_every_row_of_the_aims_three_times() {
        let settings = settings(&[]).expect("no word is wrong");
        assert_eq!(settings, BenchSettings { workloads: WorkloadKind::usual(), ..BenchSettings::default() });
        assert_eq!((settings.runs, settings.workloads.len()), (3, 11));
    }

    #[test]
    fn every_option_is_taken() {
        let words = "--install --compression --runs 5 --workload null --workload curve --curves --large --old-cpu --pacing --primitives --strangers --sync --case pages --quick --tool gridftp --tool cp --scale 0.25 \
                     --dir /d --disk-dir /e --haul /h --beside /b --cpu vaes --congestion both --timeout 7 --json j --markdown m";
        let given: Vec<&str> = words.split(' ').filter(|word| !word.is_empty()).collect();
        for row in OPTIONS {
            assert!(given.contains(&row.name), "{} is not tried here", row.name);
        }
        let curves = [
            WorkloadKind::Null,
            WorkloadKind::CurveStreams,
            WorkloadKind::CurveFiles,
            WorkloadKind::CurveBytes,
            WorkloadKind::CurveNull,
            WorkloadKind::OldCpu,
        ];
        let expected = BenchSettings {
            install: true,
            pacing: true,
            primitives: true,
            strangers: true,
            quick: true,
            compression: true,
            curves: true,
            large: true,
            sync: true,
            cases: vec!["pages".into()],
            runs: 5,
            workloads: curves.to_vec(),
            tools: vec!["gridftp".to_owned(), "cp".to_owned()],
            scale: 0.25,
            dir: "/d".into(),
            disk_dir: Some("/e".into()),
            haul: Some("/h".into()),
            beside: Some("/b".into()),
            cpu: Some(CpuLevel::Vaes),
            congestion: vec!["cubic".to_owned(), "bbr".to_owned()],
            timeout: Duration::from_secs(7),
            json: Some("j".into()),
            markdown: Some("m".into()),
        };
        assert_eq!(settings(&given).expect("all right"), expected);
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
    fn help_is_aligned_and_fits_a_terminal() {
        let help = help();
        assert!(help.lines().all(|line| line.chars().count() <= 100), "{help}");
        assert!(help.contains("\n  --runs N               measured rounds"), "{help}");
        assert!(help.contains("\n  curve-files *          "), "{help}");
    }
}

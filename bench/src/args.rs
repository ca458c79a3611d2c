//! The benchmark's own command line: workloads, cases and tools, unknown to [`BenchSettings`].

use std::ffi::OsString;

use clap::{CommandFactory, FromArgMatches};

use crate::kind::WorkloadKind;
use crate::settings::BenchSettings;
use crate::{curves, jobs, sync, tools};

/// Reads the arguments, without the program's name.
pub fn parse<Word: Into<OsString> + Clone>(args: impl IntoIterator<Item = Word>) -> Result<BenchSettings, clap::Error> {
    let mut command = BenchSettings::command()
        .after_help(workloads())
        .mut_arg("cases", |arg| {
            arg.value_parser([sync::case_names(), curves::case_names(), jobs::case_names()].concat())
        })
        .mut_arg("tools", |arg| arg.value_parser(known_tool));
    let matches = command.try_get_matches_from_mut(args)?;
    let mut settings = BenchSettings::from_arg_matches(&matches)?;
    settings.workloads = settings.families.concat();
    settings.workloads.extend(settings.old_cpu.then_some(WorkloadKind::OldCpu));
    if settings.workloads.is_empty() {
        settings.workloads = WorkloadKind::usual();
    }
    Ok(settings)
}

/// The workloads, for the help.
fn workloads() -> String {
    let rows = WorkloadKind::ALL.map(|kind| {
        let title = kind.title();
        let (name, about) = title.split_once(": ").unwrap_or((&title, ""));
        let mark = if WorkloadKind::usual().contains(&kind) { "" } else { " *" };
        format!("\n  {:<25}{about}", format!("{name}{mark}"))
    });
    format!("Workloads:{}", rows.concat())
}

fn known_tool(name: &str) -> Result<String, String> {
    if tools::ALL.iter().any(|tool| tool.is_called(name)) {
        return Ok(name.to_owned());
    }
    let names: Vec<&str> = tools::ALL.iter().map(|tool| tool.name).collect();
    Err(format!("there is no tool {name}; there are {}", names.join(", ")))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::cpuid::CpuLevel;

    fn parsed(line: &str) -> Result<BenchSettings, String> {
        parse(line.split_whitespace()).map_err(|error| error.to_string())
    }

    #[test]
    fn the_default_is_every_row_of_the_aims_three_times() {
        let settings = parsed("").expect("no word is wrong");
        assert_eq!((settings.runs, settings.workloads.len()), (3, 11));
        assert_eq!((settings.dir, settings.timeout), ("/dev/shm".into(), Duration::from_secs(300)));
        assert_eq!((settings.scale, settings.congestion), (1.0, None));
    }

    #[test]
    fn every_option_is_taken() {
        let line = "--install --compression --runs 5 --workload null --workload curve --curves --jobs --large --old-cpu --pacing --primitives --strangers --sync --case pages --quick --tool gridftp --tool cp --scale 0.25 \
                    --dir /d --disk-dir /e --haul /h --beside /b --cpu vaes --congestion both --timeout 7 --json j --markdown m";
        for option in BenchSettings::command().get_arguments().filter_map(clap::Arg::get_long) {
            assert!(line.contains(&format!("--{option}")), "{option} is not tried here");
        }
        let curves = [
            WorkloadKind::Null,
            WorkloadKind::CurveStreams,
            WorkloadKind::CurveFiles,
            WorkloadKind::CurveBytes,
            WorkloadKind::CurveNull,
            WorkloadKind::OldCpu,
        ];
        let settings = parsed(line).expect("all right");
        assert_eq!(settings.congestions(), [Some("cubic"), Some("bbr")]);
        let expected = BenchSettings {
            install: true,
            pacing: true,
            primitives: true,
            strangers: true,
            quick: true,
            compression: true,
            curves: true,
            jobs: true,
            large: true,
            sync: true,
            old_cpu: true,
            cases: vec!["pages".into()],
            runs: 5,
            families: settings.families.clone(),
            workloads: curves.to_vec(),
            tools: vec!["gridftp".to_owned(), "cp".to_owned()],
            scale: 0.25,
            dir: "/d".into(),
            disk_dir: Some("/e".into()),
            haul: Some("/h".into()),
            beside: Some("/b".into()),
            cpu: Some(CpuLevel::Vaes),
            congestion: Some("both".to_owned()),
            timeout: Duration::from_secs(7),
            json: Some("j".into()),
            markdown: Some("m".into()),
        };
        assert_eq!(settings, expected);
    }

    #[test]
    fn wrong_words_are_named() {
        let wrong = [
            ("--faster", "--faster"),
            ("--runs", "a value is required"),
            ("--runs 0", "'0' for '--runs"),
            ("--scale nan", "nan"),
            ("--tool pigeon", "pigeon"),
            ("--case pigeon", "pigeon"),
            ("--workload huge", "huge"),
            ("--congestion vegas", "vegas"),
        ];
        for (line, part) in wrong {
            let error = parsed(line).expect_err("it is wrong");
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn help_lists_the_workloads() {
        let help = parsed("--runs 2 -h").expect_err("it is help");
        assert!(help.contains("--runs <N>") && help.contains("\n  curve-files *          "), "{help}");
    }
}

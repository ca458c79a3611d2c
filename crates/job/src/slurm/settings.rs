//! Settings of a job's tasks: `JOB/slurm/settings.json`, replaced by a later run's options.

use std::ffi::OsString;

use serde_json::{Value, json};

use crate::directory::JobDirectory;
use crate::error::JobError;
use crate::job_file::JobFile;
use crate::opened::OpenedJob;

/// Seconds between the warning and the time limit, if the limit allows.
const WARN_S: u64 = 60;
/// sbatch options that the scripts set themselves.
const OWN: [&str; 11] = [
    "array",
    "dependency",
    "job-name",
    "no-requeue",
    "nodes",
    "ntasks",
    "open-mode",
    "output",
    "parsable",
    "requeue",
    "signal",
];
/// Their letters.
const OWN_LETTERS: [char; 6] = ['a', 'd', 'J', 'N', 'n', 'o'];

/// Options of sbatch, and the number of concurrent shards.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SlurmSettings {
    /// Concurrent shards; `None` leaves it to Slurm.
    pub at_once: Option<u32>,
    /// Whether each shard has an exclusive node.
    pub is_exclusive: bool,
    /// `--partition`.
    pub partition: Option<String>,
    /// `--account`.
    pub account: Option<String>,
    /// `--time`, in Slurm's format.
    pub time: Option<String>,
    /// `--cpus-per-task`.
    pub cpus: Option<u32>,
    /// Further options, as typed.
    pub more: Vec<String>,
    /// Whether the last step compares source and target.
    pub verifies: bool,
}

impl SlurmSettings {
    /// Common lines of the scripts of shards and of the last step.
    pub fn directives(&self) -> Vec<String> {
        let option = |name: &str, value: &Option<String>| value.as_ref().map(|value| format!("--{name}={value}"));
        let known = [
            option("partition", &self.partition),
            option("account", &self.account),
            option("time", &self.time),
            option("cpus-per-task", &self.cpus.map(|cpus| cpus.to_string())),
        ];
        known.into_iter().flatten().chain(self.more.iter().cloned()).collect()
    }

    /// Seconds between the warning and the time limit. Slurm warns up to a minute earlier.
    pub fn warn_s(&self) -> u64 {
        let limit = self.time.as_deref().and_then(time_limit_s);
        limit.map_or(WARN_S, |limit| WARN_S.min(limit / 3).max(1))
    }

    /// Refuses options that contradict the scripts'.
    pub fn check(&self) -> Result<(), JobError> {
        for option in &self.more {
            let name = option.strip_prefix("--").map(|long| long.split(['=', ' ']).next().unwrap_or_default());
            let letter = option.strip_prefix('-').and_then(|short| short.chars().next());
            let is_own = match name {
                Some(name) => OWN.contains(&name),
                None => letter.is_some_and(|letter| OWN_LETTERS.contains(&letter)),
            };
            if is_own {
                return Err(JobError::usage(
                    format!("--sbatch {option}: haul sets this option of sbatch itself"),
                    "--nodes or --limit bounds how many shards run at a time",
                ));
            }
            if !option.starts_with('-') {
                return Err(JobError::usage(
                    format!("--sbatch {option}: not an option of sbatch"),
                    "write it as in a script: --sbatch=--mem=4G",
                ));
            }
        }
        let has_break = |text: &String| text.contains(['\n', '\0']);
        match self.directives().iter().find(|option| has_break(option)) {
            None => {}
            Some(option) => {
                return Err(JobError::usage(format!("{option:?}: a line break in an option of sbatch"), "remove it"));
            }
        }
        match self.time.as_deref().filter(|time| time_limit_s(time).is_none()) {
            None => Ok(()),
            Some(time) => Err(JobError::usage(
                format!("--time {time}: not a time limit of Slurm"),
                "for example 30 (minutes), 2:00:00 or 1-12:00:00",
            )),
        }
    }

    /// Writes them for later runs.
    pub fn write(&self, job: &JobDirectory) -> Result<(), JobError> {
        let value = json!({
            "at_once": self.at_once,
            "exclusive": self.is_exclusive,
            "partition": self.partition,
            "account": self.account,
            "time": self.time,
            "cpus": self.cpus,
            "sbatch": self.more,
            "verify": self.verifies,
        });
        Self::file(job).replace(format!("{value:#}\n").as_bytes())
    }

    fn file(job: &JobDirectory) -> JobFile {
        job.slurm().join("settings.json")
    }

    /// Reads those of the last run; `None` before the first one.
    pub fn read(job: &JobDirectory) -> Result<Option<Self>, JobError> {
        let file = Self::file(job);
        let Some(text) = file.read_text()? else { return Ok(None) };
        let damaged = |error: serde_json::Error| JobError::damaged(file.path(), &error.to_string());
        let value: Value = serde_json::from_str(&text).map_err(damaged)?;
        let text = |name: &str| value[name].as_str().map(str::to_owned);
        let number = |name: &str| value[name].as_u64().and_then(|number| u32::try_from(number).ok());
        let more = value["sbatch"].as_array().into_iter().flatten();
        Ok(Some(Self {
            at_once: number("at_once"),
            is_exclusive: value["exclusive"].as_bool().unwrap_or_default(),
            partition: text("partition"),
            account: text("account"),
            time: text("time"),
            cpus: number("cpus"),
            more: more.filter_map(Value::as_str).map(str::to_owned).collect(),
            verifies: value["verify"].as_bool().unwrap_or_default(),
        }))
    }
}

/// Seconds of a limit in sbatch's form: `M`, `M:S`, `H:M:S`, `D-H`, `D-H:M` or `D-H:M:S`.
fn time_limit_s(time: &str) -> Option<u64> {
    let numbers = |text: &str| text.split(':').map(|word| word.parse::<u64>().ok()).collect::<Option<Vec<_>>>();
    let (days, rest) = match time.split_once('-') {
        Some((days, rest)) => (Some(days.parse::<u64>().ok()?), numbers(rest)?),
        None => (None, numbers(time)?),
    };
    let (hours, minutes, seconds) = match (days, rest[..].len()) {
        (None, 1) => (0, rest[0], 0),
        (None, 2) => (0, rest[0], rest[1]),
        (Some(_), 1) => (rest[0], 0, 0),
        (Some(_), 2) => (rest[0], rest[1], 0),
        (_, 3) => (rest[0], rest[1], rest[2]),
        _ => return None,
    };
    let days = days.unwrap_or_default();
    [(days, 86_400), (hours, 3600), (minutes, 60), (seconds, 1)]
        .into_iter()
        .try_fold(0_u64, |sum, (count, unit)| sum.checked_add(count.checked_mul(unit)?))
}

/// The typed settings, or those of the last run. Lines for sbatch can start programs, too: with the options, they have
/// one digest.
pub fn kept(job: &mut OpenedJob, typed: Option<SlurmSettings>) -> Result<SlurmSettings, JobError> {
    let directory = &job.directory;
    directory.slurm().make_directory()?;
    let programs = job.description.options.program_words();
    let with_lines = |settings: Option<&SlurmSettings>| {
        let lines = settings.map(SlurmSettings::directives).unwrap_or_default();
        programs.iter().cloned().chain(lines.into_iter().map(OsString::from)).collect::<Vec<_>>()
    };
    let kept = if typed.is_some() { None } else { SlurmSettings::read(directory)? };
    job.confirmation.check(directory.path(), &with_lines(kept.as_ref()))?;
    let settings = typed.or(kept).unwrap_or_default();
    settings.check()?;
    settings.write(directory)?;
    job.confirmation.confirm(&with_lines(Some(&settings)));
    job.confirmation.confirm(&programs);
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_round_trip() {
        let temp = tempfile::tempdir().unwrap();
        let job = JobDirectory::create(&temp.path().join("job")).unwrap();
        job.slurm().make_directory().unwrap();
        assert_eq!(SlurmSettings::read(&job), Ok(None));
        let settings = SlurmSettings {
            at_once: Some(8),
            is_exclusive: true,
            partition: Some("transfer".to_owned()),
            account: None,
            time: Some("2:00:00".to_owned()),
            cpus: Some(4),
            more: vec!["--mem=4G".to_owned()],
            verifies: true,
        };
        settings.write(&job).unwrap();
        assert_eq!(SlurmSettings::read(&job), Ok(Some(settings.clone())));
        let lines = ["--partition=transfer", "--time=2:00:00", "--cpus-per-task=4", "--mem=4G"];
        assert_eq!(settings.directives(), lines);
    }

    #[test]
    fn the_warning_leaves_most_of_a_short_limit() {
        let warn_s = |time: &str| SlurmSettings { time: Some(time.to_owned()), ..SlurmSettings::default() }.warn_s();
        assert_eq!(["1", "2:30", "30", "1-0"].map(warn_s), [20, 50, 60, 60]);
        assert_eq!(SlurmSettings::default().warn_s(), 60);
        for (time, seconds) in [("90", 5400), ("1:30", 90), ("1:0:0", 3600), ("1-2", 93_600), ("1-2:3:4", 93_784)] {
            assert_eq!(time_limit_s(time), Some(seconds), "{time}");
        }
    }

    #[test]
    fn options_set_by_haul_are_refused() {
        let refused = |option: &str| {
            let settings = SlurmSettings { more: vec![option.to_owned()], ..SlurmSettings::default() };
            settings.check().is_err()
        };
        for option in ["--array=1-3", "-a1", "--job-name=x", "--signal=TERM@9", "mem", "--mem=1\n#SBATCH -w n1"] {
            assert!(refused(option), "{option}");
        }
        assert!(!refused("--mem=4G") && !refused("-C fast") && !refused("--nodelist=n1"));
        let timed = |time: &str| SlurmSettings { time: Some(time.to_owned()), ..SlurmSettings::default() }.check();
        assert!(timed("soon").is_err() && timed("1:2:3:4").is_err() && timed("").is_err() && timed("5").is_ok());
    }
}

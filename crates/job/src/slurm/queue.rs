//! Slurm's queue, parsed from squeue's output.

use std::collections::BTreeMap;
use std::time::Duration;

/// squeue's `--format`, as expected by [`SlurmTask::parse_all`].
pub const FORMAT: &str = "%i|%T|%r|%N";

/// sacct's `--format`, as expected by [`SlurmTask::parse_all`].
pub const ACCOUNTS_FORMAT: &str = "JobID,State,ExitCode,NodeList";

/// Reasons of tasks held by Slurm itself. Users' and administrators' holds have other reasons.
const HELD: [&str; 2] = ["requeued held", "JobHoldMaxRequeue"];

/// States of ended tasks (squeue(1), "job state codes").
const OVER: [&str; 11] = [
    "BOOT_FAIL",
    "CANCELLED",
    "COMPLETED",
    "DEADLINE",
    "FAILED",
    "LAUNCH_FAILED",
    "NODE_FAIL",
    "OUT_OF_MEMORY",
    "PREEMPTED",
    "REVOKED",
    "TIMEOUT",
];

/// A task in the queue, or one that has ended lately.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlurmTask {
    /// The job; of an array, its own id.
    pub job: u64,
    /// The index in the array; `None` for other jobs, and for an array that ended before any of its tasks began.
    pub index: Option<u32>,
    /// `PENDING`, `RUNNING` and so on.
    pub state: String,
    /// The reason for its wait; of sacct, its exit status.
    pub reason: String,
    /// Its nodes.
    pub nodes: String,
}

impl SlurmTask {
    /// Parses lines of squeue or sacct, and skips others.
    pub fn parse_all(text: &str) -> Vec<Self> {
        text.lines().filter_map(Self::parse).collect()
    }

    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.trim().splitn(4, '|');
        let (id, state, reason) = (fields.next()?, fields.next()?, fields.next()?);
        let (job, index) = match id.split_once('_') {
            Some((job, index)) => (job, Some(index.parse().ok()?)),
            None => (id, None),
        };
        Some(Self {
            job: job.parse().ok()?,
            index,
            // sacct adds by whom: `CANCELLED by 1000`.
            state: state.split(' ').next().unwrap_or_default().to_owned(),
            reason: reason.to_owned(),
            nodes: fields.next().filter(|nodes| *nodes != "None assigned").unwrap_or_default().to_owned(),
        })
    }

    /// Whether Slurm holds it after a failed start, often on a lost node. Without a release, it would never start.
    pub fn is_held_after_failure(&self) -> bool {
        self.is_pending() && HELD.iter().any(|reason| self.reason.contains(reason))
    }

    /// Its id for scontrol.
    pub fn id(&self) -> String {
        self.index.map_or_else(|| self.job.to_string(), |index| format!("{}_{index}", self.job))
    }

    /// Whether it has ended.
    pub fn is_over(&self) -> bool {
        OVER.contains(&self.state.as_str())
    }

    /// Whether a user or an administrator ended it.
    pub fn is_cancelled(&self) -> bool {
        self.state == "CANCELLED"
    }

    /// Whether it is pending.
    pub fn is_pending(&self) -> bool {
        self.state == "PENDING"
    }
}

/// `3 running, 12 pending (Resources 2, JobArrayTaskLimit 10)`
pub fn summary(tasks: &[SlurmTask]) -> String {
    let mut states = BTreeMap::<&str, u64>::new();
    let mut reasons = BTreeMap::<&str, u64>::new();
    for task in tasks.iter().filter(|task| !task.is_over()) {
        *states.entry(&task.state).or_default() += 1;
        if task.is_pending() && task.reason != "None" {
            *reasons.entry(&task.reason).or_default() += 1;
        }
    }
    let state = |(state, count): (&&str, &u64)| {
        let why: Vec<_> = reasons.iter().map(|(reason, count)| format!("{reason} {count}")).collect();
        let why = if *state == "PENDING" && !why.is_empty() { format!(" ({})", why.join(", ")) } else { String::new() };
        format!("{count} {}{why}", state.to_lowercase())
    };
    match states.is_empty() {
        true => "nothing in the queue".to_owned(),
        false => states.iter().map(state).collect::<Vec<_>>().join(", "),
    }
}

/// What haul needs of `scontrol show config`. Slurm's defaults stand for what it does not print.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlurmConfig {
    /// MaxArraySize: an array's indexes are below it.
    pub array_size: u32,
    /// MinJobAge: how long Slurm remembers an ended task.
    pub remembers: Duration,
}

impl SlurmConfig {
    /// Reads the output of scontrol.
    pub fn parse(text: &str) -> Self {
        let value = |name: &str| {
            let line = text.lines().find_map(|line| line.trim().strip_prefix(name))?;
            line.trim_start().strip_prefix('=')?.split_whitespace().next()?.parse::<u32>().ok()
        };
        let remembers = match value("MinJobAge") {
            // It forgets nothing.
            Some(0) => Duration::MAX,
            seconds => Duration::from_secs(seconds.unwrap_or(300).into()),
        };
        Self { array_size: value("MaxArraySize").unwrap_or(1001), remembers }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_are_read_and_other_lines_are_not() {
        let text = "12_0|RUNNING|None|n1\n12_17|PENDING|Resources|\n13|PENDING|Dependency|\n\nslurm_load_jobs error\n12_[3-9]|PENDING|x|\n14|CANCELLED|None|\n";
        let tasks = SlurmTask::parse_all(text);
        assert_eq!(tasks.len(), 4);
        assert!(tasks[3].is_over() && tasks[3].is_cancelled() && !tasks[0].is_over());
        assert_eq!((tasks[0].job, tasks[0].index, tasks[0].nodes.as_str()), (12, Some(0), "n1"));
        assert_eq!((tasks[1].index, tasks[1].reason.as_str()), (Some(17), "Resources"));
        assert_eq!((tasks[2].job, tasks[2].index), (13, None));
        assert_eq!(summary(&tasks), "2 pending (Dependency 1, Resources 1), 1 running");
        assert_eq!(summary(&[]), "nothing in the queue");
    }

    #[test]
    fn tasks_of_the_accounts_have_their_last_state() {
        for (line, state, is_cancelled) in [
            ("12_3|COMPLETED|0:0|n1", Some("COMPLETED"), false),
            ("12_3|CANCELLED by 1000|0:15|n1", Some("CANCELLED"), true),
            ("12_3|CANCELLED|0:0|None assigned", Some("CANCELLED"), true),
            ("12_3|NODE_FAIL|1:0|n[1-2]", Some("NODE_FAIL"), false),
            ("12_3|FAILED|127:0|n4", Some("FAILED"), false),
            ("12_3|TIMEOUT|0:0|n4", Some("TIMEOUT"), false),
            ("12_3|OUT_OF_MEMORY|0:125|n4", Some("OUT_OF_MEMORY"), false),
            ("12_[4-7%2]|PENDING|0:0|None assigned", None, false),
            ("12_3.batch|FAILED|1:0|n4", None, false),
            ("", None, false),
        ] {
            let tasks = SlurmTask::parse_all(line);
            assert_eq!(tasks.first().map(|task| task.state.as_str()), state, "{line}");
            assert!(tasks.iter().all(|task| task.nodes.starts_with('n') || task.nodes.is_empty()), "{line}");
            assert!(tasks.iter().all(|task| task.is_over() && task.is_cancelled() == is_cancelled), "{line}");
        }
    }

    #[test]
    fn tasks_held_by_slurm_are_recognised() {
        let text = "12_4|PENDING|launch failed requeued held|\n13|PENDING|JobHoldMaxRequeue|\n12_5|PENDING|JobHeldUser|\n\
                    12_6|RUNNING|launch failed requeued held|n1\n12_7|PENDING|Resources|\n";
        let tasks = SlurmTask::parse_all(text);
        let held = tasks.iter().filter(|task| task.is_held_after_failure()).map(SlurmTask::id);
        assert_eq!(held.collect::<Vec<_>>(), ["12_4", "13"]);
    }

    #[test]
    fn the_configuration_is_read() {
        let read = |text| {
            let SlurmConfig { array_size, remembers } = SlurmConfig::parse(text);
            (array_size, remembers.as_secs())
        };
        assert_eq!(read("MaxArraySize            = 99\nMaxJobs = 5\nMinJobAge = 20 sec\n"), (99, 20));
        assert_eq!(read("MaxArraySizes = 5\nMinJobAge = 0 sec"), (1001, u64::MAX));
        assert_eq!(read(""), (1001, 300));
    }
}

//! The state of a job, for people and programs.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, UNIX_EPOCH};

use haul_proto::path::escape;
use haul_show::exit::Exit;
use haul_show::json::{JsonMessage, encode};
use haul_show::text::harmless;
use haul_show::units;
use serde::Serialize;

use crate::error::shown;
use crate::finish::{self, LAST_FAILURES};
use crate::opened::OpenedJob;
use crate::overview::{JobOverview, ShardState};
use crate::plan_index::PlannedShard;
use crate::report::MergedReport;
use crate::shard_result::ShardEnd;
use crate::slurm::task_ends::FailedTask;
use crate::slurm::view::ShardTasks;

/// Most shards of a state listed by number.
const NAMED: usize = 20;
/// The states, in the order of the table.
const STATES: [&str; 6] = ["planned", "running", "done", "incomplete", "interrupted", "failed"];

/// 0 for a finished job, 5 if files vanished, 1 if shards or files failed or a comparison found differences, 4 while
/// work remains.
pub fn exit_of(overview: &JobOverview) -> Exit {
    match overview {
        _ if overview.held.is_some() || overview.ended(ShardEnd::Failed) > 0 || overview.is_same() == Some(false) => {
            Exit::Failed
        }
        _ if overview.is_copied() && overview.is_finished() => finish::exit_of(&MergedReport::of(overview)),
        _ if overview.ended(ShardEnd::Incomplete) > 0 => Exit::Failed,
        _ => Exit::Interrupted,
    }
}

fn state_of(state: &ShardState) -> &'static str {
    match state {
        ShardState::Planned => "planned",
        ShardState::Running(_) => "running",
        ShardState::Ended(result) => result.end.word(),
    }
}

/// Shards, files and bytes in a state.
fn totals(overview: &JobOverview, state: &str) -> (u64, u64, u64) {
    let of_state = overview.shards.iter().filter(|(_, found)| state_of(found) == state);
    of_state.fold((0, 0, 0), |sum, (shard, _)| {
        (sum.0 + 1, sum.1.saturating_add(shard.files), sum.2.saturating_add(shard.bytes))
    })
}

/// `/data/run7 to dtn1:/archive and 3 more`, `comparison of /data/run7 to dtn1:/archive`
pub fn what(job: &OpenedJob) -> String {
    let act = if job.description.verifies { "comparison of " } else { "" };
    let targets = &job.description.targets;
    let more = if targets.len() > 1 { format!(" and {} more", targets.len() - 1) } else { String::new() };
    let hosts = &job.description.source_hosts;
    let more_hosts = if hosts.len() > 1 { format!(" and {} more hosts", hosts.len() - 1) } else { String::new() };
    let source = job.description.ends()[0].at_source(job.description.source.as_os_str());
    let (source, target) = (escape(source.as_bytes()), escape(targets[0].as_bytes()));
    format!("{act}{source}{more_hosts} to {target}{more}")
}

/// The state as a table for people.
pub fn as_table(job: &OpenedJob, overview: &JobOverview, tasks: &ShardTasks) -> String {
    let mut text = format!("{}\n", what(job));
    text.push_str(&format!("{}\n\n", plan_line(overview)));
    text.push_str(&format!("{:<12} {:>8} {:>14} {:>10}\n", "state", "shards", "files", "bytes"));
    for state in STATES {
        let (shards, files, bytes) = totals(overview, state);
        let (shards, files, bytes) = (units::count(shards), units::count(files), units::size(bytes));
        text.push_str(&format!("{state:<12} {shards:>8} {files:>14} {bytes:>10}\n"));
    }
    if let Some(line) = tasks.line() {
        text.push_str(&format!("\nSlurm: {}\n", harmless(line)));
    }
    let lost = FailedTask::shards(&job.directory);
    for state in ["planned", "running", "incomplete", "interrupted", "failed"] {
        let is_shown = |shard: &PlannedShard| state != "planned" || lost.contains(&shard.number);
        let of_state = overview.shards.iter().filter(|(_, found)| state_of(found) == state);
        let of_state: Vec<_> = of_state.filter(|(shard, _)| is_shown(shard)).collect();
        of_state.iter().take(NAMED).for_each(|shard| text.push_str(&shard_line(job, &shard.0, &shard.1, tasks)));
        if of_state.len() > NAMED {
            text.push_str(&format!("and {} more {state}\n", of_state.len() - NAMED));
        }
    }
    text.push_str(&format!("\n{}\n", next_line(job, overview, tasks)));
    text
}

fn plan_line(overview: &JobOverview) -> String {
    match (&overview.complete, &overview.planner) {
        (Some(totals), _) => {
            let failed =
                if totals.failed > 0 { format!(", {} unreadable", units::count(totals.failed)) } else { String::new() };
            format!(
                "planned: {}, {}, {}{failed}",
                units::files(totals.files),
                units::size(totals.bytes),
                units::counted(totals.directories, "directory", "directories")
            )
        }
        (None, Some(planner)) => format!("being planned by {}", harmless(&planner.shown())),
        (None, None) => "the plan was interrupted".to_owned(),
    }
}

fn shard_line(job: &OpenedJob, shard: &PlannedShard, state: &ShardState, tasks: &ShardTasks) -> String {
    let about = match state {
        ShardState::Planned => match FailedTask::last(&job.directory, shard.number) {
            Some(lost) => format!("no result {}", lost.shown()),
            None => return String::new(),
        },
        ShardState::Running(holder) => {
            format!(
                "{} for {}",
                harmless(&holder.shown()),
                units::duration(Duration::try_from_secs_f64(holder.age_s).unwrap_or_default())
            )
        }
        ShardState::Ended(result) => {
            let why = result.message.lines().next().unwrap_or_default();
            let why = match (why.is_empty(), result.end) {
                (false, _) => harmless(why),
                (true, ShardEnd::Incomplete) => {
                    let own = job.directory.failures(shard.number);
                    let file = if own.exists() { own } else { job.directory.step_failures(LAST_FAILURES) };
                    format!("{} failed: see {}", units::files(result.counts.failed), shown(file.path()))
                }
                (true, _) => String::new(),
            };
            format!("{}: {why}", harmless(&result.host))
        }
    };
    let task = match (tasks.of(shard.number), state) {
        (Some(task), _) => format!("; Slurm: {}", task.state.to_lowercase()),
        (None, ShardState::Running(_)) if tasks.line().is_some() => "; no task of Slurm".to_owned(),
        (None, _) => String::new(),
    };
    let range = shard
        .range
        .map(|range| format!("; range {} of {}", range.number.saturating_add(1), range.ranges))
        .unwrap_or_default();
    format!("shard {:<6} {:<12} {about}{range}{}\n", shard.number, state_of(state), harmless(&task))
}

fn next_line(job: &OpenedJob, overview: &JobOverview, tasks: &ShardTasks) -> String {
    let path = shown(job.directory.path());
    let run = if tasks.line().is_some() { "haul job run --slurm" } else { "haul job run" };
    match overview {
        JobOverview { held: Some(reason), .. } => format!("held: {reason}\n{run} {path} continues it"),
        _ if overview.is_cancelled => format!("cancelled; {run} {path} continues it"),
        _ if overview.is_copied() && overview.is_finished() => finished(job, overview),
        _ if overview.is_copied() => format!("all shards have ended; next: haul job finish {path}"),
        _ => format!("unfinished; {run} {path} copies the rest"),
    }
}

fn finished(job: &OpenedJob, overview: &JobOverview) -> String {
    let failed = overview.last_step.as_ref().map_or(0, |step| step.failed);
    let result = match overview.is_same() {
        None if failed > 0 => {
            let path = shown(job.directory.path());
            format!("; {} failed; haul job run {path} tries them again", units::files(failed))
        }
        None => String::new(),
        Some(true) => "; source and target are the same".to_owned(),
        Some(false) => "; source and target differ".to_owned(),
    };
    let comparison = job.directory.comparison();
    match comparison.description().exists() {
        true => format!("finished{result}; haul job status {} shows the comparison", shown(comparison.path())),
        false => format!("finished{result}"),
    }
}

/// A job in a list of jobs: its state, shards and ends.
pub fn as_row(job: &OpenedJob, overview: &JobOverview) -> String {
    let tried = overview.shards.len() - overview.missing().len();
    let shards = format!("{}/{}", units::count(tried as u64), units::count(overview.shards.len() as u64));
    format!("{:<12} {shards:>12}  {}  {}\n", state_word(overview), shown(job.directory.path()), what(job))
}

fn state_word(overview: &JobOverview) -> &'static str {
    match overview {
        JobOverview { held: Some(_), .. } => "held",
        _ if overview.is_cancelled => "cancelled",
        _ if overview.is_copied() && overview.is_finished() => "finished",
        _ if overview.planner.is_some() => "planning",
        _ if overview.shards.iter().any(|(_, state)| matches!(state, ShardState::Running(_))) => "running",
        _ if overview.finisher.is_some() => "finishing",
        _ => "unfinished",
    }
}

/// A line of `haul job status --json`.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(tag = "event", rename_all = "snake_case")]
#[allow(missing_docs, reason = "docs/JSON.md describes each field")]
pub enum JobStatusLine<'a> {
    Shard(ShardFields<'a>),
    Job {
        id: &'a str,
        directory: String,
        planned: bool,
        copied: bool,
        finished: bool,
        cancelled: bool,
        held: Option<&'a str>,
        shards: BTreeMap<&'static str, u64>,
        time: f64,
        status: u8,
    },
}

/// A shard and its state.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema), schemars(inline))]
pub struct ShardFields<'a> {
    shard: u32,
    state: &'static str,
    files: u64,
    bytes: u64,
    range: Option<RangeFields>,
    #[serde(flatten)]
    task: Option<TaskFields<'a>>,
    #[serde(flatten)]
    run: Option<ShardRunFields<'a>>,
}

/// Its range of a large file, counted from 1.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
struct RangeFields {
    number: u64,
    of: u64,
}

/// Its task of Slurm.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
struct TaskFields<'a> {
    slurm_state: &'a str,
    slurm_reason: &'a str,
    slurm_nodes: &'a str,
}

/// Its run, active or ended.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(untagged)]
enum ShardRunFields<'a> {
    Running { host: &'a str, pid: u32, seconds: f64 },
    Ended { host: &'a str, seconds: f64, failed: u64, attempts: u32, message: Option<JsonMessage> },
}

impl<'a> ShardFields<'a> {
    fn new(shard: &PlannedShard, state: &'a ShardState, tasks: &'a ShardTasks) -> Self {
        let task = tasks.of(shard.number).map(|task| TaskFields {
            slurm_state: &task.state,
            slurm_reason: &task.reason,
            slurm_nodes: &task.nodes,
        });
        let run = match state {
            ShardState::Planned => None,
            ShardState::Running(holder) => {
                Some(ShardRunFields::Running { host: &holder.host, pid: holder.pid, seconds: holder.age_s })
            }
            ShardState::Ended(result) => Some(ShardRunFields::Ended {
                host: &result.host,
                seconds: result.seconds,
                failed: result.counts.failed,
                attempts: result.attempts,
                message: Some(result.message.as_str()).filter(|message| !message.is_empty()).map(JsonMessage::from),
            }),
        };
        let range = shard.range.map(|range| RangeFields { number: range.number.saturating_add(1), of: range.ranges });
        Self { shard: shard.number, state: state_of(state), files: shard.files, bytes: shard.bytes, range, task, run }
    }
}

/// A line of JSON for each shard, and one for the job.
pub fn as_json(job: &OpenedJob, overview: &JobOverview, tasks: &ShardTasks, exit: Exit) -> String {
    let shards = overview.shards.iter();
    let shards = shards.map(|(shard, state)| JobStatusLine::Shard(ShardFields::new(shard, state, tasks)));
    let job = JobStatusLine::Job {
        id: &job.description.id,
        directory: shown(job.directory.path()),
        planned: overview.complete.is_some(),
        copied: overview.is_copied(),
        finished: overview.is_finished(),
        cancelled: overview.is_cancelled,
        held: overview.held.as_deref(),
        shards: STATES.iter().map(|state| (*state, totals(overview, state).0)).collect(),
        time: overview.seen.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64(),
        status: exit.number(),
    };
    shards.chain([job]).map(|line| encode(&line)).collect()
}

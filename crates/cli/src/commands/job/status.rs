//! `haul job status JOB` and `haul job report JOB`: where a job is, and what has come of it.

use std::ffi::OsString;
use std::fs;
use std::time::{Duration, UNIX_EPOCH};

use haul_job::error::{JobError, shown};
use haul_job::overview::{JobOverview, ShardState};
use haul_job::plan_index::PlannedShard;
use haul_job::report::MergedReport;
use haul_job::shard_result::ShardEnd;
use haul_proto::path::escape;
use serde_json::{Value, json};

use super::merged::as_text;
use super::opened::OpenedJob;
use super::slurm::view::ShardTasks;
use crate::args::flags;
use crate::args::values::Values;
use crate::commands::print;
use crate::exit::Exit;
use crate::show::json::JsonLine;
use crate::text::harmless;
use crate::units;

/// Shards of a state that are named.
const NAMED: usize = 20;
/// The states, in the order of the table.
const STATES: [&str; 5] = ["planned", "running", "done", "interrupted", "failed"];

/// Shows the states of shards.
pub fn run(values: &Values, operands: &[OsString]) -> anyhow::Result<Exit> {
    let job = OpenedJob::open(&operands[0])?;
    let overview = JobOverview::read(&job.directory)?;
    let exit = exit_of(&overview);
    let tasks = ShardTasks::read(&job)?;
    let shown = match values.is_set(&flags::JSON) {
        true => as_json(&job, &overview, &tasks, exit),
        false => as_table(&job, &overview, &tasks),
    };
    if !values.is_set(&flags::QUIET) {
        print(&shown);
    }
    Ok(exit)
}

/// 0 for a finished job, 1 where shards failed, 4 while there is something to do.
fn exit_of(overview: &JobOverview) -> Exit {
    match overview {
        _ if overview.failed() > 0 => Exit::Failed,
        _ if overview.is_copied() && overview.is_finished => Exit::Done,
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
    of_state.fold((0, 0, 0), |sum, (shard, _)| (sum.0 + 1, sum.1 + shard.files, sum.2 + shard.bytes))
}

fn as_table(job: &OpenedJob, overview: &JobOverview, tasks: &ShardTasks) -> String {
    let targets = &job.description.targets;
    let more = if targets.len() > 1 { format!(" and {} more", targets.len() - 1) } else { String::new() };
    let target = escape(targets[0].as_encoded_bytes());
    let mut text = format!("{} to {target}{more}\n", shown(&job.description.source));
    text.push_str(&format!("{}\n\n", plan_line(overview)));
    text.push_str(&format!("{:<12} {:>8} {:>14} {:>10}\n", "state", "shards", "files", "bytes"));
    for state in STATES {
        let (shards, files, bytes) = totals(overview, state);
        let (shards, files, bytes) = (units::count(shards), units::count(files), units::size(bytes));
        text.push_str(&format!("{state:<12} {shards:>8} {files:>14} {bytes:>10}\n"));
    }
    if let Some(line) = tasks.line() {
        text.push_str(&format!("\nSlurm: {line}\n"));
    }
    for state in ["running", "interrupted", "failed"] {
        let of_state: Vec<_> = overview.shards.iter().filter(|(_, found)| state_of(found) == state).collect();
        of_state.iter().take(NAMED).for_each(|shard| text.push_str(&shard_line(job, &shard.0, &shard.1, tasks)));
        if of_state.len() > NAMED {
            text.push_str(&format!("and {} more {state}\n", of_state.len() - NAMED));
        }
    }
    text.push_str(&format!("\n{}\n", next_line(job, overview)));
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
        ShardState::Planned => return String::new(),
        ShardState::Running(holder) => {
            format!("{} for {}", harmless(&holder.shown()), units::duration(Duration::from_secs_f64(holder.age_s)))
        }
        ShardState::Ended(result) => {
            let why = result.message.lines().next().unwrap_or_default();
            let why = match (why.is_empty(), result.end) {
                (false, _) => harmless(why),
                (true, ShardEnd::Failed) => {
                    let file = shown(&job.directory.failures(shard.number));
                    format!("{} failed: see {file}", units::files(result.failed))
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
    format!("shard {:<6} {:<12} {about}{}\n", shard.number, state_of(state), harmless(&task))
}

fn next_line(job: &OpenedJob, overview: &JobOverview) -> String {
    let path = shown(job.directory.path());
    match overview {
        _ if overview.is_cancelled => format!("cancelled; haul job run {path} continues it"),
        _ if overview.is_copied() && overview.is_finished => "finished".to_owned(),
        _ if overview.is_copied() => format!("all shards are done; next: haul job finish {path}"),
        _ => format!("unfinished; haul job run {path} copies the rest"),
    }
}

fn as_json(job: &OpenedJob, overview: &JobOverview, tasks: &ShardTasks, exit: Exit) -> String {
    let shard = |(shard, state): &(PlannedShard, ShardState)| {
        let line = JsonLine::new("shard")
            .with("shard", shard.number)
            .with("state", state_of(state))
            .with("files", shard.files)
            .with("bytes", shard.bytes);
        let line = match tasks.of(shard.number) {
            None => line,
            Some(task) => line
                .with("slurm_state", task.state.as_str())
                .with("slurm_reason", task.reason.as_str())
                .with("slurm_nodes", task.nodes.as_str()),
        };
        let line = match state {
            ShardState::Planned => line,
            ShardState::Running(holder) => {
                line.with("host", holder.host.as_str()).with("pid", holder.pid).with("seconds", holder.age_s)
            }
            ShardState::Ended(result) => line
                .with("host", result.host.as_str())
                .with("seconds", result.seconds)
                .with("failed", result.failed)
                .with("attempts", result.attempts)
                .with("message", Some(result.message.as_str()).filter(|message| !message.is_empty())),
        };
        line.ended()
    };
    let mut text: String = overview.shards.iter().map(shard).collect();
    let states: Value =
        STATES.iter().map(|state| ((*state).to_owned(), Value::from(totals(overview, state).0))).collect();
    let seen = overview.seen.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    let line = JsonLine::new("job")
        .with("id", job.description.id.as_str())
        .with("planned", overview.complete.is_some())
        .with("copied", overview.is_copied())
        .with("finished", overview.is_finished)
        .with("cancelled", overview.is_cancelled)
        .with("shards", states)
        .with("time", seen)
        .with("status", exit.number());
    text.push_str(&line.ended());
    text
}

/// Shows the results so far, or those of a finished job.
pub fn report(values: &Values, operands: &[OsString]) -> anyhow::Result<Exit> {
    let job = OpenedJob::open(&operands[0])?;
    let overview = JobOverview::read(&job.directory)?;
    let merged = MergedReport::of(&overview);
    match values.is_set(&flags::JSON) {
        true => {
            let path = job.directory.report();
            let finished = match fs::read_to_string(&path) {
                Ok(text) => {
                    serde_json::from_str(&text).map_err(|error| JobError::damaged(&path, &error.to_string()))?
                }
                Err(_) => json!(null),
            };
            let value = if finished.is_null() { merged.json() } else { finished };
            print(&format!("{value}\n"));
        }
        false => print(&as_text(&merged)),
    }
    Ok(exit_of(&overview))
}

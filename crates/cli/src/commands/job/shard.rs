//! `haul job shard JOB [N]`: copies one shard, and records the result.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::time::Instant;

use haul_base::copy::error::Outcome;
use haul_base::copy::runtime_control::RuntimeControl;
use haul_base::copy::spec::{CopyRange, SourceRange};
use haul_base::copy::summary::Summary;
use haul_base::sys::cancel::Cancel;
use haul_job::description::PartEnds;
use haul_job::error::{JobError, shown};
use haul_job::opened::OpenedJob;
use haul_job::options::JobPart;
use haul_job::plan_index::{PlanIndex, PlannedShard};
use haul_job::shard_lock::{LockHolder, LockedWork, ShardLock};
use haul_job::shard_progress::{LiveProgress, ShardProgress};
use haul_job::shard_result::{ShardCounts, ShardEnd, ShardResult, count_attempt};
use haul_job::this_host::{host_name, unix_seconds};
use haul_proto::path::escape;
use haul_show::exit::Exit;
use haul_show::text::harmless;
use haul_show::{self as show, json};

use super::part::{PartDisplay, PartPlan, PartSources, copy, on_some_ends};
use crate::args::values::Values;
use crate::args::{UsageError, flags};
use crate::signals::Watch;
use crate::user_dirs::state_dir;

/// Schedulers' environment variables for the number of a task.
const NUMBERS: [&str; 2] = ["SLURM_ARRAY_TASK_ID", "JOB_COMPLETION_INDEX"];

/// Copies the shard of `operands`.
pub fn run(values: &Values, operands: &[OsString]) -> anyhow::Result<Exit> {
    let job = OpenedJob::open_for("shard JOB N", &operands[0], values.get(&flags::job::CONFIRM)?, state_dir())?;
    let number = number(operands.get(1).map(OsString::as_os_str))?;
    let cancel = Cancel::new();
    let steering = RuntimeControl::new();
    let shard = PlanIndex::read(&job.directory)?.shard(number, &job.directory)?;
    // Faults of this host's configuration, and a missing confirmation, count as no attempt.
    shard_plan(&job, &shard, &job.description.ends()[0], PartDisplay::of(values))?;
    let time_limit = job.description.options.time_limit;
    let watch = Watch::start(cancel.clone(), steering.rate().clone(), time_limit)?;
    let run = ShardRun { job: &job, number, display: PartDisplay::of(values), cancel: &cancel, steering: &steering };
    let ended = watch.during(|| run.carry_out())?;
    Ok(ended.exit)
}

/// The typed number, or the scheduler's.
fn number(typed: Option<&OsStr>) -> Result<u32, UsageError> {
    let (origin, word) = match typed {
        Some(word) => (String::new(), word.to_owned()),
        None => {
            let set = NUMBERS.into_iter().find_map(|name| Some((format!("{name}="), std::env::var_os(name)?)));
            set.ok_or_else(|| {
                UsageError::new(format!("no shard given, and neither {} nor {} is set", NUMBERS[0], NUMBERS[1]))
                    .remedy("haul job shard JOB 17")
            })?
        }
    };
    let parsed = word.to_str().filter(|word| word.bytes().all(|byte| byte.is_ascii_digit()));
    parsed.and_then(|word| word.parse().ok()).ok_or_else(|| {
        UsageError::new(format!("{origin}{}: not the number of a shard", escape(word.as_bytes())))
            .remedy("shards are numbered from 0: haul job shard JOB 17")
    })
}

/// The copy of a shard, or its comparison.
fn shard_plan(
    job: &OpenedJob,
    shard: &PlannedShard,
    ends: &PartEnds,
    display: PartDisplay,
) -> anyhow::Result<PartPlan> {
    let list = job.directory.list(shard.number);
    let name = shown(list.path());
    let mut plan = list_plan(job, PartSources::Lists { name, lists: vec![list] }, ends, display)?;
    plan.copy.options.range = source_range(job, shard)?.map(CopyRange::One);
    Ok(plan)
}

/// The copy of lists of shards, or their comparison. Lists have no directories. So a directory created by this run has
/// no entries of another run.
pub fn list_plan(
    job: &OpenedJob,
    lists: PartSources,
    ends: &PartEnds,
    display: PartDisplay,
) -> anyhow::Result<PartPlan> {
    let options = match job.description.verifies {
        true => job.options()?.of_comparison(JobPart::List),
        false => job.options()?.of_copy(JobPart::List),
    };
    PartPlan::new(job, ends, lists, options, display)
}

/// The range of a shard that has one.
fn source_range(job: &OpenedJob, shard: &PlannedShard) -> Result<Option<SourceRange>, JobError> {
    let Some(planned) = shard.range else { return Ok(None) };
    let range = planned.len.range(planned.number).filter(|range| range.is_in(planned.version.size));
    let damaged = || JobError::damaged(job.directory.plan().path(), "this range is no part of its file");
    Ok(Some(SourceRange { range: range.ok_or_else(damaged)?, version: planned.version }))
}

/// A run of a shard.
pub struct ShardRun<'a> {
    /// The job.
    pub job: &'a OpenedJob,
    /// The shard.
    pub number: u32,
    /// The display.
    pub display: PartDisplay,
    /// Stops it.
    pub cancel: &'a Cancel,
    /// Changes its rate.
    pub steering: &'a RuntimeControl,
}

/// The end of a run.
pub struct ShardRunEnd {
    /// Its exit status.
    pub exit: Exit,
    /// The recorded result.
    pub result: ShardResult,
}

impl ShardRun<'_> {
    /// Waits for another run of this shard, copies, and records the result.
    pub fn carry_out(&self) -> anyhow::Result<ShardRunEnd> {
        let Self { job, number, .. } = *self;
        job.directory.refuse_cancelled()?;
        let shard = PlanIndex::read(&job.directory)?.shard(number, &job.directory)?;
        let cancel = self.cancel.of_part();
        let mut has_waited = false;
        let work = LockedWork::Shard(number);
        let lock = ShardLock::wait(&job.directory, work, &cancel, &mut |holder| {
            has_waited = true;
            show::stderr().notice(&format!("shard {number} is run by {}; waiting for it", holder.shown()));
        })?;
        if has_waited
            && let Some(result) = ShardResult::read(&job.directory, number)?
            && result.end == ShardEnd::Done
        {
            show::stderr().notice(&format!("shard {number} was done by {}", result.host));
            return Ok(ShardRunEnd { exit: Exit::of_vanished(result.counts.vanished), result });
        }
        let ended = self.copied(&shard, &cancel, lock.progress())?;
        if ended.exit == Exit::Failed
            && let Some(silent) = lock.silent_holder()
        {
            show::stderr().error(&may_still_run(job, number, silent));
        }
        Ok(ended)
    }

    fn copied(&self, shard: &PlannedShard, cancel: &Cancel, progress: &LiveProgress) -> anyhow::Result<ShardRunEnd> {
        let Self { job, number, display, .. } = *self;
        let attempts = count_attempt(&job.directory, number)?;
        let (began, clock) = (unix_seconds(), Instant::now());
        let (ends, outcome) = on_some_ends(job, number, &mut |ends| {
            let plan = shard_plan(job, shard, ends, display)?;
            copy(plan, job.directory.failures(number), cancel, self.steering, progress)
        })?;
        let exit = Exit::of(&outcome);
        let result = ShardResult {
            shard: number,
            end: match exit {
                // A comparison with differences is complete.
                Exit::Failed if job.description.verifies && outcome.is_ok() => ShardEnd::Done,
                Exit::Done | Exit::Vanished => ShardEnd::Done,
                Exit::Interrupted => ShardEnd::Interrupted,
                Exit::Failed | Exit::Usage | Exit::Unreachable => ShardEnd::Failed,
            },
            host: host_name(),
            target: escape(ends.target.as_bytes()),
            began,
            seconds: clock.elapsed().as_secs_f64(),
            attempts,
            progress: progress.get(),
            ..of_outcome(&outcome)
        };
        let result = if shard.files == 0 { without_files(result) } else { result };
        result.write(&job.directory)?;
        Ok(ShardRunEnd { exit, result })
    }
}

/// Reason for locked files in a shard of a silent run.
fn may_still_run(job: &OpenedJob, number: u32, silent: &LockHolder) -> String {
    let (path, silent) = (shown(job.directory.path()), harmless(&silent.shown()));
    format!(
        "shard {number} was taken over from {silent}, which gave no sign of life and may still write\n\
         hint: end that process, then run haul job shard {path} {number}"
    )
}

/// The result of a range, without the file that another shard counts.
fn without_files(result: ShardResult) -> ShardResult {
    let counts = ShardCounts { files_copied: 0, files_skipped: 0, ..result.counts };
    ShardResult { counts, ..result }
}

/// The figures of a result.
fn of_outcome(outcome: &Outcome) -> ShardResult {
    let summary = outcome.as_ref().ok();
    let figure = |of: fn(&Summary) -> u64| summary.map_or(0, of);
    let compared = summary.and_then(|summary| summary.integrity.comparison).unwrap_or_default();
    ShardResult {
        shard: 0,
        end: ShardEnd::Failed,
        host: String::new(),
        target: String::new(),
        began: 0.0,
        seconds: 0.0,
        attempts: 0,
        counts: ShardCounts {
            files_copied: figure(|summary| summary.files.copied) + compared.files,
            files_skipped: figure(|summary| summary.files.skipped),
            failed: figure(|summary| summary.files.failed) + compared.differences,
            vanished: figure(|summary| summary.files.vanished),
            bytes: figure(|summary| summary.files.bytes) + compared.bytes,
            bytes_skipped: figure(|summary| summary.files.bytes_skipped),
        },
        progress: ShardProgress::default(),
        message: outcome.as_ref().err().map_or_else(String::new, ToString::to_string),
        summary: json::last(outcome),
    }
}

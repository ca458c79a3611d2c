//! A run of a shard: copies it, and records the result.

use std::os::unix::ffi::OsStrExt;
use std::thread;
use std::time::Instant;

use haul_base::copy::error::Outcome;
use haul_base::copy::runtime_control::RuntimeControl;
use haul_base::copy::spec::{CopyRange, SourceRange};
use haul_base::copy::summary::Summary;
use haul_base::sys::cancel::Cancel;
use haul_proto::path::escape;
use haul_show::exit::Exit;
use haul_show::text::harmless;
use haul_show::{self as show, json};

use crate::description::PartEnds;
use crate::error::{JobError, shown};
use crate::node::StepContext;
use crate::opened::OpenedJob;
use crate::part::{PartPlan, PartSources, copy, list_plan, on_some_ends};
use crate::plan_index::{PlanIndex, PlannedShard};
use crate::rate_share::{keep_share, share};
use crate::shard_lock::{LockAttempt, LockHolder, LockedWork, ShardLock};
use crate::shard_progress::{LiveProgress, ShardProgress};
use crate::shard_result::{ShardCounts, ShardEnd, ShardResult, count_attempt};
use crate::this_host::{host_name, unix_seconds};

/// The copy of a shard, or its comparison.
pub fn shard_plan(step: &StepContext<'_>, shard: &PlannedShard, ends: &PartEnds) -> Result<PartPlan, JobError> {
    let list = step.job.directory.list(shard.number);
    let name = shown(list.path());
    let mut plan = list_plan(step, PartSources::Lists { name, lists: vec![list] }, ends)?;
    plan.copy.options.range = source_range(step.job, shard)?.map(CopyRange::One);
    Ok(plan)
}

/// The range of a shard that has one.
fn source_range(job: &OpenedJob, shard: &PlannedShard) -> Result<Option<SourceRange>, JobError> {
    let Some(planned) = shard.range else { return Ok(None) };
    let range = planned.len.range(planned.number).filter(|range| range.is_in(planned.version.size));
    let damaged = || JobError::damaged(job.directory.plan().path(), "this range is no part of its file");
    Ok(Some(SourceRange { range: range.ok_or_else(damaged)?, version: planned.version }))
}

/// The end of a run.
pub struct ShardRunEnd {
    /// Its exit status.
    pub exit: Exit,
    /// The recorded result.
    pub result: ShardResult,
}

/// Waits for another run of the shard `number`, copies, and records the result.
pub fn run_shard(step: &StepContext<'_>, number: u32) -> Result<ShardRunEnd, JobError> {
    let cancel = step.cancel.of_part();
    let step = StepContext { cancel: &cancel, ..*step };
    let directory = &step.job.directory;
    directory.refuse_stopped()?;
    let mut has_waited = false;
    let lock = ShardLock::wait(directory, LockedWork::Shard(number), &cancel, &mut |holder| {
        has_waited = true;
        show::stderr().notice(&format!("shard {number} is run by {}; waiting for it", holder.shown()));
    })?;
    if has_waited
        && let Some(result) = ShardResult::read(directory, number)?
        && result.end == ShardEnd::Done
    {
        show::stderr().notice(&format!("shard {number} was done by {}", result.host));
        return Ok(ShardRunEnd { exit: Exit::of_vanished(result.counts.vanished), result });
    }
    run_locked(&step, number, &lock)
}

/// As [`run_shard`], unless another process runs the shard, or has just ended it.
pub fn try_shard(step: &StepContext<'_>, number: u32) -> Result<Option<ShardRunEnd>, JobError> {
    let cancel = step.cancel.of_part();
    let step = StepContext { cancel: &cancel, ..*step };
    let directory = &step.job.directory;
    directory.refuse_stopped()?;
    let before = ShardResult::read(directory, number)?;
    match ShardLock::try_take(directory, LockedWork::Shard(number), &cancel)? {
        LockAttempt::Held(lock) if ShardResult::read(directory, number)? == before => {
            run_locked(&step, number, &lock).map(Some)
        }
        LockAttempt::Held(_) | LockAttempt::Busy(_) => Ok(None),
    }
}

fn run_locked(step: &StepContext<'_>, number: u32, lock: &ShardLock) -> Result<ShardRunEnd, JobError> {
    let shard = PlanIndex::read(&step.job.directory)?.shard(number, &step.job.directory)?;
    let ended = copied(step, &shard, lock.progress())?;
    if ended.exit == Exit::Failed
        && let Some(silent) = lock.silent_holder()
    {
        show::stderr().error(&may_still_run(step.job, number, silent));
    }
    Ok(ended)
}

fn copied(step: &StepContext<'_>, shard: &PlannedShard, progress: &LiveProgress) -> Result<ShardRunEnd, JobError> {
    let (job, number) = (step.job, shard.number);
    let attempts = count_attempt(&job.directory, number)?;
    if let Some(earlier) = ShardResult::read(&job.directory, number)? {
        progress.raise(ShardProgress { moved: earlier.progress.moved, ..ShardProgress::default() });
    }
    let (began, clock) = (unix_seconds(), Instant::now());
    let (ends, outcome) = match job.description.options.copy.streams.rate_bytes_per_s {
        None => copy_by_turns(step, shard, progress)?,
        Some(limit) => {
            let (steering, ended) = (RuntimeControl::new(), Cancel::new());
            let step = StepContext { steering: &steering, ..*step };
            thread::scope(|scope| {
                scope.spawn(|| keep_share(&job.directory, limit, steering.rate(), &ended));
                let copied = copy_by_turns(&step, shard, progress);
                ended.cancel();
                copied
            })?
        }
    };
    let exit = Exit::of(&outcome);
    let result = ShardResult {
        shard: number,
        end: match exit {
            // A comparison with differences is complete.
            Exit::Failed if outcome.is_ok() && job.description.verifies => ShardEnd::Done,
            Exit::Failed if outcome.is_ok() => ShardEnd::Incomplete,
            Exit::Done | Exit::Vanished => ShardEnd::Done,
            Exit::Interrupted => ShardEnd::Interrupted,
            Exit::Failed | Exit::Usage | Exit::Unreachable | Exit::Conflicts => ShardEnd::Failed,
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

fn copy_by_turns(
    step: &StepContext<'_>,
    shard: &PlannedShard,
    progress: &LiveProgress,
) -> Result<(PartEnds, Outcome), JobError> {
    let directory = &step.job.directory;
    on_some_ends(step.job, shard.number, &mut |ends| {
        let mut plan = shard_plan(step, shard, ends)?;
        let limit = &mut plan.copy.options.streams.rate_bytes_per_s;
        *limit = limit.map(|limit| share(directory, limit));
        copy(plan, directory.failures(shard.number), step, progress)
    })
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

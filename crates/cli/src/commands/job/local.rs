//! `haul job run`: plans, copies shards on this host during the plan, and finishes.

use std::ffi::{OsStr, OsString};

use haul_job::creation::create;
use haul_job::description::JobDescription;
use haul_job::error::{JobError, shown};
use haul_job::exclusive::{begin_comparison, continued};
use haul_job::finish::{JobFinish, is_to_be_compared, worse};
use haul_job::local_run::LocalRun;
use haul_job::node::PartDisplay;
use haul_job::opened::OpenedJob;
use haul_show as show;
use haul_show::exit::Exit;

use super::describe::describe;
use super::step::{display_of_run, opened, watched};
use crate::args::job::copy_options;
use crate::args::row::OptionRow;
use crate::args::values::Values;
use crate::args::{UsageError, flags};
use crate::user_dirs::state_dir;

/// Runs the job that `operands` describe, or resumes the one that they name.
pub fn run(values: &Values, operands: &[OsString]) -> anyhow::Result<Exit> {
    run_job(values, &job_of(values, operands)?)
}

/// Runs `job`, and then the comparison of `--then-verify`.
pub fn run_job(values: &Values, job: &OpenedJob) -> anyhow::Result<Exit> {
    let exit = copy_and_finish(values, job)?;
    match values.is_set(&flags::job::THEN_VERIFY) && is_to_be_compared(job, exit) {
        true => Ok(worse(exit, copy_and_finish(values, &begin_comparison(job)?)?)),
        false => Ok(exit),
    }
}

fn copy_and_finish(values: &Values, job: &OpenedJob) -> anyhow::Result<Exit> {
    let workers = values.get(&flags::job::LOCAL)?.unwrap_or(1);
    let path = shown(job.directory.path());
    let display = display_of_run(values, job);
    if display != PartDisplay::Quiet {
        show::stderr().plain(&format!("job {path}"));
    }
    watched(job, display, None, |step| {
        let copied = LocalRun::new(*step, true).carry_out(workers)?;
        if step.cancel.is_cancelled() {
            show::stderr().error(&format!("{path}: interrupted\nhint: haul job run {path} continues it"));
            return Ok(Exit::Interrupted);
        }
        if let Some(reason) = job.directory.held_because() {
            return Err(JobError::held(job.directory.path(), &reason));
        }
        if copied != Exit::Done {
            show::stderr().error(&format!("{path}: not all shards are done\nhint: haul job status {path} names them"));
            return Ok(copied);
        }
        JobFinish { step: *step, verifies: false }.carry_out()
    })
}

/// The job that `operands` describe, or the one that they name.
pub fn job_of(values: &Values, operands: &[OsString]) -> anyhow::Result<OpenedJob> {
    let is_existing = operands.len() == 1 && !values.is_set(&flags::job::TARGETS);
    if is_existing { reopened(values, &operands[0]) } else { new(values, operands) }
}

fn new(values: &Values, operands: &[OsString]) -> anyhow::Result<OpenedJob> {
    let own = OsString::from(format!("haul-job-{}", JobDescription::new_id()?));
    let dir = values.last(&flags::job::DIR).unwrap_or(&own);
    Ok(continued(create(describe(values, operands)?, dir, state_dir())?)?)
}

/// An existing job, which keeps its own options.
fn reopened(values: &Values, path: &OsStr) -> anyhow::Result<OpenedJob> {
    let step = if values.is_set(&flags::job::SLURM) { "run --slurm JOB" } else { "run JOB" };
    let job = opened(step, path, values)?;
    refuse_other_options(values)?;
    Ok(continued(job)?)
}

/// Refuses options of a plan and of a copy for a job that exists.
pub fn refuse_other_options(values: &Values) -> Result<(), UsageError> {
    let own: [&OptionRow; 6] = [
        &flags::NOTIFY,
        &flags::job::DIR,
        &flags::job::SYNC,
        &flags::job::SHARD_BYTES,
        &flags::job::SHARD_FILES,
        &flags::job::SHARD_RANGE,
    ];
    let own = own.into_iter().find(|row| values.is_typed(row)).map(|row| row.typed());
    let copies = copy_options(values)?.into_iter().find(|word| word != "--quiet" && word != "--json");
    match own.or(copies.map(|word| word.to_string_lossy().into_owned())) {
        None => Ok(()),
        Some(word) => Err(UsageError::new(format!("{word}: a job keeps the options that it was planned with"))
            .remedy("haul job run JOB takes --local, --slurm with its options, --then-verify, --json and --quiet")),
    }
}

//! `haul job run --slurm`: submits shards to Slurm during the plan, follows them, and has Slurm finish the job.

use std::ffi::OsString;
use std::path::Path;

use haul_job::directory::JobDirectory;
use haul_job::error::{JobError, shown};
use haul_job::exclusive::begin_comparison;
use haul_job::finish::{is_to_be_compared, worse};
use haul_job::node::{PartDisplay, StepContext};
use haul_job::opened::{OpenedJob, absolute};
use haul_job::shard_lock::{LockedWork, ShardLock};
use haul_job::slurm::client::{SlurmCallError, SlurmClient};
use haul_job::slurm::follow::{SlurmRun, SlurmRunEnd, report_end};
use haul_job::slurm::settings::{SlurmSettings, kept};
use haul_job::slurm::submissions::SlurmSubmission;
use haul_job::slurm::submit::submit_run;
use haul_job::slurm::view::cancel_tasks;
use haul_show as show;
use haul_show::exit::Exit;

use super::local::job_of;
use super::step::{display_of_run, watched};
use crate::args::row::OptionRow;
use crate::args::values::Values;
use crate::args::{UsageError, flags};

/// Options that need `--slurm`.
const OPTIONS: [&OptionRow; 9] = [
    &flags::job::DETACH.row,
    &flags::job::NODES.row,
    &flags::job::LIMIT.row,
    &flags::job::PARTITION.row,
    &flags::job::ACCOUNT.row,
    &flags::job::TIME.row,
    &flags::job::CPUS_PER_TASK.row,
    &flags::job::SBATCH.row,
    &flags::job::NO_WAIT.row,
];

/// Whether `haul job run` submits to Slurm: by its options, or since an earlier run of the named job did.
pub fn is_meant(values: &Values, operands: &[OsString]) -> bool {
    let [job] = operands else { return values.is_set(&flags::job::SLURM) };
    let ran_here = || {
        let job = JobDirectory::open_to_read(&absolute(Path::new(job)));
        job.is_ok_and(|job| SlurmSubmission::file(&job).exists() || job.slurm().join("run.sh").exists())
    };
    values.is_set(&flags::job::SLURM) || !values.is_set(&flags::job::LOCAL) && ran_here()
}

/// Refuses Slurm's options without `--slurm`.
pub fn refuse_options(values: &Values) -> Result<(), UsageError> {
    match values.first_of(&OPTIONS) {
        None => Ok(()),
        Some(row) => Err(UsageError::new(format!("{} is an option of --slurm", row.typed())).remedy("add --slurm")),
    }
}

/// Submits and follows the job that `operands` describe or name.
pub fn run(values: &Values, operands: &[OsString]) -> anyhow::Result<Exit> {
    if values.is_set(&flags::job::LOCAL) {
        return Err(UsageError::new("--local and --slurm exclude each other")
            .remedy("--local copies on this host, --slurm on the nodes of Slurm")
            .into());
    }
    let typed = settings(values)?;
    let job = job_of(values, operands)?;
    run_job(values, &job, typed)
}

/// Submits and follows `job`, and then the comparison of `--then-verify`.
pub fn run_job(values: &Values, job: &OpenedJob, typed: Option<SlurmSettings>) -> anyhow::Result<Exit> {
    let follows = !values.is_set(&flags::job::NO_WAIT);
    let mut job = job.clone();
    let settings = kept(&mut job, typed)?;
    let verifies_in_shards = settings.verifies && follows;
    // If nobody follows, the last step compares everything.
    let own = SlurmSettings { verifies: settings.verifies && !follows, ..settings.clone() };
    if values.is_set(&flags::job::DETACH) {
        return detach(values, &job, &settings);
    }
    let exit = submit_and_follow(values, &job, &own)?;
    match verifies_in_shards && is_to_be_compared(&job, exit) {
        true => {
            let mut comparison = begin_comparison(&job)?;
            let settings = kept(&mut comparison, Some(own))?;
            Ok(worse(exit, submit_and_follow(values, &comparison, &settings)?))
        }
        false => Ok(exit),
    }
}

/// Submits a job of Slurm that plans and follows `job`.
fn detach(values: &Values, job: &OpenedJob, settings: &SlurmSettings) -> anyhow::Result<Exit> {
    let display = display_of_run(values, job);
    let id = watched(job, display, None, |step| {
        submit_run(job, settings, &SlurmClient { cancel: step.cancel }).map_err(|error| match error {
            SlurmCallError::Refused(error) => error,
            SlurmCallError::Later(why) => JobError::failed(why, "try again when Slurm answers"),
        })
    })?;
    if display != PartDisplay::Quiet {
        let path = shown(job.directory.path());
        show::stderr().plain(&format!("job {path}: run by job {id} of Slurm; haul job status {path} shows it"));
    }
    Ok(Exit::Done)
}

fn submit_and_follow(values: &Values, job: &OpenedJob, settings: &SlurmSettings) -> anyhow::Result<Exit> {
    let directory = &job.directory;
    let display = display_of_run(values, job);
    if display != PartDisplay::Quiet {
        show::stderr().plain(&format!("job {}", shown(directory.path())));
    }
    let follows = !values.is_set(&flags::job::NO_WAIT);
    let ended = watched(job, display, None, |step| {
        let part = step.cancel.of_part();
        let _lock = ShardLock::wait(directory, LockedWork::Submit, &part, &mut |holder| {
            show::stderr().notice(&format!("the job is submitted and followed by {}; waiting", holder.shown()));
        })?;
        let client = SlurmClient { cancel: &part };
        let step = StepContext { cancel: &part, ..*step };
        SlurmRun { step, settings, client: &client, follows }.carry_out()
    })?;
    if matches!(ended, SlurmRunEnd::Finished(_)) {
        // sbatch may outlive its caller, and submit shards that are done by now.
        cancel_tasks(job);
    }
    Ok(report_end(job, ended, display)?)
}

/// The typed settings; `None` without any.
pub fn settings(values: &Values) -> anyhow::Result<Option<SlurmSettings>> {
    let is_set = |row: &OptionRow| values.is_set(row) && !row.is(&flags::job::NO_WAIT) && !row.is(&flags::job::DETACH);
    if !OPTIONS.into_iter().any(is_set) && !values.is_set(&flags::job::THEN_VERIFY) {
        return Ok(None);
    }
    let (nodes, limit) = (values.get(&flags::job::NODES)?, values.get(&flags::job::LIMIT)?);
    let settings = SlurmSettings {
        at_once: [nodes, limit].into_iter().flatten().min(),
        is_exclusive: nodes.is_some(),
        partition: values.get(&flags::job::PARTITION)?,
        account: values.get(&flags::job::ACCOUNT)?,
        time: values.get(&flags::job::TIME)?,
        cpus: values.get(&flags::job::CPUS_PER_TASK)?,
        more: values.all(&flags::job::SBATCH)?,
        verifies: values.is_set(&flags::job::THEN_VERIFY),
    };
    settings.check()?;
    Ok(Some(settings))
}

//! `haul job run --slurm`: submits shards to Slurm while the plan is written, follows them, and has Slurm finish the job.

mod client;
mod follow;
mod submit;
pub mod view;

use std::ffi::OsString;
use std::fs;

use anyhow::Context;
use haul_engine::job::runtime_control::RuntimeControl;
use haul_engine::sys::cancel::Cancel;
use haul_job::directory::JobDirectory;
use haul_job::error::{JobError, shown};
use haul_job::overview::JobOverview;
use haul_job::report::MergedReport;
use haul_job::shard_lock::{LockedWork, ShardLock};
use haul_job::slurm::settings::SlurmSettings;

use super::local::job_of;
use super::merged::print_report;
use super::part::PartDisplay;
use crate::args::UsageError;
use crate::args::values::{Values, bad};
use crate::exit::Exit;
use crate::show;
use crate::signals::Watch;
use client::SlurmClient;
use follow::{SlurmRun, SlurmRunEnd};

/// Options that need `--slurm`.
const OPTIONS: [&str; 8] = ["nodes", "limit", "partition", "account", "time", "cpus-per-task", "sbatch", "no-wait"];
/// Most shards at a time, nodes and CPUs that can be asked for.
const MOST: u32 = 1_000_000;

/// Refuses Slurm's options without `--slurm`.
pub fn refuse_options(values: &Values) -> Result<(), UsageError> {
    match OPTIONS.into_iter().find(|id| values.flag(id)) {
        None => Ok(()),
        Some(id) => Err(UsageError::new(format!("--{id} is an option of --slurm")).remedy("add --slurm")),
    }
}

/// Submits and follows the job that `operands` describe or name.
pub fn run(values: &Values, operands: &[OsString]) -> anyhow::Result<Exit> {
    if values.flag("local") {
        return Err(UsageError::new("--local and --slurm exclude each other")
            .remedy("--local copies on this host, --slurm on the nodes of Slurm")
            .into());
    }
    let typed = settings(values)?;
    let job = job_of(values, operands)?;
    let (path, directory) = (shown(job.directory.path()), &job.directory);
    let is_quiet = values.flag("quiet");
    if !is_quiet {
        show::stderr().plain(&format!("job {path}"));
    }
    fs::create_dir_all(directory.slurm()).map_err(|error| JobError::io(&directory.slurm(), &error))?;
    let settings = kept(directory, typed)?;
    let cancel = Cancel::new();
    let watch = Watch::start(cancel.clone(), RuntimeControl::new().rate().clone(), None);
    let watch = watch.context("signals cannot be caught")?;
    let part = cancel.of_part();
    let client = SlurmClient { cancel: &part };
    let follows = !values.flag("no-wait");
    let ended = watch.during(|| -> anyhow::Result<SlurmRunEnd> {
        let _lock = ShardLock::wait(directory, LockedWork::Submit, &part, &mut |holder| {
            show::stderr().notice(&format!("the job is submitted and followed by {}; waiting", holder.shown()));
        })?;
        SlurmRun { job: &job, settings: &settings, client: &client, cancel: &part, is_quiet, follows }.carry_out()
    })?;
    Ok(match ended {
        SlurmRunEnd::Submitted => {
            if !is_quiet {
                show::stderr().plain(&format!("{path}: submitted; haul job status {path} shows the job"));
            }
            Exit::Done
        }
        SlurmRunEnd::Finished(exit) => {
            let display = if is_quiet { PartDisplay::Quiet } else { PartDisplay::Usual };
            print_report(&MergedReport::of(&JobOverview::read(directory)?), display);
            exit
        }
        SlurmRunEnd::Unfinished(exit) => {
            let hint = format!("haul job status {path} names them, and {path}/slurm has the output of their tasks");
            show::stderr().error(&format!("{path}: not all shards are done\nhint: {hint}"));
            exit
        }
        SlurmRunEnd::NotFinished(exit) => {
            let hint = format!("its output is in {path}/slurm; haul job finish {path} repeats it here");
            show::stderr().error(&format!("{path}: the last step failed\nhint: {hint}"));
            exit
        }
        SlurmRunEnd::Interrupted if directory.cancelled().exists() => {
            return Err(JobError::cancelled(directory.path()).into());
        }
        SlurmRunEnd::Interrupted => {
            let hints = format!(
                "hint: haul job run --slurm {path} submits what is left and follows it\nhint: haul job cancel {path} stops it"
            );
            show::stderr().error(&format!("{path}: submitted shards keep running in Slurm\n{hints}"));
            Exit::Interrupted
        }
    })
}

/// The typed settings, or those of the last run where none was typed.
fn kept(directory: &JobDirectory, typed: Option<SlurmSettings>) -> anyhow::Result<SlurmSettings> {
    let settings = match typed {
        Some(settings) => settings,
        None => SlurmSettings::read(directory)?.unwrap_or_default(),
    };
    settings.write(directory)?;
    Ok(settings)
}

fn settings(values: &Values) -> anyhow::Result<Option<SlurmSettings>> {
    let of_settings = OPTIONS.iter().filter(|id| **id != "no-wait").chain(&["then-verify"]);
    if !of_settings.clone().any(|id| values.flag(id)) {
        return Ok(None);
    }
    let number = |id: &str| values.number(id, 1..=MOST);
    let word = |id: &str| -> Result<Option<String>, UsageError> {
        let text = values.text(id)?;
        match text.as_deref().filter(|text| text.is_empty() || text.contains(char::is_whitespace)) {
            Some(text) => Err(bad(id, text.as_ref(), "must be one word")),
            None => Ok(text),
        }
    };
    let (nodes, limit) = (number("nodes")?, number("limit")?);
    let settings = SlurmSettings {
        at_once: [nodes, limit].into_iter().flatten().min(),
        is_exclusive: nodes.is_some(),
        partition: word("partition")?,
        account: word("account")?,
        time: word("time")?,
        cpus: number("cpus-per-task")?,
        more: values.texts("sbatch")?,
        verifies: values.flag("then-verify"),
    };
    settings.check()?;
    Ok(Some(settings))
}

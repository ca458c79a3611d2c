//! `haul job plan`: creates a job's directory, walks the source, and writes shards.

use std::ffi::OsString;

use haul_job::begun_plan::plan;
use haul_job::creation::create;
use haul_job::error::shown;
use haul_job::opened::OpenedJob;
use haul_job::plan_index::PlanTotals;
use haul_show::exit::Exit;
use haul_show::{self as show, units};

use super::describe::describe;
use super::step::{display_of, watched};
use crate::args::values::Values;
use crate::args::{UsageError, flags};
use crate::user_dirs::state_dir;

/// Plans a job, or restarts an interrupted plan.
pub fn run(values: &Values, operands: &[OsString]) -> anyhow::Result<Exit> {
    let dir = values.last(&flags::job::DIR).ok_or_else(|| {
        UsageError::new("haul job plan needs a directory for the job")
            .remedy("--dir JOB names a new directory that all hosts see")
    })?;
    let job = create(describe(values, operands)?, dir, state_dir())?;
    let totals = watched(&job, display_of(values), None, plan)?;
    if !values.is_set(&flags::QUIET) {
        show::stderr().plain(&planned(&job, &totals));
        let confirming = job.confirming_words()?.join(" ");
        if !confirming.is_empty() {
            let path = shown(job.directory.path());
            show::stderr()
                .plain(&format!("on hosts without your home directory: haul job shard {confirming} {path} N"));
        }
    }
    Ok(if totals.failed > 0 { Exit::Failed } else { Exit::Done })
}

/// `JOB: 18 shards, 70,211 files, 3.0 GB`
pub fn planned(job: &OpenedJob, totals: &PlanTotals) -> String {
    let shards = units::counted(totals.shards.into(), "shard", "shards");
    let failed = match totals.failed {
        0 => String::new(),
        failed => format!("; {} could not be read: see failures/plan.jsonl", units::count(failed)),
    };
    let (files, bytes) = (units::files(totals.files), units::size(totals.bytes));
    format!("{}: {shards}, {files}, {bytes}{failed}", shown(job.directory.path()))
}

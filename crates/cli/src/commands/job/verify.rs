//! `haul job verify JOB`: compares source and target of a finished job, as a separate job with the same shards.

use std::ffi::OsString;

use haul_job::begun_plan::plan;
use haul_job::exclusive::begin_comparison;
use haul_show as show;
use haul_show::exit::Exit;

use super::plan::planned;
use super::step::{display_of, opened, watched};
use super::{local, slurm};
use crate::args::values::Values;
use crate::args::{UsageError, flags};

/// Compares the job of `operands` on this host, on Slurm, or by another scheduler.
pub fn run(values: &Values, operands: &[OsString]) -> anyhow::Result<Exit> {
    local::refuse_other_options(values)?;
    let is_on_slurm = values.is_set(&flags::job::SLURM);
    let typed = if is_on_slurm { slurm::settings(values)? } else { slurm::refuse_options(values).map(|()| None)? };
    let comparison = begin_comparison(&opened("verify JOB", &operands[0], values)?)?;
    match (values.is_set(&flags::job::ONLY_PLAN), is_on_slurm) {
        (true, _) => {
            let totals = watched(&comparison, display_of(values), None, plan)?;
            if !values.is_set(&flags::QUIET) {
                show::stderr().plain(&planned(&comparison, &totals));
            }
            Ok(Exit::Done)
        }
        (false, true) => slurm::run_job(values, &comparison, typed),
        (false, false) => local::run_job(values, &comparison),
    }
}

/// Refuses an option of the comparison in other steps.
pub fn refuse_option(values: &Values) -> Result<(), UsageError> {
    match values.is_set(&flags::job::ONLY_PLAN) {
        false => Ok(()),
        true => Err(UsageError::new("--only-plan is an option of haul job verify")
            .remedy("haul job plan makes the plan of a job alone")),
    }
}

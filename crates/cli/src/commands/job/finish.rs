//! `haul job finish JOB`: work that no shard can do alone, and one report.

use std::ffi::OsString;

use haul_job::finish::{JobFinish, wait_for_shards};
use haul_show::exit::Exit;

use super::step::{display_of, opened, watched};
use crate::args::flags;
use crate::args::values::Values;

/// Finishes the job of `operands`.
pub fn run(values: &Values, operands: &[OsString]) -> anyhow::Result<Exit> {
    let job = opened("finish JOB", &operands[0], values)?;
    let verifies = values.is_set(&flags::step::VERIFY);
    watched(&job, display_of(values), None, |step| {
        if values.is_set(&flags::step::WAIT) {
            wait_for_shards(&job, step.cancel)?;
        }
        JobFinish { step: *step, verifies }.carry_out()
    })
}

//! `haul job shard JOB [N]`: copies one shard, and records the result.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use haul_job::plan_index::PlanIndex;
use haul_job::shard_run::{run_shard, shard_plan};
use haul_proto::path::escape;
use haul_show::exit::Exit;

use super::step::{display_of, opened, watched};
use crate::args::UsageError;
use crate::args::values::Values;

/// Schedulers' environment variables for the number of a task.
const NUMBERS: [&str; 2] = ["SLURM_ARRAY_TASK_ID", "JOB_COMPLETION_INDEX"];

/// Copies the shard of `operands`.
pub fn run(values: &Values, operands: &[OsString]) -> anyhow::Result<Exit> {
    let job = opened("shard JOB N", &operands[0], values)?;
    let number = number(operands.get(1).map(OsString::as_os_str))?;
    let shard = PlanIndex::read(&job.directory)?.shard(number, &job.directory)?;
    let ended = watched(&job, display_of(values), job.description.options.time_limit, |step| {
        // Faults of this host's configuration, and a missing confirmation, count as no attempt.
        shard_plan(step, &shard, &job.description.ends()[0])?;
        run_shard(step, number)
    })?;
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

//! `haul job STEP`: one job on many hosts. `haul_job` runs it; this module describes it, and shows its state.

mod cancel;
mod describe;
mod finish;
mod list;
mod local;
mod manifest;
mod plan;
mod shard;
mod slurm;
mod status;
mod step;
mod verify;
mod work;

pub use list::run as list;

use haul_job::error::{JobError, JobErrorKind};
use haul_show as show;
use haul_show::exit::Exit;

use crate::args::job::{JobStep, JobWords};

/// Carries out a step.
pub fn run(words: &JobWords) -> anyhow::Result<Exit> {
    if words.step != JobStep::Verify {
        verify::refuse_option(&words.values)?;
    }
    let done = match words.step {
        JobStep::Plan => plan::run(&words.values, &words.operands),
        JobStep::Run if slurm::is_meant(&words.values, &words.operands) => slurm::run(&words.values, &words.operands),
        JobStep::Run => slurm::refuse_options(&words.values)
            .map_err(anyhow::Error::from)
            .and_then(|()| local::run(&words.values, &words.operands)),
        JobStep::Shard => shard::run(&words.values, &words.operands),
        JobStep::Work => work::run(&words.values, &words.operands),
        JobStep::List => list::run(&words.values),
        JobStep::Finish => finish::run(&words.values, &words.operands),
        JobStep::Verify => verify::run(&words.values, &words.operands),
        JobStep::Status => status::run(&words.values, &words.operands),
        JobStep::Report => status::report(&words.values, &words.operands),
        JobStep::Manifest => manifest::run(&words.values, &words.operands),
        JobStep::Cancel => cancel::run(&words.operands),
    };
    done.or_else(|error| {
        let Some(kind) = error.downcast_ref::<JobError>().map(|error| error.kind) else { return Err(error) };
        show::stderr().error(&error.to_string());
        Ok(match kind {
            JobErrorKind::Usage => Exit::Usage,
            JobErrorKind::Io => Exit::Failed,
            JobErrorKind::Cancelled => Exit::Interrupted,
        })
    })
}

//! Copies of a job's whole source: to finish it, and to compare.

use haul_job::description::PartEnds;
use haul_job::opened::OpenedJob;
use haul_job::options::JobPart;

use super::part::{PartDisplay, PartPlan, PartSources};

/// The copy of the whole source, or of its directories.
pub fn full_copy_plan(
    job: &OpenedJob,
    ends: &PartEnds,
    display: PartDisplay,
    part: JobPart,
) -> anyhow::Result<PartPlan> {
    let options = job.options()?;
    // A base is refused beside --delete.
    let source = if options.deletes() { PartSources::AsTyped } else { PartSources::BelowBase };
    PartPlan::new(job, ends, source, options.of_copy(part), display)
}

/// The comparison of source and target, or of their directories.
pub fn verify_plan(job: &OpenedJob, ends: &PartEnds, display: PartDisplay, part: JobPart) -> anyhow::Result<PartPlan> {
    PartPlan::new(job, ends, PartSources::BelowBase, job.options()?.of_comparison(part), display)
}

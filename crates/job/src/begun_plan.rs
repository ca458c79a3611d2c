//! The plan of a job in the making.

use haul_base::copy::location::Host;
use haul_engine::fs::SpecialFiles;
use haul_proto::limits::RANGES_MAX;
use haul_show::{self as show, units};

use crate::comparison::plan as plan_comparison;
use crate::error::JobError;
use crate::node::StepContext;
use crate::options::JobPart;
use crate::part::full_copy_plan;
use crate::plan_index::{PlanIndex, PlanTotals};
use crate::planner::{WalkRules, plan as walk};
use crate::remote_plan::plan_remote;
use crate::shard_lock::{LockHolder, LockedWork, ShardLock, locked_shards};

/// The note about files with longer ranges than the job's.
fn lengthened(files: u64) -> String {
    let most = units::count(RANGES_MAX);
    format!("ranges of {} are longer than --shard-range: a file has at most {most}", units::files(files))
}

/// A plan to be made.
pub struct BegunPlan {
    _lock: ShardLock,
    origin: PlanOrigin,
}

/// The origin of a plan.
enum PlanOrigin {
    /// The walk of the source.
    Walk(Box<WalkRules>),
    /// A dry run from the source's host.
    RemoteSource,
    /// The plan of the compared job.
    ComparedJob,
}

impl BegunPlan {
    /// Removes an interrupted plan, so that nobody claims its shards. `None` if the plan is complete.
    pub fn begin(step: &StepContext<'_>) -> Result<Option<Self>, JobError> {
        let (job, cancel) = (step.job, step.cancel);
        let directory = &job.directory;
        directory.refuse_stopped()?;
        if PlanIndex::read(directory)?.complete.is_some() {
            return Ok(None);
        }
        let lock = ShardLock::wait(directory, LockedWork::Plan, cancel, &mut |holder| {
            show::stderr().notice(&format!("the job is being planned by {}; waiting for it", holder.shown()));
        })?;
        if PlanIndex::read(directory)?.complete.is_some() {
            return Ok(None);
        }
        for (shard, _) in locked_shards(directory) {
            let on_holder = &mut |holder: &LockHolder| {
                show::stderr()
                    .notice(&format!("shard {shard} of an earlier plan is run by {}; waiting", holder.shown()));
            };
            ShardLock::wait(directory, LockedWork::Shard(shard), cancel, on_holder)?;
        }
        directory.clear_plan()?;
        if job.description.verifies {
            return Ok(Some(Self { _lock: lock, origin: PlanOrigin::ComparedJob }));
        }
        if job.description.is_pulled() {
            return Ok(Some(Self { _lock: lock, origin: PlanOrigin::RemoteSource }));
        }
        let whole = full_copy_plan(&step.quiet(), &job.description.ends()[0], JobPart::Whole)?;
        let options = whole.copy.options;
        let rules = WalkRules {
            symlinks: options.source.symlinks,
            one_file_system: options.source.skip.other_file_systems,
            filters: options.source.filters,
            nodes: SpecialFiles {
                devices: options.metadata.preserve.devices,
                specials: options.metadata.preserve.specials,
            },
            target: Some(whole.copy.target).filter(|target| target.host == Host::Local).map(|target| target.path),
            ranges_max: RANGES_MAX,
            is_alone: true,
        };
        Ok(Some(Self { _lock: lock, origin: PlanOrigin::Walk(Box::new(rules)) }))
    }

    /// Limits the walk, since copies on this host need CPUs too.
    pub fn limited_for_copies(mut self) -> Self {
        if let PlanOrigin::Walk(rules) = &mut self.origin {
            rules.is_alone = false;
        }
        self
    }

    /// Makes the plan. Calls `on_shard` for each shard.
    pub fn carry_out(
        self,
        step: &StepContext<'_>,
        on_shard: &mut dyn FnMut(&PlanTotals),
    ) -> Result<PlanTotals, JobError> {
        let job = step.job;
        let totals = match &self.origin {
            PlanOrigin::Walk(rules) => walk(&job.directory, &job.description, rules, step.cancel, on_shard)?,
            PlanOrigin::RemoteSource => plan_remote(step, on_shard)?,
            PlanOrigin::ComparedJob => {
                let totals = plan_comparison(&job.directory)?;
                on_shard(&totals);
                totals
            }
        };
        if totals.lengthened > 0 {
            show::stderr().notice(&lengthened(totals.lengthened));
        }
        Ok(totals)
    }
}

/// Makes the plan, unless it exists.
pub fn plan(step: &StepContext<'_>) -> Result<PlanTotals, JobError> {
    match BegunPlan::begin(step)? {
        Some(begun) => begun.carry_out(step, &mut |_| {}),
        None => Ok(PlanIndex::read(&step.job.directory)?.complete.unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longer_ranges_are_reported() {
        let note = "ranges of 1 file are longer than --shard-range: a file has at most 1,048,576";
        assert_eq!(lengthened(1), note);
    }
}

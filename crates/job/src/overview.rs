//! The state of a job: its plan, and each shard.

use std::time::SystemTime;

use serde_json::Value;

use crate::directory::JobDirectory;
use crate::error::JobError;
use crate::plan_index::{PlanIndex, PlanTotals, PlannedShard};
use crate::shard_lock::{LockHolder, LockedWork, holder, locked_shards};
use crate::shard_result::{ShardEnd, ShardResult};

/// Most reasons of entries left out.
const LEFT_OUT_MAX: usize = 100;

/// The state of a shard.
#[derive(Debug, Clone, PartialEq)]
pub enum ShardState {
    /// Never run, and not running.
    Planned,
    /// Running.
    Running(LockHolder),
    /// Its last run has ended.
    Ended(Box<ShardResult>),
}

impl ShardState {
    /// How the last run ended; `None` before, and during a further run.
    pub fn end(&self) -> Option<ShardEnd> {
        match self {
            Self::Ended(result) => Some(result.end),
            Self::Planned | Self::Running(_) => None,
        }
    }

    /// Whether each file was tried.
    pub fn has_tried_all(&self) -> bool {
        self.end().is_some_and(ShardEnd::has_tried_all)
    }
}

/// The known state of a job.
#[derive(Debug, Clone)]
pub struct JobOverview {
    /// All planned shards, in order.
    pub shards: Vec<(PlannedShard, ShardState)>,
    /// The totals of the walk; `None` if it is running or was killed.
    pub complete: Option<PlanTotals>,
    /// The host of the walk.
    pub planner: Option<LockHolder>,
    /// The host of the last step.
    pub finisher: Option<LockHolder>,
    /// Whether the job was cancelled.
    pub is_cancelled: bool,
    /// Why it is held.
    pub held: Option<String>,
    /// The result of the last step, once it is done.
    pub last_step: Option<LastStep>,
    /// The time of this overview, by this host's clock.
    pub seen: SystemTime,
}

impl JobOverview {
    /// Reads the state.
    pub fn read(job: &JobDirectory) -> Result<Self, JobError> {
        let mut held = locked_shards(job);
        let PlanIndex { shards, complete } = PlanIndex::read(job)?;
        let state = |shard: &PlannedShard| {
            let result = ShardResult::read(job, shard.number)?;
            let at = held.iter().position(|(number, _)| *number == shard.number);
            let holder = at.map(|at| held.swap_remove(at).1);
            Ok(match (result, holder) {
                // A run that was killed after its end may have left a lock.
                (Some(result), _) if result.end == ShardEnd::Done => ShardState::Ended(Box::new(result)),
                (_, Some(holder)) => ShardState::Running(holder),
                (Some(result), None) => ShardState::Ended(Box::new(result)),
                (None, None) => ShardState::Planned,
            })
        };
        let states = shards.iter().map(state).collect::<Result<Vec<_>, JobError>>()?;
        Ok(Self {
            complete,
            planner: holder(job, LockedWork::Plan),
            finisher: holder(job, LockedWork::Finish),
            is_cancelled: job.cancelled().exists(),
            held: job.held_because(),
            last_step: LastStep::read(job),
            ..Self::of_shards(shards.into_iter().zip(states).collect())
        })
    }

    /// An overview of these shards alone.
    pub fn of_shards(shards: Vec<(PlannedShard, ShardState)>) -> Self {
        Self {
            shards,
            complete: None,
            planner: None,
            finisher: None,
            is_cancelled: false,
            held: None,
            last_step: None,
            seen: SystemTime::now(),
        }
    }

    /// Numbers of shards with files that were not tried.
    pub fn missing(&self) -> Vec<u32> {
        self.shards.iter().filter(|(_, state)| !state.has_tried_all()).map(|(shard, _)| shard.number).collect()
    }

    /// Whether every shard is planned, and each file was tried.
    pub fn is_copied(&self) -> bool {
        self.complete.is_some() && self.shards.iter().all(|(_, state)| state.has_tried_all())
    }

    /// Whether the last step is done.
    pub fn is_finished(&self) -> bool {
        self.last_step.is_some()
    }

    /// Whether a comparison found source and target equal; `None` without a comparison.
    pub fn is_same(&self) -> Option<bool> {
        self.last_step.as_ref().and_then(|step| step.is_same)
    }

    /// The number of shards with this end.
    pub fn ended(&self, end: ShardEnd) -> usize {
        self.shards.iter().filter(|(_, state)| state.end() == Some(end)).count()
    }
}

/// The recorded result of the last step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastStep {
    /// Whether source and target are equal, if compared.
    pub is_same: Option<bool>,
    /// Entries that failed, or that differ.
    pub failed: u64,
    /// Entries that vanished after the plan.
    pub vanished: u64,
    /// Data that all runs wrote, or compared.
    pub moved: u64,
    /// Extraneous entries deleted.
    pub deleted: u64,
    /// Entries left out, with the reason.
    pub left_out: Vec<(String, u64)>,
}

impl LastStep {
    fn read(job: &JobDirectory) -> Option<Self> {
        let report: Value = serde_json::from_str(&job.report().read_text().ok()??).unwrap_or_default();
        let number = |name: &str| report[name].as_u64().unwrap_or_default();
        let left_out = report["left_out"].as_array().into_iter().flatten().take(LEFT_OUT_MAX);
        let left_out = left_out.filter_map(|row| Some((row[0].as_str()?.to_owned(), row[1].as_u64()?))).collect();
        Some(Self {
            is_same: report["verified"].as_bool(),
            failed: number("failed"),
            vanished: number("vanished"),
            moved: number("moved"),
            deleted: number("deleted"),
            left_out,
        })
    }
}

#[cfg(test)]
mod tests {
    use haul_base::sys::cancel::Cancel;

    use super::*;
    use crate::plan_index::{PlanIndexWriter, PlanTotals};
    use crate::shard_lock::{LockAttempt, ShardLock};
    use crate::shard_result::tests::result;

    #[test]
    fn a_finished_shard_stays_finished_with_a_stale_lock() {
        let temp = tempfile::tempdir().unwrap();
        let job = JobDirectory::create(&temp.path().join("job")).unwrap();
        let mut plan = PlanIndexWriter::create(&job).unwrap();
        (0..3).for_each(|number| plan.add(PlannedShard { number, files: 1, bytes: 1, range: None }).unwrap());
        plan.complete(PlanTotals::default()).unwrap();
        let locks: Vec<_> = [0, 1, 2]
            .map(|number| ShardLock::try_take(&job, LockedWork::Shard(number), &Cancel::new()).unwrap())
            .into_iter()
            .filter(|lock| matches!(lock, LockAttempt::Held(_)))
            .collect();
        result(0, ShardEnd::Done, "n1", 1.0).write(&job).unwrap();
        result(1, ShardEnd::Failed, "n1", 1.0).write(&job).unwrap();
        let overview = JobOverview::read(&job).unwrap();
        let states: Vec<_> = overview.shards.iter().map(|(_, state)| state).collect();
        assert!(states[0].has_tried_all() && locks.len() == 3);
        assert!(matches!(states[1..], [ShardState::Running(_), ShardState::Running(_)]), "these run again");
        assert_eq!(overview.missing(), [1, 2]);
    }
}

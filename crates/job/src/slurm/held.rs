//! Tasks that Slurm holds because it could not start them. No I/O.

use std::collections::BTreeMap;

use crate::slurm::queue::SlurmTask;

/// Most releases of a task.
const RELEASES_MAX: u32 = 5;

/// The next step for a held task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeldRemedy {
    /// Release it into the queue.
    Release,
    /// Cancel it: its shard counts as lost, and is resubmitted within the usual limit.
    Cancel,
}

/// Number of remedies for each task.
#[derive(Default)]
pub struct HeldTasks {
    tried: BTreeMap<String, u32>,
}

impl HeldTasks {
    /// The held tasks with their remedies.
    pub fn due<'t>(&self, tasks: &'t [SlurmTask]) -> Vec<(&'t SlurmTask, HeldRemedy)> {
        let remedy = |task: &SlurmTask| match self.tried.get(&task.id()) {
            Some(&times) if times >= RELEASES_MAX => HeldRemedy::Cancel,
            _ => HeldRemedy::Release,
        };
        tasks.iter().filter(|task| task.is_held_after_failure()).map(|task| (task, remedy(task))).collect()
    }

    /// Counts a remedy.
    pub fn record(&mut self, task: &SlurmTask) {
        *self.tried.entry(task.id()).or_default() += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeatedly_held_task_is_cancelled() {
        let tasks = SlurmTask::parse_all("12_4|PENDING|launch failed requeued held|\n12_5|PENDING|Resources|\n");
        let mut held = HeldTasks::default();
        for _ in 0..RELEASES_MAX {
            assert_eq!(held.due(&tasks), [(&tasks[0], HeldRemedy::Release)]);
            held.record(&tasks[0]);
        }
        assert_eq!(held.due(&tasks), [(&tasks[0], HeldRemedy::Cancel)]);
        let anew = SlurmTask::parse_all("13_4|PENDING|launch failed requeued held|\n");
        assert_eq!(held.due(&anew), [(&anew[0], HeldRemedy::Release)]);
    }
}

//! Tasks that Slurm holds since it could not start them. No I/O.

use std::collections::BTreeMap;

use crate::slurm::queue::SlurmTask;

/// So often a task is released.
const RELEASES_MAX: u32 = 5;

/// The next step for a held task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeldRemedy {
    /// It waits for its turn again.
    Release,
    /// Slurm cannot start it: its shard is lost, and submitted anew as often as any lost shard.
    Cancel,
}

/// How often a remedy was tried for each task.
#[derive(Default)]
pub struct HeldTasks {
    tried: BTreeMap<String, u32>,
}

impl HeldTasks {
    /// The held ones among `tasks`, each with its remedy.
    pub fn due<'t>(&self, tasks: &'t [SlurmTask]) -> Vec<(&'t SlurmTask, HeldRemedy)> {
        let remedy = |task: &SlurmTask| match self.tried.get(&task.id()) {
            Some(&times) if times >= RELEASES_MAX => HeldRemedy::Cancel,
            _ => HeldRemedy::Release,
        };
        tasks.iter().filter(|task| task.is_held_after_failure()).map(|task| (task, remedy(task))).collect()
    }

    /// Counts a remedy that was tried.
    pub fn record(&mut self, task: &SlurmTask) {
        *self.tried.entry(task.id()).or_default() += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_that_is_held_again_and_again_is_cancelled() {
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

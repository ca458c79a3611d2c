//! Limits the warnings that workers cause.

use super::worker_role::WorkerRole;

/// Most warnings shown of a worker over all attempts. A change of the path counts as one.
const NOTICES_MAX: u64 = 1000;

/// Warnings of source and target, counted over all attempts.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoticeCounts([u64; 2]);

impl NoticeCounts {
    /// Counts a worker's warning; returns whether to show it.
    pub fn count(&mut self, role: WorkerRole) -> bool {
        let count = &mut self.0[role.index()];
        *count = count.saturating_add(1);
        *count <= NOTICES_MAX
    }

    /// Number of a worker's warnings since `earlier` that were not shown.
    pub fn hidden_since(&self, earlier: &Self, role: WorkerRole) -> u64 {
        self.0[role.index()].saturating_sub(earlier.0[role.index()].max(NOTICES_MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_beyond_the_limit_are_counted_once_per_attempt() {
        let mut notices = NoticeCounts::default();
        let shown = (0..NOTICES_MAX + 5).filter(|_| notices.count(WorkerRole::Target)).count();
        assert_eq!(
            (shown as u64, notices.hidden_since(&NoticeCounts::default(), WorkerRole::Target)),
            (NOTICES_MAX, 5)
        );
        assert_eq!(notices.hidden_since(&NoticeCounts::default(), WorkerRole::Source), 0);
        let earlier = notices;
        assert!(!notices.count(WorkerRole::Target));
        assert_eq!(notices.hidden_since(&earlier, WorkerRole::Target), 1, "the next attempt reports its own");
    }
}

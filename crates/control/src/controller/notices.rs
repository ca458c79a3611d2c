//! Limits the lines that workers cause: their warnings, failures and skipped entries.

use super::worker_role::WorkerRole;

/// Most lines of a kind shown of a worker over all attempts. A change of the path counts as a notice.
const SHOWN_MAX: u64 = 1000;
/// Most failures: a log lists those of any copy, and no worker fills a disk with them.
const FAILURES_MAX: u64 = 1_000_000;

/// What a worker says any number of times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoticeKind {
    Notice,
    Failure,
    Skipped,
    Live,
}

impl NoticeKind {
    /// All kinds, each with its words for several.
    pub const ALL: [(Self, &str); 4] = [
        (Self::Notice, "notices"),
        (Self::Failure, "failures"),
        (Self::Skipped, "skipped entries"),
        (Self::Live, "changed sources"),
    ];

    fn shown_max(self) -> u64 {
        if self == Self::Failure { FAILURES_MAX } else { SHOWN_MAX }
    }
}

/// Lines of source and target by kind, counted over all attempts.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoticeCounts([[u64; NoticeKind::ALL.len()]; 2]);

impl NoticeCounts {
    /// Counts a worker's line; returns whether to show it.
    pub fn count(&mut self, role: WorkerRole, kind: NoticeKind) -> bool {
        let count = &mut self.0[role.index()][kind as usize];
        *count = count.saturating_add(1);
        *count <= kind.shown_max()
    }

    /// Number of a worker's lines since `earlier` that were not shown.
    pub fn hidden_since(&self, earlier: &Self, role: WorkerRole, kind: NoticeKind) -> u64 {
        let [now, before] = [self, earlier].map(|counts| counts.0[role.index()][kind as usize]);
        now.saturating_sub(before.max(kind.shown_max()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_beyond_the_limit_are_counted_once_per_attempt() {
        let target = WorkerRole::Target;
        for (kind, _) in NoticeKind::ALL {
            let mut notices = NoticeCounts::default();
            let shown = (0..kind.shown_max() + 5).filter(|_| notices.count(target, kind)).count();
            let hidden = notices.hidden_since(&NoticeCounts::default(), target, kind);
            assert_eq!((shown as u64, hidden), (kind.shown_max(), 5));
            assert_eq!(notices.hidden_since(&NoticeCounts::default(), WorkerRole::Source, kind), 0);
            let earlier = notices;
            assert!(!notices.count(target, kind));
            assert_eq!(notices.hidden_since(&earlier, target, kind), 1, "the next attempt reports its own");
            let others = NoticeKind::ALL.into_iter().filter(|(other, _)| *other != kind);
            others.for_each(|(other, _)| assert!(notices.count(target, other), "{other:?}"));
        }
    }
}

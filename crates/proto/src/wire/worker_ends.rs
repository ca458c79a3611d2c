//! The ends of a copy that one worker represents.

/// The ends of a copy that a worker represents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WorkerEnds {
    /// The reading end.
    pub source: bool,
    /// The writing end.
    pub target: bool,
}

impl WorkerEnds {
    /// The source's worker.
    pub const SOURCE: Self = Self { source: true, target: false };
    /// The target's worker.
    pub const TARGET: Self = Self { source: false, target: true };
    /// One worker for both ends; in the table: either end.
    pub const BOTH: Self = Self { source: true, target: true };

    /// Whether the sets share an end.
    pub fn meet(self, others: Self) -> bool {
        self.source && others.source || self.target && others.target
    }
}

//! The two ends of a copy.

use haul_base::copy::End;

/// The role of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WorkerRole {
    /// Reads files.
    Source,
    /// Writes files.
    Target,
}

impl WorkerRole {
    /// Source and target.
    pub const BOTH: [Self; 2] = [Self::Source, Self::Target];

    /// Returns the opposite role.
    pub fn other(self) -> Self {
        match self {
            WorkerRole::Source => WorkerRole::Target,
            WorkerRole::Target => WorkerRole::Source,
        }
    }

    /// Returns the index 0 or 1.
    pub fn index(self) -> usize {
        match self {
            WorkerRole::Source => 0,
            WorkerRole::Target => 1,
        }
    }

    /// Returns the end where a worker of this role runs.
    pub fn end(self) -> End {
        match self {
            WorkerRole::Source => End::Source,
            WorkerRole::Target => End::Target,
        }
    }
}

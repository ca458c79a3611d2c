//! Two-way synchronisation under faults from a seed: edits at both sides at any moment, interrupted runs, lost and torn
//! archives, clocks that jump. Everything that `haul_proto::twoway` decides is the real thing.
//!
//! Replicas are maps. Each file has a number instead of contents, and the truth about it: whether the other side ever
//! had it. From that the checks know what may go, without an archive. They hold at every step of a run.

mod edits;
mod end;
mod history;
mod replica;
mod run;

pub use history::run_twoway;

/// A mistake that is made on purpose, to see that a check notices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TwowayMistake {
    /// None: the real thing.
    Nothing,
    /// Nobody looks just before a change.
    SkipLook,
    /// Every stamp enters the archive, however fresh.
    TrustStamps,
    /// A skipped path is recorded as agreed.
    MarkSkipped,
    /// The archives are written before the actions.
    MarkEarly,
    /// Conflicts are decided for A.
    OverwriteConflicts,
    /// What one side lacks is removed although there is no base.
    RemoveWithoutBase,
    /// A move is believed by size.
    MoveBySize,
    /// A removed directory takes the other side's updates with it.
    RemoveUpdatesBelow,
    /// A removal is not carried out.
    ForgetRemovals,
    /// A copy gets the present time.
    CopyWithNewTime,
    /// A preference decides a conflict, and nothing below it.
    PreferTopOnly,
    /// A kept loser is not kept.
    DropLoser,
    /// What cannot be read looks removed.
    MissUnreadable,
}

impl TwowayMistake {
    /// All mistakes.
    pub const ALL: [Self; 13] = [
        Self::SkipLook,
        Self::TrustStamps,
        Self::MarkSkipped,
        Self::MarkEarly,
        Self::OverwriteConflicts,
        Self::RemoveWithoutBase,
        Self::MoveBySize,
        Self::RemoveUpdatesBelow,
        Self::ForgetRemovals,
        Self::CopyWithNewTime,
        Self::PreferTopOnly,
        Self::DropLoser,
        Self::MissUnreadable,
    ];
}

/// What happened in a seed, or in many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TwowayOutcome {
    /// Runs to their end.
    pub runs: u64,
    /// Interrupted runs.
    pub crashes: u64,
    /// Runs without a base.
    pub unions: u64,
    /// Actions that were performed.
    pub actions: u64,
    /// Files that were moved.
    pub moves: u64,
    /// Actions that were skipped, since something had changed.
    pub skipped: u64,
    /// Conflicts.
    pub conflicts: u64,
    /// Losers that were kept.
    pub kept: u64,
}

impl TwowayOutcome {
    /// Adds another seed's.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            runs: self.runs + other.runs,
            crashes: self.crashes + other.crashes,
            unions: self.unions + other.unions,
            actions: self.actions + other.actions,
            moves: self.moves + other.moves,
            skipped: self.skipped + other.skipped,
            conflicts: self.conflicts + other.conflicts,
            kept: self.kept + other.kept,
        }
    }
}

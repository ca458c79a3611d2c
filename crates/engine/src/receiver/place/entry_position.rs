//! Where an entry goes, and what becomes of it.

use haul_proto::filter::FilterScope;
use haul_proto::overwrite_policy::OverwriteDecision;
use haul_proto::path::Name;
use haul_proto::sync::ChangeKind;
use std::sync::Arc;

use crate::fs::Dir;

/// Place of an entry.
pub(crate) struct EntryPosition {
    /// The directory.
    pub dir: Dir,
    /// The name in it.
    pub name: Name,
    /// Nothing can be there: the directory was made in this run.
    pub fresh: bool,
    /// It is the one operand, under the name that the target was given.
    pub renamed: bool,
    /// A directory there is one source's alone.
    pub alone: bool,
    /// The directory is one of the source's, and gets its mode when it is complete.
    pub inside: bool,
    /// Plan for an existing directory in its place: for a file offered again, the decision is an earlier one.
    pub removal: Option<Box<TreeReplacement>>,
}

impl EntryPosition {
    /// A name in a directory that was there.
    pub fn in_directory(dir: Dir, name: Name) -> Self {
        Self { dir, name, fresh: false, renamed: false, alone: false, inside: false, removal: None }
    }
}

/// What becomes of an entry.
pub(crate) struct EntryDecision {
    pub decision: OverwriteDecision,
    /// What is reported when it is done; `None`: nothing changes.
    pub change: Option<ChangeKind>,
    /// How a directory goes that it replaces.
    pub removal: TreeReplacement,
}

/// How a directory goes that something else replaces. It is decided when the entry is offered, as in a dry run.
#[derive(Debug, Clone, Default)]
pub(crate) struct TreeReplacement {
    /// The filters of the directory.
    pub scope: Option<Arc<FilterScope>>,
    /// So many entries in it count as removed already.
    pub reserved: u64,
}

//! The location of an entry, and the decision about it.

use std::sync::Arc;

use haul_proto::filter::FilterScope;
use haul_proto::overwrite_policy::OverwriteDecision;
use haul_proto::path::Name;
use haul_proto::sync::ChangeKind;

use crate::fs::Dir;

/// The location of an entry.
#[derive(Clone)]
pub(crate) struct EntryPosition {
    /// Its directory.
    pub dir: Dir,
    /// Its name in that directory.
    pub name: Name,
    /// The directory is new in this run, so nothing exists under the name.
    pub fresh: bool,
    /// The only source argument, under the name given by the target.
    pub renamed: bool,
    /// An existing directory here is swept for extraneous entries.
    pub alone: bool,
    /// The directory is one of the source's, and gets its final mode when it is complete.
    pub inside: bool,
    /// Plan for an existing directory to be replaced. For a file offered again, the decision is an earlier one.
    pub removal: Option<Box<TreeReplacement>>,
    /// Another run changed the existing entry after a first decision.
    pub decided_again: bool,
}

impl EntryPosition {
    /// A name in an existing directory.
    pub fn in_directory(dir: Dir, name: Name) -> Self {
        Self {
            dir,
            name,
            fresh: false,
            renamed: false,
            alone: false,
            inside: false,
            removal: None,
            decided_again: false,
        }
    }
}

/// The decision about an entry.
pub(crate) struct EntryDecision {
    pub decision: OverwriteDecision,
    /// The change to report on completion; `None` if nothing changes.
    pub change: Option<ChangeKind>,
    /// How to remove a directory that it replaces.
    pub removal: TreeReplacement,
}

/// How to remove a directory that is replaced. Decided when the entry is offered, as in a dry run.
#[derive(Debug, Clone, Default)]
pub(crate) struct TreeReplacement {
    /// The filter scope of the directory.
    pub scope: Option<Arc<FilterScope>>,
    /// Number of its entries that already count as removed.
    pub reserved: u64,
}

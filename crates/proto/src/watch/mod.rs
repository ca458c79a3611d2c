//! Watching a tree for changes, without I/O: directories with a watch, and changed paths until they settle.
//!
//! A run after a change looks only at [`ChangedPaths`]: both ends take them as a filter, and leave everything else as
//! it is. Where changes may have been missed, a run looks at everything.

mod change_collector;
mod changed_paths;
mod watched_tree;

pub use self::change_collector::{ChangeCollector, QUIET_US, SETTLE_MAX_US, WRITING_US};
pub use self::changed_paths::{ChangedPath, ChangedPaths};
pub use self::watched_tree::{DirectoryChange, DirectoryEvent, WatchId, WatchStep, WatchedTree};
use crate::codec::wire_enum;

wire_enum! {
    /// What a run has to look at.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub enum ChangedPart: "changed part" {
        /// The whole tree: at first, and after a doubt.
        Everything = 1,
        /// These paths.
        Paths(paths: ChangedPaths) = 2,
    }
}

impl ChangedPart {
    /// Adds what another run had to look at.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Paths(paths), Self::Paths(others)) => paths.and(others).map_or(Self::Everything, Self::Paths),
            _ => Self::Everything,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_add_up() {
        let paths = |text: &str| {
            ChangedPart::Paths(ChangedPaths::new([ChangedPath { path: text.into(), has_contents: true }]).unwrap())
        };
        let ChangedPart::Paths(both) = paths("a").and(paths("b/c")) else { panic!("everything") };
        assert!(both.covers(b"a/x") && both.covers(b"b") && both.covers(b"b/c") && !both.covers(b"c"));
        assert_eq!(paths("a").and(ChangedPart::Everything), ChangedPart::Everything);
    }
}

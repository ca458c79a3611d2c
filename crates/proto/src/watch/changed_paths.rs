//! The paths that a run looks at.

use std::collections::BTreeMap;

use crate::codec::{OfType, wire_struct};
use crate::encoding::Decoded;
use crate::error::ProtocolError;
use crate::field_codecs::{PATH, list};
use crate::limits::CHANGED_PATHS_MAX;

wire_struct! {
    /// A path that may have changed.
    #[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
    pub struct ChangedPath {
        /// The path below the source argument, with single slashes between names; empty for the source argument itself.
        pub path: Vec<u8> as PATH,
        /// Whether everything below may have changed, too.
        pub has_contents: bool,
    }
}

wire_struct! {
    /// Paths that may have changed, sorted, each once.
    #[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
    pub struct ChangedPaths {
        paths: Vec<ChangedPath> as list(OfType, CHANGED_PATHS_MAX, "changed paths"),
    } checked by check_order
}

fn check_order(changed: &ChangedPaths) -> Decoded<()> {
    let is_sorted = changed.paths.is_sorted_by(|one, next| one.path < next.path);
    if is_sorted { Ok(()) } else { Err(ProtocolError::Invalid("order of changed paths")) }
}

impl ChangedPaths {
    /// Sorts paths and joins equal ones; `None` for more than [`CHANGED_PATHS_MAX`].
    pub fn new(paths: impl IntoIterator<Item = ChangedPath>) -> Option<Self> {
        let mut sorted = BTreeMap::new();
        for ChangedPath { path, has_contents } in paths {
            *sorted.entry(path).or_insert(false) |= has_contents;
        }
        let paths: Vec<_> = sorted.into_iter().map(|(path, has_contents)| ChangedPath { path, has_contents }).collect();
        (paths.len() <= CHANGED_PATHS_MAX).then_some(Self { paths })
    }

    /// Joins both; `None` for more than [`CHANGED_PATHS_MAX`].
    pub fn and(self, others: Self) -> Option<Self> {
        Self::new(self.paths.into_iter().chain(others.paths))
    }

    /// Returns the paths in order.
    pub fn iter(&self) -> impl Iterator<Item = &ChangedPath> {
        self.paths.iter()
    }

    /// Whether a path below the source argument may have changed, or has such a path below.
    pub fn covers(&self, path: &[u8]) -> bool {
        self.is_above(path) || self.find(path).is_some() || self.is_below(path)
    }

    fn find(&self, path: &[u8]) -> Option<&ChangedPath> {
        let at = self.paths.binary_search_by(|changed| changed.path.as_slice().cmp(path)).ok()?;
        Some(&self.paths[at])
    }

    /// Whether a changed path lies below.
    fn is_above(&self, path: &[u8]) -> bool {
        // The first one that may begin with `path/`: names may have bytes below a slash.
        let first = self.paths.partition_point(|changed| changed.path.iter().lt(path.iter().chain(b"/")));
        self.paths
            .get(first)
            .is_some_and(|next| next.path.strip_prefix(path).is_some_and(|rest| rest.starts_with(b"/")))
    }

    /// Whether it lies below a changed path with contents.
    fn is_below(&self, path: &[u8]) -> bool {
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        ends.into_iter().any(|end| self.find(&path[..end]).is_some_and(|changed| changed.has_contents))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::tests::check_round_trip;
    use crate::codec::{from_bytes, to_bytes};

    fn changed(paths: &[(&str, bool)]) -> ChangedPaths {
        let paths =
            paths.iter().map(|(path, has_contents)| ChangedPath { path: (*path).into(), has_contents: *has_contents });
        ChangedPaths::new(paths).unwrap()
    }

    #[test]
    fn paths_above_and_contents_below_are_covered() {
        let changed = changed(&[("a/b", true), ("a-c", false), ("d", false)]);
        for covered in ["a", "a/b", "a/b/x", "a/b/x/y", "a-c", "d"] {
            assert!(changed.covers(covered.as_bytes()), "{covered}");
        }
        for other in ["b", "a/c", "a/bc", "a-c/x", "d/x", "a-", "a/b-"] {
            assert!(!changed.covers(other.as_bytes()), "{other}");
        }
    }

    #[test]
    fn equal_paths_are_joined_and_their_number_is_limited() {
        assert_eq!(changed(&[("a", false), ("a", true)]).iter().count(), 1);
        assert!(changed(&[("a", false), ("a", true)]).covers(b"a/x"));
        let many = (0..=CHANGED_PATHS_MAX).map(|at| ChangedPath { path: at.to_string().into(), has_contents: false });
        assert_eq!(ChangedPaths::new(many), None);
    }

    #[test]
    fn unsorted_paths_are_a_fault() {
        let sorted = changed(&[("a", false), ("b", true)]);
        check_round_trip(&sorted);
        let unsorted = ChangedPaths { paths: sorted.paths.into_iter().rev().collect() };
        assert!(from_bytes::<ChangedPaths>(&to_bytes(&unsorted)).is_err());
    }
}

//! A merge join of two sequences in the order of the tree.

use std::cmp::Ordering;

use super::entry::{PathEntry, TreePath};
use crate::error::ProtocolError;

/// Something that stands at a path.
pub trait AtPath {
    /// Returns the path.
    fn path(&self) -> &TreePath;
}

impl AtPath for PathEntry {
    fn path(&self) -> &TreePath {
        &self.path
    }
}

impl AtPath for &PathEntry {
    fn path(&self) -> &TreePath {
        &self.path
    }
}

/// Joins two sequences by path. A sequence out of order is an error, and ends the join.
#[derive(Debug)]
pub struct TreeJoin<L, R, T, U> {
    left: Ordered<L, T>,
    right: Ordered<R, U>,
}

impl<L, R, T, U> TreeJoin<L, R, T, U> {
    /// Joins `left` and `right`.
    pub fn new(left: L, right: R) -> Self {
        Self { left: Ordered::new(left), right: Ordered::new(right) }
    }
}

impl<L, R, T, U, E> Iterator for TreeJoin<L, R, T, U>
where
    L: Iterator<Item = Result<T, E>>,
    R: Iterator<Item = Result<U, E>>,
    T: AtPath,
    U: AtPath,
    E: From<ProtocolError>,
{
    /// What stands at the next path, left and right: one at least.
    type Item = Result<(Option<T>, Option<U>), E>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Err(error) = self.left.fill().and_then(|()| self.right.fill()) {
            self.left.end();
            self.right.end();
            return Some(Err(error));
        }
        let order = match (&self.left.next, &self.right.next) {
            (None, None) => return None,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(left), Some(right)) => left.path().cmp(right.path()),
        };
        let left = if order.is_le() { self.left.take() } else { None };
        let right = if order.is_ge() { self.right.take() } else { None };
        Some(Ok((left, right)))
    }
}

/// A sequence, with its next item and the path of the one before.
#[derive(Debug)]
struct Ordered<I, T> {
    /// `None` at its end.
    items: Option<I>,
    next: Option<T>,
    last: Option<TreePath>,
}

impl<I, T> Ordered<I, T> {
    fn new(items: I) -> Self {
        Self { items: Some(items), next: None, last: None }
    }

    fn end(&mut self) {
        self.items = None;
        self.next = None;
    }
}

impl<I: Iterator<Item = Result<T, E>>, T: AtPath, E: From<ProtocolError>> Ordered<I, T> {
    fn fill(&mut self) -> Result<(), E> {
        if self.next.is_some() {
            return Ok(());
        }
        let Some(item) = self.items.as_mut().and_then(Iterator::next) else {
            self.items = None;
            return Ok(());
        };
        let item = item?;
        if self.last.as_ref().is_some_and(|last| last >= item.path()) {
            return Err(ProtocolError::Invalid("paths out of order").into());
        }
        self.next = Some(item);
        Ok(())
    }

    fn take(&mut self) -> Option<T> {
        let item = self.next.take()?;
        self.last = Some(item.path().clone());
        Some(item)
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples::file;
    use super::*;

    fn joined(left: &[&str], right: &[&str]) -> Vec<Result<(bool, bool), ProtocolError>> {
        let entries = |paths: &[&str]| paths.iter().map(|path| Ok(file(path, 1))).collect::<Vec<_>>();
        let join = TreeJoin::new(entries(left).into_iter(), entries(right).into_iter());
        join.map(|pair| pair.map(|(left, right)| (left.is_some(), right.is_some()))).collect()
    }

    #[test]
    fn paths_are_joined_in_order() {
        let pairs = joined(&["a", "a/b", "c"], &["a/b", "a.b", "d"]);
        let expected = [(true, false), (true, true), (false, true), (true, false), (false, true)];
        assert_eq!(pairs, expected.map(Ok));
    }

    #[test]
    fn a_sequence_out_of_order_ends_with_an_error() {
        let wrong = Err(ProtocolError::Invalid("paths out of order"));
        assert_eq!(joined(&["b", "a"], &["z"]), [Ok((true, false)), wrong]);
        assert_eq!(joined(&[], &["a", "a"]), [Ok((false, true)), wrong]);
    }
}

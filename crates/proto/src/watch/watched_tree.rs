//! The directories with a watch, after inotify(7): each watch reports changes of names in one directory.
//!
//! Whoever drives it performs the steps in order: it sets a watch first, and lists the directory then. So whatever
//! appears in a new directory is either listed or reported.

use std::collections::{BTreeMap, HashMap};

use super::ChangeCollector;

/// The number of a watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WatchId(pub i32);

/// What happened in a watched directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DirectoryChange {
    /// A name appeared.
    Appeared,
    /// A name is gone.
    Gone,
    /// A file was written and may still be open.
    Written,
    /// A file was closed after it was written.
    Closed,
    /// Properties changed: of the named entry or, without a name, of the directory.
    Properties,
    /// The directory itself is gone or was moved.
    Left,
    /// The file system is unmounted.
    Unmounted,
    /// The watch is over.
    Ended,
}

/// An event of a watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectoryEvent {
    /// The watch.
    pub watch: WatchId,
    /// What happened.
    pub change: DirectoryChange,
    /// The name in the directory; empty for the directory itself.
    pub name: Vec<u8>,
    /// Whether it is a directory.
    pub is_directory: bool,
}

/// What to do after an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchStep {
    /// Set a watch on the directory at this path, then on all directories below.
    Watch(Vec<u8>),
    /// Remove a watch.
    Unwatch(WatchId),
}

/// The watched directories. One directory may have several paths: by a bind mount, or since it was moved while the tree
/// was listed, until the event about its earlier path arrives.
#[derive(Debug, Default)]
pub struct WatchedTree {
    paths: HashMap<WatchId, Vec<Vec<u8>>>,
    watches: BTreeMap<Vec<u8>, WatchId>,
}

impl WatchedTree {
    /// Records a watch on the directory at `path`. One directory has one watch, whatever its paths.
    pub fn watched(&mut self, path: Vec<u8>, watch: WatchId) {
        if let Some(other) = self.watches.insert(path.clone(), watch) {
            self.drop_path(other, &path);
        }
        self.paths.entry(watch).or_default().push(path);
    }

    /// Removes a path of a watch. Whether it was the last one.
    fn drop_path(&mut self, watch: WatchId, path: &[u8]) -> bool {
        let Some(paths) = self.paths.get_mut(&watch) else { return false };
        paths.retain(|known| known != path);
        paths.is_empty() && self.paths.remove(&watch).is_some()
    }

    /// Returns the number of watched directories.
    pub fn len(&self) -> usize {
        self.paths.len()
    }

    /// Whether no directory is watched.
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    /// Whether the root has a watch.
    pub fn has_root(&self) -> bool {
        self.watches.contains_key(&b""[..])
    }

    /// Returns the paths of what an event names; none for a watch that was removed.
    pub fn paths_of(&self, event: &DirectoryEvent) -> Vec<Vec<u8>> {
        let named = |directory: &Vec<u8>| match (directory.is_empty(), event.name.is_empty()) {
            (_, true) => directory.clone(),
            (true, false) => event.name.clone(),
            (false, false) => [directory, &b"/"[..], &event.name].concat(),
        };
        self.paths.get(&event.watch).into_iter().flatten().map(named).collect()
    }

    /// Takes an event about `path`, one of [`Self::paths_of`], adds what it means to `changes`, and returns what to do.
    pub fn take(
        &mut self,
        now_us: u64,
        event: &DirectoryEvent,
        path: Vec<u8>,
        changes: &mut ChangeCollector,
    ) -> Vec<WatchStep> {
        match event.change {
            DirectoryChange::Appeared => {
                let steps = self.forget(&path);
                changes.changed(now_us, path.clone(), true);
                steps.into_iter().chain(event.is_directory.then_some(WatchStep::Watch(path))).collect()
            }
            DirectoryChange::Gone => {
                changes.changed(now_us, path.clone(), true);
                self.forget(&path)
            }
            DirectoryChange::Written => {
                changes.written(now_us, path);
                Vec::new()
            }
            DirectoryChange::Closed | DirectoryChange::Properties => {
                changes.changed(now_us, path, false);
                Vec::new()
            }
            DirectoryChange::Left if !path.is_empty() => Vec::new(),
            DirectoryChange::Left | DirectoryChange::Unmounted => {
                changes.doubt(now_us);
                self.forget(&path)
            }
            DirectoryChange::Ended => {
                self.drop_path(event.watch, &path);
                if self.watches.get(&path) == Some(&event.watch) {
                    self.watches.remove(&path);
                }
                Vec::new()
            }
        }
    }

    /// Forgets the watches at a path and below.
    fn forget(&mut self, path: &[u8]) -> Vec<WatchStep> {
        let is_root = path.is_empty();
        let below = self.watches.range(path.to_vec()..).take_while(|(found, _)| found.starts_with(path));
        let is_part = |found: &[u8]| is_root || found.len() == path.len() || found[path.len()] == b'/';
        let gone: Vec<_> =
            below.filter(|(found, _)| is_part(found)).map(|(found, watch)| (found.clone(), *watch)).collect();
        let mut steps = Vec::new();
        for (found, watch) in gone {
            self.watches.remove(&found);
            steps.extend(self.drop_path(watch, &found).then_some(WatchStep::Unwatch(watch)));
        }
        steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::{ChangedPart, QUIET_US};

    fn event(watch: i32, change: DirectoryChange, name: &str, is_directory: bool) -> DirectoryEvent {
        DirectoryEvent { watch: WatchId(watch), change, name: name.into(), is_directory }
    }

    fn tree(paths: &[&str]) -> WatchedTree {
        let mut tree = WatchedTree::default();
        (0..).zip(paths).for_each(|(number, path)| tree.watched((*path).into(), WatchId(number)));
        tree
    }

    fn take(tree: &mut WatchedTree, event: &DirectoryEvent, changes: &mut ChangeCollector) -> Vec<WatchStep> {
        tree.paths_of(event).into_iter().flat_map(|path| tree.take(0, event, path, changes)).collect()
    }

    fn changed(changes: &mut ChangeCollector) -> String {
        match changes.take(QUIET_US) {
            Some(ChangedPart::Paths(paths)) => {
                let shown =
                    |path: &[u8], all: bool| format!("{}{}", String::from_utf8_lossy(path), if all { "/" } else { "" });
                paths.iter().map(|one| shown(&one.path, one.has_contents)).collect::<Vec<_>>().join(" ")
            }
            Some(ChangedPart::Everything) => "everything".to_owned(),
            None => String::new(),
        }
    }

    #[test]
    fn a_new_directory_is_watched_and_changed_as_a_whole() {
        let (mut tree, mut changes) = (tree(&["", "a"]), ChangeCollector::default());
        let steps = take(&mut tree, &event(1, DirectoryChange::Appeared, "b", true), &mut changes);
        assert_eq!(steps, [WatchStep::Watch(b"a/b".to_vec())]);
        take(&mut tree, &event(0, DirectoryChange::Closed, "f", false), &mut changes);
        take(&mut tree, &event(1, DirectoryChange::Properties, "", true), &mut changes);
        assert_eq!(changed(&mut changes), "a a/b/ f");
    }

    #[test]
    fn a_moved_directory_loses_its_watches_and_gets_new_ones() {
        let (mut tree, mut changes) = (tree(&["", "a", "a/b", "a-c"]), ChangeCollector::default());
        let steps = take(&mut tree, &event(0, DirectoryChange::Gone, "a", true), &mut changes);
        assert_eq!(steps, [WatchStep::Unwatch(WatchId(1)), WatchStep::Unwatch(WatchId(2))]);
        let steps = take(&mut tree, &event(0, DirectoryChange::Appeared, "z", true), &mut changes);
        assert_eq!(steps, [WatchStep::Watch(b"z".to_vec())]);
        tree.watched(b"z".to_vec(), WatchId(1));
        // A late event of a watch that was removed names nothing.
        assert!(take(&mut tree, &event(2, DirectoryChange::Closed, "f", false), &mut changes).is_empty());
        take(&mut tree, &event(1, DirectoryChange::Closed, "g", false), &mut changes);
        take(&mut tree, &event(3, DirectoryChange::Closed, "h", false), &mut changes);
        assert_eq!(changed(&mut changes), "a/ a-c/h z/ z/g");
    }

    #[test]
    fn a_lost_root_is_doubt() {
        let (mut tree, mut changes) = (tree(&["", "a"]), ChangeCollector::default());
        take(&mut tree, &event(1, DirectoryChange::Left, "", true), &mut changes);
        assert_eq!(changed(&mut changes), "");
        assert_eq!(take(&mut tree, &event(0, DirectoryChange::Unmounted, "", true), &mut changes).len(), 2);
        assert!(tree.is_empty() && !tree.has_root());
        assert_eq!(changed(&mut changes), "everything");
    }

    #[test]
    fn a_directory_with_two_paths_keeps_its_watch_until_the_last_is_gone() {
        let (mut tree, mut changes) = (tree(&["", "old", "new"]), ChangeCollector::default());
        tree.watched(b"new/x".to_vec(), WatchId(7));
        tree.watched(b"old/x".to_vec(), WatchId(7));
        assert!(take(&mut tree, &event(1, DirectoryChange::Gone, "x", true), &mut changes).is_empty());
        take(&mut tree, &event(7, DirectoryChange::Closed, "f", false), &mut changes);
        assert_eq!(changed(&mut changes), "new/x/f old/x/");
        let steps = take(&mut tree, &event(2, DirectoryChange::Gone, "x", true), &mut changes);
        assert_eq!(steps, [WatchStep::Unwatch(WatchId(7))]);
    }
}

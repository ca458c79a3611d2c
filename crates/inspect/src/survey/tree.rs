//! Where the bytes are: a tree of the large directories, with totals for the others.
//!
//! A directory with less than one part in [`SHARE`] of all bytes counts as a part of its parent. So each of
//! [`DEPTH_MAX`] levels has at most [`SHARE`] directories.

use super::tally::FileTotals;

/// A directory with less than one part in this number of the bytes is not drawn.
const SHARE: u64 = 2000;
/// What lies deeper is added up.
pub const DEPTH_MAX: usize = 24;
/// Directories that are drawn in one directory; of more, the biggest.
const CHILDREN_MAX: usize = 200;

/// A directory.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SurveyDirectory {
    /// Its name; for a named root, as typed. Empty for the top.
    pub name: Vec<u8>,
    /// Files in and below it.
    pub all: FileTotals,
    /// Files in it.
    pub own: FileTotals,
    /// Directories in it, the biggest first.
    pub children: Vec<SurveyDirectory>,
    /// Totals of its subdirectories outside the tree.
    pub rest: FileTotals,
}

impl SurveyDirectory {
    /// An empty one.
    pub fn new(name: Vec<u8>) -> Self {
        Self { name, ..Self::default() }
    }

    /// Counts a file in it.
    pub fn add(&mut self, bytes: u64) {
        self.own.add(bytes);
        self.all.add(bytes);
    }

    /// Takes in a directory that is complete. `seen` is how many bytes were found so far in all.
    pub fn adopt(&mut self, mut child: SurveyDirectory, depth: usize, seen: u64) {
        self.all.add_all(&child.all);
        if depth > DEPTH_MAX || !is_drawn(&child, seen) {
            return self.rest.add_all(&child.all);
        }
        child.merge_small_children(seen);
        self.children.push(child);
        if self.children.len() >= 2 * CHILDREN_MAX {
            self.merge_small_children(seen);
        }
    }

    /// Adds up entries that turned out to be too small, of this directory alone: those below were added before, with
    /// less known, and are added again in the end.
    fn merge_small_children(&mut self, seen: u64) {
        self.children.sort_by(|a, b| (b.all.bytes, &a.name).cmp(&(a.all.bytes, &b.name)));
        let drawn = self.children.iter().take(CHILDREN_MAX).take_while(|child| is_drawn(child, seen)).count();
        let Self { children, rest, .. } = self;
        children.drain(drawn..).for_each(|small| rest.add_all(&small.all));
        children.shrink_to_fit();
    }

    /// The same all the way down, when everything was seen.
    pub fn finish(&mut self, seen: u64) {
        self.merge_small_children(seen);
        self.children.iter_mut().for_each(|child| child.finish(seen));
    }
}

fn is_drawn(node: &SurveyDirectory, seen: u64) -> bool {
    node.all.bytes > 0 && node.all.bytes.saturating_mul(SHARE) >= seen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(name: &str, sizes: &[u64]) -> SurveyDirectory {
        let mut node = SurveyDirectory::new(name.into());
        sizes.iter().for_each(|bytes| node.add(*bytes));
        node
    }

    #[test]
    fn relevant_entries_are_drawn_and_all_are_counted() {
        let mut root = directory("", &[5]);
        root.adopt(directory("small", &[1]), 1, 1);
        root.adopt(directory("big", &[9000, 1000]), 1, 10_001);
        root.adopt(directory("empty", &[0]), 1, 10_001);
        root.finish(10_006);
        assert_eq!(root.children.iter().map(|child| &child.name[..]).collect::<Vec<_>>(), [b"big"]);
        assert_eq!((root.own, root.rest), (FileTotals { files: 1, bytes: 5 }, FileTotals { files: 2, bytes: 1 }));
        assert_eq!(root.all, FileTotals { files: 5, bytes: 10_006 });
    }

    #[test]
    fn a_million_directories_make_a_small_tree() {
        let (mut root, mut seen) = (SurveyDirectory::default(), 0);
        for i in 0..1000 {
            let mut above = directory(&format!("a{i}"), &[]);
            for j in 0..1000 {
                seen += 10;
                above.adopt(directory(&format!("b{j}"), &[10]), 2, seen);
                assert!(above.children.len() < 2 * CHILDREN_MAX);
            }
            root.adopt(above, 1, seen);
        }
        root.finish(seen);
        assert_eq!(root.children.len(), CHILDREN_MAX);
        assert!(root.children.iter().all(|child| child.children.is_empty() && child.rest.files == 1000));
        assert_eq!(root.all, FileTotals { files: 1_000_000, bytes: seen });
    }

    #[test]
    fn too_deep_entries_are_summed() {
        let mut root = SurveyDirectory::default();
        root.adopt(directory("deep", &[7]), DEPTH_MAX + 1, 7);
        assert!(root.children.is_empty());
        assert_eq!((root.rest.bytes, root.all.bytes), (7, 7));
    }
}

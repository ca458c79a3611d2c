//! A replica: its tree, clock and archives, and the truth about each entry.

use std::collections::BTreeMap;

use haul_proto::entry::{EntryMetadata, Timestamp};
use haul_proto::twoway::entry::{FileStamp, PathEntry, ReplicaContent, ReplicaEntry, ReplicaMetadata, TreePath};

/// A second of a clock. What it has besides tells how often it was put back.
pub const SECOND: i64 = 1_000_000;

/// A clock's time as a time stamp.
pub fn time_stamp(clock: i64) -> Timestamp {
    let nanoseconds = u32::try_from(clock.rem_euclid(SECOND)).unwrap_or(0);
    Timestamp { seconds: clock.div_euclid(SECOND), nanoseconds }
}

/// Contents; files and links are numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplicaNodeContent {
    /// A directory.
    Directory,
    /// A file with these contents.
    File(u64),
    /// A link to this.
    Link(u64),
}

impl ReplicaNodeContent {
    /// The contents as an entry has them, of a file that was read or not.
    pub fn entry_content(self, is_read: bool) -> ReplicaContent {
        match self {
            Self::Directory => ReplicaContent::Directory,
            Self::File(contents) => {
                let digest = is_read.then(|| digest_of(contents));
                ReplicaContent::File { size: size_of(contents), digest }
            }
            Self::Link(to) => ReplicaContent::Symlink { points_to: to.to_string().into_bytes().into() },
        }
    }
}

/// An entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplicaNode {
    /// Contents.
    pub content: ReplicaNodeContent,
    /// Permission bits.
    pub mode: u16,
    /// By the clock of its writer.
    pub modified: i64,
    /// By this side's clock.
    pub changed: i64,
    /// Number of the inode.
    pub inode: u64,
    /// The truth: the other side had these contents here at some time since.
    pub is_shared: bool,
    /// The truth: the other side had this mode here at some time since.
    pub is_mode_shared: bool,
}

/// One side.
#[derive(Debug, Default)]
pub struct SimReplica {
    /// The tree.
    pub nodes: BTreeMap<TreePath, ReplicaNode>,
    /// The clock.
    pub clock: i64,
    /// Archives by generation.
    pub archives: BTreeMap<u64, Vec<u8>>,
    inodes: u64,
}

/// Size of contents: there are few, so that it alone says little.
pub fn size_of(contents: u64) -> u64 {
    1 + contents % 3
}

/// Digest of contents.
pub fn digest_of(contents: u64) -> [u8; 32] {
    let mut digest = [1; 32];
    digest[..8].copy_from_slice(&contents.to_le_bytes());
    digest
}

impl SimReplica {
    /// A new entry, made now.
    pub fn make(&mut self, path: &TreePath, content: ReplicaNodeContent, mode: u16) {
        self.inodes += 1;
        let node = ReplicaNode {
            content,
            mode,
            modified: self.clock,
            changed: self.clock,
            inode: self.inodes,
            is_shared: false,
            is_mode_shared: false,
        };
        self.nodes.insert(path.clone(), node);
    }

    /// Whether something is below a path.
    pub fn has_below(&self, path: &TreePath) -> bool {
        self.nodes.range(path.clone()..).nth(1).is_some_and(|(next, _)| next.is_below(path))
    }

    /// Paths of an entry and all below it.
    pub fn subtree(&self, path: &TreePath) -> Vec<TreePath> {
        let at_or_below = |(next, _): &(&TreePath, &ReplicaNode)| *next == path || next.is_below(path);
        self.nodes.range(path.clone()..).take_while(at_or_below).map(|(path, _)| path.clone()).collect()
    }

    /// Whether the directory of a path is there.
    pub fn has_parent(&self, path: &TreePath) -> bool {
        let (directory, _) = path.split_name();
        let Some(directory) = directory.strip_suffix(b"/") else { return true };
        TreePath::new(directory).is_ok_and(|directory| {
            self.nodes.get(&directory).is_some_and(|node| node.content == ReplicaNodeContent::Directory)
        })
    }

    /// An entry as `stat` shows it: without a digest.
    pub fn stat(&self, path: &TreePath) -> Option<ReplicaEntry> {
        let node = self.nodes.get(path)?;
        let content = node.content.entry_content(false);
        let basic = EntryMetadata { mode: node.mode, modified: time_stamp(node.modified), ..EntryMetadata::default() };
        let stamp =
            FileStamp { inode: node.inode, modified: time_stamp(node.modified), changed: time_stamp(node.changed) };
        let metadata = ReplicaMetadata { basic, ..ReplicaMetadata::default() };
        Some(ReplicaEntry { content, metadata, stamp: Some(stamp) })
    }

    /// The walk.
    pub fn scan(&self) -> Vec<PathEntry> {
        let entry = |path: &TreePath| Some(PathEntry { path: path.clone(), entry: self.stat(path)? });
        self.nodes.keys().filter_map(entry).collect()
    }

    /// Reads a file, if its stamp is still this one.
    pub fn read(&self, path: &TreePath, stamp: Option<FileStamp>) -> Option<[u8; 32]> {
        match self.nodes.get(path)?.content {
            ReplicaNodeContent::File(contents) if self.stat(path)?.stamp == stamp => Some(digest_of(contents)),
            _ => None,
        }
    }

    /// The clock as a time stamp.
    pub fn now(&self) -> Timestamp {
        time_stamp(self.clock)
    }
}

//! The source: a random tree, the order of its walk, and files that fail or change under the reader.

use haul_lab::Rng;
use haul_proto::entry::{EntryContent, FileVersion, Timestamp};

use crate::content::{FileContent, frame_len};

/// Number of entries in a tree that fills the window.
pub const WIDE_ENTRIES: usize = 18_000;

/// One entry of the tree.
#[derive(Debug)]
pub struct TreeEntry {
    /// Its directory; none for an operand.
    pub parent: Option<usize>,
    /// Its name.
    pub name: Vec<u8>,
    /// From the operand down.
    pub path: Vec<u8>,
    /// Its kind.
    pub what: TreeEntryKind,
    /// Time of last modification.
    pub stamp: Timestamp,
    /// The file's identity and time of last change.
    pub version: FileVersion,
}

/// The kind of an entry.
#[derive(Debug)]
pub enum TreeEntryKind {
    /// A directory.
    Directory,
    /// A link to this.
    Link(Box<[u8]>),
    /// A file.
    File(File),
}

/// A file at the source.
#[derive(Debug)]
pub struct File {
    /// Its present content.
    pub content: FileContent,
    /// All contents so far, the present one included.
    pub versions: Vec<FileContent>,
    /// Its fault.
    pub trouble: Trouble,
    /// Frames that were read of it.
    pub reads: u64,
    /// It was changed, and its time set back: size and time hide that.
    pub secretly_changed: bool,
}

/// A fault of a file at the source.
#[derive(Debug, Clone)]
pub enum Trouble {
    /// None.
    None,
    /// This frame and those behind it cannot be read.
    Unreadable(u64),
    /// Number of reads before a single change of its content.
    Changes(u64, FileContent),
}

/// A step of the walk.
#[derive(Debug, Clone, Copy)]
pub enum Visit {
    /// A directory, before its contents; or any other entry.
    Enter(usize),
    /// A directory, after its contents.
    Leave(usize),
}

/// The source.
#[derive(Debug, Default)]
pub struct SimTree {
    /// Entries; a directory stands before its contents.
    pub nodes: Vec<TreeEntry>,
    /// The walk, depth first.
    pub walk: Vec<Visit>,
}

impl SimTree {
    /// A tree of a few entries, or now and then one that is wider than the window.
    pub fn random(rng: &mut Rng, wide: bool, troubles_per_mille: u64) -> Self {
        let mut tree = Self::default();
        if wide {
            let root = tree.add(rng, None, TreeEntryKind::Directory);
            for _ in 0..WIDE_ENTRIES {
                tree.add(rng, Some(root), file(FileContent::default(), Trouble::None));
            }
            tree.walk.push(Visit::Leave(root));
            return tree;
        }
        let operands = 1 + rng.below(3);
        let most = if rng.chance(100) { 300 } else { 50 };
        let mut left = 1 + rng.below(most);
        for _ in 0..operands {
            tree.grow(rng, None, &mut left, troubles_per_mille, 0);
        }
        tree
    }

    /// Adds an entry and all below it. The recursion is at most 12 deep.
    fn grow(&mut self, rng: &mut Rng, parent: Option<usize>, left: &mut u64, troubles_per_mille: u64, depth: u32) {
        *left = left.saturating_sub(1);
        // Directories at the top and just below: they will have contents.
        let directories = [6, 5, 3][usize::try_from(depth).unwrap_or(2).min(2)];
        match rng.below(10) {
            n if n < directories && depth < 12 => {
                let directory = self.add(rng, parent, TreeEntryKind::Directory);
                while *left > 0 && rng.chance(900) {
                    self.grow(rng, Some(directory), left, troubles_per_mille, depth + 1);
                }
                self.walk.push(Visit::Leave(directory));
            }
            9 => {
                let length = 1 + rng.index(20);
                self.add(rng, parent, TreeEntryKind::Link(vec![b'l'; length].into()));
            }
            _ => {
                let content = FileContent::random(rng);
                let trouble = if rng.chance(troubles_per_mille) { trouble(&content, rng) } else { Trouble::None };
                self.add(rng, parent, file(content, trouble));
            }
        }
    }

    fn add(&mut self, rng: &mut Rng, parent: Option<usize>, what: TreeEntryKind) -> usize {
        let id = self.nodes.len();
        let name = match rng.below(8) {
            0 => [b"\xff\n".as_slice(), id.to_string().as_bytes()].concat(),
            _ => id.to_string().into_bytes(),
        };
        let path = match parent {
            Some(parent) => [self.nodes[parent].path.as_slice(), b"/", &name].concat(),
            None => name.clone(),
        };
        let stamp = Timestamp { seconds: 1_000_000_000 + (rng.number() >> 40).cast_signed(), nanoseconds: 7 };
        let version = FileVersion { device: 1, inode: id as u64, changed: stamp };
        self.nodes.push(TreeEntry { parent, name, path, what, stamp, version });
        self.walk.push(Visit::Enter(id));
        id
    }

    /// Counts a read of a file, and may change its content after that.
    pub fn touch(&mut self, node: usize) {
        let node = &mut self.nodes[node];
        let TreeEntryKind::File(file) = &mut node.what else { return };
        file.reads += 1;
        if let Trouble::Changes(reads, content) = &file.trouble
            && file.reads > *reads
        {
            file.content = content.clone();
            file.versions.push(content.clone());
            file.trouble = Trouble::None;
            node.stamp.seconds += 1;
            node.version.changed.seconds += 1;
        }
    }

    /// Changes between runs: files have new content, or only look like it.
    pub fn pass_time(&mut self, rng: &mut Rng) {
        let remounted = rng.chance(100);
        for node in &mut self.nodes {
            let TreeEntry { what: TreeEntryKind::File(file), stamp, version, .. } = node else { continue };
            version.device += u64::from(remounted);
            let size = file.content.size();
            let content = match rng.below(40) {
                0 => FileContent::random(rng),
                1 | 2 => FileContent::of_size(size, rng),
                // A chmod.
                3 => file.content.clone(),
                _ => continue,
            };
            version.changed.seconds += 1;
            if content == file.content {
                continue;
            }
            // Somebody has put the time back.
            let is_secret = content.size() == size && rng.chance(300);
            file.secretly_changed |= is_secret;
            stamp.seconds += i64::from(!is_secret);
            file.versions.push(content.clone());
            file.content = content;
        }
    }

    /// From now on, every file can be read and stays as it is.
    pub fn calm_down(&mut self) {
        for node in &mut self.nodes {
            if let TreeEntryKind::File(file) = &mut node.what {
                file.trouble = Trouble::None;
            }
        }
    }
}

fn file(content: FileContent, trouble: Trouble) -> TreeEntryKind {
    TreeEntryKind::File(File { versions: vec![content.clone()], content, trouble, reads: 0, secretly_changed: false })
}

fn trouble(content: &FileContent, rng: &mut Rng) -> Trouble {
    match rng.below(3) {
        0 => Trouble::Unreadable(rng.below(6)),
        1 => Trouble::Changes(rng.below(8), FileContent::random(rng)),
        _ => Trouble::Changes(rng.below(4), FileContent::of_size(content.size(), rng)),
    }
}

impl TreeEntry {
    /// The entry's offer.
    pub fn offered_kind(&self) -> EntryContent {
        match &self.what {
            TreeEntryKind::Directory => EntryContent::Directory,
            TreeEntryKind::Link(points_to) => EntryContent::Symlink { points_to: points_to.clone() },
            TreeEntryKind::File(file) => EntryContent::File { size: file.content.size() },
        }
    }

    /// Version data of a large file's offer, for later runs to recognise the file.
    pub fn offered_version(&self) -> Option<FileVersion> {
        let is_large =
            matches!(&self.what, TreeEntryKind::File(file) if file.content.size() > frame_len().pack_file_max());
        is_large.then_some(self.version)
    }
}

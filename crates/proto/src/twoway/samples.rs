//! Entries for tests.

use super::entry::{FileStamp, PathEntry, ReplicaContent, ReplicaEntry, ReplicaMetadata, TreePath};
use crate::entry::{EntryMetadata, Timestamp};

/// A path.
pub(super) fn path(text: &str) -> TreePath {
    TreePath::new(text.as_bytes()).expect("a path")
}

/// A time.
pub(super) fn at(seconds: i64) -> Timestamp {
    Timestamp { seconds, nanoseconds: 0 }
}

fn entry(text: &str, content: ReplicaContent, mode: u16, version: u8) -> PathEntry {
    let modified = at(version.into());
    let metadata = ReplicaMetadata {
        basic: EntryMetadata { mode, modified, ..EntryMetadata::default() },
        ..ReplicaMetadata::default()
    };
    let stamp = Some(FileStamp { inode: 7, modified, changed: modified });
    PathEntry { path: path(text), entry: ReplicaEntry { content, metadata, stamp } }
}

/// A file of this version.
pub(super) fn file(text: &str, version: u8) -> PathEntry {
    entry(text, ReplicaContent::File { size: 5, digest: Some([version; 32]) }, 0o644, version)
}

/// A directory.
pub(super) fn directory(text: &str) -> PathEntry {
    entry(text, ReplicaContent::Directory, 0o755, 1)
}

/// A symbolic link.
pub(super) fn symlink(text: &str, points_to: &str) -> PathEntry {
    entry(text, ReplicaContent::Symlink { points_to: points_to.as_bytes().into() }, 0o777, 1)
}

/// The entry with this mode.
pub(super) fn with_mode(mut entry: PathEntry, mode: u16) -> PathEntry {
    entry.entry.metadata.basic.mode = mode;
    entry
}

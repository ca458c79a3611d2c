//! Entries of a replica, as a walk finds them and as the archive keeps them.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use crate::codec::{Wire, wire_struct};
use crate::encoding::{Decoded, Reader, Writer};
use crate::entry::{EntryMetadata, SpecialFile, Timestamp};
use crate::error::ProtocolError;
use crate::field_codecs::Varint;
use crate::integrity::Digest;
use crate::limits::PATH_MAX;
use crate::path::{Name, escape};

/// A path below a replica's root: names joined by `/`, at least one.
///
/// Paths are ordered as a tree: a directory, then all below it. Names are compared by bytes. Clones share the bytes.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct TreePath(Arc<[u8]>);

impl TreePath {
    /// Checks `bytes` and copies them.
    pub fn new(bytes: &[u8]) -> Decoded<Self> {
        if bytes.len() > PATH_MAX {
            return Err(ProtocolError::OverLimit("a path"));
        }
        for name in bytes.split(|byte| *byte == b'/') {
            Name::check(name).map_err(|_| ProtocolError::Invalid("an invalid name"))?;
        }
        Ok(Self(bytes.into()))
    }

    /// Returns the path of a name in a directory, or in the root.
    pub fn child(directory: Option<&Self>, name: &Name) -> Decoded<Self> {
        let Some(directory) = directory else { return Ok(Self(name.as_bytes().into())) };
        let path = [&directory.0, &b"/"[..], name.as_bytes()].concat();
        if path.len() > PATH_MAX { Err(ProtocolError::OverLimit("a path")) } else { Ok(Self(path.into())) }
    }

    /// Returns the bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether this is a path below `directory`, at any depth.
    pub fn is_below(&self, directory: &Self) -> bool {
        self.0.strip_prefix(&*directory.0).is_some_and(|rest| rest.starts_with(b"/"))
    }

    /// Returns the number of bytes at the beginning that another path has, too.
    pub fn shared_with(&self, other: &Self) -> usize {
        const WORD: usize = size_of::<u64>();
        let (one, two) = (self.0.chunks_exact(WORD), other.0.chunks_exact(WORD));
        let words = one.zip(two).take_while(|(one, two)| one == two).count() * WORD;
        words + self.0[words..].iter().zip(&other.0[words..]).take_while(|(one, two)| one == two).count()
    }

    /// Returns the directories above, outermost first.
    pub fn directories(&self) -> impl Iterator<Item = Self> {
        let slashes = self.0.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        slashes.map(|(at, _)| Self(self.0[..at].into()))
    }

    /// Returns the bytes of the directory, with its slash, and those of the name.
    pub fn split_name(&self) -> (&[u8], &[u8]) {
        self.0.split_at(self.0.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1))
    }
}

impl Ord for TreePath {
    fn cmp(&self, other: &Self) -> Ordering {
        // No name has a NUL, so a slash as zero sorts what is below a directory right behind it.
        let order_of = |byte: &u8| if *byte == b'/' { 0 } else { *byte };
        let shared = self.shared_with(other);
        match (self.0.get(shared), other.0.get(shared)) {
            (Some(one), Some(two)) => order_of(one).cmp(&order_of(two)),
            (one, two) => one.is_some().cmp(&two.is_some()),
        }
    }
}

impl PartialOrd for TreePath {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Wire for TreePath {
    fn encode(&self, out: &mut Writer) {
        out.bytes(&self.0);
    }

    fn decode(reader: &mut Reader<'_>) -> Decoded<Self> {
        Self::new(reader.bytes(PATH_MAX, "a path")?)
    }
}

impl fmt::Display for TreePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&escape(&self.0))
    }
}

impl fmt::Debug for TreePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", escape(&self.0))
    }
}

/// Contents of an entry, by a fingerprint where they are a file's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplicaContent {
    /// A directory; its children are entries of their own.
    Directory,
    /// A regular file.
    File {
        /// Size in bytes.
        size: u64,
        /// BLAKE3 of the contents; `None` where nobody has read them.
        digest: Option<Digest>,
    },
    /// A symbolic link.
    Symlink {
        /// Link target.
        points_to: Box<[u8]>,
    },
    /// A device, FIFO or socket.
    Special(SpecialFile),
}

impl ReplicaContent {
    /// Whether both are the same; `None` where only a missing digest could tell.
    pub fn is_same(&self, other: &Self) -> Option<bool> {
        match (self, other) {
            (Self::File { size: one, .. }, Self::File { size: two, .. }) if one != two => Some(false),
            (Self::File { digest: one, .. }, Self::File { digest: two, .. }) => Some((*one)? == (*two)?),
            _ => Some(self == other),
        }
    }

    /// Whether it is a directory.
    pub fn is_directory(&self) -> bool {
        *self == Self::Directory
    }

    /// Returns the size of a file.
    pub fn file_size(&self) -> Option<u64> {
        if let Self::File { size, .. } = self { Some(*size) } else { None }
    }

    /// Returns size and digest of a file.
    pub fn fingerprint(&self) -> Option<(u64, Digest)> {
        if let Self::File { size, digest: Some(digest) } = self { Some((*size, *digest)) } else { None }
    }
}

/// Metadata of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReplicaMetadata {
    /// Mode, owner and time.
    pub basic: EntryMetadata,
    /// BLAKE3 of the extended attributes; zeros where there are none.
    pub attributes: Digest,
}

/// Seconds within which a file's later change may leave its stamp as it is: the coarsest time of a file system (FAT).
const COARSEST_S: u64 = 2;

wire_struct! {
    /// What shows, together with the size, that a file was not written to (`stat(2)`).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct FileStamp {
        /// `st_ino`.
        pub inode: u64 as Varint,
        /// `st_mtime`, as this side has it.
        pub modified: Timestamp,
        /// `st_ctime`.
        pub changed: Timestamp,
    }
}

impl FileStamp {
    /// Returns the stamp if a later write must show in it. `taken` is this side's clock at the `stat`: a file written
    /// just before may be written again under the same time. A copy has the time of its source, so a write shows.
    pub fn trusted(self, taken: Timestamp) -> Option<Self> {
        let distance_s = self.modified.seconds.abs_diff(taken.seconds);
        (distance_s > COARSEST_S).then_some(self)
    }
}

/// An entry at one side. Of a directory, link or special file the stamp is of no use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicaEntry {
    /// Contents.
    pub content: ReplicaContent,
    /// Metadata.
    pub metadata: ReplicaMetadata,
    /// This side's stamp; `None` where it cannot be trusted or is the other side's business.
    pub stamp: Option<FileStamp>,
}

impl ReplicaEntry {
    /// Returns the part on which both sides can agree.
    pub fn without_stamp(&self) -> Self {
        Self { stamp: None, ..self.clone() }
    }

    /// Returns a file's size and stamp.
    pub fn quick_identity(&self) -> Option<(u64, FileStamp)> {
        Some((self.content.file_size()?, self.stamp?))
    }
}

/// An entry with its path: a record of the archive, or what a walk finds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathEntry {
    /// Path below the root.
    pub path: TreePath,
    /// The entry.
    pub entry: ReplicaEntry,
}

#[cfg(test)]
mod tests {
    use super::super::samples::path;
    use super::*;

    #[test]
    fn a_directory_stands_right_before_what_is_below_it() {
        let mut paths = ["b", "a.txt", "a/b/c", "a", "a-b", "a/b", "a/c", "a!"].map(path);
        paths.sort();
        assert_eq!(paths, ["a", "a/b", "a/b/c", "a/c", "a!", "a-b", "a.txt", "b"].map(path));
        assert!(path("a/b/c").is_below(&path("a")) && !path("a.txt").is_below(&path("a")));
        assert!(!path("a").is_below(&path("a")));
        assert_eq!(path("a/b/c").split_name(), (&b"a/b/"[..], &b"c"[..]));
        assert_eq!(path("a/b/c").directories().collect::<Vec<_>>(), ["a", "a/b"].map(path));
    }

    #[test]
    fn paths_that_leave_the_root_are_refused() {
        for bad in ["", "/a", "a/", "a//b", "../a", "a/./b", "a\0"] {
            assert!(TreePath::new(bad.as_bytes()).is_err(), "{bad:?}");
        }
        assert!(TreePath::new(&[b'a'; PATH_MAX + 1]).is_err());
    }

    #[test]
    fn a_stamp_is_trusted_where_a_write_must_change_it() {
        let at = |seconds| Timestamp { seconds, nanoseconds: 0 };
        let stamp = FileStamp { modified: at(100), changed: at(900), inode: 1 };
        assert_eq!(stamp.trusted(at(102)), None);
        assert_eq!(stamp.trusted(at(98)), None);
        assert_eq!(stamp.trusted(at(103)), Some(stamp));
    }
}

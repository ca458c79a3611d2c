//! Overwrite policy: one table decides about an offered entry, given the existing entry. No system calls.

use crate::codec::wire_enum;
use crate::entry::{EntryContent, SpecialFile, Timestamp};
use crate::sync::{EqualityTest, SyncOptions};

/// The existing entry at the target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExistingEntry {
    /// No entry.
    Absent,
    /// A regular file.
    File {
        /// Size in bytes.
        size: u64,
        /// Time of last modification. It is the source's where the file system keeps times less precisely.
        modified: Timestamp,
    },
    /// A directory.
    Directory,
    /// A symbolic link with its target.
    Symlink(Box<[u8]>),
    /// The same file that the offered entry is a hard link to.
    SameFile,
    /// A device, FIFO or socket.
    Special(SpecialFile),
}

wire_enum! {
    /// Policy for an existing entry.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
    pub enum OverwritePolicy: "overwrite policy" {
        /// Keep equal entries and report differing ones.
        #[default]
        Report = 0,
        /// Keep equal entries and replace differing ones.
        Replace = 1,
        /// Keep any existing entry; the offered entry is not transferred.
        Omit = 2,
        /// Report any existing entry, even an equal one.
        ReportEqual = 3,
        /// As Replace; also replace an entry of another type.
        Follow = 4,
    }
}

/// Rules of the decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OverwriteRules {
    /// Policy for an existing entry.
    pub overwrite: OverwritePolicy,
    /// The test of equality for files.
    pub equal: EqualityTest,
    /// Keep a file with a later modification time than the source's.
    pub update: bool,
    /// Keep a file that is not shorter than the source's.
    pub append: bool,
    /// Create no new entries.
    pub existing_only: bool,
}

impl OverwriteRules {
    /// Combines a controller's options.
    pub fn new(overwrite: OverwritePolicy, sync: &SyncOptions) -> Self {
        let SyncOptions { equal, update, append, existing_only, .. } = *sync;
        Self { overwrite, equal, update, append, existing_only }
    }

    fn replaces(self) -> bool {
        matches!(self.overwrite, OverwritePolicy::Replace | OverwritePolicy::Follow)
    }

    /// Whether an existing file is equal; `None` where only a comparison of contents can decide.
    fn is_equal(self, size: u64, modified: Timestamp, there: u64, since: Timestamp) -> Option<bool> {
        match self.equal {
            EqualityTest::SizeAndTime => Some(size == there && modified == since),
            EqualityTest::Size => Some(size == there),
            EqualityTest::Digest if size == there && size > 0 => None,
            EqualityTest::Digest => Some(size == there),
            EqualityTest::Never => Some(false),
        }
    }
}

/// The decision about an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OverwriteDecision {
    /// Keep the existing entry: equal size and time, the same link, or a directory.
    Keep,
    /// Create the entry.
    Create,
    /// Create the entry under a temporary name, then rename it over the existing one.
    Replace,
    /// Keep the existing entry, whatever it is.
    Omit,
    /// Absent, and `--existing` forbids creating it.
    Pass,
    /// Keep the existing file if its digest is the source's, else replace it.
    Compare,
    /// Remove the existing directory with its contents, then create the entry.
    ReplaceTree,
    /// Keep the existing entry and report the offered one.
    Refuse(OverwriteRefusal),
}

/// Reason for a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OverwriteRefusal {
    /// A differing entry exists, and replacing it was not requested.
    Exists,
    /// An entry exists, and none may.
    ExistsAtAll,
    /// A directory exists; no other type ever replaces it.
    IsDirectory,
    /// A non-directory exists at the location of a directory.
    NotDirectory,
    /// A symbolic link exists at the location of a directory; it is not followed.
    LinkForDirectory,
    /// A device, FIFO or socket exists; it is never replaced.
    IsSpecial,
    /// The name is reserved for haul's unfinished files.
    Reserved,
    /// The source offers an unrequested entry.
    NotAsked,
}

impl OverwriteRefusal {
    /// Returns the error and, on the second line, the remedy.
    pub fn text(self) -> &'static str {
        match self {
            OverwriteRefusal::Exists => "already exists and differs\nuse -f to replace it",
            OverwriteRefusal::ExistsAtAll => "already exists\nuse -f to replace it, or --omit to keep existing files",
            OverwriteRefusal::IsDirectory => "a directory of this name exists\nmove it, or copy to another name",
            OverwriteRefusal::NotDirectory => {
                "an entry of this name exists and is not a directory\nmove it, or copy to another name"
            }
            OverwriteRefusal::LinkForDirectory => {
                "a symbolic link has the directory's name and is not followed\ndelete the link, or copy to its target"
            }
            OverwriteRefusal::Reserved => "the name is reserved for haul's partial files\nrename it",
            OverwriteRefusal::NotAsked => "the source offers another kind of entry than requested",
            OverwriteRefusal::IsSpecial => {
                "a device, FIFO or socket of this name exists and is never replaced\nmove it, or copy to another name"
            }
        }
    }
}

/// Decides about an entry of this type and modification time. Directories are shared; they are replaced only under
/// [`OverwritePolicy::Follow`].
pub fn decide(
    offered: &EntryContent,
    modified: Timestamp,
    existing: &ExistingEntry,
    conduct: OverwriteRules,
) -> OverwriteDecision {
    use ExistingEntry::{Absent, Directory, File, SameFile, Special, Symlink};
    let rule = conduct.overwrite;
    match (offered, existing) {
        (_, Absent) if conduct.existing_only => OverwriteDecision::Pass,
        (_, Absent) => OverwriteDecision::Create,
        (EntryContent::Directory, Directory) => OverwriteDecision::Keep,
        (EntryContent::Directory, _) if rule == OverwritePolicy::Follow => OverwriteDecision::Replace,
        (EntryContent::Directory, Symlink(_)) => OverwriteDecision::Refuse(OverwriteRefusal::LinkForDirectory),
        (EntryContent::Directory, File { .. } | SameFile | Special(_)) => {
            OverwriteDecision::Refuse(OverwriteRefusal::NotDirectory)
        }
        (_, Directory) if rule == OverwritePolicy::Follow => OverwriteDecision::ReplaceTree,
        (_, Directory) => OverwriteDecision::Refuse(OverwriteRefusal::IsDirectory),
        (_, Special(_)) if rule == OverwritePolicy::Omit => OverwriteDecision::Omit,
        (EntryContent::Node(node), Special(there)) if node == there => OverwriteDecision::Keep,
        (_, Special(_)) if rule == OverwritePolicy::Follow => OverwriteDecision::Replace,
        (_, Special(_)) => OverwriteDecision::Refuse(OverwriteRefusal::IsSpecial),
        (EntryContent::HardLink { .. }, SameFile) => OverwriteDecision::Keep,
        (_, File { .. } | SameFile | Symlink(_)) if rule == OverwritePolicy::Omit => OverwriteDecision::Omit,
        (_, File { .. } | SameFile | Symlink(_)) if rule == OverwritePolicy::ReportEqual => {
            OverwriteDecision::Refuse(OverwriteRefusal::ExistsAtAll)
        }
        (EntryContent::File { .. } | EntryContent::HardLink { .. }, File { modified: since, .. })
            if conduct.update && *since > modified =>
        {
            OverwriteDecision::Omit
        }
        (EntryContent::File { size }, File { size: there, modified: since }) => {
            match conduct.is_equal(*size, modified, *there, *since) {
                Some(true) => OverwriteDecision::Keep,
                _ if conduct.append && there >= size => OverwriteDecision::Omit,
                None => OverwriteDecision::Compare,
                Some(false) if conduct.replaces() => OverwriteDecision::Replace,
                Some(false) => OverwriteDecision::Refuse(OverwriteRefusal::Exists),
            }
        }
        // An equal but separate file: it becomes a hard link where files may be replaced.
        (EntryContent::HardLink { size, .. }, File { size: there, modified: since })
            if size == there && *since == modified && rule == OverwritePolicy::Report =>
        {
            OverwriteDecision::Keep
        }
        (EntryContent::Symlink { points_to }, Symlink(there)) if points_to == there => OverwriteDecision::Keep,
        (_, File { .. } | SameFile | Symlink(_)) if conduct.replaces() => OverwriteDecision::Replace,
        (_, File { .. } | SameFile | Symlink(_)) => OverwriteDecision::Refuse(OverwriteRefusal::Exists),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp { seconds: 5, nanoseconds: 7 };

    fn file(size: u64) -> EntryContent {
        EntryContent::File { size }
    }

    fn link(text: &[u8]) -> EntryContent {
        EntryContent::Symlink { points_to: text.into() }
    }

    #[test]
    fn every_row_of_the_table() {
        use OverwriteDecision::{Create, Keep, Refuse, Replace};
        let same = ExistingEntry::File { size: 3, modified: NOW };
        let touched = ExistingEntry::File { size: 3, modified: Timestamp { nanoseconds: 8, ..NOW } };
        let a_link = ExistingEntry::Symlink((*b"x").into());
        let fifo = ExistingEntry::Special(SpecialFile::Fifo);
        let name = |size| EntryContent::HardLink { to: crate::ids::EntryId(0), size };
        let rows: [(EntryContent, &ExistingEntry, OverwriteDecision, OverwriteDecision); 25] = [
            (file(3), &ExistingEntry::Absent, Create, Create),
            (file(3), &same, Keep, Keep),
            (file(4), &same, Refuse(OverwriteRefusal::Exists), Replace),
            (file(3), &touched, Refuse(OverwriteRefusal::Exists), Replace),
            (
                file(3),
                &ExistingEntry::Directory,
                Refuse(OverwriteRefusal::IsDirectory),
                Refuse(OverwriteRefusal::IsDirectory),
            ),
            (file(3), &a_link, Refuse(OverwriteRefusal::Exists), Replace),
            (file(3), &fifo, Refuse(OverwriteRefusal::IsSpecial), Refuse(OverwriteRefusal::IsSpecial)),
            (EntryContent::Directory, &ExistingEntry::Absent, Create, Create),
            (EntryContent::Directory, &ExistingEntry::Directory, Keep, Keep),
            (
                EntryContent::Directory,
                &same,
                Refuse(OverwriteRefusal::NotDirectory),
                Refuse(OverwriteRefusal::NotDirectory),
            ),
            (
                EntryContent::Directory,
                &a_link,
                Refuse(OverwriteRefusal::LinkForDirectory),
                Refuse(OverwriteRefusal::LinkForDirectory),
            ),
            (
                EntryContent::Directory,
                &fifo,
                Refuse(OverwriteRefusal::NotDirectory),
                Refuse(OverwriteRefusal::NotDirectory),
            ),
            (link(b"x"), &a_link, Keep, Keep),
            (link(b"y"), &a_link, Refuse(OverwriteRefusal::Exists), Replace),
            (link(b"y"), &same, Refuse(OverwriteRefusal::Exists), Replace),
            (
                link(b"y"),
                &ExistingEntry::Directory,
                Refuse(OverwriteRefusal::IsDirectory),
                Refuse(OverwriteRefusal::IsDirectory),
            ),
            (EntryContent::Node(SpecialFile::Fifo), &ExistingEntry::Absent, Create, Create),
            (EntryContent::Node(SpecialFile::Fifo), &fifo, Keep, Keep),
            (
                EntryContent::Node(SpecialFile::Socket),
                &fifo,
                Refuse(OverwriteRefusal::IsSpecial),
                Refuse(OverwriteRefusal::IsSpecial),
            ),
            (EntryContent::Node(SpecialFile::Fifo), &same, Refuse(OverwriteRefusal::Exists), Replace),
            (name(3), &ExistingEntry::Absent, Create, Create),
            (name(3), &ExistingEntry::SameFile, Keep, Keep),
            (name(3), &same, Keep, Replace),
            (name(4), &same, Refuse(OverwriteRefusal::Exists), Replace),
            (name(3), &fifo, Refuse(OverwriteRefusal::IsSpecial), Refuse(OverwriteRefusal::IsSpecial)),
        ];
        for (offered, existing, plain, forced) in rows {
            let decide =
                |overwrite| decide(&offered, NOW, existing, OverwriteRules { overwrite, ..OverwriteRules::default() });
            assert_eq!(decide(OverwritePolicy::Report), plain, "{offered:?} onto {existing:?}");
            assert_eq!(decide(OverwritePolicy::Replace), forced, "{offered:?} onto {existing:?} with -f");
            // Follow never refuses an entry.
            let followed = match (forced, existing) {
                (Refuse(_), ExistingEntry::Directory) => OverwriteDecision::ReplaceTree,
                (Refuse(_), _) => Replace,
                (other, _) => other,
            };
            assert_eq!(decide(OverwritePolicy::Follow), followed, "{offered:?} onto {existing:?} of a sync");
            // An existing file, link or special file stays; everything else follows the other rules.
            let (omitted, equal) = match (&offered, existing) {
                (
                    EntryContent::File { .. }
                    | EntryContent::Symlink { .. }
                    | EntryContent::Node(_)
                    | EntryContent::HardLink { .. },
                    ExistingEntry::File { .. } | ExistingEntry::Symlink(_),
                ) => (OverwriteDecision::Omit, Refuse(OverwriteRefusal::ExistsAtAll)),
                (EntryContent::Directory, _) => (plain, plain),
                (_, ExistingEntry::Special(_)) => (OverwriteDecision::Omit, plain),
                _ => (plain, plain),
            };
            assert_eq!(decide(OverwritePolicy::Omit), omitted, "{offered:?} onto {existing:?} with -O");
            assert_eq!(decide(OverwritePolicy::ReportEqual), equal, "{offered:?} onto {existing:?} under bbcp's rule");
        }
    }
    #[test]
    fn the_policy_defines_equality() {
        use OverwriteDecision::{Compare, Create, Keep, Omit, Pass, Replace};
        let newer = Timestamp { seconds: NOW.seconds + 1, ..NOW };
        let older = Timestamp { seconds: NOW.seconds - 1, ..NOW };
        let there = |size, modified| ExistingEntry::File { size, modified };
        let plain = OverwriteRules { overwrite: OverwritePolicy::Follow, ..OverwriteRules::default() };
        let size = OverwriteRules { equal: EqualityTest::Size, ..plain };
        let digest = OverwriteRules { equal: EqualityTest::Digest, ..plain };
        let never = OverwriteRules { equal: EqualityTest::Never, ..plain };
        let update = OverwriteRules { update: true, ..plain };
        let existing_only = OverwriteRules { existing_only: true, ..plain };
        let append = OverwriteRules { append: true, ..plain };
        for (conduct, existing, decision) in [
            (plain, there(3, newer), Replace),
            (size, there(3, newer), Keep),
            (size, there(4, NOW), Replace),
            (digest, there(3, NOW), Compare),
            (digest, there(3, newer), Compare),
            (digest, there(4, NOW), Replace),
            (never, there(3, NOW), Replace),
            (append, there(3, NOW), Keep),
            (append, there(3, newer), Omit),
            (append, there(4, NOW), Omit),
            (append, there(2, NOW), Replace),
            (update, there(4, newer), Omit),
            (update, there(4, NOW), Replace),
            (update, there(4, older), Replace),
            (update, ExistingEntry::Absent, Create),
            (existing_only, ExistingEntry::Absent, Pass),
            (existing_only, there(4, NOW), Replace),
        ] {
            assert_eq!(decide(&file(3), NOW, &existing, conduct), decision, "{conduct:?} {existing:?}");
        }
        let name = EntryContent::HardLink { to: crate::ids::EntryId(0), size: 3 };
        for (existing, decision) in
            [(there(3, newer), Omit), (there(3, older), Replace), (ExistingEntry::SameFile, Keep)]
        {
            assert_eq!(decide(&name, NOW, &existing, update), decision, "{existing:?}");
        }
        assert_eq!(decide(&file(0), NOW, &there(0, newer), digest), Keep, "there is nothing to compare");
        assert_eq!(decide(&EntryContent::Directory, NOW, &ExistingEntry::Absent, existing_only), Pass);
    }
}

//! What becomes of an offered entry, given what stands at its place: one table, no system call.

use crate::entry::{EntryContent, SpecialFile, Timestamp};
use crate::sync::{EqualityTest, SyncOptions};

/// What stands at an entry's place at the target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExistingEntry {
    /// Nothing.
    Absent,
    /// A regular file.
    File {
        /// Bytes.
        size: u64,
        /// Time of last modification; the source's, where the file system cannot keep that more precisely.
        modified: Timestamp,
    },
    /// A directory.
    Directory,
    /// A symbolic link, and what it holds.
    Symlink(Box<[u8]>),
    /// The very file that the entry is to be another name of.
    SameFile,
    /// A device, FIFO or socket.
    Special(SpecialFile),
}

/// What becomes of something that stands in an entry's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OverwritePolicy {
    /// What is the same is kept, and what differs is reported.
    #[default]
    Report,
    /// What is the same is kept, and what differs is replaced.
    Replace,
    /// It stays, whatever it is, and the entry is not needed.
    Omit,
    /// It is reported, also where it is the same.
    ReportEqual,
    /// As Replace, and also what is something else than the source has is replaced by what that has.
    Follow,
}

/// By what it is decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OverwriteRules {
    /// What becomes of what is there.
    pub in_the_way: OverwritePolicy,
    /// What makes a file that is there the same.
    pub equal: EqualityTest,
    /// A file that was modified later than the source's stays.
    pub update: bool,
    /// What is not there is not made.
    pub existing_only: bool,
}

impl OverwriteRules {
    /// What a controller asks for.
    pub fn new(in_the_way: OverwritePolicy, sync: &SyncOptions) -> Self {
        Self { in_the_way, equal: sync.equal, update: sync.update, existing_only: sync.existing_only }
    }

    fn replaces(self) -> bool {
        matches!(self.in_the_way, OverwritePolicy::Replace | OverwritePolicy::Follow)
    }

    /// Whether a file that is there is the same; `None` where only its contents tell.
    fn is_equal(self, size: u64, modified: Timestamp, there: u64, since: Timestamp) -> Option<bool> {
        match self.equal {
            EqualityTest::SizeAndTime => Some(size == there && modified == since),
            EqualityTest::Size => Some(size == there),
            EqualityTest::Digest if size == there && size > 0 => None,
            EqualityTest::Digest => Some(size == there),
        }
    }
}

/// What to do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OverwriteDecision {
    /// It is there already: equal size and time, the same link, or a directory.
    Keep,
    /// Make it.
    Create,
    /// Make it beside what is there, then put it in its place.
    Replace,
    /// Leave what is there, whatever it is.
    Omit,
    /// Nothing is there, and nothing is to be.
    Pass,
    /// Keep it if its digest is the source's, else replace it.
    Compare,
    /// A directory is there: remove it with all that is in it, then make this one.
    ReplaceTree,
    /// Leave what is there and report this entry.
    Refuse(OverwriteRefusal),
}

/// Why an entry is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OverwriteRefusal {
    /// Something else is there, and replacing it was not asked for.
    Exists,
    /// Something is there, and nothing was to be.
    ExistsAtAll,
    /// A directory is there; it is never replaced by something else.
    IsDirectory,
    /// Something that is no directory is where a directory must be.
    NotDirectory,
    /// A symbolic link is where a directory must be; it is not followed.
    LinkForDirectory,
    /// A device, FIFO or socket is there; it is never replaced.
    IsSpecial,
    /// The name is one that haul itself gives to unfinished files.
    Reserved,
    /// The source offers something other than what was asked for.
    NotAsked,
}

impl OverwriteRefusal {
    /// What happened, and on the second line what to do.
    pub fn text(self) -> &'static str {
        match self {
            OverwriteRefusal::Exists => "it exists already and differs\nuse -f to replace it",
            OverwriteRefusal::ExistsAtAll => {
                "it exists already\nuse -f to replace it, or -O to leave what exists as it is"
            }
            OverwriteRefusal::IsDirectory => "a directory of that name is there\nmove it away, or copy to another name",
            OverwriteRefusal::NotDirectory => {
                "something that is not a directory is there\nmove it away, or copy to another name"
            }
            OverwriteRefusal::LinkForDirectory => {
                "a symbolic link stands where the directory must go, and is not followed\nremove the link, or copy to where it points"
            }
            OverwriteRefusal::Reserved => "haul gives such names to files that are not whole yet\ngive it another name",
            OverwriteRefusal::NotAsked => "the source offers something other than what was asked for",
            OverwriteRefusal::IsSpecial => {
                "a device, FIFO or socket is there, and is never replaced\nmove it away, or copy to another name"
            }
        }
    }
}

/// Decides about an entry of this kind and time of modification. Directories are shared, and replaced only where what is
/// there is to follow the source.
pub fn decide(
    offered: &EntryContent,
    modified: Timestamp,
    existing: &ExistingEntry,
    conduct: OverwriteRules,
) -> OverwriteDecision {
    use ExistingEntry::{Absent, Directory, File, SameFile, Special, Symlink};
    let rule = conduct.in_the_way;
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
                None => OverwriteDecision::Compare,
                Some(false) if conduct.replaces() => OverwriteDecision::Replace,
                Some(false) => OverwriteDecision::Refuse(OverwriteRefusal::Exists),
            }
        }
        // A file of its own that is the same: made a name of the other one where files may be replaced.
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
    fn the_whole_table() {
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
            let decide = |in_the_way| {
                decide(&offered, NOW, existing, OverwriteRules { in_the_way, ..OverwriteRules::default() })
            };
            assert_eq!(decide(OverwritePolicy::Report), plain, "{offered:?} onto {existing:?}");
            assert_eq!(decide(OverwritePolicy::Replace), forced, "{offered:?} onto {existing:?} with -f");
            // What is to follow the source is never refused.
            let followed = match (forced, existing) {
                (Refuse(_), ExistingEntry::Directory) => OverwriteDecision::ReplaceTree,
                (Refuse(_), _) => Replace,
                (other, _) => other,
            };
            assert_eq!(decide(OverwritePolicy::Follow), followed, "{offered:?} onto {existing:?} of a sync");
            // Where a file, a link or something special is in the place of one, it stays; all else is as without these rules.
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
    fn what_is_the_same_is_said_by_the_conduct() {
        use OverwriteDecision::{Compare, Create, Keep, Omit, Pass, Replace};
        let newer = Timestamp { seconds: NOW.seconds + 1, ..NOW };
        let older = Timestamp { seconds: NOW.seconds - 1, ..NOW };
        let there = |size, modified| ExistingEntry::File { size, modified };
        let plain = OverwriteRules { in_the_way: OverwritePolicy::Follow, ..OverwriteRules::default() };
        let size = OverwriteRules { equal: EqualityTest::Size, ..plain };
        let digest = OverwriteRules { equal: EqualityTest::Digest, ..plain };
        let update = OverwriteRules { update: true, ..plain };
        let existing_only = OverwriteRules { existing_only: true, ..plain };
        for (conduct, existing, decision) in [
            (plain, there(3, newer), Replace),
            (size, there(3, newer), Keep),
            (size, there(4, NOW), Replace),
            (digest, there(3, NOW), Compare),
            (digest, there(3, newer), Compare),
            (digest, there(4, NOW), Replace),
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

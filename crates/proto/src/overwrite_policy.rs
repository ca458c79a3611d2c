//! What becomes of an offered entry, given what stands at its place: one table, no system call.

use crate::entry::{Kind, Node, Stamp};
use crate::sync::{Equal, SyncRules};

/// What stands at an entry's place at the target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Existing {
    /// Nothing.
    Absent,
    /// A regular file.
    File {
        /// Bytes.
        size: u64,
        /// Time of last modification; the source's, where the file system cannot keep that more precisely.
        modified: Stamp,
    },
    /// A directory.
    Directory,
    /// A symbolic link, and what it holds.
    Symlink(Box<[u8]>),
    /// The very file that the entry is to be another name of.
    SameFile,
    /// A device, FIFO or socket.
    Special(Node),
}

/// What becomes of something that stands in an entry's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum InTheWay {
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
pub struct Conduct {
    /// What becomes of what is there.
    pub in_the_way: InTheWay,
    /// What makes a file that is there the same.
    pub equal: Equal,
    /// A file that was modified later than the source's stays.
    pub update: bool,
    /// What is not there is not made.
    pub existing_only: bool,
}

impl Conduct {
    /// What a controller asks for.
    pub fn new(in_the_way: InTheWay, sync: &SyncRules) -> Self {
        Self { in_the_way, equal: sync.equal, update: sync.update, existing_only: sync.existing_only }
    }

    fn replaces(self) -> bool {
        matches!(self.in_the_way, InTheWay::Replace | InTheWay::Follow)
    }

    /// Whether a file that is there is the same; `None` where only its contents tell.
    fn is_equal(self, size: u64, modified: Stamp, there: u64, since: Stamp) -> Option<bool> {
        match self.equal {
            Equal::SizeAndTime => Some(size == there && modified == since),
            Equal::Size => Some(size == there),
            Equal::Digest if size == there && size > 0 => None,
            Equal::Digest => Some(size == there),
        }
    }
}

/// What to do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
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
    Refuse(Refusal),
}

/// Why an entry is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
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

impl Refusal {
    /// What happened, and on the second line what to do.
    pub fn text(self) -> &'static str {
        match self {
            Refusal::Exists => "it exists already and differs\nuse -f to replace it",
            Refusal::ExistsAtAll => "it exists already\nuse -f to replace it, or -O to leave what exists as it is",
            Refusal::IsDirectory => "a directory of that name is there\nmove it away, or copy to another name",
            Refusal::NotDirectory => {
                "something that is not a directory is there\nmove it away, or copy to another name"
            }
            Refusal::LinkForDirectory => {
                "a symbolic link stands where the directory must go, and is not followed\nremove the link, or copy to where it points"
            }
            Refusal::Reserved => "haul gives such names to files that are not whole yet\ngive it another name",
            Refusal::NotAsked => "the source offers something other than what was asked for",
            Refusal::IsSpecial => {
                "a device, FIFO or socket is there, and is never replaced\nmove it away, or copy to another name"
            }
        }
    }
}

/// Decides about an entry of this kind and time of modification. Directories are shared, and replaced only where what is
/// there is to follow the source.
pub fn decide(offered: &Kind, modified: Stamp, existing: &Existing, conduct: Conduct) -> Decision {
    use Existing::{Absent, Directory, File, SameFile, Special, Symlink};
    let rule = conduct.in_the_way;
    match (offered, existing) {
        (_, Absent) if conduct.existing_only => Decision::Pass,
        (_, Absent) => Decision::Create,
        (Kind::Directory, Directory) => Decision::Keep,
        (Kind::Directory, _) if rule == InTheWay::Follow => Decision::Replace,
        (Kind::Directory, Symlink(_)) => Decision::Refuse(Refusal::LinkForDirectory),
        (Kind::Directory, File { .. } | SameFile | Special(_)) => Decision::Refuse(Refusal::NotDirectory),
        (_, Directory) if rule == InTheWay::Follow => Decision::ReplaceTree,
        (_, Directory) => Decision::Refuse(Refusal::IsDirectory),
        (_, Special(_)) if rule == InTheWay::Omit => Decision::Omit,
        (Kind::Node(node), Special(there)) if node == there => Decision::Keep,
        (_, Special(_)) if rule == InTheWay::Follow => Decision::Replace,
        (_, Special(_)) => Decision::Refuse(Refusal::IsSpecial),
        (Kind::HardLink { .. }, SameFile) => Decision::Keep,
        (_, File { .. } | SameFile | Symlink(_)) if rule == InTheWay::Omit => Decision::Omit,
        (_, File { .. } | SameFile | Symlink(_)) if rule == InTheWay::ReportEqual => {
            Decision::Refuse(Refusal::ExistsAtAll)
        }
        (Kind::File { .. } | Kind::HardLink { .. }, File { modified: since, .. })
            if conduct.update && *since > modified =>
        {
            Decision::Omit
        }
        (Kind::File { size }, File { size: there, modified: since }) => {
            match conduct.is_equal(*size, modified, *there, *since) {
                Some(true) => Decision::Keep,
                None => Decision::Compare,
                Some(false) if conduct.replaces() => Decision::Replace,
                Some(false) => Decision::Refuse(Refusal::Exists),
            }
        }
        // A file of its own that is the same: made a name of the other one where files may be replaced.
        (Kind::HardLink { size, .. }, File { size: there, modified: since })
            if size == there && *since == modified && rule == InTheWay::Report =>
        {
            Decision::Keep
        }
        (Kind::Symlink { points_to }, Symlink(there)) if points_to == there => Decision::Keep,
        (_, File { .. } | SameFile | Symlink(_)) if conduct.replaces() => Decision::Replace,
        (_, File { .. } | SameFile | Symlink(_)) => Decision::Refuse(Refusal::Exists),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Stamp = Stamp { seconds: 5, nanoseconds: 7 };

    fn file(size: u64) -> Kind {
        Kind::File { size }
    }

    fn link(text: &[u8]) -> Kind {
        Kind::Symlink { points_to: text.into() }
    }

    #[test]
    fn the_whole_table() {
        use Decision::{Create, Keep, Refuse, Replace};
        let same = Existing::File { size: 3, modified: NOW };
        let touched = Existing::File { size: 3, modified: Stamp { nanoseconds: 8, ..NOW } };
        let a_link = Existing::Symlink((*b"x").into());
        let fifo = Existing::Special(Node::Fifo);
        let name = |size| Kind::HardLink { to: crate::ids::EntryId(0), size };
        let rows: [(Kind, &Existing, Decision, Decision); 25] = [
            (file(3), &Existing::Absent, Create, Create),
            (file(3), &same, Keep, Keep),
            (file(4), &same, Refuse(Refusal::Exists), Replace),
            (file(3), &touched, Refuse(Refusal::Exists), Replace),
            (file(3), &Existing::Directory, Refuse(Refusal::IsDirectory), Refuse(Refusal::IsDirectory)),
            (file(3), &a_link, Refuse(Refusal::Exists), Replace),
            (file(3), &fifo, Refuse(Refusal::IsSpecial), Refuse(Refusal::IsSpecial)),
            (Kind::Directory, &Existing::Absent, Create, Create),
            (Kind::Directory, &Existing::Directory, Keep, Keep),
            (Kind::Directory, &same, Refuse(Refusal::NotDirectory), Refuse(Refusal::NotDirectory)),
            (Kind::Directory, &a_link, Refuse(Refusal::LinkForDirectory), Refuse(Refusal::LinkForDirectory)),
            (Kind::Directory, &fifo, Refuse(Refusal::NotDirectory), Refuse(Refusal::NotDirectory)),
            (link(b"x"), &a_link, Keep, Keep),
            (link(b"y"), &a_link, Refuse(Refusal::Exists), Replace),
            (link(b"y"), &same, Refuse(Refusal::Exists), Replace),
            (link(b"y"), &Existing::Directory, Refuse(Refusal::IsDirectory), Refuse(Refusal::IsDirectory)),
            (Kind::Node(Node::Fifo), &Existing::Absent, Create, Create),
            (Kind::Node(Node::Fifo), &fifo, Keep, Keep),
            (Kind::Node(Node::Socket), &fifo, Refuse(Refusal::IsSpecial), Refuse(Refusal::IsSpecial)),
            (Kind::Node(Node::Fifo), &same, Refuse(Refusal::Exists), Replace),
            (name(3), &Existing::Absent, Create, Create),
            (name(3), &Existing::SameFile, Keep, Keep),
            (name(3), &same, Keep, Replace),
            (name(4), &same, Refuse(Refusal::Exists), Replace),
            (name(3), &fifo, Refuse(Refusal::IsSpecial), Refuse(Refusal::IsSpecial)),
        ];
        for (offered, existing, plain, forced) in rows {
            let decide = |in_the_way| decide(&offered, NOW, existing, Conduct { in_the_way, ..Conduct::default() });
            assert_eq!(decide(InTheWay::Report), plain, "{offered:?} onto {existing:?}");
            assert_eq!(decide(InTheWay::Replace), forced, "{offered:?} onto {existing:?} with -f");
            // What is to follow the source is never refused.
            let followed = match (forced, existing) {
                (Refuse(_), Existing::Directory) => Decision::ReplaceTree,
                (Refuse(_), _) => Replace,
                (other, _) => other,
            };
            assert_eq!(decide(InTheWay::Follow), followed, "{offered:?} onto {existing:?} of a sync");
            // Where a file, a link or something special is in the place of one, it stays; all else is as without these rules.
            let (omitted, equal) = match (&offered, existing) {
                (
                    Kind::File { .. } | Kind::Symlink { .. } | Kind::Node(_) | Kind::HardLink { .. },
                    Existing::File { .. } | Existing::Symlink(_),
                ) => (Decision::Omit, Refuse(Refusal::ExistsAtAll)),
                (Kind::Directory, _) => (plain, plain),
                (_, Existing::Special(_)) => (Decision::Omit, plain),
                _ => (plain, plain),
            };
            assert_eq!(decide(InTheWay::Omit), omitted, "{offered:?} onto {existing:?} with -O");
            assert_eq!(decide(InTheWay::ReportEqual), equal, "{offered:?} onto {existing:?} under bbcp's rule");
        }
    }
    #[test]
    fn what_is_the_same_is_said_by_the_conduct() {
        use Decision::{Compare, Create, Keep, Omit, Pass, Replace};
        let newer = Stamp { seconds: NOW.seconds + 1, ..NOW };
        let older = Stamp { seconds: NOW.seconds - 1, ..NOW };
        let there = |size, modified| Existing::File { size, modified };
        let plain = Conduct { in_the_way: InTheWay::Follow, ..Conduct::default() };
        let size = Conduct { equal: Equal::Size, ..plain };
        let digest = Conduct { equal: Equal::Digest, ..plain };
        let update = Conduct { update: true, ..plain };
        let existing_only = Conduct { existing_only: true, ..plain };
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
            (update, Existing::Absent, Create),
            (existing_only, Existing::Absent, Pass),
            (existing_only, there(4, NOW), Replace),
        ] {
            assert_eq!(decide(&file(3), NOW, &existing, conduct), decision, "{conduct:?} {existing:?}");
        }
        let name = Kind::HardLink { to: crate::ids::EntryId(0), size: 3 };
        for (existing, decision) in [(there(3, newer), Omit), (there(3, older), Replace), (Existing::SameFile, Keep)] {
            assert_eq!(decide(&name, NOW, &existing, update), decision, "{existing:?}");
        }
        assert_eq!(decide(&file(0), NOW, &there(0, newer), digest), Keep, "there is nothing to compare");
        assert_eq!(decide(&Kind::Directory, NOW, &Existing::Absent, existing_only), Pass);
    }
}

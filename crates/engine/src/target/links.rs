//! Files with several names: the first name that is offered stands for the file, and the others are made when it has
//! it. Of each such file it is remembered where it is, until all its names have come.

use haul_proto::ids::{ByEntry, EntryId};
use haul_proto::manifest::{Entry, Kind, Place};
use haul_proto::need::{Decision, Existing, decide};
use haul_proto::path::Name;
use haul_proto::session::target::{Answer, Parent};
use haul_proto::wire::difference::What;
use rustix::fs::{AtFlags, linkat, renameat, unlinkat};
use rustix::io::Errno;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

use super::examine::Position;
use super::spelling::OTHER_SPELLING;
use super::standing::Standing;
use super::temporary::make_temporary;
use super::{Item, Target};
use crate::audit::Action;
use crate::fs::{Dir, Links, Look, describe};
use crate::worker::lock;

/// Said of another name of a file that is not there.
const NOT_THERE: &str = "the file that it is another name of was not copied";
/// Said of another name of a file at whose first name something else stays.
pub const ANOTHER: &str = "it is another name of a file in whose place something else is, which stays\nrun the same command again without --hard-links";
/// Said where a kernel confines this process without knowing of links.
const NOT_ALLOWED: &str = "a hard link into another directory is not allowed here\nrun the same command without --hard-links, or on Linux 5.19 or later";

/// Files of which more names may come.
#[derive(Default)]
pub struct HardLinks(Mutex<Table>);

#[derive(Default)]
struct Table {
    files: ByEntry<Linked>,
    /// Files that were offered anew: what they are called now, and were at first.
    again: ByEntry<EntryId>,
}

/// A file with several names.
struct Linked {
    dir: Dir,
    name: Name,
    /// Its last name was offered.
    is_fully_named: bool,
    state: State,
}

enum State {
    /// It is on its way, and these names wait for it.
    Growing(Vec<Other>),
    /// That is over.
    Settled(Outcome),
}

/// What came of a file with several names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It has its name.
    There,
    /// A dry run would make it or replace what stands there: no other name at the target is one of it.
    WouldBeNew,
    /// It is not there.
    Failed,
    /// Something else stands at its name, and stays.
    Another,
}

/// Another name of a file.
pub struct Other {
    entry: EntryId,
    dir: Dir,
    name: Name,
    /// Nothing can be there.
    fresh: bool,
    offered: Entry,
}

/// What is to be done about another name.
enum Next {
    /// It waits.
    Nothing,
    Make(Other, Dir, Name, Outcome),
    Fail(Other),
    /// What it would be made a name of is another file.
    LeaveOrFail(Other),
}

impl Next {
    /// Of a name of this file.
    fn of(outcome: Outcome, other: Other, dir: &Dir, name: &Name) -> Self {
        match outcome {
            Outcome::There | Outcome::WouldBeNew => Self::Make(other, dir.clone(), name.clone(), outcome),
            Outcome::Failed => Self::Fail(other),
            Outcome::Another => Self::LeaveOrFail(other),
        }
    }
}

impl Table {
    /// Another name of the file that was offered as `to`.
    fn add(&mut self, to: EntryId, other: Other) -> Next {
        let Some(linked) = self.files.get_mut(&to) else { return Next::Fail(other) };
        match &mut linked.state {
            State::Growing(waiting) => {
                waiting.push(other);
                Next::Nothing
            }
            State::Settled(outcome) => Next::of(*outcome, other, &linked.dir, &linked.name),
        }
    }

    /// The last name of this file was offered: it is forgotten as soon as it is settled.
    fn fully_named(&mut self, entry: EntryId) {
        let Some(linked) = self.files.get_mut(&entry) else { return };
        linked.is_fully_named = true;
        if matches!(linked.state, State::Settled(_)) {
            self.files.remove(&entry);
        }
    }

    /// An entry is settled. What waited for it is to be seen to.
    fn settled(&mut self, entry: EntryId, outcome: Outcome) -> Vec<Next> {
        let key = self.again.remove(&entry).unwrap_or(entry);
        let Some(linked) = self.files.get_mut(&key) else { return Vec::new() };
        let State::Growing(waiting) = &mut linked.state else { return Vec::new() };
        let waiting = std::mem::take(waiting);
        linked.state = State::Settled(outcome);
        let (dir, name) = (linked.dir.clone(), linked.name.clone());
        if linked.is_fully_named {
            self.files.remove(&key);
        }
        waiting.into_iter().map(|other| Next::of(outcome, other, &dir, &name)).collect()
    }
}

impl Target {
    /// Remembers a file of which more names may come. To be called before it is answered.
    pub(super) fn expect_links(&self, entry: EntryId, offered: &Entry) {
        if self.compares() {
            return self.expect_compared_names(entry, offered);
        }
        if let Place::Again(old) = offered.place {
            let mut table = lock(&self.hard_links.0);
            let first = table.again.remove(&old).unwrap_or(old);
            if table.files.contains_key(&first) {
                table.again.insert(entry, first);
            }
            return;
        }
        if offered.further_names().is_none() {
            return;
        }
        let Some((dir, name, _)) = self.place_of_child(&offered.place) else { return };
        let linked = Linked { dir, name, is_fully_named: false, state: State::Growing(Vec::new()) };
        lock(&self.hard_links.0).files.insert(entry, linked);
    }

    /// Forgets files whose last name was offered.
    pub(super) fn forget_fully_named(&self) {
        let entries = self.lock().machine.take_fully_named();
        if self.compares() {
            return self.compared_names.fully_named(&entries);
        }
        let mut table = lock(&self.hard_links.0);
        entries.into_iter().for_each(|entry| table.fully_named(entry));
    }

    /// Where a child goes, and whether nothing can be there.
    fn place_of_child(&self, place: &Place) -> Option<(Dir, Name, bool)> {
        let Place::Child { name, .. } = place else { return None };
        match self.lock().machine.parent(place) {
            Parent::Open(parent) => match &*parent {
                Item::Directory { dir, fresh, .. } => Some((dir.clone(), name.clone(), *fresh)),
                _ => None,
            },
            _ => None,
        }
    }

    /// Answers another name of a file; with what is to be made, once that is answered.
    pub(super) fn answer_link(&self, entry: EntryId, offered: &Entry) -> (Answer<Item>, Option<Other>) {
        match self.place_of_child(&offered.place) {
            Some((_, name, _)) if name.is_reserved() => (Answer::Refused, None),
            Some((dir, name, fresh)) => {
                let other = Other { entry, dir, name, fresh, offered: offered.clone() };
                (Answer::Needed(Arc::new(Item::HardLink)), Some(other))
            }
            None => (Answer::Refused, None),
        }
    }

    /// Makes another name of a file, now or when the file is there.
    pub(super) fn link(&self, other: Other) {
        let Kind::HardLink { to, .. } = other.offered.kind else { return };
        let next = lock(&self.hard_links.0).add(to, other);
        self.make_links(vec![next]);
    }

    /// An entry is settled: names that waited for it are made.
    pub(super) fn settle_links(&self, entry: EntryId, done: bool) {
        self.settle_links_as(entry, if done { Outcome::There } else { Outcome::Failed });
    }

    /// The same of a file of which it is known what stands at its name.
    pub(super) fn settle_links_as(&self, entry: EntryId, outcome: Outcome) {
        if !self.request.kept.hard_links {
            return;
        }
        let next = lock(&self.hard_links.0).settled(entry, outcome);
        self.make_links(next);
    }

    /// Whether something else than an offered file stands at its name, and stays: of that, no other name is made.
    pub(super) fn stays_another(&self, entry: &Entry) -> bool {
        let (Kind::File { size }, Some(_)) = (&entry.kind, entry.further_names()) else { return false };
        let Some((dir, name, fresh)) = self.place_of_child(&entry.place) else { return false };
        let same = Existing::File { size: *size, modified: entry.meta.modified };
        let is_another = |there: Standing| there.existing != same && self.stays(entry, &there);
        if fresh { is_another(Standing::NOTHING) } else { self.standing(&dir, &name, entry).is_ok_and(is_another) }
    }

    /// Whether what stands at a name stays, whatever it is.
    pub(super) fn stays(&self, entry: &Entry, there: &Standing) -> bool {
        let decision = decide(&entry.kind, entry.meta.modified, &there.existing, self.conduct());
        matches!(decision, Decision::Omit | Decision::Pass)
    }

    /// A name of a file at whose first name another one stays: what stands here may stay, too.
    fn leave(&self, other: &Other) -> Result<bool, String> {
        let there =
            if other.fresh { Ok(Standing::NOTHING) } else { self.standing(&other.dir, &other.name, &other.offered) };
        match there {
            Ok(there) if self.stays(&other.offered, &there) => Ok(false),
            Ok(_) => Err(ANOTHER.to_owned()),
            Err(error) => Err(describe(&error)),
        }
    }

    fn make_links(&self, links: Vec<Next>) {
        for next in links {
            let (other, made) = match next {
                Next::Nothing => continue,
                Next::Make(other, dir, name, outcome) => {
                    let made = self.make_hard_link(&other, &dir, &name, outcome);
                    (other, made)
                }
                Next::Fail(other) => (other, Err(NOT_THERE.to_owned())),
                Next::LeaveOrFail(other) => {
                    let left = self.leave(&other);
                    (other, left)
                }
            };
            let done = made.unwrap_or_else(|text| {
                self.fail(self.landing.path(&other.dir.path_of(other.name.as_bytes())), text);
                false
            });
            self.settle(other.entry, done);
        }
    }

    /// Whether it is there now; where it is not, that was told.
    fn make_hard_link(&self, other: &Other, dir: &Dir, name: &Name, outcome: Outcome) -> Result<bool, String> {
        let io = |error: io::Error| match Errno::from_io_error(&error) {
            Some(Errno::XDEV) if dir.identity().device == other.dir.identity().device => NOT_ALLOWED.to_owned(),
            _ => describe(&error),
        };
        let first = (outcome == Outcome::There).then_some((dir, name));
        let there = if other.fresh { Standing::NOTHING } else { self.standing_name(other, first).map_err(io)? };
        if there.existing != Existing::Absent && self.is_spelled_otherwise(&other.dir, &other.name) {
            return Err(OTHER_SPELLING.to_owned());
        }
        let position = Position { inside: true, ..Position::in_directory(other.dir.clone(), other.name.clone()) };
        let decided = match self.decide(&position, &other.offered, &there).map_err(io)? {
            Ok(decided) => decided,
            // What stays, and a name of an earlier copy's file, are not proven to be what the source has.
            Err(answer) => return Ok(matches!(answer, Answer::Settled) && !self.request.sync.source_removes),
        };
        if self.is_dry() {
            if decided.decision == Decision::ReplaceTree {
                self.make_way(&other.dir, &other.name, &other.offered.place).map_err(io)?;
            }
            self.tell_decided(&position, &other.offered, &decided);
            return Ok(true);
        }
        let (from, into) = (dir.fd().map_err(io)?, other.dir.fd().map_err(io)?);
        match decided.decision {
            Decision::Replace => {
                self.back_up(&other.dir, &other.name).map_err(io)?;
                replace(&from, name, &into, &other.name).map_err(|error| io(error.into()))?;
            }
            Decision::ReplaceTree => {
                let removal = self.may_make_way(&other.dir, &other.name, &other.offered.place).map_err(io)?;
                let temporary = link_temporary(&from, name, &into, &other.name).map_err(|error| io(error.into()))?;
                self.replace_directory(&other.dir, &temporary, &other.name, &removal).map_err(io)?;
            }
            Decision::Create => {
                linkat(&*from, name.as_bytes(), &*into, other.name.as_bytes(), AtFlags::empty())
                    .map_err(|error| io(error.into()))?;
            }
            _ => {}
        }
        self.tell_decided(&position, &other.offered, &decided);
        if self.reporter.is_audited() && decided.change.is_some() {
            let path = self.landing.path(&self.relative(&position));
            self.reporter.audit_change(Action::Linked, What::File, &path);
        }
        Ok(true)
    }

    /// What stands where another name of a file goes, whose first name is `first`.
    fn standing_name(&self, other: &Other, first: Option<(&Dir, &Name)>) -> io::Result<Standing> {
        let there = self.standing(&other.dir, &other.name, &other.offered)?;
        match (&there.existing, &there.look, first) {
            (Existing::File { .. }, Some(look), Some((dir, name)))
                if Look::at_name(&*dir.fd()?, name, Links::Itself)?.identity == look.identity =>
            {
                Ok(Standing { existing: Existing::SameFile, look: None })
            }
            _ => Ok(there),
        }
    }
}

/// Makes a link under a temporary name.
fn link_temporary(from: &OwnedFd, name: &Name, into: &OwnedFd, other: &Name) -> Result<Name, Errno> {
    let link = |temporary: &Name| linkat(from, name.as_bytes(), into, temporary.as_bytes(), AtFlags::empty());
    make_temporary(into, other, b"name", link)
}

/// Makes a link beside what is there, and puts it in its place.
fn replace(from: &OwnedFd, name: &Name, into: &OwnedFd, other: &Name) -> Result<(), Errno> {
    let temporary = link_temporary(from, name, into, other)?;
    let renamed = renameat(into, temporary.as_bytes(), into, other.as_bytes());
    // Between two names of one file, renaming does nothing.
    let _ = unlinkat(into, temporary.as_bytes(), AtFlags::empty());
    renamed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::testing::name;
    use haul_proto::manifest::Meta;

    fn other(entry: u64, dir: &Dir) -> Other {
        let kind = Kind::HardLink { to: EntryId(1), size: 3 };
        let place = Place::Child { parent: EntryId(0), name: name("b") };
        let offered = Entry { place, kind, meta: Meta::default(), version: None, more: None };
        Other { entry: EntryId(entry), dir: dir.clone(), name: name("b"), fresh: true, offered }
    }

    fn table(dir: &Dir) -> Table {
        let mut table = Table::default();
        let state = State::Growing(Vec::new());
        let linked = Linked { dir: dir.clone(), name: name("a"), is_fully_named: false, state };
        table.files.insert(EntryId(1), linked);
        table
    }

    #[test]
    fn names_wait_for_their_file_and_no_longer() {
        let temp = tempfile::tempdir().unwrap();
        let dir = Dir::open_root(temp.path()).unwrap();
        let mut table = table(&dir);
        assert!(matches!(table.add(EntryId(1), other(2, &dir)), Next::Nothing));
        assert!(table.settled(EntryId(9), Outcome::There).is_empty());
        let next = table.settled(EntryId(1), Outcome::There);
        assert!(matches!(&next[..], [Next::Make(Other { entry: EntryId(2), .. }, ..)]));
        assert!(table.settled(EntryId(1), Outcome::Failed).is_empty());
        assert!(matches!(table.add(EntryId(1), other(3, &dir)), Next::Make(..)));
        assert!(matches!(table.add(EntryId(1), other(4, &dir)), Next::Make(..)));
        assert_eq!(table.files.len(), 1);
        table.fully_named(EntryId(1));
        assert!(table.files.is_empty());
        assert!(matches!(table.add(EntryId(1), other(5, &dir)), Next::Fail(_)));
    }

    #[test]
    fn names_of_a_file_that_fails_fail() {
        let temp = tempfile::tempdir().unwrap();
        let dir = Dir::open_root(temp.path()).unwrap();
        let mut table = table(&dir);
        assert!(matches!(table.add(EntryId(1), other(2, &dir)), Next::Nothing));
        table.again.insert(EntryId(7), EntryId(1));
        table.fully_named(EntryId(1));
        assert!(matches!(&table.settled(EntryId(7), Outcome::Failed)[..], [Next::Fail(_)]));
        assert!(table.files.is_empty() && table.again.is_empty());
    }
}

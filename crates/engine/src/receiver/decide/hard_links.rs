//! Files with several names: the first name that is offered stands for the file, and the others are made when it has
//! it. Of each such file it is remembered where it is, until all its names have come.

use crate::receiver::decide::EntryDecider;
use crate::receiver::decide::link_tracker::LinkTracker;
use crate::receiver::finisher::EntryFinisher;
use haul_proto::entry::EntryKind;
use haul_proto::entry::{Entry, EntryContent, EntryLocation};
use haul_proto::error::ProtocolError;
use haul_proto::hard_links::LinkedBytes;
use haul_proto::ids::{ByEntry, EntryId};
use haul_proto::overwrite_policy::{ExistingEntry, OverwriteDecision, decide};
use haul_proto::path::Name;
use haul_proto::session::step::{EntryAnswer, ParentDirectory};
use haul_proto::session::target;
use rustix::fs::{AtFlags, linkat, renameat, unlinkat};
use rustix::io::Errno;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

use super::first_names::{FirstName, FirstNames};
use crate::fs::{Dir, FileStat, FollowLinks};
use crate::policy::audit::AuditAction;
use crate::receiver::ReceiverEntry;
use crate::receiver::place::case_folding::OTHER_SPELLING;
use crate::receiver::place::entry_position::EntryPosition;
use crate::receiver::place::existing_entry::ExistingStat;
use crate::receiver::place::temp_files::make_temporary;
use crate::sys::describe::describe;
use crate::sys::sync::lock;

/// Said of another name of a file that is not there.
const NOT_THERE: &str = "the file that it is another name of was not copied";
/// Said of another name of a file at whose first name something else stays.
pub const ANOTHER: &str = "it is another name of a file in whose place something else is, which stays\nrun the same command again without --hard-links";
/// Said where a kernel confines this process without knowing of links.
const NOT_ALLOWED: &str = "a hard link into another directory is not allowed here\nrun the same command without --hard-links, or on Linux 5.19 or later";

/// Files of which more names may come.
#[derive(Default)]
pub struct HardLinks(Mutex<LinkTable>);

#[derive(Default)]
struct LinkTable {
    /// What they count, and the directories that they are in.
    bytes: LinkedBytes<Dir>,
    files: FirstNames,
    /// The directories of files that count no more: on their way, or in the Offer in hand.
    ending: ByEntry<Dir>,
    /// Names that wait for a file that is on its way, by its entry.
    waiting: ByEntry<Vec<OtherLinkName>>,
    /// Files that were offered anew: what they are called now, and were at first.
    again: ByEntry<EntryId>,
}

/// A file that is on its way; otherwise, the state is that of its [`LinkOutcome`].
const GROWING: u8 = 0;

/// What came of a file with several names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum LinkOutcome {
    /// It has its name.
    There = GROWING + 1,
    /// A dry run would make it or replace what stands there: no other name at the target is one of it.
    WouldBeNew,
    /// It is not there.
    Failed,
    /// Something else stands at its name, and stays.
    Another,
}

/// Another name of a file.
pub struct OtherLinkName {
    entry: EntryId,
    dir: Dir,
    name: Name,
    /// Nothing can be there.
    fresh: bool,
    offered: Entry,
}

/// What is to be done about another name.
enum LinkStep {
    /// It waits.
    Nothing,
    Make(OtherLinkName, Dir, Name, LinkOutcome),
    Fail(OtherLinkName),
    /// What it would be made a name of is another file.
    LeaveOrFail(OtherLinkName),
}

impl LinkOutcome {
    /// Of a file in this state; `None` where it is on its way.
    fn of(state: u8) -> Option<Self> {
        [Self::There, Self::WouldBeNew, Self::Failed, Self::Another].into_iter().find(|outcome| *outcome as u8 == state)
    }
}

impl LinkStep {
    /// Of a name of this file.
    fn of(outcome: LinkOutcome, other: OtherLinkName, first: Option<(Dir, Name)>) -> Self {
        match (outcome, first) {
            (LinkOutcome::There | LinkOutcome::WouldBeNew, Some((dir, name))) => Self::Make(other, dir, name, outcome),
            (LinkOutcome::Another, Some(_)) => Self::LeaveOrFail(other),
            _ => Self::Fail(other),
        }
    }
}

impl LinkTable {
    /// Counts the files and names of an Offer.
    fn count(
        &mut self,
        first: EntryId,
        entries: &[Entry],
        machine: &target::TargetSession<ReceiverEntry>,
    ) -> Result<(), ProtocolError> {
        for (id, entry) in (first.0..).map(EntryId).zip(entries) {
            if let EntryContent::HardLink { to, .. } = entry.kind {
                self.count_name(to);
            }
            let (Some(left), EntryLocation::Child { parent, name }) = (entry.further_names(), &entry.place) else {
                continue;
            };
            if !matches!(entry.kind, EntryContent::File { .. }) {
                continue;
            }
            if !self.bytes.add(name.as_bytes().len(), machine.directories_from(*parent)) {
                return Err(ProtocolError::OverLimit("files of which more names may come"));
            }
            let left = u32::try_from(left).unwrap_or(u32::MAX);
            self.files.add(id, &FirstName { parent: *parent, left, due: 0, state: GROWING, name: name.clone() });
        }
        Ok(())
    }

    /// One more name of a file was offered.
    fn count_name(&mut self, to: EntryId) {
        let counted = self.files.change(to, |first| {
            first.due = first.due.saturating_add(1);
            let is_last = first.left == 1;
            first.left = first.left.saturating_sub(1);
            is_last.then(|| (first.name.as_bytes().len(), first.parent))
        });
        if let Some(Some((name_len, parent))) = counted {
            self.ending.extend(self.bytes.held(parent).map(|dir| (to, dir.clone())));
            self.bytes.remove(name_len, parent);
        }
    }

    /// Keeps the directory of a file that was counted.
    fn hold(&mut self, entry: EntryId, dir: Dir) {
        let Some(first) = self.files.get(entry) else { return };
        match first.left {
            0 => drop(self.ending.insert(entry, dir)),
            _ => self.bytes.hold(first.parent, dir),
        }
    }

    /// Where the first name of a file is; `None` where its directory was refused.
    fn place(&self, entry: EntryId) -> Option<(Dir, Name)> {
        let first = self.files.get(entry)?;
        let dir = self.ending.get(&entry).or_else(|| self.bytes.held(first.parent))?;
        Some((dir.clone(), first.name))
    }

    /// Another name of the file that was offered as `to`.
    fn add(&mut self, to: EntryId, other: OtherLinkName) -> LinkStep {
        let Some(first) = self.files.get(to) else { return LinkStep::Fail(other) };
        match LinkOutcome::of(first.state) {
            Some(outcome) => LinkStep::of(outcome, other, self.place(to)),
            None => {
                self.waiting.entry(to).or_default().push(other);
                LinkStep::Nothing
            }
        }
    }

    /// An entry is settled. What waited for it is to be seen to.
    fn settled(&mut self, entry: EntryId, outcome: LinkOutcome) -> Vec<LinkStep> {
        let key = self.again.remove(&entry).unwrap_or(entry);
        let was_growing = |first: &mut FirstName| {
            let was_growing = first.state == GROWING;
            if was_growing {
                first.state = outcome as u8;
            }
            was_growing
        };
        if self.files.change(key, was_growing) != Some(true) {
            return Vec::new();
        }
        let (waiting, place) = (self.waiting.remove(&key).unwrap_or_default(), self.place(key));
        self.forget_if_over(key);
        waiting.into_iter().map(|other| LinkStep::of(outcome, other, place.clone())).collect()
    }

    /// A name that was counted was seen to.
    fn seen_to(&mut self, to: EntryId) {
        let _ = self.files.change(to, |first| first.due = first.due.saturating_sub(1));
        self.forget_if_over(to);
    }

    /// Forgets a file that is settled and has all of its names.
    fn forget_if_over(&mut self, entry: EntryId) {
        if let Some(FirstName { left: 0, due: 0, state: 1.., .. }) = self.files.get(entry) {
            self.files.remove(entry);
            self.ending.remove(&entry);
        }
    }
}

impl EntryDecider {
    /// Counts the files of an Offer of which more names may come, and names of such files. To be called before they are
    /// answered.
    pub(crate) fn count_links(&self, first: EntryId, entries: &[Entry]) -> Result<(), ProtocolError> {
        if !self.job.request.kept.hard_links {
            return Ok(());
        }
        let state = self.session.lock();
        lock(&self.links.hard_links.0).count(first, entries, &state.machine)
    }

    /// Remembers where a file is of which more names may come. To be called before it is answered.
    pub(crate) fn expect_links(&self, entry: EntryId, offered: &Entry) {
        if let EntryLocation::Again(old) = offered.place {
            let mut table = lock(&self.links.hard_links.0);
            let first = table.again.remove(&old).unwrap_or(old);
            if table.files.get(first).is_some() {
                table.again.insert(entry, first);
            }
            return;
        }
        if offered.further_names().is_none() {
            return;
        }
        let dir = match self.job.compares() {
            true => self.comparer.compared_place(&offered.place).map(|(dir, _)| dir),
            false => self.place_of_child(&offered.place).map(|(dir, ..)| dir),
        };
        let mut table = lock(&self.links.hard_links.0);
        if let Some(dir) = dir {
            table.hold(entry, dir);
        }
        if self.job.compares() {
            // Nothing is made: nothing waits.
            table.settled(entry, LinkOutcome::There);
        }
    }

    /// Where a child goes, and whether nothing can be there.
    fn place_of_child(&self, place: &EntryLocation) -> Option<(Dir, Name, bool)> {
        let EntryLocation::Child { name, .. } = place else { return None };
        match self.session.lock().machine.parent(place) {
            ParentDirectory::Open(parent) => match &*parent {
                ReceiverEntry::Directory { dir, fresh, .. } => Some((dir.clone(), name.clone(), *fresh)),
                _ => None,
            },
            _ => None,
        }
    }

    /// Answers another name of a file; with what is to be made, once that is answered.
    pub(crate) fn answer_link(
        &self,
        entry: EntryId,
        offered: &Entry,
    ) -> (EntryAnswer<ReceiverEntry>, Option<OtherLinkName>) {
        match self.place_of_child(&offered.place) {
            Some((_, name, _)) if name.is_reserved() => (EntryAnswer::Refused, None),
            Some((dir, name, fresh)) => {
                let other = OtherLinkName { entry, dir, name, fresh, offered: offered.clone() };
                (EntryAnswer::Needed(Arc::new(ReceiverEntry::HardLink)), Some(other))
            }
            None => (EntryAnswer::Refused, None),
        }
    }

    /// Whether something else than an offered file stands at its name, and stays: of that, no other name is made.
    pub(crate) fn stays_another(&self, entry: &Entry) -> bool {
        let (EntryContent::File { size }, Some(_)) = (&entry.kind, entry.further_names()) else { return false };
        let Some((dir, name, fresh)) = self.place_of_child(&entry.place) else { return false };
        let same = ExistingEntry::File { size: *size, modified: entry.meta.modified };
        let is_another = |there: ExistingStat| there.existing != same && self.stays(entry, &there);
        if fresh {
            is_another(ExistingStat::NOTHING)
        } else {
            self.places.standing(&dir, &name, entry).is_ok_and(is_another)
        }
    }

    /// Whether what stands at a name stays, whatever it is.
    pub(crate) fn stays(&self, entry: &Entry, there: &ExistingStat) -> bool {
        let decision = decide(&entry.kind, entry.meta.modified, &there.existing, self.job.conduct());
        matches!(decision, OverwriteDecision::Omit | OverwriteDecision::Pass)
    }

    /// A name of a file at whose first name another one stays: what stands here may stay, too.
    fn leave(&self, other: &OtherLinkName) -> Result<bool, String> {
        let there = if other.fresh {
            Ok(ExistingStat::NOTHING)
        } else {
            self.places.standing(&other.dir, &other.name, &other.offered)
        };
        match there {
            Ok(there) if self.stays(&other.offered, &there) => Ok(false),
            Ok(_) => Err(ANOTHER.to_owned()),
            Err(error) => Err(describe(&error)),
        }
    }

    /// Whether it is there now; where it is not, that was told.
    fn make_hard_link(
        &self,
        other: &OtherLinkName,
        dir: &Dir,
        name: &Name,
        outcome: LinkOutcome,
    ) -> Result<bool, String> {
        let io = |error: io::Error| match Errno::from_io_error(&error) {
            Some(Errno::XDEV) if dir.identity().device == other.dir.identity().device => NOT_ALLOWED.to_owned(),
            _ => describe(&error),
        };
        let first = (outcome == LinkOutcome::There).then_some((dir, name));
        let there = if other.fresh { ExistingStat::NOTHING } else { self.standing_name(other, first).map_err(io)? };
        if there.existing != ExistingEntry::Absent && self.places.is_spelled_otherwise(&other.dir, &other.name) {
            return Err(OTHER_SPELLING.to_owned());
        }
        let position =
            EntryPosition { inside: true, ..EntryPosition::in_directory(other.dir.clone(), other.name.clone()) };
        let decided = match self.decide(&position, &other.offered, &there).map_err(io)? {
            Ok(decided) => decided,
            // What stays, and a name of an earlier copy's file, are not proven to be what the source has.
            Err(answer) => return Ok(matches!(answer, EntryAnswer::Settled) && !self.job.request.sync.source_removes),
        };
        if self.job.is_dry() {
            if decided.decision == OverwriteDecision::ReplaceTree {
                self.removals.make_way(&other.dir, &other.name, &other.offered.place).map_err(io)?;
            }
            self.job.tell_decided(&position, &other.offered, &decided);
            return Ok(true);
        }
        let (from, into) = (dir.fd().map_err(io)?, other.dir.fd().map_err(io)?);
        match decided.decision {
            OverwriteDecision::Replace => {
                self.removals.back_up(&other.dir, &other.name).map_err(io)?;
                replace(&from, name, &into, &other.name).map_err(|error| io(error.into()))?;
            }
            OverwriteDecision::ReplaceTree => {
                let removal = self.removals.may_make_way(&other.dir, &other.name, &other.offered.place).map_err(io)?;
                let temporary = link_temporary(&from, name, &into, &other.name).map_err(|error| io(error.into()))?;
                self.removals.replace_directory(&other.dir, &temporary, &other.name, &removal).map_err(io)?;
            }
            OverwriteDecision::Create => {
                linkat(&*from, name.as_bytes(), &*into, other.name.as_bytes(), AtFlags::empty())
                    .map_err(|error| io(error.into()))?;
            }
            _ => {}
        }
        self.job.tell_decided(&position, &other.offered, &decided);
        if self.job.reporter.is_audited() && decided.change.is_some() {
            let path = self.job.landing.path(&self.job.relative(&position));
            self.job.reporter.audit_change(AuditAction::Linked, EntryKind::File, &path);
        }
        Ok(true)
    }

    /// What stands where another name of a file goes, whose first name is `first`.
    fn standing_name(&self, other: &OtherLinkName, first: Option<(&Dir, &Name)>) -> io::Result<ExistingStat> {
        let there = self.places.standing(&other.dir, &other.name, &other.offered)?;
        match (&there.existing, &there.look, first) {
            (ExistingEntry::File { .. }, Some(look), Some((dir, name)))
                if FileStat::at_name(&*dir.fd()?, name, FollowLinks::Itself)?.identity == look.identity =>
            {
                Ok(ExistingStat { existing: ExistingEntry::SameFile, look: None })
            }
            _ => Ok(there),
        }
    }
}

impl LinkTracker {
    /// Where the first name of a file is that was offered before.
    pub(crate) fn first_name(&self, entry: EntryId) -> Option<(Dir, Name)> {
        lock(&self.hard_links.0).place(entry)
    }

    /// The names of an Offer were seen to.
    pub(crate) fn links_seen_to(&self, entries: &[Entry]) {
        for entry in entries {
            if let EntryContent::HardLink { to, .. } = entry.kind {
                lock(&self.hard_links.0).seen_to(to);
            }
        }
    }
}

impl EntryFinisher {
    /// Makes another name of a file, now or when the file is there.
    pub(crate) fn link(&self, other: OtherLinkName) {
        let EntryContent::HardLink { to, .. } = other.offered.kind else { return };
        let next = lock(&self.links.hard_links.0).add(to, other);
        self.make_links(vec![next]);
    }

    /// An entry is settled: names that waited for it are made.
    pub(crate) fn settle_links(&self, entry: EntryId, done: bool) {
        self.settle_links_as(entry, if done { LinkOutcome::There } else { LinkOutcome::Failed });
    }

    /// The same of a file of which it is known what stands at its name.
    pub(crate) fn settle_links_as(&self, entry: EntryId, outcome: LinkOutcome) {
        if !self.job.request.kept.hard_links {
            return;
        }
        let next = lock(&self.links.hard_links.0).settled(entry, outcome);
        self.make_links(next);
    }

    fn make_links(&self, links: Vec<LinkStep>) {
        for next in links {
            let (other, made) = match next {
                LinkStep::Nothing => continue,
                LinkStep::Make(other, dir, name, outcome) => {
                    let made = self.decider.make_hard_link(&other, &dir, &name, outcome);
                    (other, made)
                }
                LinkStep::Fail(other) => (other, Err(NOT_THERE.to_owned())),
                LinkStep::LeaveOrFail(other) => {
                    let left = self.decider.leave(&other);
                    (other, left)
                }
            };
            let done = made.unwrap_or_else(|text| {
                self.job.fail(self.job.landing.path(&other.dir.path_of(other.name.as_bytes())), text);
                false
            });
            self.settle(other.entry, done);
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
    use haul_proto::entry::EntryMetadata;
    use haul_proto::entry_extras::EntryExtras;
    use haul_proto::integrity::FrameLen;
    use haul_proto::limits::{FRAME_MIN, LINKED_FILES_BYTES_MAX};
    use haul_proto::wire::message::SourceMessage;

    fn entry(place: EntryLocation, kind: EntryContent, names: Option<u64>) -> Entry {
        let more = names.map(|names| Box::new(EntryExtras { names: Some(names), ..EntryExtras::default() }));
        Entry { place, kind, meta: EntryMetadata::default(), version: None, more }
    }

    fn below(parent: u64, text: &str) -> EntryLocation {
        EntryLocation::Child { parent: EntryId(parent), name: name(text) }
    }

    fn link(to: u64) -> Entry {
        entry(below(0, "b"), EntryContent::HardLink { to: EntryId(to), size: 3 }, None)
    }

    fn other(entry: u64, dir: &Dir) -> OtherLinkName {
        OtherLinkName { entry: EntryId(entry), dir: dir.clone(), name: name("b"), fresh: true, offered: link(1) }
    }

    /// A table, and what has offered directory 0 and file 1 with so many names.
    fn table(dir: &Dir, names: u64) -> (LinkTable, target::TargetSession<ReceiverEntry>) {
        let mut machine = target::TargetSession::new(FrameLen::new(FRAME_MIN).unwrap());
        let entries = vec![
            entry(EntryLocation::Operand(0), EntryContent::Directory, None),
            entry(below(0, "a"), EntryContent::File { size: 3 }, Some(names)),
        ];
        machine.handle(SourceMessage::Offer { first: EntryId(0), entries: entries.clone() }).unwrap();
        let mut table = LinkTable::default();
        table.count(EntryId(0), &entries, &machine).unwrap();
        table.hold(EntryId(1), dir.clone());
        (table, machine)
    }

    /// Offers another name, as an Offer of its own.
    fn offer(table: &mut LinkTable, machine: &target::TargetSession<ReceiverEntry>, id: u64, dir: &Dir) -> LinkStep {
        table.count(EntryId(id), &[link(1)], machine).unwrap();
        let next = table.add(EntryId(1), other(id, dir));
        table.seen_to(EntryId(1));
        next
    }

    fn is_empty(table: &LinkTable) -> bool {
        table.bytes.bytes() == 0 && table.files.is_empty() && table.ending.is_empty() && table.waiting.is_empty()
    }

    #[test]
    fn names_wait_for_their_file_and_no_longer() {
        let temp = tempfile::tempdir().unwrap();
        let dir = Dir::open_root(temp.path()).unwrap();
        let (mut table, machine) = table(&dir, 4);
        assert!(matches!(offer(&mut table, &machine, 2, &dir), LinkStep::Nothing));
        assert!(table.settled(EntryId(9), LinkOutcome::There).is_empty());
        let next = table.settled(EntryId(1), LinkOutcome::There);
        assert!(matches!(&next[..], [LinkStep::Make(OtherLinkName { entry: EntryId(2), .. }, ..)]));
        assert!(table.settled(EntryId(1), LinkOutcome::Failed).is_empty());
        assert!(matches!(offer(&mut table, &machine, 3, &dir), LinkStep::Make(..)));
        assert!(!is_empty(&table));
        assert!(matches!(offer(&mut table, &machine, 4, &dir), LinkStep::Make(..)));
        assert!(is_empty(&table));
        assert!(matches!(offer(&mut table, &machine, 5, &dir), LinkStep::Fail(_)));
    }

    #[test]
    fn names_of_a_file_that_fails_fail() {
        let temp = tempfile::tempdir().unwrap();
        let dir = Dir::open_root(temp.path()).unwrap();
        let (mut table, machine) = table(&dir, 3);
        assert!(matches!(offer(&mut table, &machine, 2, &dir), LinkStep::Nothing));
        table.again.insert(EntryId(7), EntryId(1));
        assert!(matches!(&table.settled(EntryId(7), LinkOutcome::Failed)[..], [LinkStep::Fail(_)]));
        assert!(matches!(offer(&mut table, &machine, 3, &dir), LinkStep::Fail(_)));
        assert!(is_empty(&table) && table.again.is_empty());
    }

    #[test]
    fn all_names_of_a_file_in_one_offer_are_made() {
        let temp = tempfile::tempdir().unwrap();
        let dir = Dir::open_root(temp.path()).unwrap();
        let (mut table, machine) = table(&dir, 3);
        table.count(EntryId(2), &[link(1), link(1)], &machine).unwrap();
        assert_eq!(table.bytes.bytes(), 0, "a source counts it no more");
        assert!(matches!(table.add(EntryId(1), other(2, &dir)), LinkStep::Nothing));
        assert_eq!(table.settled(EntryId(1), LinkOutcome::There).len(), 1);
        assert!(matches!(table.add(EntryId(1), other(3, &dir)), LinkStep::Make(..)));
        (0..2).for_each(|_| table.seen_to(EntryId(1)));
        assert!(is_empty(&table));
    }

    #[test]
    fn a_source_that_exceeds_the_bytes_commits_a_fault() {
        let temp = tempfile::tempdir().unwrap();
        let dir = Dir::open_root(temp.path()).unwrap();
        let (mut table, machine) = table(&dir, 3);
        let file = [entry(below(0, &"n".repeat(255)), EntryContent::File { size: 3 }, Some(2))];
        let mut ids = (2..).map(EntryId);
        let fault = ids.find_map(|id| table.count(id, &file, &machine).err()).unwrap();
        assert_eq!(fault, ProtocolError::OverLimit("files of which more names may come"));
        assert!(table.bytes.bytes() > LINKED_FILES_BYTES_MAX - 1000);
        let single = [entry(below(0, "single"), EntryContent::File { size: 3 }, None)];
        assert!(table.count(ids.next().unwrap(), &single, &machine).is_ok());
    }
}

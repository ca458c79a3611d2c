//! Files with hard links: the first offered name represents the file, and the others are created when it is complete.
//! The location of each such file is remembered until all its names have been offered.

use std::io;
use std::sync::Mutex;

use haul_base::sys::sync::lock;
use haul_proto::entry::{Entry, EntryContent, EntryLocation};
use haul_proto::error::ProtocolError;
use haul_proto::hard_links::LinkedBytes;
use haul_proto::ids::{ByEntry, EntryId};
use haul_proto::path::Name;
use haul_proto::session::target;

use super::first_names::{FirstName, FirstNames};
use crate::fs::{Dir, FileIdentity};
use crate::receiver::entry::ReceiverEntry;
use crate::receiver::links::LinkTracker;
use crate::receiver::place::entry_position::TreeReplacement;
use crate::receiver::place::error::FileError;

/// Files with names still to be offered.
#[derive(Default)]
pub struct HardLinks(pub(crate) Mutex<LinkTable>);

#[derive(Default)]
pub(crate) struct LinkTable {
    /// Memory use, and the parent directories.
    bytes: LinkedBytes<Dir>,
    pub(crate) files: FirstNames,
    /// Directories of files that no longer count: in transfer, or in the current Offer.
    ending: ByEntry<Dir>,
    /// Names that wait for an incomplete file, by its entry.
    waiting: ByEntry<Vec<OtherLinkName>>,
    /// Files offered again: present entry to first entry.
    pub(crate) again: ByEntry<EntryId>,
    /// Further names in the current Offer, by the file's entry.
    offered: ByEntry<Vec<EntryLocation>>,
    /// The entry that is being answered.
    pub(crate) current: Option<EntryId>,
}

/// State of an incomplete file; other states are those of [`LinkOutcome`].
const GROWING: u8 = 0;

/// The outcome of a file with hard links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum LinkOutcome {
    /// It has its final name.
    There = GROWING + 1,
    /// A dry run would create or replace it, so no other name at the target refers to it.
    WouldBeNew,
    /// It failed.
    Failed,
    /// Another entry keeps its name.
    Another,
}

/// A hard link to create.
pub struct OtherLinkName {
    pub(crate) entry: EntryId,
    pub(crate) dir: Dir,
    pub(crate) name: Name,
    /// Its directory is new, so nothing exists under its name.
    pub(crate) fresh: bool,
    pub(crate) offered: Entry,
    /// With `--max-delete`: how to remove a directory in its place, or why it stays. Decided when the name is offered.
    pub(crate) removal: Option<Result<TreeReplacement, FileError>>,
}

/// The first name of a file, and the file's identity.
#[derive(Clone)]
pub(crate) struct FirstLink {
    pub(crate) dir: Dir,
    pub(crate) name: Name,
    /// `None` if no file was seen under this name.
    pub(crate) identity: Option<FileIdentity>,
}

/// The next step for a hard link.
pub(crate) enum LinkStep {
    /// Wait for the file.
    Nothing,
    Make(OtherLinkName, FirstLink, LinkOutcome),
    Fail(OtherLinkName),
    /// Another file has the first name: keep the existing entry, or fail.
    LeaveOrFail(OtherLinkName),
}

impl LinkOutcome {
    /// The outcome in this state; `None` for an incomplete file.
    fn of(state: u8) -> Option<Self> {
        [Self::There, Self::WouldBeNew, Self::Failed, Self::Another].into_iter().find(|outcome| *outcome as u8 == state)
    }
}

impl LinkStep {
    /// The step for a link to a file with this outcome.
    fn of(outcome: LinkOutcome, other: OtherLinkName, first: Option<FirstLink>) -> Self {
        match (outcome, first) {
            (LinkOutcome::There | LinkOutcome::WouldBeNew, Some(first)) => Self::Make(other, first, outcome),
            (LinkOutcome::Another, Some(_)) => Self::LeaveOrFail(other),
            _ => Self::Fail(other),
        }
    }
}

impl LinkTable {
    /// Counts the files with hard links, and their names, in an Offer.
    pub(crate) fn count(
        &mut self,
        first: EntryId,
        entries: &[Entry],
        machine: &target::TargetSession<ReceiverEntry>,
    ) -> Result<(), ProtocolError> {
        self.offered.clear();
        for (id, entry) in (first.0..).map(EntryId).zip(entries) {
            if let EntryContent::HardLink { to, .. } = entry.kind {
                self.count_name(to);
                self.offered.entry(to).or_default().push(entry.place.clone());
            }
            let (Some(left), EntryLocation::Child { parent, name }) = (entry.further_names(), &entry.place) else {
                continue;
            };
            if !matches!(entry.kind, EntryContent::File { .. }) {
                continue;
            }
            if !self.bytes.add(name.as_bytes().len(), machine.directories_from(*parent)) {
                return Err(ProtocolError::OverLimit("files with further hard links"));
            }
            let left = u32::try_from(left).unwrap_or(u32::MAX);
            self.files
                .add(id, &FirstName { parent: *parent, left, due: 0, state: GROWING, inode: 0, name: name.clone() });
        }
        Ok(())
    }

    /// Counts one more offered name of a file.
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

    /// Further names of the file that is being answered, as far as the current Offer has them.
    pub(crate) fn further_places(&self) -> Vec<EntryLocation> {
        self.current.and_then(|entry| self.offered.get(&entry)).cloned().unwrap_or_default()
    }

    /// Stores the parent directory of a counted file.
    pub(crate) fn keep_parent(&mut self, entry: EntryId, dir: Dir) {
        let Some(first) = self.files.get(entry) else { return };
        match first.left {
            0 => drop(self.ending.insert(entry, dir)),
            _ => self.bytes.keep_open(first.parent, dir),
        }
    }

    /// Location of a file's first name; `None` if its directory was refused.
    fn place(&self, entry: EntryId) -> Option<FirstLink> {
        let first = self.files.get(entry)?;
        let dir = self.ending.get(&entry).or_else(|| self.bytes.held(first.parent))?.clone();
        let device = dir.identity().device;
        let identity = (first.inode != 0).then_some(FileIdentity { device, inode: first.inode });
        Some(FirstLink { dir, name: first.name, identity })
    }

    /// Whether a hard link to this file can be created, as known so far.
    pub(crate) fn is_linkable(&self, to: EntryId) -> bool {
        let state = self.files.get(to).map(|first| LinkOutcome::of(first.state));
        matches!(state, Some(None | Some(LinkOutcome::There | LinkOutcome::WouldBeNew)))
    }

    /// Adds a hard link to the file offered as `to`.
    pub(crate) fn add(&mut self, to: EntryId, other: OtherLinkName) -> LinkStep {
        let Some(first) = self.files.get(to) else { return LinkStep::Fail(other) };
        match LinkOutcome::of(first.state) {
            Some(outcome) => LinkStep::of(outcome, other, self.place(to)),
            None => {
                self.waiting.entry(to).or_default().push(other);
                LinkStep::Nothing
            }
        }
    }

    /// Records the outcome of an entry. Returns the steps that waited for it.
    pub(crate) fn settled(&mut self, entry: EntryId, outcome: LinkOutcome) -> Vec<LinkStep> {
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

    /// Records that a counted name was answered.
    fn seen_to(&mut self, to: EntryId) {
        let _ = self.files.change(to, |first| first.due = first.due.saturating_sub(1));
        self.forget_if_over(to);
    }

    /// Forgets a complete file once all its names were answered.
    fn forget_if_over(&mut self, entry: EntryId) {
        if let Some(FirstName { left: 0, due: 0, state: 1.., .. }) = self.files.get(entry) {
            self.files.remove(entry);
            self.ending.remove(&entry);
        }
    }
}

impl LinkTracker {
    /// Location of the first name of a file offered before.
    pub(crate) fn first_name(&self, entry: EntryId) -> Option<FirstLink> {
        lock(&self.hard_links.0).place(entry)
    }

    /// Records the identity of an entry's first name if hard links to it may follow.
    pub(crate) fn record_first_file(&self, entry: EntryId, identity: impl FnOnce() -> io::Result<FileIdentity>) {
        if !self.copy.request.metadata.preserve.hard_links {
            return;
        }
        let mut table = lock(&self.hard_links.0);
        let key = table.again.get(&entry).copied().unwrap_or(entry);
        if table.files.get(key).is_some()
            && let Ok(identity) = identity()
        {
            table.files.change(key, |first| first.inode = identity.inode);
        }
    }

    /// Records that the names of an Offer were answered.
    pub(crate) fn count_answered_links(&self, entries: &[Entry]) {
        for entry in entries {
            if let EntryContent::HardLink { to, .. } = entry.kind {
                lock(&self.hard_links.0).seen_to(to);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use haul_proto::entry::EntryMetadata;
    use haul_proto::entry_extras::EntryExtras;
    use haul_proto::integrity::FrameLen;
    use haul_proto::limits::{FRAME_MIN, LINKED_FILES_BYTES_MAX};
    use haul_proto::wire::message::SourceMessage;

    use super::*;
    use crate::fs::testing::name;

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
        OtherLinkName {
            entry: EntryId(entry),
            dir: dir.clone(),
            name: name("b"),
            fresh: true,
            offered: link(1),
            removal: None,
        }
    }

    /// A table, and a session that offered directory 0 and file 1 with this many names.
    fn table(dir: &Dir, names: u64) -> (LinkTable, target::TargetSession<ReceiverEntry>) {
        let mut machine = target::TargetSession::new(FrameLen::new(FRAME_MIN).unwrap());
        let entries = vec![
            entry(EntryLocation::Operand(0), EntryContent::Directory, None),
            entry(below(0, "a"), EntryContent::File { size: 3 }, Some(names)),
        ];
        machine.handle(SourceMessage::Offer { first: EntryId(0), entries: entries.clone() }).unwrap();
        let mut table = LinkTable::default();
        table.count(EntryId(0), &entries, &machine).unwrap();
        table.keep_parent(EntryId(1), dir.clone());
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
    fn hard_links_of_a_failed_file_fail() {
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
    fn a_source_exceeding_the_bytes_commits_a_fault() {
        let temp = tempfile::tempdir().unwrap();
        let dir = Dir::open_root(temp.path()).unwrap();
        let (mut table, machine) = table(&dir, 3);
        let file = [entry(below(0, &"n".repeat(255)), EntryContent::File { size: 3 }, Some(2))];
        let mut ids = (2..).map(EntryId);
        let fault = ids.find_map(|id| table.count(id, &file, &machine).err()).unwrap();
        assert_eq!(fault, ProtocolError::OverLimit("files with further hard links"));
        assert!(table.bytes.bytes() > LINKED_FILES_BYTES_MAX - 1000);
        let single = [entry(below(0, "single"), EntryContent::File { size: 3 }, None)];
        assert!(table.count(ids.next().unwrap(), &single, &machine).is_ok());
    }
}

//! Hard links: where they are created, and what they replace.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use haul_base::sys::sync::lock;
use haul_proto::entry::{Entry, EntryContent, EntryKind, EntryLocation};
use haul_proto::error::ProtocolError;
use haul_proto::ids::EntryId;
use haul_proto::overwrite_policy::{ExistingEntry, OverwriteDecision, decide};
use haul_proto::path::Name;
use haul_proto::session::step::{EntryAnswer, ParentDirectory};
use rustix::fs::{AtFlags, renameat, unlinkat};
use rustix::io::Errno;

use crate::fs::{Dir, FileIdentity, FileStat, FollowLinks, HeldFile};
use crate::policy::audit::AuditAction;
use crate::receiver::decide::{EntryDecider, NextStep};
use crate::receiver::entry::ReceiverEntry;
use crate::receiver::links::hard_links::{FirstLink, LinkOutcome, OtherLinkName};
use crate::receiver::place::entry_position::{EntryPosition, TreeReplacement};
use crate::receiver::place::error::FileError;
use crate::receiver::place::existing_entry::ExistingStat;
use crate::receiver::place::temp_names::make_temporary;

impl EntryDecider {
    /// Counts an Offer's files with hard links, and their further names. Must precede the answers.
    pub(crate) fn count_links(&self, first: EntryId, entries: &[Entry]) -> Result<(), ProtocolError> {
        if !self.parts.copy.request.metadata.preserve.hard_links {
            return Ok(());
        }
        self.parts.session.read(|machine| lock(&self.parts.links.hard_links.0).count(first, entries, machine))
    }

    /// Remembers the location of a file with names still to be offered. Must precede its answer.
    pub(crate) fn expect_links(&self, entry: EntryId, offered: &Entry) {
        lock(&self.parts.links.hard_links.0).current = Some(entry);
        if let EntryLocation::Again(old) = offered.place {
            let mut table = lock(&self.parts.links.hard_links.0);
            let first = table.again.remove(&old).unwrap_or(old);
            if table.files.get(first).is_some() {
                table.again.insert(entry, first);
            }
            return;
        }
        if offered.further_names().is_none() {
            return;
        }
        let dir = match self.parts.copy.compares() {
            true => self.comparer.compared_place(&offered.place).map(|(dir, _)| dir),
            false => self.place_of_child(&offered.place).map(|(dir, ..)| dir),
        };
        let mut table = lock(&self.parts.links.hard_links.0);
        if let Some(dir) = dir {
            table.keep_parent(entry, dir);
        }
        if self.parts.copy.compares() {
            // In a dry run, nothing is created, so nothing waits.
            table.settled(entry, LinkOutcome::There);
        }
    }

    /// How many names of an existing file are known to be names of the file that is being answered: its own, and
    /// further ones that the current Offer has in known directories.
    pub(super) fn known_names(&self, there: &FileStat) -> u64 {
        let places = lock(&self.parts.links.hard_links.0).further_places();
        let is_name = |place: &EntryLocation| {
            let (dir, name, _) = self.place_of_child(place)?;
            let stat = FileStat::at_name(&*dir.fd().ok()?, &name, FollowLinks::Itself).ok()?;
            (stat.identity == there.identity).then_some(())
        };
        1 + places.iter().filter_map(is_name).count() as u64
    }

    /// Directory and name of a child, and whether the directory is new.
    fn place_of_child(&self, place: &EntryLocation) -> Option<(Dir, Name, bool)> {
        let EntryLocation::Child { name, .. } = place else { return None };
        match self.parts.session.read(|machine| machine.parent(place)) {
            ParentDirectory::Open(parent) => match &*parent {
                ReceiverEntry::Directory { dir, fresh, .. } => Some((dir.clone(), name.clone(), *fresh)),
                _ => None,
            },
            _ => None,
        }
    }

    /// Records the identity of an existing file under an offered first name.
    pub(crate) fn record_existing_first_name(&self, entry: EntryId, offered: &Entry) {
        if let Some((dir, name, _)) = self.place_of_child(&offered.place) {
            let stat = || FileStat::at_name(&*dir.fd()?, &name, FollowLinks::Itself);
            self.parts.links.record_first_file(entry, || Ok(stat()?.identity));
        }
    }

    /// Answers a hard link. Returns the link to create once the answer is sent.
    pub(crate) fn answer_link(
        &self,
        entry: EntryId,
        offered: &Entry,
    ) -> (EntryAnswer<ReceiverEntry>, Option<OtherLinkName>) {
        match self.place_of_child(&offered.place) {
            Some((_, name, _)) if name.is_reserved() => (EntryAnswer::Refused, None),
            Some((dir, name, fresh)) => {
                let mut other = OtherLinkName { entry, dir, name, fresh, offered: offered.clone(), removal: None };
                other.removal = self.plan_replacement(&other);
                (EntryAnswer::Needed(Arc::new(ReceiverEntry::HardLink)), Some(other))
            }
            None => (EntryAnswer::Refused, None),
        }
    }

    /// With `--max-delete`, decides about a directory in the place of a hard link when the link is offered. Its file
    /// may arrive much later, after other removals have been counted, and a dry run would count differently. `None` if
    /// no directory is removed.
    fn plan_replacement(&self, other: &OtherLinkName) -> Option<Result<TreeReplacement, FileError>> {
        let EntryContent::HardLink { to, .. } = other.offered.kind else { return None };
        let is_limited = self.parts.copy.request.sync.delete_max.is_some();
        if other.fresh || !is_limited || !lock(&self.parts.links.hard_links.0).is_linkable(to) {
            return None;
        }
        // A failed stat is reported when the link is created.
        let there = self.parts.tree.existing_stat(&other.dir, &other.name, &other.offered).ok()?.existing;
        let (kind, modified) = (&other.offered.kind, other.offered.meta.modified);
        let is_replaced =
            decide(kind, modified, &there, self.parts.copy.overwrite_rules()) == OverwriteDecision::ReplaceTree;
        is_replaced.then(|| {
            self.parts.metadata.widen(&other.dir)?;
            self.replacement(other)
        })
    }

    fn replacement(&self, other: &OtherLinkName) -> Result<TreeReplacement, FileError> {
        let may = || self.parts.removals.may_clear(&other.dir, &other.name, &other.offered.place);
        other.removal.clone().unwrap_or_else(may)
    }

    /// Whether another entry keeps the name of an offered file, so that no link to it is created.
    pub(crate) fn stays_another(&self, entry: &Entry) -> bool {
        let (EntryContent::File { size }, Some(_)) = (&entry.kind, entry.further_names()) else { return false };
        let Some((dir, name, fresh)) = self.place_of_child(&entry.place) else { return false };
        let same = ExistingEntry::File { size: *size, modified: entry.meta.modified };
        let is_another = |there: ExistingStat| there.existing != same && self.stays(entry, &there);
        if fresh {
            is_another(ExistingStat::NOTHING)
        } else {
            self.parts.tree.existing_stat(&dir, &name, entry).is_ok_and(is_another)
        }
    }

    /// Whether the existing entry of a name stays, whatever its type.
    pub(crate) fn stays(&self, entry: &Entry, there: &ExistingStat) -> bool {
        let decision = decide(&entry.kind, entry.meta.modified, &there.existing, self.parts.copy.overwrite_rules());
        matches!(decision, OverwriteDecision::Omit | OverwriteDecision::Pass)
    }

    /// Handles a hard link whose first name is taken by another file: the existing entry may stay too.
    pub(crate) fn leave(&self, other: &OtherLinkName) -> Result<bool, FileError> {
        let there = if other.fresh {
            Ok(ExistingStat::NOTHING)
        } else {
            self.parts.tree.existing_stat(&other.dir, &other.name, &other.offered)
        };
        if self.stays(&other.offered, &there?) { Ok(false) } else { Err(FileError::LinkedNameKept) }
    }

    /// Creates a hard link. Returns whether it exists now; failures are reported.
    pub(crate) fn make_hard_link(
        &self,
        other: &OtherLinkName,
        first: &FirstLink,
        outcome: LinkOutcome,
    ) -> Result<bool, FileError> {
        self.try_hard_link(other, first, outcome).map_err(|error| match &error {
            FileError::Io(error)
                if Errno::from_io_error(error) == Some(Errno::XDEV)
                    && first.dir.identity().device == other.dir.identity().device =>
            {
                FileError::LinkForbidden
            }
            _ => FileError::of_hard_link(error),
        })
    }

    fn try_hard_link(&self, other: &OtherLinkName, first: &FirstLink, outcome: LinkOutcome) -> Result<bool, FileError> {
        let first_file = first.identity.filter(|_| outcome == LinkOutcome::There);
        let there = if other.fresh { ExistingStat::NOTHING } else { self.existing_at_link(other, first_file)? };
        if there.existing != ExistingEntry::Absent && self.parts.tree.is_spelled_otherwise(&other.dir, &other.name) {
            return Err(FileError::OtherSpelling);
        }
        let position =
            EntryPosition { inside: true, ..EntryPosition::in_directory(other.dir.clone(), other.name.clone()) };
        let decided = match self.decide(&position, &other.offered, &there)? {
            NextStep::Transfer(decided) => decided,
            // An existing entry that stays, or a link into an earlier copy, is not verified against the source.
            NextStep::Answer(answer) => {
                return Ok(matches!(answer, EntryAnswer::Settled) && !self.parts.copy.request.sync.source_removes);
            }
        };
        let first_name = || first.dir.path_of(first.name.as_bytes());
        if self.parts.copy.is_dry() {
            if decided.decision == OverwriteDecision::ReplaceTree {
                self.parts.removals.clear_for_replacement(&other.dir, &other.name, &self.replacement(other)?)?;
            }
            self.parts.copy.report_link(&position, &other.offered, &decided, first_name());
            return Ok(true);
        }
        let into = other.dir.fd()?;
        let hold = || self.hold_first_file(first, &into, &other.offered);
        match decided.decision {
            OverwriteDecision::Replace => {
                let file = hold()?;
                self.parts.removals.back_up(&other.dir, &other.name)?;
                replace(&file, &into, &other.name)?;
            }
            OverwriteDecision::ReplaceTree => {
                let removal = self.replacement(other)?;
                let temporary = link_temporary(&hold()?, &into, &other.name)?;
                self.parts.removals.replace_directory(&other.dir, &temporary, &other.name, &removal)?;
            }
            OverwriteDecision::Create => hold()?.link(&into, &other.name)?,
            _ => {}
        }
        self.parts.copy.report_link(&position, &other.offered, &decided, first_name());
        if self.parts.copy.reporter.is_audited() && decided.change.is_some() {
            let path = self.parts.copy.destination.path(&self.parts.copy.relative(&position));
            self.parts.copy.reporter.audit_change(AuditAction::Linked, EntryKind::File, &path);
        }
        Ok(true)
    }

    /// Opens the file of the first name, if it is the recorded one and its owner may have a name in `into`. Otherwise,
    /// a user who can write to the target could put another file under that name, and so into a directory closed to
    /// them.
    fn hold_first_file(&self, first: &FirstLink, into: &OwnedFd, offered: &Entry) -> Result<HeldFile, FileError> {
        let expected = first.identity.ok_or(FileError::LinkedFileReplaced)?;
        let held = HeldFile::open_expected(&first.dir, &first.name, expected)?;
        let file = held.ok_or(FileError::LinkedFileReplaced)?;
        if self.may_be_named_in(&file, into, offered)? { Ok(file) } else { Err(FileError::LinkedFileOfOther) }
    }

    /// Whether a file may be linked into this directory. Its owner must be this user, the directory's owner, or with
    /// `-p` the owner of the source's file.
    pub(crate) fn may_be_named_in(&self, file: &HeldFile, into: &OwnedFd, offered: &Entry) -> io::Result<bool> {
        let owner = file.stat().meta.uid;
        Ok(owner == rustix::process::geteuid().as_raw()
            || self.parts.copy.request.metadata.rights.owner && owner == offered.meta.uid
            || owner == FileStat::at_fd(into)?.meta.uid)
    }

    /// The existing entry in the place of a hard link. `first` is the file of the first name.
    fn existing_at_link(&self, other: &OtherLinkName, first: Option<FileIdentity>) -> io::Result<ExistingStat> {
        let there = self.parts.tree.existing_stat(&other.dir, &other.name, &other.offered)?;
        match (&there.existing, &there.stat) {
            (ExistingEntry::File { .. }, Some(stat)) if first == Some(stat.identity) => {
                Ok(ExistingStat { existing: ExistingEntry::SameFile, stat: None })
            }
            _ => Ok(there),
        }
    }
}

/// Creates a link under a temporary name.
fn link_temporary(file: &HeldFile, into: &OwnedFd, name: &Name) -> io::Result<Name> {
    let link = |temporary: &Name| {
        file.link(into, temporary).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
    };
    Ok(make_temporary(into, name, b"name", link)?)
}

/// Creates a link under a temporary name, and renames it over the existing entry.
fn replace(file: &HeldFile, into: &OwnedFd, name: &Name) -> io::Result<()> {
    let temporary = link_temporary(file, into, name)?;
    let renamed = renameat(into, temporary.as_bytes(), into, name.as_bytes());
    // Renaming between two names of one file has no effect.
    let _ = unlinkat(into, temporary.as_bytes(), AtFlags::empty());
    Ok(renamed?)
}

//! Checks the existing entry for each offered one, and answers: wanted, existing or refused. Creates directories and
//! links at once.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use haul_base::sys::describe::describe;
use haul_proto::entry::{Entry, EntryContent, EntryLocation};
use haul_proto::ids::EntryId;
use haul_proto::integrity::Digest;
use haul_proto::overwrite_policy::{ExistingEntry, OverwriteDecision, OverwritePolicy, OverwriteRefusal, decide};
use haul_proto::path::Name;
use haul_proto::session::step::{EntryAnswer, ParentDirectory};
use haul_proto::sync::{ChangeKind, ChangeReasons};

use crate::fs::{Dir, FollowLinks};
use crate::metrics::counter::add;
use crate::receiver::decide::{EntryDecider, EntryResult, NextStep};
use crate::receiver::entry::ReceiverEntry;
use crate::receiver::file::{ReceivingFile, UNKNOWN_SIZE, size_of};
use crate::receiver::links::hard_link_guard::GuardedName;
use crate::receiver::links::hard_links::{LinkOutcome, OtherLinkName};
use crate::receiver::metadata::rights::has_capability;
use crate::receiver::place::destination::DestinationKind;
use crate::receiver::place::entry_position::{EntryDecision, EntryPosition, TreeReplacement};
use crate::receiver::place::error::FileError;
use crate::receiver::place::existing_entry::{ExistingStat, attributes};
use crate::receiver::place::in_order_sink::InOrderSink;
use crate::receiver::tree::parent_directories::{DirectoryBelow, parents};

impl EntryDecider {
    /// Answers an offered entry. A hard link is to be created after all answers to its Offer.
    pub(crate) fn answer_offered(
        &self,
        id: EntryId,
        entry: &Entry,
    ) -> (EntryAnswer<ReceiverEntry>, Option<OtherLinkName>) {
        self.dry_new.store(false, Ordering::Relaxed);
        let answer = match &entry.kind {
            _ if self.parts.removals.removes_only() => self.parts.tree.answer_only_removal(&self.parts.session, entry),
            EntryContent::HardLink { .. } if !self.parts.copy.compares() => return self.answer_link(id, entry),
            EntryContent::HardLink { .. } => self.answer(entry),
            _ => {
                self.expect_links(id, entry);
                self.answer(entry)
            }
        };
        (answer, None)
    }

    /// Whether an entry that its answer has ended can have hard links.
    pub(crate) fn outcome_for_links(&self, id: EntryId, entry: &Entry, is_there: bool) -> LinkOutcome {
        if !is_there {
            return LinkOutcome::Failed;
        }
        if entry.further_names().is_some() {
            self.record_existing_first_name(id, entry);
        }
        if self.stays_another(entry) {
            LinkOutcome::Another
        } else if self.dry_new.load(Ordering::Relaxed) {
            LinkOutcome::WouldBeNew
        } else {
            LinkOutcome::There
        }
    }

    fn answer(&self, entry: &Entry) -> EntryAnswer<ReceiverEntry> {
        let parent = self.parts.session.read(|machine| machine.parent(&entry.place));
        if self.parts.copy.compares() {
            return self.comparer.answer_compared(parent, entry);
        }
        match (parent, &entry.place) {
            (ParentDirectory::Refused, _) => EntryAnswer::Refused,
            (ParentDirectory::Operand(number), _) => self.answer_operand(number, entry),
            (ParentDirectory::Open(parent), EntryLocation::Child { name, .. }) => match &*parent {
                ReceiverEntry::Directory { dir, fresh, names, .. } => {
                    if let DestinationKind::Special(path) = &self.parts.copy.destination.kind {
                        return self.answer_discarded(path, dir, name, entry);
                    }
                    let (fresh, alone) = (*fresh, names.is_some());
                    let (dir, name) = (dir.clone(), name.clone());
                    let inside = EntryPosition { fresh, alone, inside: true, ..EntryPosition::in_directory(dir, name) };
                    self.answer_at(inside, entry)
                }
                ReceiverEntry::File(_) | ReceiverEntry::HardLink | ReceiverEntry::Compared(_) => EntryAnswer::Refused,
            },
            (ParentDirectory::Again(item), EntryLocation::Again(_)) => self.answer_again(&item, entry),
            (ParentDirectory::Open(_) | ParentDirectory::Again(_), _) => EntryAnswer::Refused,
        }
    }

    fn answer_operand(&self, number: u32, entry: &Entry) -> EntryAnswer<ReceiverEntry> {
        let Some(operand) = self.parts.tree.requested_operand(number, entry) else {
            return self.parts.copy.refuse_operand(OverwriteRefusal::NotAsked);
        };
        let is_directory = entry.kind == EntryContent::Directory;
        let alone = self.parts.removals.sweeps_operands();
        let directory = |dir: Dir| {
            let attributes = attributes(entry).map(Into::into);
            let fresh = dir.is_absent();
            let names = self.parts.removals.names_for_argument(&dir, alone && !fresh);
            EntryAnswer::Needed(Arc::new(ReceiverEntry::Directory { dir, fresh, names, meta: entry.meta, attributes }))
        };
        let absent = DestinationKind::Into(Dir::absent_root());
        let landing = if matches!(self.parts.copy.destination.kind, DestinationKind::Nothing) {
            &absent
        } else {
            &self.parts.copy.destination.kind
        };
        let existing = |dir: Dir| match self.parts.metadata.take_directory(&dir, &entry.meta) {
            Ok(()) => directory(dir),
            Err(error) => {
                self.parts.copy.fail_entry(self.parts.copy.destination.path(b""), describe(&error));
                EntryAnswer::Refused
            }
        };
        let answer = match landing {
            DestinationKind::Contents(dir) if is_directory => {
                self.parts.copy.report_target(dir, entry);
                existing(dir.clone())
            }
            DestinationKind::Into(dir) => {
                match (self.parts.tree.directory_below(dir, &operand.below, parents(entry)), &operand.name) {
                    (Ok(DirectoryBelow { dir, fresh, .. }), Some(name)) => self.answer_at(
                        EntryPosition { alone, fresh, ..EntryPosition::in_directory(dir, name.clone()) },
                        entry,
                    ),
                    (Ok(parent), None) if is_directory => {
                        self.parts.copy.report_target(&parent.dir, entry);
                        existing(parent.dir)
                    }
                    (Ok(_), None) => self.parts.copy.refuse_operand(OverwriteRefusal::IsDirectory),
                    (Err(error), _) => {
                        let path: Vec<_> = operand.below.iter().map(Name::as_bytes).collect();
                        self.parts
                            .copy
                            .fail_entry(self.parts.copy.destination.path(&path.join(&b'/')), describe(&error));
                        EntryAnswer::Refused
                    }
                }
            }
            DestinationKind::As(dir, name) => {
                let position = EntryPosition::in_directory(dir.clone(), name.clone());
                self.answer_at(EntryPosition { renamed: true, alone, fresh: dir.is_absent(), ..position }, entry)
            }
            DestinationKind::Special(_) if is_directory => directory(match &operand.name {
                Some(name) => Dir::absent_root().absent_child(name),
                None => Dir::absent_root(),
            }),
            DestinationKind::Special(path) => match &operand.name {
                Some(name) if self.parts.copy.request.operands.len() > 1 => {
                    self.answer_discarded(path, &Dir::absent_root(), name, entry)
                }
                _ => self.answer_special(path, entry),
            },
            DestinationKind::Pipe(pipe) => self.answer_pipe(pipe, entry),
            DestinationKind::Contents(_) | DestinationKind::Nothing => {
                self.parts.copy.refuse_operand(OverwriteRefusal::IsDirectory)
            }
        };
        self.parts.tree.lock_answer(answer, operand.name.as_ref())
    }

    /// A file that changed while being read is offered again: received data of the old version is discarded.
    fn answer_again(&self, item: &ReceiverEntry, entry: &Entry) -> EntryAnswer<ReceiverEntry> {
        let ReceiverEntry::File(file) = item else { return EntryAnswer::Refused };
        file.void(&self.parts.copy.reporter.tally.bytes_written);
        file.discard(&self.parts.tree.temp_files);
        match file.named() {
            Some(named) => {
                let (dir, name) = (named.path.dir.clone(), named.path.name.clone());
                let removal = named.replaces_tree.clone();
                self.answer_at(EntryPosition { removal, ..EntryPosition::in_directory(dir, name) }, entry)
            }
            None => {
                self.parts
                    .copy
                    .fail_entry(file.display_path(&self.parts.copy.destination), FileError::ChangedWhileRead);
                EntryAnswer::Refused
            }
        }
    }

    /// A device, FIFO or socket: opened for the first frame, written in place, never renamed over.
    fn answer_special(&self, path: &Path, entry: &Entry) -> EntryAnswer<ReceiverEntry> {
        let Some(size) = size_of(&entry.kind) else {
            return self.parts.copy.refuse_operand(OverwriteRefusal::IsSpecial);
        };
        // Some cannot be reread, so a digest requires writing in order.
        match ReceivingFile::special(path, size, self.parts.digests.wants_digests()) {
            Ok(file) => needed(file),
            Err(error) => {
                self.parts.copy.fail_entry(self.parts.copy.destination.path(b""), describe(&error));
                EntryAnswer::Refused
            }
        }
    }

    /// An entry of a tree that the null device discards.
    fn answer_discarded(&self, path: &Path, dir: &Dir, name: &Name, entry: &Entry) -> EntryAnswer<ReceiverEntry> {
        if entry.kind == EntryContent::Directory {
            let (dir, meta) = (dir.absent_child(name), entry.meta);
            let item = ReceiverEntry::Directory { dir, fresh: true, names: None, meta, attributes: None };
            return EntryAnswer::Needed(Arc::new(item));
        }
        let Some(size) = size_of(&entry.kind) else { return EntryAnswer::Settled };
        let in_order = self.parts.digests.wants_digests();
        needed(ReceivingFile::discarded(path, dir.path_of(name.as_bytes()), size, in_order))
    }

    /// An open descriptor that accepts bytes in order.
    fn answer_pipe(&self, sink: &Arc<InOrderSink>, entry: &Entry) -> EntryAnswer<ReceiverEntry> {
        let Some(size) = size_of(&entry.kind) else {
            return self.parts.copy.refuse_operand(OverwriteRefusal::NotAsked);
        };
        // Without a size, bytes are counted when they arrive.
        if size != UNKNOWN_SIZE
            && let Err(error) = self.parts.tree.quota.reserve(size)
        {
            self.parts.copy.fail_entry(self.parts.copy.destination.path(b""), error);
            return EntryAnswer::Refused;
        }
        needed(ReceivingFile::pipe(Arc::clone(sink), size))
    }

    fn answer_at(&self, position: EntryPosition, entry: &Entry) -> EntryAnswer<ReceiverEntry> {
        self.try_answer(&position, entry).unwrap_or_else(|error| self.parts.copy.refuse(&position, error))
    }

    pub(crate) fn try_answer(&self, position: &EntryPosition, entry: &Entry) -> EntryResult {
        let there = if position.fresh {
            ExistingStat::NOTHING
        } else {
            self.parts.tree.existing_stat(&position.dir, &position.name, entry)?
        };
        let there = match self.parts.tree.kept_link(position, entry, &there)? {
            Some(stat) => ExistingStat { existing: ExistingEntry::Directory, stat: Some(stat) },
            None => there,
        };
        self.check_permitted(position, entry, &there)?;
        let mut decided = match self.decide(position, entry, &there)? {
            NextStep::Transfer(decided) => decided,
            NextStep::Answer(answer) => return Ok(answer),
        };
        let decision = self.clear(position, entry, &mut decided)?;
        if self.parts.copy.is_dry() && entry.kind != EntryContent::Directory {
            return self.answer_dry(position, entry, &decided);
        }
        match &entry.kind {
            EntryContent::Directory => {
                let answer = self.parts.tree.directory(position, entry, decision)?;
                if matches!(answer, EntryAnswer::Needed(_)) {
                    self.parts.copy.report_decision(position, entry, &decided);
                }
                Ok(answer)
            }
            EntryContent::Symlink { points_to } => self.symlink(position, entry, points_to, &decided, &there),
            EntryContent::File { size } => self.file(position, entry, *size, &decided, &there),
            EntryContent::Stream => Ok(self.stream(position, entry.meta, &decided)),
            EntryContent::Node(node) => {
                let answer = self.node(position, *node, &entry.meta, &decided, &there)?;
                if matches!(answer, EntryAnswer::Settled) {
                    self.parts.copy.report_decision(position, entry, &decided);
                }
                Ok(answer)
            }
            EntryContent::HardLink { .. } => Err(FileError::Refused(OverwriteRefusal::NotAsked)),
        }
    }

    /// Refuses entries that no overwrite policy permits.
    fn check_permitted(&self, position: &EntryPosition, entry: &Entry, there: &ExistingStat) -> Result<(), FileError> {
        if position.name.is_reserved() {
            return Err(FileError::Refused(OverwriteRefusal::Reserved));
        }
        if there.existing != ExistingEntry::Absent
            && self.parts.tree.is_spelled_otherwise(&position.dir, &position.name)
        {
            return Err(FileError::OtherSpelling);
        }
        match &entry.kind {
            EntryContent::Symlink { points_to }
                if self.parts.copy.links_inside && self.leads_out(&position.dir, points_to)? =>
            {
                Err(FileError::LeadsOut)
            }
            EntryContent::Node(node) if !self.may_make_node(*node) => Err(FileError::UnrequestedNode),
            _ => Ok(()),
        }
    }

    /// Decides about an entry, and answers it if no work is left.
    pub(crate) fn decide(
        &self,
        position: &EntryPosition,
        entry: &Entry,
        there: &ExistingStat,
    ) -> Result<NextStep, FileError> {
        let (dir, name) = (&position.dir, &position.name);
        let decision =
            match decide(&entry.kind, entry.meta.modified, &there.existing, self.parts.copy.overwrite_rules()) {
                OverwriteDecision::Compare if self.has_digest(dir, name, entry)? => OverwriteDecision::Keep,
                OverwriteDecision::Compare => OverwriteDecision::Replace,
                OverwriteDecision::Keep | OverwriteDecision::Omit
                    if self.parts.deltas.is_half_changed(position, entry, there)? =>
                {
                    OverwriteDecision::Replace
                }
                decision => decision,
            };
        let (decision, reasons) = self.decide_about_existing(position, entry, there, decision);
        let makes =
            matches!(decision, OverwriteDecision::Create | OverwriteDecision::Replace | OverwriteDecision::ReplaceTree);
        if makes && !self.parts.copy.is_dry() {
            let link_bytes = if let EntryContent::Symlink { points_to } = &entry.kind { points_to.len() } else { 0 };
            self.parts.tree.quota.take_names(1)?;
            self.parts.tree.quota.reserve(link_bytes as u64)?;
        }
        match decision {
            OverwriteDecision::Create | OverwriteDecision::Replace | OverwriteDecision::ReplaceTree
                if position.inside =>
            {
                self.parts.metadata.widen(dir)?
            }
            _ => {}
        }
        match decision {
            OverwriteDecision::Refuse(refusal) => return Err(FileError::Refused(refusal)),
            OverwriteDecision::Omit => {
                self.parts.copy.report_unchanged(position, entry, ChangeKind::Kept);
                return self.omit(position, entry).map(NextStep::Answer);
            }
            // Entries in it, and hard links to it, are absent too.
            OverwriteDecision::Pass => return Ok(NextStep::Answer(EntryAnswer::Refused)),
            _ if self.has_from_earlier(position, entry, decision)? => {
                return Ok(NextStep::Answer(EntryAnswer::Settled));
            }
            _ => {}
        }
        let change = match decision {
            OverwriteDecision::Create => Some(ChangeKind::Made),
            OverwriteDecision::Replace | OverwriteDecision::ReplaceTree => Some(ChangeKind::Replaced(reasons)),
            _ if reasons.is_empty() => {
                self.parts.copy.report_unchanged(position, entry, ChangeKind::Unchanged);
                None
            }
            _ => Some(ChangeKind::Adjusted(reasons)),
        };
        Ok(NextStep::Transfer(EntryDecision { decision, change, removal: TreeReplacement::default() }))
    }

    /// Differences of an entry to be replaced. Those of metadata are only looked for where they are reported.
    fn replacement_reasons(&self, position: &EntryPosition, entry: &Entry, there: &ExistingStat) -> ChangeReasons {
        let reasons = there.reasons(entry);
        match &there.stat {
            Some(stat) if self.parts.copy.request.sync.tells_items && !reasons.has(ChangeReasons::KIND) => {
                reasons.and(self.parts.tree.metadata_reasons(&position.dir, &position.name, entry, stat), true)
            }
            _ => reasons,
        }
    }

    /// Decides about an existing entry, with the reasons. In a sync, an entry that would stay is replaced if only its
    /// metadata differs and cannot be set in place.
    fn decide_about_existing(
        &self,
        position: &EntryPosition,
        entry: &Entry,
        there: &ExistingStat,
        decision: OverwriteDecision,
    ) -> (OverwriteDecision, ChangeReasons) {
        if decision != OverwriteDecision::Keep {
            there.stat.iter().for_each(|stat| self.parts.links.count_replaced_name(stat, decision));
            return (decision, self.replacement_reasons(position, entry, there));
        }
        let Some(mut stat) = there.stat else { return (decision, ChangeReasons::default()) };
        let follows = self.parts.copy.request.write.overwrite == OverwritePolicy::Follow;
        match self.parts.links.other_name_of(entry, &stat) {
            GuardedName::Stays(_) if follows => {
                self.parts.links.count_replaced_name(&stat, OverwriteDecision::Replace);
                return (OverwriteDecision::Replace, ChangeReasons::LINK);
            }
            GuardedName::Has(meta) | GuardedName::Stays(meta) if self.parts.copy.is_dry() => stat.meta = meta,
            _ => {}
        }
        let may_have_rights = self.parts.copy.request.metadata.rights.any() || has_capability(entry);
        let is_file = matches!(entry.kind, EntryContent::File { .. });
        let is_judged = is_file
            && may_have_rights
            && (follows || self.parts.copy.request.write.overwrite == OverwritePolicy::Replace);
        if !follows && !is_judged && !self.parts.copy.request.sync.tells_items {
            return (decision, ChangeReasons::default());
        }
        let (dir, name) = (&position.dir, &position.name);
        let reasons = self.parts.tree.metadata_reasons(dir, name, entry, &stat);
        // Metadata set on a hard-linked symbolic link would apply to all its names.
        let is_shared_link =
            || follows && matches!(entry.kind, EntryContent::Symlink { .. }) && self.parts.links.names_left(&stat) > 1;
        let is_to_be_anew = || {
            let meta = self.parts.metadata.settable(dir, name, &entry.meta, &stat);
            self.parts.metadata.may_adjust(entry, &meta, &stat, reasons.has(ChangeReasons::ATTRIBUTES)).is_err()
        };
        let is_replaced = !reasons.is_empty() && (is_shared_link() || is_judged && is_to_be_anew());
        if is_replaced {
            self.parts.links.count_replaced_name(&stat, OverwriteDecision::Replace);
            self.parts.links.forget_other_names_of(&stat);
        }
        (if is_replaced { OverwriteDecision::Replace } else { decision }, reasons)
    }

    /// Makes way for the replacement of a directory, or for a directory.
    fn clear(
        &self,
        position: &EntryPosition,
        entry: &Entry,
        decided: &mut EntryDecision,
    ) -> Result<OverwriteDecision, FileError> {
        let (dir, name) = (&position.dir, &position.name);
        match (decided.decision, &entry.kind) {
            (decision @ OverwriteDecision::ReplaceTree, _) => {
                decided.removal = match &position.removal {
                    Some(removal) => self.parts.removals.may_still_clear(dir, name, TreeReplacement::clone(removal))?,
                    None => self.parts.removals.may_clear(dir, name, &entry.place)?,
                };
                Ok(decision)
            }
            (OverwriteDecision::Replace, EntryContent::Directory) => {
                let removal = self.parts.removals.may_clear(dir, name, &entry.place)?;
                if !self.parts.copy.is_dry() && self.parts.removals.exchange_for_directory(position, &entry.meta)? {
                    return Ok(OverwriteDecision::Replace);
                }
                self.parts.removals.clear_for_replacement(dir, name, &removal)?;
                Ok(OverwriteDecision::Create)
            }
            (decision, _) => Ok(decision),
        }
    }

    /// Whether an existing file has the digest that the source offered. An unreadable file counts as different.
    pub(crate) fn has_digest(&self, dir: &Dir, name: &Name, entry: &Entry) -> io::Result<bool> {
        let Some(offered) = entry.more.as_ref().and_then(|more| more.digest) else { return Ok(false) };
        let (file, stat) = match dir.open_file(name, FollowLinks::Itself) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(false),
            opened => opened?,
        };
        if !self.wrong_digests.may_compare(&stat) {
            return Ok(false);
        }
        let is_same = digest_of_open(file)? == offered;
        if !is_same {
            self.wrong_digests.count(&stat);
        }
        Ok(is_same)
    }

    /// Leaves an existing entry as it is.
    fn omit(&self, position: &EntryPosition, entry: &Entry) -> EntryResult {
        match entry.kind {
            EntryContent::File { size } => self.file_stays(position, size)?,
            EntryContent::HardLink { .. } => {}
            _ => add(&self.parts.copy.reporter.tally.symlinks, 1),
        }
        Ok(EntryAnswer::Settled)
    }

    pub(crate) fn file_stays(&self, position: &EntryPosition, size: u64) -> Result<(), FileError> {
        let path = || position.dir.path_of(position.name.as_bytes());
        let digest = match self
            .parts
            .digests
            .checksum_existing(path, || Ok(position.dir.open_file(&position.name, FollowLinks::Itself)?.0))?
        {
            None if self.parts.copy.request.digest_existing => Some(digest_of(&position.dir, &position.name)?),
            digest => digest,
        };
        self.parts.copy.reporter.file_existed(path, size, digest);
        Ok(())
    }
}

/// The answer that requests all of a file.
fn needed(file: ReceivingFile) -> EntryAnswer<ReceiverEntry> {
    let in_order = file.in_order_queue().is_some();
    let item = Arc::new(ReceiverEntry::File(file));
    if in_order { EntryAnswer::NeededInOrder(item) } else { EntryAnswer::Needed(item) }
}

/// BLAKE3 of an existing file.
fn digest_of(dir: &Dir, name: &Name) -> io::Result<Digest> {
    digest_of_open(dir.open_file(name, FollowLinks::Itself)?.0)
}

fn digest_of_open(file: OwnedFd) -> io::Result<Digest> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(std::fs::File::from(file))?;
    Ok(*hasher.finalize().as_bytes())
}

//! Decides how much of a file to transfer: nothing, the parts missing in a partial or base file, or all of it.

use std::io;
use std::sync::Arc;

use haul_proto::entry::{Entry, EntryMetadata};
use haul_proto::journal::JournalHeader;
use haul_proto::overwrite_policy::{ExistingEntry, OverwriteDecision};
use haul_proto::session::step::EntryAnswer;
use haul_proto::sync::EqualityTest;
use haul_proto::wire::ranges::TargetRange;

use crate::fs::FileStat;
use crate::fs::attributes::read;
use crate::fs::file_system::{clones_blocks, magic_of};
use crate::receiver::decide::{EntryDecider, EntryResult};
use crate::receiver::entry::ReceiverEntry;
use crate::receiver::file::named::NamedFile;
use crate::receiver::file::{ReceivingFile, UNKNOWN_SIZE};
use crate::receiver::metadata::rights::has_capability;
use crate::receiver::metadata::unset::EntryPlace;
use crate::receiver::place::entry_position::{EntryDecision, EntryPosition};
use crate::receiver::place::error::FileError;
use crate::receiver::place::existing_entry::{ExistingStat, attributes};
use crate::receiver::place::range_files::remove_left;
use crate::receiver::place::target_path::TargetPath;
use crate::receiver::place::temp_files::empty_left;

impl EntryDecider {
    /// Answers a file after its decision.
    pub(crate) fn file(
        &self,
        position: &EntryPosition,
        entry: &Entry,
        size: u64,
        decided: &EntryDecision,
        there: &ExistingStat,
    ) -> EntryResult {
        let meta = entry.meta;
        let path = target_path_at(position, decided);
        if let Some(use_of_ranges) = self.parts.copy.request.range {
            match use_of_ranges {
                TargetRange::One(range) => return self.receive_range(position, entry, size, range, decided, there),
                TargetRange::Finish(len) if decided.decision == OverwriteDecision::Keep => {
                    if len.divides(size) {
                        remove_left(&path, len, size);
                    }
                }
                TargetRange::Finish(len) => return self.finish_ranges(position, entry, size, len, decided),
            }
        }
        if decided.decision == OverwriteDecision::Keep {
            return self.keep_file(position, entry, size, &path, decided, there);
        }
        if path.replaces {
            self.parts.deltas.recover(&path, &meta)?;
        }
        self.parts.tree.quota.reserve(size)?;
        let known_names = |there: &FileStat| self.known_names(there);
        let base = match self.parts.deltas.find_base(&path, entry, size, known_names)? {
            None => self.find_earlier_base(&path, size).or_else(|| self.find_moved(&path, entry, size)),
            base => base,
        };
        let answer =
            if base.as_ref().is_some_and(|base| !base.is_lost) { EntryAnswer::Delta } else { EntryAnswer::Needed };
        let data_bytes = entry.more.as_ref().and_then(|more| more.data_bytes);
        let item = |file| Arc::new(ReceiverEntry::File(file));
        let (has_base, is_in_place) = (base.is_some(), base.as_ref().is_some_and(|base| base.in_place.is_some()));
        let (base, more) = (base.map(Box::new), entry.more.clone());
        let striping = self.parts.copy.striping_of(Some(size), more.as_deref());
        let named = NamedFile { base, more, striping, ..named_file(path.clone(), meta, decided) };
        if is_in_place {
            empty_left(&path);
            return Ok(answer(item(ReceivingFile::new(named, size))));
        }
        let Some((leaf, version)) = self.parts.tree.journals.place(&path, size).zip(entry.version) else {
            self.check_space(&path, size, data_bytes, has_base)?;
            return Ok(answer(item(ReceivingFile::new(named, size))));
        };
        let frame = self.parts.copy.request.settings.frame;
        let header =
            JournalHeader { name: path.name.clone(), size, modified: meta.modified, version, frame, range: None };
        match self.parts.tree.find_part(&path, &leaf, &header)? {
            Some(part) => Ok(EntryAnswer::Partial(item(ReceivingFile::resumed(named, leaf, header, part)))),
            // Another run had a partial file, and has just completed it.
            None if decided.decision == OverwriteDecision::Create && self.exists_now(position)? => {
                self.try_answer(position, entry)
            }
            None => {
                self.check_space(&path, size, data_bytes, has_base)?;
                Ok(answer(item(ReceivingFile::recorded(named, leaf, header))))
            }
        }
    }

    /// Answers a file whose existing counterpart stays.
    fn keep_file(
        &self,
        position: &EntryPosition,
        entry: &Entry,
        size: u64,
        path: &TargetPath,
        decided: &EntryDecision,
        there: &ExistingStat,
    ) -> EntryResult {
        let is_complete = there.stat.as_ref().map_or(Ok(true), |stat| self.refresh(position, entry, stat))?;
        self.file_stays(position, size)?;
        let foreign = self.parts.tree.journals.tidy(path, size);
        foreign.iter().for_each(|name| self.parts.tree.temp_files.report_foreign(path, name));
        if !is_complete {
            // The file exists, but is not known to equal the source's.
            return Ok(EntryAnswer::Settled);
        }
        self.parts.copy.report_decision(position, entry, decided);
        let is_same = self.parts.copy.request.sync.equal == EqualityTest::Digest || size == 0;
        if is_same { self.known_to_be_same(position, true) } else { Ok(EntryAnswer::Settled) }
    }

    /// Answers a file of unknown size, which has no journal since it cannot be resumed.
    pub(crate) fn stream(
        &self,
        position: &EntryPosition,
        meta: EntryMetadata,
        decided: &EntryDecision,
    ) -> EntryAnswer<ReceiverEntry> {
        let striping = self.parts.copy.striping_of(None, None);
        let named = NamedFile { striping, ..named_file(target_path_at(position, decided), meta, decided) };
        EntryAnswer::Needed(Arc::new(ReceiverEntry::File(ReceivingFile::new(named, UNKNOWN_SIZE))))
    }

    fn exists_now(&self, position: &EntryPosition) -> io::Result<bool> {
        Ok(!position.fresh && ExistingStat::at(&position.dir, &position.name)?.existing != ExistingEntry::Absent)
    }

    /// Updates the preserved owner, mode, time and attributes of an existing file. Returns whether it counts as complete.
    fn refresh(&self, position: &EntryPosition, entry: &Entry, there: &FileStat) -> Result<bool, FileError> {
        let (dir, name) = (&position.dir, &position.name);
        let meta = &self.parts.metadata.settable(dir, name, &entry.meta, there);
        let (rights, times) = (self.parts.copy.request.metadata.rights, self.parts.copy.request.metadata.times);
        let owned = |meta: &EntryMetadata| (meta.mode, meta.uid, meta.gid);
        let has_other_owner = owned(&there.meta) != owned(meta);
        // A file equal by size or digest alone gets the source's time too.
        let has_other_time = times.files && there.meta.modified != meta.modified;
        if !self.parts.metadata.keeps_attributes() && !has_other_owner && !has_other_time {
            return Ok(true);
        }
        let (file, stat) = self.parts.metadata.open_to_set(dir, name)?;
        let wanted = attributes(entry).filter(|_| has_capability(entry));
        let has_other_attributes = wanted.is_some_and(|wanted| {
            let found = read(&file, self.parts.copy.request.metadata.preserve).unwrap_or_default();
            wanted.iter().any(|attribute| !found.contains(attribute))
        });
        self.parts.metadata.may_adjust(entry, meta, &stat, has_other_attributes)?;
        let sets_mode = rights.mode || meta.mode != there.meta.mode;
        let keep = self.parts.metadata.preserved_parts(sets_mode.then_some(meta.mode), has_other_time);
        let place = EntryPlace::in_directory(dir, name);
        Ok(self.parts.metadata.apply_all(place, &file, meta, keep, attributes(entry))?.1)
    }

    /// Fails at once, not after hours, if a large file cannot fit; on a full file system, any new file. A base file
    /// whose blocks can be cloned leaves unknown how much is needed.
    pub(crate) fn check_space(
        &self,
        path: &TargetPath,
        size: u64,
        data_bytes: Option<u64>,
        has_base: bool,
    ) -> Result<(), FileError> {
        if !path.replaces && !has_base {
            self.parts.copy.check_full_disk(&path.dir, size)?;
        }
        if size <= self.parts.copy.request.settings.frame.pack_file_max() || !self.parts.copy.request.write.check_space
        {
            return Ok(());
        }
        let Ok(space) = rustix::fs::fstatvfs(&*path.dir.fd()?) else { return Ok(()) };
        if has_base
            && !self.parts.copy.policy.is_forced()
            && path.dir.fd().is_ok_and(|fd| clones_blocks(magic_of(&*fd)))
        {
            return Ok(());
        }
        let free = space.f_bavail.saturating_mul(space.f_frsize);
        // A file system without blocks (ramfs) reports none.
        let needed = data_bytes.map_or(size, |data_bytes| data_bytes.min(size));
        if space.f_blocks > 0 && needed > free { Err(FileError::NoSpace { needed, free }) } else { Ok(()) }
    }
}

fn named_file(path: TargetPath, meta: EntryMetadata, decided: &EntryDecision) -> NamedFile {
    let is_tree = decided.decision == OverwriteDecision::ReplaceTree;
    let replaces_tree = is_tree.then(|| Box::new(decided.removal.clone()));
    NamedFile { replaces_tree, change: decided.change, ..NamedFile::new(path, meta) }
}

pub(crate) fn target_path_at(position: &EntryPosition, decided: &EntryDecision) -> TargetPath {
    let replaces = matches!(decided.decision, OverwriteDecision::Replace | OverwriteDecision::ReplaceTree);
    TargetPath { dir: position.dir.clone(), name: position.name.clone(), replaces }
}

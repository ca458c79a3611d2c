//! Complete files get their names, later durable on the disk; failed files are given up. Each entry has exactly one
//! outcome.

use std::sync::Arc;

use haul_lab::Rng;
use haul_proto::entry::Timestamp;
use haul_proto::ids::EntryId;
use haul_proto::session::step::{FinishedEntry, LostFile};

use super::{DoneEntries, EntryOutcome, Receiver, Todo};
use crate::Plant;
use crate::content::FileContent;
use crate::disk::DiskEntry;
use crate::storage::SimStorage;

impl Receiver {
    /// Does one thing that is to be done.
    pub fn work(&mut self, storage: &mut SimStorage, rng: &mut Rng) -> DoneEntries<bool> {
        if self.todo.is_empty() {
            return Ok(false);
        }
        let at = rng.index(self.todo.len());
        let fails = storage.full || rng.chance(self.settings.rates.name);
        match self.todo.swap_remove(at) {
            Todo::Prove(proof) => self.prove(proof, storage, rng)?,
            Todo::Tell(telling) => self.tell(telling, rng),
            Todo::Remove { entry, handle } => {
                storage.parts.remove(&self.open[handle].path);
                self.close(handle, EntryOutcome::Failed)?;
                let finish = self.machine.abandoned(entry);
                self.todo.extend(finish.map(Todo::Finish));
            }
            Todo::Settle { entry, handle } => {
                storage.sync_name(&self.open[handle].path);
                self.settle(entry, handle)?;
            }
            Todo::Finish(finish) if fails && finish.end.is_some() => self.lose_frames(finish, storage, rng)?,
            Todo::Finish(finish) if fails => self.fail(finish.entry, *finish.handle, storage)?,
            Todo::Name { entry, handle, .. } if fails => self.lose(entry, handle, storage)?,
            Todo::Name { entry, handle, content, modified } => self.name(entry, handle, content, modified, storage)?,
            Todo::Finish(FinishedEntry { entry, handle, end: Some(end), .. }) => {
                let content = self.whole(*handle, storage)?;
                if self.settings.verify_memory && content.digest() != end.digest {
                    return Err("a file whose digest is not what its source said is called whole".into());
                }
                self.name(entry, *handle, content, end.modified, storage)?;
            }
            Todo::Finish(FinishedEntry { entry, handle, end: None, .. }) => self.finish_directory(entry, *handle)?,
        }
        Ok(true)
    }

    /// The verdict on a large file reported complete.
    fn whole(&mut self, handle: usize, storage: &mut SimStorage) -> DoneEntries<FileContent> {
        let open = &mut self.open[handle];
        let blocks = match (&mut open.device, storage.parts.get_mut(&open.path)) {
            (Some(blocks), _) => std::mem::take(blocks).into_iter().collect(),
            (None, Some(part)) => {
                part.sync();
                return Ok(part.content());
            }
            (None, None) => None,
        };
        blocks.map(FileContent::from_blocks).ok_or_else(|| "a file with holes is called whole".into())
    }

    fn name(
        &mut self,
        entry: EntryId,
        handle: usize,
        content: FileContent,
        modified: Timestamp,
        storage: &mut SimStorage,
    ) -> DoneEntries<()> {
        let open = &mut self.open[handle];
        if std::mem::replace(&mut open.closed, true) {
            return Ok(());
        }
        if open.device.is_some() {
            self.device_writes.push((open.path.clone(), content));
            return self.settle(entry, handle);
        }
        let written = self.settings.plant != Plant::NameUnwritten;
        storage.give_name(&open.path, DiskEntry::File(content, modified), written);
        if self.settings.plant == Plant::SettleEarly {
            return self.settle(entry, handle);
        }
        self.todo.push(Todo::Settle { entry, handle });
        Ok(())
    }

    /// An entry is at its place, to stay.
    fn settle(&mut self, entry: EntryId, handle: usize) -> DoneEntries<()> {
        let open = &self.open[handle];
        let (path, directory) = (open.path.clone(), open.directory);
        self.settled(&path, EntryOutcome::Done, directory)?;
        let finish = self.machine.settle_entry(entry, true);
        self.todo.extend(finish.map(Todo::Finish));
        Ok(())
    }

    fn finish_directory(&mut self, entry: EntryId, handle: usize) -> DoneEntries<()> {
        let open = &self.open[handle];
        let left = self.unsettled_in.get(&open.path).copied().unwrap_or(0);
        if !open.directory || left > 0 {
            return Err(format!("a directory is called complete with {left} entries to come"));
        }
        self.open[handle].closed = true;
        self.settle(entry, handle)
    }

    /// A whole file of a pack does not reach the disk: it comes again, and if it is lost then, it fails.
    fn lose(&mut self, entry: EntryId, handle: usize, storage: &mut SimStorage) -> DoneEntries<()> {
        if self.open[handle].closed {
            return Ok(());
        }
        if self.machine.lost(vec![LostFile { entry, handle: Arc::new(handle), left: None }]).is_empty() {
            self.resent += 1;
            return Ok(());
        }
        self.fail(entry, handle, storage)
    }

    /// Some frames of a whole file, or all, are not on the disk as they were sent: they come again, and if the file is lost
    /// then, it fails.
    fn lose_frames(
        &mut self,
        finish: FinishedEntry<usize>,
        storage: &mut SimStorage,
        rng: &mut Rng,
    ) -> DoneEntries<()> {
        let FinishedEntry { entry, handle, end, .. } = finish;
        let open = &self.open[*handle];
        let end = end.filter(|_| !open.closed && open.device.is_none());
        let Some((mut end, part)) = end.zip(storage.parts.get_mut(&open.path)) else {
            return self.fail(entry, *handle, storage);
        };
        let frames = end.tree.frames();
        let at = rng.below(frames.max(1));
        end.tree.forget(&if rng.chance(500) { 0..frames } else { at..at + 1 });
        end.tree.missing().flatten().for_each(|frame| part.lose(frame));
        let left = Some((open.size, end));
        if self.machine.lost(vec![LostFile { entry, handle: Arc::clone(&handle), left }]).is_empty() {
            self.resent += 1;
            return Ok(());
        }
        self.fail(entry, *handle, storage)
    }

    /// Fails an entry, unless another thread did so before. Resumable data stays.
    pub(super) fn fail(&mut self, entry: EntryId, handle: usize, storage: &mut SimStorage) -> DoneEntries<()> {
        let open = &self.open[handle];
        if open.closed {
            return Ok(());
        }
        if storage.parts.get(&open.path).is_some_and(|part| !part.has_journal()) {
            storage.parts.remove(&open.path);
        }
        self.close(handle, EntryOutcome::Failed)?;
        if self.settings.plant != Plant::FailSilently {
            let finish = self.machine.settle_entry(entry, false);
            self.todo.extend(finish.map(Todo::Finish));
        }
        Ok(())
    }

    fn close(&mut self, handle: usize, fate: EntryOutcome) -> DoneEntries<()> {
        let open = &mut self.open[handle];
        if std::mem::replace(&mut open.closed, true) {
            return Ok(());
        }
        let (path, directory) = (open.path.clone(), open.directory);
        self.settled(&path, fate, directory)
    }

    /// Records an entry's outcome: once.
    pub(super) fn settled(&mut self, path: &[u8], fate: EntryOutcome, directory: bool) -> DoneEntries<()> {
        if let Some(before) = self.fates.insert(path.to_vec(), fate) {
            return Err(format!("an entry is {before:?}, and then {fate:?}"));
        }
        self.unsettled -= usize::from(!directory);
        let parent = path.iter().rposition(|byte| *byte == b'/').map(|at| &path[..at]);
        if let Some(left) = parent.and_then(|parent| self.unsettled_in.get_mut(parent)) {
            *left -= 1;
        }
        Ok(())
    }
}

//! Offers of the source: entries, each in its directory, and the ends of directories.

use std::sync::Arc;

use super::{ReceiveState, ReceivedEntry, TargetSession};
use crate::entry::{Entry, EntryContent, EntryLocation};
use crate::error::ProtocolError;
use crate::hard_links::LinkDirectoryName;
use crate::ids::EntryId;
use crate::limits::{ENTRY_WINDOW, OPEN_DIRECTORIES_BYTES_MAX, OPEN_DIRECTORIES_MAX, UNSETTLED_BYTES_MAX};
use crate::session::step::TargetStep;

impl<H> TargetSession<H> {
    pub(super) fn handle_offer(&mut self, first: EntryId, entries: Vec<Entry>) -> Result<TargetStep<H>, ProtocolError> {
        if first.0 != self.next || entries.is_empty() || !self.decisions.needs.is_empty() {
            return Err(ProtocolError::OutOfTurn("an offer"));
        }
        for (id, entry) in (first.0..).map(EntryId).zip(&entries) {
            if let EntryContent::HardLink { to, .. } = entry.kind
                && to >= id
            {
                return Err(ProtocolError::Unasked("a hard link to an entry that was never offered"));
            }
            let parent = match entry.place {
                EntryLocation::Again(old) => self.replace(id, old, &entry.kind)?,
                _ => self.adopt(&entry.place)?,
            };
            let directory = entry.kind == EntryContent::Directory;
            let bytes = self.window.add(entry);
            self.check_window()?;
            let state = match directory {
                // Its children may be in the same Offer.
                true => ReceiveState::Directory { handle: None, children: 0, ended: false, complete: false },
                false => ReceiveState::Examining { kind: entry.kind.clone() },
            };
            let name = if let EntryLocation::Child { name, .. } = &entry.place { name.as_bytes() } else { b"" };
            let name_len = u8::try_from(name.len()).unwrap_or(u8::MAX);
            self.entries.insert(id, ReceivedEntry { parent, state, bytes, name_len, released: false, again: false });
        }
        self.next += entries.len() as u64;
        self.decisions.first = first;
        Ok(TargetStep::Examine(first, entries))
    }

    /// Counts a child in its parent.
    fn adopt(&mut self, place: &EntryLocation) -> Result<Option<EntryId>, ProtocolError> {
        let EntryLocation::Child { parent, .. } = place else { return Ok(None) };
        match self.entries.get_mut(parent) {
            Some(ReceivedEntry { state: ReceiveState::Directory { children, ended: false, .. }, .. }) => {
                *children += 1;
                Ok(Some(*parent))
            }
            _ => Err(ProtocolError::Unasked("a child of an entry that is not an open directory")),
        }
    }

    /// Replaces a file with a new offer of it; the old one is void. Returns its parent.
    fn replace(&mut self, new: EntryId, old: EntryId, kind: &EntryContent) -> Result<Option<EntryId>, ProtocolError> {
        if !matches!(kind, EntryContent::File { .. }) {
            return Err(ProtocolError::Invalid("another kind of entry in place of a file"));
        }
        self.tracked(old)?;
        let Some(tracked) = self.entries.get_mut(&old) else { return Ok(None) };
        let handle = match &tracked.state {
            ReceiveState::Small { handle } => Arc::clone(handle),
            ReceiveState::Large(large) => Arc::clone(&large.handle),
            ReceiveState::Finishing => return Ok(None),
            ReceiveState::Examining { .. } | ReceiveState::Directory { .. } => {
                return Err(ProtocolError::OutOfTurn("an offer"));
            }
        };
        tracked.state = ReceiveState::Finishing;
        if !std::mem::replace(&mut tracked.released, true) {
            self.window.remove(tracked.bytes);
        }
        let parent = tracked.parent;
        if let Some(ReceivedEntry { state: ReceiveState::Directory { children, .. }, .. }) =
            parent.and_then(|parent| self.entries.get_mut(&parent))
        {
            *children += 1;
        }
        self.again.insert(new, (old, handle));
        Ok(parent)
    }

    fn check_window(&self) -> Result<(), ProtocolError> {
        if self.window.entries > ENTRY_WINDOW || self.window.open_directories > OPEN_DIRECTORIES_MAX {
            return Err(ProtocolError::OverLimit("entries that are not settled"));
        }
        if self.window.bytes > UNSETTLED_BYTES_MAX || self.window.open_bytes > OPEN_DIRECTORIES_BYTES_MAX {
            return Err(ProtocolError::OverLimit("names and attributes of entries that are not settled"));
        }
        Ok(())
    }

    /// Returns an open directory and those above it, up to the source argument.
    pub fn directories_from(&self, directory: EntryId) -> impl Iterator<Item = LinkDirectoryName> + '_ {
        let ids = std::iter::successors(Some(directory), |id| self.entries.get(id)?.parent);
        ids.filter_map(|id| Some(LinkDirectoryName { id, name_len: usize::from(self.entries.get(&id)?.name_len) }))
    }

    /// Returns a directory that has not ended; `None` where it was refused.
    pub(super) fn open_directory(&self, entry: EntryId) -> Result<Option<Arc<H>>, ProtocolError> {
        match self.entries.get(&entry) {
            Some(ReceivedEntry { state: ReceiveState::Directory { handle, ended: false, .. }, .. }) => {
                Ok(handle.clone())
            }
            _ => Err(ProtocolError::OutOfTurn("an exclusion from a directory")),
        }
    }

    pub(super) fn handle_directory_end(
        &mut self,
        entry: EntryId,
        is_complete: bool,
    ) -> Result<TargetStep<H>, ProtocolError> {
        match self.entries.get_mut(&entry) {
            Some(ReceivedEntry {
                state: ReceiveState::Directory { ended: ended @ false, complete, .. },
                bytes,
                ..
            }) => {
                (*ended, *complete) = (true, is_complete);
                self.window.close_directory(*bytes);
            }
            _ => return Err(ProtocolError::OutOfTurn("the end of a directory")),
        }
        Ok(self.directory_step(entry).map_or(TargetStep::None, TargetStep::Finish))
    }
}

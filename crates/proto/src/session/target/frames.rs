//! Frames and packs: those to write, and those to request again.

use std::ops::Range;
use std::sync::Arc;

use super::{LargeReceive, RUNS_COUNTED_EVERY, ReceiveState, ReceivedEntry, TargetSession};
use crate::error::ProtocolError;
use crate::ids::EntryId;
use crate::integrity::Digest;
use crate::limits::{FRAME_RUNS_MAX, UNMERGED_RUNS_MAX};
use crate::session::step::TargetStep;
use crate::wire::frame::PackedFile;
use crate::wire::message::TargetMessage;

impl<H> TargetSession<H> {
    /// Admits a frame of a file. Returns the handle to write to, or `None` to discard the frame: it is late, exists
    /// already, or is being written.
    ///
    /// Each admitted frame is followed by [`Self::frame_written`], [`Self::release_frame`], [`Self::resend_frame`] or
    /// [`Self::settle_entry`].
    pub fn admit_frame(&mut self, entry: EntryId, offset: u64, len: usize) -> Result<Option<Arc<H>>, ProtocolError> {
        self.outbox.check_resends()?;
        if self.runs.are_too_many {
            return Err(ProtocolError::OverLimit("frames with gaps between them"));
        }
        let frame = self.settings.frame;
        self.tracked(entry)?;
        let Some(tracked) = self.entries.get_mut(&entry) else { return Ok(None) };
        match &mut tracked.state {
            ReceiveState::Large(large) if large.differing.is_none() => {
                let index = large.index_of(frame, offset, len)?;
                let is_new = !large.tree.contains(index) && large.in_hand.insert(index);
                Ok(is_new.then(|| Arc::clone(&large.handle)))
            }
            ReceiveState::Finishing => Ok(None),
            ReceiveState::Examining { .. }
            | ReceiveState::Small { .. }
            | ReceiveState::Directory { .. }
            | ReceiveState::Large(_) => Err(ProtocolError::Unasked("a frame of an entry that needs none")),
        }
    }

    /// Records that an admitted frame is written; `value` is its BLAKE3 value.
    pub fn frame_written(&mut self, entry: EntryId, offset: u64, value: Digest) -> TargetStep<H> {
        let frame = u64::from(self.settings.frame.get());
        if let Some(ReceivedEntry { state: ReceiveState::Large(large), .. }) = self.entries.get_mut(&entry) {
            let index = offset / frame;
            large.in_hand.remove(&index);
            self.unsure.remove(entry, index);
            self.advertised.came(entry, index);
            let runs = large.tree.seen().runs();
            large.tree.insert(index, value);
            let begins_run = large.tree.seen().runs() > runs;
            self.acknowledge_written(entry);
            self.count_runs(begins_run);
        }
        self.finish_if_complete(entry)
    }

    /// Checks whether the frames of all files form too many runs; if so, the next frame is a protocol error.
    fn count_runs(&mut self, begins_run: bool) {
        self.runs.begun += usize::from(begins_run);
        if self.runs.begun < RUNS_COUNTED_EVERY {
            return;
        }
        self.runs.begun = 0;
        let runs_of = |tracked: &ReceivedEntry<H>| match &tracked.state {
            ReceiveState::Large(large) => large.tree.seen().runs(),
            _ => 0,
        };
        self.runs.are_too_many = self.entries.values().map(runs_of).sum::<usize>() > UNMERGED_RUNS_MAX;
    }

    /// Releases an admitted frame unwritten, since it will be sent again.
    pub fn release_frame(&mut self, entry: EntryId, offset: u64) {
        let index = offset / u64::from(self.settings.frame.get());
        if let Some(ReceivedEntry { state: ReceiveState::Large(large), .. }) = self.entries.get_mut(&entry) {
            large.in_hand.remove(&index);
        }
    }

    /// Requests a damaged admitted frame again, unless its file is complete meanwhile.
    pub fn resend_frame(&mut self, entry: EntryId, offset: u64) {
        let index = offset / u64::from(self.settings.frame.get());
        if let Some(large) = self.large_mut(entry) {
            large.in_hand.remove(&index);
            self.lacks(entry, &[index..index + 1]);
        }
    }

    pub(super) fn large_mut(&mut self, entry: EntryId) -> Option<&mut LargeReceive<H>> {
        match &mut self.entries.get_mut(&entry)?.state {
            ReceiveState::Large(large) => Some(large),
            _ => None,
        }
    }

    /// Requests these frames of a file, for the first time or again.
    pub fn lacks(&mut self, entry: EntryId, frames: &[Range<u64>]) {
        if !self.entries.contains_key(&entry) {
            return;
        }
        for frames in frames.chunks(FRAME_RUNS_MAX) {
            self.outbox.push(TargetMessage::MissingRanges { entry, frames: frames.to_vec() });
        }
    }

    /// Admits the files of a pack. Returns for each the handle to write to, or `None` to discard it.
    ///
    /// Admitted files count as whole: the engine writes them, sets their final names and calls [`Self::settle_entry`], or
    /// [`Self::lost`].
    pub fn admit_pack(&mut self, files: &[PackedFile]) -> Result<Vec<Option<Arc<H>>>, ProtocolError> {
        self.check_pack(files)?;
        let mut admitted = Vec::with_capacity(files.len());
        for file in files {
            let small =
                self.entries.get_mut(&file.entry).filter(|tracked| matches!(tracked.state, ReceiveState::Small { .. }));
            admitted.push(small.and_then(|tracked| {
                match std::mem::replace(&mut tracked.state, ReceiveState::Finishing) {
                    ReceiveState::Small { handle } => Some(handle),
                    _ => None,
                }
            }));
        }
        Ok(admitted)
    }

    /// Requests the files of a damaged pack again.
    pub fn resend_pack(&mut self, files: &[PackedFile]) -> Result<(), ProtocolError> {
        self.check_pack(files)?;
        let awaits = |entry: &_| {
            matches!(self.entries.get(entry), Some(ReceivedEntry { state: ReceiveState::Small { .. }, .. }))
        };
        let entries: Vec<_> = files.iter().map(|file| file.entry).filter(awaits).collect();
        if !entries.is_empty() {
            self.outbox.push(TargetMessage::ResendPacked { entries });
        }
        Ok(())
    }

    fn check_pack(&self, files: &[PackedFile]) -> Result<(), ProtocolError> {
        self.outbox.check_resends()?;
        for file in files {
            match self.tracked(file.entry)?.map(|tracked| &tracked.state) {
                None | Some(ReceiveState::Small { .. } | ReceiveState::Finishing) => {}
                Some(_) => return Err(ProtocolError::Unasked("a packed file that is not needed")),
            }
        }
        Ok(())
    }
}

//! The scheduler: turns needs into work. Any stream takes the next piece, so a slow stream holds nothing up;
//! the last big file is shared by all, in pieces that shrink towards its end.

use std::collections::{HashSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use crate::ids::EntryId;
use crate::integrity::FrameLen;
use crate::wire::limits::{LARGE_IN_FLIGHT_MAX, PACK_FILES_MAX};

/// Most frames that a stream takes at a time.
const PIECE_FRAMES_MAX: u64 = 16;

/// What a stream is to do next.
#[derive(Debug)]
pub enum Work<H> {
    /// Send these frames of one file.
    Frames(Piece<H>),
    /// Send these small files in one pack.
    Pack(Vec<SmallFile<H>>),
}

/// Frames of a file.
#[derive(Debug)]
pub struct Piece<H> {
    /// The file.
    pub entry: EntryId,
    /// What the engine knows it by.
    pub handle: Arc<H>,
    /// Bytes of the whole file.
    pub size: u64,
    /// Indices of the frames.
    pub frames: Range<u64>,
}

/// A small file.
#[derive(Debug)]
pub struct SmallFile<H> {
    /// The file.
    pub entry: EntryId,
    /// What the engine knows it by.
    pub handle: Arc<H>,
    /// Bytes when it was offered.
    pub size: u64,
}

/// What is needed and not yet handed out.
#[derive(Debug)]
pub struct Plan<H> {
    frame: FrameLen,
    streams: u64,
    again: VecDeque<Piece<H>>,
    small: VecDeque<SmallFile<H>>,
    small_bytes: u64,
    large: VecDeque<Large<H>>,
    /// Large files of which a piece was handed out, and that are not settled.
    in_flight: HashSet<EntryId>,
}

#[derive(Debug)]
struct Large<H> {
    piece: Piece<H>,
    in_order: bool,
}

impl<H> Plan<H> {
    /// For this many streams.
    pub fn new(frame: FrameLen, streams: u16) -> Self {
        Self {
            frame,
            streams: u64::from(streams.max(1)),
            again: VecDeque::new(),
            small: VecDeque::new(),
            small_bytes: 0,
            large: VecDeque::new(),
            in_flight: HashSet::new(),
        }
    }

    /// Adds a whole file; `in_order` keeps it on one stream.
    pub fn add(&mut self, entry: EntryId, handle: Arc<H>, size: u64, in_order: bool) {
        if size <= self.frame.pack_file_max() {
            self.small_bytes += size;
            self.small.push_back(SmallFile { entry, handle, size });
        } else {
            let frames = 0..self.frame.frames(size);
            self.large.push_back(Large { piece: Piece { entry, handle, size, frames }, in_order });
        }
    }

    /// Files that are not handed out, or not wholly; those that a target gave up meanwhile are among them.
    pub fn waiting(&self) -> usize {
        self.small.len() + self.large.len()
    }

    /// Frames that have to be sent again and are not handed out.
    pub fn waiting_again(&self) -> usize {
        self.again.len()
    }

    /// Adds one frame that has to be sent again; it goes first.
    pub fn add_again(&mut self, piece: Piece<H>) {
        self.again.push_back(piece);
    }

    /// A file is settled: one more large one may begin.
    pub fn settle(&mut self, entry: EntryId) {
        self.in_flight.remove(&entry);
    }

    /// Forgets what is left of a large file that is settled.
    pub fn forget(&mut self, entry: EntryId) {
        self.settle(entry);
        self.again.retain(|piece| piece.entry != entry);
        self.large.retain(|large| large.piece.entry != entry);
    }

    /// The next piece of work, if there is any. Full packs come before large files, and these before packs that are
    /// not full: so packs fill up, and small files do not wait until the large ones are through. While
    /// [`LARGE_IN_FLIGHT_MAX`] large files are under way no other is begun; what has to be sent again is not held up.
    pub fn take(&mut self) -> Option<Work<H>> {
        if let Some(piece) = self.again.pop_front() {
            return Some(Work::Frames(piece));
        }
        let full = self.small_bytes >= u64::from(self.frame.get()) || self.small.len() >= PACK_FILES_MAX;
        if full {
            return Some(Work::Pack(self.take_pack()));
        }
        match self.take_piece() {
            Some(piece) => Some(Work::Frames(piece)),
            None => (!self.small.is_empty()).then(|| Work::Pack(self.take_pack())),
        }
    }

    fn take_pack(&mut self) -> Vec<SmallFile<H>> {
        let mut pack = Vec::new();
        let mut bytes = 0;
        while let Some(file) = self.small.front() {
            if pack.len() == PACK_FILES_MAX || bytes + file.size > u64::from(self.frame.get()) {
                break;
            }
            bytes += file.size;
            pack.extend(self.small.pop_front());
        }
        self.small_bytes -= bytes;
        pack
    }

    fn take_piece(&mut self) -> Option<Piece<H>> {
        let large = self.large.front_mut()?;
        if !self.in_flight.contains(&large.piece.entry) {
            if self.in_flight.len() >= LARGE_IN_FLIGHT_MAX {
                return None;
            }
            self.in_flight.insert(large.piece.entry);
        }
        let left = large.piece.frames.end - large.piece.frames.start;
        let share = (left / (2 * self.streams)).clamp(1, PIECE_FRAMES_MAX);
        if large.in_order || share >= left {
            return self.large.pop_front().map(|large| large.piece);
        }
        let start = large.piece.frames.start;
        large.piece.frames.start += share;
        let Piece { entry, ref handle, size, .. } = large.piece;
        Some(Piece { entry, handle: Arc::clone(handle), size, frames: start..start + share })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ranges::RangeSet;

    const F: u64 = 256 << 10;

    fn plan(streams: u16) -> Plan<()> {
        Plan::new(FrameLen::new(256 << 10).unwrap(), streams)
    }

    #[test]
    fn every_frame_is_handed_out_once() {
        let mut plan = plan(8);
        plan.add(EntryId(1), Arc::new(()), 1000 * F + 1, false);
        let mut seen = RangeSet::new();
        let mut pieces = 0;
        while let Some(Work::Frames(piece)) = plan.take() {
            assert!(piece.frames.clone().all(|frame| seen.insert(frame)));
            pieces += 1;
        }
        assert_eq!(seen.len(), 1001);
        assert!(pieces > 1001 / PIECE_FRAMES_MAX + 8, "pieces must shrink towards the end");
    }

    #[test]
    fn one_stream_gets_a_file_in_order() {
        let mut plan = plan(8);
        plan.add(EntryId(1), Arc::new(()), 1000 * F, true);
        let Some(Work::Frames(piece)) = plan.take() else { panic!("no work") };
        assert_eq!(piece.frames, 0..1000);
        assert!(plan.take().is_none());
    }

    #[test]
    fn packs_hold_their_limits_and_everything() {
        let mut plan = plan(2);
        for id in 0..2000 {
            plan.add(EntryId(id), Arc::new(()), if id % 2 == 0 { 0 } else { 3000 }, false);
        }
        let mut ids = Vec::new();
        while let Some(Work::Pack(files)) = plan.take() {
            assert!(files.len() <= PACK_FILES_MAX && files.iter().map(|file| file.size).sum::<u64>() <= F);
            ids.extend(files.iter().map(|file| file.entry.0));
        }
        assert_eq!(ids, (0..2000).collect::<Vec<_>>());
        assert_eq!(plan.small_bytes, 0);
    }

    #[test]
    fn only_so_many_large_files_are_begun_until_one_is_settled() {
        let mut plan = plan(2);
        let most = LARGE_IN_FLIGHT_MAX as u64;
        let one = |id, size| Piece { entry: EntryId(id), handle: Arc::new(()), size, frames: 0..1 };
        for id in 0..most + 2 {
            plan.add(EntryId(id), Arc::new(()), F, false);
        }
        for id in 0..most {
            assert!(matches!(plan.take(), Some(Work::Frames(piece)) if piece.entry == EntryId(id)));
        }
        assert!(plan.take().is_none());
        plan.add_again(one(0, F));
        assert!(matches!(plan.take(), Some(Work::Frames(piece)) if piece.entry == EntryId(0)), "sent again");
        plan.add(EntryId(9999), Arc::new(()), 1, false);
        assert!(matches!(plan.take(), Some(Work::Pack(files)) if files.len() == 1), "small files need not wait");
        plan.settle(EntryId(9999));
        assert!(plan.take().is_none(), "only a large one makes room");
        plan.settle(EntryId(7));
        plan.settle(EntryId(7));
        assert!(matches!(plan.take(), Some(Work::Frames(piece)) if piece.entry == EntryId(most)));
        assert!(plan.take().is_none(), "one for one");
        plan.forget(EntryId(most));
        assert!(matches!(plan.take(), Some(Work::Frames(piece)) if piece.entry == EntryId(most + 1)));
    }

    #[test]
    fn a_file_that_is_begun_goes_on_at_the_limit() {
        let mut plan = plan(8);
        for id in 0..LARGE_IN_FLIGHT_MAX as u64 - 1 {
            plan.add(EntryId(id), Arc::new(()), F, false);
        }
        plan.add(EntryId(1000), Arc::new(()), 500 * F, false);
        let mut frames = 0;
        while let Some(Work::Frames(piece)) = plan.take() {
            frames += piece.frames.end - piece.frames.start;
        }
        assert_eq!(frames, LARGE_IN_FLIGHT_MAX as u64 - 1 + 500, "all streams share the last one");
    }

    #[test]
    fn what_must_go_again_goes_first_and_what_failed_never() {
        let mut plan = plan(2);
        plan.add(EntryId(1), Arc::new(()), 10, false);
        plan.add(EntryId(2), Arc::new(()), 9 * F, false);
        plan.add_again(Piece { entry: EntryId(3), handle: Arc::new(()), size: 9 * F, frames: 4..5 });
        assert!(matches!(plan.take(), Some(Work::Frames(piece)) if piece.entry == EntryId(3)));
        plan.forget(EntryId(2));
        assert!(matches!(plan.take(), Some(Work::Pack(files)) if files[0].entry == EntryId(1)));
        assert!(plan.take().is_none());
    }
}

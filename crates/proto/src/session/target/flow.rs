//! Flows at the target: files that come from their beginning to their end, each frame by whichever stream has it. Their
//! source cannot read a frame twice, and is told how far they are written. Some have a size only at their end.

use super::{LargeReceive, TargetSession};
use crate::error::ProtocolError;
use crate::ids::EntryId;
use crate::integrity::{FrameLen, FrameTree};
use crate::wire::message::TargetMessage;

/// A flow is told of this often before its source has to wait.
const TOLD_PARTS: u64 = 8;

/// What is known of how long a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FlowLength {
    /// So many bytes.
    Known(u64),
    /// That comes with its end. The one frame that was shorter than others, if it has come: its index and length.
    Open(Option<(u64, usize)>),
}

/// How far a flow is written.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FlowProgress {
    /// The source was told of the frames before this one.
    told: u64,
}

impl<H> LargeReceive<H> {
    /// The frame at `offset`, if one of `len` bytes can be there. Of a flow, it may not be too far ahead.
    pub(super) fn index_of(&mut self, frame: FrameLen, offset: u64, len: usize) -> Result<u64, ProtocolError> {
        let index = match &mut self.extent {
            FlowLength::Known(size) => frame.index_of(*size, offset, len)?,
            FlowLength::Open(short) => open_index_of(frame, short, self.tree.seen().end(), offset, len)?,
        };
        if self.flow.is_some() && index >= self.tree.seen().first_gap().saturating_add(frame.frames_ahead()) {
            return Err(ProtocolError::OverLimit("frames ahead of what is written"));
        }
        Ok(index)
    }

    /// Frames that it has or may have by now.
    pub(super) fn frames(&self, frame: FrameLen) -> u64 {
        match self.extent {
            FlowLength::Known(size) => frame.frames(size),
            FlowLength::Open(_) => self.tree.seen().first_gap().saturating_add(frame.frames_ahead()),
        }
    }

    /// Its end says how long it is.
    pub(super) fn close(&mut self, frame: FrameLen, size: u64) -> Result<(), ProtocolError> {
        let fits = match self.extent {
            FlowLength::Known(known) => known == size,
            FlowLength::Open(short) => {
                let is_short = |(index, len)| frame.frame_len(size, index) == Some(len);
                let frames = frame.frames(size);
                let begun = self.in_hand.iter().all(|index| *index < frames);
                short.is_none_or(is_short) && begun && self.is_last_full(frame, short, size) && self.tree.close(frames)
            }
        };
        self.extent = FlowLength::Known(size);
        if fits { Ok(()) } else { Err(ProtocolError::Misplaced) }
    }

    /// What has come without being short was not the end's rest.
    fn is_last_full(&self, frame: FrameLen, short: Option<(u64, usize)>, size: u64) -> bool {
        let rest = size % u64::from(frame.get());
        let last = size / u64::from(frame.get());
        let has_come = self.tree.contains(last) || self.in_hand.contains(&last);
        rest == 0 || !has_come || short.is_some()
    }
}

fn open_index_of(
    frame: FrameLen,
    short: &mut Option<(u64, usize)>,
    end: u64,
    offset: u64,
    len: usize,
) -> Result<u64, ProtocolError> {
    let index = offset / u64::from(frame.get());
    let is_full = len == frame.bytes();
    let is_frame = offset.is_multiple_of(u64::from(frame.get())) && len > 0 && len <= frame.bytes();
    let fits = match *short {
        Some((last, short_len)) => index < last && is_full || index == last && len == short_len,
        None => is_full || index + 1 >= end,
    };
    if !is_frame || !fits {
        return Err(ProtocolError::Misplaced);
    }
    if !is_full {
        *short = Some((index, len));
    }
    Ok(index)
}

impl<H> TargetSession<H> {
    /// Tells the source how far a flow is written, now and then.
    pub(super) fn tell_written(&mut self, entry: EntryId) {
        let step = (self.frame.frames_ahead() / TOLD_PARTS).max(1);
        let Some(large) = self.large_mut(entry) else { return };
        let written = large.tree.seen().first_gap();
        if let Some(flow) = &mut large.flow
            && written >= flow.told + step
        {
            flow.told = written;
            self.outbox.push(TargetMessage::Ack { entry, frames: written });
        }
    }
}

/// The values of a file's frames.
pub(super) fn tree_of(frame: FrameLen, extent: FlowLength, keeps_values: bool) -> FrameTree {
    match extent {
        FlowLength::Known(size) if keeps_values => FrameTree::keeping(frame.frames(size)),
        FlowLength::Known(size) => FrameTree::new(frame.frames(size)),
        FlowLength::Open(_) => FrameTree::open(),
    }
}

//! Flows at the target: files received in sequential order, each frame on any stream. The source cannot read a frame
//! twice, and receives an Ack of the written frames. The size of some flows is known only at their end.

use super::{LargeReceive, TargetSession, TargetSettings};
use crate::error::ProtocolError;
use crate::file_range::frames_of;
use crate::ids::EntryId;
use crate::integrity::{FrameLen, FrameTree};
use crate::wire::message::TargetMessage;

/// Number of Acks of a flow within the allowance of frames ahead.
const ACKNOWLEDGED_PARTS: u64 = 8;

/// Known length of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FlowLength {
    /// Size in bytes.
    Known(u64),
    /// Unknown until the end. It holds the index and length of the only short frame, if it has arrived.
    Open(Option<(u64, usize)>),
}

/// Acknowledged progress of a flow.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FlowProgress {
    /// Number of leading frames acknowledged to the source.
    acknowledged: u64,
}

impl<H> LargeReceive<H> {
    /// Returns the index of the frame at `offset`, if one of `len` bytes is possible there. A frame of a flow must not
    /// be too far ahead.
    pub(super) fn index_of(&mut self, frame: FrameLen, offset: u64, len: usize) -> Result<u64, ProtocolError> {
        let index = match &mut self.extent {
            FlowLength::Known(size) => {
                let index = frame.index_of(*size, offset, len)?;
                self.tree.range().contains(&index).then_some(index).ok_or(ProtocolError::Misplaced)?
            }
            FlowLength::Open(short) => open_index_of(frame, short, self.tree.seen().end(), offset, len)?,
        };
        if self.flow.is_some() && index >= self.tree.seen().first_gap().saturating_add(frame.frames_ahead()) {
            return Err(ProtocolError::OverLimit("frames ahead of what is written"));
        }
        Ok(index)
    }

    /// Returns the number of frames that exist or may exist by now.
    pub(super) fn frames(&self, frame: FrameLen) -> u64 {
        match self.extent {
            FlowLength::Known(size) => frame.frames(size),
            FlowLength::Open(_) => self.tree.seen().first_gap().saturating_add(frame.frames_ahead()),
        }
    }

    /// Sets the length at the end of the file.
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

    /// Whether no full frame has arrived at the index of a short last frame.
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
    /// Sends an Ack of a flow's written frames from time to time.
    pub(super) fn acknowledge_written(&mut self, entry: EntryId) {
        let step = (self.settings.frame.frames_ahead() / ACKNOWLEDGED_PARTS).max(1);
        let Some(large) = self.large_mut(entry) else { return };
        let written = large.tree.seen().first_gap();
        if let Some(flow) = &mut large.flow
            && written >= flow.acknowledged + step
        {
            flow.acknowledged = written;
            self.outbox.push(TargetMessage::Ack { entry, frames: written });
        }
    }
}

/// Returns an empty tree for the values of a file's frames.
pub(super) fn tree_of(settings: TargetSettings, extent: FlowLength) -> FrameTree {
    let FlowLength::Known(size) = extent else { return FrameTree::open() };
    let TargetSettings { frame, values, range, .. } = settings;
    let tree = FrameTree::new(frame.frames(size)).within(frames_of(range, frame, size));
    if values { tree.keeping_values() } else { tree }
}

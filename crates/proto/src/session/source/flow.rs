//! Flows: sequential input that can be read only once. It comes from a pipe, or goes to one.
//!
//! Only one stream at a time reads: it takes the next frame, and any free stream then takes the one after it. The
//! engine keeps each read frame until the target has written it, since it cannot be read again. At most
//! [`FrameLen::frames_ahead`](crate::integrity::FrameLen::frames_ahead) such frames are in flight.

use std::collections::VecDeque;
use std::sync::Arc;

use super::{DigestState, OfferState, OfferedEntry, SourceSession, count_requested_frames};
use crate::entry::Timestamp;
use crate::error::ProtocolError;
use crate::ids::EntryId;
use crate::integrity::{Digest, FrameTree};
use crate::ranges::RangeSet;
use crate::scheduler::{FlowFrame, WorkItem};
use crate::wire::message::SourceMessage;

/// A flow, from its Want until it is complete.
#[derive(Debug)]
pub(super) struct Flow {
    pub(super) tree: FrameTree,
    /// Frames given to streams, without a later request to resend and not known to be written.
    pub(super) handed: RangeSet,
    /// Number of frames read.
    read: u64,
    /// Number of leading frames written at the target.
    written: u64,
    /// Whether a stream is reading the next frame.
    is_being_read: bool,
    /// Size and time, once all of it was read.
    end: Option<(u64, Timestamp)>,
    is_ended: bool,
    pub(super) summing: DigestState,
    /// Number of frames that the target has requested, repeats included.
    asked: u64,
}

/// All flows of a copy, and their frames to retransmit.
#[derive(Debug, Default)]
pub(super) struct Flows {
    unread: VecDeque<EntryId>,
    again: VecDeque<(EntryId, u64)>,
}

impl Flows {
    pub(super) fn is_empty(&self) -> bool {
        self.unread.is_empty() && self.again.is_empty()
    }
}

impl Flow {
    fn new(sums: bool) -> Self {
        Self {
            tree: FrameTree::open(),
            handed: RangeSet::new(),
            read: 0,
            written: 0,
            is_being_read: false,
            end: None,
            is_ended: false,
            summing: DigestState::when(sums),
            asked: 0,
        }
    }

    /// Whether the target has received its end.
    pub(super) fn is_told(&self) -> bool {
        self.is_ended
    }
}

impl<H> SourceSession<H> {
    /// Records that the flow's next frame was read, if `is_frame`. `end` is the flow's size and time after its last
    /// frame.
    ///
    /// Returns the number of leading frames written at the target, which need not be kept any more, and the result of
    /// [`Self::frames_read`]. `None` where the flow is not wanted any more.
    pub fn flow_read(
        &mut self,
        entry: EntryId,
        is_frame: bool,
        end: Option<(u64, Timestamp)>,
    ) -> Option<(u64, Option<Digest>)> {
        let Some(OfferedEntry { state: OfferState::Flow(flow), .. }) = self.entries.get_mut(&entry) else {
            return None;
        };
        flow.is_being_read = false;
        if is_frame {
            flow.handed.insert(flow.read);
            flow.read += 1;
        }
        if end.is_some() {
            flow.end = end;
            flow.tree.close(flow.read);
            self.flows.unread.retain(|unread| *unread != entry);
        }
        let written = flow.written;
        Some((written, self.end_flow(entry)))
    }

    /// Whether this is a flow that is still wanted.
    pub fn is_flow(&self, entry: EntryId) -> bool {
        matches!(self.entries.get(&entry), Some(OfferedEntry { state: OfferState::Flow(_), .. }))
    }

    pub(super) fn begin_flow(&mut self, entry: EntryId) {
        self.flows.unread.push_back(entry);
        let sums = self.settings.sums;
        self.entries.entry(entry).and_modify(|tracked| tracked.state = OfferState::Flow(Flow::new(sums)));
    }

    /// Returns the next work item of a flow. Retransmits go first, since the target may be waiting for them.
    pub(super) fn next_of_flows(&mut self) -> Option<WorkItem<H>> {
        while let Some((entry, index)) = self.flows.again.pop_front() {
            if let Some(OfferedEntry { state: OfferState::Flow(flow), handle, .. }) = self.entries.get_mut(&entry)
                && index >= flow.written
            {
                flow.handed.insert(index);
                return Some(WorkItem::Kept(FlowFrame { entry, handle: Arc::clone(handle), index }));
            }
        }
        let entries = &mut self.entries;
        self.flows
            .unread
            .retain(|entry| matches!(entries.get(entry), Some(OfferedEntry { state: OfferState::Flow(_), .. })));
        let ahead = self.settings.frame.frames_ahead();
        self.flows.unread.iter().find_map(|entry| match entries.get_mut(entry) {
            Some(OfferedEntry { state: OfferState::Flow(flow), handle, .. })
                if !flow.is_being_read && flow.read < flow.written.saturating_add(ahead) =>
            {
                flow.is_being_read = true;
                Some(WorkItem::Next(FlowFrame { entry: *entry, handle: Arc::clone(handle), index: flow.read }))
            }
            _ => None,
        })
    }

    /// Releases the right to read the next frame without reading.
    pub(super) fn leave_unread(&mut self, entry: EntryId) {
        if let Some(OfferedEntry { state: OfferState::Flow(flow), .. }) = self.entries.get_mut(&entry) {
            flow.is_being_read = false;
        }
    }

    pub(super) fn end_flow(&mut self, entry: EntryId) -> Option<Digest> {
        let Some(OfferedEntry { state: OfferState::Flow(flow), .. }) = self.entries.get_mut(&entry) else {
            return None;
        };
        let (Some((size, modified)), Some(digest), false) = (flow.end, flow.tree.digest(), flow.is_ended) else {
            return None;
        };
        if !flow.summing.is_done() {
            return flow.summing.begin().then_some(digest);
        }
        flow.is_ended = true;
        self.outbox.push_back(SourceMessage::FileEnd { entry, size, modified, digest });
        None
    }

    pub(super) fn handle_written(&mut self, entry: EntryId, frames: u64) -> Result<(), ProtocolError> {
        self.check_offered(entry)?;
        match self.entries.get_mut(&entry).map(|tracked| &mut tracked.state) {
            None => Ok(()),
            Some(OfferState::Flow(flow)) if frames <= flow.read => {
                flow.written = flow.written.max(frames);
                flow.handed.take_within(&(0..frames));
                Ok(())
            }
            Some(_) => Err(ProtocolError::Unasked("frames that were not sent")),
        }
    }

    /// Retransmits requested frames of a flow, except those written. With `all`, the request names damaged frames.
    /// Otherwise it names all missing frames, and only those given to a stream are sent again.
    pub(super) fn resend_flow(
        &mut self,
        entry: EntryId,
        frames: &[std::ops::Range<u64>],
        all: bool,
    ) -> Result<(), ProtocolError> {
        let Some(OfferedEntry { state: OfferState::Flow(flow), .. }) = self.entries.get_mut(&entry) else {
            return Ok(());
        };
        for frames in frames {
            if all && (frames.start < flow.written || frames.end > flow.read) {
                return Err(ProtocolError::Misplaced);
            }
            if all {
                count_requested_frames(&mut flow.asked, frames.end.saturating_sub(frames.start), flow.read)?;
            }
            let lost = flow.handed.take_within(frames);
            self.flows.again.extend(lost.into_iter().flatten().map(|index| (entry, index)));
        }
        Ok(())
    }
}

//! Flows: what is read from its beginning to its end, once. It comes from a pipe, or goes to one.
//!
//! One stream at a time has the right to read: it takes the next frame, and whichever stream is free then takes the one
//! behind it. A frame that was read stays with the engine until the target says that it is written, since it cannot be
//! read again; of those, no more than [`FrameLen::frames_ahead`](crate::integrity::FrameLen::frames_ahead) are under way.

use std::collections::VecDeque;
use std::sync::Arc;

use super::{DigestState, OfferState, OfferedEntry, SourceSession, count_asked};
use crate::entry::Timestamp;
use crate::error::ProtocolError;
use crate::ids::EntryId;
use crate::integrity::{Digest, FrameTree};
use crate::ranges::RangeSet;
use crate::scheduler::{FlowFrame, WorkItem};
use crate::wire::message::SourceMessage;

/// A flow, from its Needs until it is settled.
#[derive(Debug)]
pub(super) struct Flow {
    pub(super) tree: FrameTree,
    /// Frames that were given to streams, and neither asked for again since nor known to be written.
    pub(super) handed: RangeSet,
    /// Frames that were read.
    read: u64,
    /// All before this one are written at the target.
    written: u64,
    /// A stream is reading the next one.
    is_being_read: bool,
    /// All of it was read: its size and time.
    end: Option<(u64, Timestamp)>,
    told: bool,
    pub(super) summing: DigestState,
    /// Frames that the target has asked for, each time that it did.
    asked: u64,
}

/// All flows of a job, and what of them is to be sent again.
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
            told: false,
            summing: DigestState::when(sums),
            asked: 0,
        }
    }

    /// Whether the target was told of its end.
    pub(super) fn is_told(&self) -> bool {
        self.told
    }
}

impl<H> SourceSession<H> {
    /// The flow's next frame was read; with `end`, that was the last one (or none is left), and this is the flow's size and
    /// time. Returns how many frames are written at the target: those need not be kept any more; and what
    /// [`Self::frames_read`] returns. `None` where nobody needs the flow any more.
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

    /// Whether this is a flow that somebody still needs.
    pub fn is_flow(&self, entry: EntryId) -> bool {
        matches!(self.entries.get(&entry), Some(OfferedEntry { state: OfferState::Flow(_), .. }))
    }

    pub(super) fn begin_flow(&mut self, entry: EntryId) {
        self.flows.unread.push_back(entry);
        let sums = self.sums;
        self.entries.entry(entry).and_modify(|tracked| tracked.state = OfferState::Flow(Flow::new(sums)));
    }

    /// What there is to be done for a flow now. What has to come again goes first: the target may be waiting for it.
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
        let ahead = self.frame.frames_ahead();
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

    /// A stream that was to read the next frame does not.
    pub(super) fn leave_unread(&mut self, entry: EntryId) {
        if let Some(OfferedEntry { state: OfferState::Flow(flow), .. }) = self.entries.get_mut(&entry) {
            flow.is_being_read = false;
        }
    }

    pub(super) fn end_flow(&mut self, entry: EntryId) -> Option<Digest> {
        let Some(OfferedEntry { state: OfferState::Flow(flow), .. }) = self.entries.get_mut(&entry) else {
            return None;
        };
        let (Some((size, modified)), Some(digest), false) = (flow.end, flow.tree.digest(), flow.told) else {
            return None;
        };
        if !flow.summing.is_done() {
            return flow.summing.begin().then_some(digest);
        }
        flow.told = true;
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

    /// The target asks for frames of a flow. Those that it has said are written are gone. With `all`, it asks for what it
    /// knows it has not; else it names all that it has not, and those count that were given to a stream.
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
                count_asked(&mut flow.asked, frames.end.saturating_sub(frames.start), flow.read)?;
            }
            let lost = flow.handed.take_within(frames);
            self.flows.again.extend(lost.into_iter().flatten().map(|index| (entry, index)));
        }
        Ok(())
    }
}

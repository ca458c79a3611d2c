//! One stream's share of a flow. It reads the next frame in turn, lets the next stream read, and then hashes, keeps and
//! sends the frame.

use std::sync::atomic::Ordering;

use haul_proto::ids::EntryId;
use haul_proto::integrity::frame_check;
use haul_proto::journal::check_value;
use haul_proto::ranges::RangeSet;
use haul_proto::scheduler::FlowFrame;
use haul_proto::wire::frame::{DataFrame, RecordTrailer};
use haul_proto::wire::resource_metrics::Stage;

use super::session::Source;
use crate::io::frame_buffer::FrameBuffer;
use crate::io::storage::read::FrameReader;
use crate::metrics::counter::add;
use crate::metrics::stage_timer::during;
use crate::net::stream::StreamError;
use crate::source::entry::SourceEntry;
use crate::source::flow_feed::FlowRead;
use crate::source::frame_sink::FrameSink;
use crate::source::state::FileChange;

/// Reads and sends the next frame of a flow.
pub(super) fn send_next(
    source: &Source,
    next: &FlowFrame<SourceEntry>,
    reader: &mut FrameReader,
    sink: &mut impl FrameSink,
) -> Result<(), StreamError> {
    source.audit_begin(&next.handle)?;
    // A read may block for any time.
    sink.flush()?;
    let frame = source.request.settings.frame;
    let mut buffer = reader.buffer();
    let feed = next.handle.feed();
    let stage = if next.handle.is_pipe() { Stage::ReadPipe } else { Stage::Read };
    let FlowRead { len, end } = match during(stage, || {
        let read_file = |room: &mut [u8]| next.handle.read_in_order(frame, next.index, room);
        feed.read(frame, next.index, buffer.room_mut(), || source.wants(next.entry), read_file)
    }) {
        Ok(portion) => portion,
        Err(error) => {
            reader.give_back(buffer);
            source.fail_for_good(next.entry, &next.handle, &error);
            return Ok(());
        }
    };
    buffer.set_payload_len(len);
    // No other stream may read before this frame counts as read.
    source.update_in_order(&next.handle, next.index, buffer.payload());
    let is_only = next.index == 0 && end.is_some();
    if end.is_some() && next.handle.has_changed(FileChange::Metadata) {
        source.lock().machine.await_second_reading(next.entry);
    }
    let Some(written) = source.flow_read(next, len, end) else {
        reader.give_back(buffer);
        return Ok(());
    };
    if len == 0 {
        reader.give_back(buffer);
        return Ok(());
    }
    if sink.target_here().is_none() {
        feed.keep(next.index, buffer.payload(), is_only, written);
    }
    let sent = send_flow_frame(source, next, buffer, is_only, sink, true)?;
    reader.give_back(sent);
    Ok(())
}

/// Retransmits a frame of a flow, if still needed.
pub(super) fn send_kept(
    source: &Source,
    kept: &FlowFrame<SourceEntry>,
    reader: &mut FrameReader,
    sink: &mut impl FrameSink,
) -> Result<(), StreamError> {
    let mut buffer = reader.buffer();
    let frame = source.request.settings.frame;
    let read_file = |room: &mut [u8], offset| kept.handle.read_again(room, offset);
    match kept.handle.feed().kept(frame, kept.index, buffer.room_mut(), read_file) {
        Ok(Some((len, is_only))) => {
            buffer.set_payload_len(len);
            buffer = send_flow_frame(source, kept, buffer, is_only, sink, false)?;
        }
        Ok(None) => {}
        Err(error) => source.fail_for_good(kept.entry, &kept.handle, &error),
    }
    reader.give_back(buffer);
    Ok(())
}

fn send_flow_frame(
    source: &Source,
    of: &FlowFrame<SourceEntry>,
    buffer: FrameBuffer,
    is_only: bool,
    sink: &mut impl FrameSink,
    is_first_time: bool,
) -> Result<FrameBuffer, StreamError> {
    let settings = &source.request.settings;
    let check = frame_check(buffer.payload());
    let value = match settings.blake3 {
        true => settings.frame.hash_in(of.index, buffer.payload(), is_only),
        false => check_value(check),
    };
    if is_first_time {
        source.frames_read(of.entry, &of.handle, &[(of.index, value)], &RangeSet::new());
    }
    let offset = of.index * u64::from(settings.frame.get());
    let trailer = RecordTrailer::Data(DataFrame { copy: settings.number, entry: of.entry, offset, check, value });
    sink.send_frame(buffer, &trailer, &source.limiter)
}

impl Source {
    /// Whether the flow is still needed.
    fn wants(&self, entry: EntryId) -> bool {
        let state = self.lock();
        !state.stopped && state.machine.is_flow(entry)
    }

    /// Records a read frame and lets the next stream read. Returns the number of frames written at the target; `None`
    /// if the flow is no longer needed.
    fn flow_read(
        &self,
        next: &FlowFrame<SourceEntry>,
        len: usize,
        end: Option<(u64, haul_proto::entry::Timestamp)>,
    ) -> Option<u64> {
        if next.handle.is_pipe() {
            // The size of a flow is unknown until its end.
            add(&self.reporter.tally.bytes_found, len as u64);
            self.reporter.tally.walk_complete.fetch_or(end.is_some(), Ordering::Relaxed);
        }
        let read = self.lock().machine.flow_read(next.entry, len > 0, end);
        if let Some((_, Some(digest))) = read {
            self.sum_up(next.entry, &next.handle, digest);
        }
        self.signals.work.notify_all();
        self.signals.outbox.notify_all();
        read.map(|(written, _)| written)
    }
}

//! Frames that arrive as delta instructions: rebuilt from a base file, verified by their digest, then written as usual.
//!
//! Instructions are short, so the streams' sockets may hold hundreds of frames, unevenly. Any free thread therefore
//! rebuilds a received frame: separate threads, or the stream itself while those are busy.

use std::sync::Arc;

use haul_proto::error::ProtocolError;
use haul_proto::path::escape;
use haul_proto::session::target::Rebuilt;
use haul_proto::wire::frame::DeltaFrame;
use haul_proto::wire::report::WorkerMessage;

use crate::metrics::counter::add;
use crate::receiver::delta::DeltaStage;
use crate::receiver::entry::ReceiverEntry;
use crate::receiver::file::base::BaseSource;

/// Most frames queued for separate threads, each no longer than a frame. There is one for each thread of a large
/// machine, so that no thread waits for the streams.
pub(crate) const WAITING_MAX: usize = 16;

/// Warning for a base file after a delta with a wrong digest.
const WRONG_DELTA: &str =
    "the source sent a wrong delta: the file is sent whole, and another wrong delta ends the copy";

/// An admitted frame to rebuild.
pub struct DeltaFrameBuild {
    pub(crate) item: Arc<ReceiverEntry>,
    pub(crate) frame: DeltaFrame,
    pub(crate) instructions: Vec<u8>,
}

impl DeltaStage {
    /// Whether to write a rebuilt frame. The controller learns of a wrong one before the source does. A source that
    /// then breaks its connection cannot restart with a clean count.
    pub(crate) fn conclude_delta(
        &self,
        base: &BaseSource,
        frame: &DeltaFrame,
        rebuilt: Rebuilt,
    ) -> Result<bool, ProtocolError> {
        let reporter = &self.copy.reporter;
        let concluded = self.session.apply(|machine| {
            let before = machine.wrong_deltas();
            let concluded = machine.conclude_delta(frame.entry, frame.offset, base.id(), rebuilt);
            let wrong = machine.wrong_deltas();
            if wrong > before {
                reporter.delta.wrong(wrong);
                reporter.delta.figures().into_iter().for_each(|now| reporter.send(&WorkerMessage::Delta(now)));
                reporter.send(&WorkerMessage::Warning { text: format!("{}: {WRONG_DELTA}", escape(&base.path())) });
            }
            concluded
        });
        if concluded == Ok(false) {
            add(&reporter.tally.frames_resent, 1);
        }
        concluded
    }

    /// Requests a frame whole after a rebuild with a wrong digest.
    pub(crate) fn request_full_frame(&self, frame: &DeltaFrame) {
        add(&self.copy.reporter.tally.frames_resent, 1);
        self.session.apply(|machine| machine.resend_frame(frame.entry, frame.offset));
    }
}

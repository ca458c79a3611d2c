//! Frames that arrive as delta instructions: rebuilt from a base file, verified by their digest, then written as usual.
//!
//! Instructions are short, so the streams' sockets may hold hundreds of frames, unevenly. Any free thread therefore
//! rebuilds a received frame: separate threads, or the stream itself while those are busy.

use crate::receiver::delta::DeltaStage;
use haul_proto::error::ProtocolError;
use haul_proto::path::escape;
use haul_proto::session::target::Rebuilt;
use haul_proto::wire::frame::DeltaFrame;
use haul_proto::wire::report::WorkerMessage;
use std::sync::Arc;

use crate::metrics::counter::add;
use crate::receiver::ReceiverEntry;
use crate::receiver::file::base::BaseSource;

/// Most frames queued for separate threads, each no longer than a frame. There is one for each thread of a large
/// machine, so that no thread waits for the streams.
pub(crate) const WAITING_MAX: usize = 16;

/// Warning for a base file after a delta with a wrong digest.
const WRONG_DELTA: &str = "the source sent a wrong delta: the file is sent whole, and another wrong delta ends the job";

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
        basis: &BaseSource,
        frame: &DeltaFrame,
        rebuilt: Rebuilt,
    ) -> Result<bool, ProtocolError> {
        let mut state = self.session.lock();
        let before = state.machine.wrong_deltas();
        let concluded = state.machine.conclude_delta(frame.entry, frame.offset, basis.id(), rebuilt);
        let wrong = state.machine.wrong_deltas();
        if wrong > before {
            self.job.reporter.delta.wrong(wrong);
            self.job
                .reporter
                .delta
                .figures()
                .into_iter()
                .for_each(|now| self.job.reporter.send(&WorkerMessage::Delta(now)));
            let text = format!("{}: {WRONG_DELTA}", escape(&basis.path()));
            self.job.reporter.send(&WorkerMessage::Warning { text });
        }
        drop(state);
        if concluded == Ok(false) {
            add(&self.job.reporter.tally.frames_resent, 1);
            self.session.outbox.notify_all();
        }
        concluded
    }

    /// Requests a frame whole after a rebuild with a wrong digest.
    pub(crate) fn ask_for_whole(&self, frame: &DeltaFrame) {
        add(&self.job.reporter.tally.frames_resent, 1);
        self.session.lock().machine.resend_frame(frame.entry, frame.offset);
        self.session.outbox.notify_all();
    }
}

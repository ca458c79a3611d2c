//! Frames that come as instructions: made of an old file, proven by their value, then written as any other.
//!
//! Instructions are short, and so the streams' sockets may hold hundreds of frames, one of them more than another. What a
//! stream has received is therefore made by whoever is free: by threads beside the streams, and by the stream itself
//! while these have enough to do.

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

/// Most frames that wait for whoever is free, each of them with no more bytes than a frame: one for each of the threads on
/// a large machine, so that none of them waits for the streams.
pub(crate) const WAITING_MAX: usize = 16;

/// Said of the old file of which a delta has another value than the source said.
const WRONG_DELTA: &str =
    "the source sent a wrong delta of this file: it is sent whole, and one more wrong delta ends the job";

/// A frame that was admitted, and is to be made.
pub struct DeltaFrameBuild {
    pub(crate) item: Arc<ReceiverEntry>,
    pub(crate) frame: DeltaFrame,
    pub(crate) instructions: Vec<u8>,
}

impl DeltaStage {
    /// Whether a frame that was built is to be written. The controller hears of a wrong one before the source does, so that
    /// a source that breaks its connection then does not begin anew with none.
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

    /// A frame did not become what it is to be: it comes as it is.
    pub(crate) fn ask_for_whole(&self, frame: &DeltaFrame) {
        add(&self.job.reporter.tally.frames_resent, 1);
        self.session.lock().machine.resend_frame(frame.entry, frame.offset);
        self.session.outbox.notify_all();
    }
}

//! The protocol's session at the target, behind a lock, and the threads that wait for it.

use std::sync::{Mutex, MutexGuard, OnceLock};

use haul_base::sys::sync::lock;
use haul_proto::checksum::ChecksumAlgorithm;
use haul_proto::ids::{PathId, StreamId};
use haul_proto::session::target::TargetSession;
use haul_proto::wire::message::TargetMessage;
use haul_proto::wire::ranges::TargetRange;
use haul_proto::wire::request::TargetRequest;
use haul_proto::wire::storage::Verify;

use crate::receiver::entry::ReceiverEntry;
use crate::sys::notify::Notify;

/// The session with the source. All threads of the receiver share its state machine.
pub struct ReceiverSession {
    state: Mutex<SessionState>,
    /// Signals messages for the source, and the end.
    outbox: Notify,
    /// Signals that [`Self::apply_when`] may find its condition true.
    room: Notify,
    /// Opens and closes streams.
    stream_requests: OnceLock<StreamRequests>,
}

struct SessionState {
    machine: TargetSession<ReceiverEntry>,
    stopped: bool,
}

/// The source's requests concerning streams.
pub enum StreamRequest {
    /// This many more over this path, if this end connects.
    More(u16, PathId),
    /// Small segments on later ones over this path, if this end connects.
    SmallSegments(PathId),
    /// Continue without these streams, which the source has abandoned.
    Without(Vec<StreamId>),
}

/// Handler of the source's requests for streams.
type StreamRequests = Box<dyn Fn(StreamRequest) + Send + Sync>;

/// Whether a large file is complete only with its digest. BLAKE3 is known by then anyway.
fn waits_for_sums(request: &TargetRequest) -> bool {
    let here = request.settings.checksum.as_ref().filter(|checksum| !checksum.at_source);
    here.is_some_and(|checksum| checksum.algorithm != ChecksumAlgorithm::Blake3) && request.compare.is_none()
}

/// What the thread that sends messages has waited for.
pub(super) enum SessionOutput {
    /// Messages for the source.
    Messages(Vec<TargetMessage>),
    /// All entries are complete.
    Finished,
    /// The copy was stopped.
    Stopped,
}

impl ReceiverSession {
    pub(super) fn new(request: &TargetRequest) -> Self {
        let mut machine = TargetSession::new(request.settings.frame);
        if request.verify == Verify::Disk {
            machine.keep_values();
        }
        if waits_for_sums(request) {
            machine.await_sums();
        }
        if let Some(TargetRange::One(range)) = request.range {
            machine.receive_range(range);
        }
        machine.begin_with_wrong_deltas(request.delta.wrong_before);
        let state = Mutex::new(SessionState { machine, stopped: false });
        Self { state, outbox: Notify::default(), room: Notify::default(), stream_requests: OnceLock::new() }
    }

    /// Applies a change to the state machine, and wakes the threads that it concerns.
    pub(super) fn apply<R>(&self, change: impl FnOnce(&mut TargetSession<ReceiverEntry>) -> R) -> R {
        self.apply_locked(lock(&self.state), change)
    }

    /// The same, once `may` is true of the state machine, or the copy is stopped.
    pub(super) fn apply_when<R>(
        &self,
        may: impl Fn(&TargetSession<ReceiverEntry>) -> bool,
        change: impl FnOnce(&mut TargetSession<ReceiverEntry>) -> R,
    ) -> R {
        let mut state = lock(&self.state);
        while !state.stopped && !may(&state.machine) {
            state = self.room.wait(state);
        }
        self.apply_locked(state, change)
    }

    fn apply_locked<R>(
        &self,
        mut state: MutexGuard<'_, SessionState>,
        change: impl FnOnce(&mut TargetSession<ReceiverEntry>) -> R,
    ) -> R {
        let result = change(&mut state.machine);
        let has_output = state.machine.has_output();
        drop(state);
        self.room.notify_all();
        if has_output {
            self.outbox.notify_all();
        }
        result
    }

    /// Reads from the state machine.
    pub(super) fn read<R>(&self, read: impl FnOnce(&TargetSession<ReceiverEntry>) -> R) -> R {
        read(&lock(&self.state).machine)
    }

    /// Waits for output.
    pub(super) fn wait_for_output(&self) -> SessionOutput {
        let mut state = lock(&self.state);
        loop {
            let messages: Vec<_> = std::iter::from_fn(|| state.machine.poll_message()).collect();
            if !messages.is_empty() {
                return SessionOutput::Messages(messages);
            }
            if state.stopped {
                return SessionOutput::Stopped;
            }
            if state.machine.is_finished() {
                return SessionOutput::Finished;
            }
            state = self.outbox.wait(state);
        }
    }

    /// Stops all threads that wait here.
    pub(super) fn stop(&self) {
        lock(&self.state).stopped = true;
        self.outbox.notify_all();
        self.room.notify_all();
    }

    pub(super) fn is_stopped(&self) -> bool {
        lock(&self.state).stopped
    }

    /// Whether all entries are complete.
    pub fn is_finished(&self) -> bool {
        self.read(TargetSession::is_finished)
    }

    /// Sets the handler of the source's requests for streams. Only the first call counts.
    pub fn on_stream_request(&self, fulfil: impl Fn(StreamRequest) + Send + Sync + 'static) {
        let _ = self.stream_requests.set(Box::new(fulfil));
    }

    pub(super) fn request_streams(&self, request: StreamRequest) {
        if let Some(fulfil) = self.stream_requests.get() {
            fulfil(request);
        }
    }

    /// Takes the messages for the source.
    #[cfg(test)]
    pub(super) fn take_messages(&self) -> Vec<TargetMessage> {
        self.apply(|machine| std::iter::from_fn(|| machine.poll_message()).collect())
    }
}

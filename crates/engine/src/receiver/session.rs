//! The protocol's session at the target, behind a lock, and its messages to the source.

use crate::receiver::ReceiverEntry;
use crate::receiver::ReceiverState;
use crate::receiver::StreamRequests;
use crate::sys::notify::Notify;
use haul_proto::session::target::TargetSession as Machine;
use std::sync::{Mutex, OnceLock};

/// The session with the source. [`Self::lock`] gives its state machine; `outbox` wakes the thread that sends messages.
pub struct ReceiverSession {
    pub(super) state: Mutex<ReceiverState>,
    /// Signals messages for the source.
    pub(super) outbox: Notify,
    /// Opens and closes streams.
    pub(super) stream_requests: OnceLock<StreamRequests>,
}

impl ReceiverSession {
    pub(super) fn new(machine: Machine<ReceiverEntry>) -> Self {
        let state = Mutex::new(ReceiverState { machine, stopped: false });
        Self { state, outbox: Notify::default(), stream_requests: OnceLock::new() }
    }
}

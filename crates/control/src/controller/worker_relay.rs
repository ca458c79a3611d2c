//! Reads the messages of a worker: relays those for the other worker without decoding, and queues the rest.

use std::io::BufReader;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ChildStdout;

use haul_base::control_channel::{ControlError, ControlReader, ControlWriter};
use haul_base::idle_timeout::IdleTimeout;
use haul_base::sys::panic::panicked;
use haul_proto::error::ProtocolError;
use haul_proto::wire::control_channel::ControlChannel;
use haul_proto::wire::report::WorkerMessage;

use super::inbox::InboxSender;
use super::worker_role::WorkerRole;

/// Input of the controller from a worker.
pub enum WorkerInput {
    /// A message.
    Message(WorkerMessage),
    /// The end of the worker's output, with the reason if it was lost.
    Ended(Option<String>),
    /// A protocol violation; the reader has stopped.
    Fault(String),
}

/// Reads all messages of a worker: forwards those for the other worker, and queues the rest for the controller. Blocks
/// while the other worker does not read; nothing else waits for this thread.
pub fn relay_all(
    role: WorkerRole,
    from: IdleTimeout<ChildStdout>,
    other: Option<&ControlWriter>,
    sender: &InboxSender<(WorkerRole, WorkerInput)>,
) {
    let relayed = catch_unwind(AssertUnwindSafe(|| relay(role, from, other, sender)));
    let ended = relayed.unwrap_or_else(|panic| WorkerInput::Ended(Some(panicked("haul-relay", &*panic))));
    // The receiver is gone when the copy is over.
    let _ = sender.send(0, (role, ended));
}

/// Relays messages until the worker's output ends or a protocol violation. Returns which.
fn relay(
    role: WorkerRole,
    from: IdleTimeout<ChildStdout>,
    other: Option<&ControlWriter>,
    sender: &InboxSender<(WorkerRole, WorkerInput)>,
) -> WorkerInput {
    let mut reader = ControlReader::new(BufReader::with_capacity(256 << 10, from));
    loop {
        match reader.next_frame() {
            Ok(None) => return WorkerInput::Ended(None),
            Ok(Some((ControlChannel::Controller, content))) => {
                let bytes = content.len();
                let message = match WorkerMessage::decode(content) {
                    Ok(message) => message,
                    Err(fault) => return WorkerInput::Fault(fault.to_string()),
                };
                if !sender.send(bytes, (role, WorkerInput::Message(message))) {
                    return WorkerInput::Ended(None);
                }
            }
            Ok(Some((channel, content))) => {
                // The loss of the other worker is reported by its own reader.
                let _ = other.map(|other| other.send(channel, content));
            }
            // A cut connection may end within a frame.
            Err(error @ (ControlError::Io(_) | ControlError::Protocol(ProtocolError::Truncated))) => {
                return WorkerInput::Ended(Some(error.to_string()));
            }
            Err(ControlError::Protocol(fault)) => return WorkerInput::Fault(fault.to_string()),
        }
    }
}

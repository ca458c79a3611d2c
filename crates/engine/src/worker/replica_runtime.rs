//! The thread of a replica session: the main thread always reads its control channel.

use std::io;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread;

use haul_base::control_channel::ControlWriter;
use haul_proto::wire::control_channel::ControlChannel;
use haul_proto::wire::replica_session::ReplicaStep;
use haul_proto::wire::report::WorkerMessage;

use crate::replica::ReplicaEnd;
use crate::worker::error::MessageOrderError;

/// A running session.
pub(super) struct ReplicaRuntime(SyncSender<ReplicaStep>);

impl ReplicaRuntime {
    /// Starts the thread of a session.
    pub fn start(control: ControlWriter, mut session: ReplicaEnd) -> io::Result<Self> {
        let (steps, incoming) = sync_channel::<ReplicaStep>(1);
        thread::Builder::new().name("haul-replica".into()).spawn(move || {
            for step in incoming {
                let message = WorkerMessage::ReplicaAnswer(Box::new(session.perform(step))).encode();
                if control.send(ControlChannel::Controller, &message).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self(steps))
    }

    /// Queues a step. The controller waits for each answer.
    pub fn queue(&self, step: ReplicaStep) -> Result<(), MessageOrderError> {
        match self.0.try_send(step) {
            // The thread ends before the control channel only if that is broken.
            Ok(()) | Err(TrySendError::Disconnected(_)) => Ok(()),
            Err(TrySendError::Full(_)) => Err(MessageOrderError::ReplicaStep),
        }
    }
}

//! The source's end of a job: walks, offers, reads and sends.
//!
//! [`Source`] holds the protocol's machine behind a lock and the threads that wait on it: one walks
//! ([`offer`]), one sends what the machine has to say, and one for each stream reads and sends frames ([`send`]).

mod item;
mod offer;
mod operand;
mod send;
#[cfg(test)]
mod tests;

use haul_proto::manifest::Stamp;
use haul_proto::plan::Work;
use haul_proto::session::source::Source as Machine;
use haul_proto::wire::fault::ProtocolFault;
use haul_proto::wire::message::TargetMessage;
use haul_proto::wire::request::{Operand, SourceRequest};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use self::item::Item;
use self::operand::Root;
use crate::fs::Identity;
use crate::report::Reporter;
use crate::report::add;

pub use self::send::{Outlet, SendError};

/// The source's end of a job.
pub struct Source {
    request: SourceRequest,
    roots: Vec<Option<Root>>,
    /// Where the data lands, if that is on this host: never walked into.
    landing: OnceLock<Identity>,
    state: Mutex<State>,
    /// There may be work for streams.
    work: Condvar,
    /// The window may have opened for the walk.
    window: Condvar,
    /// There may be messages for the target.
    outbox: Condvar,
    /// Reports to the controller.
    pub reporter: Reporter,
}

struct State {
    machine: Machine<Item>,
    stopped: bool,
}

impl Source {
    /// Looks at the operands. What cannot be copied is reported at once.
    pub fn prepare(request: SourceRequest, reporter: Reporter) -> Self {
        let roots = operand::look(&request.operands, request.recursive, &reporter);
        let machine = Machine::new(request.settings.frame, request.settings.streams);
        let state = Mutex::new(State { machine, stopped: false });
        let (work, window, outbox) = (Condvar::new(), Condvar::new(), Condvar::new());
        Self { request, roots, landing: OnceLock::new(), state, work, window, outbox, reporter }
    }

    /// The operands as the target needs to know them.
    pub fn operands(&self) -> Vec<Option<Operand>> {
        self.roots.iter().map(|root| root.as_ref().map(Root::operand)).collect()
    }

    /// Names these operands on this host, over all runs.
    pub fn origin(&self) -> [u8; 32] {
        operand::origin(&self.request.operands)
    }

    /// Leaves this directory out wherever the walk finds it below an operand. To be called before [`Self::walk`];
    /// only the first one counts.
    pub fn leave_out(&self, landing: Identity) {
        let _ = self.landing.set(landing);
    }

    /// Walks all operands and offers what is found. Returns when everything was offered, or the job was stopped.
    pub fn walk(&self) {
        offer::walk(self);
    }

    /// What both ends agreed on.
    pub fn settings(&self) -> &haul_proto::wire::request::SessionSettings {
        &self.request.settings
    }

    /// Takes a message of the target.
    pub fn handle_peer(&self, bytes: &[u8]) -> Result<(), ProtocolFault> {
        let message = TargetMessage::decode(bytes, self.request.settings.number)?;
        let mut state = self.lock();
        state.machine.handle(message)?;
        drop(state);
        self.notify();
        Ok(())
    }

    /// Waits for messages for the target; `None` when there will be no more.
    pub fn wait_for_messages(&self) -> Option<Vec<Vec<u8>>> {
        let mut state = self.lock();
        loop {
            let messages: Vec<_> = std::iter::from_fn(|| state.machine.poll_message()).collect();
            if !messages.is_empty() {
                drop(state);
                // The last message may have been what finishing waited for.
                self.work.notify_all();
                return Some(messages.iter().map(|message| message.encode(self.request.settings.number)).collect());
            }
            if state.stopped || state.machine.is_finished() {
                return None;
            }
            state = self.outbox.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Carries one stream: reads what is needed and hands it to `outlet`, until everything is settled.
    pub fn run_stream(&self, outlet: &mut impl Outlet) -> Result<(), SendError> {
        send::run(self, outlet)
    }

    /// Stops all threads at their next step.
    pub fn stop(&self) {
        self.lock().stopped = true;
        self.notify();
    }

    /// The next work for a stream; `None` when everything is settled, or the job was stopped.
    fn wait_for_work(&self) -> Option<Work<Item>> {
        let mut state = self.lock();
        loop {
            if state.stopped || state.machine.is_finished() {
                drop(state);
                self.notify();
                return None;
            }
            let was_closed = state.machine.window() == 0;
            let work = state.machine.next_work();
            // Work that nobody wants any more is forgotten on the way, and does not fill the window then.
            if was_closed && state.machine.window() > 0 {
                self.window.notify_all();
            }
            if work.is_some() {
                return work;
            }
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// These frames were read.
    fn frames_read(&self, entry: haul_proto::ids::EntryId, values: &[(u64, [u8; 32])], modified: Stamp) {
        self.lock().machine.frames_read(entry, values, modified);
        self.outbox.notify_all();
    }

    /// A small file did not fit into its pack.
    fn put_back(&self, entry: haul_proto::ids::EntryId, size: u64) {
        self.lock().machine.put_back(entry, size);
        self.work.notify_all();
    }

    /// A file cannot be read.
    fn fail(&self, entry: haul_proto::ids::EntryId, item: &Item, reason: &str) {
        let known = self.lock().machine.fail(entry, reason);
        if known {
            self.reporter.failed(item.path(&self.request.operands), reason);
        }
        self.notify();
    }

    fn count_found(&self, size: u64) {
        add(&self.reporter.tally.files_found, 1);
        add(&self.reporter.tally.bytes_found, size);
    }

    fn notify(&self) {
        self.work.notify_all();
        self.window.notify_all();
        self.outbox.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

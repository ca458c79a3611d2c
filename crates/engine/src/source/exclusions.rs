//! What the walk leaves out, as the target and the user are told: a target that compares, or removes what it has alone,
//! has to know which names are not offered and not gone.

use haul_proto::ids::EntryId;
use haul_proto::limits::LEFT_OUT_NAMES_MAX;
use haul_proto::path::{Name, escape};
use haul_proto::wire::report::WorkerMessage;
use std::sync::MutexGuard;

use super::{Source, State};
use crate::fs::{PatternFile, WalkEntry};
use crate::metrics::reporter::Reporter;

/// Most messages for the target that wait to be sent when another one about what is left out is added: of entries, the
/// window bounds them, and of these nothing else.
const OUTBOX_MAX: usize = 1024;

/// Names in one directory that are left out, and that the target was not told yet.
#[derive(Default)]
pub(super) struct UnreportedExclusions(Vec<Name>);

impl UnreportedExclusions {
    /// One more; whether it is time to tell them.
    pub fn add(&mut self, name: Name) -> bool {
        self.0.push(name);
        self.0.len() >= LEFT_OUT_NAMES_MAX
    }

    /// Tells them. `None` when the job was stopped.
    pub fn tell(&mut self, source: &Source, directory: EntryId) -> Option<()> {
        if self.0.is_empty() {
            return Some(());
        }
        let names = std::mem::take(&mut self.0);
        wait_for_outbox(source)?.machine.leave_out(directory, names);
        source.outbox.notify_all();
        Some(())
    }
}

/// Tells the target of a file with patterns. `None` when the job was stopped.
pub(super) fn tell_patterns(source: &Source, directory: EntryId, (file, text): PatternFile) -> Option<()> {
    wait_for_outbox(source)?.machine.tell_patterns(directory, file, text);
    source.outbox.notify_all();
    Some(())
}

fn wait_for_outbox(source: &Source) -> Option<MutexGuard<'_, State>> {
    let mut state = source.lock();
    loop {
        match (state.stopped, state.machine.messages_waiting() < OUTBOX_MAX) {
            (true, _) => return None,
            (false, true) => return Some(state),
            (false, false) => state = source.window.wait(state),
        }
    }
}

/// Of what was found below an operand: whether there are files and links, and filters leave out all of them.
pub(super) fn judge(is_all: &mut Option<bool>, found: &WalkEntry) {
    match found {
        WalkEntry::Filtered { .. } => *is_all = is_all.or(Some(true)),
        WalkEntry::File { .. } | WalkEntry::Symlink { .. } | WalkEntry::Node { .. } => *is_all = Some(false),
        WalkEntry::EnterDir { .. }
        | WalkEntry::LeaveDir { .. }
        | WalkEntry::LeftOut { .. }
        | WalkEntry::Failed { .. } => {}
    }
}

/// Says that filters have left nothing of an operand but directories.
pub(super) fn say_that_nothing_is_left(reporter: &Reporter, operand: &[u8]) {
    let shown = escape(operand);
    let at = shown.trim_end_matches('/');
    let text = format!("{shown}: the filters leave out every file in it; --explain {at}/NAME says which rule does");
    reporter.send(&WorkerMessage::Warning { text });
}

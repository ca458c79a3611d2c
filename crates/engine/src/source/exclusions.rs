//! Reports of excluded entries to target and user. A target that compares or removes extraneous entries must
//! distinguish excluded names from missing ones.

use std::sync::MutexGuard;

use haul_proto::ids::EntryId;
use haul_proto::limits::LEFT_OUT_NAMES_MAX;
use haul_proto::path::{Name, escape};
use haul_proto::wire::report::WorkerMessage;

use super::session::{Source, State};
use crate::fs::{PatternFile, WalkEntry};
use crate::metrics::reporter::Reporter;

/// Most queued messages at which a report of exclusions may be added. The window bounds entries, but not these reports.
const OUTBOX_MAX: usize = 1024;

/// Excluded names of one directory, not yet reported.
#[derive(Default)]
pub(super) struct UnreportedExclusions {
    excluded: Vec<Name>,
    /// Names that were listed, and are gone.
    vanished: Vec<Name>,
}

impl UnreportedExclusions {
    /// Adds a name. Returns whether a report is due.
    pub fn add(&mut self, name: Name) -> bool {
        self.excluded.push(name);
        self.excluded.len() >= LEFT_OUT_NAMES_MAX
    }

    /// Adds a name that is gone. Returns whether a report is due.
    pub fn add_vanished(&mut self, name: Name) -> bool {
        self.vanished.push(name);
        self.vanished.len() >= LEFT_OUT_NAMES_MAX
    }

    /// Reports the names. `None` if the copy was stopped.
    pub fn report(&mut self, source: &Source, directory: EntryId) -> Option<()> {
        let Self { excluded, vanished } = std::mem::take(self);
        if !excluded.is_empty() {
            wait_for_outbox(source)?.machine.exclude(directory, excluded);
            source.signals.outbox.notify_all();
        }
        if !vanished.is_empty() {
            wait_for_outbox(source)?.machine.tell_vanished(directory, vanished);
            source.signals.outbox.notify_all();
        }
        Some(())
    }
}

/// Sends a filter file to the target. `None` if the copy was stopped.
pub(super) fn report_patterns(source: &Source, directory: EntryId, (file, text): PatternFile) -> Option<()> {
    wait_for_outbox(source)?.machine.send_patterns(directory, file, text);
    source.signals.outbox.notify_all();
    Some(())
}

fn wait_for_outbox(source: &Source) -> Option<MutexGuard<'_, State>> {
    let mut state = source.lock();
    loop {
        match (state.stopped, state.machine.messages_waiting() < OUTBOX_MAX) {
            (true, _) => return None,
            (false, true) => return Some(state),
            (false, false) => state = source.signals.window.wait(state),
        }
    }
}

/// Updates `is_all` for a source argument: whether it has files or links, all of them excluded.
pub(super) fn judge(is_all: &mut Option<bool>, found: &WalkEntry) {
    match found {
        WalkEntry::Filtered { .. } | WalkEntry::FilteredFiles { .. } => *is_all = is_all.or(Some(true)),
        WalkEntry::File { .. } | WalkEntry::Symlink { .. } | WalkEntry::Node { .. } => *is_all = Some(false),
        WalkEntry::EnterDir { .. }
        | WalkEntry::LeaveDir { .. }
        | WalkEntry::LeftOut { .. }
        | WalkEntry::Vanished { .. }
        | WalkEntry::VanishedDir { .. }
        | WalkEntry::Failed { .. } => {}
    }
}

/// Warns that filters exclude every file of a source argument.
pub(super) fn warn_all_excluded(reporter: &Reporter, operand: &[u8]) {
    let shown = escape(operand);
    let at = shown.trim_end_matches('/');
    let text = format!("{shown}: the filters exclude every file in it; --explain {at}/NAME prints the rule");
    reporter.send(&WorkerMessage::Warning { text });
}

//! A dry run makes and reports all decisions, and creates, changes or removes nothing.
//! [`Dir::absent_child`](crate::fs::Dir::absent_child) represents a directory to be created, for everything below it.

use std::sync::atomic::Ordering;

use haul_proto::entry::{Entry, EntryContent};
use haul_proto::overwrite_policy::OverwriteDecision;
use haul_proto::session::step::EntryAnswer;

use crate::receiver::decide::transfer_decision::target_path_at;
use crate::receiver::decide::{EntryDecider, EntryResult};
use crate::receiver::place::entry_position::{EntryDecision, EntryPosition};

impl EntryDecider {
    /// Answers an entry other than a directory after its decision. Until then, a real run takes the same path.
    pub(crate) fn answer_dry(&self, position: &EntryPosition, entry: &Entry, decided: &EntryDecision) -> EntryResult {
        if decided.decision == OverwriteDecision::ReplaceTree {
            self.parts.removals.clear_for_replacement(&position.dir, &position.name, &decided.removal)?;
        }
        self.parts.copy.report_decision(position, entry, decided);
        let stays = decided.decision == OverwriteDecision::Keep;
        // A file that is updated in place keeps its other names.
        let stays_itself = stays
            || matches!(entry.kind, EntryContent::File { .. }) && {
                let path = target_path_at(position, decided);
                self.parts.deltas.base_in_place(&path, entry, |there| self.known_names(there))?.is_some()
            };
        self.dry_new.store(!stays_itself, Ordering::Relaxed);
        if let (EntryContent::File { size }, true) = (&entry.kind, stays) {
            self.parts.copy.reporter.file_existed(|| self.parts.copy.relative(position), *size, None);
        }
        Ok(EntryAnswer::Settled)
    }
}

#[cfg(test)]
#[path = "dry_run_tests.rs"]
mod tests;

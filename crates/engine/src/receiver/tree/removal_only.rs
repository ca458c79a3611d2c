//! Copies that only remove.

use std::sync::Arc;

use haul_proto::entry::{Entry, EntryContent, EntryLocation};
use haul_proto::overwrite_policy::OverwriteRefusal;
use haul_proto::session::step::{EntryAnswer, ParentDirectory};

use crate::receiver::entry::ReceiverEntry;
use crate::receiver::place::destination::DestinationKind;
use crate::receiver::session::ReceiverSession;
use crate::receiver::tree::TargetTree;

impl TargetTree {
    /// Answers an entry where nothing is copied: existing directories are entered.
    pub(crate) fn answer_only_removal(&self, session: &ReceiverSession, entry: &Entry) -> EntryAnswer<ReceiverEntry> {
        let parent = session.read(|machine| machine.parent(&entry.place));
        if entry.kind != EntryContent::Directory {
            return if matches!(parent, ParentDirectory::Refused) {
                EntryAnswer::Refused
            } else {
                EntryAnswer::Settled
            };
        }
        let mut own_name = None;
        let (dir, above) = match (parent, &entry.place) {
            (ParentDirectory::Operand(number), _) => {
                let Some(operand) = self.requested_operand(number, entry) else {
                    return self.copy.refuse_operand(OverwriteRefusal::NotAsked);
                };
                let is_alone = self.removals.sweeps_operands();
                let dir = match (&self.copy.destination.kind, &operand.name) {
                    (DestinationKind::Contents(dir), _) => Ok(dir.clone()),
                    (DestinationKind::Into(dir), name) => operand
                        .below
                        .iter()
                        .chain(name)
                        .try_fold(dir.clone(), |dir, name| self.metadata.enter(&dir, name)),
                    _ => return EntryAnswer::Refused,
                };
                own_name = operand.name;
                (dir, is_alone)
            }
            (ParentDirectory::Open(parent), EntryLocation::Child { name, .. }) => match &*parent {
                ReceiverEntry::Directory { dir, names, .. } => (self.metadata.enter(dir, name), names.is_some()),
                _ => return EntryAnswer::Refused,
            },
            _ => return EntryAnswer::Refused,
        };
        match dir {
            Ok(dir) => {
                let names = match entry.place {
                    EntryLocation::Operand(_) => self.removals.names_for_argument(&dir, above),
                    _ => self.removals.names_for(&dir, above),
                };
                let (fresh, meta) = (false, entry.meta);
                let item = Arc::new(ReceiverEntry::Directory { dir, fresh, names, meta, attributes: None });
                match entry.place {
                    EntryLocation::Operand(_) => self.lock_answer(EntryAnswer::Needed(item), own_name.as_ref()),
                    _ => EntryAnswer::Needed(item),
                }
            }
            // A copy will create one here, or report its failure.
            Err(_) => EntryAnswer::Refused,
        }
    }
}

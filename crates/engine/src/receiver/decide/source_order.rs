//! Entries of the same path in several sources: the first source has precedence.

use std::borrow::Cow;
use std::sync::atomic::Ordering;

use haul_proto::entry::{Entry, EntryContent, EntryLocation};
use haul_proto::path::Name;
use haul_proto::session::step::ParentDirectory;
use haul_proto::wire::report::WorkerMessage;

use crate::receiver::decide::EntryDecider;
use crate::receiver::entry::{Compared, ReceiverEntry};
use crate::receiver::tree::merged_sources::{MergeDecision, TAKEN, TOO_MANY};

impl EntryDecider {
    /// Returns an entry whose path another source may have: unchanged, with the first one's metadata, or `None` after a
    /// report.
    pub(crate) fn first_of_sources<'e>(&self, entry: &'e Entry) -> Option<Cow<'e, Entry>> {
        let as_it_is = Some(Cow::Borrowed(entry));
        if !self.parts.tree.merges() {
            return as_it_is;
        }
        let Some(path) = self.merged_path(entry) else { return as_it_is };
        match self.parts.tree.merged_sources.turn(&path, entry.kind == EntryContent::Directory, &entry.meta) {
            MergeDecision::First => as_it_is,
            MergeDecision::Same(meta) => Some(Cow::Owned(Entry { meta, more: None, ..entry.clone() })),
            MergeDecision::Taken => {
                self.parts.copy.reporter.left_out(self.parts.copy.destination.path(&path), TAKEN);
                None
            }
            MergeDecision::TooMany => {
                if !self.parts.tree.merged_sources.is_reported.swap(true, Ordering::Relaxed) {
                    self.parts.copy.reporter.send(&WorkerMessage::Warning { text: TOO_MANY.into() });
                }
                as_it_is
            }
        }
    }

    /// Path below the destination; `None` if nothing is written there.
    fn merged_path(&self, entry: &Entry) -> Option<Vec<u8>> {
        match (self.parts.session.read(|machine| machine.parent(&entry.place)), &entry.place) {
            (ParentDirectory::Operand(number), _) => {
                let operand = self.parts.copy.request.operands.get(number as usize)?;
                let below = self.parts.copy.request.below.get(number as usize).map_or(&[][..], Vec::as_slice);
                let names: Vec<_> = below.iter().chain(&operand.name).map(Name::as_bytes).collect();
                Some(names.join(&b'/'))
            }
            (ParentDirectory::Open(parent), EntryLocation::Child { name, .. }) => match &*parent {
                ReceiverEntry::Directory { dir, .. } => Some(dir.path_of(name.as_bytes())),
                ReceiverEntry::Compared(Compared::Directory(directory)) => Some(directory.path_of(name)),
                _ => None,
            },
            _ => None,
        }
    }
}

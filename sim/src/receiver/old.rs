//! The target's reports on old files in the places of new ones. Here, none shares data with the new one; the tests are
//! about the machines' reactions to reports in any order and under any loss.

use haul_lab::Rng;
use haul_proto::delta::blocks::{BlockHash, count};
use haul_proto::entry::{Entry, EntryContent};
use haul_proto::ids::EntryId;

use super::{Receiver, Todo};
use crate::content::frame_len;

/// A file whose base file is being reported to the source.
pub struct Telling {
    entry: EntryId,
    size: u64,
    /// The next frame to report.
    next: u64,
}

/// Whether it comes in frames.
pub fn is_large(entry: &Entry) -> bool {
    matches!(entry.kind, EntryContent::File { size } if size > frame_len().pack_file_max())
}

impl Telling {
    /// Without a report so far.
    pub fn new(entry: EntryId, kind: &EntryContent) -> Self {
        let size = if let EntryContent::File { size } = kind { *size } else { 0 };
        Self { entry, size, next: 0 }
    }
}

impl Receiver {
    /// Reports some frames: their blocks, or their absence.
    pub(super) fn tell(&mut self, telling: Telling, rng: &mut Rng) {
        let Telling { entry, size, next } = telling;
        let frames = frame_len().frames(size);
        if next == frames {
            return;
        }
        let end = frames.min(next + 1 + rng.below(4));
        if rng.chance(500) {
            self.machine.lacks(entry, std::slice::from_ref(&(next..end)));
        } else if self.machine.may_mark(end - next) {
            let blocks = (next..end).filter_map(|index| frame_len().frame_len(size, index)).map(count).sum();
            let marks: Vec<BlockHash> = vec![rng.below(2); blocks];
            self.machine.mark(entry, next, end - next, marks);
        } else {
            self.todo.push(Todo::Tell(Telling { entry, size, next }));
            return;
        }
        self.todo.push(Todo::Tell(Telling { entry, size, next: end }));
    }
}

//! Existing entries known to equal the source's: files with equal digests, and symbolic links. A source that removes
//! verified files removes these as well, so they are synced before the report.

use haul_proto::session::step::EntryAnswer;
use rustix::fs::fsync;

use crate::fs::FollowLinks;
use crate::receiver::decide::{EntryDecider, EntryResult};
use crate::receiver::place::entry_position::EntryPosition;

impl EntryDecider {
    /// Answers an entry that is known to be equal and needs no change.
    pub(crate) fn known_to_be_same(&self, position: &EntryPosition, is_file: bool) -> EntryResult {
        if !self.parts.copy.request.sync.source_removes {
            return Ok(EntryAnswer::Settled);
        }
        if self.parts.commit_queue.is_wanted() {
            if is_file {
                fsync(&position.dir.open_file(&position.name, FollowLinks::Itself)?.0)?;
            }
            fsync(&*position.dir.fd()?)?;
        }
        Ok(EntryAnswer::Same)
    }
}

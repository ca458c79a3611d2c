//! What stands at the target and is known to be what the source has: a file whose digest was compared, a symbolic link. A
//! source that removes what is proven removes that, too; so it is on the disk before that is said.

use haul_proto::session::step::EntryAnswer;
use rustix::fs::fsync;
use std::io;

use super::examine::EntryPosition;
use super::{ReceiverEntry, TargetReceiver};
use crate::fs::FollowLinks;

impl TargetReceiver {
    /// Answers something of which nothing is needed, and which is known to be the same.
    pub(super) fn known_to_be_same(
        &self,
        position: &EntryPosition,
        is_file: bool,
    ) -> io::Result<EntryAnswer<ReceiverEntry>> {
        if !self.request.sync.source_removes {
            return Ok(EntryAnswer::Settled);
        }
        if self.has_groups() {
            if is_file {
                fsync(&position.dir.open_file(&position.name, FollowLinks::Itself)?.0)?;
            }
            fsync(&*position.dir.fd()?)?;
        }
        Ok(EntryAnswer::Same)
    }
}

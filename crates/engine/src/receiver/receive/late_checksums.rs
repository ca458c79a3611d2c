//! Requested digests that need a reread of the file.

use crate::receiver::TargetReceiver;
use crate::receiver::entry::ReceiverEntry;
use crate::receiver::place::error::FileError;
use haul_proto::ids::EntryId;
use std::sync::Arc;

impl TargetReceiver {
    /// Completes the digest of a large file of `size` bytes with all frames written.
    pub(crate) fn sum_up(&self, entry: EntryId, item: &Arc<ReceiverEntry>, size: u64) {
        let ReceiverEntry::File(file) = &**item else { return };
        let Some(sum) = self.digests.sum(file) else { return };
        let read = |index, room: &mut [u8]| self.digests.read_again(file, index, room);
        match sum.finish(size, read, || !self.session.is_stopped()) {
            Ok(()) => {
                let _ = file.sum.value.set(sum.value().unwrap_or_default().to_vec());
                self.run_step(self.session.apply(|machine| machine.summed(entry)));
            }
            // A stopped job reports nothing more.
            Err(_) if self.session.is_stopped() => {}
            Err(error) => self.fail_file(entry, item, &FileError::Reread(error.into())),
        }
    }
}

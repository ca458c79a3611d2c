//! Recovery of whole files with other data on disk than was sent: their write-back failed, or the disk returns other
//! bytes. The damaged parts are requested again, once.

use super::flow::FlowLength;
use super::{LargeReceive, ReceiveState, ReceivedEntry, TargetSession};
use crate::ids::EntryId;
use crate::limits::PACK_FILES_MAX;
use crate::session::step::LostFile;
use crate::wire::message::TargetMessage;

impl<H> TargetSession<H> {
    /// Requests these files again. Returns those that have to fail: they were requested before, or the source has given
    /// them up.
    pub fn lost(&mut self, files: Vec<LostFile<H>>) -> Vec<EntryId> {
        let (mut packed, mut failed) = (Vec::new(), Vec::new());
        for LostFile { entry, handle, left } in files {
            let Some(tracked @ ReceivedEntry { state: ReceiveState::Finishing, released: false, again: false, .. }) =
                self.entries.get_mut(&entry)
            else {
                failed.push(entry);
                continue;
            };
            tracked.again = true;
            let Some((size, end)) = left else {
                tracked.state = ReceiveState::Small { handle };
                packed.push(entry);
                continue;
            };
            let lacking: Vec<_> = end.tree.missing().collect();
            let large = LargeReceive::new(handle, FlowLength::Known(size), end.tree);
            tracked.state =
                ReceiveState::Large(Box::new(LargeReceive { end: Some((end.modified, end.digest)), ..large }));
            self.lacks(entry, &lacking);
        }
        self.resend_small(&packed);
        failed
    }

    /// Requests small files again.
    pub(super) fn resend_small(&mut self, files: &[EntryId]) {
        for entries in files.chunks(PACK_FILES_MAX) {
            self.outbox.push(TargetMessage::ResendPacked { entries: entries.to_vec() });
        }
    }
}

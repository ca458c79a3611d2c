//! Whole files that are not on the disk as they were sent: their write-back has failed, or the disk returns other bytes.
//! What is wrong of them is asked for again, once.

use super::flow::Extent;
use super::{Large, State, Target, Tracked};
use crate::ids::EntryId;
use crate::limits::PACK_FILES_MAX;
use crate::session::step::Lost;
use crate::wire::message::TargetMessage;

impl<H> Target<H> {
    /// Asks for these again. Returns those that have to fail: they were asked for before, or the source has given them
    /// up.
    pub fn lost(&mut self, files: Vec<Lost<H>>) -> Vec<EntryId> {
        let (mut packed, mut failed) = (Vec::new(), Vec::new());
        for Lost { entry, handle, left } in files {
            let Some(tracked @ Tracked { state: State::Finishing, released: false, again: false, .. }) =
                self.entries.get_mut(&entry)
            else {
                failed.push(entry);
                continue;
            };
            tracked.again = true;
            let Some((size, end)) = left else {
                tracked.state = State::Small { handle };
                packed.push(entry);
                continue;
            };
            let lacking: Vec<_> = end.tree.seen().gaps(end.tree.frames()).collect();
            let large = Large::new(handle, Extent::Known(size), end.tree);
            tracked.state = State::Large(Box::new(Large { end: Some((end.modified, end.digest)), ..large }));
            self.lacks(entry, &lacking);
        }
        self.resend_small(&packed);
        failed
    }

    /// Asks for small files again.
    pub(super) fn resend_small(&mut self, files: &[EntryId]) {
        for entries in files.chunks(PACK_FILES_MAX) {
            self.outbox.push(TargetMessage::ResendPacked { entries: entries.to_vec() });
        }
    }
}

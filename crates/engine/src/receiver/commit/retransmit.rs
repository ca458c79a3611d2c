//! Complete files that differ on disk from the sent data: wrong frames are requested again, once; then the file fails.

use std::sync::Arc;

use haul_proto::path::escape;
use haul_proto::session::step::LostFile;
use haul_proto::wire::report::WorkerMessage;

use crate::receiver::commit::Committer;
use crate::receiver::commit::outcomes::{DamagedExtent, EntryOutcomes, FileLoss};
use crate::receiver::durability::complete_file::{CompleteFile, file};
use crate::receiver::entry::ReceiverEntry;
use crate::receiver::place::error::{DiskDamage, FileError};
use crate::receiver::place::temp_files::TempFiles;

impl FileLoss {
    /// A loss of unknown extent.
    pub fn of_all(whole: CompleteFile, error: FileError) -> Self {
        Self { whole, error, extent: DamagedExtent::All }
    }

    /// A loss of the frames missing in the file's hash tree.
    pub fn of_damage(whole: CompleteFile, damage: DiskDamage) -> Self {
        // A packed file is sent again in a pack.
        let extent = if whole.end.is_some() { DamagedExtent::Damage } else { DamagedExtent::All };
        Self { whole, error: damage.into(), extent }
    }

    fn prepare_resend(&mut self, temp_files: &TempFiles) -> LostFile<ReceiverEntry> {
        let CompleteFile { entry, item, size, end, .. } = &mut self.whole;
        let mut left = end.take().map(|end| (*size, end));
        let received = file(item);
        let handle = match (self.extent, received.named()) {
            (DamagedExtent::All, Some(named)) => {
                received.discard(temp_files);
                left.iter_mut().for_each(|(_, end)| end.tree.forget(&(0..end.tree.frames())));
                Arc::new(ReceiverEntry::File(received.afresh(named)))
            }
            _ => Arc::clone(item),
        };
        LostFile { entry: *entry, handle, left }
    }
}

impl Committer {
    /// Requests lost files again; a second loss is a failure.
    pub(crate) fn ask_again(&self, mut losses: Vec<FileLoss>, ends: &mut EntryOutcomes) {
        let Some(FileLoss { whole, error, .. }) = losses.first() else { return };
        let path = escape(&whole.file().display_path(&self.parts.copy.destination));
        let what = match losses.len() - 1 {
            0 => "it is".to_owned(),
            1 => "it and 1 other file are".to_owned(),
            others => format!("it and {others} other files are"),
        };
        let text = format!("{path}: {}; {what} sent again", error.summary());
        let lost = losses.iter_mut().map(|loss| loss.prepare_resend(&self.parts.tree.temp_files)).collect();
        let failed = self.parts.session.apply(|machine| machine.lost(lost));
        if failed.len() < losses.len() {
            self.parts.copy.reporter.send(&WorkerMessage::Warning { text });
        }
        for FileLoss { whole, error, .. } in losses {
            if failed.contains(&whole.entry) {
                self.fail_entry(whole.entry, &whole.item, &error, ends);
            }
        }
    }
}

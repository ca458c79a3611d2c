//! Reflinks: ranges of a file are cloned instead of copied, and share the source's blocks. This needs source and target
//! in one process, and support by the file system. The data never passes through memory, so it is not verified and has
//! no digest to report. Copies that need either copy instead.

use std::collections::HashSet;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use haul_base::sys::sync::lock;
use haul_proto::error::ProtocolError;
use haul_proto::ids::EntryId;
use haul_proto::integrity::NO_VALUE;
use haul_proto::session::step::TargetStep;
use haul_proto::session::target::TargetSession;
use haul_proto::wire::resource_metrics::Stage;
use rustix::io::Errno;

use crate::io::storage::file::OpenedFile;
use crate::metrics::counter::add;
use crate::metrics::stage_timer::during;
use crate::receiver::entry::ReceiverEntry;
use crate::receiver::file::base::BaseSource;
use crate::receiver::file::frame_parts::{FramePart, clone_parts};
use crate::receiver::file::named::NamedFile;
use crate::receiver::receive::FrameReceiver;

/// Refused reflinks, so that they are not tried for every chunk.
#[derive(Debug, Default)]
pub struct ReflinkSupport {
    /// Device numbers of file systems without reflinks to the target's. A copy uses few.
    refused: Mutex<HashSet<u64>>,
}

impl ReflinkSupport {
    /// Whether a file system like that of `source` has refused.
    pub fn is_refused(&self, source: &OpenedFile) -> bool {
        lock(&self.refused).contains(&source.device())
    }

    /// Records a refusal.
    pub fn refuse(&self, source: &OpenedFile) {
        lock(&self.refused).insert(source.device());
    }
}

impl FrameReceiver {
    /// Clones frames of a file from `source`, which then count as written. Returns the steps that follow. `None` if
    /// that is impossible or unwanted: nothing has changed, and the frames must be delivered.
    pub(crate) fn share(
        &self,
        source: &OpenedFile,
        entry: EntryId,
        size: u64,
        frames: Range<u64>,
    ) -> Result<Option<Vec<TargetStep<ReceiverEntry>>>, ProtocolError> {
        let needs_contents = self.parts.copy.request.settings.blake3 || self.parts.digests.wants_digests();
        if needs_contents || self.parts.copy.policy.is_forced() || self.reflinks.is_refused(source) {
            return Ok(None);
        }
        let Some(item) = self.admit_all(entry, size, &frames)? else { return Ok(None) };
        let frame_bytes = u64::from(self.parts.copy.request.settings.frame.get());
        let offset = frames.start.saturating_mul(frame_bytes);
        let len = frames.end.saturating_mul(frame_bytes).min(size).saturating_sub(offset);
        if !during(Stage::Write, || self.share_range(source, &item, offset..offset + len, offset)) {
            self.release(entry, frames);
            return Ok(None);
        }
        if let ReceiverEntry::File(file) = &*item {
            file.count_written(len, &self.parts.copy.reporter.tally.bytes_written);
        }
        add(&self.parts.copy.reporter.tally.bytes_cloned, len);
        let written = |machine: &mut TargetSession<_>| {
            frames.map(|index| machine.frame_written(entry, index * frame_bytes, NO_VALUE)).collect()
        };
        Ok(Some(self.parts.session.apply(written)))
    }

    /// Admits all frames or none: `None` if one of them exists or is being written, or if the file has no blocks.
    fn admit_all(
        &self,
        entry: EntryId,
        size: u64,
        frames: &Range<u64>,
    ) -> Result<Option<Arc<ReceiverEntry>>, ProtocolError> {
        let frame = self.parts.copy.request.settings.frame;
        let frame_bytes = u64::from(frame.get());
        self.parts.session.apply(|machine| {
            let mut item = None;
            for index in frames.clone() {
                let offset = index.saturating_mul(frame.get().into());
                let len = frame.frame_len(size, index).unwrap_or(0);
                let admitted = machine.admit_frame(entry, offset, len)?;
                let admitted_end = index + u64::from(admitted.is_some());
                item = admitted.filter(|item| matches!(&**item, ReceiverEntry::File(file) if file.named().is_some_and(NamedFile::takes_blocks)));
                if item.is_none() {
                    (frames.start..admitted_end).for_each(|index| machine.release_frame(entry, index * frame_bytes));
                    return Ok(None);
                }
            }
            Ok(item)
        })
    }

    /// Releases admitted frames, which are delivered instead.
    fn release(&self, entry: EntryId, frames: Range<u64>) {
        let frame_bytes = u64::from(self.parts.copy.request.settings.frame.get());
        self.parts.session.apply(|machine| frames.for_each(|index| machine.release_frame(entry, index * frame_bytes)));
    }

    /// Clones what a frame has in common with its base file, as far as possible.
    pub(crate) fn share_base<'a>(
        &self,
        item: &ReceiverEntry,
        base: &BaseSource,
        parts: Vec<FramePart<'a>>,
        frame_offset: u64,
    ) -> Vec<FramePart<'a>> {
        let ReceiverEntry::File(file) = item else { return parts };
        let Ok(base) = base.opened() else { return parts };
        let may_share = file.named().is_some_and(NamedFile::takes_blocks)
            && !self.parts.copy.policy.is_forced()
            && !self.reflinks.is_refused(&base);
        if !may_share {
            return parts;
        }
        let clone = |range, offset| self.share_range(&base, item, range, offset);
        during(Stage::Write, || clone_parts(parts, frame_offset, clone))
    }

    fn share_range(&self, source: &OpenedFile, item: &ReceiverEntry, range: Range<u64>, offset: u64) -> bool {
        let ReceiverEntry::File(file) = item else { return false };
        // The delivery of its frames reports a file that cannot be opened.
        let Ok(opened) = file.open_once(&self.parts.tree.temp_files, &self.parts.tree.copy_locks) else { return false };
        let Some(named) = file.named() else { return false };
        match named.share_range(&opened, source, range, offset) {
            Ok(()) => true,
            Err(error) if is_refusal_for_all(&error) => {
                self.reflinks.refuse(source);
                false
            }
            Err(_) => false,
        }
    }
}

/// Whether an error concerns the two file systems, not just these two files (a swap file, one without checksums, one
/// just truncated).
fn is_refusal_for_all(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::XDEV | Errno::OPNOTSUPP | Errno::NOTTY | Errno::NOSYS | Errno::PERM | Errno::ACCESS)
    )
}

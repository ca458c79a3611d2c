//! Completion of a directory: its metadata, and its fsync.

use haul_base::sys::describe::describe;
use haul_proto::entry::EntryMetadata;
use haul_proto::entry_extras::ExtendedAttribute;

use crate::fs::{Dir, FileStat, mode_without_preserve};
use crate::metrics::counter::add;
use crate::receiver::metadata::MetadataWriter;
use crate::receiver::metadata::unset::EntryPlace;

impl MetadataWriter {
    /// Queues the destination directory once all entries are complete: new names in it must be durable, whether from
    /// this run or an interrupted one.
    pub(crate) fn finish_destination(&self) {
        if let Some(dir) = self.copy.destination.dir().filter(|dir| !dir.is_absent())
            && let Err(error) = self.commit_queue.queue_directory(dir)
        {
            self.copy.fail(self.copy.destination.path(b""), describe(&error));
        }
        self.report_replaced();
        self.report_unset();
        self.restore_modes();
        self.commit_queue.end();
    }

    pub(crate) fn finish_directory(
        &self,
        dir: &Dir,
        fresh: bool,
        meta: &EntryMetadata,
        attributes: Option<&[ExtendedAttribute]>,
    ) -> bool {
        if self.copy.is_dry() || dir.is_absent() {
            return true;
        }
        let settled = self.complete_directory(dir, fresh, meta, attributes, true);
        dir.keep_parent_open();
        match settled {
            Ok(is_complete) => {
                add(&self.copy.reporter.tally.directories, 1);
                is_complete
            }
            Err(error) => {
                self.copy.fail(self.copy.destination.path(&dir.path_bytes()), describe(&error));
                false
            }
        }
    }

    /// Sets the metadata of a complete directory and queues its fsync. Returns whether it counts as complete. With
    /// `is_first`, reports what cannot be set.
    pub(crate) fn complete_directory(
        &self,
        dir: &Dir,
        fresh: bool,
        meta: &EntryMetadata,
        attributes: Option<&[ExtendedAttribute]>,
        is_first: bool,
    ) -> std::io::Result<bool> {
        if self.copy.creates_only && !fresh {
            return self.commit_queue.queue_directory(dir).map(|()| true);
        }
        let made = dir.fd().and_then(|fd| {
            let wanted = self.directory_mode(meta, fresh);
            let there = FileStat::at_fd(&*fd)?;
            let mode = wanted.filter(|mode| self.copy.request.metadata.rights.mode || there.meta.mode & 0o777 != *mode);
            // A time within the file system's precision is not set again.
            let meta = match self.is_same_time(dir, meta.modified, &there) {
                true => &EntryMetadata { modified: there.meta.modified, ..*meta },
                false => meta,
            };
            // An existing directory may belong to another user; its new contents are complete.
            let is_foreign = !fresh && !there.is_owned_by_this_user();
            let is_reported = is_first && (!is_foreign || self.copy.request.metadata.is_required);
            let place = EntryPlace { is_reported, ..EntryPlace::of_directory(dir) };
            self.set_directory_metadata(place, &*fd, meta, mode, fresh, attributes)
        });
        match made {
            Ok(_) => self.forget_widened(dir),
            Err(_) => self.restore_mode(dir),
        }
        made.and_then(|is_complete| self.commit_queue.queue_directory(dir).map(|()| is_complete))
    }

    /// Leaves the metadata of a directory that only had removals.
    pub(crate) fn leave_unchanged(&self, dir: &Dir) -> bool {
        self.restore_mode(dir);
        true
    }

    /// The final mode of a directory; `None` for an existing one whose mode stays.
    pub(crate) fn directory_mode(&self, meta: &EntryMetadata, fresh: bool) -> Option<u16> {
        match (self.copy.request.metadata.rights.mode, fresh) {
            (true, _) => Some(meta.mode),
            (false, true) => Some(mode_without_preserve(meta.mode, self.copy.umask)),
            (false, false) => None,
        }
    }
}

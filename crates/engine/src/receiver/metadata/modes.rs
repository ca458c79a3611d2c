//! Permission bits of new entries: the source's or the requested ones (`-m`), with or without the umask.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use haul_proto::entry::EntryMetadata;
use haul_proto::entry_extras::ExtendedAttribute;
use haul_proto::path::Name;
use rustix::fs::{Mode, fchmod};

use crate::fs::meta::apply_to_node;
use crate::fs::{MetadataParts, mode_without_preserve};
use crate::receiver::metadata::MetadataWriter;

impl MetadataWriter {
    /// The requested mode of all new files.
    fn requested_file_mode(&self) -> Option<u16> {
        self.asked(self.job.request.write.modes.file)
    }

    /// The requested mode of all new directories.
    pub(crate) fn requested_directory_mode(&self) -> Option<u16> {
        self.asked(self.job.request.write.modes.directory)
    }

    fn asked(&self, mode: Option<u16>) -> Option<u16> {
        let umask = if self.job.request.write.modes.less_umask { self.job.umask } else { 0 };
        mode.filter(|_| !self.job.request.metadata.owner_and_mode).map(|mode| mode & !umask)
    }

    /// Sets metadata and attributes of a new file. With `set_mode`, sets the mode even without `-p`; otherwise the
    /// umask was already applied. `Some` names an attribute that could not be set.
    pub(crate) fn set_file_metadata(
        &self,
        file: impl AsFd,
        meta: &EntryMetadata,
        set_mode: bool,
        attributes: Option<&[ExtendedAttribute]>,
    ) -> io::Result<Option<String>> {
        let mode = match self.job.request.metadata.owner_and_mode {
            true => Some(meta.mode),
            false => set_mode.then(|| mode_without_preserve(meta.mode, self.job.umask)),
        };
        self.set_metadata(file, meta, mode, self.requested_file_mode(), attributes)
    }

    /// Sets metadata and attributes of a directory; `mode` applies unless the directory is new and another mode was
    /// requested.
    pub(crate) fn set_directory_metadata(
        &self,
        dir: impl AsFd,
        meta: &EntryMetadata,
        mode: Option<u16>,
        fresh: bool,
        attributes: Option<&[ExtendedAttribute]>,
    ) -> io::Result<Option<String>> {
        self.set_metadata(dir, meta, mode, self.requested_directory_mode().filter(|_| fresh), attributes)
    }

    /// A requested mode is the user's own: its set-id bits grant only this user's rights.
    fn set_metadata(
        &self,
        fd: impl AsFd,
        meta: &EntryMetadata,
        mode: Option<u16>,
        asked: Option<u16>,
        attributes: Option<&[ExtendedAttribute]>,
    ) -> io::Result<Option<String>> {
        let keep = MetadataParts {
            owner: self.job.request.metadata.owner_and_mode,
            mode: mode.filter(|_| asked.is_none()),
            times: true,
        };
        let refused = self.apply_all(&fd, meta, keep, attributes)?;
        if let Some(mode) = asked {
            fchmod(&fd, Mode::from_raw_mode(mode.into()))?;
        }
        Ok(refused)
    }

    /// Sets metadata of a device, FIFO or socket, which is not opened.
    pub(crate) fn set_node_metadata(
        &self,
        dir: &OwnedFd,
        name: &Name,
        meta: &EntryMetadata,
        times: bool,
    ) -> io::Result<()> {
        let preserve = self.job.request.metadata.owner_and_mode;
        let mode = if preserve { meta.mode } else { mode_without_preserve(meta.mode, self.job.umask) };
        apply_to_node(dir, name, meta, MetadataParts { owner: preserve, mode: Some(mode), times }).map(|_| ())
    }

    /// Private and writable until the directory is complete.
    pub(crate) fn first_mode(&self, meta: &EntryMetadata) -> u32 {
        if self.job.request.metadata.owner_and_mode { 0o700 } else { u32::from(meta.mode & 0o777) | 0o700 }
    }

    /// The mode of a directory above a source argument. It belongs to this user, whatever the source's owner: modes for
    /// another owner or group have no meaning.
    pub(crate) fn mode_above(&self, source_mode: u16) -> u16 {
        if self.job.request.metadata.owner_and_mode {
            source_mode & 0o1777
        } else {
            mode_without_preserve(source_mode, self.job.umask)
        }
    }
}

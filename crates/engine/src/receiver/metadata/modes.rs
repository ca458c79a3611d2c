//! Permission bits of new entries: the source's or the requested ones (`--mode`), with or without the umask.

use std::io;
use std::os::fd::AsFd;

use haul_proto::entry::EntryMetadata;
use haul_proto::entry_extras::ExtendedAttribute;
use haul_proto::path::Name;
use haul_proto::wire::preserve::RightsOptions;
use rustix::fs::{Mode, fchmod};

use crate::fs::meta::{AppliedMetadata, SETGID, SETUID, apply_to_node};
use crate::fs::{MetadataParts, mode_without_preserve};
use crate::receiver::metadata::unset::EntryPlace;
use crate::receiver::metadata::{MetadataWriter, replaced_rights};
use crate::sys::refusal::refusal;

impl MetadataWriter {
    /// The requested mode of all new files.
    fn requested_file_mode(&self) -> Option<u16> {
        self.asked(self.copy.request.write.modes.file)
    }

    /// The requested mode of all new directories.
    pub(crate) fn requested_directory_mode(&self) -> Option<u16> {
        self.asked(self.copy.request.write.modes.directory)
    }

    fn asked(&self, mode: Option<u16>) -> Option<u16> {
        let RightsOptions { mode: is_preserved, owner, group } = self.copy.request.metadata.rights;
        let umask = if self.copy.request.write.modes.less_umask { self.copy.umask } else { 0 };
        // Set-id bits would grant another user's rights.
        let foreign = if owner || group { SETUID | SETGID } else { 0 };
        mode.filter(|_| !is_preserved).map(|mode| mode & !umask & !foreign)
    }

    /// Sets metadata and attributes of a new file. With `set_mode`, sets the mode even without `-p`: that of the file
    /// that it replaces, or the source's within the umask. Without, the umask was already applied. Returns whether the
    /// file counts as complete.
    pub(crate) fn set_file_metadata(
        &self,
        place: EntryPlace<'_>,
        file: impl AsFd,
        meta: &EntryMetadata,
        set_mode: bool,
        attributes: Option<&[ExtendedAttribute]>,
    ) -> io::Result<bool> {
        let (preserve, asked) = (self.copy.request.metadata.rights.mode, self.requested_file_mode());
        let kept = if preserve || asked.is_some() { None } else { replaced_rights::keep(place, &file)? };
        let kept = kept.map(|kept| self.executable_mode(meta.mode, kept));
        let plain = || kept.unwrap_or_else(|| mode_without_preserve(meta.mode, self.copy.umask));
        let wanted = EntryMetadata { mode: if preserve { meta.mode } else { plain() }, ..*meta };
        let mode = (preserve || set_mode).then_some(wanted.mode);
        let keep = self.preserved_parts(mode, self.copy.request.metadata.times.files);
        self.set_metadata(place, file, &wanted, keep, asked, attributes)
    }

    /// Sets metadata and attributes of a directory; `mode` applies unless the directory is new and another mode was
    /// requested. Returns whether the directory counts as complete.
    pub(crate) fn set_directory_metadata(
        &self,
        place: EntryPlace<'_>,
        dir: impl AsFd,
        meta: &EntryMetadata,
        mode: Option<u16>,
        fresh: bool,
        attributes: Option<&[ExtendedAttribute]>,
    ) -> io::Result<bool> {
        // Without a mode to set, any is right.
        let wanted = EntryMetadata { mode: mode.unwrap_or(0o777), ..*meta };
        let keep = self.preserved_parts(mode, self.copy.request.metadata.times.directories);
        self.set_metadata(place, dir, &wanted, keep, self.requested_directory_mode().filter(|_| fresh), attributes)
    }

    /// Owner and group as far as they are preserved, and this mode.
    pub(crate) fn preserved_parts(&self, mode: Option<u16>, times: bool) -> MetadataParts {
        let RightsOptions { owner, group, .. } = self.copy.request.metadata.rights;
        MetadataParts { owner, group, mode, times }
    }

    /// A requested mode is the user's own: its set-id bits grant only this user's rights.
    fn set_metadata(
        &self,
        place: EntryPlace<'_>,
        fd: impl AsFd,
        wanted: &EntryMetadata,
        keep: MetadataParts,
        asked: Option<u16>,
        attributes: Option<&[ExtendedAttribute]>,
    ) -> io::Result<bool> {
        let applied_parts = MetadataParts { mode: keep.mode.filter(|_| asked.is_none()), ..keep };
        let (mut applied, mut is_complete) = self.apply_all(place, &fd, wanted, applied_parts, attributes)?;
        let mut wanted = *wanted;
        if let Some(mode) = asked {
            wanted.mode = mode;
            applied.refused_mode = refusal(fchmod(&fd, Mode::from_raw_mode(mode.into())))?;
            is_complete &= self.record_refusals(place, &AppliedMetadata { refused_time: None, ..applied });
        }
        let keep = MetadataParts { mode: keep.mode.or(asked), ..keep };
        Ok(self.check_effect(place, &fd, &wanted, keep, &applied)? && is_complete)
    }

    /// Sets metadata of a device, FIFO or socket, which is not opened. Returns whether it counts as complete.
    pub(crate) fn set_node_metadata(
        &self,
        place: EntryPlace<'_>,
        temporary: &Name,
        meta: &EntryMetadata,
        times: bool,
    ) -> io::Result<bool> {
        let mode = if self.copy.request.metadata.rights.mode {
            meta.mode
        } else {
            mode_without_preserve(meta.mode, self.copy.umask)
        };
        let keep = self.preserved_parts(Some(mode), times && self.copy.request.metadata.times.files);
        Ok(self.record_refusals(place, &apply_to_node(&*place.dir.fd()?, temporary, meta, keep)?))
    }

    /// Private and writable until the directory is complete.
    pub(crate) fn first_mode(&self, meta: &EntryMetadata) -> u32 {
        if self.copy.request.metadata.rights.mode { 0o700 } else { u32::from(meta.mode & 0o777) | 0o700 }
    }

    /// The mode of a directory above a source argument. It belongs to this user, whatever the source's owner: modes for
    /// another owner or group have no meaning.
    pub(crate) fn mode_above(&self, source_mode: u16) -> u16 {
        if self.copy.request.metadata.rights.mode {
            source_mode & 0o1777
        } else {
            mode_without_preserve(source_mode, self.copy.umask)
        }
    }
}

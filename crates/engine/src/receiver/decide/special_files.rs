//! Devices, FIFOs and sockets: created on request, never opened.

use std::os::fd::OwnedFd;

use haul_proto::entry::{DeviceNumber, EntryMetadata, SpecialFile};
use haul_proto::overwrite_policy::OverwriteDecision;
use haul_proto::path::Name;
use haul_proto::session::step::EntryAnswer;
use rustix::fs::{AtFlags, FileType, Mode, makedev, mknodat, renameat, unlinkat};
use rustix::io::Errno;

use crate::receiver::decide::{EntryDecider, EntryResult};
use crate::receiver::metadata::unset::EntryPlace;
use crate::receiver::place::entry_position::{EntryDecision, EntryPosition};
use crate::receiver::place::error::FileError;
use crate::receiver::place::existing_entry::ExistingStat;
use crate::receiver::place::temp_files::rename_new;
use crate::receiver::place::temp_names::make_temporary;

impl EntryDecider {
    /// Creates a device, FIFO or socket under a temporary name, sets its metadata, and renames it.
    pub(crate) fn node(
        &self,
        position: &EntryPosition,
        node: SpecialFile,
        meta: &EntryMetadata,
        decided: &EntryDecision,
        there: &ExistingStat,
    ) -> EntryResult {
        let is_device = is_device(node);
        let dir = position.dir.fd()?;
        let place = EntryPlace::in_directory(&position.dir, &position.name);
        if decided.decision == OverwriteDecision::Keep {
            let has_time = there.stat.is_some_and(|stat| stat.meta.modified == meta.modified);
            self.parts.metadata.set_node_metadata(place, &position.name, meta, !has_time)?;
            return Ok(EntryAnswer::Settled);
        }
        let made = make_temporary(&dir, &position.name, b"node", |name| make(&dir, name, node));
        let temporary = made.map_err(|error| match error {
            Errno::PERM if is_device => FileError::NotRoot,
            error => error.into(),
        })?;
        let made = self.parts.metadata.set_node_metadata(place, &temporary, meta, true).and_then(|_| {
            Ok(match decided.decision {
                OverwriteDecision::Replace => {
                    self.parts.removals.back_up(&position.dir, &position.name)?;
                    renameat(&*dir, temporary.as_bytes(), &*dir, position.name.as_bytes())
                }
                OverwriteDecision::ReplaceTree => {
                    return self.parts.removals.replace_directory(
                        &position.dir,
                        &temporary,
                        &position.name,
                        &decided.removal,
                    );
                }
                _ => rename_new(&dir, &temporary, &position.name),
            }?)
        });
        if made.is_err() {
            let _ = unlinkat(&*dir, temporary.as_bytes(), AtFlags::empty());
        }
        made?;
        Ok(EntryAnswer::Settled)
    }

    /// Whether the copy requests such a special file.
    pub(crate) fn may_make_node(&self, node: SpecialFile) -> bool {
        let preserve = self.parts.copy.request.metadata.preserve;
        if is_device(node) { preserve.devices } else { preserve.specials }
    }
}

fn is_device(node: SpecialFile) -> bool {
    matches!(node, SpecialFile::Character(_) | SpecialFile::Block(_))
}

/// Creates it, accessible to its owner only.
fn make(dir: &OwnedFd, name: &Name, node: SpecialFile) -> Result<(), Errno> {
    let number = |DeviceNumber { major, minor }| makedev(major, minor);
    let (kind, device) = match node {
        SpecialFile::Character(device) => (FileType::CharacterDevice, number(device)),
        SpecialFile::Block(device) => (FileType::BlockDevice, number(device)),
        SpecialFile::Fifo => (FileType::Fifo, 0),
        SpecialFile::Socket => (FileType::Socket, 0),
    };
    mknodat(dir, name.as_bytes(), kind, Mode::from_raw_mode(0o600), device)
}

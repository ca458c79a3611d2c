//! Devices, FIFOs and sockets: created on request, never opened.

use haul_proto::entry::{EntryMetadata, SpecialFile};
use haul_proto::overwrite_policy::OverwriteDecision;
use haul_proto::session::step::EntryAnswer;
use rustix::fs::{AtFlags, renameat, unlinkat};
use rustix::io::Errno;

use crate::fs::meta::make_node;
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
        let made = make_temporary(&dir, &position.name, b"node", |name| make_node(&dir, name, node));
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

//! Replacement of a directory by another entry, or of another entry by a directory. After a lost connection, the next
//! attempt must find one or the other: with `--existing`, it would not create a missing name.
//!
//! The replacement is complete before the directory is removed. The two are exchanged, so that the name always refers
//! to one of them; then the directory is removed.

use std::io;
use std::sync::Arc;

use haul_proto::entry::EntryMetadata;
use haul_proto::filter::FilterScope;
use haul_proto::path::Name;
use rustix::fs::{AtFlags, FileType, Mode, RenameFlags, mkdirat, renameat, renameat_with, unlinkat};
use rustix::io::Errno;

use crate::fs::{Dir, FileStat, FollowLinks};
use crate::receiver::delete::Removals;
use crate::receiver::delete::remove_tree::{RemovalLimit, TreeClearing};
use crate::receiver::place::entry_position::{EntryPosition, TreeReplacement};
use crate::receiver::place::temp_files::rename_new;
use crate::receiver::place::temp_names::{make_temporary, temporary_name};
use crate::sys::refusal::lacks_rename_flag;

impl Removals {
    /// Gives the directory's `name` to the entry with the `temporary` name, then removes the directory.
    pub(crate) fn replace_directory(
        &self,
        dir: &Dir,
        temporary: &Name,
        name: &Name,
        removal: &TreeReplacement,
    ) -> io::Result<()> {
        // Entries may have been added meanwhile.
        let removal = self.may_still_clear(dir, name, removal.clone())?;
        if self.backup.is_some() {
            // Its contents are backed up by their own paths.
            self.clear_for_replacement(dir, name, &removal)?;
            return Ok(rename_new(&*dir.fd()?, temporary, name)?);
        }
        let aside = temporary_name(name, b"directory aside");
        // An earlier run may have been killed here, which counted the removals already.
        self.remove_renamed_directory(dir, &aside, name, TreeClearing::new(self).below(), None)?;
        exchange(dir, temporary, name, &aside)?;
        self.remove_renamed_directory(dir, &aside, name, self.clearing(&removal), self.protecting(&removal))
    }

    /// Exchanges an existing entry other than a directory for an empty directory, then removes it. `false` if the file
    /// system does not support it, or if the directory must be remembered before it is named.
    pub(crate) fn exchange_for_directory(&self, position: &EntryPosition, meta: &EntryMetadata) -> io::Result<bool> {
        let (dir, name) = (&position.dir, &position.name);
        if position.renamed && self.copy.destination.memory.is_some() {
            return Ok(false);
        }
        self.back_up(dir, name)?;
        let (fd, mode) = (dir.fd()?, Mode::from_raw_mode(self.metadata.first_mode(meta)));
        let temporary = make_temporary(&fd, name, b"directory", |name| mkdirat(&*fd, name.as_bytes(), mode))?;
        let remove = |flags| unlinkat(&*fd, temporary.as_bytes(), flags);
        match renameat_with(&*fd, temporary.as_bytes(), &*fd, name.as_bytes(), RenameFlags::EXCHANGE) {
            Ok(()) => {
                remove(AtFlags::empty())?;
                Ok(true)
            }
            Err(error) if error == Errno::NOENT || lacks_rename_flag(error) => {
                remove(AtFlags::REMOVEDIR)?;
                Ok(false)
            }
            Err(error) => {
                let _ = remove(AtFlags::REMOVEDIR);
                Err(error.into())
            }
        }
    }

    /// Removes the entry that a directory has replaced, where a run was killed between the exchange and the removal.
    pub(crate) fn remove_exchanged(&self, dir: &Dir, name: &Name) {
        let left = temporary_name(name, b"directory");
        let Ok(fd) = dir.fd() else { return };
        let found = FileStat::at_name(&*fd, &left, FollowLinks::Itself);
        if found.is_ok_and(|stat| stat.is_owned_by_this_user() && stat.kind != FileType::Directory) {
            // Best effort.
            let _ = unlinkat(&*fd, left.as_bytes(), AtFlags::empty());
        }
    }

    /// Removes a renamed directory, and reports it under its original name.
    fn remove_renamed_directory(
        &self,
        dir: &Dir,
        aside: &Name,
        name: &Name,
        clearing: TreeClearing<'_>,
        scope: Option<Arc<FilterScope>>,
    ) -> io::Result<()> {
        match clearing.renamed(aside, name).clear_within(dir, aside, FileType::Directory, scope) {
            Ok(true) => Ok(()),
            Ok(false) | Err(RemovalLimit) => Err(io::Error::other(format!(
                "copied, but the replaced directory was not deleted completely: the rest is in {aside}\ndelete that directory"
            ))),
        }
    }
}

/// Gives `name` to the entry with the `temporary` name, and the name `aside` to the directory.
fn exchange(dir: &Dir, temporary: &Name, name: &Name, aside: &Name) -> io::Result<()> {
    let dir = dir.fd()?;
    match renameat_with(&*dir, temporary.as_bytes(), &*dir, name.as_bytes(), RenameFlags::EXCHANGE) {
        Ok(()) => Ok(rename_new(&dir, temporary, aside)?),
        // Without support by the file system, the name is missing for a moment.
        Err(error) if lacks_rename_flag(error) => {
            rename_new(&dir, name, aside)?;
            rename_new(&dir, temporary, name).inspect_err(|_| {
                let _ = renameat(&*dir, aside.as_bytes(), &*dir, name.as_bytes());
            })?;
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

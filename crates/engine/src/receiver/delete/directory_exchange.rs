//! Replacement of a directory by another entry, and of another entry by a directory. After a lost connection, the next
//! attempt finds one or the other under the name: with `--existing`, it would create nothing where nothing is.
//!
//! The replacement of a directory is complete before the directory goes. The two are exchanged, so that the name refers
//! to one or the other at every moment; then the directory is removed.

use crate::receiver::delete::Removals;
use haul_proto::entry::EntryMetadata;
use haul_proto::filter::FilterScope;
use haul_proto::path::Name;
use rustix::fs::{AtFlags, FileType, Mode, RenameFlags, mkdirat, renameat, renameat_with, unlinkat};
use rustix::io::Errno;
use std::io;
use std::sync::Arc;

use crate::fs::Dir;
use crate::receiver::delete::remove_tree::{RemovalLimit, TreeClearing};
use crate::receiver::place::entry_position::EntryPosition;
use crate::receiver::place::entry_position::TreeReplacement;
use crate::receiver::place::temp_files::{make_temporary, rename_new, temporary_name};

impl Removals {
    /// Gives `name`, which a directory has, to what has the `temporary` name; then removes the directory.
    pub(crate) fn replace_directory(
        &self,
        dir: &Dir,
        temporary: &Name,
        name: &Name,
        removal: &TreeReplacement,
    ) -> io::Result<()> {
        // Something may have come into it meanwhile.
        let removal = self.may_still_make_way(dir, name, removal.clone())?;
        if self.backup.is_some() {
            // What is in it goes into the backup by its own path.
            self.make_way_as(dir, name, &removal)?;
            return Ok(rename_new(&*dir.fd()?, temporary, name)?);
        }
        let aside = temporary_name(name, b"directory aside");
        // An earlier run may have been killed here: what it decided to remove counted for that one.
        self.remove_renamed_directory(dir, &aside, name, TreeClearing::new(self).below(), None)?;
        exchange(dir, temporary, name, &aside)?;
        self.remove_renamed_directory(dir, &aside, name, self.clearing(&removal), self.protecting(&removal))
    }

    /// Exchanges an existing entry other than a directory for an empty directory, then removes it. `false`: the file
    /// system cannot, or the directory has to be remembered before it has its name.
    pub(crate) fn exchange_for_directory(&self, position: &EntryPosition, meta: &EntryMetadata) -> io::Result<bool> {
        let (dir, name) = (&position.dir, &position.name);
        if position.renamed && self.job.destination.memory.is_some() {
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
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP | Errno::NOENT) => {
                remove(AtFlags::REMOVEDIR)?;
                Ok(false)
            }
            Err(error) => {
                let _ = remove(AtFlags::REMOVEDIR);
                Err(error.into())
            }
        }
    }

    /// Removes a directory that was renamed, and is reported under its own name.
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

/// Gives `name` to what has the `temporary` name, and the directory of that name the one `aside`.
fn exchange(dir: &Dir, temporary: &Name, name: &Name, aside: &Name) -> io::Result<()> {
    let dir = dir.fd()?;
    match renameat_with(&*dir, temporary.as_bytes(), &*dir, name.as_bytes(), RenameFlags::EXCHANGE) {
        Ok(()) => Ok(rename_new(&dir, temporary, aside)?),
        // The file system cannot: for a moment nothing has the name.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            rename_new(&dir, name, aside)?;
            rename_new(&dir, temporary, name).inspect_err(|_| {
                let _ = renameat(&*dir, aside.as_bytes(), &*dir, name.as_bytes());
            })?;
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

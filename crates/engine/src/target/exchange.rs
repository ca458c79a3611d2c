//! A directory that something else replaces: what takes its place is whole before the directory goes. The two are
//! exchanged, so that the name stands for one or the other at every moment; then the directory is removed.

use haul_proto::filter::Scope;
use haul_proto::path::Name;
use rustix::fs::{FileType, RenameFlags, renameat, renameat_with};
use rustix::io::Errno;
use std::io;
use std::sync::Arc;

use super::Target;
use super::clear::{Clearing, Enough};
use super::removal::TreeRemoval;
use super::temporary::{rename_new, temporary_name};
use crate::fs::Dir;

impl Target {
    /// Gives `name`, which a directory has, to what has the `temporary` name; then removes the directory.
    pub(super) fn replace_directory(
        &self,
        dir: &Dir,
        temporary: &Name,
        name: &Name,
        removal: &TreeRemoval,
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
        self.clear_aside(dir, &aside, name, Clearing::new(self).below(), None)?;
        exchange(dir, temporary, name, &aside)?;
        self.clear_aside(dir, &aside, name, self.clearing(&removal), self.protecting(&removal))
    }

    /// Removes a directory that was renamed, and is reported under its own name.
    fn clear_aside(
        &self,
        dir: &Dir,
        aside: &Name,
        name: &Name,
        clearing: Clearing<'_>,
        scope: Option<Arc<Scope>>,
    ) -> io::Result<()> {
        match clearing.renamed(aside, name).clear_within(dir, aside, FileType::Directory, scope) {
            Ok(true) => Ok(()),
            Ok(false) | Err(Enough) => Err(io::Error::other(format!(
                "it is there, and not all of the directory that it replaces could be removed: the rest is in {aside}\nremove that"
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

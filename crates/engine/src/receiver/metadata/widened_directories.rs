//! Directories that their owner may not list, enter or write to (0555, as in Go's module cache). A user without root
//! gets these permissions temporarily, for the owner alone. This happens only with preserved modes (`-p`): each
//! directory then gets the source's mode when it is complete, also on a rerun after a kill. A dry run enters the same
//! directories: it adds permission to list and search, and restores the mode at its end.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Mutex;

use haul_base::sys::sync::lock;
use haul_proto::path::Name;
use rustix::fs::{Mode, OFlags, fchmod, openat};
use rustix::io::Errno;

use crate::fs::meta::set_mode_of_path;
use crate::fs::{Dir, FileIdentity, FileStat, FollowLinks};
use crate::receiver::metadata::MetadataWriter;
use crate::receiver::place::existing_entry::is_root;

/// All permissions of a directory's owner.
const OWNER: u16 = 0o700;
/// Permissions needed to list it and to stat its entries.
const OWNER_ENTERS: u16 = 0o500;
/// Read and write permissions of a file's owner.
const OWNER_OF_FILE: u16 = 0o600;

/// Widened directories, with their earlier modes.
#[derive(Default)]
pub struct WidenedDirectories(Mutex<HashMap<FileIdentity, (Dir, u16)>>);

impl MetadataWriter {
    /// Opens a directory of the target.
    pub(crate) fn enter(&self, parent: &Dir, name: &Name) -> io::Result<Dir> {
        let entered = match parent.child_with_stat(name, FollowLinks::Itself) {
            Err(error) if self.may_widen() && Errno::from_io_error(&error) == Some(Errno::ACCESS) => {
                let mode = self.widen_name(parent, name)?.ok_or(error)?;
                let child = parent.child(name)?;
                lock(&self.widened.0).entry(child.identity()).or_insert_with(|| (child.clone(), mode));
                return Ok(child);
            }
            entered => entered,
        };
        let (child, stat) = entered?;
        if stat.meta.mode & OWNER_ENTERS != OWNER_ENTERS {
            self.give_permissions(&child)?;
        }
        Ok(child)
    }

    /// Lets this process create, rename and remove entries in a directory of the target.
    pub(crate) fn widen(&self, dir: &Dir) -> io::Result<()> {
        if self.copy.is_dry() { Ok(()) } else { self.give_permissions(dir) }
    }

    /// Permissions needed by this run: a dry run only reads.
    fn permissions(&self) -> u16 {
        if self.copy.is_dry() { OWNER_ENTERS } else { OWNER }
    }

    fn give_permissions(&self, dir: &Dir) -> io::Result<()> {
        if !self.may_widen() {
            return Ok(());
        }
        let wanted = self.permissions();
        let fd = dir.fd()?;
        let stat = FileStat::at_fd(&*fd)?;
        if stat.is_owned_by_this_user() && stat.meta.mode & wanted != wanted {
            lock(&self.widened.0).entry(dir.identity()).or_insert_with(|| (dir.clone(), stat.meta.mode));
            set_mode(&*fd, stat.meta.mode | wanted)?;
        }
        Ok(())
    }

    /// Forgets a directory that has its final mode.
    pub(crate) fn forget_widened(&self, dir: &Dir) {
        lock(&self.widened.0).remove(&dir.identity());
    }

    /// Restores the earlier mode of a widened directory.
    pub(crate) fn restore_mode(&self, dir: &Dir) {
        if self.copy.is_dry() {
            // Later removals are below: all of them get their modes then.
            return;
        }
        let widened = lock(&self.widened.0).remove(&dir.identity());
        widened.into_iter().for_each(|(dir, mode)| restore(&dir, mode));
    }

    /// Restores the modes of all incomplete directories at the end of the copy, deepest first.
    pub(crate) fn restore_modes(&self) {
        let mut widened: Vec<_> = std::mem::take(&mut *lock(&self.widened.0)).into_values().collect();
        widened.sort_by_cached_key(|(dir, _)| std::cmp::Reverse(dir.path_bytes()));
        widened.iter().for_each(|(dir, mode)| restore(dir, *mode));
    }

    /// Opens a file to set its metadata, even without read permission.
    pub(crate) fn open_to_set(&self, dir: &Dir, name: &Name) -> io::Result<(OwnedFd, FileStat)> {
        match dir.open_file(name, FollowLinks::Itself) {
            Err(error) if self.may_widen() && Errno::from_io_error(&error) == Some(Errno::ACCESS) => {
                let handle = dir.open_handle(name, FollowLinks::Itself)?;
                let stat = FileStat::at_fd(&handle)?;
                if !stat.is_owned_by_this_user()
                    || !stat.kind.is_file()
                    || stat.meta.mode & OWNER_OF_FILE == OWNER_OF_FILE
                {
                    return Err(error);
                }
                set_mode_of_path(&handle, stat.meta.mode | OWNER_OF_FILE)?;
                dir.open_file(name, FollowLinks::Itself)
            }
            opened => opened,
        }
    }

    /// Whether directories may be widened: only if the source's modes are set in the end.
    fn may_widen(&self) -> bool {
        self.copy.request.metadata.rights.mode && !self.copy.compares() && !is_root()
    }

    /// Adds the owner's permissions to a directory that cannot be opened. Returns its earlier mode; `None` for another
    /// user's directory, or if it has these permissions.
    fn widen_name(&self, parent: &Dir, name: &Name) -> io::Result<Option<u16>> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let handle = openat(&*parent.fd()?, name.as_bytes(), flags, Mode::empty())?;
        let stat = FileStat::at_fd(&handle)?;
        let wanted = self.permissions();
        if !stat.is_owned_by_this_user() || stat.meta.mode & wanted == wanted {
            return Ok(None);
        }
        set_mode_of_path(&handle, stat.meta.mode | wanted)?;
        Ok(Some(stat.meta.mode))
    }
}

fn set_mode(fd: impl AsFd, mode: u16) -> io::Result<()> {
    Ok(fchmod(fd, Mode::from_raw_mode(mode.into()))?)
}

/// A vanished directory, or another user's, needs no restoration.
fn restore(dir: &Dir, mode: u16) {
    let _ = dir.fd().and_then(|fd| set_mode(&*fd, mode));
}

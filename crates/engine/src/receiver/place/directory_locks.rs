//! Locks of target directories, between runs of one user on one machine.
//!
//! Whoever may read a directory can hold a lock of the directory itself. So a private file in the user's state
//! directory is locked instead, named after the directory. Its holder removes it. The file of a killed run stays for
//! the next one.

use std::fs::{File, Metadata};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use haul_base::held_directory::HeldDirectory;
use haul_proto::path::Name;
use rustix::fs::{Timespec, Timestamps, UTIME_NOW, futimens};

use crate::fs::FileIdentity;
use crate::receiver::place::error::OtherRun;
use crate::sys::confine::{ConfineBounds, ConfineRights};
use crate::sys::machine::boot_id;

/// The directory's name in the state directory.
pub const NAME: &str = "locks";
/// Most attempts to lock a file that other runs remove meanwhile: one for each run that had the lock before this one.
const OPENS_MAX: usize = 1000;

/// The directory of lock files, opened before the kernel confines this process.
pub struct DirectoryLocks {
    held: Arc<HeldDirectory>,
    path: PathBuf,
    /// Hosts that share the state directory have other directories with the same identity.
    boot: [u8; 16],
}

/// A locked directory, until dropped.
pub struct DirectoryLock {
    held: Arc<HeldDirectory>,
    path: PathBuf,
    file: OwnedFd,
}

impl DirectoryLock {
    /// Sets the time of modification: runs that wait see that this one progresses.
    pub fn mark_progress(&self) {
        let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
        // Others wait for a shorter time then.
        let _ = futimens(&self.file, &Timestamps { last_access: now, last_modification: now });
    }
}

impl DirectoryLocks {
    /// `None` without a state directory that only this user can change: then no directory is locked.
    pub fn open(state_dir: Option<&Path>) -> Option<Self> {
        let path = state_dir?.join(NAME);
        let held = Arc::new(HeldDirectory::looked_up(&path).ok()?);
        Some(Self { held, path, boot: boot_id() })
    }

    /// Permits locks.
    pub fn allow(&self, bounds: &mut ConfineBounds) {
        bounds.allow(&*self.held, ConfineRights::OwnFiles);
    }

    /// Locks a directory with `lock`; `None` if its file cannot be opened.
    pub fn acquire(
        &self,
        directory: FileIdentity,
        lock: impl Fn(&OwnedFd) -> Result<(), OtherRun>,
    ) -> Result<Option<DirectoryLock>, OtherRun> {
        let path = self.path.join(file_name(directory, &self.boot));
        for _ in 0..OPENS_MAX {
            let Some((file, opened)) = self.open_file(&path) else { return Ok(None) };
            lock(&file)?;
            // The previous holder may have removed it.
            if self.held.reopen(&path, &opened).is_ok() {
                return Ok(Some(DirectoryLock { held: Arc::clone(&self.held), path, file }));
            }
        }
        Err(OtherRun { process: None })
    }

    fn open_file(&self, path: &Path) -> Option<(OwnedFd, Metadata)> {
        let file: File = self.held.append(path).ok()?;
        let opened = file.metadata().ok()?;
        Some((file.into(), opened))
    }
}

/// In the form that copies exclude: the state directory may be in a source.
fn file_name(directory: FileIdentity, boot: &[u8]) -> String {
    let identity = [directory.device.to_le_bytes(), directory.inode.to_le_bytes()].concat();
    let digest = blake3::Hasher::new().update(boot).update(&identity).finalize();
    Name::reserved(&digest.to_hex()[..24], "lock").to_string()
}

impl Drop for DirectoryLock {
    fn drop(&mut self) {
        // Before the lock is released. A file that stays is used by the next run.
        let _ = self.held.remove(&self.path);
    }
}

//! Syncs written data: single files by fsync, many by syncfs(2), which takes hardly longer than one file.
//!
//! The kernel reports a failed write-back once, and then drops the error with the pages (errseq, Linux's
//! `Documentation/filesystems` and fsync(2)). Each open file reports errors of its own inode. syncfs(2) reports errors
//! anywhere on the file system since its descriptor was opened. So the descriptor for syncfs is opened before the first
//! file is created there. After syncfs fails, each file is asked for its own error. After it succeeds, each is asked
//! too, without further waiting: kernels before 5.8 report nothing from syncfs, and this shows which file failed.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use haul_base::sys::sync::lock;
use rustix::fs::{Mode, OFlags, fsync, openat, syncfs};
use rustix::io::Errno;

use crate::fs::Dir;
use crate::fs::file_system::{is_memory, magic_of};
use crate::sys::page_cache::write_back_error;
use crate::sys::refusal::is_refusal;

/// Most files synced one by one. Measured on ext4 and XFS: a file takes 2 to 5 ms, and syncfs 1 to 10 ms with up to a
/// hundred files. But syncfs also waits for other programs' data.
const FEW: usize = 4;

/// A file system with a disk or a server behind it, to which files are written.
#[derive(Debug)]
pub struct SyncedFileSystem {
    /// Descriptor for syncfs.
    anywhere: OwnedFd,
    kind: FileSystemKind,
    /// The file system does not support sync, so its durability is unknown.
    cannot: AtomicBool,
}

/// An object to sync.
#[derive(Debug, Clone, Copy)]
pub enum FsyncTarget<'t> {
    /// A file, with its metadata.
    File(&'t OwnedFd),
    /// A directory, with the names in it.
    Directory(&'t Dir),
}

/// Durability properties of a type of file system (statfs(2), linux/magic.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FileSystemKind {
    /// ext4 and XFS: one ordered log, so a sync makes all earlier metadata changes durable.
    Journal,
    /// btrfs. fsync does not log a file without a name, nor reliably all effects of a directory's fsync. Only a whole
    /// transaction, which syncfs ends, is relied upon.
    Transactions,
    /// Any other: each file separately, and none without a name.
    Other,
}

impl SyncedFileSystem {
    fn new(anywhere: OwnedFd, magic: u64) -> Self {
        let kind = match magic {
            0xef53 | 0x5846_5342 => FileSystemKind::Journal,
            0x9123_683e => FileSystemKind::Transactions,
            _ => FileSystemKind::Other,
        };
        Self { anywhere, kind, cannot: AtomicBool::new(false) }
    }

    /// Whether a file without a name can be made durable.
    pub fn keeps_nameless_files(&self) -> bool {
        self.kind != FileSystemKind::Other
    }

    /// Whether all syncs were supported.
    pub fn is_sure(&self) -> bool {
        !self.cannot.load(Ordering::Relaxed)
    }

    /// Syncs these objects. Returns a result for each.
    fn sync(&self, things: &[FsyncTarget<'_>]) -> Vec<io::Result<()>> {
        let one = |thing: &FsyncTarget<'_>| match thing {
            FsyncTarget::File(file) => self.sync_one(file),
            FsyncTarget::Directory(dir) => self.sync_one(&*dir.fd()?),
        };
        let own_error = |thing: &FsyncTarget<'_>| match thing {
            FsyncTarget::File(file) => match write_back_error(file) {
                Err(error) if Errno::from_io_error(&error).is_some_and(is_refusal) => self.sync_one(file),
                result => result,
            },
            FsyncTarget::Directory(_) => Ok(()),
        };
        self.sync_by(things, one, own_error)
    }

    fn sync_by<T>(
        &self,
        all: &[T],
        one: impl Fn(&T) -> io::Result<()>,
        own_error: impl Fn(&T) -> io::Result<()>,
    ) -> Vec<io::Result<()>> {
        let together = match self.kind {
            FileSystemKind::Journal => all.len() > FEW,
            FileSystemKind::Transactions => true,
            FileSystemKind::Other => false,
        };
        match together.then(|| syncfs(&self.anywhere)) {
            Some(Ok(())) => all.iter().map(own_error).collect(),
            Some(Err(error)) if self.kind == FileSystemKind::Transactions => {
                all.iter().map(|_| Err(error.into())).collect()
            }
            _ => all.iter().map(one).collect(),
        }
    }

    fn sync_one(&self, file: impl std::os::fd::AsFd) -> io::Result<()> {
        match fsync(file) {
            // Unsupported (vfs_fsync_range): this is no error, and gives no information. A file system that has become
            // read-only lost data.
            Err(error) if is_refusal(error) && error != Errno::ROFS => {
                self.cannot.store(true, Ordering::Relaxed);
                Ok(())
            }
            result => Ok(result?),
        }
    }
}

/// Syncs these objects on their file systems. Returns a result for each.
pub fn sync_all(things: &[(&Arc<SyncedFileSystem>, FsyncTarget<'_>)]) -> Vec<io::Result<()>> {
    let mut results: Vec<_> = things.iter().map(|_| Ok(())).collect();
    let mut left: Vec<usize> = (0..things.len()).collect();
    while let Some(first) = left.first() {
        let disk = things[*first].0;
        let (here, elsewhere): (Vec<_>, _) = left.into_iter().partition(|at| Arc::ptr_eq(things[*at].0, disk));
        let all: Vec<_> = here.iter().map(|at| things[*at].1).collect();
        here.into_iter().zip(disk.sync(&all)).for_each(|(at, result)| results[at] = result);
        left = elsewhere;
    }
    results
}

/// The file systems of a copy, by device number; `None` for those in memory. A copy uses few.
#[derive(Debug, Default)]
pub struct SyncedFileSystems(Mutex<HashMap<u64, Option<Arc<SyncedFileSystem>>>>);

impl SyncedFileSystems {
    /// The file system of a directory; `None` if it is in memory.
    pub fn of(&self, dir: &Dir) -> io::Result<Option<Arc<SyncedFileSystem>>> {
        let device = dir.identity().device;
        let mut known = lock(&self.0);
        if let Some(found) = known.get(&device) {
            return Ok(found.clone());
        }
        let fd = dir.fd()?;
        let magic = magic_of(&*fd);
        let found = if is_memory(magic) {
            None
        } else {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            Some(Arc::new(SyncedFileSystem::new(openat(&*fd, c".", flags, Mode::empty())?, magic)))
        };
        known.insert(device, found.clone());
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::path::Path;

    use super::*;

    fn of_kind(kind: FileSystemKind, place: &Path) -> SyncedFileSystem {
        let anywhere = Dir::open_root(place).unwrap().fd().unwrap().try_clone().unwrap();
        SyncedFileSystem { anywhere, kind, cannot: AtomicBool::new(false) }
    }

    #[test]
    fn few_are_synced_one_by_one_and_many_together() {
        let place = tempfile::tempdir().unwrap();
        for (kind, count, singly) in [
            (FileSystemKind::Journal, FEW, true),
            (FileSystemKind::Journal, FEW + 1, false),
            (FileSystemKind::Transactions, 1, false),
            (FileSystemKind::Other, 1000, true),
        ] {
            let asked = RefCell::new(Vec::new());
            let all: Vec<_> = (0..count).collect();
            let ask = |thing: &usize, singly| {
                asked.borrow_mut().push((*thing, singly));
                Ok(())
            };
            let results =
                of_kind(kind, place.path()).sync_by(&all, |thing| ask(thing, true), |thing| ask(thing, false));
            assert!(results.len() == count && results.iter().all(Result::is_ok));
            assert_eq!(asked.into_inner(), all.iter().map(|thing| (*thing, singly)).collect::<Vec<_>>(), "{kind:?}");
        }
    }

    #[test]
    fn a_directory_in_memory_needs_no_sync_and_a_disk_is_registered_once() {
        let systems = SyncedFileSystems::default();
        let memory = Dir::open_root(Path::new("/dev/shm")).unwrap();
        assert!(systems.of(&memory).unwrap().is_none());
        // Beside the test's executable: on a disk, unlike /tmp.
        let dir = Dir::open_root(std::env::current_exe().unwrap().parent().unwrap()).unwrap();
        let (first, second) = (systems.of(&dir).unwrap().unwrap(), systems.of(&dir).unwrap().unwrap());
        assert!(Arc::ptr_eq(&first, &second));
        assert!(first.sync(&[FsyncTarget::Directory(&dir)]).iter().all(Result::is_ok) && first.is_sure());
    }

    #[test]
    fn an_unknown_file_system_is_not_sure() {
        let place = tempfile::tempdir().unwrap();
        let system = of_kind(FileSystemKind::Other, place.path());
        let (pipe, _) = rustix::pipe::pipe().unwrap();
        assert!(system.sync(&[FsyncTarget::File(&pipe)])[0].is_ok() && !system.is_sure());
    }

    #[test]
    fn each_disk_syncs_its_own_files() {
        let place = tempfile::tempdir().unwrap();
        let disks = [FileSystemKind::Other, FileSystemKind::Journal].map(|kind| Arc::new(of_kind(kind, place.path())));
        let (pipe, _) = rustix::pipe::pipe().unwrap();
        let file = tempfile::tempfile().unwrap().into();
        let things = [
            (&disks[0], FsyncTarget::File(&file)),
            (&disks[1], FsyncTarget::File(&pipe)),
            (&disks[0], FsyncTarget::File(&file)),
        ];
        let results = sync_all(&things);
        assert!(results.len() == 3 && results.iter().all(Result::is_ok));
        assert_eq!([disks[0].is_sure(), disks[1].is_sure()], [true, false]);
        assert!(sync_all(&[]).is_empty());
    }
}

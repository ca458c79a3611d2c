//! The root of a replica: its entries by path, never through a link.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use haul_proto::entry::Timestamp;
use haul_proto::integrity::Digest;
use haul_proto::path::Name;
use haul_proto::twoway::entry::{FileStamp, ReplicaContent, ReplicaEntry, ReplicaMetadata, TreePath};
use haul_proto::wire::replica_session::ReplicaPlace;
use rustix::fs::{FileType, StatVfsMountFlags, fstatvfs, readlinkat};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};

use super::error::ReplicaError;
use crate::fs::{Dir, FileStat, FollowLinks, each_name_unless, file_system, lookup};
use crate::receiver::place::case_sensitivity::folds;
use crate::sys::machine::machine_id;

/// Bytes that are hashed at once.
const HASH_BYTES: usize = 1 << 20;

/// An open root.
#[derive(Debug)]
pub struct ReplicaRoot {
    /// The directory.
    pub dir: Dir,
    /// Its path, absolute and without links.
    pub path: PathBuf,
}

/// Returns the clock's time.
pub fn now() -> Timestamp {
    let now = clock_gettime(ClockId::Realtime);
    Timestamp { seconds: now.tv_sec, nanoseconds: u32::try_from(now.tv_nsec).unwrap_or(0) }
}

impl ReplicaRoot {
    /// Opens a root.
    pub fn open(path: &Path) -> Result<Self, ReplicaError> {
        let failed = |error: io::Error| ReplicaError::Root(path.as_os_str().as_bytes().to_vec(), error);
        let dir = Dir::open_root(path).map_err(failed)?;
        Ok(Self { dir, path: lookup::real_path(path).map_err(failed)? })
    }

    /// Whether its file system is mounted read-only.
    pub fn is_read_only(&self) -> bool {
        let mount = self.dir.fd().and_then(|fd| Ok(fstatvfs(&*fd)?));
        mount.is_ok_and(|mount| mount.f_flag.contains(StatVfsMountFlags::RDONLY))
    }

    /// Returns what the controller learns of it.
    pub fn place(&self) -> io::Result<ReplicaPlace> {
        let fd = self.dir.fd()?;
        let magic = file_system::magic_of(&*fd);
        let identity = self.dir.identity();
        Ok(ReplicaPlace {
            machine: machine_id(),
            host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            path: self.path.as_os_str().as_bytes().to_vec(),
            device: identity.device,
            inode: identity.inode,
            now: now(),
            sets_owners: rustix::process::geteuid().is_root(),
            holds_modes: !file_system::is_without_modes(magic),
            time_error_ns: file_system::time_error_ns(magic),
            folds_case: folds_case(&self.dir),
            // The records know the rest.
            ..ReplicaPlace::default()
        })
    }

    /// Opens the directory of a path; the path's name in it comes with it.
    pub fn parent_of(&self, path: &TreePath) -> io::Result<(Dir, Name)> {
        below(&self.dir, path)
    }

    /// Looks up an entry; `None` where there is none, or no directory above it.
    pub fn entry(&self, path: &TreePath) -> io::Result<Option<ReplicaEntry>> {
        let found = self.parent_of(path).and_then(|(dir, name)| entry_at(&dir, &name));
        match found {
            Err(error) if is_absent(&error) => Ok(None),
            found => found.map(Some),
        }
    }

    /// Hashes a file that has this stamp before and after; `None` where it has not, or is gone.
    pub fn digest(&self, path: &TreePath, stamp: FileStamp) -> io::Result<Option<Digest>> {
        let hashed = self.parent_of(path).and_then(|(dir, name)| digest_of(&dir, &name, Some(stamp)));
        match hashed {
            Err(error) if is_absent(&error) => Ok(None),
            hashed => hashed,
        }
    }
}

/// Whether a lookup found no entry, or something else than a directory above it.
pub fn is_absent(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP))
}

/// Opens the directory of a path below `root`.
pub fn below(root: &Dir, path: &TreePath) -> io::Result<(Dir, Name)> {
    let (above, name) = path.split_name();
    let names = above.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
    let dir = names.into_iter().try_fold(root.clone(), |dir, name| dir.child(&name_of(name)?))?;
    Ok((dir, name_of(name)?))
}

fn name_of(name: &[u8]) -> io::Result<Name> {
    Name::new(name).map_err(|_| Errno::INVAL.into())
}

/// Looks up an entry in a directory, without a digest.
pub fn entry_at(dir: &Dir, name: &Name) -> io::Result<ReplicaEntry> {
    let stat = FileStat::at_name(&*dir.fd()?, name, FollowLinks::Itself)?;
    let points_to = match stat.kind {
        FileType::Symlink => readlinkat(&*dir.fd()?, name.as_bytes(), Vec::new())?.into_bytes(),
        _ => Vec::new(),
    };
    Ok(entry_of(&stat, points_to.into()))
}

/// Makes the entry of a stat(2).
pub fn entry_of(stat: &FileStat, points_to: Box<[u8]>) -> ReplicaEntry {
    let content = match (stat.kind, stat.node()) {
        (FileType::Directory, _) => ReplicaContent::Directory,
        (FileType::Symlink, _) => ReplicaContent::Symlink { points_to },
        (_, Some(special)) => ReplicaContent::Special(special),
        _ => ReplicaContent::File { size: stat.size, digest: None },
    };
    let metadata = ReplicaMetadata { basic: stat.meta, ..ReplicaMetadata::default() };
    ReplicaEntry { content, metadata, stamp: Some(stamp_of(stat)) }
}

/// Returns the stamp of a stat(2).
pub fn stamp_of(stat: &FileStat) -> FileStamp {
    FileStamp { inode: stat.identity.inode, modified: stat.meta.modified, changed: stat.changed }
}

/// Hashes a regular file; `None` where its stamp is or becomes another one than `stamp`, or changes meanwhile.
pub fn digest_of(dir: &Dir, name: &Name, stamp: Option<FileStamp>) -> io::Result<Option<Digest>> {
    let (file, before) = dir.open_file(name, FollowLinks::Itself)?;
    let stamp = stamp.unwrap_or_else(|| stamp_of(&before));
    if stamp_of(&before) != stamp {
        return Ok(None);
    }
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; HASH_BYTES];
    loop {
        match rustix::io::read(&file, &mut buffer) {
            Ok(0) => break,
            Ok(len) => drop(hasher.update(&buffer[..len])),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let is_same = stamp_of(&FileStat::at_fd(&file)?) == stamp;
    Ok(is_same.then(|| *hasher.finalize().as_bytes()))
}

/// Whether names that differ in case alone are one, as the first names in the root show.
fn folds_case(root: &Dir) -> bool {
    let mut found = None;
    let listed = each_name_unless(root, |_| false, |name, _| found = found.or_else(|| folds(root, name)));
    listed.is_ok() && found == Some(true)
}

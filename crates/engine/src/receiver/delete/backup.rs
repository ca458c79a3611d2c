//! The backup directory keeps replaced and removed entries, by their paths below the destination.
//!
//! An entry to be replaced is linked there first, so that its name is never missing. Without hard links, it is moved,
//! as removed entries are. Missing directories are created one component at a time, and no symbolic link is followed.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Mutex};

use haul_base::sys::describe::describe;
use haul_base::sys::sync::lock;
use haul_proto::path::{Name, escape};
use haul_proto::wire::preserve::PreserveOptions;
use haul_proto::wire::request::TargetRequest;
use rustix::fs::{AtFlags, FileType, Mode, linkat, mkdirat, renameat, unlinkat};
use rustix::io::Errno;

use crate::fs::meta::apply_with;
use crate::fs::{Dir, FileIdentity, FileStat, FollowLinks, MetadataParts, attributes, lookup};
use crate::metrics::counter::add;
use crate::receiver::delete::Removals;
use crate::receiver::place::copy_quota::CopyQuota;
use crate::receiver::place::destination::{Destination, RefusedRequest, missing_at};
use crate::receiver::place::error::FileError;
use crate::receiver::place::existing_entry::is_root;
use crate::receiver::place::target_path::TargetPath;
use crate::receiver::place::temp_names::make_temporary;
use crate::sys::confine::{ConfineBounds, ConfineRights};

/// Error for a backup directory on another file system.
const ELSEWHERE: &str = "is not on the target's file system\nuse a directory on the same file system for --backup-dir";
/// Error for a backup directory that is the target.
const ITSELF: &str = "is the target itself\nuse another directory for --backup-dir";
/// Error for an earlier backup of another type.
const IN_THE_WAY: &str = "the backup directory has another entry of this name\nuse another directory for --backup-dir";
/// Error for an entry below the target on another file system.
const OTHER_DISK: &str = "is not on the file system of the backup directory\ncopy that file system separately";
/// Most remembered directories.
const KNOWN_MAX: usize = 4096;

/// The directory for replaced and removed entries.
pub struct BackupDirectory {
    dir: Dir,
    /// Directories of the destination, and their counterparts here.
    known: Mutex<HashMap<FileIdentity, Dir>>,
    /// Quota for the directories created here.
    quota: Arc<CopyQuota>,
}

impl BackupDirectory {
    /// Opens the requested backup directory. Creates it if missing, except in a dry run.
    pub fn prepare(
        request: &TargetRequest,
        destination: &Destination,
        quota: &Arc<CopyQuota>,
    ) -> Result<Option<Self>, RefusedRequest> {
        let Some(into) = destination.dir().filter(|_| !request.sync.backup_dir.is_empty()) else { return Ok(None) };
        let path = destination.root(request).join(OsStr::from_bytes(&request.sync.backup_dir));
        let failed = |error: &io::Error| refused(&path, &format!(": {}", describe(error)));
        if request.sync.is_dry {
            return match Dir::open_root(&path) {
                Ok(dir) => check(&dir, into, &path)
                    .map(|()| Some(Self { dir, known: Mutex::default(), quota: Arc::clone(quota) })),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(failed(&error)),
            };
        }
        quota.take_names(missing_at(&path))?;
        lookup::create_dir_all(&path, Mode::RWXU).map_err(|error| failed(&error))?;
        let dir = Dir::open_root(&path).map_err(|error| failed(&error))?;
        check(&dir, into, &path)?;
        Ok(Some(Self { dir, known: Mutex::default(), quota: Arc::clone(quota) }))
    }

    /// Device and inode.
    pub fn identity(&self) -> FileIdentity {
        self.dir.identity()
    }

    /// Permits writes to it.
    pub fn allow(&self, bounds: &mut ConfineBounds, rights: ConfineRights) {
        drop(self.dir.fd().map(|fd| bounds.allow(&*fd, rights)));
    }

    /// Links the entry `name` into the backup, or moves it if that is impossible. `false` if there is no such entry, or
    /// if it is a directory, which is not replaced.
    fn keep(&self, dir: &Dir, name: &Name) -> io::Result<bool> {
        let from = dir.fd()?;
        match FileStat::at_name(&*from, name, FollowLinks::Itself) {
            Ok(stat) if stat.kind == FileType::Directory => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Ok(_) => {}
            Err(error) => return Err(error),
        }
        let place = self.place_of(dir)?;
        let into = place.fd()?;
        let link = |as_name: &Name| linkat(&*from, name.as_bytes(), &*into, as_name.as_bytes(), AtFlags::empty());
        let linked = match link(name) {
            // A link cannot replace an earlier backup; a rename can.
            Err(Errno::EXIST) => {
                make_temporary(&into, name, b"backup", link).and_then(|temporary| {
                    let renamed = renameat(&*into, temporary.as_bytes(), &*into, name.as_bytes());
                    // Renaming between two names of one file has no effect.
                    let _ = unlinkat(&*into, temporary.as_bytes(), AtFlags::empty());
                    renamed
                })
            }
            linked => linked,
        };
        match linked {
            Ok(()) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(Errno::PERM | Errno::MLINK | Errno::OPNOTSUPP | Errno::NOSYS) => self.move_here(dir, name),
            Err(error) => Err(explained(error)),
        }
    }

    /// Moves the entry `name` here, unless it is a directory. `false` if there is no such entry.
    fn move_here(&self, dir: &Dir, name: &Name) -> io::Result<bool> {
        let place = self.place_of(dir)?;
        let (from, into) = (dir.fd()?, place.fd()?);
        match renameat(&*from, name.as_bytes(), &*into, name.as_bytes()) {
            // Renaming between two names of one file keeps both.
            Ok(()) if is_same(&*from, &*into, name) => match unlinkat(&*from, name.as_bytes(), AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => Ok(true),
                Err(error) => Err(error.into()),
            },
            Ok(()) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(explained(error)),
        }
    }

    /// The counterpart of a destination directory, created if missing.
    fn place_of(&self, dir: &Dir) -> io::Result<Dir> {
        let mut known = lock(&self.known);
        let (mut missing, mut at) = (Vec::new(), dir);
        let mut place = loop {
            let Some(parent) = at.parent() else { break self.dir.clone() };
            match known.get(&at.identity()) {
                Some(place) if place.name() == at.name() => break place.clone(),
                _ => missing.push(at),
            }
            at = parent;
        };
        for old in missing.into_iter().rev() {
            let Some(name) = old.name() else { continue };
            place = enter_or_make(&place, name, old, &self.quota)?;
            if known.len() >= KNOWN_MAX {
                known.clear();
            }
            known.insert(old.identity(), place.clone());
        }
        if place.identity() == dir.identity() {
            return Err(io::Error::other("is inside the backup directory"));
        }
        Ok(place)
    }
}

impl Removals {
    /// Links an entry into the backup before its replacement. Without a backup directory, does nothing.
    pub(crate) fn back_up(&self, dir: &Dir, name: &Name) -> io::Result<()> {
        let Some(backup) = self.backup.as_ref().filter(|_| !self.copy.is_dry()) else { return Ok(()) };
        if backup.keep(dir, name)? {
            add(&self.copy.reporter.sync.backed_up, 1);
        }
        Ok(())
    }

    /// Backs up an existing file before a new one gets its name.
    pub(crate) fn back_up_existing(&self, path: &TargetPath) -> Result<(), FileError> {
        let kept = if path.replaces { self.back_up(&path.dir, &path.name) } else { Ok(()) };
        kept.map_err(|error| FileError::Backup(error.into()))
    }

    /// Removes an entry other than a directory, or moves it into the backup directory. `false` if there is no such
    /// entry.
    pub(crate) fn remove_or_back_up(&self, dir: &Dir, name: &Name) -> io::Result<bool> {
        let Some(backup) = &self.backup else {
            return match unlinkat(&*dir.fd()?, name.as_bytes(), AtFlags::empty()) {
                Ok(()) => Ok(true),
                Err(Errno::NOENT) => Ok(false),
                Err(error) => Err(error.into()),
            };
        };
        let is_there = backup.move_here(dir, name)?;
        add(&self.copy.reporter.sync.backed_up, u64::from(is_there));
        Ok(is_there)
    }
}

/// Checks that entries can be moved from the destination into the backup directory.
fn check(dir: &Dir, destination: &Dir, path: &Path) -> Result<(), RefusedRequest> {
    if dir.identity() == destination.identity() {
        return Err(refused(path, &format!(" {ITSELF}")));
    }
    if dir.identity().device == destination.identity().device && dir.mount_id() == destination.mount_id() {
        return Ok(());
    }
    Err(refused(path, &format!(" {ELSEWHERE}")))
}

fn refused(path: &Path, text: &str) -> RefusedRequest {
    let text = format!("the backup directory {}{text}", escape(path.as_os_str().as_bytes()));
    RefusedRequest { usage: true, text: text.replacen(" :", ":", 1) }
}

fn enter_or_make(above: &Dir, name: &Name, old: &Dir, quota: &CopyQuota) -> io::Result<Dir> {
    let is_new = match mkdirat(&*above.fd()?, name.as_bytes(), Mode::RWXU) {
        Ok(()) => {
            quota.take_names(1)?;
            true
        }
        Err(Errno::EXIST) => false,
        Err(error) => return Err(error.into()),
    };
    let made = above.child(name).map_err(|error| match Errno::from_io_error(&error) {
        Some(error @ (Errno::NOTDIR | Errno::LOOP)) => explained(error),
        _ => error,
    })?;
    if is_new {
        dress(&made, old)?;
    }
    Ok(made)
}

/// Copies owner, mode, attributes and access control lists of an existing directory to a new one, as far as permitted.
/// The owner keeps write permission.
fn dress(made: &Dir, old: &Dir) -> io::Result<()> {
    let (made, old) = (made.fd()?, old.fd()?);
    let meta = FileStat::at_fd(&*old)?.meta;
    let kept = PreserveOptions { attributes: true, acls: true, ..PreserveOptions::default() };
    let attributes = attributes::read(&*old, kept).unwrap_or_default();
    let mode = if is_root() { meta.mode } else { meta.mode | 0o700 };
    let keep = MetadataParts { owner: true, group: true, mode: Some(mode), times: false };
    let _ = apply_with(&*made, &meta, keep, || drop(attributes::set_attributes(&*made, &attributes, kept)))?;
    Ok(())
}

/// Whether a name refers to one file in both directories.
fn is_same(one: impl AsFd, other: impl AsFd, name: &Name) -> bool {
    let stat =
        |dir: &dyn AsFd| FileStat::at_name(dir.as_fd(), name, FollowLinks::Itself).map(|stat| stat.identity).ok();
    stat(&one).is_some_and(|one| Some(one) == stat(&other))
}

/// An error with an explanation for the backup directory.
fn explained(error: Errno) -> io::Error {
    match error {
        Errno::ISDIR | Errno::NOTDIR | Errno::NOTEMPTY | Errno::EXIST | Errno::LOOP => io::Error::other(IN_THE_WAY),
        Errno::XDEV => io::Error::other(OTHER_DISK),
        error => error.into(),
    }
}

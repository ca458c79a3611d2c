//! Backups of replaced and removed entries: in the backup directory, by their paths below the destination, or beside
//! the new ones, with a suffix.
//!
//! An entry to be replaced is linked there first, so that its name is never missing. Without hard links, it is moved,
//! as removed entries are; onto another file system, both are copied. Missing directories are created one component at a time, and no symbolic link is followed.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Mutex};

use haul_base::sys::describe::describe;
use haul_base::sys::sync::lock;
use haul_proto::path::{Name, escape};
use haul_proto::wire::preserve::PreserveOptions;
use haul_proto::wire::request::TargetRequest;
use haul_proto::wire::storage::Fsync;
use rustix::fs::{AtFlags, FileType, Mode, linkat, mkdirat, readlinkat, renameat, unlinkat};
use rustix::io::Errno;

use crate::fs::meta::apply_with;
use crate::fs::remove_tree::remove_name;
use crate::fs::trusted_links::LinkRules;
use crate::fs::{Dir, FileIdentity, FileStat, FollowLinks, MetadataParts, attributes, is_unsafe_link, lookup};
use crate::metrics::counter::add;
use crate::receiver::delete::Removals;
use crate::receiver::delete::backup_copy::copy_entry;
use crate::receiver::place::copy_quota::CopyQuota;
use crate::receiver::place::destination::{Destination, RefusedRequest, missing_at};
use crate::receiver::place::error::FileError;
use crate::receiver::place::existing_entry::is_root;
use crate::receiver::place::target_path::TargetPath;
use crate::receiver::place::temp_names::make_temporary;
use crate::receiver::source_names::SourceNames;
use crate::sys::confine::{ConfineBounds, ConfineRights};

/// Error for a backup directory that is the target.
const ITSELF: &str = "is the target itself\nuse another directory for --backup-dir";
/// Error for an earlier backup of another type.
const IN_THE_WAY: &str = "the backup directory has another entry of this name\nuse another directory for --backup-dir";
/// Error for a directory in the place of a backup.
const TAKEN: &str = "a directory has the name of its backup\nmove it, or use another --suffix";
/// Error for a name that is too long with its suffix, or is not available.
const NO_NAME: &str = "its backup cannot have this name with the suffix\nuse another --suffix";
/// Most remembered directories.
const KNOWN_MAX: usize = 4096;

/// Where replaced and removed entries are kept.
pub struct Backups {
    /// Appended to their names.
    suffix: Vec<u8>,
    /// Their directory; `None`: each stays in its own.
    directory: Option<BackupDirectory>,
    /// Whether links that may lead out of the target get none.
    is_safe: bool,
    /// Whether copies are synced, as files of the target are.
    to_disk: bool,
}

/// A directory for backups alone.
struct BackupDirectory {
    dir: Dir,
    /// Directories of the destination, and their counterparts here.
    known: Mutex<HashMap<FileIdentity, Dir>>,
    /// Quota for the directories created here.
    quota: Arc<CopyQuota>,
}

impl Backups {
    /// The requested backups. Creates a missing backup directory, except in a dry run.
    pub fn prepare(
        request: &TargetRequest,
        destination: &Destination,
        quota: &Arc<CopyQuota>,
    ) -> Result<Option<Self>, RefusedRequest> {
        let Some(into) = destination.dir().filter(|_| request.sync.backs_up()) else { return Ok(None) };
        let (suffix, is_safe) = (request.sync.backup_suffix.clone(), request.sync.safe_backups);
        let to_disk = request.fsync != Fsync::None;
        if request.sync.backup_dir.is_empty() {
            return Ok(Some(Self { suffix, directory: None, is_safe, to_disk }));
        }
        let named = Path::new(OsStr::from_bytes(&request.sync.backup_dir));
        let path = destination.root(request).join(named);
        let rules = LinkRules { follows_all: request.sync.insecure_links, make: None };
        let failed = |error: &io::Error| refused(&path, &format!(": {}", describe(error)));
        let of = |dir| {
            let directory = BackupDirectory { dir, known: Mutex::default(), quota: Arc::clone(quota) };
            Some(Self { suffix, directory: Some(directory), is_safe, to_disk })
        };
        if request.sync.is_dry {
            return match Dir::open_named(destination.root(request), named, rules) {
                Ok(dir) => check(&dir, into, &path).map(|()| of(dir)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(failed(&error)),
            };
        }
        quota.take_names(missing_at(&path))?;
        if lookup::is_confined() {
            lookup::create_dir_all(&path, Mode::RWXU).map_err(|error| failed(&error))?;
        }
        let made = LinkRules { make: Some(Mode::RWXU), ..rules };
        let dir = Dir::open_named(destination.root(request), named, made).map_err(|error| failed(&error))?;
        check(&dir, into, &path)?;
        Ok(of(dir))
    }

    /// Device and inode of the backup directory.
    pub fn identity(&self) -> Option<FileIdentity> {
        self.directory.as_ref().map(|directory| directory.dir.identity())
    }

    /// Permits writes to the backup directory.
    pub fn allow(&self, bounds: &mut ConfineBounds, rights: ConfineRights) {
        let dir = self.directory.as_ref().map(|directory| &directory.dir);
        dir.into_iter().for_each(|dir| drop(dir.fd().map(|fd| bounds.allow(&*fd, rights))));
    }

    /// The name whose backup this one may be, where backups stay beside the new entries.
    fn original<'n>(&self, name: &'n Name) -> Option<&'n [u8]> {
        let original = name.as_bytes().strip_suffix(&self.suffix[..])?;
        (self.directory.is_none() && !original.is_empty()).then_some(original)
    }

    /// The name of a backup.
    fn name_of(&self, name: &Name) -> io::Result<Name> {
        let kept = Name::new(&[name.as_bytes(), &self.suffix].concat()).ok().filter(|kept| !kept.is_reserved());
        kept.ok_or_else(|| io::Error::other(NO_NAME))
    }

    /// The directory for the backups of entries in `dir`.
    fn place_of(&self, dir: &Dir) -> io::Result<Dir> {
        self.directory.as_ref().map_or_else(|| Ok(dir.clone()), |directory| directory.place_of(dir))
    }

    /// Gives an entry its backup's name. An empty directory of this name in the backup directory makes way.
    fn rename(&self, from: &OwnedFd, name: &Name, into: &OwnedFd, kept: &Name) -> Result<(), Errno> {
        let rename = || renameat(from, name.as_bytes(), into, kept.as_bytes());
        let make_way = || unlinkat(into, kept.as_bytes(), AtFlags::REMOVEDIR);
        match rename() {
            Err(Errno::ISDIR) if self.directory.is_some() && make_way().is_ok() => rename(),
            renamed => renamed,
        }
    }

    /// An error with an explanation for backups.
    fn explained(&self, error: Errno) -> io::Error {
        match error {
            Errno::ISDIR | Errno::EXIST if self.directory.is_none() => io::Error::other(TAKEN),
            error => explained(error),
        }
    }

    /// Whether the entry is a link without a backup.
    fn is_unsafe(&self, dir: &Dir, name: &Name) -> io::Result<bool> {
        if !self.is_safe {
            return Ok(false);
        }
        match readlinkat(&*dir.fd()?, name.as_bytes(), Vec::new()) {
            Ok(points_to) => {
                let depth = std::iter::successors(dir.parent(), |dir| dir.parent()).count();
                Ok(is_unsafe_link(points_to.as_bytes(), depth))
            }
            Err(Errno::INVAL | Errno::NOENT) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Links the entry `name` into the backup, or moves it if that is impossible. `false` if there is no such entry, or
    /// if it is a directory, which is not replaced.
    fn keep(&self, dir: &Dir, name: &Name) -> io::Result<bool> {
        let from = dir.fd()?;
        match FileStat::at_name(&*from, name, FollowLinks::Itself) {
            Ok(stat) if stat.kind == FileType::Directory => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Ok(stat) if stat.kind == FileType::Symlink && self.is_unsafe(dir, name)? => return Ok(false),
            Ok(_) => {}
            Err(error) => return Err(error),
        }
        let (place, kept) = (self.place_of(dir)?, self.name_of(name)?);
        let into = place.fd()?;
        let link = |as_name: &Name| linkat(&*from, name.as_bytes(), &*into, as_name.as_bytes(), AtFlags::empty());
        let linked = match link(&kept) {
            // A link cannot replace an earlier backup; a rename can.
            Err(Errno::EXIST) => {
                make_temporary(&into, &kept, b"backup", link).and_then(|temporary| {
                    let renamed = self.rename(&into, &temporary, &into, &kept);
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
            Err(Errno::XDEV) => self.copy_here(dir, name, &into, &kept).map(|()| true),
            Err(error) => Err(self.explained(error)),
        }
    }

    /// Moves the entry `name` here, unless it is a directory. `false` if there is no such entry.
    fn move_here(&self, dir: &Dir, name: &Name) -> io::Result<bool> {
        let (place, kept) = (self.place_of(dir)?, self.name_of(name)?);
        let (from, into) = (dir.fd()?, place.fd()?);
        match self.rename(&from, name, &into, &kept) {
            // Renaming between two names of one file keeps both.
            Ok(()) if is_same((&*from, name), (&*into, &kept)) => {
                match unlinkat(&*from, name.as_bytes(), AtFlags::empty()) {
                    Ok(()) | Err(Errno::NOENT) => Ok(true),
                    Err(error) => Err(error.into()),
                }
            }
            Ok(()) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(Errno::XDEV) => {
                self.copy_here(dir, name, &into, &kept)?;
                unlinkat(&*from, name.as_bytes(), AtFlags::empty())?;
                Ok(true)
            }
            Err(error) => Err(self.explained(error)),
        }
    }

    /// Copies the entry `name` here from another file system.
    fn copy_here(&self, dir: &Dir, name: &Name, into: &OwnedFd, kept: &Name) -> io::Result<()> {
        let quota = self.directory.as_ref().map(|directory| &directory.quota);
        let size = FileStat::at_name(&*dir.fd()?, name, FollowLinks::Itself)?.size;
        quota.map_or(Ok(()), |quota| quota.reserve(size))?;
        let temporary = copy_entry(dir, name, into, kept, self.to_disk)?;
        let renamed = self.rename(into, &temporary, into, kept);
        if renamed.is_err() {
            let _ = unlinkat(into, temporary.as_bytes(), AtFlags::empty());
        }
        renamed.map_err(|error| self.explained(error))
    }
}

impl BackupDirectory {
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

    /// Removes an entry other than a directory, or moves it to its backup. A backup beside the entries is removed.
    /// `false` if there is no such entry.
    pub(crate) fn remove_or_back_up(&self, dir: &Dir, name: &Name) -> io::Result<bool> {
        let Some(backup) = self.backup.as_ref().filter(|backup| backup.original(name).is_none()) else {
            return remove_name(dir, name, FileType::RegularFile);
        };
        if backup.is_unsafe(dir, name)? {
            return remove_name(dir, name, FileType::RegularFile);
        }
        let is_there = backup.move_here(dir, name)?;
        add(&self.copy.reporter.sync.backed_up, u64::from(is_there));
        Ok(is_there)
    }

    /// Whether a removed entry leaves its backup in its directory, which then stays.
    pub(crate) fn leaves_backup(&self, name: &Name) -> bool {
        self.backup.as_ref().is_some_and(|backup| backup.directory.is_none() && backup.original(name).is_none())
    }

    /// Whether an extraneous entry is an earlier backup that stays. rsync's rules say themselves which do.
    pub(crate) fn protects_backup(&self, name: &Name) -> bool {
        let is_backup = self.backup.as_ref().is_some_and(|backup| backup.original(name).is_some());
        is_backup && !self.copy.request.sync.delete_filtered && !self.filter.is_rsync()
    }

    /// Whether an extraneous entry may be a backup of this run: the source has its name without the suffix.
    pub(crate) fn may_be_new_backup(&self, name: &Name, names: &SourceNames) -> bool {
        let original = self.backup.as_ref().and_then(|backup| backup.original(name));
        original.is_some_and(|original| names.has(original) != Some(false))
    }
}

/// Refuses the destination itself.
fn check(dir: &Dir, destination: &Dir, path: &Path) -> Result<(), RefusedRequest> {
    if dir.identity() == destination.identity() {
        return Err(refused(path, &format!(" {ITSELF}")));
    }
    Ok(())
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

/// Whether two names in these directories refer to one file.
fn is_same(one: (&OwnedFd, &Name), other: (&OwnedFd, &Name)) -> bool {
    let identity = |(dir, name): (&OwnedFd, &Name)| {
        FileStat::at_name(dir, name, FollowLinks::Itself).map(|stat| stat.identity).ok()
    };
    identity(one).is_some_and(|one| Some(one) == identity(other))
}

/// An error with an explanation for the backup directory.
fn explained(error: Errno) -> io::Error {
    match error {
        Errno::ISDIR | Errno::NOTDIR | Errno::NOTEMPTY | Errno::EXIST | Errno::LOOP => io::Error::other(IN_THE_WAY),
        error => error.into(),
    }
}

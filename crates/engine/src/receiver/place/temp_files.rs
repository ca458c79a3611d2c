//! Temporary files: created beside a final name, locked while they grow, renamed when complete.
//!
//! Their names are the same in every run. So the next run finds the file of a killed run, and two runs that write one
//! file detect each other by the lock. A foreign entry under such a name stays, with a warning.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Mutex;
use std::time::Duration;

use haul_base::sys::sync::lock;
use haul_proto::path::Name;
use haul_proto::striping::Striping;
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, RenameFlags, fchmod, ftruncate, linkat, openat, renameat, renameat_with, statat,
    unlinkat,
};
use rustix::io::Errno;

use crate::fs::striping::{AWAITS_LAYOUT, set_striping};
use crate::fs::{Dir, FileStat, FollowLinks};
use crate::receiver::place::copy_locks::{CopyLocks, LockedEntry};
use crate::receiver::place::error::{FileError, OtherRun};
use crate::receiver::place::target_path::{FileName, TargetPath};
use crate::receiver::place::temp_names::{random_name, random_names, sibling, temporary_name};
use crate::sys::refusal::lacks_rename_flag;

/// Most attempts to open a temporary file that another run renames meanwhile.
const OPENS_MAX: usize = 8;
/// A partial file is private to its owner.
const UNFINISHED_MODE: u32 = 0o600;

/// Existing temporary files, which a stopped copy removes.
pub struct TempFiles {
    table: Mutex<TempFileTable>,
    elsewhere: Option<Dir>,
    report_foreign: ForeignReport,
    report_striping: StripingReport,
}

/// Reports a foreign entry under a temporary name of this file.
pub type ForeignReport = Box<dyn Fn(&TargetPath, &Name) + Send + Sync>;

/// Reports that a file system refused a file its striping.
pub type StripingReport = Box<dyn Fn(&TargetPath, Errno) + Send + Sync>;

#[derive(Default)]
struct TempFileTable {
    files: BTreeMap<(u64, u64, Name), TempFile>,
    closed: bool,
}

struct TempFile {
    dir: Dir,
    /// The expected name, or a random one.
    name: Name,
    /// Its journal: with one, it is kept for the next run to resume.
    journal: Option<FileName>,
}

impl TempFiles {
    /// No temporary files. They belong `elsewhere`, or beside their final names.
    pub fn new(elsewhere: Option<Dir>, report_foreign: ForeignReport, report_striping: StripingReport) -> Self {
        Self { table: Mutex::default(), elsewhere, report_foreign, report_striping }
    }

    /// The directory of temporary files, if they are not beside their final names.
    pub fn elsewhere(&self) -> Option<&Dir> {
        self.elsewhere.as_ref()
    }

    /// The temporary name of a file, in the directory from which it can be renamed.
    fn temporary(&self, path: &TargetPath) -> FileName {
        let is_near =
            |dir: &&Dir| dir.identity().device == path.dir.identity().device && dir.mount_id() == path.dir.mount_id();
        match self.elsewhere.as_ref().filter(is_near) {
            Some(dir) => {
                let above = path.dir.identity();
                let what = [&b"file below"[..], &above.device.to_le_bytes(), &above.inode.to_le_bytes()].concat();
                FileName { dir: dir.clone(), name: temporary_name(&path.name, &what) }
            }
            None => FileName { dir: path.dir.clone(), name: temporary_name(&path.name, b"file") },
        }
    }

    /// Reports a foreign entry under this temporary name of a file, which is left alone.
    pub fn report_foreign(&self, path: &TargetPath, name: &Name) {
        (self.report_foreign)(path, name);
    }

    /// Opens the temporary file of a final name, empty: a new one, or an earlier run's. It is readable too, for
    /// read-back. With a `journal`, it survives a stopped copy.
    pub fn open(
        &self,
        path: &TargetPath,
        journal: Option<&FileName>,
        striping: Option<Striping>,
        locks: &CopyLocks,
    ) -> Result<OwnedFd, FileError> {
        let flags = OFlags::RDWR | OFlags::CREATE | flags_for(striping);
        let (LockedTempFile { name, file, .. }, stat) = self.lock(path, flags, journal, locks)?.ok_or(Errno::NOENT)?;
        // Object stores refuse it, and a new file is empty.
        if stat.size > 0 {
            ftruncate(&file, 0)?;
        }
        self.stripe(path, &name, &file, striping);
        Ok(file)
    }

    /// Gives a new file its striping, before its first byte.
    pub fn stripe(&self, path: &TargetPath, name: &Name, file: &OwnedFd, striping: Option<Striping>) {
        if let Some(Err(error)) = striping.map(|striping| set_striping(file, striping)) {
            // Opened in the ordinary way, it gets the directory's default.
            let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let _ = path.dir.fd().map(|dir| openat(&*dir, name.as_bytes(), flags, Mode::empty()));
            (self.report_striping)(path, error);
        }
    }

    /// Opens an earlier run's temporary file with its contents, under its expected or random name; `None` if there is
    /// none.
    pub fn take_over(
        &self,
        path: &TargetPath,
        journal: &FileName,
        locks: &CopyLocks,
    ) -> Result<Option<OwnedFd>, FileError> {
        Ok(self.lock(path, OFlags::RDWR, Some(journal), locks)?.map(|(locked, _)| locked.file))
    }

    /// Opens and locks a temporary file. Returns it with its state, apart from its mode.
    fn lock(
        &self,
        path: &TargetPath,
        flags: OFlags,
        journal: Option<&FileName>,
        locks: &CopyLocks,
    ) -> Result<Option<(LockedTempFile, FileStat)>, FileError> {
        let FileName { dir, name: expected } = self.temporary(path);
        let locked = match lock_own(&dir, &expected, flags, locks) {
            Ok(None) => lock_random(&dir, &expected, flags, locks),
            locked => locked,
        };
        let Some(locked) = locked? else { return Ok(None) };
        let LockedTempFile { name, file, is_new } = &locked;
        let stat = FileStat::at_fd(file)?;
        if u32::from(stat.meta.mode) != UNFINISHED_MODE {
            // A run killed after setting the final mode may have left the file readable by all, or set-id. Some file
            // systems have no modes.
            let _ = fchmod(file, Mode::from_raw_mode(UNFINISHED_MODE));
        }
        if *name != expected && is_taken(&dir, &expected) {
            self.report_foreign(path, &expected);
        }
        // An earlier run may have recorded part of a larger file here, or had no common directory for journals.
        let beside = FileName { dir: dir.clone(), name: sibling(&expected, "journal") };
        let is_used = journal.is_some_and(|journal| journal.is_same(&beside));
        if !is_used && (journal.is_some() || !is_new) && remove_journal(&beside) {
            self.report_foreign(path, &beside.name);
        }
        if !self.add(&dir, &expected, name.clone(), journal) {
            return Err(FileError::Stopped);
        }
        Ok(Some((locked, stat)))
    }

    /// Renames a complete file to its final name.
    pub fn finish(&self, path: &TargetPath, file: &OwnedFd) -> Result<(), FileError> {
        self.finish_with(path, file, |temporary| Ok(rename(path, temporary)?))
    }

    /// As [`Self::finish`]; `put` performs the rename.
    pub fn finish_with(
        &self,
        path: &TargetPath,
        file: &OwnedFd,
        put: impl FnOnce(&Name) -> io::Result<()>,
    ) -> Result<(), FileError> {
        // From here on, no other run removes the file, so the rename affects this file.
        let mut claimed = self.claim(&self.temporary(path)).ok_or(FileError::Stopped)?;
        let finished = match has_name(&claimed.dir, &claimed.name, file) {
            Ok(true) => claimed.move_beside(path).and_then(|()| put(&claimed.name)),
            Ok(false) => return Err(FileError::Deleted),
            Err(error) => Err(error),
        };
        match (&finished, &claimed.journal) {
            (Ok(()), Some(journal)) => {
                remove_journal(journal);
            }
            (Ok(()), None) => {}
            (Err(_), _) => claimed.remove(),
        }
        finished.map_err(|error| FileError::Rename(error.into()))
    }

    /// Renames a complete patch to this name, or to a random one if that is occupied. From here on it survives this
    /// copy, until it is applied.
    pub fn name_patch(&self, path: &TargetPath, file: &OwnedFd, name: &Name) -> Result<Name, FileError> {
        let claimed = self.claim(&self.temporary(path)).ok_or(FileError::Stopped)?;
        let rename = || -> Result<Name, FileError> {
            if !has_name(&claimed.dir, &claimed.name, file)? {
                return Err(FileError::Deleted);
            }
            let (from, into) = (claimed.dir.fd()?, path.dir.fd()?);
            match rename_new_into(&from, &claimed.name, &into, name) {
                Err(Errno::EXIST) => {
                    let random = random_name(name)?;
                    rename_new_into(&from, &claimed.name, &into, &random)?;
                    self.report_foreign(path, name);
                    Ok(random)
                }
                renamed => Ok(renamed.map(|()| name.clone())?),
            }
        };
        let named = rename();
        if named.is_err() {
            claimed.remove();
        }
        named
    }

    /// Removes this copy's temporary file of a final name, and its journal.
    pub fn discard(&self, path: &TargetPath) {
        if let Some(claimed) = self.claim(&self.temporary(path)) {
            claimed.remove();
        }
    }

    /// Prevents new temporary files, and removes existing ones; with `keep`, except for resumable ones. Failed removals
    /// are left to the next run.
    pub fn close(&self, keep: bool) {
        let mut temporaries = lock(&self.table);
        temporaries.closed = true;
        for temporary in std::mem::take(&mut temporaries.files).into_values() {
            if !keep || temporary.journal.is_none() {
                temporary.remove();
            }
        }
    }

    /// Registers a temporary file. `false` if the copy has been stopped: then the file is removed unless the next run
    /// can resume it.
    fn add(&self, dir: &Dir, expected: &Name, name: Name, journal: Option<&FileName>) -> bool {
        let mut temporaries = lock(&self.table);
        if temporaries.closed {
            if journal.is_none() {
                unlink(dir, &name);
            }
        } else {
            let temporary = TempFile { dir: dir.clone(), name, journal: journal.cloned() };
            temporaries.files.insert(key(dir, expected), temporary);
        }
        !temporaries.closed
    }

    /// Takes over a registered file; `None` if it is not registered any more.
    fn claim(&self, temporary: &FileName) -> Option<TempFile> {
        lock(&self.table).files.remove(&key(&temporary.dir, &temporary.name))
    }
}

impl TempFile {
    /// Moves a file of a temporary directory beside its final name.
    fn move_beside(&mut self, path: &TargetPath) -> io::Result<()> {
        if self.dir.identity() == path.dir.identity() {
            return Ok(());
        }
        let name = random_name(&temporary_name(&path.name, b"file"))?;
        rename_new_into(&*self.dir.fd()?, &self.name, &*path.dir.fd()?, &name)?;
        (self.dir, self.name) = (path.dir.clone(), name);
        Ok(())
    }

    /// Removes the journal first: while the partial file has its name, it is locked, and no other run starts a journal.
    fn remove(&self) {
        if let Some(journal) = &self.journal {
            remove_journal(journal);
        }
        unlink(&self.dir, &self.name);
    }
}

/// Flags for the open of a file that is to get a striping.
pub fn flags_for(striping: Option<Striping>) -> OFlags {
    if striping.is_some() { AWAITS_LAYOUT } else { OFlags::empty() }
}

/// Empties an earlier run's temporary file that is not resumed, since files before it may need the space.
pub fn empty_left(path: &TargetPath) {
    let name = temporary_name(&path.name, b"file");
    let impatient = || CopyLocks::with_patience(Duration::ZERO);
    if is_own_name(&path.dir, &name)
        && let Ok(Some(file)) = lock_file(&path.dir, &name, OFlags::RDWR, &impatient())
    {
        // Best effort.
        let _ = ftruncate(&file, 0);
    }
}

/// Removes a journal with any contents, but no foreign entry. Returns whether a foreign entry stays. Best effort.
pub fn remove_journal(leaf: &FileName) -> bool {
    match stat_entry(&leaf.dir, &leaf.name) {
        Ok(stat) if is_own(&stat) => unlink(&leaf.dir, &leaf.name),
        found => return found.is_ok(),
    }
    false
}

fn key(dir: &Dir, name: &Name) -> (u64, u64, Name) {
    let identity = dir.identity();
    (identity.device, identity.inode, name.clone())
}

/// Removes a file, as best effort: the next run takes over what is left.
pub fn unlink(dir: &Dir, name: &Name) {
    let _ = dir.fd().map(|fd| unlinkat(&*fd, name.as_bytes(), AtFlags::empty()));
}

/// Removes a file that would be misread if it stayed.
pub fn remove(dir: &Dir, name: &Name) -> io::Result<()> {
    Ok(unlinkat(&*dir.fd()?, name.as_bytes(), AtFlags::empty())?)
}

/// A locked temporary file.
pub struct LockedTempFile {
    /// The expected name, or a random one.
    pub name: Name,
    /// The file.
    pub file: OwnedFd,
    /// Created by this call.
    pub is_new: bool,
}

/// Opens and locks a temporary file. If the expected name is occupied, uses an earlier run's random name or a new one.
/// `None` if there is none and `flags` do not create one.
pub fn lock_own(
    dir: &Dir,
    expected: &Name,
    flags: OFlags,
    locks: &CopyLocks,
) -> Result<Option<LockedTempFile>, FileError> {
    let makes = flags.contains(OFlags::CREATE);
    let existing = flags - OFlags::CREATE;
    let waited_for = if makes { LockedEntry::NewFile } else { LockedEntry::File };
    for _ in 0..OPENS_MAX {
        // New files belong to this run, whatever owner the file system reports.
        if makes {
            match lock_file(dir, expected, flags | OFlags::EXCL, locks) {
                Ok(Some(file)) => return Ok(Some(LockedTempFile { name: expected.clone(), file, is_new: true })),
                Ok(None) => {}
                Err(FileError::Io(error)) if Errno::from_io_error(&error) == Some(Errno::EXIST) => {}
                Err(FileError::NameTaken) => break,
                Err(denied) => return Err(denied),
            }
        }
        match open_locked(dir, expected, existing, &|file| locks.lock(file, waited_for)) {
            Ok(Some(file)) => return Ok(Some(LockedTempFile { name: expected.clone(), file, is_new: false })),
            Ok(None) if !makes => return Ok(None),
            Ok(None) => {}
            Err(FileError::NameTaken) => break,
            Err(denied) => return Err(denied),
        }
    }
    let found = lock_random(dir, expected, existing, locks)?;
    if found.is_some() || !makes {
        return Ok(found);
    }
    let name = random_name(expected)?;
    let file = lock_file(dir, &name, flags | OFlags::EXCL, locks)?;
    Ok(file.map(|file| LockedTempFile { name, file, is_new: true }))
}

/// As [`lock_own`], for an earlier run's random name.
fn lock_random(
    dir: &Dir,
    expected: &Name,
    flags: OFlags,
    locks: &CopyLocks,
) -> Result<Option<LockedTempFile>, FileError> {
    for name in random_names(dir, expected)? {
        match lock_file(dir, &name, flags, locks) {
            Ok(Some(file)) => return Ok(Some(LockedTempFile { name, file, is_new: false })),
            Ok(None) | Err(FileError::NameTaken) => {}
            Err(denied) => return Err(denied),
        }
    }
    Ok(None)
}

/// Opens and locks a temporary file, and verifies that it still has this name. The previous holder of the lock may have
/// renamed it in between. `None` if there is none and `flags` do not create one.
pub fn lock_file(dir: &Dir, temporary: &Name, flags: OFlags, locks: &CopyLocks) -> Result<Option<OwnedFd>, FileError> {
    open_locked(dir, temporary, flags, &|file| locks.lock(file, LockedEntry::File))
}

/// As [`lock_file`]; `lock` takes the lock.
pub fn open_locked(
    dir: &Dir,
    temporary: &Name,
    flags: OFlags,
    lock: &dyn Fn(&OwnedFd) -> Result<(), OtherRun>,
) -> Result<Option<OwnedFd>, FileError> {
    let all_flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let is_made = flags.contains(OFlags::EXCL);
    for _ in 0..OPENS_MAX {
        let file = match openat(&*dir.fd()?, temporary.as_bytes(), all_flags, Mode::from_raw_mode(UNFINISHED_MODE)) {
            Err(Errno::NOENT) if !flags.contains(OFlags::CREATE) => return Ok(None),
            Err(error) if error != Errno::EXIST && is_taken(dir, temporary) => return Err(FileError::NameTaken),
            file => file?,
        };
        // Another user may lock their own file for any time.
        if !is_made && !is_ours(&file)? {
            match has_name(dir, temporary, &file)? {
                true => return Err(FileError::NameTaken),
                false => continue,
            }
        }
        lock(&file).map_err(FileError::Held)?;
        if has_name(dir, temporary, &file)? {
            return if is_made || is_ours(&file)? { Ok(Some(file)) } else { Err(FileError::NameTaken) };
        }
    }
    Err(FileError::Held(OtherRun { process: None }))
}

/// Whether this is a regular file of this user, without hard links. Only such files count as partial files.
pub fn is_ours(file: &OwnedFd) -> io::Result<bool> {
    Ok(is_own(&FileStat::at_fd(file)?))
}

fn is_own(stat: &FileStat) -> bool {
    let is_file = stat.kind == FileType::RegularFile;
    is_file && stat.names == 1 && stat.is_owned_by_this_user()
}

/// Whether the entry of this name may have been created by haul.
pub fn is_own_name(dir: &Dir, name: &Name) -> bool {
    stat_entry(dir, name).is_ok_and(|stat| is_own(&stat))
}

/// Whether a foreign entry has this name.
pub fn is_taken(dir: &Dir, name: &Name) -> bool {
    stat_entry(dir, name).is_ok_and(|stat| !is_own(&stat))
}

fn stat_entry(dir: &Dir, name: &Name) -> io::Result<FileStat> {
    FileStat::at_name(&*dir.fd()?, name, FollowLinks::Itself)
}

/// Whether this open file still has this name.
pub fn has_name(dir: &Dir, name: &Name, file: &OwnedFd) -> io::Result<bool> {
    match FileStat::at_name(&*dir.fd()?, name, FollowLinks::Itself) {
        Ok(stat) => Ok(stat.identity == FileStat::at_fd(file)?.identity),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Renames a complete file to its final name, over an existing entry only where that is replaced.
pub fn rename(path: &TargetPath, temporary: &Name) -> Result<(), Errno> {
    let dir = path.dir.fd().map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    if path.replaces {
        return renameat(&*dir, temporary.as_bytes(), &*dir, path.name.as_bytes());
    }
    rename_new(&dir, temporary, &path.name)
}

/// Renames without replacing an existing entry.
pub fn rename_new(dir: &OwnedFd, temporary: &Name, name: &Name) -> Result<(), Errno> {
    rename_new_into(dir, temporary, dir, name)
}

/// The same from one directory into another.
pub fn rename_new_into(from: &OwnedFd, old: &Name, into: &OwnedFd, new: &Name) -> Result<(), Errno> {
    match renameat_with(from, old.as_bytes(), into, new.as_bytes(), RenameFlags::NOREPLACE) {
        Err(error) if lacks_rename_flag(error) => rename_without_promise(from, old, into, new),
        result => result,
    }
}

/// Renames on a file system without RENAME_NOREPLACE. A hard link cannot replace an entry either. Without hard links, a
/// check before the rename is the best available.
fn rename_without_promise(from: &OwnedFd, old: &Name, into: &OwnedFd, new: &Name) -> Result<(), Errno> {
    match linkat(from, old.as_bytes(), into, new.as_bytes(), AtFlags::empty()) {
        Ok(()) => unlinkat(from, old.as_bytes(), AtFlags::empty()),
        Err(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS | Errno::MLINK | Errno::INVAL | Errno::XDEV) => {
            match statat(into, new.as_bytes(), AtFlags::SYMLINK_NOFOLLOW) {
                Err(Errno::NOENT) => renameat(from, old.as_bytes(), into, new.as_bytes()),
                Ok(_) => Err(Errno::EXIST),
                Err(error) => Err(error),
            }
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    impl Default for TempFiles {
        fn default() -> Self {
            Self::new(None, Box::new(|_, _| {}), Box::new(|_, _| {}))
        }
    }

    fn hasty() -> CopyLocks {
        CopyLocks::with_patience(Duration::ZERO)
    }

    fn path(place: &std::path::Path, replaces: bool) -> TargetPath {
        TargetPath { dir: Dir::open_root(place).unwrap(), name: Name::new(b"final").unwrap(), replaces }
    }

    #[test]
    fn two_runs_do_not_write_one_file() {
        let place = tempfile::tempdir().unwrap();
        let (first, second) = (TempFiles::default(), TempFiles::default());
        let held = first.open(&path(place.path(), false), None, None, &hasty()).unwrap();
        let refused = second.open(&path(place.path(), false), None, None, &hasty()).unwrap_err().to_string();
        let process = std::process::id();
        assert_eq!(
            refused,
            format!("another haul (process {process}) is writing this file now\nwait for it, or end it")
        );
        first.finish(&path(place.path(), false), &held).unwrap();
        assert!(place.path().join("final").exists());
    }

    #[test]
    fn a_file_renamed_before_its_lock_is_left_alone() {
        let place = tempfile::tempdir().unwrap();
        let path = path(place.path(), false);
        let temporary = temporary_name(&path.name, b"file");
        fs::write(place.path().join(temporary.to_string()), "whole").unwrap();
        let early = fs::File::options().write(true).open(place.path().join(temporary.to_string())).unwrap();
        fs::rename(place.path().join(temporary.to_string()), place.path().join("final")).unwrap();
        assert!(!has_name(&path.dir, &temporary, &early.into()).unwrap());
        TempFiles::default().open(&path, None, None, &hasty()).unwrap();
        assert_eq!(fs::read(place.path().join("final")).unwrap(), b"whole");
    }

    #[test]
    fn an_adopted_file_is_private() {
        use std::os::unix::fs::PermissionsExt;
        let place = tempfile::tempdir().unwrap();
        let path = path(place.path(), false);
        let temporary = place.path().join(temporary_name(&path.name, b"file").to_string());
        fs::write(&temporary, "left").unwrap();
        fs::set_permissions(&temporary, fs::Permissions::from_mode(0o4755)).unwrap();
        TempFiles::default().open(&path, None, None, &hasty()).unwrap();
        let meta = fs::metadata(&temporary).unwrap();
        assert_eq!((meta.permissions().mode() & 0o7777, meta.len()), (0o600, 0));
    }

    #[test]
    fn after_a_stop_no_file_gets_its_name_and_none_is_left() {
        let place = tempfile::tempdir().unwrap();
        let temp_files = TempFiles::default();
        let file = temp_files.open(&path(place.path(), false), None, None, &hasty()).unwrap();
        temp_files.close(true);
        assert!(matches!(temp_files.finish(&path(place.path(), false), &file), Err(FileError::Stopped)));
        assert!(matches!(temp_files.open(&path(place.path(), false), None, None, &hasty()), Err(FileError::Stopped)));
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
    }

    #[test]
    fn another_runs_file_is_not_renamed() {
        let place = tempfile::tempdir().unwrap();
        let path = path(place.path(), false);
        let temp_files = TempFiles::default();
        let file = temp_files.open(&path, None, None, &hasty()).unwrap();
        let temporary = place.path().join(temporary_name(&path.name, b"file").to_string());
        fs::remove_file(&temporary).unwrap();
        fs::write(&temporary, "another's").unwrap();
        assert!(temp_files.finish(&path, &file).is_err());
        assert!(!place.path().join("final").exists() && temporary.exists());
    }

    #[test]
    fn files_of_a_temporary_directory_move_to_their_final_names() {
        let (place, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::create_dir(place.path().join("sub")).unwrap();
        let names = |dir: &std::path::Path| fs::read_dir(dir).unwrap().count();
        let dir = Dir::open_root(elsewhere.path()).unwrap();
        let temp_files = TempFiles { elsewhere: Some(dir), ..TempFiles::default() };
        let paths = [path(place.path(), true), path(&place.path().join("sub"), true)];
        let files = paths.each_ref().map(|path| temp_files.open(path, None, None, &hasty()).unwrap());
        assert_eq!((names(place.path()), names(elsewhere.path())), (1, 2));
        for (path, file) in paths.iter().zip(&files) {
            rustix::io::write(file, path.dir.path_of(b"").as_slice()).unwrap();
            temp_files.finish(path, file).unwrap();
        }
        assert_eq!((names(place.path()), names(&place.path().join("sub")), names(elsewhere.path())), (2, 1, 0));
        let discarded = temp_files.open(&paths[0], None, None, &hasty()).unwrap();
        temp_files.discard(&paths[0]);
        assert_eq!((names(elsewhere.path()), FileStat::at_fd(&discarded).unwrap().names), (0, 0));
    }

    #[test]
    fn an_occupied_temporary_name_blocks_no_copy() {
        use std::os::unix::fs::symlink;
        let place = tempfile::tempdir().unwrap();
        let path = path(place.path(), false);
        let temporary = place.path().join(temporary_name(&path.name, b"file").to_string());
        fs::write(place.path().join("valuable"), "valuable").unwrap();
        let takes: [&dyn Fn(); 3] = [
            &|| fs::hard_link(place.path().join("valuable"), &temporary).unwrap(),
            &|| symlink(place.path().join("valuable"), &temporary).unwrap(),
            &|| fs::create_dir(&temporary).unwrap(),
        ];
        for take in takes {
            take();
            let leaf = FileName { dir: path.dir.clone(), name: Name::new(b"journal").unwrap() };
            let killed = TempFiles::default().open(&path, Some(&leaf), None, &hasty()).unwrap();
            rustix::io::write(&killed, b"part").unwrap();
            assert!(TempFiles::default().open(&path, None, None, &hasty()).is_err(), "another run writes it");
            drop(killed);
            // A run that starts once the name is free again finds it too.
            let aside = place.path().join("aside");
            fs::rename(&temporary, &aside).unwrap();
            assert!(TempFiles::default().take_over(&path, &leaf, &hasty()).unwrap().is_some());
            fs::rename(&aside, &temporary).unwrap();
            // The next run finds the killed run's file, and completes it.
            let temp_files = TempFiles::default();
            let file = temp_files.take_over(&path, &leaf, &hasty()).unwrap().unwrap();
            temp_files.finish(&path, &file).unwrap();
            assert_eq!(fs::read(place.path().join("final")).unwrap(), b"part");
            assert!(fs::symlink_metadata(&temporary).is_ok(), "what haul did not make stays");
            fs::remove_file(place.path().join("final")).unwrap();
            fs::remove_file(&temporary).or_else(|_| fs::remove_dir(&temporary)).unwrap();
            assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
        }
        assert_eq!(fs::read(place.path().join("valuable")).unwrap(), b"valuable");
    }

    #[test]
    fn only_replaceable_files_are_replaced() {
        let place = tempfile::tempdir().unwrap();
        fs::write(place.path().join("final"), "old").unwrap();
        for replaces in [false, true] {
            let (temp_files, path) = (TempFiles::default(), path(place.path(), replaces));
            let file = temp_files.open(&path, None, None, &hasty()).unwrap();
            assert_eq!(temp_files.finish(&path, &file).is_ok(), replaces);
            drop(file);
            assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
        }
        let dir = Dir::open_root(place.path()).unwrap().fd().unwrap();
        fs::write(place.path().join("new"), "new").unwrap();
        let name = |text: &[u8]| Name::new(text).unwrap();
        assert_eq!(rename_without_promise(&dir, &name(b"new"), &dir, &name(b"final")), Err(Errno::EXIST));
        assert_eq!(rename_without_promise(&dir, &name(b"new"), &dir, &name(b"other")), Ok(()));
    }
}

//! Temporary files: made beside a final name, locked while they grow, renamed when they are whole.
//!
//! A final name has one temporary name, the same in every run. So what a killed run left behind is found and taken
//! over by the next one, and two runs that write one file notice each other by the lock.

use haul_proto::path::Name;
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, RenameFlags, fchmod, fstat, ftruncate, linkat, openat, renameat, renameat_with,
    statat, unlinkat,
};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Mutex;

use super::file::Spot;
use super::journal::Leaf;
use super::rivals::{Rival, Rivals};
use crate::fs::{Dir, Links, Look, describe};
use crate::worker::lock;

/// How often a temporary file is opened that another run renames under our hands.
const OPENS_MAX: usize = 8;
/// An unfinished file is its owner's alone.
const UNFINISHED_MODE: u32 = 0o600;
/// Said when the job ended meanwhile.
const STOPPED: &str = "the job was stopped";

/// The temporary name that belongs to a final one; `what` keeps kinds apart. See [`Name::is_reserved`].
pub fn temporary_name(name: &Name, what: &[u8]) -> Name {
    let digest = blake3::Hasher::new().update(what).update(b"\0").update(name.as_bytes()).finalize();
    Name::reserved(&digest.to_hex()[..24], "part")
}

/// Temporary files that exist now, so that they can be removed when the job is stopped.
#[derive(Default)]
pub struct Unfinished(Mutex<Temporaries>);

#[derive(Default)]
struct Temporaries {
    files: BTreeMap<(u64, u64, Name), Temporary>,
    closed: bool,
}

struct Temporary {
    dir: Dir,
    /// Where it is recorded what is in it: then it stays for the next run to go on with.
    journal: Option<Leaf>,
}

impl Unfinished {
    /// Opens the temporary file of a final name, empty: new, or what an earlier run left. It can be read, too: it may be
    /// read back. With a `journal`, it outlives a job that is stopped.
    pub fn open(&self, spot: &Spot, journal: Option<&Leaf>, rivals: &Rivals) -> Result<OwnedFd, String> {
        let opened = self.lock(spot, OFlags::RDWR | OFlags::CREATE, journal, rivals)?;
        let file = opened.ok_or_else(|| describe(&Errno::NOENT.into()))?;
        ftruncate(&file, 0).map_err(|error| describe(&error.into()))?;
        Ok(file)
    }

    /// Opens the temporary file of a final name as an earlier run left it; `None` where there is none.
    pub fn take_over(&self, spot: &Spot, journal: &Leaf, rivals: &Rivals) -> Result<Option<OwnedFd>, String> {
        self.lock(spot, OFlags::RDWR, Some(journal), rivals)
    }

    fn lock(
        &self,
        spot: &Spot,
        flags: OFlags,
        journal: Option<&Leaf>,
        rivals: &Rivals,
    ) -> Result<Option<OwnedFd>, String> {
        let temporary = temporary_name(&spot.name, b"file");
        let locked = lock_file(&spot.dir, &temporary, flags, rivals).map_err(Denied::into_text)?;
        let Some(file) = locked else { return Ok(None) };
        if !is_ours(&file).map_err(|error| describe(&error))? {
            return Err(format!("{temporary} is in the way, and was not made by haul\nremove it"));
        }
        let mode = Look::at_fd(&file).map_err(|error| describe(&error))?.meta.mode;
        if u32::from(mode) != UNFINISHED_MODE {
            // A run that was killed after it had given the file its mode may have left it readable by all, or set-id.
            // Where that cannot be changed, there are no modes.
            let _ = fchmod(&file, Mode::from_raw_mode(UNFINISHED_MODE));
        }
        if !self.add(&spot.dir, &temporary, journal) {
            return Err(STOPPED.into());
        }
        Ok(Some(file))
    }

    /// Gives a whole file its final name.
    pub fn finish(&self, spot: &Spot, file: &OwnedFd) -> Result<(), String> {
        let temporary = temporary_name(&spot.name, b"file");
        // From here on nobody else removes the file: what is renamed is this one, and no other run's.
        let Some(claimed) = self.claim(&spot.dir, &temporary) else { return Err(STOPPED.into()) };
        let finished = match stands_at(&spot.dir, &temporary, file) {
            Ok(true) => rename(spot, &temporary).map_err(io::Error::from),
            Ok(false) => return Err("its temporary file was taken away while it was being written".into()),
            Err(error) => Err(error),
        };
        match (&finished, &claimed.journal) {
            (Ok(()), Some(journal)) => unlink(&journal.dir, &journal.name),
            (Ok(()), None) => {}
            (Err(_), _) => claimed.remove(&temporary),
        }
        finished.map_err(|error| why_unnamed(&error))
    }

    /// Gives a whole patch its name: from here on it outlives this job, until it was carried out.
    pub fn name_patch(&self, spot: &Spot, file: &OwnedFd, name: &Name) -> Result<(), String> {
        let temporary = temporary_name(&spot.name, b"file");
        let Some(claimed) = self.claim(&spot.dir, &temporary) else { return Err(STOPPED.into()) };
        let named = stands_at(&spot.dir, &temporary, file).and_then(|is_there| match is_there {
            true => Ok(rename_new(&*spot.dir.fd()?, &temporary, name)?),
            false => Err(io::Error::other("its temporary file was taken away while it was being written")),
        });
        if named.is_err() {
            claimed.remove(&temporary);
        }
        named.map_err(|error| describe(&error))
    }

    /// Removes the temporary file of a final name, if it is this job's, and what is recorded of it.
    pub fn discard(&self, spot: &Spot) {
        let temporary = temporary_name(&spot.name, b"file");
        if let Some(claimed) = self.claim(&spot.dir, &temporary) {
            claimed.remove(&temporary);
        }
    }

    /// Lets no more temporary files be made, and removes those that are there; with `keep`, but for those that the next
    /// run can go on with. What cannot be removed stays for the next run to take over.
    pub fn close(&self, keep: bool) {
        let mut temporaries = lock(&self.0);
        temporaries.closed = true;
        for ((_, _, name), temporary) in std::mem::take(&mut temporaries.files) {
            if !keep || temporary.journal.is_none() {
                temporary.remove(&name);
            }
        }
    }

    /// `false` when the job has been stopped: then nothing is left of the file that the next run could not use.
    fn add(&self, dir: &Dir, name: &Name, journal: Option<&Leaf>) -> bool {
        let mut temporaries = lock(&self.0);
        if temporaries.closed {
            if journal.is_none() {
                unlink(dir, name);
            }
        } else {
            let temporary = Temporary { dir: dir.clone(), journal: journal.cloned() };
            temporaries.files.insert(key(dir, name), temporary);
        }
        !temporaries.closed
    }

    /// `None` when the file is not there, or not this job's any more.
    fn claim(&self, dir: &Dir, name: &Name) -> Option<Temporary> {
        lock(&self.0).files.remove(&key(dir, name))
    }
}

impl Temporary {
    /// The journal first: as long as the part has its name, it is locked, and no other run begins a journal.
    fn remove(&self, name: &Name) {
        if let Some(journal) = &self.journal {
            unlink(&journal.dir, &journal.name);
        }
        unlink(&self.dir, name);
    }
}

fn key(dir: &Dir, name: &Name) -> (u64, u64, Name) {
    let identity = dir.identity();
    (identity.device, identity.inode, name.clone())
}

/// Why a whole file could not get its name.
pub fn why_unnamed(error: &io::Error) -> String {
    match Errno::from_io_error(error) {
        Some(Errno::EXIST) => "something else has got this name meanwhile\nanother run may be at work there, or the file system takes two names of the source for one".to_owned(),
        Some(Errno::INVAL) => "the file system there does not take this name\nrename the file, or copy to another file system".to_owned(),
        _ => describe(error),
    }
}

/// Only tidies up: a file that cannot be removed is taken over by the next run.
pub fn unlink(dir: &Dir, name: &Name) {
    let _ = dir.fd().map(|fd| unlinkat(&*fd, name.as_bytes(), AtFlags::empty()));
}

/// Removes what would be taken for something else if it stayed.
pub fn remove(dir: &Dir, name: &Name) -> io::Result<()> {
    Ok(unlinkat(&*dir.fd()?, name.as_bytes(), AtFlags::empty())?)
}

/// Why a temporary file cannot be had.
#[derive(Debug)]
pub enum Denied {
    /// Another run has it.
    Held(Rival),
    /// The system refuses.
    Failed(io::Error),
}

impl Denied {
    fn into_text(self) -> String {
        match self {
            Self::Held(rival) => rival.writes(),
            Self::Failed(error) => describe(&error),
        }
    }
}

impl<E: Into<io::Error>> From<E> for Denied {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

/// Opens and locks a temporary file, and makes sure that it still is the one of that name: between the two, the run
/// that held the lock may have given it its final name. `None` where there is none and `flags` do not say to make one.
pub fn lock_file(dir: &Dir, temporary: &Name, flags: OFlags, rivals: &Rivals) -> Result<Option<OwnedFd>, Denied> {
    let all_flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    for _ in 0..OPENS_MAX {
        let file = match openat(&*dir.fd()?, temporary.as_bytes(), all_flags, Mode::from_raw_mode(UNFINISHED_MODE)) {
            Err(Errno::NOENT) if !flags.contains(OFlags::CREATE) => return Ok(None),
            file => file?,
        };
        rivals.lock(&file).map_err(Denied::Held)?;
        if stands_at(dir, temporary, &file)? {
            return Ok(Some(file));
        }
    }
    Err(Denied::Held(Rival { process: None }))
}

/// Nothing else is taken for a file that haul has begun: no device, no file of somebody else, none with a second name.
pub fn is_ours(file: &OwnedFd) -> io::Result<bool> {
    let stat = fstat(file)?;
    let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    Ok(is_file && stat.st_nlink == 1 && stat.st_uid == rustix::process::geteuid().as_raw())
}

/// Whether this open file is the one that has this name.
fn stands_at(dir: &Dir, name: &Name, file: &OwnedFd) -> io::Result<bool> {
    match Look::at_name(&*dir.fd()?, name, Links::Itself) {
        Ok(look) => Ok(look.identity == Look::at_fd(file)?.identity),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn rename(spot: &Spot, temporary: &Name) -> Result<(), Errno> {
    let dir = spot.dir.fd().map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    if spot.replaces {
        return renameat(&*dir, temporary.as_bytes(), &*dir, spot.name.as_bytes());
    }
    rename_new(&dir, temporary, &spot.name)
}

/// Renames what must not replace anything.
pub fn rename_new(dir: &OwnedFd, temporary: &Name, name: &Name) -> Result<(), Errno> {
    match renameat_with(dir, temporary.as_bytes(), dir, name.as_bytes(), RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => rename_without_promise(dir, temporary, name),
        result => result,
    }
}

/// Renames where the file system cannot promise not to replace: a hard link cannot replace either; where there are
/// none, a look before is the best that can be had.
fn rename_without_promise(dir: &OwnedFd, temporary: &Name, name: &Name) -> Result<(), Errno> {
    match linkat(dir, temporary.as_bytes(), dir, name.as_bytes(), AtFlags::empty()) {
        Ok(()) => unlinkat(dir, temporary.as_bytes(), AtFlags::empty()),
        Err(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS | Errno::MLINK) => {
            match statat(dir, name.as_bytes(), AtFlags::SYMLINK_NOFOLLOW) {
                Err(Errno::NOENT) => renameat(dir, temporary.as_bytes(), dir, name.as_bytes()),
                Ok(_) => Err(Errno::EXIST),
                Err(error) => Err(error),
            }
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::time::Duration;

    fn hasty() -> Rivals {
        Rivals::with_patience(Duration::ZERO)
    }

    fn spot(place: &std::path::Path, replaces: bool) -> Spot {
        Spot { dir: Dir::open_root(place).unwrap(), name: Name::new(b"final").unwrap(), replaces }
    }

    #[test]
    fn two_runs_do_not_write_one_file() {
        let place = tempfile::tempdir().unwrap();
        let (first, second) = (Unfinished::default(), Unfinished::default());
        let held = first.open(&spot(place.path(), false), None, &hasty()).unwrap();
        let me = Rival { process: Some(std::process::id()) }.writes();
        assert_eq!(second.open(&spot(place.path(), false), None, &hasty()).unwrap_err(), me);
        first.finish(&spot(place.path(), false), &held).unwrap();
        assert!(place.path().join("final").exists());
    }

    #[test]
    fn a_file_that_was_renamed_before_it_was_locked_is_left_alone() {
        let place = tempfile::tempdir().unwrap();
        let spot = spot(place.path(), false);
        let temporary = temporary_name(&spot.name, b"file");
        fs::write(place.path().join(temporary.to_string()), "whole").unwrap();
        let early = fs::File::options().write(true).open(place.path().join(temporary.to_string())).unwrap();
        fs::rename(place.path().join(temporary.to_string()), place.path().join("final")).unwrap();
        assert!(!stands_at(&spot.dir, &temporary, &early.into()).unwrap());
        Unfinished::default().open(&spot, None, &hasty()).unwrap();
        assert_eq!(fs::read(place.path().join("final")).unwrap(), b"whole");
    }

    #[test]
    fn what_is_taken_over_is_nobody_elses_to_read() {
        use std::os::unix::fs::PermissionsExt;
        let place = tempfile::tempdir().unwrap();
        let spot = spot(place.path(), false);
        let temporary = place.path().join(temporary_name(&spot.name, b"file").to_string());
        fs::write(&temporary, "left").unwrap();
        fs::set_permissions(&temporary, fs::Permissions::from_mode(0o4755)).unwrap();
        Unfinished::default().open(&spot, None, &hasty()).unwrap();
        let meta = fs::metadata(&temporary).unwrap();
        assert_eq!((meta.permissions().mode() & 0o7777, meta.len()), (0o600, 0));
    }

    #[test]
    fn after_a_stop_nothing_gets_its_name_and_nothing_is_left() {
        let place = tempfile::tempdir().unwrap();
        let unfinished = Unfinished::default();
        let file = unfinished.open(&spot(place.path(), false), None, &hasty()).unwrap();
        unfinished.close(true);
        assert_eq!(unfinished.finish(&spot(place.path(), false), &file).unwrap_err(), STOPPED);
        assert_eq!(unfinished.open(&spot(place.path(), false), None, &hasty()).unwrap_err(), STOPPED);
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
    }

    #[test]
    fn another_runs_file_is_not_renamed() {
        let place = tempfile::tempdir().unwrap();
        let spot = spot(place.path(), false);
        let unfinished = Unfinished::default();
        let file = unfinished.open(&spot, None, &hasty()).unwrap();
        let temporary = place.path().join(temporary_name(&spot.name, b"file").to_string());
        fs::remove_file(&temporary).unwrap();
        fs::write(&temporary, "another's").unwrap();
        assert!(unfinished.finish(&spot, &file).is_err());
        assert!(!place.path().join("final").exists() && temporary.exists());
    }

    #[test]
    fn only_what_may_be_replaced_is() {
        let place = tempfile::tempdir().unwrap();
        fs::write(place.path().join("final"), "old").unwrap();
        for replaces in [false, true] {
            let (unfinished, spot) = (Unfinished::default(), spot(place.path(), replaces));
            let file = unfinished.open(&spot, None, &hasty()).unwrap();
            assert_eq!(unfinished.finish(&spot, &file).is_ok(), replaces);
            drop(file);
            assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
        }
        let dir = Dir::open_root(place.path()).unwrap().fd().unwrap();
        fs::write(place.path().join("new"), "new").unwrap();
        let name = |text: &[u8]| Name::new(text).unwrap();
        assert_eq!(rename_without_promise(&dir, &name(b"new"), &name(b"final")), Err(Errno::EXIST));
        assert_eq!(rename_without_promise(&dir, &name(b"new"), &name(b"other")), Ok(()));
    }
}

//! A scratch directory of a probe at the target: created under a unique name, locked while in use, and removed with
//! what the probe put into it. A killed probe releases its lock, and the next probe removes its directory. That one is
//! known by a token, which the user's state directory records; a name alone proves nothing in a directory that others
//! can write.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use haul_base::sys::random::random;
use haul_base::trusted_files::{OthersMay, read_own};
use haul_proto::checksum::hex;
use haul_proto::path::Name;
use haul_proto::wire::measure::{SCRATCH_NAMES, TargetDirectoryFigures};
use rustix::fs::{FileType, FlockOperation, flock, fstat, fstatfs, fstatvfs};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::fs::{Dir, MadeDirectory, each_name};
use crate::sys::confine::{ConfineBounds, ConfineRights};
use crate::worker::measure::MeasureError;

/// Prefix of scratch directory names.
const PREFIX: &str = ".haul-probe-";
/// Time limit for another worker to exit.
const PATIENCE: Duration = Duration::from_secs(4);
const PAUSE: Duration = Duration::from_millis(50);
/// Magic numbers of file systems with compression (statfs(2)): btrfs, bcachefs, ZFS, F2FS.
const COMPRESSING: [u64; 4] = [0x9123_683e, 0xca45_1a4e, 0x2fc1_2fc1, 0xf2f5_2010];

/// A scratch directory.
pub struct ScratchDirectory {
    made: MadeDirectory,
    path: PathBuf,
    records: Option<ScratchRecords>,
    removed: u32,
}

impl ScratchDirectory {
    /// Creates a scratch directory in `path`, or in its parent if `path` is a file or absent, and records it in
    /// `state_dir`.
    pub fn make(path: &Path, state_dir: Option<&Path>) -> Result<Self, MeasureError> {
        let (parent, place) = open(path).map_err(|cause| MeasureError::inaccessible(path, cause))?;
        let made = Self::below(&parent, &place, state_dir.map(ScratchRecords::of));
        made.map_err(|cause| MeasureError::ScratchDirectory { path: place, cause })
    }

    fn below(parent: &Dir, place: &Path, records: Option<ScratchRecords>) -> io::Result<Self> {
        let removed = records.as_ref().map_or(0, |records| remove_abandoned(parent, records));
        let number = u64::from_le_bytes(random()?);
        let name = format!("{PREFIX}{number:016x}");
        let path = place.join(&name);
        let name = Name::new(name.as_bytes()).map_err(io::Error::other)?;
        let made = MadeDirectory::create(parent, name.clone())?;
        // On a file system without locks, no other probe can take the directory for abandoned either.
        let _ = flock(made.fd(), FlockOperation::NonBlockingLockExclusive);
        // Without a record or a marker, the directory stays if this probe is killed.
        let token = records.as_ref().and_then(|records| records.add(&name).ok());
        let _ = token.map(|token| made.mark(token.as_bytes()));
        Ok(Self { made, path, records, removed })
    }

    /// Permits what the removal needs.
    pub fn allow_removal(&self, bounds: &mut ConfineBounds) {
        if let Ok(dir) = self.made.parent().fd() {
            bounds.allow(&*dir, ConfineRights::Land(Default::default()));
        }
        let records = self.records.as_ref().and_then(|records| File::open(&records.0).ok());
        records.iter().for_each(|records| bounds.allow(records, ConfineRights::RemoveFiles));
    }

    /// Returns the properties of the file system.
    pub fn figures(&self) -> Result<TargetDirectoryFigures, MeasureError> {
        let failed = |errno: Errno| MeasureError::inaccessible(&self.path, errno.into());
        let space = fstatvfs(self.made.fd()).map_err(failed)?;
        let kind = fstatfs(self.made.fd()).map_err(failed)?.f_type as u64;
        Ok(TargetDirectoryFigures {
            scratch: self.path.as_os_str().as_bytes().to_vec(),
            free_bytes: space.f_bavail.saturating_mul(space.f_frsize),
            free_files: space.f_favail,
            counts_files: space.f_files > 0,
            may_compress: COMPRESSING.contains(&(kind & 0xffff_ffff)),
            removed: self.removed,
        })
    }

    /// Removes the directory. The worker of a terminated copy may still use it, so removal is retried for a while.
    pub fn remove(self) -> io::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.made.remove(is_of_probe) {
                Err(_) if Instant::now() < deadline => thread::sleep(PAUSE),
                removed => {
                    self.records.iter().for_each(|records| records.forget(self.made.name()));
                    return removed;
                }
            }
        }
    }
}

/// Returns the directory in which a copy to `path` would create an entry, and its path.
fn open(path: &Path) -> io::Result<(Dir, PathBuf)> {
    let directory = match fs::metadata(path) {
        Ok(found) if !found.is_dir() => path.parent().map(Path::to_owned),
        Err(error) if error.kind() == io::ErrorKind::NotFound => path.parent().map(Path::to_owned),
        _ => None,
    };
    let directory = directory.unwrap_or_else(|| path.to_owned());
    let directory = if directory.as_os_str().is_empty() { PathBuf::from(".") } else { directory };
    let absolute = std::path::absolute(&directory)?;
    Ok((Dir::open_root(&absolute)?, absolute))
}

/// Removes scratch directories left by killed probes of this user, those of `records`. A directory that cannot be
/// removed does no harm.
fn remove_abandoned(parent: &Dir, records: &ScratchRecords) -> u32 {
    let mut names = Vec::new();
    let listed = each_name(parent, |name, kind| {
        if kind == FileType::Directory && name.as_bytes().starts_with(PREFIX.as_bytes()) {
            names.push(name.clone());
        }
    });
    if listed.is_err() {
        return 0;
    }
    let removed = names.iter().filter(|name| records.remove_abandoned(parent, name).is_some());
    u32::try_from(removed.count()).unwrap_or(u32::MAX)
}

/// Whether a probe puts an entry of this name into its scratch directory.
fn is_of_probe(name: &Name) -> bool {
    name.is_reserved() || SCRATCH_NAMES.iter().any(|known| name.as_bytes() == known.as_bytes())
}

/// Longest token, in bytes.
const TOKEN_MAX: u64 = 4096;

/// Tokens of this user's scratch directories: a file for each, named as the directory.
struct ScratchRecords(PathBuf);

impl ScratchRecords {
    fn of(state_dir: &Path) -> Self {
        Self(state_dir.join("probe-scratch"))
    }

    /// Chooses a token for the directory `name`, and records it.
    fn add(&self, name: &Name) -> io::Result<String> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.0)?;
        let token = hex(&random::<16>()?);
        let mut file = File::options().write(true).create_new(true).mode(0o600).open(self.path(name))?;
        file.write_all(token.as_bytes())?;
        // The machine may lose its power before the probe ends.
        file.sync_all()?;
        Ok(token)
    }

    /// Removes the directory `name`, if this user's probe made it and no probe is using it.
    fn remove_abandoned(&self, parent: &Dir, name: &Name) -> Option<()> {
        let token = read_own(&self.path(name), OthersMay::Nothing, TOKEN_MAX).ok()?;
        let made = MadeDirectory::find(parent, name.clone(), &token)?;
        let is_own = fstat(made.fd()).ok()?.st_uid == geteuid().as_raw();
        if !is_own || flock(made.fd(), FlockOperation::NonBlockingLockExclusive).is_err() {
            return None;
        }
        made.remove(is_of_probe).ok()?;
        self.forget(name);
        Some(())
    }

    fn forget(&self, name: &Name) {
        // A record without its directory has no effect.
        let _ = fs::remove_file(self.path(name));
    }

    fn path(&self, name: &Name) -> PathBuf {
        self.0.join(OsStr::from_bytes(name.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<_> =
            fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_scratch_directory_is_removed_with_its_contents_only() {
        let [dir, state] = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        fs::write(dir.path().join("kept"), "x").unwrap();
        let scratch = ScratchDirectory::make(dir.path(), Some(state.path())).unwrap();
        assert!(scratch.path.starts_with(dir.path().canonicalize().unwrap()) && scratch.path.is_dir());
        fs::create_dir_all(scratch.path.join("whole/b/c")).unwrap();
        fs::write(scratch.path.join("whole/b/c/file"), "y").unwrap();
        fs::write(scratch.path.join("direct"), "y").unwrap();
        fs::write(scratch.path.join(".haul-0123456789abcdef01234567.part"), "y").unwrap();
        let figures = scratch.figures().unwrap();
        assert!(figures.free_bytes > 0 && figures.removed == 0, "{figures:?}");
        assert_eq!(names(&state.path().join("probe-scratch")).len(), 1);
        scratch.remove().unwrap();
        assert_eq!(names(dir.path()), ["kept"]);
        assert_eq!(names(&state.path().join("probe-scratch")), Vec::<String>::new());
    }

    /// Lets go of a scratch directory, as a probe that is killed does.
    fn kill(scratch: ScratchDirectory) -> PathBuf {
        scratch.path
    }

    #[test]
    fn a_killed_probes_remains_are_removed_and_a_running_ones_stay() {
        let [dir, state] = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let make = |path: &Path| ScratchDirectory::make(path, Some(state.path())).unwrap();
        let left = kill(make(dir.path()));
        fs::write(left.join("direct"), "zeros").unwrap();
        fs::write(dir.path().join(".haul-probe-file"), "is no directory").unwrap();
        let running = make(dir.path());
        assert_eq!(running.removed, 1);
        let next = make(&dir.path().join("file-to-be"));
        assert_eq!(next.removed, 0);
        assert_eq!(names(dir.path()).len(), 3);
        next.remove().unwrap();
        running.remove().unwrap();
        assert_eq!(names(dir.path()), [".haul-probe-file"]);
    }

    #[test]
    fn a_directory_that_merely_has_a_scratch_name_stays() {
        let [dir, state] = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let make = |state| ScratchDirectory::make(dir.path(), state).unwrap();
        // A tree that somebody renamed, also to the name of a scratch directory that there was.
        let tree = dir.path().join(".haul-probe-0123456789abcdef");
        fs::create_dir_all(tree.join("whole/theirs")).unwrap();
        let left = kill(make(Some(state.path())));
        let aside = dir.path().join("aside");
        fs::rename(&left, &aside).unwrap();
        fs::create_dir_all(left.join("whole/theirs")).unwrap();
        // A directory of another user's record, and one with something else in it.
        let foreign = kill(make(None));
        let used = kill(make(Some(state.path())));
        fs::write(used.join("notes"), "theirs").unwrap();
        let next = make(Some(state.path()));
        assert_eq!(next.removed, 0);
        assert!(tree.join("whole/theirs").exists() && left.join("whole/theirs").exists());
        assert!(foreign.exists() && used.join("notes").exists() && aside.exists());
        next.remove().unwrap();
    }

    #[test]
    fn an_unwritable_place_is_reported() {
        let absent = ScratchDirectory::make(Path::new("/nonexistent/below/file"), None).err().unwrap();
        assert!(absent.to_string().starts_with("/nonexistent/below/file: "), "{absent}");
        let proc = ScratchDirectory::make(Path::new("/proc"), None).err().unwrap();
        assert!(proc.to_string().starts_with("/proc: cannot create a directory there: "), "{proc}");
    }
}

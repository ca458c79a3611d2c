//! A file that appears complete or not at all: written under a temporary name beside it, and renamed.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{
    Access, AtFlags, FileType, FlockOperation, Mode, OFlags, Stat, accessat, fchmod, flock, fstat, openat, renameat,
    statat, unlinkat,
};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::manifest_line::{ManifestLine, is_bbcps};
use crate::output_place::OutputPlace;
use crate::own_descriptor;

/// The first line of a log.
pub const LOG_HEADER: &str = "# haul log\n";

/// Temporary files of this process that exist now.
static UNFINISHED: Unfinished = Unfinished(Mutex::new(Vec::new()));

/// Removes unfinished files, for a process about to exit.
pub fn remove_unfinished() {
    UNFINISHED.remove_all();
}

/// Temporary files, removed whenever the process ends.
struct Unfinished(Mutex<Vec<Arc<Names>>>);

/// Kinds of files that haul replaces or appends to, recognised by their beginning. Empty files, devices and FIFOs
/// qualify.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplaceableFile {
    /// Lines of digests and names.
    Checksums,
    /// A page of `--report`, `haul survey --html` or `haul sweep`.
    Page,
    /// A log of `--logfile`.
    Log,
    /// Metrics of `--metrics`.
    Metrics,
    /// Anything else; the caller has checked.
    Anything,
}

impl ReplaceableFile {
    /// Number of bytes examined in a file.
    const BEGINNING: u64 = 8192;

    /// Fails if another kind of file is at `path`, or if this user cannot replace a file there.
    pub fn check(self, path: &Path) -> io::Result<()> {
        if let Some(output) = own_descriptor::output(path) {
            return output.map(drop);
        }
        let place = OutputPlace::find(path)?;
        self.check_at(&place, |_| false)?;
        match place.stat()?.map(|stat| FileType::from_raw_mode(stat.st_mode)) {
            None | Some(FileType::RegularFile) => {
                Ok(accessat(place.dir(), ".", Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS)?)
            }
            Some(_) => Ok(()),
        }
    }

    /// Opens a file of this kind, or one whose beginning `is_other` accepts, to append to it. Creates it if there is
    /// none.
    pub fn open_to_append(self, path: &Path, is_other: impl Fn(&[u8]) -> bool) -> io::Result<File> {
        if let Some(output) = own_descriptor::output(path) {
            return Ok(output?.into());
        }
        let place = OutputPlace::find(path)?;
        self.check_at(&place, is_other)?;
        place.open(OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE)
    }

    fn check_at(self, place: &OutputPlace, is_other: impl Fn(&[u8]) -> bool) -> io::Result<()> {
        let has_content = |stat: Stat| FileType::from_raw_mode(stat.st_mode).is_file() && stat.st_size > 0;
        if self == Self::Anything || !place.stat()?.is_some_and(has_content) {
            return Ok(());
        }
        let mut beginning = Vec::new();
        place.open(OFlags::RDONLY | OFlags::NONBLOCK)?.take(Self::BEGINNING).read_to_end(&mut beginning)?;
        if self.has_made(&beginning) || is_other(&beginning) {
            return Ok(());
        }
        let what = match self {
            Self::Page => "not a page of haul",
            Self::Log => "not a log of haul",
            Self::Metrics => "not a file of haul's metrics",
            Self::Checksums | Self::Anything => "not a list of checksums",
        };
        Err(io::Error::other(format!("already exists and is {what}\nuse a new file, or delete this one")))
    }

    fn has_made(self, beginning: &[u8]) -> bool {
        let first = beginning.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let is_log = first == LOG_HEADER.trim_end().as_bytes();
        match self {
            Self::Checksums => ManifestLine::parse(first).is_some() || is_bbcps(first),
            Self::Page => {
                first.starts_with(b"# haul") && !is_log || beginning.windows(11).any(|text| text == b"<title>haul")
            }
            Self::Log => is_log,
            Self::Metrics => first.starts_with(b"# HELP haul_copy_"),
            Self::Anything => true,
        }
    }
}

/// A file under a temporary name; removed unless published. A device keeps its name.
pub struct Pending {
    file: File,
    names: Option<Arc<Names>>,
}

/// The final place, and the temporary name beside it.
struct Names {
    place: OutputPlace,
    temporary: String,
}

impl Pending {
    /// Creates a temporary file for `to`. An existing file keeps its contents until the end. The destination of a link
    /// is replaced, not the link; a device is written to.
    pub fn create(to: &Path, own: ReplaceableFile) -> io::Result<Self> {
        if let Some(output) = own_descriptor::output(to) {
            return Ok(Self { file: output?.into(), names: None });
        }
        let place = OutputPlace::find(to)?;
        own.check_at(&place, |_| false)?;
        match place.stat()?.map(|stat| FileType::from_raw_mode(stat.st_mode)) {
            None | Some(FileType::RegularFile) => Self::beside(place),
            Some(FileType::Directory) => Err(io::ErrorKind::IsADirectory.into()),
            Some(_) => Ok(Self { file: place.open(OFlags::WRONLY)?, names: None }),
        }
    }

    fn beside(place: OutputPlace) -> io::Result<Self> {
        let temporary = temporary_name(place.name());
        let names = Names { place, temporary };
        names.remove_stale()?;
        let mut unfinished = UNFINISHED.lock();
        let file = names.open(OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL)?;
        let names = Arc::new(names);
        unfinished.push(Arc::clone(&names));
        drop(unfinished);
        let pending = Self { file, names: Some(names) };
        match flock(&pending.file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::AGAIN) => Err(taken()),
            // Without locks, concurrent runs are not detected.
            _ => Ok(pending),
        }
    }

    /// The output.
    pub fn writer(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Publishes the file.
    pub fn publish(mut self) -> io::Result<()> {
        let Some(names) = &self.names else { return Ok(()) };
        self.file.sync_all()?;
        let mut unfinished = UNFINISHED.lock();
        if !names.are_of(&self.file) {
            return Err(io::Error::other("its temporary file was deleted"));
        }
        // Some file systems have no modes.
        let _ = fchmod(&self.file, Mode::from_raw_mode(0o666).difference(umask()));
        let dir = names.place.dir();
        renameat(dir, &*names.temporary, dir, names.place.name())?;
        unfinished.retain(|other| !Arc::ptr_eq(other, names));
        self.names = None;
        Ok(())
    }
}

impl Names {
    /// Whether the temporary name still refers to this file.
    fn are_of(&self, file: &File) -> bool {
        let there = statat(self.place.dir(), &*self.temporary, AtFlags::SYMLINK_NOFOLLOW);
        let (Ok(ours), Ok(there)) = (fstat(file), there) else { return false };
        (ours.st_dev, ours.st_ino) == (there.st_dev, there.st_ino)
    }

    fn open(&self, flags: OFlags) -> io::Result<File> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        // Others could lock a file that they can read.
        Ok(openat(self.place.dir(), &*self.temporary, flags, Mode::RUSR | Mode::WUSR)?.into())
    }

    fn remove(&self) -> io::Result<()> {
        Ok(unlinkat(self.place.dir(), &*self.temporary, AtFlags::empty())?)
    }

    /// Removes the remains of a killed run. Fails for another run's active file, and for an entry that is not a file.
    fn remove_stale(&self) -> io::Result<()> {
        let Ok(file) = self.open(OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY) else { return Ok(()) };
        if !file.metadata()?.is_file() {
            return Ok(());
        }
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::AGAIN) if is_private(&file)? => Err(taken()),
            _ => self.remove(),
        }
    }
}

/// Whether only this user can lock the file.
fn is_private(file: &File) -> io::Result<bool> {
    let stat = fstat(file)?;
    Ok(stat.st_uid == geteuid().as_raw() && stat.st_mode & 0o077 == 0)
}

/// The mask of new files (proc_pid_status(5)), without setting it.
fn umask() -> Mode {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    let mask = mask.and_then(|mask| u32::from_str_radix(mask.trim(), 8).ok());
    Mode::from_raw_mode(mask.unwrap_or(0o077))
}

impl Drop for Pending {
    fn drop(&mut self) {
        let Some(names) = &self.names else { return };
        if UNFINISHED.forget(names) && names.are_of(&self.file) {
            let _ = names.remove();
        }
    }
}

impl Unfinished {
    /// Forgets a file; returns whether it was there.
    fn forget(&self, names: &Arc<Names>) -> bool {
        let mut all = self.lock();
        let before = all.len();
        all.retain(|other| !Arc::ptr_eq(other, names));
        all.len() < before
    }

    fn remove_all(&self) {
        for names in std::mem::take(&mut *self.lock()) {
            let _ = names.remove();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Names>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The temporary name: constant, so that the next run finds the remains of a killed one, and in the form that copies
/// exclude.
fn temporary_name(name: &OsStr) -> String {
    let digest = blake3::Hasher::new().update(b"checksums\0").update(name.as_bytes()).finalize();
    format!(".haul-{}.part", &digest.to_hex()[..24])
}

fn taken() -> io::Error {
    io::Error::other("another haul is writing it\nwait for that, or use another file")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::os::unix::fs::{FileTypeExt, PermissionsExt};
    use std::path::PathBuf;

    use super::*;

    fn write(to: &Path, content: &str) -> io::Result<Pending> {
        let pending = Pending::create(to, ReplaceableFile::Anything)?;
        pending.writer()?.write_all(content.as_bytes())?;
        Ok(pending)
    }

    fn here(dir: &tempfile::TempDir) -> (PathBuf, PathBuf) {
        let to = dir.path().join("sums");
        let temporary = dir.path().join(temporary_name(OsStr::new("sums")));
        (to, temporary)
    }

    #[test]
    fn a_file_appears_complete_and_replaces_the_old_one() {
        let dir = tempfile::tempdir().unwrap();
        let (to, _) = here(&dir);
        fs::write(&to, "old").unwrap();
        let pending = write(&to, "new").unwrap();
        assert_eq!(fs::read_to_string(&to).unwrap(), "old");
        pending.publish().unwrap();
        assert_eq!(fs::read_to_string(&to).unwrap(), "new");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn only_hauls_own_files_are_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let digest = "ab".repeat(32);
        for (content, checksums, page, log) in [
            ("", true, true, true),
            (&format!("{digest}  name\n"), true, false, false),
            (&format!("\\{digest}  na\\nme\n"), true, false, false),
            ("md5: d41d8cd98f00b204e9800998ecf8427e name\n", true, false, false),
            ("# haul: a to b\n", false, true, false),
            ("<!doctype html>\n<title>haul: a to b</title>", false, true, false),
            ("# haul log\nnoon\n", false, false, true),
            ("a file of the source\n", false, false, false),
            ("<!doctype html>\n<title>the page of somebody else</title>", false, false, false),
        ] {
            fs::write(&path, content).unwrap();
            let found = [ReplaceableFile::Checksums, ReplaceableFile::Page, ReplaceableFile::Log]
                .map(|own| own.check(&path).is_ok());
            assert_eq!(found, [checksums, page, log], "{content:?}");
        }
        assert!(
            ReplaceableFile::Page.check(&dir.path().join("missing")).is_ok()
                && ReplaceableFile::Page.check(Path::new("/dev/null")).is_ok()
        );
    }

    #[test]
    fn an_unfinished_file_leaves_no_trace() {
        let dir = tempfile::tempdir().unwrap();
        drop(write(&here(&dir).0, "half").unwrap());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_killed_runs_file_is_replaced_and_a_running_ones_is_not_disturbed() {
        let dir = tempfile::tempdir().unwrap();
        let (to, temporary) = here(&dir);
        fs::write(&temporary, "left").unwrap();
        let pending = write(&to, "new").unwrap();
        let error = Pending::create(&to, ReplaceableFile::Anything).err().unwrap().to_string();
        assert!(error.starts_with("another haul is writing it"), "{error}");
        pending.publish().unwrap();
        assert_eq!(fs::read_to_string(&to).unwrap(), "new");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_lock_of_another_user_stops_no_output() {
        let dir = tempfile::tempdir().unwrap();
        let (to, temporary) = here(&dir);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        fs::write(&temporary, "left").unwrap();
        fs::set_permissions(&temporary, fs::Permissions::from_mode(0o644)).unwrap();
        let reader = File::open(&temporary).unwrap();
        flock(&reader, FlockOperation::NonBlockingLockExclusive).unwrap();
        let pending = write(&to, "new").unwrap();
        assert_eq!(mode(&temporary), 0o600, "nobody else can open it");
        pending.publish().unwrap();
        fs::write(dir.path().join("other"), "").unwrap();
        assert_eq!(mode(&to), mode(&dir.path().join("other")));
    }

    #[test]
    fn a_planted_file_does_not_get_the_name() {
        let dir = tempfile::tempdir().unwrap();
        let (to, temporary) = here(&dir);
        let pending = write(&to, "new").unwrap();
        fs::remove_file(&temporary).unwrap();
        fs::write(&temporary, "theirs").unwrap();
        assert!(pending.publish().is_err());
        assert!(!to.exists() && temporary.exists());
    }

    #[test]
    fn foreign_files_stay() {
        let dir = tempfile::tempdir().unwrap();
        let (to, temporary) = here(&dir);
        fs::write(dir.path().join("other"), "other").unwrap();
        std::os::unix::fs::symlink("other", &temporary).unwrap();
        assert!(Pending::create(&to, ReplaceableFile::Anything).is_err());
        assert!(fs::symlink_metadata(&temporary).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(dir.path().join("other")).unwrap(), "other");
    }

    #[test]
    fn a_process_ending_early_removes_its_files() {
        let dir = tempfile::tempdir().unwrap();
        let begun = dir.path().join("begun");
        fs::write(&begun, "").unwrap();
        let place = OutputPlace::find(&dir.path().join("to")).unwrap();
        let unfinished = Unfinished(Mutex::new(vec![Arc::new(Names { place, temporary: "begun".into() })]));
        unfinished.remove_all();
        assert!(!begun.exists() && unfinished.lock().is_empty());
        let pending = write(&here(&dir).0, "").unwrap();
        let names = Arc::clone(pending.names.as_ref().unwrap());
        let is_known = || UNFINISHED.lock().iter().any(|other| Arc::ptr_eq(other, &names));
        assert!(is_known());
        drop(pending);
        assert!(!is_known() && !here(&dir).1.exists());
    }

    #[test]
    fn a_device_stays_a_device_and_a_link_a_link() {
        write(Path::new("/dev/null"), "a").unwrap().publish().unwrap();
        assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("real"), "old").unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("real", &link).unwrap();
        write(&link, "").unwrap().publish().unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(dir.path().join("real")).unwrap(), "");
    }

    #[test]
    fn an_unwritable_place_is_known_first() {
        assert!(Pending::create(Path::new("/nonexistent/sums"), ReplaceableFile::Checksums).is_err());
        assert!(Pending::create(Path::new("/"), ReplaceableFile::Checksums).is_err());
    }
}

//! A file that appears complete or not at all: written under a temporary name beside it, and renamed.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;

use crate::manifest::line::{ManifestLine, is_bbcps};

/// The first line of a log.
pub const LOG_HEADER: &str = "# haul log\n";

/// Temporary files of this process that exist now.
static UNFINISHED: Unfinished = Unfinished(Mutex::new(BTreeSet::new()));

/// Removes unfinished files, for a process about to exit.
pub fn remove_unfinished() {
    UNFINISHED.remove_all();
}

/// Temporary files, removed whenever the process ends.
struct Unfinished(Mutex<BTreeSet<PathBuf>>);

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

    /// Fails if another kind of file is at `path`.
    pub fn check(self, path: &Path) -> io::Result<()> {
        let has_content = fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() > 0);
        if self == Self::Anything || !has_content {
            return Ok(());
        }
        let mut beginning = Vec::new();
        File::open(path)?.take(Self::BEGINNING).read_to_end(&mut beginning)?;
        if self.has_made(&beginning) {
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
            Self::Metrics => first.starts_with(b"# HELP haul_job_"),
            Self::Anything => true,
        }
    }
}

/// A file under a temporary name; removed unless published. A device keeps its name.
pub struct Pending {
    file: File,
    names: Option<Names>,
}

struct Names {
    temporary: PathBuf,
    target: PathBuf,
}

impl Pending {
    /// Creates a temporary file for `to`. An existing file keeps its contents until the end. The destination of a link
    /// is replaced, not the link; a device is written to.
    pub fn create(to: &Path, own: ReplaceableFile) -> io::Result<Self> {
        own.check(to)?;
        let target = fs::canonicalize(to).unwrap_or_else(|_| to.to_owned());
        match fs::metadata(&target) {
            Ok(there) if there.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
            Ok(there) if !there.is_file() => {
                Ok(Self { file: OpenOptions::new().write(true).open(&target)?, names: None })
            }
            _ => Self::beside(target),
        }
    }

    fn beside(target: PathBuf) -> io::Result<Self> {
        let temporary = target.with_file_name(temporary_name(&target)?);
        remove_stale(&temporary)?;
        let mut unfinished = UNFINISHED.lock();
        let file = OpenOptions::new().write(true).create_new(true).open(&temporary)?;
        unfinished.insert(temporary.clone());
        drop(unfinished);
        let pending = Self { file, names: Some(Names { temporary, target }) };
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
        let Some(Names { temporary, target }) = &self.names else { return Ok(()) };
        self.file.sync_all()?;
        let mut unfinished = UNFINISHED.lock();
        if !is_there(&self.file, temporary) {
            return Err(io::Error::other("its temporary file was deleted"));
        }
        fs::rename(temporary, target)?;
        unfinished.remove(temporary);
        self.names = None;
        Ok(())
    }
}

/// Whether a temporary name still refers to this file.
fn is_there(file: &File, temporary: &Path) -> bool {
    let (Ok(ours), Ok(there)) = (file.metadata(), fs::symlink_metadata(temporary)) else { return false };
    (ours.dev(), ours.ino()) == (there.dev(), there.ino())
}

impl Drop for Pending {
    fn drop(&mut self) {
        let Some(Names { temporary, .. }) = &self.names else { return };
        if UNFINISHED.lock().remove(temporary) && is_there(&self.file, temporary) {
            let _ = fs::remove_file(temporary);
        }
    }
}

impl Unfinished {
    fn remove_all(&self) {
        for path in std::mem::take(&mut *self.lock()) {
            let _ = fs::remove_file(path);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<PathBuf>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The temporary name: constant, so that the next run finds the remains of a killed one, and in the form that copies
/// exclude.
fn temporary_name(target: &Path) -> io::Result<String> {
    let name = target.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let digest = blake3::Hasher::new().update(b"checksums\0").update(name.as_bytes()).finalize();
    Ok(format!(".haul-{}.part", &digest.to_hex()[..24]))
}

/// Removes the remains of a killed run. Fails for another run's active file, and for an entry that is not a file.
fn remove_stale(temporary: &Path) -> io::Result<()> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY).bits();
    let opened = OpenOptions::new().read(true).custom_flags(flags.cast_signed()).open(temporary);
    let Ok(file) = opened else { return Ok(()) };
    if !file.metadata()?.is_file() {
        return Ok(());
    }
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::AGAIN) => Err(taken()),
        _ => fs::remove_file(temporary),
    }
}

fn taken() -> io::Error {
    io::Error::other("another haul is writing it\nwait for that, or use another file")
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::FileTypeExt;

    use super::*;

    fn write(to: &Path, content: &str) -> io::Result<Pending> {
        let pending = Pending::create(to, ReplaceableFile::Anything)?;
        pending.writer()?.write_all(content.as_bytes())?;
        Ok(pending)
    }

    fn here(dir: &tempfile::TempDir) -> (PathBuf, PathBuf) {
        let to = dir.path().join("sums");
        let temporary = dir.path().join(temporary_name(&to).unwrap());
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
        let unfinished = Unfinished(Mutex::new([begun.clone()].into()));
        unfinished.remove_all();
        assert!(!begun.exists() && unfinished.lock().is_empty());
        let (to, temporary) = here(&dir);
        let pending = write(&to, "").unwrap();
        assert!(UNFINISHED.lock().contains(&temporary));
        drop(pending);
        assert!(!UNFINISHED.lock().contains(&temporary) && !temporary.exists());
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

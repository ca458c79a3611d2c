//! A file system in memory with a configured delay: a slow disk or a remote file server, from a program's view.
//!
//! The kernel sends every request to this process (FUSE, `/dev/fuse`), and caches no names or attributes. The process
//! does the work at once, and delays its reply: until a disk of this rate would have finished all earlier requests,
//! plus the latency. As at a real disk, many requests can wait at once. Needs root.

mod later;
mod memory;
mod serve;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use fuser::{BackgroundSession, MountOption};

/// How slow it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Slowness {
    /// Bytes read and written a second, together; none for the speed of memory.
    pub bytes_per_s: Option<u64>,
    /// Additional latency of each read and write. Latencies overlap.
    pub latency: Duration,
    /// Latency of each lookup and of each change of a name or attributes. Latencies overlap.
    pub names: Duration,
}

/// Deviations from an ordinary file system, as real ones have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Oddities {
    /// New entries belong to this user, whoever makes them: NFS with root_squash, `uid=`.
    pub owner: Option<u32>,
    /// All files and directories show this mode, and take none: exFAT.
    pub shown_mode: Option<u32>,
    /// A change of only one of the two times has no effect: libfuse 2.
    pub drops_single_times: bool,
    /// Symbolic links lead to an empty path: some network file systems.
    pub empty_links: bool,
    /// Names that differ only in the case of ASCII letters are one.
    pub folds: bool,
    /// Directories list each name twice: NFS while a directory changes.
    pub lists_twice: bool,
    /// Files have layouts, as on Lustre.
    pub layouts: Option<Layouts>,
}

/// What becomes of a layout that is set, in the attribute `lustre.lov`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layouts {
    /// A file without objects takes it. Others ignore it without an error, as Lustre's clients do.
    Settable,
    /// Every file refuses it.
    Refused,
}

/// A mounted file system; gone with this value, and all that is in it.
#[derive(Debug)]
pub struct SlowFs {
    place: PathBuf,
    slowness: Arc<Mutex<Slowness>>,
    session: Option<BackgroundSession>,
}

impl SlowFs {
    /// Mounts an empty file system on an empty directory, without a delay at first.
    pub fn mount(place: impl Into<PathBuf>) -> Result<Self> {
        Self::mount_odd(place, Oddities::default())
    }

    /// The same with deviations.
    pub fn mount_odd(place: impl Into<PathBuf>, oddities: Oddities) -> Result<Self> {
        let place = place.into();
        let slowness = Arc::new(Mutex::new(Slowness::default()));
        let options = [MountOption::FSName("haul-slow".to_owned()), MountOption::DefaultPermissions];
        let serving = serve::KernelFs::start(slowness.clone(), oddities)?;
        let session = fuser::spawn_mount2(serving, &place, &options)
            .with_context(|| format!("mounting a FUSE file system on {place:?} (needs root and /dev/fuse)"))?;
        Ok(Self { place, slowness, session: Some(session) })
    }

    /// Whether this user and this machine can have one, for tests that would rather be skipped (loudly).
    pub fn available() -> bool {
        rustix::process::geteuid().is_root() && Path::new("/dev/fuse").exists()
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        &self.place
    }

    /// From now on it is as slow as this.
    pub fn set(&self, slowness: Slowness) {
        *self.slowness.lock().unwrap_or_else(PoisonError::into_inner) = slowness;
    }
}

impl Drop for SlowFs {
    fn drop(&mut self) {
        // Lazily: a process with an open file does not block the caller.
        let mut unmount = Command::new("umount");
        let _ = unmount.arg("--lazy").arg(&self.place).stdin(Stdio::null()).stderr(Stdio::null()).status();
        drop(self.session.take());
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Instant;

    use super::*;

    fn mounted() -> Option<(tempfile::TempDir, SlowFs)> {
        if !SlowFs::available() {
            println!("SKIPPED: a FUSE file system needs root and /dev/fuse");
            return None;
        }
        let directory = tempfile::tempdir().expect("a temporary directory");
        let mounted = SlowFs::mount(directory.path()).expect("it can be mounted");
        Some((directory, mounted))
    }

    fn timed<T>(work: impl FnOnce() -> T) -> Duration {
        let begun = Instant::now();
        work();
        begun.elapsed()
    }

    #[test]
    fn it_is_an_ordinary_file_system() {
        let Some((_directory, slow)) = mounted() else { return };
        let at = |name: &str| slow.path().join(name);
        fs::create_dir(at("d")).expect("mkdir");
        fs::write(at("d/f"), "hello").expect("create and write");
        fs::rename(at("d/f"), at("g")).expect("rename");
        fs::hard_link(at("g"), at("h")).expect("link");
        std::os::unix::fs::symlink("g", at("l")).expect("symlink");
        assert_eq!(fs::read(at("l")).expect("read"), b"hello");
        let names = |place: &Path| {
            let mut names: Vec<_> = fs::read_dir(place).expect("readdir").flatten().map(|it| it.file_name()).collect();
            names.sort();
            names
        };
        assert_eq!(names(slow.path()), ["d", "g", "h", "l"]);
        fs::remove_file(at("g")).expect("unlink");
        fs::File::options().write(true).open(at("h")).and_then(|file| file.set_len(2)).expect("truncate");
        assert_eq!(fs::read(at("h")).expect("read"), b"he");
        fs::remove_dir(at("d")).expect("rmdir");
        assert_eq!(names(slow.path()), ["h", "l"]);
        assert_eq!(fs::read(at("d")).expect_err("it is gone").kind(), std::io::ErrorKind::NotFound);
        for count in [1, 2000] {
            (0..count).for_each(|n| fs::write(at(&format!("many-{n}")), "").expect("create"));
        }
        assert_eq!(names(slow.path()).len(), 2002, "a long listing comes in pieces");
    }

    #[test]
    fn the_delay_matches_the_settings() {
        let Some((_directory, slow)) = mounted() else { return };
        let file = slow.path().join("file");
        fs::write(&file, vec![7; 4_000_000]).expect("it is not slow yet");
        slow.set(Slowness { bytes_per_s: Some(10_000_000), ..Slowness::default() });
        let read = timed(|| fs::read(&file).expect("it is there"));
        let written = timed(|| fs::write(slow.path().join("other"), vec![7; 4_000_000]).expect("written"));
        for took in [read, written] {
            assert!(took > Duration::from_millis(350), "4 MB at 10 MB/s took {took:?}");
        }
        slow.set(Slowness { names: Duration::from_millis(20), ..Slowness::default() });
        let looked = timed(|| (0..10).all(|_| fs::metadata(&file).is_ok()));
        assert!(looked > Duration::from_millis(200), "10 lookups of 20 ms took {looked:?}");
    }
}

//! Small helpers for the tests of this module.

use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use haul_base::copy::spec::Symlinks;
use haul_base::sys::cancel::Cancel;
use haul_proto::path::Name;
use rustix::fs::{AtFlags, Mode, OFlags, mkdirat, openat, unlinkat};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

use super::{Dir, Prefetcher, SpecialFiles, WalkEntry, WalkOptions, Walker};

/// Options for everything, with links as links.
pub const KEEP: WalkOptions = WalkOptions {
    recursive: true,
    symlinks: Symlinks::Keep,
    skip: None,
    one_file_system: false,
    is_filtered: false,
    nodes: SpecialFiles { devices: false, specials: false },
    only_counts_files: false,
};

/// Prefetch workers that are always used.
pub fn eager(options: WalkOptions) -> Prefetcher {
    Prefetcher::always(options, Cancel::new())
}

/// Walks without prefetch workers and with `ahead`, for tests of both.
pub fn both<'a>(root: &Dir, ahead: &'a Prefetcher) -> [Walker<'a>; 2] {
    [Walker::new(root.clone(), ahead.options()), Walker::prefetched(root.clone(), ahead)]
}

/// Time limit of a test that would hang if the tested code were broken: far more than it needs on a busy machine.
const TEST_TIMEOUT: Duration = Duration::from_secs(300);

/// A temporary directory that is removed at any depth, also if a test fails.
pub struct DeepTemp(tempfile::TempDir);

impl DeepTemp {
    /// One on tmpfs for full sizes, and one on the slower disk with a divisor for sizes.
    pub fn both() -> Vec<(Self, usize)> {
        let disk = Self(tempfile::tempdir().unwrap());
        match Path::new("/dev/shm").is_dir() {
            true => vec![(Self(tempfile::tempdir_in("/dev/shm").unwrap()), 1), (disk, 5)],
            false => vec![(disk, 1)],
        }
    }

    /// Its directory.
    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for DeepTemp {
    fn drop(&mut self) {
        let Ok(root) = Dir::open_root(self.path()) else { return };
        for item in Walker::new(root, KEEP) {
            let (dir, name, flags) = match &item {
                WalkEntry::File { parent, name, .. } | WalkEntry::Symlink { parent, name, .. } => {
                    (parent, name, AtFlags::empty())
                }
                WalkEntry::LeaveDir { dir, .. } => match (dir.parent(), dir.name()) {
                    (Some(parent), Some(name)) => (parent, name, AtFlags::REMOVEDIR),
                    _ => continue,
                },
                _ => continue,
            };
            // The temporary directory's own Drop removes the rest.
            let _ = dir.fd().map(|fd| unlinkat(&*fd, name.as_bytes(), flags));
        }
    }
}

/// Runs a test in a thread, with a time limit.
pub fn in_time<T: Send + 'static>(test: impl FnOnce() -> T + Send + 'static) -> T {
    in_time_of(TEST_TIMEOUT, test)
}

/// Runs a test in a thread with this time limit.
pub fn in_time_of<T: Send + 'static>(limit: Duration, test: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, outcome) = channel();
    let thread = std::thread::spawn(move || {
        let result = test();
        let _ = done.send(());
        result
    });
    match outcome.recv_timeout(limit) {
        Err(RecvTimeoutError::Timeout) => panic!("took longer than {limit:?}"),
        // Disconnected: propagate its panic.
        _ => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
    }
}

/// A name from valid bytes.
pub fn name(bytes: impl AsRef<[u8]>) -> Name {
    Name::new(bytes.as_ref()).expect("a valid name")
}

/// Creates the directory `child` in `dir`, and opens it.
pub fn make_dir(dir: &Dir, child: impl AsRef<[u8]>) -> Dir {
    let child = name(child);
    mkdirat(&*dir.fd().unwrap(), child.as_bytes(), Mode::RWXU).unwrap();
    dir.child(&child).unwrap()
}

/// Creates the file `child` in `dir`.
pub fn write_file(dir: &Dir, child: impl AsRef<[u8]>, content: &[u8]) {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let fd = openat(&*dir.fd().unwrap(), child.as_ref(), flags, Mode::RUSR | Mode::WUSR).unwrap();
    if !content.is_empty() {
        assert_eq!(rustix::io::write(&fd, content).unwrap(), content.len());
    }
}

/// Renames within `base`.
pub fn rename(base: &Path, from: &str, to: &str) {
    std::fs::rename(base.join(from), base.join(to)).unwrap();
}

/// Runs `work` in a thread without capabilities, also if the tests run as root.
pub fn without_capabilities<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let work = move || {
        let mut sets = capabilities(None).unwrap();
        sets.effective = CapabilitySet::empty();
        set_capabilities(None, sets).unwrap();
        work()
    };
    std::thread::spawn(work).join().unwrap()
}

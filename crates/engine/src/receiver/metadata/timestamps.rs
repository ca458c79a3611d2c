//! Compares times at the target with the source's, within the precision of the file system. Each file system is tested
//! once: a time is set on a nameless file and read back.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

use haul_base::sys::sync::lock;
use haul_proto::entry::Timestamp;
use haul_proto::path::Name;
use haul_proto::timestamps::{PROBE, TimeGranularity, is_within, looks_stored, may_be_stored};
use rustix::fs::{AtFlags, Mode, OFlags, fstat, futimens, openat, unlinkat};

use crate::fs::meta::both_times;
use crate::fs::{Dir, FileStat};
use crate::receiver::metadata::MetadataWriter;
use crate::receiver::place::temp_names::temporary_name;

/// Most remembered file systems.
const FILE_SYSTEMS_MAX: usize = 64;

/// Clocks of the target's file systems, by device. `None` if no file can be created there.
#[derive(Default)]
pub struct TargetTimestamps(Mutex<HashMap<u64, Option<Arc<FileSystemClock>>>>);

/// The timestamp precision of a file system.
pub(super) struct FileSystemClock {
    granularity: TimeGranularity,
    /// A nameless file for tests.
    file: OwnedFd,
}

impl FileSystemClock {
    /// Tests the file system of a directory.
    fn ask(dir: &Dir) -> io::Result<Self> {
        let file = nameless(dir)?;
        let granularity = TimeGranularity::of(read_back(&file, PROBE)?);
        Ok(Self { granularity, file })
    }

    /// The nameless file.
    pub(super) fn file(&self) -> &OwnedFd {
        &self.file
    }

    fn stored(&self, time: Timestamp) -> io::Result<Timestamp> {
        self.granularity.stored(time).map_or_else(|| read_back(&self.file, time), Ok)
    }
}

impl MetadataWriter {
    /// Whether the time of an entry in `dir`, or of `dir` itself, is the source's: equal, within `--modify-window`, or
    /// rounded by the file system.
    pub(crate) fn is_same_time(&self, dir: &Dir, time: Timestamp, there: &FileStat) -> bool {
        let found = there.meta.modified;
        let window_s = self.copy.request.sync.modify_window_s;
        if found == time || window_s.is_some_and(|window_s| is_within(window_s, time, found)) {
            return true;
        }
        if !may_be_stored(time, found) {
            return false;
        }
        match self.clock_to_test(dir).map(|clock| clock.stored(time)) {
            Some(Ok(stored)) => stored == found,
            Some(Err(_)) | None => looks_stored(time, found, there.changed),
        }
    }

    /// The clock of the file system of `dir`, whose nameless file serves for other tests too. `None` where nothing may
    /// be created.
    pub(super) fn clock_to_test(&self, dir: &Dir) -> Option<Arc<FileSystemClock>> {
        if self.copy.is_dry() || self.copy.compares() { None } else { self.clock(dir) }
    }

    fn clock(&self, dir: &Dir) -> Option<Arc<FileSystemClock>> {
        let mut known = lock(&self.timestamps.0);
        let device = dir.identity().device;
        if let Some(clock) = known.get(&device) {
            return clock.clone();
        }
        if known.len() >= FILE_SYSTEMS_MAX {
            known.clear();
        }
        let clock = FileSystemClock::ask(dir).ok().map(Arc::new);
        known.insert(device, clock.clone());
        clock
    }
}

/// Creates a file without a name, or unlinks a new one if the file system does not support that.
fn nameless(dir: &Dir) -> io::Result<OwnedFd> {
    let (dir, mode) = (dir.fd()?, Mode::RUSR | Mode::WUSR);
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    if let Ok(file) = openat(&*dir, c".", flags | OFlags::TMPFILE, mode) {
        return Ok(file);
    }
    // Private to this process: two runs may test at once.
    let own = Name::new(b"time").map_err(io::Error::other)?;
    let name = temporary_name(&own, &std::process::id().to_le_bytes());
    let _ = unlinkat(&*dir, name.as_bytes(), AtFlags::empty());
    let file = openat(&*dir, name.as_bytes(), flags | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW, mode)?;
    unlinkat(&*dir, name.as_bytes(), AtFlags::empty())?;
    Ok(file)
}

fn read_back(file: &OwnedFd, time: Timestamp) -> io::Result<Timestamp> {
    futimens(file, &both_times(&fstat(file)?, time)?)?;
    Ok(FileStat::at_fd(file)?.meta.modified)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_systems_clock_is_measured_without_leftovers() {
        let temp = tempfile::tempdir().unwrap();
        let dir = Dir::open_root(temp.path()).unwrap();
        let clock = FileSystemClock::ask(&dir).unwrap();
        let time = Timestamp { seconds: -5, nanoseconds: 7 };
        let file = std::fs::File::create(temp.path().join("file")).unwrap();
        assert_eq!(clock.stored(time).unwrap(), read_back(&file.into(), time).unwrap());
        assert_eq!(clock.stored(PROBE).unwrap(), read_back(&clock.file, PROBE).unwrap());
        std::fs::remove_file(temp.path().join("file")).unwrap();
        assert_eq!(std::fs::read_dir(temp.path()).unwrap().count(), 0);
    }
}

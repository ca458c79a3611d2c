//! Other runs in the same destination: detected by a lock (flock(2)), waited for while they progress, and named.
//!
//! A run locks each temporary file that it writes ([`crate::receiver::place::temp_files`]), and the directories of its
//! source arguments ([`crate::receiver::place::directory_locks`]). Other users can open none of these files. The kernel
//! releases the locks when the process ends, for whatever reason.

use std::os::fd::OwnedFd;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use haul_base::sys::sync::lock;
use haul_proto::wire::resource_metrics::Stage;
use rustix::fs::{FlockOperation, flock, fstat};
use rustix::io::Errno;

use crate::fs::{Dir, FileIdentity};
use crate::metrics::stage_timer::during;
use crate::receiver::place::directory_locks::{DirectoryLock, DirectoryLocks};
use crate::receiver::place::error::{FileError, OtherRun};
use crate::sys::confine::ConfineBounds;
use crate::sys::lock_holder::LockTable;

/// Longest wait of a copy for other runs without progress: a worker whose controller was killed needs a moment to notice.
const PATIENCE: Duration = Duration::from_secs(5);
/// The same limit after an attempt with a lost connection. Its worker ends after the idle timeout, and the kernel
/// releases its files after their last write.
const PATIENCE_AGAIN: Duration = Duration::from_secs(20);
/// Wait before the report: other runs often end quickly.
const SILENT_WAIT: Duration = Duration::from_millis(300);
/// Interval between attempts.
const CHECK_EVERY: Duration = Duration::from_millis(50);
/// Most directories locked by a copy. The first alone excludes another run of the same copy.
const DIRECTORIES_HELD_MAX: usize = 64;

/// A locked entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockedEntry {
    /// A temporary file that may be resumed.
    File,
    /// A temporary file that is created after the decision to transfer it. A run that completes it makes the decision
    /// obsolete, so its progress extends no wait.
    NewFile,
    /// The directory of a source argument.
    Directory,
}

/// What changes while the holder writes the file, or marks its progress.
fn last_write(file: &OwnedFd) -> Option<(i64, i64, u64)> {
    let found = fstat(file).ok()?;
    Some((found.st_mtime, i64::try_from(found.st_mtime_nsec).ok()?, u64::try_from(found.st_blocks).ok()?))
}

/// The message while waiting.
fn wait_text(run: OtherRun, locked: LockedEntry) -> String {
    let what = match locked {
        LockedEntry::File | LockedEntry::NewFile => "writes the same file",
        LockedEntry::Directory => "copies into the same directory",
    };
    match run.process {
        Some(process) => format!("waiting for haul {process}, which {what}"),
        None => format!("waiting for another haul, which {what}"),
    }
}

/// The message when an attempt ends.
fn lost_text(run: OtherRun, locked: LockedEntry) -> String {
    match locked {
        LockedEntry::File | LockedEntry::NewFile => format!("{run} is writing a file of this copy"),
        LockedEntry::Directory => format!("{run} is copying into a directory of this copy"),
    }
}

/// Events to report about other runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LockEvent {
    /// The copy waits for another run. Reported once in a copy.
    Waits(String),
    /// A repeated attempt waited in vain, often for the worker of the previous one. Only a later attempt can continue.
    Lost(String),
}

/// Locks of a copy, and its waits for other runs.
pub struct CopyLocks {
    patience: Duration,
    /// An earlier attempt of this copy has been made.
    is_again: bool,
    report: Box<dyn Fn(LockEvent) + Send + Sync>,
    table: LockTable,
    /// Without it, no directory is locked.
    directories: Option<DirectoryLocks>,
    state: Mutex<JobLockState>,
    over: Condvar,
}

#[derive(Default)]
struct JobLockState {
    /// Start of the first wait.
    since: Option<Instant>,
    /// The last progress of a run that was waited for.
    progressed: Option<Instant>,
    /// The wait was reported.
    is_told: bool,
    /// The copy is over, so waits end.
    closed: bool,
    /// Directories locked by this copy.
    held: Vec<(FileIdentity, Option<DirectoryLock>)>,
    /// The run that holds a directory needed by this copy.
    lost_to: Option<OtherRun>,
}

impl CopyLocks {
    /// For a copy that starts, or restarts with `again`; `report` informs its controller.
    pub fn new(
        again: bool,
        directories: Option<DirectoryLocks>,
        report: impl Fn(LockEvent) + Send + Sync + 'static,
    ) -> Self {
        let patience = if again { PATIENCE_AGAIN } else { PATIENCE };
        Self { is_again: again, report: Box::new(report), directories, ..Self::with_patience(patience) }
    }

    /// For waits of this length, without reports and locks of directories.
    pub fn with_patience(patience: Duration) -> Self {
        let report = Box::new(|_| {});
        Self {
            patience,
            is_again: false,
            report,
            table: LockTable::open(),
            directories: None,
            state: Mutex::default(),
            over: Condvar::new(),
        }
    }

    /// Locks a file or directory. Waits as long as the holder progresses, and for the copy's limit without progress. The
    /// threads count as idle meanwhile.
    pub fn lock(&self, file: &OwnedFd, locked: LockedEntry) -> Result<(), OtherRun> {
        self.lock_as(file, locked, FlockOperation::NonBlockingLockExclusive)
    }

    /// Locks a file that other runs may lock in this way, too.
    pub fn lock_shared(&self, file: &OwnedFd) -> Result<(), OtherRun> {
        self.lock_as(file, LockedEntry::File, FlockOperation::NonBlockingLockShared)
    }

    fn lock_as(&self, file: &OwnedFd, locked: LockedEntry, operation: FlockOperation) -> Result<(), OtherRun> {
        let Err(mut rival) = self.try_lock(file, operation) else { return Ok(()) };
        // Waiting threads count as idle.
        during(Stage::Rest, || {
            during(Stage::ExamineWait, || {
                let mut seen = last_write(file);
                while self.waits(rival, locked) {
                    match self.try_lock(file, operation) {
                        Ok(()) => return Ok(()),
                        Err(holder) => rival = holder,
                    }
                    let written = last_write(file);
                    if std::mem::replace(&mut seen, written) != written && locked != LockedEntry::NewFile {
                        lock(&self.state).progressed = Some(Instant::now());
                    }
                }
                if self.is_again && !lock(&self.state).closed {
                    (self.report)(LockEvent::Lost(lost_text(rival, locked)));
                }
                Err(rival)
            })
        })
    }

    /// A file system without locks has no conflicts.
    fn try_lock(&self, file: &OwnedFd, operation: FlockOperation) -> Result<(), OtherRun> {
        match flock(file, operation) {
            Err(Errno::WOULDBLOCK) => Err(OtherRun { process: self.table.holder(file) }),
            _ => Ok(()),
        }
    }

    /// Locks the directory of a source argument until the copy ends. The error names the other run.
    ///
    /// After one failure, all later calls fail. Otherwise two runs of one copy would each lock some of its directories,
    /// and neither could finish.
    pub fn enter(&self, dir: &Dir) -> Result<(), FileError> {
        let state = lock(&self.state);
        if let Some(rival) = state.lost_to {
            return Err(FileError::OtherDirectoryHeld(rival));
        }
        let is_held = state.held.iter().any(|(identity, _)| *identity == dir.identity());
        if is_held || state.held.len() >= DIRECTORIES_HELD_MAX {
            return Ok(());
        }
        drop(state);
        let Some(directories) = &self.directories else { return Ok(()) };
        let locked = directories.acquire(dir.identity(), |file| self.lock(file, LockedEntry::Directory));
        let mut state = lock(&self.state);
        match locked {
            Ok(held) => {
                state.held.push((dir.identity(), held));
                Ok(())
            }
            Err(rival) => {
                state.lost_to = Some(rival);
                Err(FileError::DirectoryHeld(rival))
            }
        }
    }

    /// Shows runs that wait for a directory of this copy that it progresses.
    pub fn mark_progress(&self) {
        lock(&self.state).held.iter().filter_map(|(_, lock)| lock.as_ref()).for_each(DirectoryLock::mark_progress);
    }

    /// Permits locks.
    pub fn allow(&self, bounds: &mut ConfineBounds) {
        self.directories.iter().for_each(|directories| directories.allow(bounds));
    }

    /// Unlocks the directories at the end of the copy. Threads that have not ended keep `self` alive.
    pub fn release(&self) {
        lock(&self.state).held.clear();
    }

    /// Ends all waits.
    pub fn close(&self) {
        lock(&self.state).closed = true;
        self.over.notify_all();
    }

    /// Waits for a moment. `false`, at once, after the limit or the end of the copy.
    fn waits(&self, rival: OtherRun, locked: LockedEntry) -> bool {
        let mut state = lock(&self.state);
        let since = *state.since.get_or_insert_with(Instant::now);
        let waited = since.elapsed();
        let left = self.patience.saturating_sub(state.progressed.unwrap_or(since).elapsed());
        if state.closed || left.is_zero() {
            return false;
        }
        let is_reported_now = waited >= SILENT_WAIT && !std::mem::replace(&mut state.is_told, waited >= SILENT_WAIT);
        drop(self.over.wait_timeout(state, CHECK_EVERY.min(left)).unwrap_or_else(PoisonError::into_inner));
        if is_reported_now {
            (self.report)(LockEvent::Waits(wait_text(rival, locked)));
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::fs::testing::in_time;

    fn run(place: &Path, patience: Duration) -> CopyLocks {
        let directories = DirectoryLocks::open(Some(&place.join("state")));
        assert!(directories.is_some());
        CopyLocks { directories, ..CopyLocks::with_patience(patience) }
    }

    fn hasty(place: &Path) -> CopyLocks {
        run(place, Duration::ZERO)
    }

    fn lock_files(place: &Path) -> usize {
        std::fs::read_dir(place.join("state/locks")).unwrap().count()
    }

    fn dir(place: &Path, name: &str) -> Dir {
        std::fs::create_dir_all(place.join(name)).unwrap();
        Dir::open_root(&place.join(name)).unwrap()
    }

    #[test]
    fn the_second_run_loses_this_directory_and_all_later_ones() {
        let place = tempfile::tempdir().unwrap();
        let (first, second) = (hasty(place.path()), hasty(place.path()));
        first.enter(&dir(place.path(), "a")).unwrap();
        first.enter(&dir(place.path(), "a")).unwrap();
        second.enter(&dir(place.path(), "other")).unwrap();
        let me = format!("another haul (process {})", std::process::id());
        let lost = second.enter(&dir(place.path(), "a")).unwrap_err();
        assert_eq!(lost.to_string(), format!("{me} is copying into it\nwait for it, or end it"));
        let lost = second.enter(&dir(place.path(), "b")).unwrap_err();
        assert!(lost.to_string().starts_with(&format!("{me} is copying into another directory")), "{lost}");
        first.enter(&dir(place.path(), "b")).unwrap();
        first.release();
        hasty(place.path()).enter(&dir(place.path(), "a")).unwrap();
        drop(second);
        assert_eq!(lock_files(place.path()), 0);
    }

    #[test]
    fn a_reader_of_a_directory_who_locks_it_delays_no_run() {
        use std::os::unix::fs::{MetadataExt, PermissionsExt};
        let place = tempfile::tempdir().unwrap();
        let target = dir(place.path(), "a");
        let reader = std::fs::File::open(place.path().join("a")).unwrap();
        flock(&reader, FlockOperation::NonBlockingLockExclusive).unwrap();
        let first = hasty(place.path());
        first.enter(&target).unwrap();
        let locks = place.path().join("state/locks");
        let file = std::fs::read_dir(&locks).unwrap().next().unwrap().unwrap().metadata().unwrap();
        let mode = |found: &std::fs::Metadata| found.permissions().mode() & 0o7777;
        assert_eq!((mode(&file), mode(&locks.metadata().unwrap())), (0o600, 0o700));
        assert_eq!(file.uid(), rustix::process::geteuid().as_raw());
    }

    #[test]
    fn the_lock_file_of_a_killed_run_is_used_again() {
        let place = tempfile::tempdir().unwrap();
        let target = dir(place.path(), "a");
        let killed = hasty(place.path());
        killed.enter(&target).unwrap();
        let locks = place.path().join("state/locks");
        let file = std::fs::read_dir(&locks).unwrap().next().unwrap().unwrap().path();
        drop(killed);
        std::fs::write(&file, "").unwrap();
        hasty(place.path()).enter(&target).unwrap();
        assert_eq!(lock_files(place.path()), 0);
    }

    #[test]
    fn a_lock_released_in_time_is_acquired() {
        in_time(|| {
            let place = tempfile::tempdir().unwrap();
            let first = hasty(place.path());
            first.enter(&dir(place.path(), "a")).unwrap();
            let second = run(place.path(), Duration::from_secs(3600));
            std::thread::scope(|scope| {
                let waiting = scope.spawn(|| second.enter(&dir(place.path(), "a")));
                while lock(&second.state).since.is_none() {
                    std::thread::yield_now();
                }
                drop(first);
                waiting.join().unwrap().unwrap();
            });
        });
    }

    #[test]
    fn a_run_that_progresses_is_waited_for_beyond_the_limit() {
        in_time(|| {
            let place = tempfile::tempdir().unwrap();
            let first = hasty(place.path());
            first.enter(&dir(place.path(), "a")).unwrap();
            let patience = Duration::from_secs(1);
            let second = run(place.path(), patience);
            std::thread::scope(|scope| {
                let waiting = scope.spawn(|| second.enter(&dir(place.path(), "a")));
                let begun = Instant::now();
                while begun.elapsed() < 2 * patience {
                    first.mark_progress();
                    std::thread::sleep(CHECK_EVERY);
                }
                assert!(!waiting.is_finished(), "it gave up");
                drop(first);
                waiting.join().unwrap().unwrap();
            });
        });
    }

    #[test]
    fn a_finished_copy_waits_for_no_lock() {
        in_time(|| {
            let place = tempfile::tempdir().unwrap();
            let first = hasty(place.path());
            first.enter(&dir(place.path(), "a")).unwrap();
            let second = run(place.path(), Duration::from_secs(3600));
            second.close();
            assert!(second.enter(&dir(place.path(), "a")).is_err());
        });
    }

    #[test]
    fn a_copy_holds_no_more_than_a_few_directories() {
        let place = tempfile::tempdir().unwrap();
        let locks = hasty(place.path());
        (0..DIRECTORIES_HELD_MAX + 3).for_each(|n| locks.enter(&dir(place.path(), &n.to_string())).unwrap());
        assert_eq!(lock(&locks.state).held.len(), DIRECTORIES_HELD_MAX);
    }

    /// Reports of a copy that waits for a while, and then in vain.
    fn reported(again: bool) -> (OtherRun, Vec<LockEvent>) {
        let place = tempfile::tempdir().unwrap();
        let first = hasty(place.path());
        first.enter(&dir(place.path(), "a")).unwrap();
        let (sender, events) = std::sync::mpsc::channel();
        let report = move |event| sender.send(event).unwrap();
        let directories = DirectoryLocks::open(Some(&place.path().join("state")));
        let second = CopyLocks { patience: SILENT_WAIT * 2, ..CopyLocks::new(again, directories, report) };
        (0..2).for_each(|_| drop(second.enter(&dir(place.path(), "a")).unwrap_err()));
        drop(second);
        (OtherRun { process: Some(std::process::id()) }, events.iter().collect())
    }

    #[test]
    fn a_wait_is_reported_once_and_only_a_later_attempt_ends() {
        in_time(|| {
            let (rival, events) = reported(false);
            let waits = LockEvent::Waits(wait_text(rival, LockedEntry::Directory));
            assert_eq!(events, std::slice::from_ref(&waits));
            let lost = LockEvent::Lost(lost_text(rival, LockedEntry::Directory));
            assert_eq!(reported(true).1, [waits, lost]);
        });
    }
}

//! Other runs at work in the same place: noticed by a lock (flock(2)), given a moment to end, and named.
//!
//! A run holds the lock of each temporary file that it writes ([`crate::receiver::place::temp_files`]), and of the directories that its
//! operands become. The kernel frees them when the process ends, however it ends.

use haul_proto::wire::resource_metrics::Stage;
use rustix::fs::{FlockOperation, Mode, OFlags, flock, openat};
use rustix::io::Errno;
use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::fs::{Dir, FileIdentity};
use crate::metrics::stage_timer::during;
use crate::sys::lock_holder::LockTable;
use crate::sys::sync::lock;

/// How long a job waits for others to end, all in all: a worker whose controller was killed needs a moment to notice.
const PATIENCE: Duration = Duration::from_secs(5);
/// The same, where an earlier attempt of the job has lost its connection: its worker notices when it has heard nothing
/// for a while, and the kernel lets go of its files only when their last write is over.
const PATIENCE_AGAIN: Duration = Duration::from_secs(20);
/// How long it waits before it says so: others often end at once.
const SILENT_WAIT: Duration = Duration::from_millis(300);
/// Interval between attempts.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Most directories that a job holds. The first one alone keeps another run of the same job away.
const DIRECTORIES_HELD_MAX: usize = 64;

/// Another run that holds what this one wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OtherRun {
    /// Its process, if the kernel reports it.
    pub process: Option<u32>,
}

impl fmt::Display for OtherRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.process {
            Some(process) => write!(f, "another haul (process {process})"),
            None => write!(f, "another haul"),
        }
    }
}

impl OtherRun {
    /// What it does, in words, and what the user can do.
    fn does(self, what: &str) -> String {
        format!("{self} is {what}\nwait for it, or end it")
    }

    /// It writes the file in question.
    pub fn writes(self) -> String {
        self.does("writing this file now")
    }

    /// This run waits for it.
    fn waited_for(self, locked: LockedEntry) -> String {
        let what = match locked {
            LockedEntry::File => "writes the same file",
            LockedEntry::Directory => "copies into the same directory",
        };
        match self.process {
            Some(process) => format!("waiting for haul {process}, which {what}"),
            None => format!("waiting for another haul, which {what}"),
        }
    }

    /// Why an attempt ends.
    fn in_the_way(self, locked: LockedEntry) -> String {
        match locked {
            LockedEntry::File => format!("{self} is writing a file of this job"),
            LockedEntry::Directory => format!("{self} is copying into a directory of this job"),
        }
    }
}

/// What has a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockedEntry {
    /// A temporary file.
    File,
    /// A directory that an operand becomes.
    Directory,
}

/// What a job has to report of other runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LockEvent {
    /// It waits, and for whom. Once in a job.
    Waits(String),
    /// An attempt that followed another has waited in vain, often for that one's worker. Only a later attempt can go on.
    Lost(String),
}

/// What a job knows of other runs.
pub struct JobLocks {
    patience: Duration,
    /// Another attempt at this job was before it.
    is_again: bool,
    report: Box<dyn Fn(LockEvent) + Send + Sync>,
    table: LockTable,
    state: Mutex<JobLockState>,
    over: Condvar,
}

#[derive(Default)]
struct JobLockState {
    /// When waiting began, once it was needed.
    since: Option<Instant>,
    /// Whether it was said that this job waits.
    is_told: bool,
    /// The job is over, so that nothing is worth waiting for.
    closed: bool,
    /// Directories that this job holds.
    held: Vec<(FileIdentity, OwnedFd)>,
    /// Who holds a directory that this job wanted.
    lost_to: Option<OtherRun>,
}

impl JobLocks {
    /// For a job that begins, or is begun `again`; `report` tells its controller.
    pub fn new(again: bool, report: impl Fn(LockEvent) + Send + Sync + 'static) -> Self {
        let patience = if again { PATIENCE_AGAIN } else { PATIENCE };
        Self { is_again: again, report: Box::new(report), ..Self::with_patience(patience) }
    }

    /// For what waits this long, and reports nothing.
    pub fn with_patience(patience: Duration) -> Self {
        let report = Box::new(|_| {});
        Self {
            patience,
            is_again: false,
            report,
            table: LockTable::open(),
            state: Mutex::default(),
            over: Condvar::new(),
        }
    }

    /// Takes the lock of a file or directory; waits for it as long as the job's patience lasts. The threads of a job have
    /// no work meanwhile.
    pub fn lock(&self, file: &OwnedFd, locked: LockedEntry) -> Result<(), OtherRun> {
        let Err(mut rival) = self.try_lock(file) else { return Ok(()) };
        // Each thread counts for one of both.
        during(Stage::Rest, || {
            during(Stage::ExamineWait, || {
                while self.waits(rival, locked) {
                    match self.try_lock(file) {
                        Ok(()) => return Ok(()),
                        Err(holder) => rival = holder,
                    }
                }
                if self.is_again && !lock(&self.state).closed {
                    (self.report)(LockEvent::Lost(rival.in_the_way(locked)));
                }
                Err(rival)
            })
        })
    }

    /// Where a file system has no locks, there are no rivals.
    fn try_lock(&self, file: &OwnedFd) -> Result<(), OtherRun> {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => Err(OtherRun { process: self.table.holder(file) }),
            _ => Ok(()),
        }
    }

    /// Takes the directory that an operand becomes, for the job's life. The error says who has it.
    ///
    /// Once one was lost, all that follow are, too. Otherwise two runs of one job would each get some of its directories,
    /// and neither of them could do its work.
    pub fn enter(&self, dir: &Dir) -> Result<(), String> {
        let state = lock(&self.state);
        if let Some(rival) = state.lost_to {
            return Err(rival.does("copying into another directory of this job"));
        }
        let is_held = state.held.iter().any(|(identity, _)| *identity == dir.identity());
        if is_held || state.held.len() >= DIRECTORIES_HELD_MAX {
            return Ok(());
        }
        drop(state);
        // A description of its own, so that the lock stays though the directory itself is closed now and then. What may
        // not be listed cannot be locked.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = dir.fd().map(|fd| openat(&*fd, c".", flags, Mode::empty()));
        let Ok(Ok(opened)) = opened else { return Ok(()) };
        let locked = self.lock(&opened, LockedEntry::Directory);
        let mut state = lock(&self.state);
        match locked {
            Ok(()) => {
                state.held.push((dir.identity(), opened));
                Ok(())
            }
            Err(rival) => {
                state.lost_to = Some(rival);
                Err(rival.does("copying into it"))
            }
        }
    }

    /// Whoever waits, waits no longer.
    pub fn close(&self) {
        lock(&self.state).closed = true;
        self.over.notify_all();
    }

    /// Waits for a moment; `false`, at once, when patience is at its end or the job is over.
    fn waits(&self, rival: OtherRun, locked: LockedEntry) -> bool {
        let mut state = lock(&self.state);
        let waited = state.since.get_or_insert_with(Instant::now).elapsed();
        let left = self.patience.saturating_sub(waited);
        if state.closed || left.is_zero() {
            return false;
        }
        let is_said_now = waited >= SILENT_WAIT && !std::mem::replace(&mut state.is_told, waited >= SILENT_WAIT);
        drop(self.over.wait_timeout(state, LOOK_EVERY.min(left)).unwrap_or_else(PoisonError::into_inner));
        if is_said_now {
            (self.report)(LockEvent::Waits(rival.waited_for(locked)));
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::testing::in_time;
    use std::path::Path;

    fn hasty() -> JobLocks {
        JobLocks::with_patience(Duration::ZERO)
    }

    fn dir(place: &Path, name: &str) -> Dir {
        std::fs::create_dir_all(place.join(name)).unwrap();
        Dir::open_root(&place.join(name)).unwrap()
    }

    #[test]
    fn who_comes_second_loses_this_directory_and_all_that_follow() {
        let place = tempfile::tempdir().unwrap();
        let (first, second) = (hasty(), hasty());
        first.enter(&dir(place.path(), "a")).unwrap();
        first.enter(&dir(place.path(), "a")).unwrap();
        second.enter(&dir(place.path(), "other")).unwrap();
        let me = format!("another haul (process {})", std::process::id());
        let lost = second.enter(&dir(place.path(), "a")).unwrap_err();
        assert_eq!(lost, format!("{me} is copying into it\nwait for it, or end it"));
        let lost = second.enter(&dir(place.path(), "b")).unwrap_err();
        assert!(lost.starts_with(&format!("{me} is copying into another directory")), "{lost}");
        first.enter(&dir(place.path(), "b")).unwrap();
        drop(first);
        hasty().enter(&dir(place.path(), "a")).unwrap();
    }

    #[test]
    fn a_lock_that_becomes_free_in_time_is_taken() {
        in_time(|| {
            let place = tempfile::tempdir().unwrap();
            let first = hasty();
            first.enter(&dir(place.path(), "a")).unwrap();
            let second = JobLocks::with_patience(Duration::from_secs(3600));
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
    fn a_job_that_is_over_waits_for_nothing() {
        in_time(|| {
            let place = tempfile::tempdir().unwrap();
            let first = hasty();
            first.enter(&dir(place.path(), "a")).unwrap();
            let second = JobLocks::with_patience(Duration::from_secs(3600));
            second.close();
            assert!(second.enter(&dir(place.path(), "a")).is_err());
        });
    }

    #[test]
    fn a_job_holds_no_more_than_a_few_directories() {
        let place = tempfile::tempdir().unwrap();
        let rivals = hasty();
        (0..DIRECTORIES_HELD_MAX + 3).for_each(|n| rivals.enter(&dir(place.path(), &n.to_string())).unwrap());
        assert_eq!(lock(&rivals.state).held.len(), DIRECTORIES_HELD_MAX);
    }

    /// What a job reports that waits for a while, and then in vain.
    fn reported(again: bool) -> (OtherRun, Vec<LockEvent>) {
        let place = tempfile::tempdir().unwrap();
        let first = hasty();
        first.enter(&dir(place.path(), "a")).unwrap();
        let (sender, events) = std::sync::mpsc::channel();
        let report = move |event| sender.send(event).unwrap();
        let second = JobLocks { patience: SILENT_WAIT * 2, ..JobLocks::new(again, report) };
        (0..2).for_each(|_| drop(second.enter(&dir(place.path(), "a")).unwrap_err()));
        drop(second);
        (OtherRun { process: Some(std::process::id()) }, events.iter().collect())
    }

    #[test]
    fn who_waits_says_so_once_and_only_a_later_attempt_ends() {
        in_time(|| {
            let (rival, events) = reported(false);
            let waits = LockEvent::Waits(rival.waited_for(LockedEntry::Directory));
            assert_eq!(events, std::slice::from_ref(&waits));
            let lost = LockEvent::Lost(rival.in_the_way(LockedEntry::Directory));
            assert_eq!(reported(true).1, [waits, lost]);
        });
    }
}

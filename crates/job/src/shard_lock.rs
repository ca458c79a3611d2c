//! The lock of a shard: a file with a heartbeat, since locks of network file systems are unreliable.
//!
//! The holder rewrites its file every few seconds. Others watch it: contents that do not change for long belong to a
//! dead holder. The next holder does not remove the file, which two could do at once. It creates one of the next
//! generation, and a holder that sees a later generation has lost the lock.

use std::fs::{self, Metadata};
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use haul_base::sys::cancel::Cancel;
use serde_json::{Value, json};

use crate::directory::{JobDirectory, shard_label};
use crate::error::JobError;
use crate::job_file::JobFile;
use crate::shard_progress::{LiveProgress, ShardProgress};
use crate::this_host::{boot_label, host_name, random_label, unix_seconds};

/// Interval of heartbeats and of checks for a stop.
pub const BEAT_EVERY: Duration = Duration::from_secs(3);
/// Time without a change after which a holder counts as dead.
pub const STALE_AFTER: Duration = Duration::from_secs(45);
/// Largest lock, in bytes.
const FILE_MAX: u64 = 64 << 10;
/// Interval at which a waiting process checks.
const CHECK_EVERY: Duration = Duration::from_millis(500);

/// The work under a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockedWork {
    /// The walk of the source.
    Plan,
    /// A shard.
    Shard(u32),
    /// The last step.
    Finish,
    /// Handing shards to a scheduler.
    Submit,
}

impl LockedWork {
    fn label(self) -> String {
        match self {
            Self::Plan => "plan".to_owned(),
            Self::Finish => "finish".to_owned(),
            Self::Submit => "submit".to_owned(),
            Self::Shard(number) => shard_label(number),
        }
    }

    /// Its name in messages.
    pub fn shown(self) -> String {
        match self {
            Self::Plan => "the plan".to_owned(),
            Self::Finish => "the finishing step".to_owned(),
            Self::Submit => "the submission".to_owned(),
            Self::Shard(number) => format!("shard {number}"),
        }
    }
}

/// The holder of a lock.
#[derive(Debug, Clone, PartialEq)]
pub struct LockHolder {
    /// The host.
    pub host: String,
    /// Its process there.
    pub pid: u32,
    /// Seconds since it began, by its own clock.
    pub age_s: f64,
    /// The last recorded progress of its copy.
    pub progress: ShardProgress,
    id: String,
    boot: String,
    generation: u32,
    /// The whole file, which changes with each heartbeat.
    contents: String,
}

impl LockHolder {
    /// `HOST, process PID`.
    pub fn shown(&self) -> String {
        format!("{}, process {}", self.host, self.pid)
    }

    /// Whether the holder ran on this host, and has ended.
    fn is_known_dead(&self) -> bool {
        self.boot == boot_label() && !self.boot.is_empty() && !runs(self.pid)
    }

    fn read(file: &JobFile, generation: u32) -> Option<Self> {
        let contents = file.read_text_of(FILE_MAX).ok()??;
        let value: Value = serde_json::from_str(&contents).unwrap_or_default();
        let text = |name: &str| value[name].as_str().unwrap_or_default().to_owned();
        let [began, beat] = ["began", "beat"].map(|name| value[name].as_f64().unwrap_or_default());
        Some(Self {
            host: text("host"),
            pid: value["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok()).unwrap_or_default(),
            age_s: (beat - began).max(0.0),
            progress: ShardProgress::parse(&value["progress"]),
            id: text("id"),
            boot: text("boot"),
            generation,
            contents,
        })
    }
}

/// Whether a process of this host runs, and is not a zombie (proc_pid_stat(5)).
fn runs(pid: u32) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    !matches!(state, Some('Z' | 'X'))
}

/// The present holder, if any. It may be dead.
pub fn holder(job: &JobDirectory, work: LockedWork) -> Option<LockHolder> {
    let prefix = format!("{}.", work.label());
    let names = job.running().names().ok()?;
    let generation = |name: &str| name.strip_prefix(&prefix)?.parse::<u32>().ok();
    let latest = names.iter().filter_map(|name| generation(name.to_str()?)).max()?;
    LockHolder::read(&path_of(job, work, latest), latest)
}

/// All locked shards with their holders.
pub fn locked_shards(job: &JobDirectory) -> Vec<(u32, LockHolder)> {
    let Ok(names) = job.running().names() else { return Vec::new() };
    let number = |name: &str| name.split_once('.')?.0.parse::<u32>().ok();
    let mut numbers: Vec<_> = names.iter().filter_map(|name| number(name.to_str()?)).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers.into_iter().filter_map(|shard| Some((shard, holder(job, LockedWork::Shard(shard))?))).collect()
}

fn path_of(job: &JobDirectory, work: LockedWork, generation: u32) -> JobFile {
    job.running().join(format!("{}.{generation}", work.label()))
}

/// The result of an attempt to lock.
#[derive(Debug)]
pub enum LockAttempt {
    /// It is held until it is dropped.
    Held(ShardLock),
    /// Another process holds it.
    Busy(LockHolder),
}

/// A held lock.
#[derive(Debug)]
pub struct ShardLock {
    file: JobFile,
    /// The holder that lost it, if it may still run.
    silent: Option<LockHolder>,
    progress: LiveProgress,
    ended: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl ShardLock {
    /// Takes the lock of `work`, if free. `cancel` is set if the lock is lost or the job cancelled.
    pub fn try_take(job: &JobDirectory, work: LockedWork, cancel: &Cancel) -> Result<LockAttempt, JobError> {
        match holder(job, work) {
            None => Self::acquire(job, work, None, cancel),
            Some(holder) if holder.is_known_dead() => Self::acquire(job, work, Some(&holder), cancel),
            Some(holder) => Ok(LockAttempt::Busy(holder)),
        }
    }

    /// Takes the lock, and waits for a holder to end or die. Calls `on_holder` once for a holder.
    pub fn wait(
        job: &JobDirectory,
        work: LockedWork,
        cancel: &Cancel,
        on_holder: &mut dyn FnMut(&LockHolder),
    ) -> Result<Self, JobError> {
        let mut watched: Option<(String, Instant)> = None;
        loop {
            job.refuse_stopped()?;
            let holder = match Self::try_take(job, work, cancel)? {
                LockAttempt::Held(lock) => return Ok(lock),
                LockAttempt::Busy(holder) => holder,
            };
            match &watched {
                Some((contents, since)) if *contents == holder.contents => {
                    if since.elapsed() >= STALE_AFTER
                        && let LockAttempt::Held(lock) = Self::acquire(job, work, Some(&holder), cancel)?
                    {
                        return Ok(lock);
                    }
                }
                seen => {
                    if seen.is_none() {
                        on_holder(&holder);
                    }
                    watched = Some((holder.contents.clone(), Instant::now()));
                }
            }
            if cancel.wait(CHECK_EVERY) {
                return Err(JobError::cancelled(job.path()));
            }
        }
    }

    /// The progress recorded by its heartbeat, continued from a dead holder's.
    pub fn progress(&self) -> &LiveProgress {
        &self.progress
    }

    /// The previous holder, which stopped its heartbeat. It may still run and write.
    pub fn silent_holder(&self) -> Option<&LockHolder> {
        self.silent.as_ref()
    }

    fn acquire(
        job: &JobDirectory,
        work: LockedWork,
        dead: Option<&LockHolder>,
        cancel: &Cancel,
    ) -> Result<LockAttempt, JobError> {
        let generation = dead.map_or(1, |dead| dead.generation.saturating_add(1));
        let progress = LiveProgress::new(dead.map_or_else(ShardProgress::default, |dead| dead.progress));
        let file = path_of(job, work, generation);
        let wrong = |error: &io::Error| JobError::io(file.path(), error);
        let id = random_label().map_err(|error| wrong(&error))?;
        let began = unix_seconds();
        let recorded = progress.clone();
        let contents = move || {
            let value = json!({
                "id": id, "host": host_name(), "pid": std::process::id(), "boot": boot_label(), "began": began,
                "beat": unix_seconds(), "progress": recorded.get().json(),
            });
            format!("{value}\n")
        };
        let created = file.create_new().and_then(|mut created| {
            created.write_all(contents().as_bytes())?;
            created.metadata()
        });
        let created = match created {
            Ok(created) => created,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                // It may be gone by now: the next attempt will tell.
                let nobody = || JobError::usage(format!("{} changed hands", work.shown()), "try again");
                return LockHolder::read(&file, generation).map(LockAttempt::Busy).ok_or_else(nobody);
            }
            Err(error) => return Err(wrong(&error)),
        };
        let earlier = (1..generation).map(|earlier| path_of(job, work, earlier));
        earlier.for_each(|earlier| drop(earlier.remove()));
        let ended = Arc::new((Mutex::new(false), Condvar::new()));
        let heartbeat = Heartbeat {
            file: file.clone(),
            created,
            next: path_of(job, work, generation + 1),
            cancelled: job.cancelled(),
            cancel: cancel.clone(),
            ended: Arc::clone(&ended),
        };
        let thread =
            std::thread::Builder::new().name("haul-shard-beat".to_owned()).spawn(move || heartbeat.run(&contents));
        let thread = Some(thread.map_err(|error| wrong(&error))?);
        let silent = dead.filter(|dead| !dead.is_known_dead()).cloned();
        Ok(LockAttempt::Held(Self { file, silent, progress, ended, thread }))
    }
}

impl Drop for ShardLock {
    fn drop(&mut self) {
        *self.ended.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.ended.1.notify_all();
        self.thread.take().map(JoinHandle::join);
        let _ = self.file.remove();
    }
}

struct Heartbeat {
    file: JobFile,
    /// The file as it was created.
    created: Metadata,
    /// Exists if the lock is lost.
    next: JobFile,
    /// Exists if the job is cancelled.
    cancelled: JobFile,
    cancel: Cancel,
    ended: Arc<(Mutex<bool>, Condvar)>,
}

impl Heartbeat {
    fn run(self, contents: &dyn Fn() -> String) {
        let mut ended = self.ended.0.lock().unwrap_or_else(PoisonError::into_inner);
        while !*ended {
            let waited = self.ended.1.wait_timeout(ended, BEAT_EVERY).unwrap_or_else(PoisonError::into_inner);
            ended = waited.0;
            if *ended {
                return;
            }
            if self.next.exists() || self.cancelled.exists() {
                self.cancel.cancel();
            }
            // Each heartbeat opens and closes the file, so that other hosts see it, also on NFS.
            let _ = self.file.reopen(&self.created).and_then(|mut file| {
                file.set_len(0)?;
                file.write_all(contents().as_bytes())
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job() -> (tempfile::TempDir, JobDirectory) {
        let temp = tempfile::tempdir().unwrap();
        let job = JobDirectory::create(&temp.path().join("job")).unwrap();
        (temp, job)
    }

    fn held(attempt: LockAttempt) -> ShardLock {
        match attempt {
            LockAttempt::Held(lock) => lock,
            LockAttempt::Busy(holder) => panic!("held by {holder:?}"),
        }
    }

    #[test]
    fn one_holds_a_lock_and_the_next_one_waits() {
        let (_temp, job) = job();
        let work = LockedWork::Shard(3);
        let lock = held(ShardLock::try_take(&job, work, &Cancel::new()).unwrap());
        let LockAttempt::Busy(holder) = ShardLock::try_take(&job, work, &Cancel::new()).unwrap() else { panic!() };
        assert_eq!((holder.pid, locked_shards(&job).len()), (std::process::id(), 1));
        held(ShardLock::try_take(&job, LockedWork::Plan, &Cancel::new()).unwrap());
        let waiting = {
            let job = job.clone();
            std::thread::spawn(move || {
                let mut on_holder = 0;
                ShardLock::wait(&job, work, &Cancel::new(), &mut |_| on_holder += 1).map(|_| on_holder)
            })
        };
        std::thread::sleep(Duration::from_millis(100));
        drop(lock);
        assert_eq!(waiting.join().unwrap(), Ok(1));
        assert!(has_holder_ended(&job, work));
    }

    fn has_holder_ended(job: &JobDirectory, work: LockedWork) -> bool {
        holder(job, work).is_none()
    }

    #[test]
    fn a_dead_process_of_this_host_holds_no_lock() {
        let (_temp, job) = job();
        let work = LockedWork::Shard(0);
        let progress = ShardProgress { files: 7, bytes: 900, moved: 0 };
        let dead = json!({
            "id": "x", "host": host_name(), "pid": u32::MAX, "boot": boot_label(), "progress": progress.json(),
        });
        path_of(&job, work, 4).replace(dead.to_string().as_bytes()).unwrap();
        let lock = held(ShardLock::try_take(&job, work, &Cancel::new()).unwrap());
        assert_eq!(holder(&job, work).unwrap().progress, progress, "the next holder keeps what is known");
        assert_eq!((lock.silent_holder(), lock.file.path()), (None, path_of(&job, work, 5).path()));
        assert!(!path_of(&job, work, 4).exists());
    }

    #[test]
    fn a_silent_holder_is_remembered() {
        let (_temp, job) = job();
        let work = LockedWork::Shard(0);
        path_of(&job, work, 1).replace(br#"{"id":"x","host":"node7","pid":17,"boot":"another"}"#).unwrap();
        let LockAttempt::Busy(silent) = ShardLock::try_take(&job, work, &Cancel::new()).unwrap() else { panic!() };
        let lock = held(ShardLock::acquire(&job, work, Some(&silent), &Cancel::new()).unwrap());
        assert_eq!(lock.silent_holder().map(LockHolder::shown), Some("node7, process 17".to_owned()));
    }

    #[test]
    fn a_later_generation_and_a_cancelled_job_stop_the_holder() {
        for is_cancelled in [false, true] {
            let (_temp, job) = job();
            let (work, cancel) = (LockedWork::Shard(0), Cancel::new());
            let _lock = held(ShardLock::try_take(&job, work, &cancel).unwrap());
            let sign = if is_cancelled { job.cancelled() } else { path_of(&job, work, 2) };
            sign.replace(b"{}").unwrap();
            assert!(cancel.wait(BEAT_EVERY * 3));
        }
    }
}

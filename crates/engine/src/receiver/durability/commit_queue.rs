//! The queue of complete files that wait for fsync before they get their names, and of directories that have to be
//! durable at the job's end. The commit thread takes groups from it.
//!
//! Producers wait for room before they write more, and always add what they have written: so no thread holds something
//! that another one waits for.

use crate::receiver::ReceiverEntry;
use crate::receiver::ReceiverJob;
use crate::receiver::describe;
use crate::receiver::durability::checkpoints::save;
use haul_proto::commit_queue::{GroupLimits, NextGroup};
use haul_proto::path::escape;
use haul_proto::wire::report::WorkerMessage;
use haul_proto::wire::request::SessionSettings;
use haul_proto::wire::resource_metrics::Stage;
use haul_proto::wire::storage::Fsync;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Instant;

use crate::fs::Dir;
use crate::metrics::stage_timer::during;
use crate::receiver::durability::checkpoints::Checkpoints;
use crate::receiver::durability::complete_file::CompleteFile;
use crate::receiver::durability::fsync::{SyncedFileSystem, SyncedFileSystems};
use crate::sys::open_files;
use crate::sys::sync::lock;

/// What waits to be put on the disk.
pub struct CommitQueue {
    fsync: Fsync,
    limits: GroupLimits,
    disks: SyncedFileSystems,
    /// What was written of files that are not whole.
    pub checkpoints: Checkpoints,
    queue: Mutex<CommitQueueState>,
    /// Wakes the thread.
    work: Condvar,
    /// Wakes threads that wait for room.
    room: Condvar,
}

struct CommitQueueState {
    gathering: NextGroup<PendingCommit>,
    /// The thread waits to be woken.
    idle: bool,
    /// Nothing more will be added.
    ended: bool,
    /// The job is over before its end.
    stopped: bool,
}

/// What the thread is to do next.
pub enum CommitTask {
    /// Put these on the disk.
    Group(Vec<PendingCommit>),
    /// Sync written parts of incomplete files.
    Checkpoint,
}

/// Something that waits.
pub enum PendingCommit {
    /// A whole file.
    File(CompleteFile),
    /// A complete directory and its disk; only the job's end waits for it.
    Directory(Dir, Arc<SyncedFileSystem>),
}

impl CommitQueue {
    /// With nothing in it.
    pub fn new(fsync: Fsync, settings: &SessionSettings) -> Self {
        let limits = GroupLimits::new(open_files::limit(), settings.streams, settings.streams_max);
        let queue = CommitQueueState { gathering: NextGroup::new(limits), idle: false, ended: false, stopped: false };
        Self {
            fsync,
            limits,
            disks: SyncedFileSystems::default(),
            checkpoints: Checkpoints::default(),
            queue: Mutex::new(queue),
            work: Condvar::new(),
            room: Condvar::new(),
        }
    }

    /// Whether anything is ever waited for.
    pub fn is_wanted(&self) -> bool {
        self.fsync != Fsync::None
    }

    /// Whether names have to be on the disk, too.
    pub fn is_full(&self) -> bool {
        self.fsync == Fsync::Full
    }

    /// The disk that files in a directory have to reach; `None` where nothing is waited for.
    pub fn disk_of(&self, dir: Option<&Dir>) -> io::Result<Option<Arc<SyncedFileSystem>>> {
        dir.filter(|_| self.is_wanted()).map_or(Ok(None), |dir| self.disks.of(dir))
    }

    /// How many files a stream may have in hand before it adds them.
    pub fn at_once(&self) -> usize {
        self.limits.at_once
    }

    /// Waits until more may be written.
    pub fn wait_for_room(&self) {
        if !self.is_wanted() {
            return;
        }
        let mut queue = lock(&self.queue);
        while !queue.gathering.has_room() && !queue.stopped {
            queue = during(Stage::Room, || self.room.wait(queue)).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Adds files.
    ///
    /// # Panics
    /// If one has no disk to reach: a mistake in this program.
    pub fn add(&self, files: Vec<CompleteFile>) {
        assert!(files.iter().all(|file| file.disk.is_some()), "a file that has nothing to wait for");
        self.put(|gathering| {
            for file in files {
                let bytes = file.unwritten_bytes();
                gathering.add(PendingCommit::File(file), bytes);
            }
        });
    }

    /// Adds a directory that is on this disk.
    pub fn add_directory(&self, dir: &Dir, disk: &Arc<SyncedFileSystem>) {
        self.put(|gathering| gathering.add_patient(PendingCommit::Directory(dir.clone(), Arc::clone(disk))));
    }

    /// Nothing more will be added: the thread ends when it has carried what there is.
    pub fn end(&self) {
        lock(&self.queue).ended = true;
        self.work.notify_all();
    }

    /// Nobody waits any more, and what has no name gets none.
    pub fn stop(&self) {
        let mut queue = lock(&self.queue);
        queue.stopped = true;
        let dropped = queue.gathering.take();
        drop(queue);
        drop(dropped);
        self.work.notify_all();
        self.room.notify_all();
    }

    fn put(&self, put: impl FnOnce(&mut NextGroup<PendingCommit>)) {
        let mut queue = lock(&self.queue);
        if queue.stopped {
            return;
        }
        put(&mut queue.gathering);
        if queue.idle && queue.gathering.is_due() {
            queue.idle = false;
            self.work.notify_one();
        }
    }

    /// Has the thread check whether a checkpoint is due.
    pub fn look(&self) {
        // The thread checks and waits under the queue's lock: so it cannot miss this.
        let _queue = lock(&self.queue);
        self.work.notify_one();
    }

    /// The next task; `None` after the last. Waits for it, unless `at_once`: then a group may be empty. A due
    /// checkpoint comes first, as there are few.
    pub fn next(&self, at_once: bool) -> Option<CommitTask> {
        let mut queue = lock(&self.queue);
        loop {
            if queue.stopped {
                return None;
            }
            let checkpoint = self.checkpoints.due_in(Instant::now()).filter(|_| !queue.ended);
            if checkpoint.is_some_and(|left| left.is_zero()) {
                return Some(CommitTask::Checkpoint);
            }
            if queue.gathering.is_due() || queue.ended || at_once {
                let group = queue.gathering.take();
                let is_empty = group.is_empty();
                self.room.notify_all();
                return Some(CommitTask::Group(group)).filter(|_| at_once || !is_empty);
            }
            queue.idle = true;
            queue = during(Stage::SyncWait, || match checkpoint {
                Some(left) => self.work.wait_timeout(queue, left).unwrap_or_else(PoisonError::into_inner).0,
                None => self.work.wait(queue).unwrap_or_else(PoisonError::into_inner),
            });
        }
    }

    /// Whether the job is over before its end.
    pub fn is_stopped(&self) -> bool {
        lock(&self.queue).stopped
    }
}

impl CommitQueue {
    /// A directory has its metadata, and all in it has its name. Both have to be on the disk at the job's end.
    pub(crate) fn settle_directory(&self, dir: &Dir) -> io::Result<()> {
        if self.is_full()
            && let Some(disk) = self.disk_of(Some(dir))?
        {
            self.add_directory(dir, &disk);
        }
        Ok(())
    }
}

impl CommitQueue {
    /// A frame of a file was written and recorded.
    pub(crate) fn note_unsaved(&self, item: &Arc<ReceiverEntry>, bytes: u64) {
        let ReceiverEntry::File(incoming) = &**item else { return };
        let Some((_, saving)) = incoming.saving().filter(|_| self.is_wanted()) else { return };
        let file = (!saving.is_listed.swap(true, Ordering::Relaxed)).then(|| Arc::downgrade(item));
        if self.checkpoints.wrote(file, bytes, Instant::now()) {
            self.look();
        }
    }

    /// Has all that was written since the last checkpoint put on the disk.
    pub(crate) fn checkpoint(&self, job: &ReceiverJob) {
        for item in self.checkpoints.take() {
            let Some(item) = item.upgrade() else { continue };
            let ReceiverEntry::File(incoming) = &*item else { continue };
            if self.is_stopped() {
                return;
            }
            if matches!(self.disk_of(incoming.dir()), Ok(Some(_)))
                && let Err(error) = save(incoming)
            {
                let path = escape(&incoming.path(&job.destination));
                let text = describe(&error.into());
                let text = text.lines().next().unwrap_or_default();
                let text = format!("{path}: not written to the disk: {text}; sending it again");
                job.reporter.send(&WorkerMessage::Warning { text });
            }
        }
    }
}

//! The queue of complete files that wait for fsync before their rename, and of directories to be durable at the copy's
//! end. The commit thread takes groups from it.
//!
//! Producers wait for room before they write, and always add what they have written. So no thread holds an item that
//! another one waits for.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Instant;

use haul_base::sys::describe::describe;
use haul_base::sys::sync::lock;
use haul_proto::commit_queue::{GroupLimits, NextGroup};
use haul_proto::path::escape;
use haul_proto::wire::report::WorkerMessage;
use haul_proto::wire::request::SessionSettings;
use haul_proto::wire::resource_metrics::Stage;
use haul_proto::wire::storage::Fsync;

use crate::fs::Dir;
use crate::metrics::stage_timer::during;
use crate::receiver::copy::ReceiverCopy;
use crate::receiver::durability::checkpoints::{Checkpoints, save};
use crate::receiver::durability::complete_file::CompleteFile;
use crate::receiver::durability::fsync::{SyncedFileSystem, SyncedFileSystems};
use crate::receiver::entry::ReceiverEntry;
use crate::sys::open_files;

/// Files and directories that wait for fsync.
pub struct CommitQueue {
    fsync: Fsync,
    limits: GroupLimits,
    disks: SyncedFileSystems,
    /// Checkpoints of incomplete files.
    pub checkpoints: Checkpoints,
    queue: Mutex<CommitQueueState>,
    /// Wakes the commit thread.
    work: Condvar,
    /// Wakes producers that wait for room.
    room: Condvar,
}

struct CommitQueueState {
    gathering: NextGroup<PendingCommit>,
    /// The commit thread is waiting.
    idle: bool,
    /// Nothing more will be added.
    ended: bool,
    /// The copy was stopped.
    stopped: bool,
}

/// The next task of the commit thread.
pub enum CommitTask {
    /// Sync this group.
    Group(Vec<PendingCommit>),
    /// Sync written parts of incomplete files.
    Checkpoint,
}

/// A queued file or directory.
pub enum PendingCommit {
    /// A complete file.
    File(CompleteFile),
    /// A complete directory and its file system; only the copy's end waits for it.
    Directory(Dir, Arc<SyncedFileSystem>),
}

impl CommitQueue {
    /// An empty queue.
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

    /// Whether fsync is requested.
    pub fn is_wanted(&self) -> bool {
        self.fsync != Fsync::None
    }

    /// Whether names must be durable too.
    pub fn is_full(&self) -> bool {
        self.fsync == Fsync::Full
    }

    /// The file system to sync for files in a directory; `None` if nothing needs fsync.
    pub fn disk_of(&self, dir: Option<&Dir>) -> io::Result<Option<Arc<SyncedFileSystem>>> {
        dir.filter(|_| self.is_wanted()).map_or(Ok(None), |dir| self.disks.of(dir))
    }

    /// Most files that a stream may write before it adds them.
    pub fn at_once(&self) -> usize {
        self.limits.at_once
    }

    /// Waits for room.
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
    /// If a file has no file system to sync: a bug.
    pub fn add(&self, files: Vec<CompleteFile>) {
        assert!(files.iter().all(|file| file.disk.is_some()), "a file that has nothing to wait for");
        self.enqueue(|gathering| {
            for file in files {
                let bytes = file.unwritten_bytes();
                gathering.add(PendingCommit::File(file), bytes);
            }
        });
    }

    /// Adds a directory on this file system.
    pub fn add_directory(&self, dir: &Dir, disk: &Arc<SyncedFileSystem>) {
        self.enqueue(|gathering| gathering.add_patient(PendingCommit::Directory(dir.clone(), Arc::clone(disk))));
    }

    /// Ends the queue: the thread exits after the remaining groups.
    pub fn end(&self) {
        lock(&self.queue).ended = true;
        self.work.notify_all();
    }

    /// Stops the queue: nobody waits any longer, and unnamed files stay unnamed.
    pub fn stop(&self) {
        let mut queue = lock(&self.queue);
        queue.stopped = true;
        let dropped = queue.gathering.take_group();
        drop(queue);
        drop(dropped);
        self.work.notify_all();
        self.room.notify_all();
    }

    fn enqueue(&self, add: impl FnOnce(&mut NextGroup<PendingCommit>)) {
        let mut queue = lock(&self.queue);
        if queue.stopped {
            return;
        }
        add(&mut queue.gathering);
        if queue.idle && queue.gathering.is_due() {
            queue.idle = false;
            self.work.notify_one();
        }
    }

    /// Wakes the thread to check for a due checkpoint.
    pub fn wake(&self) {
        // The thread checks and waits under the queue's lock, so it cannot miss this.
        let _queue = lock(&self.queue);
        self.work.notify_one();
    }

    /// The next task; `None` after the last. Waits unless `at_once` is set: then a group may be empty. A due checkpoint
    /// comes first, as there are few.
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
                let group = queue.gathering.take_group();
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

    /// Whether the copy was stopped.
    pub fn is_stopped(&self) -> bool {
        lock(&self.queue).stopped
    }
}

impl CommitQueue {
    /// Queues a complete directory. Its metadata and names must be durable at the copy's end.
    pub(crate) fn queue_directory(&self, dir: &Dir) -> io::Result<()> {
        if self.is_full()
            && let Some(disk) = self.disk_of(Some(dir))?
        {
            self.add_directory(dir, &disk);
        }
        Ok(())
    }
}

impl CommitQueue {
    /// Records a written frame for the next checkpoint.
    pub(crate) fn note_unsaved(&self, item: &Arc<ReceiverEntry>, bytes: u64) {
        let ReceiverEntry::File(file) = &**item else { return };
        let Some((_, saving)) = file.saving().filter(|_| self.is_wanted()) else { return };
        let unlisted = (!saving.is_listed.swap(true, Ordering::Relaxed)).then(|| Arc::downgrade(item));
        if self.checkpoints.wrote(unlisted, bytes, Instant::now()) {
            self.wake();
        }
    }

    /// Syncs all data written since the last checkpoint.
    pub(crate) fn checkpoint(&self, copy: &ReceiverCopy) {
        for item in self.checkpoints.take_unsaved() {
            let Some(item) = item.upgrade() else { continue };
            let ReceiverEntry::File(file) = &*item else { continue };
            if self.is_stopped() {
                return;
            }
            if matches!(self.disk_of(file.dir()), Ok(Some(_)))
                && let Err(error) = save(file)
            {
                let path = escape(&file.display_path(&copy.destination));
                let text = describe(&error.into());
                let text = text.lines().next().unwrap_or_default();
                let text = format!("{path}: not written to the disk: {text}; sending it again");
                copy.reporter.send(&WorkerMessage::Warning { text });
            }
        }
    }
}

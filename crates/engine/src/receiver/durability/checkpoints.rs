//! Checkpoints: written data of files with a journal, and the journal, are synced at intervals. A power loss during a
//! large file thus costs little. No stream waits for a checkpoint.
//!
//! A checkpoint affects only the amount to resend: recorded frames are verified before they count.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, Weak};
use std::time::{Duration, Instant};

use haul_base::sys::sync::lock;
use rustix::fs::{fdatasync, fsync};
use rustix::io::Errno;

use crate::fs::Dir;
use crate::receiver::entry::ReceiverEntry;
use crate::receiver::file::ReceivingFile;

/// Bytes between checkpoints: a power loss costs at most this, and the data written during a checkpoint.
const EVERY_BYTES: u64 = 512 << 20;
/// Longest interval between checkpoints while data is written.
const EVERY: Duration = Duration::from_secs(30);

/// Data written since the last checkpoint.
#[derive(Default)]
pub struct Checkpoints(Mutex<Unsaved>);

#[derive(Default)]
struct Unsaved {
    /// Each file once. Complete files are not kept open.
    files: Vec<Weak<ReceiverEntry>>,
    bytes: u64,
    since: Option<Instant>,
}

impl Checkpoints {
    /// Adds written bytes; `file` is set the first time. Returns whether the checkpoint thread must check.
    pub fn wrote(&self, file: Option<Weak<ReceiverEntry>>, bytes: u64, now: Instant) -> bool {
        let mut unsaved = lock(&self.0);
        let was_due = unsaved.bytes >= EVERY_BYTES;
        unsaved.files.extend(file);
        unsaved.bytes = unsaved.bytes.saturating_add(bytes);
        let is_first = unsaved.since.is_none();
        unsaved.since.get_or_insert(now);
        is_first || !was_due && unsaved.bytes >= EVERY_BYTES
    }

    /// Time until the next checkpoint; `None` while nothing was written.
    pub fn due_in(&self, now: Instant) -> Option<Duration> {
        let unsaved = lock(&self.0);
        let since = unsaved.since?;
        let left = EVERY.saturating_sub(now.saturating_duration_since(since));
        Some(if unsaved.bytes >= EVERY_BYTES { Duration::ZERO } else { left })
    }

    pub fn take_unsaved(&self) -> Vec<Weak<ReceiverEntry>> {
        std::mem::take(&mut *lock(&self.0)).files
    }
}

/// Syncs the data, then its journal; the first time, also their names.
pub fn save(file: &ReceivingFile) -> Result<(), Errno> {
    let (Some((journal_dir, saving)), Some(Ok(opened))) = (file.saving(), file.opened()) else { return Ok(()) };
    // Cleared before the sync, so that no concurrent write is missed.
    saving.is_listed.store(false, Ordering::Relaxed);
    let Some(journal) = file.journal() else { return Ok(()) };
    if saving.is_over.load(Ordering::Relaxed) || saving.failed.get().is_some() {
        return Ok(());
    }
    if let Err(error) = asked(fdatasync(&**opened.fd())) {
        let _ = saving.failed.set(error);
        // A later verification would read cached pages, and so accept data that is not on disk.
        journal.void();
        return Err(error);
    }
    journal.save();
    if !saving.is_named.swap(true, Ordering::Relaxed) {
        let elsewhere = |dir: &&Dir| dir.identity() != journal_dir.identity();
        let dirs = file.dir().filter(elsewhere).into_iter().chain([journal_dir]);
        for dir in dirs.filter_map(|dir| dir.fd().ok()) {
            let _ = fsync(&*dir);
        }
    }
    Ok(())
}

/// An unsupported sync is no error, and gives no information.
fn asked(synced: Result<(), Errno>) -> Result<(), Errno> {
    match synced {
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => Ok(()),
        synced => synced,
    }
}

impl ReceivingFile {
    /// The error of an earlier checkpoint of the file, or of an awaited write-back, if any.
    pub(crate) fn saved(&self) -> io::Result<()> {
        if let Some(Ok(opened)) = self.opened() {
            opened.written_back()?;
        }
        match self.saving().and_then(|(_, saving)| saving.failed.get()) {
            Some(error) => Err((*error).into()),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_is_due_after_some_bytes_or_time_but_not_without_writes() {
        let (checkpoints, begun) = (Checkpoints::default(), Instant::now());
        let second = Duration::from_secs(1);
        assert_eq!(checkpoints.due_in(begun + 100 * EVERY), None);
        assert!(checkpoints.wrote(None, 1, begun), "from now on the time counts");
        assert!(!checkpoints.wrote(None, 1, begun + second));
        assert_eq!(checkpoints.due_in(begun + second), Some(EVERY - second));
        assert_eq!(checkpoints.due_in(begun + 2 * EVERY), Some(Duration::ZERO));
        assert!(checkpoints.wrote(None, EVERY_BYTES, begun + second));
        assert_eq!(checkpoints.due_in(begun + second), Some(Duration::ZERO));
        assert!(!checkpoints.wrote(None, EVERY_BYTES, begun + second), "that is known");
        checkpoints.take_unsaved();
        assert_eq!(checkpoints.due_in(begun), None);
        assert!(checkpoints.wrote(None, u64::MAX, begun) && !checkpoints.wrote(None, u64::MAX, begun));
    }
}

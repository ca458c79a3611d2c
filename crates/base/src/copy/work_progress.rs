//! Figures of a served worker's running copy for its server, shared in an unnamed file.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use haul_proto::diagnose::Bottleneck;

use super::account::{WorkDone, WorkKind};
use crate::sys::shared_numbers::SharedNumbers;

/// Numbers of a record.
const RECORD_LEN: usize = 5;

/// The figures at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkSnapshot {
    /// Kind of the work.
    pub what: WorkKind,
    /// Files found, received or compared.
    pub files: u64,
    /// Sent, received or compared bytes.
    pub bytes: u64,
    /// Entries that failed.
    pub failed: u64,
    /// The bottleneck, as seen by the worker's own end.
    pub bottleneck: Bottleneck,
}

/// The shared figures: the latest record twice, so that a reader detects a concurrent write.
#[derive(Debug)]
pub struct WorkProgress(SharedNumbers<{ 2 * RECORD_LEN }>);

impl WorkProgress {
    /// Creates it without a record.
    pub fn new() -> io::Result<Self> {
        SharedNumbers::new(c"haul-progress").map(Self)
    }

    /// The file, to be inherited by a worker.
    pub fn descriptor(&self) -> &Arc<OwnedFd> {
        self.0.descriptor()
    }

    /// In a worker: takes the file inherited under this number. To be called once.
    pub fn handed(number: i32) -> io::Result<Self> {
        SharedNumbers::handed(number).map(Self)
    }

    /// Replaces the record.
    pub fn record(&self, work: &WorkDone, bottleneck: Bottleneck) -> io::Result<()> {
        let snapshot =
            WorkSnapshot { what: work.what, files: work.files, bytes: work.bytes, failed: work.failed, bottleneck };
        let record = snapshot.to_numbers();
        self.0.write(std::array::from_fn(|at| record[at % RECORD_LEN]))
    }

    /// Returns the latest record; `None` if there is none, or it is being replaced.
    pub fn snapshot(&self) -> Option<WorkSnapshot> {
        let numbers = self.0.read().ok()?;
        let ([first, second], _) = numbers.as_chunks::<RECORD_LEN>() else { return None };
        if first == second { WorkSnapshot::of(*first) } else { None }
    }
}

impl WorkSnapshot {
    fn to_numbers(self) -> [u64; RECORD_LEN] {
        // An unwritten record is all zeros.
        let index = |at: Option<usize>| at.map_or(u64::MAX, |at| at as u64 + 1);
        let kind = index(WorkKind::ALL.iter().position(|kind| *kind == self.what));
        let limit = index(Bottleneck::ALL.iter().position(|limit| *limit == self.bottleneck));
        [kind, self.files, self.bytes, self.failed, limit]
    }

    fn of([kind, files, bytes, failed, limit]: [u64; RECORD_LEN]) -> Option<Self> {
        let index = |number: u64| usize::try_from(number).ok()?.checked_sub(1);
        let what = *WorkKind::ALL.get(index(kind)?)?;
        let bottleneck = *Bottleneck::ALL.get(index(limit)?)?;
        Some(Self { what, files, bytes, failed, bottleneck })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_record_is_read() {
        let progress = WorkProgress::new().unwrap();
        assert_eq!(progress.snapshot(), None);
        assert!(rustix::fs::ftruncate(&**progress.descriptor(), 1 << 30).is_err(), "a worker cannot make it longer");
        let mut work = WorkDone { what: WorkKind::Received, files: 1, bytes: 1 << 50, failed: 2, path: String::new() };
        progress.record(&work, Bottleneck::TargetDisk).unwrap();
        work.files = 3;
        progress.record(&work, Bottleneck::None).unwrap();
        let bottleneck = Bottleneck::None;
        let expected = WorkSnapshot { what: WorkKind::Received, files: 3, bytes: 1 << 50, failed: 2, bottleneck };
        assert_eq!(progress.snapshot(), Some(expected));
    }

    #[test]
    fn records_in_replacement_and_invalid_ones_are_ignored() {
        let progress = WorkProgress::new().unwrap();
        let work = WorkDone { what: WorkKind::Sent, files: 1, bytes: 255, failed: 0, path: String::new() };
        progress.record(&work, Bottleneck::Link).unwrap();
        let replace =
            |bytes: &[u8], at| assert_eq!(rustix::io::pwrite(&**progress.descriptor(), bytes, at), Ok(bytes.len()));
        replace(&[1], 17);
        assert_eq!(progress.snapshot(), None);
        replace(&[0xff; 16 * RECORD_LEN], 0);
        assert_eq!(progress.snapshot(), None);
    }
}

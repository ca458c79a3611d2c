//! Figures of a served worker's job while it runs, for its server. Both share them in a file without a name.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use haul_proto::diagnose::Bottleneck;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};

use super::account::{WorkDone, WorkKind};
use crate::sys::inherited_fds;

/// Bytes of a record: five numbers.
const RECORD_LEN: usize = 40;
const KINDS: [WorkKind; 3] = [WorkKind::Sent, WorkKind::Received, WorkKind::Compared];

/// The figures at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkSnapshot {
    /// Kind of the work.
    pub what: WorkKind,
    /// Files found, received or compared.
    pub files: u64,
    /// Bytes that were carried or compared.
    pub bytes: u64,
    /// Entries that failed.
    pub failed: u64,
    /// What limits the job, as far as the worker's own end shows it.
    pub bottleneck: Bottleneck,
}

/// The shared file. It has the latest record twice, so that a reader detects a record that is being replaced.
#[derive(Debug)]
pub struct WorkProgress(Arc<OwnedFd>);

impl WorkProgress {
    /// Creates the file without a record, sealed so that a worker cannot change its length.
    pub fn new() -> io::Result<Self> {
        let file = memfd_create(c"haul-progress", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&file, 2 * RECORD_LEN as u64)?;
        fcntl_add_seals(&file, SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
        Ok(Self(Arc::new(file)))
    }

    /// The file, to be handed to a worker.
    pub fn descriptor(&self) -> &Arc<OwnedFd> {
        &self.0
    }

    /// In a worker: the file that the server has left here under this number. To be called once.
    pub fn handed(number: i32) -> io::Result<Self> {
        Ok(Self(Arc::new(inherited_fds::adopt(number)?)))
    }

    /// Replaces the record.
    pub fn record(&self, work: &WorkDone, bottleneck: Bottleneck) -> io::Result<()> {
        let snapshot =
            WorkSnapshot { what: work.what, files: work.files, bytes: work.bytes, failed: work.failed, bottleneck };
        self.file()?.write_all_at(&[snapshot.encode(); 2].concat(), 0)
    }

    /// Returns the latest record; `None` if there is none, or it is being replaced.
    pub fn snapshot(&self) -> Option<WorkSnapshot> {
        let mut records = [[0; RECORD_LEN]; 2];
        self.file().ok()?.read_exact_at(records.as_flattened_mut(), 0).ok()?;
        if records[0] == records[1] { WorkSnapshot::decode(records[0]) } else { None }
    }

    fn file(&self) -> io::Result<File> {
        Ok(File::from(rustix::io::fcntl_dupfd_cloexec(&*self.0, 0)?))
    }
}

impl WorkSnapshot {
    fn encode(self) -> [u8; RECORD_LEN] {
        // An unwritten record is all zeros.
        let index = |at: Option<usize>| at.map_or(u64::MAX, |at| at as u64 + 1);
        let kind = index(KINDS.iter().position(|kind| *kind == self.what));
        let limit = index(Bottleneck::ALL.iter().position(|limit| *limit == self.bottleneck));
        let mut record = [0; RECORD_LEN];
        let numbers = [kind, self.files, self.bytes, self.failed, limit];
        record
            .chunks_exact_mut(8)
            .zip(numbers)
            .for_each(|(field, number)| field.copy_from_slice(&number.to_le_bytes()));
        record
    }

    fn decode(record: [u8; RECORD_LEN]) -> Option<Self> {
        let mut numbers = record.as_chunks::<8>().0.iter().map(|field| u64::from_le_bytes(*field));
        let mut next = || numbers.next().unwrap_or_default();
        let (kind, files, bytes, failed, limit) = (next(), next(), next(), next(), next());
        let index = |number: u64| usize::try_from(number).ok()?.checked_sub(1);
        let what = *KINDS.get(index(kind)?)?;
        let bottleneck = *Bottleneck::ALL.get(index(limit)?)?;
        Some(Self { what, files, bytes, failed, bottleneck })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_record_comes_back() {
        let progress = WorkProgress::new().unwrap();
        assert_eq!(progress.snapshot(), None);
        assert!(ftruncate(&**progress.descriptor(), 1 << 30).is_err(), "a worker cannot make it longer");
        let mut work = WorkDone { what: WorkKind::Received, files: 1, bytes: 1 << 50, failed: 2, path: String::new() };
        progress.record(&work, Bottleneck::TargetDisk).unwrap();
        work.files = 3;
        progress.record(&work, Bottleneck::None).unwrap();
        let bottleneck = Bottleneck::None;
        let expected = WorkSnapshot { what: WorkKind::Received, files: 3, bytes: 1 << 50, failed: 2, bottleneck };
        assert_eq!(progress.snapshot(), Some(expected));
    }

    #[test]
    fn a_record_that_is_being_replaced_and_a_wrong_one_are_none() {
        let progress = WorkProgress::new().unwrap();
        let work = WorkDone { what: WorkKind::Sent, files: 1, bytes: 255, failed: 0, path: String::new() };
        progress.record(&work, Bottleneck::Link).unwrap();
        progress.file().unwrap().write_all_at(&[1], 17).unwrap();
        assert_eq!(progress.snapshot(), None);
        progress.file().unwrap().write_all_at(&[0xff; 2 * RECORD_LEN], 0).unwrap();
        assert_eq!(progress.snapshot(), None);
    }
}

//! The I/O methods of a copy's files: as requested or measured, within each file's limits.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use haul_base::sys::sync::lock;
use haul_proto::wire::storage::{CacheUse, DirectIo, StorageRequest};

use super::cache::{is_cached, large_file_bytes};
use super::file::OpenedFile;
use super::{IoMethod, depth};
use crate::io::storage::io_method_probe::{DIRECT_FILE_MIN, IoMethodProbe, IoMethodProbes, TRIAL_FILE_MIN};

/// Distance at which a copy has neither read ahead nor cached anything.
const FAR_BYTES: u64 = 256 << 20;
/// Size of a sample.
const SAMPLE_LEN: u64 = 16 << 20;

/// Whether other programs cached a range of a large file, as opposed to this copy's read-ahead: a distant sample shows
/// it.
fn is_kept(file: &OpenedFile, size: u64, offset: u64, len: u64) -> bool {
    let behind = offset.saturating_add(len).saturating_add(FAR_BYTES);
    let is_within = behind.saturating_add(SAMPLE_LEN) <= size;
    let far = if is_within { behind } else { offset.saturating_sub(FAR_BYTES + SAMPLE_LEN) };
    is_cached(&**file.fd(), far, SAMPLE_LEN.min(size.saturating_sub(far)))
}

/// An end's storage options, and its measurements.
pub struct StoragePolicy {
    request: StorageRequest,
    large_bytes: u64,
    choices: IoMethodProbes,
    /// Whether requested direct I/O was refused for a file.
    refused: AtomicBool,
}

/// The plan for a range of a file.
pub struct IoPlan {
    /// Buffered or direct I/O.
    pub method: IoMethod,
    /// Destination of the measured cost.
    pub trial: Option<Arc<Mutex<IoMethodProbe>>>,
    /// Whether to drop its pages afterwards.
    pub drop: bool,
    /// Whether it is in the page cache.
    pub cached: bool,
    /// Whether the kernel's own long read-ahead suffices: for both ends of a delta, which may share a disk. A copy
    /// alone with its disk is faster with advice.
    pub led: bool,
}

impl IoPlan {
    /// The plan for uncached or unsampled data: no cost report, no dropped pages, no read-ahead.
    pub fn by(method: IoMethod) -> Self {
        Self { method, trial: None, drop: false, cached: false, led: false }
    }
}

impl StoragePolicy {
    /// The policy of a Request.
    pub fn new(request: StorageRequest) -> Self {
        Self {
            request,
            large_bytes: large_file_bytes(),
            choices: IoMethodProbes::default(),
            refused: AtomicBool::new(false),
        }
    }

    /// Returns the number of frames of `frame_bytes` that a stream has in flight with O_DIRECT.
    pub fn depth(&self, frame_bytes: usize) -> usize {
        match self.request.under_way {
            0 => depth(frame_bytes),
            frames => frames.into(),
        }
    }

    /// Plans the reading of a range of a file of `size` bytes. Cached pages are read from the page cache, and stay
    /// there.
    pub fn reading(&self, file: &OpenedFile, size: u64, offset: u64, len: u64) -> IoPlan {
        self.plan_cached_read(file, size, offset, len).unwrap_or_else(|| {
            let (method, trial) = self.method(file, size, len);
            let drop = method == IoMethod::Buffered && self.drops(file, size);
            IoPlan { trial, drop, cached: file.in_memory(), ..IoPlan::by(method) }
        })
    }

    /// The plan for reading a range for a comparison with a base file: through the page cache, unless direct I/O was
    /// requested. The other end may read the same disk, for which the kernel makes larger requests than a stream;
    /// beside hashing, the cost of the cache is small.
    pub fn reading_through_cache(&self, file: &OpenedFile, size: u64, offset: u64, len: u64) -> IoPlan {
        if self.is_forced() {
            return self.reading(file, size, offset, len);
        }
        let plan = self.plan_cached_read(file, size, offset, len).unwrap_or_else(|| {
            let (drop, cached) = (self.drops(file, size), file.in_memory());
            IoPlan { drop, cached, ..IoPlan::by(IoMethod::Buffered) }
        });
        IoPlan { led: true, ..plan }
    }

    /// The plan for cached data, or data that will be cached.
    fn plan_cached_read(&self, file: &OpenedFile, size: u64, offset: u64, len: u64) -> Option<IoPlan> {
        let (size, offset) = (file.begins().saturating_add(size), file.begins().saturating_add(offset));
        let there = !self.is_forced() && !file.in_memory() && is_cached(&**file.fd(), offset, len);
        there.then(|| {
            let is_ours = self.drops(file, size) && !is_kept(file, size, offset, len);
            IoPlan { drop: is_ours, cached: !is_ours, ..IoPlan::by(IoMethod::Buffered) }
        })
    }

    /// Plans the writing of the next `len` bytes of a file of `size` bytes.
    pub fn writing(&self, file: &OpenedFile, size: u64, len: u64) -> IoPlan {
        let (method, trial) = self.method(file, size, len);
        IoPlan { trial, drop: self.drops(file, size), ..IoPlan::by(method) }
    }

    /// The trial of a file's file system.
    pub fn trial(&self, file: &OpenedFile) -> Arc<Mutex<IoMethodProbe>> {
        self.choices.of(file.device())
    }

    /// Returns `true` once, if requested direct I/O is refused for a file.
    pub fn is_refusal_news(&self) -> bool {
        self.is_forced() && !self.refused.swap(true, Ordering::Relaxed)
    }

    /// Whether direct I/O was requested: bytes are then copied, not cloned.
    pub fn is_forced(&self) -> bool {
        self.request.direct == DirectIo::Always
    }

    /// Whether direct I/O was forbidden.
    pub fn is_never_direct(&self) -> bool {
        self.request.direct == DirectIo::Never
    }

    fn drops(&self, file: &OpenedFile, size: u64) -> bool {
        let wanted = match self.request.cache {
            CacheUse::Auto => size >= self.large_bytes,
            CacheUse::Keep => false,
            CacheUse::Drop | CacheUse::Cold => true,
        };
        wanted && !file.in_memory()
    }

    fn method(&self, file: &OpenedFile, size: u64, len: u64) -> (IoMethod, Option<Arc<Mutex<IoMethodProbe>>>) {
        match self.request.direct {
            DirectIo::Never => (IoMethod::Buffered, None),
            DirectIo::Always if file.direct().is_some() => (IoMethod::Direct, None),
            DirectIo::Always => (IoMethod::Buffered, None),
            DirectIo::Auto if file.in_memory() || size < DIRECT_FILE_MIN => (IoMethod::Buffered, None),
            DirectIo::Auto => self.measured(file, size, len),
        }
    }

    fn measured(&self, file: &OpenedFile, size: u64, len: u64) -> (IoMethod, Option<Arc<Mutex<IoMethodProbe>>>) {
        let shared = self.choices.of(file.device());
        let mut trial = lock(&shared);
        if size < TRIAL_FILE_MIN {
            let method = trial.settled().unwrap_or(IoMethod::Buffered);
            return (if file.direct().is_some() { method } else { IoMethod::Buffered }, None);
        }
        if trial.settled() != Some(IoMethod::Buffered) && file.direct().is_none() {
            trial.refuse();
        }
        let (method, is_measured) = trial.next(len);
        drop(trial);
        (method, is_measured.then_some(shared))
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;
    use crate::io::storage::FileAccess;
    use crate::io::storage::calls::read_at;

    #[test]
    fn readahead_for_this_copy_does_not_stay_cached() {
        // Beside the test's own executable: there is a disk, unlike in /tmp.
        let place = std::env::current_exe().unwrap().parent().unwrap().to_owned();
        let named = tempfile::NamedTempFile::new_in(place).unwrap();
        let (size, len) = (2 * FAR_BYTES, 1 << 20);
        named.as_file().set_len(size).unwrap();
        let file = OpenedFile::new(File::open(named.path()).unwrap().into(), FileAccess::Read).unwrap();
        let read = |offset, len: u64| {
            read_at(&**file.fd(), &mut vec![0; usize::try_from(len).unwrap()], offset).unwrap();
        };
        read(0, len);
        if file.in_memory() || !is_cached(&**file.fd(), 0, len) {
            println!("SKIPPED: no disk here, or the kernel does not tell what is cached");
            return;
        }
        let policy = StoragePolicy::new(StorageRequest { cache: CacheUse::Drop, ..StorageRequest::default() });
        for reading in [StoragePolicy::reading, StoragePolicy::reading_through_cache] {
            let plan = reading(&policy, &file, size, 0, len);
            assert_eq!(
                (plan.method, plan.drop, plan.cached),
                (IoMethod::Buffered, true, false),
                "far from it nothing is"
            );
        }
        read(len + FAR_BYTES, SAMPLE_LEN);
        for reading in [StoragePolicy::reading, StoragePolicy::reading_through_cache] {
            let plan = reading(&policy, &file, size, 0, len);
            assert_eq!((plan.method, plan.drop, plan.cached), (IoMethod::Buffered, false, true), "others use it");
        }
        // Behind that range nothing was read; a sample at this distance before the end shows the state before it.
        let last = size - len;
        read(last, len);
        assert!(policy.reading(&file, size, last, len).drop);
        let nothing_there = policy.reading_through_cache(&file, size, size / 2 - 4 * len, len);
        assert_eq!((nothing_there.method, nothing_there.drop), (IoMethod::Buffered, true));
    }
}

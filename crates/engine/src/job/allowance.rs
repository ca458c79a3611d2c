//! How much all clients of a served directory may still bring: bytes, and names of files, directories and links. The
//! server and its workers share the counters in a file without a name, under record locks.

use crate::sys::inherited_fds;
use rustix::fs::{FlockOperation, MemfdFlags, fcntl_lock, memfd_create};
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex};

use crate::sys::sync::lock;

/// Fewest names that follow from a limit in bytes.
const NAMES_MIN: u64 = 1024;
/// Bytes that a name takes on most file systems: one block.
const NAME_BYTES: u64 = 4096;

/// Why a client may bring no more.
#[derive(Debug, thiserror::Error)]
pub enum AllowanceError {
    /// Too few bytes are left.
    #[error("the server's limit is {max} bytes in all, of which {left} are left\nask its administrator, or send less")]
    Bytes {
        /// The limit.
        max: u64,
        /// Remaining bytes.
        left: u64,
    },
    /// All names of this limit are taken.
    #[error("the server's limit of {0} files and directories is reached\nask its administrator, or send fewer")]
    Names(u64),
    /// The counters cannot be read or written.
    #[error("the server cannot count its files: {0}")]
    Counters(#[from] io::Error),
}

/// What may still come.
#[derive(Debug)]
pub struct Allowance {
    counters: Arc<OwnedFd>,
    /// Record locks do not keep threads of one process from each other.
    threads: Mutex<()>,
}

/// Those of a server's directories, by name. A directory that is reloaded keeps its counts unless its limits are
/// others.
#[derive(Debug, Default)]
pub struct Allowances(Mutex<HashMap<String, (AllowanceLimits, Arc<Allowance>)>>);

/// Bytes and names.
type AllowanceLimits = (Option<u64>, Option<u64>);

impl Allowances {
    /// What all clients may still bring into this directory, of `size` bytes and `files` names; `None` where it has no
    /// limit.
    pub fn of(&self, directory: &str, size: Option<u64>, files: Option<u64>) -> io::Result<Option<Arc<Allowance>>> {
        let limits = (size, files);
        if limits == (None, None) {
            return Ok(None);
        }
        let mut all = lock(&self.0);
        if let Some((known, allowance)) = all.get(directory)
            && *known == limits
        {
            return Ok(Some(Arc::clone(allowance)));
        }
        let allowance = Arc::new(Allowance::new(size, files)?);
        all.insert(directory.to_owned(), (limits, Arc::clone(&allowance)));
        Ok(Some(allowance))
    }
}

/// The counters, as they lie in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct AllowanceCounters {
    bytes_max: u64,
    bytes_left: u64,
    names_max: u64,
    names_left: u64,
}

impl AllowanceCounters {
    const LEN: usize = 32;

    fn encode(self) -> [u8; Self::LEN] {
        let mut out = [0; Self::LEN];
        let numbers = [self.bytes_max, self.bytes_left, self.names_max, self.names_left];
        out.chunks_exact_mut(8).zip(numbers).for_each(|(field, number)| field.copy_from_slice(&number.to_le_bytes()));
        out
    }

    fn decode(bytes: [u8; Self::LEN]) -> Self {
        let mut numbers = bytes.as_chunks::<8>().0.iter().map(|field| u64::from_le_bytes(*field));
        let mut next = || numbers.next().unwrap_or_default();
        Self { bytes_max: next(), bytes_left: next(), names_max: next(), names_left: next() }
    }
}

impl Allowance {
    /// A limit on bytes and names, or none. Without a number of names, the bytes determine it.
    pub fn new(bytes: Option<u64>, names: Option<u64>) -> io::Result<Self> {
        let from_bytes = bytes.map_or(u64::MAX, |bytes| (bytes / NAME_BYTES).max(NAMES_MIN));
        let (bytes, names) = (bytes.unwrap_or(u64::MAX), names.unwrap_or(from_bytes));
        let counters = memfd_create(c"haul-allowance", MemfdFlags::CLOEXEC)?;
        let made = Self { counters: Arc::new(counters), threads: Mutex::default() };
        let all = AllowanceCounters { bytes_max: bytes, bytes_left: bytes, names_max: names, names_left: names };
        made.file()?.write_all_at(&all.encode(), 0)?;
        Ok(made)
    }

    /// The file, to be handed to a worker.
    pub fn counters(&self) -> &Arc<OwnedFd> {
        &self.counters
    }

    /// In a worker: the file that the server has left here under this number. To be called once.
    pub fn handed(number: i32) -> io::Result<Self> {
        Ok(Self { counters: Arc::new(inherited_fds::adopt(number)?), threads: Mutex::default() })
    }

    /// Takes bytes and names, or neither.
    pub fn reserve(&self, bytes: u64, names: u64) -> Result<(), AllowanceError> {
        self.change(|counters| {
            let rest = |max, left: u64, taken| if max == u64::MAX { Some(left) } else { left.checked_sub(taken) };
            let (max, left) = (counters.bytes_max, counters.bytes_left);
            let bytes_left = rest(max, left, bytes).ok_or(AllowanceError::Bytes { max, left })?;
            let (max, left) = (counters.names_max, counters.names_left);
            let names_left = rest(max, left, names).ok_or(AllowanceError::Names(max))?;
            (counters.bytes_left, counters.names_left) = (bytes_left, names_left);
            Ok(())
        })?
    }

    /// Gives back bytes that did not come.
    pub fn give_back(&self, bytes: u64) {
        // Where that cannot be written, fewer are left.
        let _ = self.change(|counters| {
            counters.bytes_left = counters.bytes_left.saturating_add(bytes).min(counters.bytes_max);
        });
    }

    fn file(&self) -> io::Result<File> {
        Ok(File::from(rustix::io::fcntl_dupfd_cloexec(&*self.counters, 0)?))
    }

    fn change<T>(&self, change: impl FnOnce(&mut AllowanceCounters) -> T) -> io::Result<T> {
        let _alone = lock(&self.threads);
        rustix::io::retry_on_intr(|| fcntl_lock(&*self.counters, FlockOperation::LockExclusive))?;
        let changed = self.change_locked(change);
        fcntl_lock(&*self.counters, FlockOperation::Unlock)?;
        changed
    }

    fn change_locked<T>(&self, change: impl FnOnce(&mut AllowanceCounters) -> T) -> io::Result<T> {
        let mut bytes = [0; AllowanceCounters::LEN];
        let mut read = 0;
        while read < bytes.len() {
            match rustix::io::retry_on_intr(|| rustix::io::pread(&*self.counters, &mut bytes[read..], read as u64))? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                more => read += more,
            }
        }
        let mut counters = AllowanceCounters::decode(bytes);
        let changed = change(&mut counters);
        rustix::io::retry_on_intr(|| rustix::io::pwrite(&*self.counters, &counters.encode(), 0))?;
        Ok(changed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As another process has it.
    fn other(allowance: &Allowance) -> Allowance {
        Allowance { counters: Arc::clone(allowance.counters()), threads: Mutex::default() }
    }

    #[test]
    fn all_clients_take_from_the_same_bytes_and_names() {
        let first = Allowance::new(Some(10), Some(3)).unwrap();
        let second = other(&first);
        assert!(first.reserve(6, 1).is_ok() && second.reserve(4, 1).is_ok());
        assert!(first.reserve(1, 0).unwrap_err().to_string().contains("10 bytes in all, of which 0"));
        first.give_back(5);
        assert!(second.reserve(5, 1).is_ok());
        assert!(second.reserve(0, 1).unwrap_err().to_string().contains("3 files and directories"));
        second.give_back(100);
        assert!(first.reserve(11, 0).is_err() && first.reserve(10, 0).is_ok(), "no more than there was");
        let both = Allowance::new(Some(10), Some(3)).unwrap();
        assert!(both.reserve(10, 4).is_err() && both.reserve(10, 3).is_ok(), "both or neither");
    }

    #[test]
    fn a_directory_keeps_its_counts_until_its_limits_change() {
        let all = Allowances::default();
        let of = |name, size| all.of(name, size, None).unwrap();
        assert!(of("free", None).is_none());
        let allowance = of("in", Some(10)).unwrap();
        assert!(allowance.reserve(10, 0).is_ok());
        assert!(of("in", Some(10)).unwrap().reserve(1, 0).is_err());
        assert!(of("other", Some(10)).unwrap().reserve(1, 0).is_ok());
        assert!(of("in", Some(20)).unwrap().reserve(20, 0).is_ok());
    }

    #[test]
    fn names_follow_from_bytes() {
        let names = |bytes, names| {
            let mut all = 0;
            let allowance = Allowance::new(bytes, names).unwrap();
            allowance.change(|counters| all = counters.names_left).unwrap();
            all
        };
        assert_eq!([names(Some(1 << 20), None), names(Some(1 << 30), None)], [1024, 262_144]);
        assert_eq!([names(None, None), names(Some(1 << 50), None)], [u64::MAX, 1 << 38]);
        assert_eq!([names(None, Some(7)), names(Some(1 << 20), Some(1 << 40))], [7, 1 << 40]);
        let any = Allowance::new(None, None).unwrap();
        assert!(any.reserve(u64::MAX, u64::MAX).is_ok() && any.reserve(u64::MAX, u64::MAX).is_ok());
    }
}

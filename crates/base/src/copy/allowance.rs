//! The remaining allowance of all clients of a served directory: bytes, and names of files, directories and links. The
//! server and its workers share the counters in an unnamed file, under record locks.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

use rustix::fs::{FlockOperation, fcntl_lock};

use crate::size_text::{size, size_limit};
use crate::sys::shared_numbers::SharedNumbers;
use crate::sys::sync::lock;

/// Fewest names that follow from a limit in bytes.
const NAMES_MIN: u64 = 1024;
/// Bytes of a name on most file systems: one block.
const NAME_BYTES: u64 = 4096;

/// The refusal of a client's data.
#[derive(Debug, thiserror::Error)]
pub enum AllowanceError {
    /// Too few bytes are left.
    #[error("the server's limit is {} in all, of which {} are left\nask its administrator, or send less", size_limit(*.max), size(*.left))]
    Bytes {
        /// The limit.
        max: u64,
        /// Remaining bytes.
        left: u64,
    },
    /// All names of this limit are used.
    #[error("the server's limit of {0} files and directories is reached\nask its administrator, or send fewer")]
    Names(u64),
    /// The counters cannot be read or written.
    #[error("the server cannot count its files: {0}")]
    Counters(#[from] io::Error),
}

/// The remaining allowance.
#[derive(Debug)]
pub struct Allowance {
    counters: SharedNumbers<4>,
    /// Record locks do not exclude threads of one process.
    threads: Mutex<()>,
}

/// The allowances of a server's directories, by name. A reloaded directory keeps its counts unless its limits change.
#[derive(Debug, Default)]
pub struct Allowances(Mutex<HashMap<String, (AllowanceLimits, Arc<Allowance>)>>);

/// Bytes and names.
type AllowanceLimits = (Option<u64>, Option<u64>);

impl Allowances {
    /// The allowance of a directory with a limit of `size` bytes and `files` names; `None` without a limit.
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

/// The counters in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct AllowanceCounters {
    bytes_max: u64,
    bytes_left: u64,
    names_max: u64,
    names_left: u64,
}

impl AllowanceCounters {
    fn to_numbers(self) -> [u64; 4] {
        [self.bytes_max, self.bytes_left, self.names_max, self.names_left]
    }

    fn of([bytes_max, bytes_left, names_max, names_left]: [u64; 4]) -> Self {
        Self { bytes_max, bytes_left, names_max, names_left }
    }
}

impl Allowance {
    /// A limit on bytes and names. Without a limit on names, the bytes determine it.
    pub fn new(bytes: Option<u64>, names: Option<u64>) -> io::Result<Self> {
        let from_bytes = bytes.map_or(u64::MAX, |bytes| (bytes / NAME_BYTES).max(NAMES_MIN));
        let (bytes, names) = (bytes.unwrap_or(u64::MAX), names.unwrap_or(from_bytes));
        let all = AllowanceCounters { bytes_max: bytes, bytes_left: bytes, names_max: names, names_left: names };
        let counters = SharedNumbers::new(c"haul-allowance")?;
        counters.write(all.to_numbers())?;
        Ok(Self { counters, threads: Mutex::default() })
    }

    /// The file, to be inherited by a worker.
    pub fn counters(&self) -> &Arc<OwnedFd> {
        self.counters.descriptor()
    }

    /// In a worker: takes the file inherited under this number. To be called once.
    pub fn handed(number: i32) -> io::Result<Self> {
        Ok(Self { counters: SharedNumbers::handed(number)?, threads: Mutex::default() })
    }

    /// Reserves bytes and names, or neither.
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

    /// Returns unused bytes.
    pub fn give_back(&self, bytes: u64) {
        // On an error, the bytes remain counted.
        let _ = self.change(|counters| {
            counters.bytes_left = counters.bytes_left.saturating_add(bytes).min(counters.bytes_max);
        });
    }

    fn change<T>(&self, change: impl FnOnce(&mut AllowanceCounters) -> T) -> io::Result<T> {
        let _alone = lock(&self.threads);
        let file = &**self.counters.descriptor();
        rustix::io::retry_on_intr(|| fcntl_lock(file, FlockOperation::LockExclusive))?;
        let changed = self.change_locked(change);
        fcntl_lock(file, FlockOperation::Unlock)?;
        changed
    }

    fn change_locked<T>(&self, change: impl FnOnce(&mut AllowanceCounters) -> T) -> io::Result<T> {
        let mut counters = AllowanceCounters::of(self.counters.read()?);
        let changed = change(&mut counters);
        self.counters.write(counters.to_numbers())?;
        Ok(changed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As another process has it.
    fn other(allowance: &Allowance) -> Allowance {
        Allowance { counters: allowance.counters.clone(), threads: Mutex::default() }
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

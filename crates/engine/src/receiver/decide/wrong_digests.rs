//! Mismatched digests. An offered digest reveals whether a file has it. So a source may offer as many wrong digests of
//! a file as the file has names, up to a limit. After that, the file counts as different without a read.

use std::collections::HashMap;
use std::sync::Mutex;

use haul_base::sys::sync::lock;

use crate::fs::{FileIdentity, FileStat};

/// Most wrong digests of one file, whatever its number of names.
const WRONG_DIGESTS_MAX: u64 = 8;
/// Most remembered files; beyond that, every file counts as different. A hash table of this size takes 13 MiB, and 19
/// MiB while it grows.
const FILES_MAX: usize = 7 << 16;

/// Numbers of wrong digests, by file.
#[derive(Default)]
pub struct WrongDigests(Mutex<HashMap<FileIdentity, u8>>);

impl WrongDigests {
    /// Whether another digest may be compared with this file.
    pub fn may_compare(&self, file: &FileStat) -> bool {
        let wrong = lock(&self.0);
        let most = file.names.clamp(1, WRONG_DIGESTS_MAX);
        wrong.len() < FILES_MAX && u64::from(wrong.get(&file.identity).copied().unwrap_or(0)) < most
    }

    /// Counts a wrong digest.
    pub fn count(&self, file: &FileStat) {
        let mut wrong = lock(&self.0);
        let times = wrong.entry(file.identity).or_default();
        *times = times.saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_too_many_files_no_digest_is_compared() {
        let mut file = FileStat::at_fd(tempfile::tempfile().unwrap()).unwrap();
        file.names = 1;
        let wrong = WrongDigests::default();
        for inode in 0..FILES_MAX as u64 {
            file.identity.inode = inode;
            assert!(wrong.may_compare(&file));
            wrong.count(&file);
        }
        file.identity.inode = u64::MAX;
        assert!(!wrong.may_compare(&file));
    }
}

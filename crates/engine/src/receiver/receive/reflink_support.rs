//! Which file systems refuse reflinks.

use std::collections::HashSet;
use std::sync::Mutex;

use haul_base::sys::sync::lock;

use crate::io::storage::file::OpenedFile;

/// Refused reflinks, so that they are not tried for every chunk.
#[derive(Debug, Default)]
pub struct ReflinkSupport {
    /// Device numbers of file systems without reflinks to the target's. A copy uses few.
    refused: Mutex<HashSet<u64>>,
}

impl ReflinkSupport {
    /// Whether a file system like that of `source` has refused.
    pub fn is_refused(&self, source: &OpenedFile) -> bool {
        lock(&self.refused).contains(&source.device())
    }

    /// Records a refusal.
    pub fn refuse(&self, source: &OpenedFile) {
        lock(&self.refused).insert(source.device());
    }
}

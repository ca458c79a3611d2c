//! The digest of one file (`-E`, `--expect`).

use std::sync::OnceLock;

use crate::io::checksum::FileChecksum;

/// State of a file's digest.
#[derive(Default)]
pub struct DigestCheck {
    /// The running checksum.
    pub sum: OnceLock<Box<FileChecksum>>,
    /// The final digest.
    pub value: OnceLock<Vec<u8>>,
}

impl DigestCheck {
    /// State for the same file offered again. A large file keeps its checksum; a small one is reread.
    pub fn again(&self) -> Self {
        let value = if self.sum.get().is_some() { self.value.clone() } else { OnceLock::new() };
        Self { sum: OnceLock::new(), value }
    }
}

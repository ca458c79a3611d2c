//! The digest of one file (`-E`, `--expect`).

use std::sync::OnceLock;

use crate::io::checksum::FileChecksum;

/// What is known of a file's digest.
#[derive(Default)]
pub struct DigestCheck {
    /// While it grows.
    pub sum: OnceLock<Box<FileChecksum>>,
    /// When it is whole.
    pub value: OnceLock<Vec<u8>>,
}

impl DigestCheck {
    /// For the same file offered again. A large one keeps its digest; a small one is read again.
    pub fn again(&self) -> Self {
        let value = if self.sum.get().is_some() { self.value.clone() } else { OnceLock::new() };
        Self { sum: OnceLock::new(), value }
    }
}

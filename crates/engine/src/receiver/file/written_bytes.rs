//! Bytes of one version of a file in the tally of written bytes.

use std::sync::atomic::{AtomicU64, Ordering};

const VOID: u64 = 1 << 63;

/// Bytes written, until the version is void. A frame may still be written after that.
#[derive(Default)]
pub struct WrittenBytes(AtomicU64);

impl WrittenBytes {
    /// Adds a frame to the version and to `tally`, unless the version is void.
    pub fn add(&self, len: u64, tally: &AtomicU64) {
        // The tally first: it never falls below what `void` takes out.
        tally.fetch_add(len, Ordering::Relaxed);
        if self.0.fetch_add(len, Ordering::AcqRel) & VOID != 0 {
            tally.fetch_sub(len, Ordering::Relaxed);
        }
    }

    /// Ends the version, and takes its bytes out of `tally`.
    pub fn void(&self, tally: &AtomicU64) {
        let written = self.0.fetch_or(VOID, Ordering::AcqRel);
        if written & VOID == 0 {
            tally.fetch_sub(written, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_void_version_leaves_the_tally_unchanged() {
        let (tally, first, second) = (AtomicU64::new(0), WrittenBytes::default(), WrittenBytes::default());
        first.add(500, &tally);
        second.add(20, &tally);
        first.void(&tally);
        first.void(&tally);
        first.add(300, &tally);
        second.add(3, &tally);
        assert_eq!(tally.load(Ordering::Relaxed), 23);
    }
}

//! A buffer for getdents64(2).

/// Bytes that one getdents64(2) call may return: about 250 names. One thread looks up one chunk at a time, and a walk
/// holds one for each level of the tree, so chunks are small.
pub(super) const LISTING_BUFFER: usize = 8 * 1024;

/// The buffer of a getdents64(2) call.
pub(super) struct ListingBuffer(pub Vec<u8>);

impl ListingBuffer {
    pub fn new() -> Self {
        Self(Vec::with_capacity(LISTING_BUFFER))
    }
}

//! A buffer for getdents64(2).

/// Bytes that one call to the system may return: about 250 names. Small, since a piece is what one thread looks
/// up at a time, and what a walk holds for a level of the tree.
pub(super) const LISTING_BUFFER: usize = 8 * 1024;

/// What the system's answers are read into.
pub(super) struct ListingBuffer(pub Vec<u8>);

impl ListingBuffer {
    pub fn new() -> Self {
        Self(Vec::with_capacity(LISTING_BUFFER))
    }
}

//! The end of a frame's write, on its way from the writer to the driver.

use std::sync::Arc;

use haul_proto::wire::frame::DataFrame;

use crate::receiver::entry::ReceiverEntry;
use crate::receiver::place::error::FileError;

/// A frame whose write has ended.
pub struct WrittenFrame {
    /// The file.
    pub item: Arc<ReceiverEntry>,
    /// The frame.
    pub frame: DataFrame,
    /// Bytes of its payload.
    pub len: usize,
    /// Its bytes that had to be written, without holes and shared blocks; or why it could not be written.
    pub result: Result<u64, FileError>,
}

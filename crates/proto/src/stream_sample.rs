//! Samples of a stream's connection.

use crate::ids::StreamId;

/// State of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StreamSample {
    /// The stream.
    pub stream: StreamId,
    /// Bytes acknowledged by the other end so far.
    pub acknowledged_bytes: u64,
    /// Whether data was sent and nothing came back since. A receiver with a full window responds, so it does not count.
    pub unanswered: bool,
    /// Whether data waits to be sent or acknowledged.
    pub has_data: bool,
    /// Time for which the receiver had no room, so far.
    pub receiver_limited_us: u64,
}

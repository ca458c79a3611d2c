//! Protocol violations by a peer. Each ends the session; none can cause a panic.

/// A protocol violation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// A message ends before its fields do.
    #[error("a message is truncated")]
    Truncated,
    /// A field has an invalid value.
    #[error("a message contains {0}")]
    Invalid(&'static str),
    /// A length, count or index exceeds its named limit.
    #[error("a message exceeds the limit for {0}")]
    OverLimit(&'static str),
    /// This version does not know a kind of message, record or entry.
    #[error("unknown {what} {value}")]
    Unknown {
        /// The category.
        what: &'static str,
        /// Its number.
        value: u64,
    },
    /// A byte range is beyond the end of the file or not aligned to whole frames.
    #[error("a frame at an invalid offset")]
    Misplaced,
    /// A message names an entry never offered, or is unrequested.
    #[error("an unexpected message about {0}")]
    Unasked(&'static str),
    /// A message is not allowed in the present state.
    #[error("{0} out of order")]
    OutOfTurn(&'static str),
    /// The session's keys cannot decrypt a record or greeting.
    #[error("a record fails authentication")]
    NotAuthentic,
    /// The protocol versions differ.
    #[error("the other end speaks protocol version {0}, this end {ours}", ours = super::feature::PROTOCOL_VERSION)]
    Version(u16),
    /// This end lacks a required feature.
    #[error("the other end needs the feature '{0}', which this end lacks")]
    Feature(&'static str),
}

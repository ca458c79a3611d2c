//! What a peer can do wrong. Each ends the session; none can make it panic.

/// A peer broke the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// A message ended before its fields did.
    #[error("a message was cut short")]
    Truncated,
    /// A field has a value that it cannot have.
    #[error("a message contained {0}")]
    Invalid(&'static str),
    /// A length, count or index beyond its named limit.
    #[error("a message went beyond the limit for {0}")]
    OverLimit(&'static str),
    /// A kind of message, record or entry that this version does not know.
    #[error("unknown {what} {value}")]
    Unknown {
        /// What kind of thing.
        what: &'static str,
        /// Its number.
        value: u64,
    },
    /// Bytes of a file that do not lie on whole frames, or beyond its end.
    #[error("a frame lies where no frame may lie")]
    Misplaced,
    /// A message that names what was never offered, or not asked for.
    #[error("a message about {0}")]
    Unasked(&'static str),
    /// A message that cannot come now.
    #[error("{0} out of turn")]
    OutOfTurn(&'static str),
    /// A record or greeting that the session's keys do not open.
    #[error("a record that is not authentic")]
    NotAuthentic,
    /// Another version of the protocol.
    #[error("the other end speaks protocol version {0}, this end {ours}", ours = super::feature::PROTOCOL_VERSION)]
    Version(u16),
    /// A feature that this end does not have.
    #[error("the other end needs the feature '{0}', which this end does not have")]
    Feature(&'static str),
}

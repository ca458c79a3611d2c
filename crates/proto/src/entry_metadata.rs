//! Metadata that every entry has.

use crate::codec::wire_struct;
use crate::encoding::Decoded;
use crate::error::ProtocolError;
use crate::field_codecs::{AtMost, Varint32};

pub(crate) const BAD_MODE: ProtocolError = ProtocolError::Invalid("a mode with bits beyond the permissions");
const BAD_OWNER: ProtocolError = ProtocolError::Invalid("an owner of more than 32 bits");

wire_struct! {
    /// A time stamp of a file system: seconds since 1970 (may be negative) and nanoseconds.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
    pub struct Timestamp {
        /// Seconds since 1970-01-01 UTC.
        pub seconds: i64,
        /// 0 to 999,999,999.
        pub nanoseconds: u32,
    } checked by check_nanoseconds
}

fn check_nanoseconds(stamp: &Timestamp) -> Decoded<()> {
    match stamp.nanoseconds {
        0..1_000_000_000 => Ok(()),
        _ => Err(ProtocolError::Invalid("a time with too many nanoseconds")),
    }
}

wire_struct! {
    /// Preserved metadata of every entry.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct EntryMetadata {
        /// Permission bits with setuid, setgid and sticky: at most `0o7777`.
        pub mode: u16 as AtMost(0o7777, BAD_MODE),
        /// Numeric owner at the source.
        pub uid: u32 as Varint32(BAD_OWNER),
        /// Numeric group at the source.
        pub gid: u32 as Varint32(BAD_OWNER),
        /// Time of last modification.
        pub modified: Timestamp,
    }
}

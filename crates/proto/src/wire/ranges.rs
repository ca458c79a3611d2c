//! Ranges of a large file in Requests: one run of several copies one range, and a last one completes the file.

use crate::codec::{FieldCodec, OfType, Wire, wire_enum, wire_struct};
use crate::encoding::{Decoded, Reader, Writer};
use crate::entry::Timestamp;
use crate::error::ProtocolError;
use crate::file_range::{FileRange, RangeLen};

wire_struct! {
    /// The version of a file when its ranges were planned. Device numbers are absent: they differ between hosts.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct PlannedVersion {
        /// Size in bytes.
        pub size: u64,
        /// Inode number.
        pub inode: u64,
        /// Time of last modification.
        pub modified: Timestamp,
        /// Time of last change.
        pub changed: Timestamp,
    }
}

wire_struct! {
    /// The range that a source sends of its only file.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct SourceRange {
        /// The range.
        pub range: FileRange,
        /// The only version that is sent.
        pub version: PlannedVersion,
    } checked by check_source_range
}

wire_enum! {
    /// What a target makes of a file with ranges.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum TargetRange: "use of ranges" {
        /// It receives this range of the only file, which gets no final name.
        One(range: FileRange) = 1,
        /// It completes each file whose ranges of this length have all been received.
        Finish(len: RangeLen) = 2,
    }
}

fn check_source_range(SourceRange { range, version }: &SourceRange) -> Decoded<()> {
    if range.is_in(version.size) { Ok(()) } else { Err(ProtocolError::Invalid("a range outside its file")) }
}

/// A field at the end of a message, which is absent where it is `None`. So a peer without ranges reads all other
/// Requests.
pub(super) struct Trailing;

impl<T: Wire> FieldCodec<Option<T>> for Trailing {
    fn encode(&self, value: &Option<T>, out: &mut Writer) {
        value.iter().for_each(|value| value.encode(out));
    }

    fn decode(&self, reader: &mut Reader<'_>) -> Decoded<Option<T>> {
        if reader.remaining() == 0 { Ok(None) } else { OfType.decode(reader).map(Some) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::tests::check_round_trip;
    use crate::codec::{from_bytes, to_bytes};

    #[test]
    fn ranges_round_trip_and_one_outside_its_file_is_refused() {
        let time = Timestamp { seconds: 5, nanoseconds: 6 };
        let range = RangeLen::MIN.range(2).unwrap();
        let version = PlannedVersion { size: range.offset() + 1, inode: 7, modified: time, changed: time };
        check_round_trip(&SourceRange { range, version });
        let outside = SourceRange { range, version: PlannedVersion { size: range.offset(), ..version } };
        assert!(from_bytes::<SourceRange>(&to_bytes(&outside)).is_err());
        check_round_trip(&TargetRange::One(range));
        check_round_trip(&TargetRange::Finish(RangeLen::DEFAULT));
        let mut uneven = to_bytes(&TargetRange::One(range));
        uneven[1] = 1;
        assert!(from_bytes::<TargetRange>(&uneven).is_err());
    }
}

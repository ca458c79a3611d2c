//! Differences between an entry at the target and the source's. A target that compares reports them to its controller.

use std::ops::Range;

use crate::codec::{FieldCodec, OfType, Wire, wire_enum};
use crate::encoding::{Decoded, Reader, Writer};
use crate::entry::{EntryKind, SpecialFile};
use crate::error::ProtocolError;
use crate::field_codecs::{BoundedBytes, ShownPath, Varint, list};
use crate::limits::{ATTRIBUTE_NAME_MAX, DIFFERING_ATTRIBUTES_MAX, DIFFERING_RANGES_MAX, SYMLINK_MAX};

wire_enum! {
    /// One difference.
    #[derive(Debug, Clone, PartialEq, Eq, Hash)]
    pub enum Difference: "difference" {
        /// Missing at the target.
        Missing(what: EntryKind) = 1,
        /// Extraneous at the target.
        Extra(what: EntryKind) = 2,
        /// Different types.
        Kind {
            /// Type at the source.
            source: EntryKind,
            /// Type at the target.
            target: EntryKind,
        } = 3,
        /// Files of different sizes, in bytes.
        Size {
            /// Size at the source.
            source: u64 as Varint,
            /// Size at the target.
            target: u64 as Varint,
        } = 4,
        /// Symbolic links with different targets.
        Link {
            /// Link target at the source.
            source: Vec<u8> as LINK,
            /// Link target at the target.
            target: Vec<u8> as LINK,
        } = 5,
        /// Different permission bits.
        Mode {
            /// Mode at the source.
            source: u16,
            /// Mode at the target.
            target: u16,
        } = 6,
        /// Different numeric owner or group.
        Owner {
            /// Owner and group at the source.
            source: (u32, u32),
            /// Owner and group at the target.
            target: (u32, u32),
        } = 7,
        /// Different contents of files of the same size.
        Content {
            /// Bytes of all differing frames.
            bytes: u64 as Varint,
            /// Byte ranges in ascending order: the first differing frames, in whole frames.
            ranges: Vec<Range<u64>> as list(ByteRange, DIFFERING_RANGES_MAX, "ranges of bytes"),
        } = 8,
        /// Different extended attributes, including access control lists.
        Attributes {
            /// Number of all differing attributes.
            count: u64 as Varint,
            /// The first of them, by name.
            names: Vec<(AttributeEnd, Box<[u8]>)> as list((OfType, ATTRIBUTE), DIFFERING_ATTRIBUTES_MAX, "attributes that differ"),
        } = 9,
        /// A hard link at one end and a separate file at the other.
        Name {
            /// Whether the hard link is at the source.
            at_source: bool as AtSource,
            /// The other hard link, by its name at the target.
            of: Vec<u8> as ShownPath,
        } = 10,
        /// Special files of different types, or devices of different numbers.
        Node {
            /// Special file at the source.
            source: SpecialFile,
            /// Special file at the target.
            target: SpecialFile,
        } = 11,
    }
}

wire_enum! {
    /// The end with an attribute.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum AttributeEnd: "end" {
        /// Only the source.
        Source = 1,
        /// Only the target.
        Target = 2,
        /// Both ends, with different values.
        Both = 3,
    }
}

const LINK: BoundedBytes = BoundedBytes(SYMLINK_MAX, "a symbolic link");
const ATTRIBUTE: BoundedBytes = BoundedBytes(ATTRIBUTE_NAME_MAX, "the name of an attribute");

/// The first byte of a range, and the one after its last.
struct ByteRange;

impl FieldCodec<Range<u64>> for ByteRange {
    fn encode(&self, range: &Range<u64>, out: &mut Writer) {
        out.varint(range.start).varint(range.end);
    }

    fn decode(&self, reader: &mut Reader<'_>) -> Decoded<Range<u64>> {
        let range = reader.varint()?..reader.varint()?;
        if range.is_empty() { Err(ProtocolError::Invalid("a range of bytes")) } else { Ok(range) }
    }
}

/// The end with a hard link.
struct AtSource;

impl FieldCodec<bool> for AtSource {
    fn encode(&self, at_source: &bool, out: &mut Writer) {
        if *at_source { AttributeEnd::Source } else { AttributeEnd::Target }.encode(out);
    }

    fn decode(&self, reader: &mut Reader<'_>) -> Decoded<bool> {
        match AttributeEnd::decode(reader)? {
            AttributeEnd::Source => Ok(true),
            AttributeEnd::Target => Ok(false),
            AttributeEnd::Both => Err(ProtocolError::Invalid("a hard link at both ends")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::from_bytes;
    use crate::codec::tests::check_round_trip;
    use crate::entry::DeviceNumber;
    use crate::limits::DIFFERENCES_MAX;

    #[test]
    fn differences_round_trip_and_unknown_ones_are_faults() {
        let all = vec![
            Difference::Missing(EntryKind::Symlink),
            Difference::Extra(EntryKind::Special),
            Difference::Kind { source: EntryKind::Directory, target: EntryKind::Symlink },
            Difference::Size { source: 0, target: u64::MAX },
            Difference::Link { source: b"a".to_vec(), target: vec![0xff; SYMLINK_MAX] },
            Difference::Mode { source: 0o644, target: 0o4755 },
            Difference::Owner { source: (0, 1), target: (u32::MAX, 2) },
            Difference::Content { ranges: vec![0..5, 7..9], bytes: 1 << 40 },
            Difference::Attributes {
                names: [AttributeEnd::Source, AttributeEnd::Target, AttributeEnd::Both]
                    .map(|end| (end, Box::from(*b"user.a")))
                    .to_vec(),
                count: 1024,
            },
            Difference::Name { at_source: true, of: b"a/b".to_vec() },
            Difference::Node {
                source: SpecialFile::Block(DeviceNumber { major: 8, minor: 1 << 20 }),
                target: SpecialFile::Socket,
            },
        ];
        assert_eq!(all.len(), DIFFERENCES_MAX, "one of each");
        all.iter().for_each(|difference| {
            check_round_trip(difference);
        });
        for unknown in
            [&[12][..], &[9, 1, 1, 4], &[10, 3, 0], &[11, 3, 5], &[0], &[9], &[2, 0], &[2, 5], &[8, 4, 1, 7, 7]]
        {
            assert!(from_bytes::<Difference>(unknown).is_err(), "{unknown:?}");
        }
    }
}

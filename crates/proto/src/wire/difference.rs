//! Differences between an entry at the target and the source's. A target that compares reports them to its controller.

use crate::entry::EntryKind;
use std::ops::Range;

use crate::encoding::{Decoded, Reader, Writer};
use crate::entry::{DeviceNumber, SpecialFile};
use crate::error::ProtocolError;
use crate::limits::{
    ATTRIBUTE_NAME_MAX, DIFFERENCES_MAX, DIFFERING_ATTRIBUTES_MAX, DIFFERING_RANGES_MAX, PATH_MAX, SYMLINK_MAX,
};

/// One difference.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Difference {
    /// Missing at the target.
    Missing(EntryKind),
    /// Extraneous at the target.
    Extra(EntryKind),
    /// Different types.
    Kind {
        /// Type at the source.
        source: EntryKind,
        /// Type at the target.
        target: EntryKind,
    },
    /// Files of different sizes, in bytes.
    Size {
        /// Size at the source.
        source: u64,
        /// Size at the target.
        target: u64,
    },
    /// Symbolic links with different targets.
    Link {
        /// Link target at the source.
        source: Vec<u8>,
        /// Link target at the target.
        target: Vec<u8>,
    },
    /// Different permission bits.
    Mode {
        /// Mode at the source.
        source: u16,
        /// Mode at the target.
        target: u16,
    },
    /// Different numeric owner or group.
    Owner {
        /// Owner and group at the source.
        source: (u32, u32),
        /// Owner and group at the target.
        target: (u32, u32),
    },
    /// Different contents of files of the same size.
    Content {
        /// Byte ranges in ascending order: the first differing frames, in whole frames.
        ranges: Vec<Range<u64>>,
        /// Bytes of all differing frames.
        bytes: u64,
    },
    /// Different extended attributes, including access control lists.
    Attributes {
        /// The first of them, by name.
        names: Vec<(AttributeEnd, Box<[u8]>)>,
        /// Number of all differing attributes.
        count: u64,
    },
    /// A hard link at one end and a separate file at the other.
    Name {
        /// Whether the hard link is at the source.
        at_source: bool,
        /// The other hard link, by its name at the target.
        of: Vec<u8>,
    },
    /// Special files of different types, or devices of different numbers.
    Node {
        /// Special file at the source.
        source: SpecialFile,
        /// Special file at the target.
        target: SpecialFile,
    },
}

/// The end with an attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AttributeEnd {
    /// Only the source.
    Source,
    /// Only the target.
    Target,
    /// Both ends, with different values.
    Both,
}

mod kind {
    pub const MISSING: u8 = 1;
    pub const EXTRA: u8 = 2;
    pub const KIND: u8 = 3;
    pub const SIZE: u8 = 4;
    pub const LINK: u8 = 5;
    pub const MODE: u8 = 6;
    pub const OWNER: u8 = 7;
    pub const CONTENT: u8 = 8;
    pub const ATTRIBUTES: u8 = 9;
    pub const NAME: u8 = 10;
    pub const NODE: u8 = 11;
}

impl Difference {
    /// Writes the differences of one entry.
    pub(super) fn encode_all(differences: &[Self], out: &mut Writer) {
        out.count(differences.len());
        differences.iter().for_each(|difference| difference.encode(out));
    }

    /// Reads the differences of one entry.
    pub(super) fn decode_all(reader: &mut Reader<'_>) -> Decoded<Vec<Self>> {
        let count = reader.count(DIFFERENCES_MAX, "differences")?;
        (0..count).map(|_| Self::decode(reader)).collect()
    }

    fn encode(&self, out: &mut Writer) {
        match self {
            Self::Missing(what) => out.u8(kind::MISSING).u8(what.number()),
            Self::Extra(what) => out.u8(kind::EXTRA).u8(what.number()),
            Self::Kind { source, target } => out.u8(kind::KIND).u8(source.number()).u8(target.number()),
            Self::Size { source, target } => out.u8(kind::SIZE).varint(*source).varint(*target),
            Self::Link { source, target } => out.u8(kind::LINK).bytes(source).bytes(target),
            Self::Mode { source, target } => out.u8(kind::MODE).u16(*source).u16(*target),
            Self::Owner { source, target } => {
                out.u8(kind::OWNER).u32(source.0).u32(source.1).u32(target.0).u32(target.1)
            }
            Self::Content { ranges, bytes } => {
                out.u8(kind::CONTENT).varint(*bytes).count(ranges.len());
                ranges.iter().for_each(|range| {
                    out.varint(range.start).varint(range.end);
                });
                out
            }
            Self::Attributes { names, count } => {
                out.u8(kind::ATTRIBUTES).varint(*count).count(names.len());
                names.iter().for_each(|(end, name)| {
                    out.u8(end.number()).bytes(name);
                });
                out
            }
            Self::Name { at_source, of } => {
                out.u8(kind::NAME).u8(if *at_source { 1 } else { 2 }).bytes(&of[..of.len().min(PATH_MAX)])
            }
            Self::Node { source, target } => {
                encode_node(*source, out.u8(kind::NODE));
                encode_node(*target, out);
                out
            }
        };
    }

    fn decode(reader: &mut Reader<'_>) -> Decoded<Self> {
        Ok(match reader.u8()? {
            kind::MISSING => Self::Missing(EntryKind::decode(reader)?),
            kind::EXTRA => Self::Extra(EntryKind::decode(reader)?),
            kind::KIND => Self::Kind { source: EntryKind::decode(reader)?, target: EntryKind::decode(reader)? },
            kind::SIZE => Self::Size { source: reader.varint()?, target: reader.varint()? },
            kind::LINK => {
                let mut link = || -> Decoded<Vec<u8>> { Ok(reader.bytes(SYMLINK_MAX, "a symbolic link")?.to_vec()) };
                Self::Link { source: link()?, target: link()? }
            }
            kind::MODE => Self::Mode { source: reader.u16()?, target: reader.u16()? },
            kind::OWNER => {
                Self::Owner { source: (reader.u32()?, reader.u32()?), target: (reader.u32()?, reader.u32()?) }
            }
            kind::CONTENT => {
                let bytes = reader.varint()?;
                let count = reader.count(DIFFERING_RANGES_MAX, "ranges of bytes")?;
                Self::Content { ranges: (0..count).map(|_| decode_range(reader)).collect::<Decoded<_>>()?, bytes }
            }
            kind::ATTRIBUTES => {
                let all = reader.varint()?;
                let count = reader.count(DIFFERING_ATTRIBUTES_MAX, "attributes that differ")?;
                let names = (0..count).map(|_| {
                    let end = AttributeEnd::decode(reader)?;
                    Ok((end, reader.bytes(ATTRIBUTE_NAME_MAX, "the name of an attribute")?.into()))
                });
                Self::Attributes { names: names.collect::<Decoded<_>>()?, count: all }
            }
            kind::NAME => {
                let at_source = match AttributeEnd::decode(reader)? {
                    AttributeEnd::Source => true,
                    AttributeEnd::Target => false,
                    AttributeEnd::Both => return Err(ProtocolError::Invalid("a hard link at both ends")),
                };
                Self::Name { at_source, of: reader.bytes(PATH_MAX, "a path")?.to_vec() }
            }
            kind::NODE => Self::Node { source: decode_node(reader)?, target: decode_node(reader)? },
            value => return Err(ProtocolError::Unknown { what: "difference", value: value.into() }),
        })
    }
}

fn decode_range(reader: &mut Reader<'_>) -> Decoded<Range<u64>> {
    let range = reader.varint()?..reader.varint()?;
    if range.is_empty() { Err(ProtocolError::Invalid("a range of bytes")) } else { Ok(range) }
}

fn encode_node(node: SpecialFile, out: &mut Writer) {
    match node {
        SpecialFile::Character(DeviceNumber { major, minor }) => out.u8(1).u32(major).u32(minor),
        SpecialFile::Block(DeviceNumber { major, minor }) => out.u8(2).u32(major).u32(minor),
        SpecialFile::Fifo => out.u8(3),
        SpecialFile::Socket => out.u8(4),
    };
}

fn decode_node(reader: &mut Reader<'_>) -> Decoded<SpecialFile> {
    let device = |reader: &mut Reader<'_>| Ok(DeviceNumber { major: reader.u32()?, minor: reader.u32()? });
    Ok(match reader.u8()? {
        1 => SpecialFile::Character(device(reader)?),
        2 => SpecialFile::Block(device(reader)?),
        3 => SpecialFile::Fifo,
        4 => SpecialFile::Socket,
        value => return Err(ProtocolError::Unknown { what: "device, FIFO or socket", value: value.into() }),
    })
}

impl AttributeEnd {
    fn number(self) -> u8 {
        match self {
            Self::Source => 1,
            Self::Target => 2,
            Self::Both => 3,
        }
    }

    fn decode(reader: &mut Reader<'_>) -> Decoded<Self> {
        match reader.u8()? {
            1 => Ok(Self::Source),
            2 => Ok(Self::Target),
            3 => Ok(Self::Both),
            value => Err(ProtocolError::Unknown { what: "end", value: value.into() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_comes_back_and_others_are_faults() {
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
        let mut out = Writer::new();
        Difference::encode_all(&all, &mut out);
        let bytes = out.into_bytes();
        assert_eq!(Difference::decode_all(&mut Reader::new(&bytes)), Ok(all));
        assert!((0..bytes.len()).all(|cut| Difference::decode_all(&mut Reader::new(&bytes[..cut])).is_err()));
        for unknown in [
            &[12, 1][..],
            &[1, 9, 1, 1, 4],
            &[1, 10, 3, 0],
            &[1, 11, 3, 5],
            &[1, 0],
            &[1, 9],
            &[1, 2, 0],
            &[1, 2, 5],
            &[1, 8, 4, 1, 7, 7],
        ] {
            assert!(Difference::decode_all(&mut Reader::new(unknown)).is_err(), "{unknown:?}");
        }
    }
}

//! Rare attributes of entries. They follow the entry in an Offer, where there are any.

use crate::codec::Wire;
use crate::encoding::{Decoded, Reader, Writer};
use crate::entry_metadata::EntryMetadata;
use crate::error::ProtocolError;
use crate::integrity::Digest;
use crate::limits::{ATTRIBUTE_NAME_MAX, ATTRIBUTE_OVERHEAD, ATTRIBUTES_BYTES_MAX, ATTRIBUTES_MAX, MORE_BYTES_MAX};
use crate::striping::Striping;

/// Rare attributes of an entry.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EntryExtras {
    /// Upper bound of the data bytes in a large file with holes.
    pub data_bytes: Option<u64>,
    /// Hard link count of a file with several hard links.
    pub names: Option<u64>,
    /// Extended attributes, including access control lists. `None`: the source does not preserve them.
    pub attributes: Option<Vec<ExtendedAttribute>>,
    /// BLAKE3 of a file's contents, where the source sends it in advance.
    pub digest: Option<Digest>,
    /// For a source argument: metadata of the directories between it and the base, the nearest first.
    pub parents: Vec<EntryMetadata>,
    /// Striping of a large file, where its file system has one.
    pub striping: Option<Striping>,
}

/// An extended attribute (xattr(7)).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtendedAttribute {
    /// Name with its namespace: `user.color`.
    pub name: Box<[u8]>,
    /// Value.
    pub value: Box<[u8]>,
}

impl Wire for ExtendedAttribute {
    fn encode(&self, out: &mut Writer) {
        out.bytes(&self.name).bytes(&self.value);
    }

    fn decode(reader: &mut Reader<'_>) -> Decoded<Self> {
        let name = reader.bytes(ATTRIBUTE_NAME_MAX, "the name of an attribute")?;
        if name.is_empty() || name.contains(&0) {
            return Err(ProtocolError::Invalid("the name of an attribute"));
        }
        let value = reader.bytes(ATTRIBUTES_BYTES_MAX, "the value of an attribute")?;
        Ok(Self { name: name.into(), value: value.into() })
    }
}

const DATA_BYTES: u8 = 1;
const NAMES: u8 = 2;
const ATTRIBUTES: u8 = 4;
const DIGEST: u8 = 8;
const PARENTS: u8 = 16;
const STRIPING: u8 = 32;
const ALL: u8 = DATA_BYTES | NAMES | ATTRIBUTES | DIGEST | PARENTS | STRIPING;

impl EntryExtras {
    /// Most directories above a source argument: more have no path that a system opens at once.
    pub const PARENTS_MAX: usize = 2048;

    /// Whether there are no extras.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the bytes that the extras count until their entry is complete.
    pub fn bytes(&self) -> usize {
        let of_one = |attribute: &ExtendedAttribute| attribute.name.len() + attribute.value.len() + ATTRIBUTE_OVERHEAD;
        64 + self.parents.len() * size_of::<EntryMetadata>()
            + self.attributes.iter().flatten().map(of_one).sum::<usize>()
    }

    /// Writes the extras with their length.
    pub fn encode(&self, out: &mut Writer) {
        let mut block = Writer::new();
        let flag = |has: bool, flag: u8| if has { flag } else { 0 };
        let flags = flag(self.data_bytes.is_some(), DATA_BYTES) | flag(self.names.is_some(), NAMES);
        let flags = flags | flag(self.attributes.is_some(), ATTRIBUTES) | flag(self.digest.is_some(), DIGEST);
        let flags = flags | flag(!self.parents.is_empty(), PARENTS);
        block.u8(flags | flag(self.striping.is_some(), STRIPING));
        self.data_bytes.iter().chain(&self.names).for_each(|number| {
            block.varint(*number);
        });
        if let Some(attributes) = &self.attributes {
            block.count(attributes.len());
            attributes.iter().for_each(|attribute| attribute.encode(&mut block));
        }
        self.digest.iter().for_each(|digest| {
            block.raw(digest);
        });
        if !self.parents.is_empty() {
            block.count(self.parents.len());
            self.parents.iter().for_each(|parent| parent.encode(&mut block));
        }
        self.striping.iter().for_each(|striping| striping.encode(&mut block));
        out.bytes(&block.into_bytes());
    }

    /// Reads the extras and drops those that `keep` excludes; `None` where nothing remains.
    pub fn decode(reader: &mut Reader<'_>, keep: ExtrasFilter) -> Decoded<Option<Self>> {
        let mut block = Reader::new(reader.bytes(MORE_BYTES_MAX, "extras of an entry")?);
        let flags = block.u8()?;
        if flags & !ALL != 0 || flags == 0 {
            return Err(ProtocolError::Unknown { what: "metadata", value: flags.into() });
        }
        let mut number = |flag| if flags & flag != 0 { block.varint().map(Some) } else { Ok(None) };
        let (data_bytes, names) = (number(DATA_BYTES)?, number(NAMES)?);
        let attributes = if flags & ATTRIBUTES != 0 { Some(decode_attributes(&mut block, keep)?) } else { None };
        let digest = if flags & DIGEST != 0 { Some(block.array()?) } else { None };
        let parents = if flags & PARENTS != 0 { decode_parents(&mut block)? } else { Vec::new() };
        let striping = if flags & STRIPING != 0 { Some(Striping::decode(&mut block)?) } else { None };
        block.finish()?;
        let more = Self {
            data_bytes,
            names: names.filter(|_| keep.names),
            attributes: attributes.filter(|_| keep.attributes || keep.acls),
            digest: digest.filter(|_| keep.digest),
            parents: if keep.parents { parents } else { Vec::new() },
            striping: striping.filter(|_| keep.striping),
        };
        Ok(Some(more).filter(|more| !more.is_empty()))
    }
}

/// Extras to keep. The rest is dropped during decoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExtrasFilter {
    /// Hard link counts.
    pub names: bool,
    /// Extended attributes other than access control lists.
    pub attributes: bool,
    /// Access control lists.
    pub acls: bool,
    /// Digests of file contents.
    pub digest: bool,
    /// Metadata of the directories above a source argument.
    pub parents: bool,
    /// Striping of large files.
    pub striping: bool,
}

impl ExtrasFilter {
    /// Keeps everything.
    pub const ALL: Self =
        Self { names: true, attributes: true, acls: true, digest: true, parents: true, striping: true };

    fn keeps(self, name: &[u8]) -> bool {
        if is_acl(name) { self.acls } else { self.attributes }
    }
}

/// Whether an attribute name is that of an access control list.
pub fn is_acl(name: &[u8]) -> bool {
    matches!(name, b"system.posix_acl_access" | b"system.posix_acl_default")
}

fn decode_parents(reader: &mut Reader<'_>) -> Decoded<Vec<EntryMetadata>> {
    let count = reader.count(EntryExtras::PARENTS_MAX, "parent directories of a source argument")?;
    (0..count).map(|_| EntryMetadata::decode(reader)).collect()
}

fn decode_attributes(reader: &mut Reader<'_>, keep: ExtrasFilter) -> Decoded<Vec<ExtendedAttribute>> {
    let count = reader.count(ATTRIBUTES_MAX, "attributes of an entry")?;
    let mut kept = Vec::new();
    for _ in 0..count {
        let attribute = ExtendedAttribute::decode(reader)?;
        kept.extend(keep.keeps(&attribute.name).then_some(attribute));
    }
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry_metadata::Timestamp;

    const STRIPING: Option<Striping> = Some(Striping { count: 4, size: 1 << 20 });

    fn attribute(name: &[u8], value: &[u8]) -> ExtendedAttribute {
        ExtendedAttribute { name: name.into(), value: value.into() }
    }

    /// As many bytes as it can have.
    fn parent(mode: u16) -> EntryMetadata {
        let modified = Timestamp { seconds: i64::MIN, nanoseconds: 999_999_999 };
        EntryMetadata { mode, uid: u32::MAX, gid: u32::MAX, modified }
    }

    fn encoded(more: &EntryExtras) -> Vec<u8> {
        let mut out = Writer::new();
        more.encode(&mut out);
        out.into_bytes()
    }

    #[test]
    fn all_extras_round_trip() {
        let attributes = vec![attribute(b"user.a", b""), attribute(b"system.posix_acl_access", &[0; 300])];
        for more in [
            EntryExtras { data_bytes: Some(0), ..EntryExtras::default() },
            EntryExtras { names: Some(u64::MAX), ..EntryExtras::default() },
            EntryExtras { attributes: Some(Vec::new()), ..EntryExtras::default() },
            EntryExtras { digest: Some([7; 32]), ..EntryExtras::default() },
            EntryExtras { parents: vec![parent(0o700), parent(0o2755)], ..EntryExtras::default() },
            EntryExtras { striping: STRIPING, ..EntryExtras::default() },
            EntryExtras {
                data_bytes: Some(1 << 40),
                names: Some(2),
                attributes: Some(attributes),
                digest: Some([8; 32]),
                parents: vec![parent(0o755); EntryExtras::PARENTS_MAX],
                striping: STRIPING,
            },
        ] {
            let bytes = encoded(&more);
            assert_eq!(EntryExtras::decode(&mut Reader::new(&bytes), ExtrasFilter::ALL), Ok(Some(more)));
            assert!(
                (0..bytes.len())
                    .all(|cut| EntryExtras::decode(&mut Reader::new(&bytes[..cut]), ExtrasFilter::ALL).is_err())
            );
        }
    }

    #[test]
    fn unpreserved_extras_are_dropped() {
        let acl = attribute(b"system.posix_acl_access", &[0; 300]);
        let all = EntryExtras {
            data_bytes: None,
            names: Some(2),
            attributes: Some(vec![attribute(b"user.a", b""), acl.clone()]),
            digest: Some([8; 32]),
            parents: vec![parent(0o700)],
            striping: STRIPING,
        };
        let bytes = encoded(&all);
        let kept = |keep| EntryExtras::decode(&mut Reader::new(&bytes), keep).unwrap();
        let none = ExtrasFilter {
            names: false,
            attributes: false,
            acls: false,
            digest: false,
            parents: false,
            striping: false,
        };
        assert_eq!(kept(none), None);
        assert_eq!(
            kept(ExtrasFilter { names: true, ..none }),
            Some(EntryExtras { names: Some(2), ..EntryExtras::default() })
        );
        let striped = kept(ExtrasFilter { striping: true, ..none });
        assert_eq!(striped, Some(EntryExtras { striping: STRIPING, ..EntryExtras::default() }));
        let acls = kept(ExtrasFilter { acls: true, ..none });
        assert_eq!(acls, Some(EntryExtras { attributes: Some(vec![acl]), ..EntryExtras::default() }));
        let user = kept(ExtrasFilter { attributes: true, ..none });
        assert_eq!(
            user,
            Some(EntryExtras { attributes: Some(vec![attribute(b"user.a", b"")]), ..EntryExtras::default() })
        );
    }

    #[test]
    fn absent_and_impossible_extras_are_faults() {
        let bad = [
            encoded(&EntryExtras::default()),
            vec![1, 64],
            vec![3, 1, 0, 0],
            encoded(&EntryExtras { attributes: Some(vec![attribute(b"", b"")]), ..EntryExtras::default() }),
            encoded(&EntryExtras { attributes: Some(vec![attribute(b"user.\0", b"")]), ..EntryExtras::default() }),
            encoded(&EntryExtras { attributes: Some(vec![attribute(&[b'a'; 256], b"")]), ..EntryExtras::default() }),
            encoded(&EntryExtras { parents: vec![parent(0); EntryExtras::PARENTS_MAX + 1], ..EntryExtras::default() }),
        ];
        for bytes in bad {
            assert!(EntryExtras::decode(&mut Reader::new(&bytes), ExtrasFilter::ALL).is_err(), "{bytes:?}");
        }
    }
}

//! Differences between two trees, as text and JSON.

use std::borrow::Cow;
use std::ops::Range;

use haul_base::copy::event::{AttributeEnd, DeviceNumber, Difference, EntryKind, SpecialFile};
use haul_proto::path::escape;
use serde::Serialize;

/// Most byte ranges in a text.
const RANGES_SHOWN: usize = 8;
/// Most extended attributes in a text.
const ATTRIBUTES_SHOWN: usize = 8;

/// The differences of an entry, as text after its path.
pub fn words(differences: &[Difference]) -> String {
    differences.iter().map(phrase).collect::<Vec<_>>().join("; ")
}

fn phrase(difference: &Difference) -> String {
    match difference {
        Difference::Missing(what) => format!("is missing{}", if_no_file(*what)),
        Difference::Extra(what) => format!("is extraneous{}", if_no_file(*what)),
        Difference::Kind { source, target } => format!("is {}, but at the source {}", a(*target), a(*source)),
        Difference::Size { source, target } => format!("has {target} bytes, but at the source {source}"),
        Difference::Link { source, target } => {
            format!("links to {}, but at the source to {}", escape(target), escape(source))
        }
        Difference::Mode { source, target } => format!("has mode {target:04o}, but at the source {source:04o}"),
        Difference::Owner { source: (uid, gid), target: (other_uid, other_gid) } => {
            format!("belongs to {other_uid}:{other_gid}, but at the source to {uid}:{gid}")
        }
        Difference::Content { ranges, bytes } => format!("differs in bytes {}", in_bytes(ranges, *bytes)),
        Difference::Attributes { names, count } => in_attributes(names, *count),
        Difference::Name { at_source: true, of } => {
            format!("is a separate file, but at the source a hard link to {}", escape(of))
        }
        Difference::Name { at_source: false, of } => {
            format!("is a hard link to {}, but at the source a separate file", escape(of))
        }
        Difference::Node { source, target } => format!("is {}, but at the source {}", a_node(*target), a_node(*source)),
    }
}

/// `lacks attribute user.a, has attribute user.b alone, has another user.c`.
fn in_attributes(names: &[(AttributeEnd, Box<[u8]>)], count: u64) -> String {
    let phrase = |(end, name): &(AttributeEnd, Box<[u8]>)| match end {
        AttributeEnd::Source => format!("lacks attribute {}", escape(name)),
        AttributeEnd::Target => format!("has an extraneous attribute {}", escape(name)),
        AttributeEnd::Both => format!("has another value of attribute {}", escape(name)),
    };
    let mut words: Vec<_> = names[..names.len().min(ATTRIBUTES_SHOWN)].iter().map(phrase).collect();
    let listed = words.len() as u64;
    if listed < count {
        words.push(format!("and differs in {} more", count - listed));
    }
    words.join(", ")
}

fn a_node(node: SpecialFile) -> String {
    match node {
        SpecialFile::Character(DeviceNumber { major, minor }) => format!("the character device {major}:{minor}"),
        SpecialFile::Block(DeviceNumber { major, minor }) => format!("the block device {major}:{minor}"),
        SpecialFile::Fifo => "a FIFO".into(),
        SpecialFile::Socket => "a socket".into(),
    }
}

fn node_name(node: SpecialFile) -> String {
    match node {
        SpecialFile::Character(DeviceNumber { major, minor }) => format!("character {major}:{minor}"),
        SpecialFile::Block(DeviceNumber { major, minor }) => format!("block {major}:{minor}"),
        SpecialFile::Fifo => "fifo".into(),
        SpecialFile::Socket => "socket".into(),
    }
}

/// `0-524287, 1048576-1572863`: the first and the last byte of each differing block.
fn in_bytes(ranges: &[Range<u64>], bytes: u64) -> String {
    let shown = &ranges[..ranges.len().min(RANGES_SHOWN)];
    let mut words: Vec<_> = shown.iter().map(|range| format!("{}-{}", range.start, range.end - 1)).collect();
    let listed = shown.iter().map(|range| range.end - range.start).fold(0, u64::saturating_add);
    if listed < bytes {
        words.push(format!("and in {} elsewhere", bytes - listed));
    }
    words.join(", ")
}

fn if_no_file(what: EntryKind) -> &'static str {
    match what {
        EntryKind::File => "",
        EntryKind::Directory => " (a directory with its entries)",
        EntryKind::Symlink => " (a symbolic link)",
        EntryKind::Special => " (a device, FIFO or socket)",
    }
}

fn a(what: EntryKind) -> &'static str {
    match what {
        EntryKind::File => "a file",
        EntryKind::Directory => "a directory",
        EntryKind::Symlink => "a symbolic link",
        EntryKind::Special => "a device, FIFO or socket",
    }
}

/// The kind of an entry, for programs.
pub fn name(what: EntryKind) -> &'static str {
    match what {
        EntryKind::File => "file",
        EntryKind::Directory => "directory",
        EntryKind::Symlink => "symlink",
        EntryKind::Special => "special",
    }
}

/// Differences as JSON.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(tag = "what", rename_all = "snake_case")]
#[allow(missing_docs, reason = "docs/JSON.md describes each field")]
pub enum DifferenceFields<'a> {
    Missing { kind: &'static str },
    Extra { kind: &'static str },
    Kind { source: &'static str, target: &'static str },
    Size { source: u64, target: u64 },
    Link { source: Cow<'a, str>, target: Cow<'a, str> },
    Mode { source: String, target: String },
    Owner { source: (u32, u32), target: (u32, u32) },
    Content { bytes: u64, ranges: Vec<(u64, u64)> },
    Attributes { missing: Vec<Cow<'a, str>>, extra: Vec<Cow<'a, str>>, changed: Vec<Cow<'a, str>>, count: u64 },
    Name { at: &'static str, of: Cow<'a, str> },
    Node { source: String, target: String },
}

impl<'a> From<&'a Difference> for DifferenceFields<'a> {
    fn from(difference: &'a Difference) -> Self {
        let text = |bytes: &'a [u8]| String::from_utf8_lossy(bytes);
        match difference {
            Difference::Missing(what) => Self::Missing { kind: name(*what) },
            Difference::Extra(what) => Self::Extra { kind: name(*what) },
            Difference::Kind { source, target } => Self::Kind { source: name(*source), target: name(*target) },
            Difference::Size { source, target } => Self::Size { source: *source, target: *target },
            Difference::Link { source, target } => Self::Link { source: text(source), target: text(target) },
            Difference::Mode { source, target } => {
                Self::Mode { source: format!("{source:04o}"), target: format!("{target:04o}") }
            }
            Difference::Owner { source, target } => Self::Owner { source: *source, target: *target },
            Difference::Content { ranges, bytes } => {
                let ranges = ranges.iter().map(|range| (range.start, range.end)).collect();
                Self::Content { bytes: *bytes, ranges }
            }
            Difference::Attributes { names, count } => {
                let of = |end| names.iter().filter(|(other, _)| *other == end).map(|(_, name)| text(name)).collect();
                Self::Attributes {
                    missing: of(AttributeEnd::Source),
                    extra: of(AttributeEnd::Target),
                    changed: of(AttributeEnd::Both),
                    count: *count,
                }
            }
            Difference::Name { at_source, of } => {
                Self::Name { at: if *at_source { "source" } else { "target" }, of: text(of) }
            }
            Difference::Node { source, target } => {
                Self::Node { source: node_name(*source), target: node_name(*target) }
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// One of each kind.
    pub fn every_difference() -> Vec<Difference> {
        vec![
            Difference::Missing(EntryKind::Directory),
            Difference::Extra(EntryKind::Symlink),
            Difference::Kind { source: EntryKind::Directory, target: EntryKind::File },
            Difference::Size { source: 5, target: 6 },
            Difference::Link { source: b"a\n".to_vec(), target: b"\xff".to_vec() },
            Difference::Mode { source: 0o644, target: 0o4755 },
            Difference::Owner { source: (1000, 100), target: (0, 0) },
            Difference::Content { ranges: vec![MIB / 2..MIB, 5 * MIB..7 * MIB], bytes: 5 * MIB / 2 },
            Difference::Attributes {
                names: [
                    (AttributeEnd::Source, "user.a"),
                    (AttributeEnd::Target, "user.b\n"),
                    (AttributeEnd::Both, "user.c"),
                ]
                .map(|(end, name)| (end, name.as_bytes().into()))
                .to_vec(),
                count: 40,
            },
            Difference::Name { at_source: true, of: b"t/first".to_vec() },
            Difference::Name { at_source: false, of: b"t/first".to_vec() },
            Difference::Node {
                source: SpecialFile::Fifo,
                target: SpecialFile::Block(DeviceNumber { major: 8, minor: 1 }),
            },
        ]
    }

    #[test]
    fn each_in_words() {
        let lines: Vec<_> = every_difference().iter().map(phrase).collect();
        insta::assert_snapshot!(lines.join("\n"), @r#"
        is missing (a directory with its entries)
        is extraneous (a symbolic link)
        is a file, but at the source a directory
        has 6 bytes, but at the source 5
        links to \xff, but at the source to a\n
        has mode 4755, but at the source 0644
        belongs to 0:0, but at the source to 1000:100
        differs in bytes 524288-1048575, 5242880-7340031
        lacks attribute user.a, has an extraneous attribute user.b\n, has another value of attribute user.c, and differs in 37 more
        is a separate file, but at the source a hard link to t/first
        is a hard link to t/first, but at the source a separate file
        is the block device 8:1, but at the source a FIFO
        "#);
    }

    #[test]
    fn of_many_ranges_the_first_are_named_and_the_others_counted() {
        let ranges: Vec<_> = (0..20).map(|i| 2 * i * MIB..(2 * i + 1) * MIB).collect();
        let shown = in_bytes(&ranges, 30 * MIB);
        assert!(shown.starts_with("0-1048575, 2097152-3145727, "), "{shown}");
        assert!(shown.ends_with(&format!(", 14680064-15728639, and in {} elsewhere", 22 * MIB)), "{shown}");
        assert_eq!(in_bytes(&[], 5), "and in 5 elsewhere");
    }
}

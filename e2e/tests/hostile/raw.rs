//! Messages and trailers as bytes, from `docs/PROTOCOL.md`: haul's own types could not say most of it.

use haul_proto::encoding::Writer;

/// The session's number of the copy.
pub const COPY: u32 = 1;

pub const DIRECTORY: u8 = 1;
pub const FILE: u8 = 2;
pub const LINK: u8 = 3;
pub const HARD_LINK: u8 = 6;
/// Added to a tag, it makes the place an operand's number.
pub const OPERAND: u8 = 128;
/// Added to a tag: extras follow the entry.
pub const MORE: u8 = 32;
/// Added to a tag, it makes the place that of another entry.
pub const ANEW: u8 = 64;

/// More is the number of a file's names.
pub const MORE_NAMES: u8 = 2;
/// More is a digest.
pub const MORE_DIGEST: u8 = 8;

/// An entry with more behind it.
pub fn with_more(mut entry: Vec<u8>, more: &[u8]) -> Vec<u8> {
    entry[0] += MORE;
    let mut out = Writer::new();
    out.raw(&entry).bytes(more);
    out.into_bytes()
}

/// Mode, owner, group and time.
pub fn meta(mode: u16, owner: u64, nanoseconds: u32) -> Vec<u8> {
    let mut out = Writer::new();
    out.u16(mode).varint(owner).varint(0).i64(1_000_000_000).u32(nanoseconds);
    out.into_bytes()
}

/// An entry of any kind at any place.
pub fn entry(tag: u8, place: &[u8], kind: &[u8], meta: &[u8]) -> Vec<u8> {
    [&[tag], place, kind, meta].concat()
}

/// A place: below a directory.
pub fn below(parent: u64, name: &[u8]) -> Vec<u8> {
    let mut out = Writer::new();
    out.varint(parent).bytes(name);
    out.into_bytes()
}

/// A place, or the kind of a file: a number.
pub fn number(number: u64) -> Vec<u8> {
    let mut out = Writer::new();
    out.varint(number);
    out.into_bytes()
}

/// The kind of a link, with its target.
pub fn held(bytes: &[u8]) -> Vec<u8> {
    let mut out = Writer::new();
    out.bytes(bytes);
    out.into_bytes()
}

fn usual(mode: u16) -> Vec<u8> {
    meta(mode, 0, 5)
}

pub fn directory(parent: u64, name: &[u8]) -> Vec<u8> {
    entry(DIRECTORY, &below(parent, name), &[], &usual(0o755))
}

pub fn file(parent: u64, name: &[u8], size: u64) -> Vec<u8> {
    entry(FILE, &below(parent, name), &number(size), &usual(0o644))
}

pub fn link(parent: u64, name: &[u8], points_to: &[u8]) -> Vec<u8> {
    entry(LINK, &below(parent, name), &held(points_to), &usual(0o777))
}

/// A further name of the file `to`.
pub fn hard_link(parent: u64, name: &[u8], to: u64, size: u64) -> Vec<u8> {
    entry(HARD_LINK, &below(parent, name), &[number(to), number(size)].concat(), &usual(0o644))
}

/// A directory with this many extended attributes, with names but without values.
pub fn directory_with_attributes(parent: u64, name: &[u8], attributes: usize) -> Vec<u8> {
    let mut more = Writer::new();
    more.u8(4).count(attributes);
    (0..attributes).for_each(|_| {
        more.bytes(b"user.a").bytes(b"");
    });
    let mut out = Writer::new();
    out.raw(&entry(DIRECTORY + MORE, &below(parent, name), &[], &usual(0o755))).bytes(&more.into_bytes());
    out.into_bytes()
}

/// A directory or a file as a source argument, requested or not.
pub fn operand(tag: u8, operand: u64, kind: &[u8]) -> Vec<u8> {
    entry(tag + OPERAND, &number(operand), kind, &usual(0o755))
}

/// Something offered anew in the place of an entry.
pub fn anew(tag: u8, place: u64, kind: &[u8]) -> Vec<u8> {
    entry(tag + ANEW, &number(place), kind, &usual(0o644))
}

/// A message: its kind, the copy, and the output of `fields`.
pub fn message(kind: u8, fields: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut out = Writer::new();
    out.u8(kind).u32(COPY);
    fields(&mut out);
    out.into_bytes()
}

pub fn offer(first: u64, entries: &[Vec<u8>]) -> Vec<u8> {
    message(1, |out| {
        out.varint(first).count(entries.len()).raw(&entries.concat());
    })
}

pub fn directory_end(entry: u64) -> Vec<u8> {
    message(2, |out| {
        out.varint(entry).bool(true);
    })
}

pub fn file_end(entry: u64, size: u64, digest: [u8; 32]) -> Vec<u8> {
    message(3, |out| {
        out.varint(entry).varint(size).i64(1_000_000_000).u32(5).raw(&digest);
    })
}

pub fn source_failed(entry: u64) -> Vec<u8> {
    message(4, |out| {
        out.varint(entry).text("\u{1b}[2J gone", 100).bool(false);
    })
}

/// One run of frames claimed to match the source's.
pub fn same(entry: u64, first: u64, many: u64) -> Vec<u8> {
    message(7, |out| {
        out.varint(entry).count(1).varint(first).varint(many);
    })
}

pub fn offers_end() -> Vec<u8> {
    message(5, |_| {})
}

/// The trailer of a frame.
pub fn data(entry: u64, offset: u64, check: u64, value: [u8; 32]) -> Vec<u8> {
    message(1, |out| {
        out.varint(entry).u64(offset).u64(check).raw(&value);
    })
}

/// The trailer of a pack of these entries with these lengths.
pub fn pack(files: &[(u64, u64)], check: u64) -> Vec<u8> {
    message(2, |out| {
        out.u64(check).count(files.len());
        for (entry, len) in files {
            out.varint(*entry).varint(*len).i64(1_000_000_000).u32(5).raw(&[0; 32]);
        }
    })
}

/// The prefix of a trailer with a compressed payload.
pub fn compressed(codec: u8, plain: u64, trailer: &[u8]) -> Vec<u8> {
    let mut out = Writer::new();
    out.u8(4).u8(codec).varint(plain).raw(trailer);
    out.into_bytes()
}

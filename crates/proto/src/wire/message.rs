//! Messages between source and target over the control channel: offers one way, wants and results the other.
//!
//! Each begins with its kind (one byte) and its copy number.

use std::ops::Range;

use super::owners::ACCOUNT_NAME;
use crate::codec::{FieldCodec, OfType, Wire, WireEnum, wire_enum};
use crate::delta::blocks::BlockHash;
use crate::delta::rolling::{RollingSignature, SignatureFormat};
use crate::encoding::{Decoded, Reader, Writer};
use crate::entry::{
    DeviceNumber, Entry, EntryContent, EntryLocation, EntryMetadata, FileVersion, SpecialFile, Timestamp,
};
use crate::entry_extras::{EntryExtras, ExtrasFilter};
use crate::error::ProtocolError;
use crate::field_codecs::{BoundedBytes, BoundedText, Checked, ListOf, Varint, list};
use crate::ids::{CopyNumber, EntryId, PathId, StreamId};
use crate::integrity::Digest;
use crate::limits::{
    DIRECTORY_FILTER_MAX, ENTRY_WINDOW, FILTER_NAMES_MAX, FRAME_RUNS_MAX, HELD_VALUES_MAX, LEFT_OUT_NAMES_MAX,
    MARKS_MAX, OFFER_ENTRIES_MAX, PACK_FILES_MAX, STREAMS_MAX, SYMLINK_MAX, TEXT_MAX,
};
use crate::path::Name;
use crate::wire::list_batch::names;

wire_enum! {
    /// A message from source to target.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub enum SourceMessage: "message from a source" {
        /// Entries with consecutive ids.
        Offer {
            /// Id of the first entry.
            first: EntryId,
            /// 1 to [`OFFER_ENTRIES_MAX`] entries.
            entries: Vec<Entry> as offered(ExtrasFilter::ALL),
        } = 1,
        /// All entries of a directory were offered.
        DirectoryEnd {
            /// The directory.
            entry: EntryId,
            /// How its listing ended.
            listing: ListingEnd,
        } = 2,
        /// All frames of a file were read.
        FileEnd {
            /// The file.
            entry: EntryId,
            /// Size in bytes; equal to the offered size, if there was one.
            size: u64 as Varint,
            /// Time of last modification when it was read.
            modified: Timestamp,
            /// BLAKE3 of the whole file.
            digest: Digest,
        } = 3,
        /// The source cannot deliver this file; received frames are void.
        SourceFailed {
            /// The file.
            entry: EntryId,
            /// Reason, for the user.
            reason: String as BoundedText(TEXT_MAX, "a reason"),
            /// Whether its name is gone at the source, which is no failure.
            vanished: bool,
        } = 4,
        /// All entries of the copy were offered.
        OffersEnd = 5,
        /// All entries of the listed source arguments before a number were offered.
        ListAck {
            /// The number after the last one of a batch.
            before: u32,
        } = 10,
        /// What the source excludes in a directory.
        Excluded {
            /// The directory.
            entry: EntryId,
            /// The names or patterns.
            what: Exclusion,
        } = 13,
        /// Name of a user or group, before the first entry with it.
        Owner {
            /// Whether this is a group.
            is_group: bool,
            /// Numeric id at the source.
            id: u32,
            /// Name at the source: 1 to [`ACCOUNT_NAME_MAX`](crate::limits::ACCOUNT_NAME_MAX) bytes.
            name: Vec<u8> as ACCOUNT_NAME,
        } = 14,
        /// Reply to [`TargetMessage::HaveRanges`]: these frames are equal at both ends.
        Match {
            /// The file.
            entry: EntryId,
            /// Indices of the frames.
            frames: Vec<Range<u64>> as list(RunOfFrames, FRAME_RUNS_MAX, "runs of frames"),
        } = 7,
        /// Reply to [`TargetMessage::HaveRanges`]: these frames differ. In a copy that only compares, they are not sent.
        Mismatch {
            /// The file.
            entry: EntryId,
            /// Indices of the frames.
            frames: Vec<Range<u64>> as list(RunOfFrames, FRAME_RUNS_MAX, "runs of frames"),
        } = 9,
        /// Request for more streams, to a target that opens the data connections.
        Streams {
            /// Number of streams, at most the session's `streams_max`.
            count: u16,
            /// Path of the streams.
            path: PathId,
        } = 6,
        /// Request for small segments on later streams of a path, to a target that opens the data connections.
        SmallSegments {
            /// Path of the streams.
            path: PathId,
        } = 11,
        /// Streams were lost, and it is unknown which of their records arrived: asks which frames of these entries are
        /// missing.
        QueryMissing {
            /// The lost streams, 1 to [`STREAMS_MAX`].
            streams: Vec<StreamId> as list(OfType, STREAMS_MAX as usize, "lost streams"),
            /// Files sent on streams and not complete, as ranges of ids: first and count.
            entries: Vec<(EntryId, u64)> as list((OfType, Varint), ENTRY_WINDOW, "runs of entries"),
        } = 8,
    }
}

wire_enum! {
    /// How the listing of a directory ended.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum ListingEnd: "end of a listing" {
        /// Some of its entries are unknown.
        Incomplete = 0,
        /// An entry that was not offered or excluded does not exist.
        Complete = 1,
        /// The directory was removed meanwhile, or is a mount point that is not entered: as incomplete, for this directory
        /// alone.
        Unknown = 2,
    }
}

impl From<bool> for ListingEnd {
    fn from(is_complete: bool) -> Self {
        if is_complete { Self::Complete } else { Self::Incomplete }
    }
}

wire_enum! {
    /// What the source excludes in a directory.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub enum Exclusion: "kind of exclusion" {
        /// 1 to [`LEFT_OUT_NAMES_MAX`] names, before the directory's end.
        Names(list: Vec<Name> as names(LEFT_OUT_NAMES_MAX)) = 0,
        /// As many names that were listed, and are gone. Nothing of these names is removed at the target, whatever the
        /// filters' options say.
        Vanished(list: Vec<Name> as names(LEFT_OUT_NAMES_MAX)) = 2,
        /// A filter file in the directory, before its first entry; its patterns apply there and below.
        Patterns {
            /// Index of the filter file's name.
            file: u8 as Checked(OfType, |file| usize::from(*file) < FILTER_NAMES_MAX, BAD_FILTER_FILE),
            /// Contents of the filter file.
            text: Vec<u8> as BoundedBytes(DIRECTORY_FILTER_MAX, "patterns"),
        } = 1,
    }
}

const BAD_FILTER_FILE: ProtocolError = ProtocolError::OverLimit("the number of a file with patterns");

wire_enum! {
    /// A message from target to source.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub enum TargetMessage: "message from a target" {
        /// Transfer decisions for entries with consecutive ids, run-length coded on the wire.
        Want {
            /// Id of the first entry.
            first: EntryId,
            /// One decision for each entry.
            needs: Vec<TransferNeed> as RunLengthNeeds,
        } = 16,
        /// These entries are complete: verified and under their final names.
        Done {
            /// Ranges of ids: first and count.
            runs: Vec<(EntryId, u64)> as list((OfType, Varint), ENTRY_WINDOW, "runs of entries"),
        } = 17,
        /// The target cannot accept this entry; it has reported that to the user.
        TargetFailed {
            /// The entry.
            entry: EntryId,
        } = 18,
        /// These frames of a file are missing: they arrived damaged, or are absent from a partial file.
        MissingRanges {
            /// The file.
            entry: EntryId,
            /// Indices of the frames.
            frames: Vec<Range<u64>> as list(RunOfFrames, FRAME_RUNS_MAX, "runs of frames"),
        } = 19,
        /// These frames of a file exist and were read and hashed: from a partial file, or for a comparison.
        HaveRanges {
            /// The file.
            entry: EntryId,
            /// Index of the first frame.
            first: u64 as Varint,
            /// Whether the source has to read and compare them: its file may have changed, or the copy compares.
            compare: bool,
            /// BLAKE3 values of the frames.
            values: Vec<Digest> as list(OfType, HELD_VALUES_MAX, "values of frames"),
        } = 21,
        /// Request to send these small files again: they arrived damaged, or are missing after a QueryMissing.
        ResendPacked {
            /// At most [`PACK_FILES_MAX`] files.
            entries: Vec<EntryId> as list(OfType, PACK_FILES_MAX, "files in a pack"),
        } = 20,
        /// Reply to QueryMissing: these frames of a file have not arrived.
        Missing {
            /// The file.
            entry: EntryId,
            /// Indices of the frames, including frames never sent.
            frames: Vec<Range<u64>> as list(RunOfFrames, FRAME_RUNS_MAX, "runs of frames"),
        } = 22,
        /// Hashes of the base file's blocks at the offsets of these frames: see [`crate::delta::blocks`].
        BlockHashes {
            /// The file.
            entry: EntryId,
            /// Index of the first frame.
            first: u64 as Varint,
            /// Consecutive hashes of the blocks of whole frames.
            marks: Vec<BlockHash> as list(OfType, MARKS_MAX, "marks of blocks"),
        } = 28,
        /// Rolling signatures of the base file's blocks: see [`crate::delta::rolling`]. MissingRanges follows the last
        /// ones.
        RollingSignatures {
            /// The file.
            entry: EntryId,
            /// Size of the base file in bytes.
            size: u64 as Varint,
            /// How its blocks are signed.
            format: SignatureFormat,
            /// Number of the first block.
            first: u64 as Varint,
            /// One signature for each block.
            sums: Vec<RollingSignature> as format.signatures(),
        } = 29,
        /// The reply to QueryMissing is complete.
        QueryEnd = 23,
        /// All frames of a flow before this one are written, so the source may drop them.
        Ack {
            /// The flow.
            entry: EntryId,
            /// Number of these frames.
            frames: u64 as Varint,
        } = 24,
    }
}

wire_enum! {
    /// The target's transfer decision about an entry. The set of kinds is open to extension.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum TransferNeed: "kind of need" {
        /// Nothing: the entry exists.
        Nothing = 0,
        /// Nothing: the entry exists and is known to be equal, so a source that removes its files may remove it.
        Same = 6,
        /// All of it, in any order; for a directory: its children.
        All = 1,
        /// All of it, in sequential order.
        InOrder = 2,
        /// Missing ranges only, in any order: a partial file exists.
        Rest = 4,
        /// Nothing: a file of the same size exists, and is to be compared.
        Compare = 5,
        /// Missing ranges and the parts that differ from a base file, in any order.
        Delta = 7,
        /// Refused by the target. The user knows the reason, at least for a directory above.
        Refused = 3,
    }
}

const OFFER: u8 = 1;

mod kind {
    pub const DIRECTORY: u8 = 1;
    pub const FILE: u8 = 2;
    pub const SYMLINK: u8 = 3;
    pub const FILE_WITH_VERSION: u8 = 4;
    pub const STREAM: u8 = 5;
    pub const HARD_LINK: u8 = 6;
    pub const DEVICE: u8 = 7;
    pub const SPECIAL: u8 = 8;
    pub const MORE: u8 = 0x20;

    pub const AGAIN: u8 = 0x40;
    pub const OPERAND: u8 = 0x80;
}

impl SourceMessage {
    /// Encodes the message for the wire.
    pub fn encode(&self, copy: CopyNumber) -> Vec<u8> {
        encode_for(copy, self)
    }

    /// Decodes a message of `copy`.
    pub fn decode(bytes: &[u8], copy: CopyNumber) -> Decoded<Self> {
        Self::decode_keeping(bytes, copy, ExtrasFilter::ALL)
    }

    /// Decodes a message of `copy` without the extras of entries that `keep` excludes.
    pub fn decode_keeping(bytes: &[u8], copy: CopyNumber, keep: ExtrasFilter) -> Decoded<Self> {
        decode_of(copy, bytes, |number, reader| match number {
            OFFER => Ok(Self::Offer { first: EntryId::decode(reader)?, entries: offered(keep).decode(reader)? }),
            number => Self::decode_fields(number, reader),
        })
    }
}

impl TargetMessage {
    /// Returns the memory used by the lists of the message, in bytes.
    pub fn held_bytes(&self) -> usize {
        let lists = match self {
            Self::Want { needs, .. } => size_of_val(&needs[..]),
            Self::Done { runs } => size_of_val(&runs[..]),
            Self::MissingRanges { frames, .. } | Self::Missing { frames, .. } => size_of_val(&frames[..]),
            Self::HaveRanges { values, .. } => size_of_val(&values[..]),
            Self::ResendPacked { entries } => size_of_val(&entries[..]),
            Self::BlockHashes { marks, .. } => size_of_val(&marks[..]),
            Self::RollingSignatures { sums, .. } => size_of_val(&sums[..]),
            Self::TargetFailed { .. } | Self::QueryEnd | Self::Ack { .. } => 0,
        };
        size_of::<Self>() + lists
    }

    /// Encodes the message for the wire.
    pub fn encode(&self, copy: CopyNumber) -> Vec<u8> {
        encode_for(copy, self)
    }

    /// Decodes a message of `copy`.
    pub fn decode(bytes: &[u8], copy: CopyNumber) -> Decoded<Self> {
        decode_of(copy, bytes, Self::decode_fields)
    }
}

fn encode_for(copy: CopyNumber, message: &impl WireEnum) -> Vec<u8> {
    let mut out = Writer::new();
    out.u8(message.number()).u32(copy.0);
    message.encode_fields(&mut out);
    out.into_bytes()
}

fn decode_of<T>(
    copy: CopyNumber,
    bytes: &[u8],
    decode_fields: impl Fn(u8, &mut Reader<'_>) -> Decoded<T>,
) -> Decoded<T> {
    let mut reader = Reader::new(bytes);
    let number = reader.u8()?;
    if reader.u32()? != copy.0 {
        return Err(ProtocolError::Unasked("another copy"));
    }
    let message = decode_fields(number, &mut reader)?;
    reader.finish()?;
    Ok(message)
}

/// Runs of equal needs: the need and its number.
struct RunLengthNeeds;

impl FieldCodec<Vec<TransferNeed>> for RunLengthNeeds {
    fn encode(&self, needs: &Vec<TransferNeed>, out: &mut Writer) {
        let runs: Vec<_> = needs.chunk_by(|a, b| a == b).collect();
        out.count(runs.len());
        runs.iter().for_each(|run| {
            out.u8(run[0].number()).count(run.len());
        });
    }

    fn decode(&self, reader: &mut Reader<'_>) -> Decoded<Vec<TransferNeed>> {
        let runs = reader.count(OFFER_ENTRIES_MAX, "needs")?;
        let mut needs = Vec::new();
        for _ in 0..runs {
            let need = TransferNeed::decode(reader)?;
            let count = reader.count(OFFER_ENTRIES_MAX - needs.len(), "needs")?;
            needs.extend(std::iter::repeat_n(need, count));
        }
        Ok(needs)
    }
}

/// The first number of a run and its length.
struct RunOfFrames;

impl FieldCodec<Range<u64>> for RunOfFrames {
    fn encode(&self, run: &Range<u64>, out: &mut Writer) {
        out.varint(run.start).varint(run.end - run.start);
    }

    fn decode(&self, reader: &mut Reader<'_>) -> Decoded<Range<u64>> {
        let (start, len) = (reader.varint()?, reader.varint()?);
        let end = start.checked_add(len).filter(|_| len > 0).ok_or(ProtocolError::Invalid("a run of frames"))?;
        Ok(start..end)
    }
}

/// An entry without the extras that the filter excludes.
struct FilteredEntry(ExtrasFilter);

const fn offered(keep: ExtrasFilter) -> ListOf<FilteredEntry> {
    list(FilteredEntry(keep), OFFER_ENTRIES_MAX, "entries in an offer")
}

impl FieldCodec<Entry> for FilteredEntry {
    fn encode(&self, entry: &Entry, out: &mut Writer) {
        encode_entry(out, entry);
    }

    fn decode(&self, reader: &mut Reader<'_>) -> Decoded<Entry> {
        decode_entry(reader, self.0)
    }
}

fn encode_entry(out: &mut Writer, entry: &Entry) {
    let kind = match entry.kind {
        EntryContent::Directory => kind::DIRECTORY,
        EntryContent::File { .. } if entry.version.is_some() => kind::FILE_WITH_VERSION,
        EntryContent::File { .. } => kind::FILE,
        EntryContent::Stream => kind::STREAM,
        EntryContent::Symlink { .. } => kind::SYMLINK,
        EntryContent::HardLink { .. } => kind::HARD_LINK,
        EntryContent::Node(SpecialFile::Character(_) | SpecialFile::Block(_)) => kind::DEVICE,
        EntryContent::Node(SpecialFile::Fifo | SpecialFile::Socket) => kind::SPECIAL,
    };
    let more = entry.more.as_ref().filter(|more| !more.is_empty());
    let kind = if more.is_some() { kind | kind::MORE } else { kind };
    match &entry.place {
        EntryLocation::Operand(number) => out.u8(kind | kind::OPERAND).varint(u64::from(*number)),
        EntryLocation::Child { parent, name } => out.u8(kind).varint(parent.0).bytes(name.as_bytes()),
        EntryLocation::Again(entry) => out.u8(kind | kind::AGAIN).varint(entry.0),
    };
    match &entry.kind {
        EntryContent::Directory | EntryContent::Stream => {}
        EntryContent::File { size } => {
            out.varint(*size);
        }
        EntryContent::Symlink { points_to } => {
            out.bytes(points_to);
        }
        EntryContent::HardLink { to, size } => {
            out.varint(to.0).varint(*size);
        }
        EntryContent::Node(node) => encode_node(out, *node),
    }
    entry.meta.encode(out);
    if let (EntryContent::File { .. }, Some(version)) = (&entry.kind, entry.version) {
        version.encode(out);
    }
    more.iter().for_each(|more| more.encode(out));
}

fn decode_entry(reader: &mut Reader<'_>, keep: ExtrasFilter) -> Decoded<Entry> {
    let tag = reader.u8()?;
    let place = if tag & kind::OPERAND != 0 {
        let number = u32::try_from(reader.varint()?);
        EntryLocation::Operand(number.map_err(|_| ProtocolError::OverLimit("the number of a source argument"))?)
    } else if tag & kind::AGAIN != 0 {
        EntryLocation::Again(EntryId(reader.varint()?))
    } else {
        EntryLocation::Child { parent: EntryId::decode(reader)?, name: Name::decode(reader)? }
    };
    let number = tag & !(kind::OPERAND | kind::AGAIN | kind::MORE);
    let kind = match number {
        kind::DIRECTORY => EntryContent::Directory,
        kind::FILE | kind::FILE_WITH_VERSION => EntryContent::File { size: reader.varint()? },
        kind::STREAM => EntryContent::Stream,
        kind::SYMLINK => EntryContent::Symlink { points_to: LINK.decode(reader)? },
        kind::HARD_LINK => EntryContent::HardLink { to: EntryId(reader.varint()?), size: reader.varint()? },
        kind::DEVICE => EntryContent::Node(decode_device(reader)?),
        kind::SPECIAL => EntryContent::Node(decode_special(reader)?),
        value => return Err(ProtocolError::Unknown { what: "kind of entry", value: value.into() }),
    };
    let meta = EntryMetadata::decode(reader)?;
    let version = if number == kind::FILE_WITH_VERSION { Some(FileVersion::decode(reader)?) } else { None };
    let more = if tag & kind::MORE != 0 { EntryExtras::decode(reader, keep)?.map(Box::new) } else { None };
    Ok(Entry { place, kind, meta, version, more })
}

fn encode_node(out: &mut Writer, node: SpecialFile) {
    match node {
        SpecialFile::Character(device) => encode_device(out.u8(0), device),
        SpecialFile::Block(device) => encode_device(out.u8(1), device),
        SpecialFile::Fifo => {
            out.u8(0);
        }
        SpecialFile::Socket => {
            out.u8(1);
        }
    }
}

fn encode_device(out: &mut Writer, DeviceNumber { major, minor }: DeviceNumber) {
    out.varint(major.into()).varint(minor.into());
}

fn decode_device(reader: &mut Reader<'_>) -> Decoded<SpecialFile> {
    let node = if reader.bool()? { SpecialFile::Block } else { SpecialFile::Character };
    let mut number = || u32::try_from(reader.varint()?).map_err(|_| ProtocolError::Invalid("the number of a device"));
    Ok(node(DeviceNumber { major: number()?, minor: number()? }))
}

fn decode_special(reader: &mut Reader<'_>) -> Decoded<SpecialFile> {
    Ok(if reader.bool()? { SpecialFile::Socket } else { SpecialFile::Fifo })
}

const LINK: Checked<BoundedBytes, Box<[u8]>> = Checked(
    BoundedBytes(SYMLINK_MAX, "a symbolic link"),
    |points_to| !points_to.is_empty() && !points_to.contains(&0),
    ProtocolError::Invalid("an invalid symbolic link"),
);

#[cfg(test)]
#[path = "message_tests.rs"]
mod tests;

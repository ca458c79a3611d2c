//! Messages between source and target over the control channel: offers one way, wants and results the other.
//!
//! Each begins with its kind (one byte) and its job number.

use super::owners::account_name;
use crate::delta::blocks::BlockHash;
use crate::delta::rolling::{RollingSignature, SignatureFormat};
use crate::encoding::{Decoded, Reader, Writer};
use crate::entry::{
    DeviceNumber, Entry, EntryContent, EntryLocation, EntryMetadata, FileVersion, SpecialFile, Timestamp,
};
use crate::entry::{decode_stamp, encode_stamp};
use crate::entry_extras::{EntryExtras, ExtrasFilter};
use crate::error::ProtocolError;
use crate::ids::{EntryId, JobNumber, PathId, StreamId};
use crate::integrity::Digest;
use crate::limits::{
    DIRECTORY_FILTER_MAX, ENTRY_WINDOW, FILTER_NAMES_MAX, FRAME_RUNS_MAX, HELD_VALUES_MAX, LEFT_OUT_NAMES_MAX,
    MARKS_MAX, OFFER_ENTRIES_MAX, PACK_FILES_MAX, STREAMS_MAX, SUMS_MAX, SYMLINK_MAX, TEXT_MAX,
};
use crate::path::{MAX_NAME, Name};
use crate::wire::names::{decode_names, encode_names};
use std::ops::Range;

/// A message from source to target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SourceMessage {
    /// Entries with consecutive ids.
    Offer {
        /// Id of the first entry.
        first: EntryId,
        /// 1 to [`OFFER_ENTRIES_MAX`] entries.
        entries: Vec<Entry>,
    },
    /// All entries of a directory were offered.
    DirectoryEnd {
        /// The directory.
        entry: EntryId,
        /// Whether the listing was complete, so that an unnamed entry does not exist.
        complete: bool,
    },
    /// All frames of a file were read.
    FileEnd {
        /// The file.
        entry: EntryId,
        /// Size in bytes; equal to the offered size, if there was one.
        size: u64,
        /// Time of last modification when it was read.
        modified: Timestamp,
        /// BLAKE3 of the whole file.
        digest: Digest,
    },
    /// The source cannot deliver this file; received frames are void.
    SourceFailed {
        /// The file.
        entry: EntryId,
        /// Reason, for the user.
        reason: String,
    },
    /// All entries of the job were offered.
    OffersEnd,
    /// All entries of the listed source arguments before a number were offered.
    ListAck {
        /// The number after the last one of a batch.
        before: u32,
    },
    /// Names in a directory that the source excludes.
    Excluded {
        /// The directory, before its end.
        entry: EntryId,
        /// 1 to [`LEFT_OUT_NAMES_MAX`] names.
        names: Vec<Name>,
    },
    /// A filter file in a directory; its patterns apply there and below.
    Patterns {
        /// The directory, before its first entry.
        entry: EntryId,
        /// Index of the filter file's name.
        file: u8,
        /// Contents of the filter file.
        text: Vec<u8>,
    },
    /// Name of a user or group, before the first entry with it.
    Owner {
        /// Whether this is a group.
        is_group: bool,
        /// Numeric id at the source.
        id: u32,
        /// Name at the source: 1 to [`ACCOUNT_NAME_MAX`](crate::limits::ACCOUNT_NAME_MAX) bytes.
        name: Vec<u8>,
    },
    /// Reply to [`TargetMessage::HaveRanges`]: these frames are equal at both ends.
    Match {
        /// The file.
        entry: EntryId,
        /// Indices of the frames.
        frames: Vec<Range<u64>>,
    },
    /// Reply to [`TargetMessage::HaveRanges`]: these frames differ. In a job that only compares, they are not sent.
    Mismatch {
        /// The file.
        entry: EntryId,
        /// Indices of the frames.
        frames: Vec<Range<u64>>,
    },
    /// Request for more streams, to a target that opens the data connections.
    Streams {
        /// Number of streams, at most the session's `streams_max`.
        count: u16,
        /// Path of the streams.
        path: PathId,
    },
    /// Streams were lost, and it is unknown which of their records arrived: asks which frames of these entries are
    /// missing.
    QueryMissing {
        /// The lost streams, 1 to [`STREAMS_MAX`].
        streams: Vec<StreamId>,
        /// Files sent on streams and not complete, as ranges of ids: first and count.
        entries: Vec<(EntryId, u64)>,
    },
}

/// A message from target to source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TargetMessage {
    /// Transfer decisions for entries with consecutive ids, run-length coded on the wire.
    Want {
        /// Id of the first entry.
        first: EntryId,
        /// One decision for each entry.
        needs: Vec<TransferNeed>,
    },
    /// These entries are complete: verified and under their final names.
    Done {
        /// Ranges of ids: first and count.
        runs: Vec<(EntryId, u64)>,
    },
    /// The target cannot accept this entry; it has reported that to the user.
    TargetFailed {
        /// The entry.
        entry: EntryId,
    },
    /// These frames of a file are missing: they arrived damaged, or are absent from a partial file.
    MissingRanges {
        /// The file.
        entry: EntryId,
        /// Indices of the frames.
        frames: Vec<Range<u64>>,
    },
    /// These frames of a file exist and were read and hashed: from a partial file, or for a comparison.
    HaveRanges {
        /// The file.
        entry: EntryId,
        /// Index of the first frame.
        first: u64,
        /// BLAKE3 values of the frames.
        values: Vec<Digest>,
        /// Whether the source has to read and compare them: its file may have changed, or the job compares.
        compare: bool,
    },
    /// Request to send these small files again: they arrived damaged, or are missing after a QueryMissing.
    ResendPacked {
        /// At most [`PACK_FILES_MAX`] files.
        entries: Vec<EntryId>,
    },
    /// Reply to QueryMissing: these frames of a file have not arrived.
    Missing {
        /// The file.
        entry: EntryId,
        /// Indices of the frames, including frames never sent.
        frames: Vec<Range<u64>>,
    },
    /// Hashes of the base file's blocks at the offsets of these frames: see [`crate::delta::blocks`].
    BlockHashes {
        /// The file.
        entry: EntryId,
        /// Index of the first frame.
        first: u64,
        /// Consecutive hashes of the blocks of whole frames.
        marks: Vec<BlockHash>,
    },
    /// Rolling signatures of the base file's blocks: see [`crate::delta::rolling`]. MissingRanges follows the last
    /// ones.
    RollingSignatures {
        /// The file.
        entry: EntryId,
        /// Size of the base file in bytes.
        size: u64,
        /// How its blocks are signed.
        format: SignatureFormat,
        /// Number of the first block.
        first: u64,
        /// One signature for each block.
        sums: Vec<RollingSignature>,
    },
    /// The reply to QueryMissing is complete.
    QueryEnd,
    /// All frames of a flow before this one are written, so the source may drop them.
    Ack {
        /// The flow.
        entry: EntryId,
        /// Number of these frames.
        frames: u64,
    },
}

/// The target's transfer decision about an entry. The set of kinds is open to extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransferNeed {
    /// Nothing: the entry exists.
    Nothing,
    /// Nothing: the entry exists and is known to be equal, so a source that removes its files may remove it.
    Same,
    /// All of it, in any order; for a directory: its children.
    All,
    /// All of it, in sequential order.
    InOrder,
    /// Missing ranges only, in any order: a partial file exists.
    Rest,
    /// Nothing: a file of the same size exists, and is to be compared.
    Compare,
    /// Missing ranges and the parts that differ from a base file, in any order.
    Delta,
    /// Refused by the target. The user knows the reason, at least for a directory above.
    Refused,
}

mod kind {
    pub const OFFER: u8 = 1;
    pub const DIRECTORY_END: u8 = 2;
    pub const FILE_END: u8 = 3;
    pub const SOURCE_FAILED: u8 = 4;
    pub const OFFERS_END: u8 = 5;
    pub const STREAMS: u8 = 6;
    pub const SAME: u8 = 7;
    pub const ASK: u8 = 8;
    pub const DIFFERS: u8 = 9;
    pub const PASSED: u8 = 10;
    pub const LEFT_OUT: u8 = 13;
    pub const OWNER: u8 = 14;
    pub const NEEDS: u8 = 16;
    pub const DONE: u8 = 17;
    pub const TARGET_FAILED: u8 = 18;
    pub const LACKS: u8 = 19;
    pub const RESEND_PACKED: u8 = 20;
    pub const HOLDS: u8 = 21;
    pub const MISSING: u8 = 22;
    pub const ANSWERED: u8 = 23;
    pub const WRITTEN: u8 = 24;
    pub const MARKS: u8 = 28;
    pub const SUMS: u8 = 29;

    pub const DIRECTORY: u8 = 1;
    pub const FILE: u8 = 2;
    pub const SYMLINK: u8 = 3;
    pub const FILE_WITH_VERSION: u8 = 4;
    pub const STREAM: u8 = 5;
    pub const HARD_LINK: u8 = 6;
    pub const DEVICE: u8 = 7;
    pub const SPECIAL: u8 = 8;
    pub const MORE: u8 = 0x20;
    pub const NAMES: u8 = 0;
    pub const PATTERNS: u8 = 1;

    pub const AGAIN: u8 = 0x40;
    pub const OPERAND: u8 = 0x80;
}

impl SourceMessage {
    /// Encodes the message for the wire.
    pub fn encode(&self, job: JobNumber) -> Vec<u8> {
        let mut out = Writer::new();
        match self {
            SourceMessage::Offer { first, entries } => {
                opening(&mut out, kind::OFFER, job).varint(first.0).count(entries.len());
                entries.iter().for_each(|entry| encode_entry(&mut out, entry));
            }
            SourceMessage::DirectoryEnd { entry, complete } => {
                opening(&mut out, kind::DIRECTORY_END, job).varint(entry.0).bool(*complete);
            }
            SourceMessage::FileEnd { entry, size, modified, digest } => {
                opening(&mut out, kind::FILE_END, job).varint(entry.0).varint(*size);
                encode_stamp(&mut out, *modified);
                out.raw(digest);
            }
            SourceMessage::SourceFailed { entry, reason } => {
                opening(&mut out, kind::SOURCE_FAILED, job).varint(entry.0).text(reason, TEXT_MAX);
            }
            SourceMessage::OffersEnd => {
                opening(&mut out, kind::OFFERS_END, job);
            }
            SourceMessage::ListAck { before } => {
                opening(&mut out, kind::PASSED, job).u32(*before);
            }
            SourceMessage::Excluded { entry, names } => {
                opening(&mut out, kind::LEFT_OUT, job).varint(entry.0).u8(kind::NAMES);
                encode_names(names, &mut out);
            }
            SourceMessage::Patterns { entry, file, text } => {
                opening(&mut out, kind::LEFT_OUT, job).varint(entry.0).u8(kind::PATTERNS).u8(*file).bytes(text);
            }
            SourceMessage::Owner { is_group, id, name } => {
                opening(&mut out, kind::OWNER, job).bool(*is_group).u32(*id).bytes(name);
            }
            SourceMessage::Match { entry, frames } => {
                encode_runs(opening(&mut out, kind::SAME, job).varint(entry.0), frames);
            }
            SourceMessage::Mismatch { entry, frames } => {
                encode_runs(opening(&mut out, kind::DIFFERS, job).varint(entry.0), frames);
            }
            SourceMessage::Streams { count, path } => {
                opening(&mut out, kind::STREAMS, job).u16(*count).u16(path.0);
            }
            SourceMessage::QueryMissing { streams, entries } => {
                opening(&mut out, kind::ASK, job).count(streams.len());
                streams.iter().for_each(|stream| {
                    out.u16(stream.0);
                });
                encode_entries(&mut out, entries);
            }
        }
        out.into_bytes()
    }

    /// Decodes a message of `job`.
    pub fn decode(bytes: &[u8], job: JobNumber) -> Decoded<Self> {
        Self::decode_keeping(bytes, job, ExtrasFilter::ALL)
    }

    /// Decodes a message of `job` without the extras of entries that `keep` excludes.
    pub fn decode_keeping(bytes: &[u8], job: JobNumber, keep: ExtrasFilter) -> Decoded<Self> {
        let mut reader = Reader::new(bytes);
        let message = match read_opening(&mut reader, job)? {
            kind::OFFER => {
                let first = EntryId(reader.varint()?);
                let count = reader.count(OFFER_ENTRIES_MAX, "entries in an offer")?;
                let entries = (0..count).map(|_| decode_entry(&mut reader, keep)).collect::<Decoded<Vec<_>>>()?;
                SourceMessage::Offer { first, entries }
            }
            kind::DIRECTORY_END => {
                SourceMessage::DirectoryEnd { entry: EntryId(reader.varint()?), complete: reader.bool()? }
            }
            kind::FILE_END => SourceMessage::FileEnd {
                entry: EntryId(reader.varint()?),
                size: reader.varint()?,
                modified: decode_stamp(&mut reader)?,
                digest: reader.array()?,
            },
            kind::SOURCE_FAILED => SourceMessage::SourceFailed {
                entry: EntryId(reader.varint()?),
                reason: reader.text(TEXT_MAX, "a reason")?,
            },
            kind::OFFERS_END => SourceMessage::OffersEnd,
            kind::PASSED => SourceMessage::ListAck { before: reader.u32()? },
            kind::LEFT_OUT => decode_left_out(&mut reader)?,
            kind::OWNER => {
                SourceMessage::Owner { is_group: reader.bool()?, id: reader.u32()?, name: account_name(&mut reader)? }
            }
            kind::SAME => SourceMessage::Match { entry: EntryId(reader.varint()?), frames: decode_runs(&mut reader)? },
            kind::DIFFERS => {
                SourceMessage::Mismatch { entry: EntryId(reader.varint()?), frames: decode_runs(&mut reader)? }
            }
            kind::STREAMS => SourceMessage::Streams { count: reader.u16()?, path: PathId(reader.u16()?) },
            kind::ASK => {
                let count = reader.count(STREAMS_MAX.into(), "lost streams")?;
                let streams = (0..count).map(|_| Ok(StreamId(reader.u16()?))).collect::<Decoded<_>>()?;
                SourceMessage::QueryMissing { streams, entries: decode_entries(&mut reader)? }
            }
            value => return Err(ProtocolError::Unknown { what: "message from a source", value: value.into() }),
        };
        reader.finish()?;
        Ok(message)
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
    pub fn encode(&self, job: JobNumber) -> Vec<u8> {
        let mut out = Writer::new();
        match self {
            TargetMessage::Want { first, needs } => {
                let runs: Vec<_> = needs.chunk_by(|a, b| a == b).collect();
                opening(&mut out, kind::NEEDS, job).varint(first.0).count(runs.len());
                runs.iter().for_each(|run| {
                    out.u8(run[0].number()).count(run.len());
                });
            }
            TargetMessage::Done { runs } => {
                encode_entries(opening(&mut out, kind::DONE, job), runs);
            }
            TargetMessage::TargetFailed { entry } => {
                opening(&mut out, kind::TARGET_FAILED, job).varint(entry.0);
            }
            TargetMessage::MissingRanges { entry, frames } => {
                encode_runs(opening(&mut out, kind::LACKS, job).varint(entry.0), frames);
            }
            TargetMessage::HaveRanges { entry, first, values, compare } => {
                opening(&mut out, kind::HOLDS, job).varint(entry.0).varint(*first).bool(*compare).count(values.len());
                values.iter().for_each(|value| {
                    out.raw(value);
                });
            }
            TargetMessage::ResendPacked { entries } => {
                opening(&mut out, kind::RESEND_PACKED, job).count(entries.len());
                entries.iter().for_each(|entry| {
                    out.varint(entry.0);
                });
            }
            TargetMessage::Missing { entry, frames } => {
                encode_runs(opening(&mut out, kind::MISSING, job).varint(entry.0), frames);
            }
            TargetMessage::BlockHashes { entry, first, marks } => {
                opening(&mut out, kind::MARKS, job).varint(entry.0).varint(*first).count(marks.len());
                marks.iter().for_each(|mark| {
                    out.u64(*mark);
                });
            }
            TargetMessage::RollingSignatures { entry, size, format, first, sums } => {
                opening(&mut out, kind::SUMS, job).varint(entry.0).varint(*size);
                format.encode(&mut out);
                out.varint(*first).count(sums.len());
                sums.iter().for_each(|sum| format.encode_signature(*sum, &mut out));
            }
            TargetMessage::QueryEnd => {
                opening(&mut out, kind::ANSWERED, job);
            }
            TargetMessage::Ack { entry, frames } => {
                opening(&mut out, kind::WRITTEN, job).varint(entry.0).varint(*frames);
            }
        }
        out.into_bytes()
    }

    /// Decodes a message of `job`.
    pub fn decode(bytes: &[u8], job: JobNumber) -> Decoded<Self> {
        let mut reader = Reader::new(bytes);
        let message = match read_opening(&mut reader, job)? {
            kind::NEEDS => TargetMessage::Want { first: EntryId(reader.varint()?), needs: decode_needs(&mut reader)? },
            kind::DONE => TargetMessage::Done { runs: decode_entries(&mut reader)? },
            kind::TARGET_FAILED => TargetMessage::TargetFailed { entry: EntryId(reader.varint()?) },
            kind::LACKS => {
                TargetMessage::MissingRanges { entry: EntryId(reader.varint()?), frames: decode_runs(&mut reader)? }
            }
            kind::HOLDS => {
                let (entry, first) = (EntryId(reader.varint()?), reader.varint()?);
                let compare = reader.bool()?;
                let count = reader.count(HELD_VALUES_MAX, "values of frames")?;
                let values = (0..count).map(|_| reader.array()).collect::<Decoded<_>>()?;
                TargetMessage::HaveRanges { entry, first, values, compare }
            }
            kind::RESEND_PACKED => {
                let count = reader.count(PACK_FILES_MAX, "files in a pack")?;
                let entries = (0..count).map(|_| Ok(EntryId(reader.varint()?))).collect::<Decoded<_>>()?;
                TargetMessage::ResendPacked { entries }
            }
            kind::MISSING => {
                TargetMessage::Missing { entry: EntryId(reader.varint()?), frames: decode_runs(&mut reader)? }
            }
            kind::MARKS => {
                let (entry, first) = (EntryId(reader.varint()?), reader.varint()?);
                let count = reader.count(MARKS_MAX, "marks of blocks")?;
                let marks = (0..count).map(|_| reader.u64()).collect::<Decoded<_>>()?;
                TargetMessage::BlockHashes { entry, first, marks }
            }
            kind::SUMS => {
                let (entry, size) = (EntryId(reader.varint()?), reader.varint()?);
                let (format, first) = (SignatureFormat::decode(&mut reader)?, reader.varint()?);
                let count = reader.count(SUMS_MAX, "sums of blocks")?;
                let sums = (0..count).map(|_| format.decode_signature(&mut reader)).collect::<Decoded<_>>()?;
                TargetMessage::RollingSignatures { entry, size, format, first, sums }
            }
            kind::ANSWERED => TargetMessage::QueryEnd,
            kind::WRITTEN => TargetMessage::Ack { entry: EntryId(reader.varint()?), frames: reader.varint()? },
            value => return Err(ProtocolError::Unknown { what: "message from a target", value: value.into() }),
        };
        reader.finish()?;
        Ok(message)
    }
}

impl TransferNeed {
    fn number(self) -> u8 {
        match self {
            TransferNeed::Nothing => 0,
            TransferNeed::All => 1,
            TransferNeed::InOrder => 2,
            TransferNeed::Refused => 3,
            TransferNeed::Rest => 4,
            TransferNeed::Compare => 5,
            TransferNeed::Same => 6,
            TransferNeed::Delta => 7,
        }
    }

    fn from_number(number: u8) -> Decoded<Self> {
        match number {
            0 => Ok(TransferNeed::Nothing),
            1 => Ok(TransferNeed::All),
            2 => Ok(TransferNeed::InOrder),
            3 => Ok(TransferNeed::Refused),
            4 => Ok(TransferNeed::Rest),
            5 => Ok(TransferNeed::Compare),
            6 => Ok(TransferNeed::Same),
            7 => Ok(TransferNeed::Delta),
            value => Err(ProtocolError::Unknown { what: "kind of need", value: value.into() }),
        }
    }
}

fn decode_left_out(reader: &mut Reader<'_>) -> Decoded<SourceMessage> {
    let entry = EntryId(reader.varint()?);
    match reader.u8()? {
        kind::NAMES => {
            let names = decode_names(reader, LEFT_OUT_NAMES_MAX)?;
            Ok(SourceMessage::Excluded { entry, names })
        }
        kind::PATTERNS => {
            let file = reader.u8()?;
            if usize::from(file) >= FILTER_NAMES_MAX {
                return Err(ProtocolError::OverLimit("the number of a file with patterns"));
            }
            let text = reader.bytes(DIRECTORY_FILTER_MAX, "patterns")?.to_vec();
            Ok(SourceMessage::Patterns { entry, file, text })
        }
        value => Err(ProtocolError::Unknown { what: "kind of exclusion", value: value.into() }),
    }
}

fn decode_needs(reader: &mut Reader<'_>) -> Decoded<Vec<TransferNeed>> {
    let runs = reader.count(OFFER_ENTRIES_MAX, "needs")?;
    let mut needs = Vec::new();
    for _ in 0..runs {
        let need = TransferNeed::from_number(reader.u8()?)?;
        let count = reader.count(OFFER_ENTRIES_MAX - needs.len(), "needs")?;
        needs.extend(std::iter::repeat_n(need, count));
    }
    Ok(needs)
}

/// Writes each run as its first entry and its length.
fn encode_entries(out: &mut Writer, runs: &[(EntryId, u64)]) {
    out.count(runs.len());
    runs.iter().for_each(|(first, count)| {
        out.varint(first.0).varint(*count);
    });
}

fn decode_entries(reader: &mut Reader<'_>) -> Decoded<Vec<(EntryId, u64)>> {
    let count = reader.count(ENTRY_WINDOW, "runs of entries")?;
    (0..count).map(|_| Ok((EntryId(reader.varint()?), reader.varint()?))).collect()
}

/// Writes each run as its first number and its length.
fn encode_runs(out: &mut Writer, runs: &[Range<u64>]) {
    out.count(runs.len());
    runs.iter().for_each(|run| {
        out.varint(run.start).varint(run.end - run.start);
    });
}

fn decode_runs(reader: &mut Reader<'_>) -> Decoded<Vec<Range<u64>>> {
    let count = reader.count(FRAME_RUNS_MAX, "runs of frames")?;
    let mut runs = Vec::new();
    for _ in 0..count {
        let (start, len) = (reader.varint()?, reader.varint()?);
        let end = start.checked_add(len).filter(|_| len > 0).ok_or(ProtocolError::Invalid("a run of frames"))?;
        runs.push(start..end);
    }
    Ok(runs)
}

fn opening(out: &mut Writer, kind: u8, job: JobNumber) -> &mut Writer {
    out.u8(kind).u32(job.0)
}

fn read_opening(reader: &mut Reader<'_>, job: JobNumber) -> Decoded<u8> {
    let kind = reader.u8()?;
    if reader.u32()? == job.0 { Ok(kind) } else { Err(ProtocolError::Unasked("another job")) }
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
    out.u16(entry.meta.mode).varint(entry.meta.uid.into()).varint(entry.meta.gid.into());
    encode_stamp(out, entry.meta.modified);
    if let (EntryContent::File { .. }, Some(version)) = (&entry.kind, entry.version) {
        out.varint(version.device).varint(version.inode);
        encode_stamp(out, version.changed);
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
        let parent = EntryId(reader.varint()?);
        let name = reader.bytes(MAX_NAME, "a name")?;
        EntryLocation::Child { parent, name: Name::new(name).map_err(|_| ProtocolError::Invalid("an invalid name"))? }
    };
    let number = tag & !(kind::OPERAND | kind::AGAIN | kind::MORE);
    let kind = match number {
        kind::DIRECTORY => EntryContent::Directory,
        kind::FILE | kind::FILE_WITH_VERSION => EntryContent::File { size: reader.varint()? },
        kind::STREAM => EntryContent::Stream,
        kind::SYMLINK => EntryContent::Symlink { points_to: decode_link(reader)? },
        kind::HARD_LINK => EntryContent::HardLink { to: EntryId(reader.varint()?), size: reader.varint()? },
        kind::DEVICE => EntryContent::Node(decode_device(reader)?),
        kind::SPECIAL => EntryContent::Node(decode_special(reader)?),
        value => return Err(ProtocolError::Unknown { what: "kind of entry", value: value.into() }),
    };
    let meta = decode_meta(reader)?;
    let version = if number == kind::FILE_WITH_VERSION { Some(decode_version(reader)?) } else { None };
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

fn decode_version(reader: &mut Reader<'_>) -> Decoded<FileVersion> {
    Ok(FileVersion { device: reader.varint()?, inode: reader.varint()?, changed: decode_stamp(reader)? })
}

fn decode_link(reader: &mut Reader<'_>) -> Decoded<Box<[u8]>> {
    let points_to = reader.bytes(SYMLINK_MAX, "a symbolic link")?;
    if points_to.is_empty() || points_to.contains(&0) {
        return Err(ProtocolError::Invalid("an invalid symbolic link"));
    }
    Ok(points_to.into())
}

fn decode_meta(reader: &mut Reader<'_>) -> Decoded<EntryMetadata> {
    let mode = reader.u16()?;
    if mode > 0o7777 {
        return Err(ProtocolError::Invalid("a mode with bits beyond the permissions"));
    }
    Ok(EntryMetadata { mode, uid: id(reader)?, gid: id(reader)?, modified: decode_stamp(reader)? })
}

fn id(reader: &mut Reader<'_>) -> Decoded<u32> {
    u32::try_from(reader.varint()?).map_err(|_| ProtocolError::Invalid("an owner of more than 32 bits"))
}

#[cfg(test)]
#[path = "message_tests.rs"]
mod tests;

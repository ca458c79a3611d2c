//! A stream's thread at the source: read, hash, hand over; one buffer, no copy.

use haul_proto::ids::{EntryId, StreamId};
use haul_proto::integrity::{Digest, frame_crc};
use haul_proto::journal::crc_value;
use haul_proto::manifest::Stamp;
use haul_proto::path::escape;
use haul_proto::plan::{Piece, SmallFile, Stride, Work};
use haul_proto::ranges::RangeSet;
use haul_proto::wire::frame::{DataFrame, PackFrame, PackedFile, Trailer};
use haul_proto::wire::report::WorkerMessage;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use super::Source;
use super::item::{CHANGED, Item};
use crate::fs::describe;
use crate::pace::Pace;
use crate::report::add;
use crate::storage::Method;
use crate::storage::calls::read_at;
use crate::storage::file::Opened;
use crate::storage::read::Reader;
use crate::stream::StreamError;
use crate::stream::record::Record;

/// How often a small file that changes while it is read is read again.
const READS_MAX: usize = 3;
/// Stands for a value that nobody asks for, of bytes that nobody read.
pub const NO_VALUE: Digest = [0; 32];

/// Where frames go: into a socket, or straight to a target in the same process.
pub trait Outlet {
    /// Hands over a record with its trailer, at the set pace. Returns a record that is free: this one or another.
    fn put(&mut self, record: Record, trailer: &Trailer, pace: &Pace) -> Result<Record, SendError>;
    /// The stream is about to wait for work: what was put is not to wait for what will be.
    fn settle(&mut self) -> Result<(), SendError>;
    /// Whether anybody asks for BLAKE3 values: the other end of a connection always does. Where both ends are one
    /// process, and no digest is to be told, they would be compared with themselves.
    fn wants_values(&self) -> bool {
        true
    }
    /// Has the target share the blocks of these frames of a file of `size` bytes instead of copying them. `false` where
    /// that cannot be: then they are to be read and put.
    fn share(&mut self, _file: &Opened, _entry: EntryId, _size: u64, _frames: Range<u64>) -> Result<bool, SendError> {
        Ok(false)
    }
    /// Nothing more will come.
    fn end(&mut self, record: Record) -> Result<(), SendError>;
}

/// Why a stream could not go on.
pub type SendError = StreamError;

/// Carries one stream until everything is settled. One that breaks leaves its work to others.
pub(super) fn run(source: &Source, id: StreamId, outlet: &mut impl Outlet) -> Result<(), SendError> {
    let mut in_hand = None;
    let carried = carry(source, id, outlet, &mut in_hand);
    if carried.is_err() {
        source.lose_stream(id, in_hand);
    }
    carried
}

fn carry(
    source: &Source,
    id: StreamId,
    outlet: &mut impl Outlet,
    in_hand: &mut Option<Work<Item>>,
) -> Result<(), SendError> {
    let mut reader = Reader::new(source.request.settings.frame.bytes());
    let mut stride = Stride::default();
    while let Some(work) = next_work(source, id, stride.frames_max(), outlet)? {
        match &*in_hand.insert(work) {
            Work::Frames(piece) => {
                let (begun, frames) = (Instant::now(), piece.frames.end - piece.frames.start);
                send_piece(source, piece, &[], &mut reader, outlet)?;
                source.piece_done(piece.ticket);
                stride.took(frames, begun.elapsed());
            }
            Work::Compare(piece, held) => send_piece(source, piece, held, &mut reader, outlet)?,
            Work::Pack(files) => send_pack(source, files, &mut reader, outlet)?,
        }
        *in_hand = None;
    }
    outlet.end(reader.buffer())
}

/// The next work, at once or after a wait for which nothing is kept back.
fn next_work(
    source: &Source,
    id: StreamId,
    frames_max: u64,
    outlet: &mut impl Outlet,
) -> Result<Option<Work<Item>>, SendError> {
    if let Some(work) = source.work_at_hand(id, frames_max) {
        return Ok(Some(work));
    }
    outlet.settle()?;
    source.wait_for_work(id, frames_max)
}

/// Sends the frames of a piece, without those that the target holds: `held` has their values, or none.
fn send_piece(
    source: &Source,
    piece: &Piece<Item>,
    held: &[Digest],
    reader: &mut Reader,
    outlet: &mut impl Outlet,
) -> Result<(), SendError> {
    let file = match piece.handle.open_shared() {
        Ok(file) => file,
        Err(reason) => {
            source.fail(piece.entry, &piece.handle, &reason);
            return Ok(());
        }
    };
    let frame = source.request.settings.frame;
    let may_share = held.is_empty() && !piece.handle.is_null() && !source.policy.is_forced();
    if may_share && outlet.share(&file, piece.entry, piece.size, piece.frames.clone())? {
        let values: Vec<_> = piece.frames.clone().map(|index| (index, NO_VALUE)).collect();
        conclude(source, piece, &file, &values, &RangeSet::new());
        return Ok(());
    }
    let (mut values, mut same) = (Vec::new(), RangeSet::new());
    let mut held = held.iter();
    begin(source, piece, &file, reader);
    for index in piece.frames.clone() {
        let offset = index * u64::from(frame.get());
        let len = frame.frame_len(piece.size, index).unwrap_or(0);
        let record = match reader.next() {
            Some(Ok(record)) if record.payload().len() == len => record,
            Some(Ok(_)) | None => {
                source.fail(piece.entry, &piece.handle, CHANGED);
                return Ok(());
            }
            Some(Err(error)) => {
                source.fail(piece.entry, &piece.handle, &describe(&error));
                return Ok(());
            }
        };
        let crc = frame_crc(record.payload());
        let value = match outlet.wants_values() {
            true => frame.hash(piece.size, index, record.payload()),
            false => crc_value(crc),
        };
        values.push((index, value));
        if held.next() == Some(&value) {
            same.insert(index);
            reader.give_back(record);
            continue;
        }
        let job = source.request.settings.number;
        let trailer = Trailer::Data(DataFrame { job, entry: piece.entry, offset, crc, value });
        reader.give_back(outlet.put(record, &trailer, &source.pace)?);
    }
    reader.end();
    add(&source.reporter.tally.bytes_direct, reader.take_direct_bytes());
    conclude(source, piece, &file, &values, &same);
    Ok(())
}

/// All of a piece was handed over, but for what is the `same` at the target. It counts if the file is still what was
/// offered.
fn conclude(source: &Source, piece: &Piece<Item>, file: &Opened, values: &[(u64, Digest)], same: &RangeSet) {
    match piece.handle.look(file.fd()) {
        Ok(now) if now == (piece.size, piece.handle.modified) => {
            source.frames_read(piece.entry, values, same);
        }
        Ok(_) => source.fail(piece.entry, &piece.handle, CHANGED),
        Err(error) => source.fail(piece.entry, &piece.handle, &describe(&error)),
    }
}

/// Decides how the piece is read, and begins.
fn begin(source: &Source, piece: &Piece<Item>, file: &Arc<Opened>, reader: &mut Reader) {
    let frame_bytes = u64::from(source.request.settings.frame.get());
    let start = piece.frames.start.saturating_mul(frame_bytes);
    let end = piece.frames.end.saturating_mul(frame_bytes).min(piece.size);
    let way = source.policy.reading(file, piece.size, start, end.saturating_sub(start));
    if way.method == Method::Buffered && !piece.handle.is_null() && source.policy.is_refusal_news() {
        let path = escape(&piece.handle.path(&source.request.operands));
        let text = format!("{path} cannot be read with O_DIRECT: it is read through the page cache");
        source.reporter.send(&WorkerMessage::Notice { text });
    }
    reader.begin(Arc::clone(file), way, start, end);
}

fn send_pack(
    source: &Source,
    files: &[SmallFile<Item>],
    reader: &mut Reader,
    outlet: &mut impl Outlet,
) -> Result<(), SendError> {
    let frame = source.request.settings.frame;
    let mut packed = Vec::with_capacity(files.len());
    let mut used = 0;
    let mut record = reader.buffer();
    let most = usize::try_from(frame.pack_file_max()).unwrap_or(usize::MAX);
    for file in files {
        let room = &mut record.room_mut()[used..];
        match read_small(&file.handle, room, most) {
            Ok(SmallRead::Whole(len, modified)) => {
                let digest = if outlet.wants_values() { *blake3::hash(&room[..len]).as_bytes() } else { NO_VALUE };
                packed.push(packed_file(file.entry, len, modified, digest));
                used += len;
            }
            Ok(SmallRead::NoRoom(size)) => source.put_back(file.entry, size),
            Err(reason) => source.fail(file.entry, &file.handle, &reason),
        }
    }
    if packed.is_empty() {
        reader.give_back(record);
        return Ok(());
    }
    record.set_payload_len(used);
    let crc = frame_crc(record.payload());
    let job = source.request.settings.number;
    reader.give_back(outlet.put(record, &Trailer::Pack(PackFrame { job, crc, files: packed }), &source.pace)?);
    Ok(())
}

fn packed_file(entry: EntryId, len: usize, modified: Stamp, digest: [u8; 32]) -> PackedFile {
    PackedFile { entry, len: u32::try_from(len).unwrap_or(u32::MAX), modified, digest }
}

/// What came of reading a small file.
enum SmallRead {
    /// Its length and its time.
    Whole(usize, Stamp),
    /// It has grown to this many bytes, and the pack has not that much room left.
    NoRoom(u64),
}

/// Reads a whole small file. It is whole when as many bytes came as the file has, and size and time are the same
/// before and after; else it is read again. `room` is what the pack has left for it; a file of more than `most` bytes
/// is not small.
fn read_small(item: &Item, room: &mut [u8], most: usize) -> Result<SmallRead, String> {
    let failed = |error: io::Error| describe(&error);
    let file = item.open().map_err(failed)?;
    let (mut size, mut modified) = (item.size, item.modified);
    let room_len = room.len().min(most);
    for _ in 0..READS_MAX {
        // Files of the kernel's own (proc, sysfs) say that they are empty and are not: there, the end is where
        // reading ends.
        let tells_no_size = size == 0 && !item.is_null();
        let want = if tells_no_size { room_len } else { usize::try_from(size).unwrap_or(usize::MAX) };
        if want > most {
            return Err(CHANGED.into());
        }
        let Some(room) = room.get_mut(..want) else { return Ok(SmallRead::NoRoom(size)) };
        let read = read_at(&file, room, 0).map_err(failed)?;
        if tells_no_size && read == want && read_at(&file, &mut [0], read as u64).map_err(failed)? > 0 {
            return if want == most { Err(CHANGED.into()) } else { Ok(SmallRead::NoRoom(most as u64)) };
        }
        let now = item.look(&file).map_err(failed)?;
        if (tells_no_size || read == want) && now == (size, modified) {
            return Ok(SmallRead::Whole(read, modified));
        }
        (size, modified) = now;
    }
    Err(CHANGED.into())
}

//! A stream's thread at the source: read, hash, hand over; one buffer, no copy.

use haul_proto::ids::EntryId;
use haul_proto::integrity::frame_crc;
use haul_proto::manifest::Stamp;
use haul_proto::plan::{Piece, SmallFile, Work};
use haul_proto::wire::frame::{DataFrame, PackFrame, PackedFile, Trailer};
use rustix::io::{Errno, pread};
use std::io;
use std::os::fd::AsFd;

use super::Source;
use super::item::{CHANGED, Item};
use crate::fs::describe;
use crate::stream::record::Record;
use crate::stream::{Stream, StreamError};

/// How often a small file that changes while it is read is read again.
const READS_MAX: usize = 3;

/// Where frames go: into a socket, or straight to a target in the same process.
pub trait Outlet {
    /// Hands over a record's payload with its trailer. The payload is unusable afterwards.
    fn put(&mut self, record: &mut Record, trailer: &Trailer) -> Result<(), SendError>;
    /// Nothing more will come.
    fn end(&mut self, record: &mut Record) -> Result<(), SendError>;
}

/// Why a stream could not go on.
pub type SendError = StreamError;

impl Outlet for Stream {
    fn put(&mut self, record: &mut Record, trailer: &Trailer) -> Result<(), SendError> {
        self.send(record, trailer)
    }

    fn end(&mut self, record: &mut Record) -> Result<(), SendError> {
        record.set_payload_len(0);
        let records = self.sent() - 1;
        self.send(record, &Trailer::End { records })
    }
}

/// Carries one stream until everything is settled.
pub(super) fn run(source: &Source, outlet: &mut impl Outlet) -> Result<(), SendError> {
    let mut record = Record::new(source.request.settings.frame);
    while let Some(work) = source.wait_for_work() {
        match work {
            Work::Frames(piece) => send_piece(source, &piece, &mut record, outlet)?,
            Work::Pack(files) => send_pack(source, &files, &mut record, outlet)?,
        }
    }
    outlet.end(&mut record)
}

fn send_piece(
    source: &Source,
    piece: &Piece<Item>,
    record: &mut Record,
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
    let mut values = Vec::new();
    for index in piece.frames.clone() {
        let offset = index * u64::from(frame.get());
        let len = frame.frame_len(piece.size, index).unwrap_or(0);
        match read_at(&*file, &mut record.room_mut()[..len], offset) {
            Ok(read) if read == len => {}
            Ok(_) => {
                source.fail(piece.entry, &piece.handle, CHANGED);
                return Ok(());
            }
            Err(error) => {
                source.fail(piece.entry, &piece.handle, &describe(&error));
                return Ok(());
            }
        }
        record.set_payload_len(len);
        let value = frame.hash(piece.size, index, record.payload());
        let crc = frame_crc(record.payload());
        let job = source.request.settings.number;
        outlet.put(record, &Trailer::Data(DataFrame { job, entry: piece.entry, offset, crc, value }))?;
        values.push((index, value));
    }
    match Item::look(&file) {
        Ok(now) if now == (piece.size, piece.handle.modified) => {
            source.frames_read(piece.entry, &values, piece.handle.modified);
        }
        Ok(_) => source.fail(piece.entry, &piece.handle, CHANGED),
        Err(error) => source.fail(piece.entry, &piece.handle, &describe(&error)),
    }
    Ok(())
}

fn send_pack(
    source: &Source,
    files: &[SmallFile<Item>],
    record: &mut Record,
    outlet: &mut impl Outlet,
) -> Result<(), SendError> {
    let frame = source.request.settings.frame;
    let mut packed = Vec::with_capacity(files.len());
    let mut used = 0;
    let most = usize::try_from(frame.pack_file_max()).unwrap_or(usize::MAX);
    for file in files {
        let room = &mut record.room_mut()[used..];
        match read_small(&file.handle, room, most) {
            Ok(SmallRead::Whole(len, modified)) => {
                let digest = *blake3::hash(&room[..len]).as_bytes();
                packed.push(packed_file(file.entry, len, modified, digest));
                used += len;
            }
            Ok(SmallRead::NoRoom(size)) => source.put_back(file.entry, size),
            Err(reason) => source.fail(file.entry, &file.handle, &reason),
        }
    }
    if packed.is_empty() {
        return Ok(());
    }
    record.set_payload_len(used);
    let crc = frame_crc(record.payload());
    let job = source.request.settings.number;
    outlet.put(record, &Trailer::Pack(PackFrame { job, crc, files: packed }))
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
        let want = if size == 0 { room_len } else { usize::try_from(size).unwrap_or(usize::MAX) };
        if want > most {
            return Err(CHANGED.into());
        }
        let Some(room) = room.get_mut(..want) else { return Ok(SmallRead::NoRoom(size)) };
        let read = read_at(&file, room, 0).map_err(failed)?;
        if size == 0 && read == want && read_at(&file, &mut [0], read as u64).map_err(failed)? > 0 {
            return if want == most { Err(CHANGED.into()) } else { Ok(SmallRead::NoRoom(most as u64)) };
        }
        let now = Item::look(&file).map_err(failed)?;
        if (size == 0 || read == want) && now == (size, modified) {
            return Ok(SmallRead::Whole(read, modified));
        }
        (size, modified) = now;
    }
    Err(CHANGED.into())
}

/// Reads until `buffer` is full or the file ends.
fn read_at(file: impl AsFd, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match pread(&file, &mut buffer[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(filled)
}

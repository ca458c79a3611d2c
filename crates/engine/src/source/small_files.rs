//! Small files, packed into shared frames: read whole, with a check against concurrent changes.

use std::os::fd::OwnedFd;

use haul_proto::entry::Timestamp;
use haul_proto::ids::EntryId;
use haul_proto::integrity::{NO_VALUE, frame_check};
use haul_proto::scheduler::SmallFile;
use haul_proto::wire::frame::{PackFrame, PackedFile, RecordTrailer};
use haul_proto::wire::resource_metrics::Stage;

use super::session::Source;
use crate::io::storage::calls::read_at;
use crate::io::storage::read::FrameReader;
use crate::metrics::stage_timer::during;
use crate::net::stream::StreamError;
use crate::policy::audit::{AuditAction, AuditRecord};
use crate::source::entry::SourceEntry;
use crate::source::frame_sink::FrameSink;
use crate::source::path::SourceFileError;
use crate::source::state::FileChange;

/// Most reads of a small file that changes while being read.
const READS_MAX: usize = 3;

/// Reads these files and sends them as a pack.
pub(super) fn send(
    source: &Source,
    files: &[SmallFile<SourceEntry>],
    reader: &mut FrameReader,
    sink: &mut impl FrameSink,
) -> Result<(), StreamError> {
    let frame = source.request.settings.frame;
    let mut packed = Vec::with_capacity(files.len());
    let mut used = 0;
    let mut buffer = reader.buffer();
    let most = usize::try_from(frame.pack_file_max()).unwrap_or(usize::MAX);
    for file in files {
        let room = &mut buffer.room_mut()[used..];
        match during(Stage::Open, || read_small(&file.handle, room, most)) {
            Ok(SmallFileRead::Whole(len, modified)) => {
                if let Err(error) = source.sum_small(&file.handle, &room[..len]) {
                    source.fail(file.entry, &file.handle, error);
                    continue;
                }
                let is_audited = source.reporter.is_audited();
                let has_digest = source.request.settings.blake3;
                let digest = if has_digest { *blake3::hash(&room[..len]).as_bytes() } else { NO_VALUE };
                if is_audited {
                    let (path, bytes) = (file.handle.path(), Some(len as u64));
                    let sent = AuditRecord::of(AuditAction::Sent, &path);
                    let audited = source.reporter.audit(&AuditRecord { bytes, digest: Some(&digest), ..sent });
                    audited.map_err(std::io::Error::other)?;
                }
                source.report_growth(&file.handle);
                packed.push(packed_file(file.entry, len, modified, digest));
                used += len;
            }
            Ok(SmallFileRead::NoRoom(size)) => source.requeue_small_file(file.entry, size),
            Err(error) => source.fail(file.entry, &file.handle, error),
        }
    }
    if packed.is_empty() {
        reader.give_back(buffer);
        return Ok(());
    }
    buffer.set_payload_len(used);
    let check = frame_check(buffer.payload());
    let copy = source.request.settings.number;
    reader.give_back(sink.send_frame(
        buffer,
        &RecordTrailer::Pack(PackFrame { copy, check, files: packed }),
        &source.limiter,
    )?);
    Ok(())
}

fn packed_file(entry: EntryId, len: usize, modified: Timestamp, digest: [u8; 32]) -> PackedFile {
    PackedFile { entry, len: u32::try_from(len).unwrap_or(u32::MAX), modified, digest }
}

/// The result of reading a small file.
enum SmallFileRead {
    /// Its length and modification time.
    Whole(usize, Timestamp),
    /// The file has grown to this many bytes, more than the pack has left.
    NoRoom(u64),
}

/// Reads a small file whole: the bytes read must match its size. Size and times must be unchanged afterwards, or a
/// second reading after a tolerated change must find the same bytes. Otherwise it is reread. `room` is the space left
/// in the pack; a file of more than `most` bytes is not small.
fn read_small(item: &SourceEntry, room: &mut [u8], most: usize) -> Result<SmallFileRead, SourceFileError> {
    let file = item.open()?;
    let mut state = item.offered;
    let room_len = room.len().min(most);
    for _ in 0..READS_MAX {
        // Kernel files (proc, sysfs) report size 0 whatever they contain: these are read to the end.
        let tells_no_size = state.size == 0 && !item.is_null();
        let want = if tells_no_size { room_len } else { usize::try_from(state.size).unwrap_or(usize::MAX) };
        if want > most {
            return Err(SourceFileError::Changed);
        }
        let Some(room) = room.get_mut(..want) else { return Ok(SmallFileRead::NoRoom(state.size)) };
        let read = during(Stage::Read, || read_at(&file, room, 0))?;
        if tells_no_size && read == want && read_at(&file, &mut [0], read as u64)? > 0 {
            return if want == most { Err(SourceFileError::Changed) } else { Ok(SmallFileRead::NoRoom(most as u64)) };
        }
        let now = item.stat_state(&file)?;
        let change = now.change_since(&state);
        let is_whole = tells_no_size || read == want;
        if is_whole && change == FileChange::Nothing {
            return Ok(SmallFileRead::Whole(read, state.modified));
        }
        if is_whole && !tells_no_size && item.is_tolerable(&file, change)? && is_again(&file, &room[..read])? {
            item.note_change(change);
            return Ok(SmallFileRead::Whole(read, state.modified));
        }
        state = now;
    }
    Err(SourceFileError::Changed)
}

/// Whether a second reading finds the same bytes.
fn is_again(file: &OwnedFd, bytes: &[u8]) -> std::io::Result<bool> {
    let mut room = vec![0; bytes.len()];
    Ok(read_at(file, &mut room, 0)? == bytes.len() && room == bytes)
}

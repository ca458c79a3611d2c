//! The patch of an update in place.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use blake3::hazmat::ChainingValue;
use haul_base::sys::sync::lock;
use haul_proto::delta::blocks::{self, BLOCK};
use haul_proto::delta::instructions::DeltaInstruction;
use haul_proto::delta::patch::{CHUNK_HEAD, HEADER_LEN, append, append_hole};
use haul_proto::error::ProtocolError;
use haul_proto::path::Name;
use haul_proto::wire::frame::DeltaFrame;

use crate::fs::FileStat;
use crate::io::storage::calls::write_at;
use crate::io::storage::holes::map_of_zeros;
use crate::receiver::place::temp_names::{sibling, temporary_name};

/// State of an update in place.
pub struct InPlaceUpdate {
    /// Chaining values of existing blocks by frame, from their report until the frame arrives.
    values: Mutex<HashMap<u64, Vec<ChainingValue>>>,
    /// Offset of the next piece in the patch.
    pub end: AtomicU64,
    /// Owner and number of names of the file that was found to be permitted.
    judged: (u32, u64),
}

/// Offsets in the file, and the new data there.
pub type PatchChanges<'s> = Result<Option<Vec<(u64, &'s [u8])>>, ProtocolError>;

const NOT_IN_PLACE: ProtocolError = ProtocolError::Invalid("an instruction that leaves its block");

impl InPlaceUpdate {
    /// Of an existing file that may be updated in place.
    pub fn of(there: &FileStat) -> Self {
        let judged = (there.meta.uid, there.names);
        Self { values: Mutex::default(), end: AtomicU64::new(HEADER_LEN as u64), judged }
    }

    /// Whether a file still has the owner of the judged one, and no further names.
    pub fn still_permits(&self, now: &FileStat) -> bool {
        let (owner, names) = self.judged;
        now.meta.uid == owner && now.names <= names
    }

    /// Stores chaining values of existing blocks.
    pub fn keep(&self, values: Vec<(u64, Vec<ChainingValue>)>) {
        lock(&self.values).extend(values);
    }

    /// Blocks of a frame to write for the expected digest; `None` if they would not produce it.
    pub fn changes<'s>(
        &self,
        index: u64,
        steps: &[DeltaInstruction<'s>],
        frame: &DeltaFrame,
        is_only: bool,
    ) -> PatchChanges<'s> {
        let Some(mut values) = lock(&self.values).remove(&index) else { return Ok(None) };
        values.resize(blocks::count(frame.plain), [0; 32]);
        let (mut changes, mut at) = (Vec::new(), 0);
        for step in steps {
            let len = match step {
                DeltaInstruction::New(bytes) => bytes.len(),
                DeltaInstruction::Old { len, .. } => *len,
            };
            let end = at + len;
            let place = frame.offset + at as u64;
            let is_whole = at.is_multiple_of(BLOCK) && (end.is_multiple_of(BLOCK) || end == frame.plain);
            match step {
                _ if !is_whole => return Err(NOT_IN_PLACE),
                DeltaInstruction::Old { offset, .. } if *offset != place => return Err(NOT_IN_PLACE),
                DeltaInstruction::Old { .. } => {}
                DeltaInstruction::New(bytes) => {
                    let new = (place..).step_by(BLOCK).zip(bytes.chunks(BLOCK));
                    let new = new.map(|(offset, block)| blocks::value(offset, block));
                    values.iter_mut().skip(at / BLOCK).zip(new).for_each(|(value, new)| *value = new);
                    changes.push((place, *bytes));
                }
            }
            at = end;
        }
        Ok((blocks::frame_value(&values, is_only) == Some(frame.value)).then_some(changes))
    }

    /// Appends changes to the patch. With `keeps_holes`, blocks of zeros become holes.
    pub fn write(&self, patch: &OwnedFd, chunks: &[(u64, &[u8])], keeps_holes: bool) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(chunks.iter().map(|(_, chunk)| CHUNK_HEAD + chunk.len()).sum());
        for (offset, chunk) in chunks.iter().filter(|(_, chunk)| !chunk.is_empty()) {
            let Some(map) = keeps_holes.then(|| map_of_zeros(chunk)).flatten() else {
                append(&mut bytes, *offset, chunk);
                continue;
            };
            for (is_data, range) in map.runs(chunk.len()) {
                let at = offset + range.start as u64;
                if is_data {
                    append(&mut bytes, at, &chunk[range]);
                } else {
                    append_hole(&mut bytes, at, range.len());
                }
            }
        }
        let at = self.end.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        write_at(patch, &bytes, at)
    }
}

/// The name of a complete patch.
pub(crate) fn patch_name(name: &Name) -> Name {
    sibling(&temporary_name(name, b"file"), "patch")
}

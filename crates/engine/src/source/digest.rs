//! The digest of a file before its offer, for copies that compare by digest: the walk reads the whole file.

use std::sync::Arc;

use haul_proto::integrity::Digest;

use super::session::Source;
use crate::io::storage::file::OpenedFile;
use crate::io::storage::read::FrameReader;
use crate::source::entry::SourceEntry;
use crate::source::path::SourceFileError;

/// The walk's reader, created on first use.
#[derive(Default)]
pub struct WalkDigester {
    reader: Option<FrameReader>,
}

impl WalkDigester {
    /// BLAKE3 of a file's contents. `None` if the file is unreadable or differs from its offer, which the copy itself
    /// reports, or if the copy was stopped.
    pub fn digest(&mut self, source: &Source, item: &SourceEntry) -> Option<Digest> {
        let frame_bytes = source.request.settings.frame.bytes();
        let reader = self.reader.get_or_insert_with(|| FrameReader::new(frame_bytes, source.policy.depth(frame_bytes)));
        let file = item.open_as_offered().ok()?;
        read(source, item, file, reader).ok()
    }
}

fn read(
    source: &Source,
    item: &SourceEntry,
    file: Arc<OpenedFile>,
    reader: &mut FrameReader,
) -> Result<Digest, SourceFileError> {
    let plan = source.policy.reading(&file, item.offered.size, 0, item.offered.size);
    reader.add(Arc::clone(&file), plan, 0, item.offered.size);
    let hashed = hash(source, item, reader);
    if hashed.is_ok() {
        reader.end()
    } else {
        reader.give_up()
    }
    match item.is_as_offered(file.fd())? {
        true => hashed,
        false => Err(SourceFileError::Changed),
    }
}

fn hash(source: &Source, item: &SourceEntry, reader: &mut FrameReader) -> Result<Digest, SourceFileError> {
    let (mut hasher, mut left) = (blake3::Hasher::new(), item.offered.size);
    while left > 0 {
        if source.walk.cancel.is_cancelled() {
            return Err(SourceFileError::Changed);
        }
        let buffer = reader.next().ok_or(SourceFileError::Changed)??;
        let bytes = buffer.payload().len() as u64;
        hasher.update(buffer.payload());
        reader.give_back(buffer);
        // A truncated file ends early.
        left = left.checked_sub(bytes).filter(|_| bytes > 0).ok_or(SourceFileError::Changed)?;
    }
    Ok(*hasher.finalize().as_bytes())
}

#[cfg(test)]
#[path = "digest_tests.rs"]
mod tests;

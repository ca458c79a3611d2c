//! The digest of a file before its offer, for jobs that compare by digest: the walk reads the whole file.

use haul_proto::integrity::Digest;
use std::sync::Arc;

use super::Source;
use crate::io::storage::file::OpenedFile;
use crate::io::storage::read::FrameReader;
use crate::source::entry::SourceEntry;
use crate::source::path::SourceFileError;

/// What the walk reads with, once it has to.
#[derive(Default)]
pub struct WalkDigester {
    reader: Option<FrameReader>,
}

impl WalkDigester {
    /// BLAKE3 of what a file has. `None` of a file that is not what it was when it was found, or changes meanwhile, or
    /// cannot be read: that is said when it is copied. `None`, too, where the job is stopped.
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
    let way = source.policy.reading(&file, item.size, 0, item.size);
    reader.add(Arc::clone(&file), way, 0, item.size);
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
    let (mut hasher, mut left) = (blake3::Hasher::new(), item.size);
    while left > 0 {
        if source.walking.is_cancelled() {
            return Err(SourceFileError::Changed);
        }
        let record = reader.next().ok_or(SourceFileError::Changed)??;
        let bytes = record.payload().len() as u64;
        hasher.update(record.payload());
        reader.give_back(record);
        // A file that has become shorter ends too early.
        left = left.checked_sub(bytes).filter(|_| bytes > 0).ok_or(SourceFileError::Changed)?;
    }
    Ok(*hasher.finalize().as_bytes())
}

#[cfg(test)]
#[path = "digest_tests.rs"]
mod tests;

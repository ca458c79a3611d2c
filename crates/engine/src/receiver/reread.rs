//! A job that only compares: threads that read and hash the target's files, and tell the source what they have.
//!
//! A piece of a file is read at a time, so that all threads share a large file, and the source reads one piece while the
//! next is being hashed here. Each piece opens its file for itself: so the threads are what bounds open files.

use haul_proto::integrity::Digest;
use haul_proto::scheduler::{PIECE_FRAMES_MAX, Piece};
use std::collections::VecDeque;
use std::sync::Arc;

use super::compare::{Compared, ComparedFile};
use super::proof::Held;
use super::{Item, Target};
use crate::fs::{Links, Look};
use crate::io::storage::Access;
use crate::io::storage::file::Opened;
use crate::io::storage::read::Reader;
use crate::metrics::reporter::add;
use crate::source::CHANGED;
use crate::sys::describe::describe;

/// Most small files that the source is told of at once.
const TOLD_FILES: usize = 64;

/// A piece that the reader has.
struct Begun {
    piece: Piece<Item>,
    file: Arc<Opened>,
}

impl Target {
    /// Reads what is to be compared until the job is over.
    pub fn reread(&self) {
        let mut reader = self.reader();
        let (mut ahead, mut held) = (None, Vec::new());
        while let Some(begun) = ahead.take().or_else(|| self.next_piece(&mut reader, &mut held)) {
            let Some(file) = compared_file(&begun.piece.handle) else { continue };
            match self.hash_piece(&begun, file, &mut reader, &mut ahead) {
                Ok(values) => {
                    held.push(Held { entry: begun.piece.entry, first: begun.piece.frames.start, values });
                    reader.end();
                    if held.len() == TOLD_FILES || begun.piece.frames.end - begun.piece.frames.start > 1 {
                        self.tell_held(std::mem::take(&mut held), true);
                    }
                }
                Err(text) => {
                    reader.give_up();
                    self.compare_failed(begun.piece.entry, file, &text);
                }
            }
            add(&self.reporter.tally.bytes_direct, reader.take_direct_bytes());
        }
    }

    /// The next piece, waited for with nothing left to be told.
    fn next_piece(&self, reader: &mut Reader, held: &mut Vec<Held>) -> Option<Begun> {
        self.begin_piece(reader, false).or_else(|| {
            self.tell_held(std::mem::take(held), true);
            self.begin_piece(reader, true)
        })
    }

    /// Takes a piece and has the reader begin with it when it is its turn. `None` when there is none, and never will be if
    /// it `waits`.
    fn begin_piece(&self, reader: &mut Reader, waits: bool) -> Option<Begun> {
        let threads = u64::from(self.request.settings.streams);
        let part = |files: &mut VecDeque<Piece<Item>>| {
            let file = files.front_mut()?;
            let part = file.split(threads, PIECE_FRAMES_MAX);
            if file.frames.is_empty() {
                files.pop_front();
            }
            Some(part)
        };
        loop {
            let piece = self.rereads.take(waits, part)?;
            let Some(file) = compared_file(&piece.handle) else { continue };
            // It may have been given up meanwhile, here or at the source.
            if !self.lock().machine.is_known(piece.entry) {
                continue;
            }
            match open(file) {
                Ok(opened) => {
                    let frame_bytes = u64::from(self.request.settings.frame.get());
                    let start = piece.frames.start.saturating_mul(frame_bytes);
                    let end = piece.frames.end.saturating_mul(frame_bytes).min(file.size);
                    let way = self.policy.reading(&opened, file.size, start, end.saturating_sub(start));
                    reader.add(Arc::clone(&opened), way, start, end);
                    return Some(Begun { piece, file: opened });
                }
                Err(text) => self.compare_failed(piece.entry, file, &text),
            }
        }
    }

    /// Hashes the piece that is the reader's first. The next one is begun meanwhile, where the disk
    /// would have nothing to do otherwise.
    fn hash_piece(
        &self,
        Begun { piece, file: opened }: &Begun,
        file: &ComparedFile,
        reader: &mut Reader,
        ahead: &mut Option<Begun>,
    ) -> Result<Vec<Digest>, String> {
        let frame = self.request.settings.frame;
        let mut values = Vec::new();
        for index in piece.frames.clone() {
            if ahead.is_none() && reader.wants_another() {
                *ahead = self.begin_piece(reader, false);
            }
            let record = match reader.next() {
                Some(Ok(record)) if frame.frame_len(file.size, index) == Some(record.payload().len()) => record,
                Some(Ok(_)) | None => return Err(CHANGED.into()),
                Some(Err(error)) => return Err(describe(&error)),
            };
            values.push(frame.hash(file.size, index, record.payload()));
            reader.give_back(record);
        }
        is_unchanged(file, &Look::at_fd(opened.fd()).map_err(|error| describe(&error))?)?;
        Ok(values)
    }
}

fn compared_file(item: &Item) -> Option<&ComparedFile> {
    match item {
        Item::Compared(Compared::File(file)) => Some(file),
        _ => None,
    }
}

/// The file as it was looked at.
fn open(file: &ComparedFile) -> Result<Arc<Opened>, String> {
    let (fd, look) = file.dir.open_file(&file.name, Links::Itself).map_err(|error| describe(&error))?;
    is_unchanged(file, &look)?;
    let opened = Opened::new(fd, Access::Read).map_err(|error| describe(&error))?;
    Ok(Arc::new(opened.with_extents(Arc::clone(&file.extents))))
}

fn is_unchanged(file: &ComparedFile, now: &Look) -> Result<(), String> {
    if (now.size, now.meta.modified) == (file.size, file.modified) { Ok(()) } else { Err(CHANGED.into()) }
}

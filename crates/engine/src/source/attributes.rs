//! Extended attributes and access control lists of offered entries, where they are preserved. Also reports flags that a
//! copy cannot have (append-only, immutable), and reads the striping of large files.

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

use haul_base::sys::describe::describe;
use haul_proto::entry::Entry;
use haul_proto::entry_extras::{EntryExtras, ExtendedAttribute};
use haul_proto::path::escape;
use haul_proto::striping::STRIPED_FILE_MIN;
use haul_proto::wire::report::WorkerMessage;
use rustix::fs::{IFlags, ioctl_getflags};

use super::session::Source;
use crate::fs::Dir;
use crate::fs::attributes::{is_wanted, read};
use crate::fs::striping::striping;
use crate::source::entry::SourceEntry;

impl Source {
    /// Extended attributes and access control lists of a directory.
    pub(super) fn more_of_directory(&self, dir: &Dir) -> Option<Box<EntryExtras>> {
        let attributes = self.attributes(|| dir.fd(), || dir.path_bytes())?;
        Some(Box::new(EntryExtras { attributes: Some(attributes), ..EntryExtras::default() }))
    }

    /// Adds extended attributes and access control lists to a file's entry.
    pub(super) fn add_attributes(&self, entry: &mut Entry, item: &SourceEntry) {
        if let Some(attributes) = self.attributes(|| item.open(), || item.path()) {
            entry.more.get_or_insert_default().attributes = Some(attributes);
        }
    }

    /// Adds the striping of a large file.
    pub(super) fn add_striping(&self, entry: &mut Entry, item: &SourceEntry, size: u64) {
        if size >= STRIPED_FILE_MIN
            && !self.compares()
            && let Some(striping) = item.open().ok().and_then(striping)
        {
            entry.more.get_or_insert_default().striping = Some(striping);
        }
    }

    /// Reports the number of files with such flags, if there are several.
    pub(super) fn report_unkept_flags(&self) {
        let flagged = self.flagged.load(Ordering::Relaxed);
        if flagged > 1 {
            let text = format!("{flagged} files and directories are append-only or immutable; their copies are not");
            self.reporter.send(&WorkerMessage::Warning { text });
        }
    }

    /// `None` if attributes are not preserved or cannot be read: the target then keeps its own.
    fn attributes<F: AsFd>(
        &self,
        open: impl FnOnce() -> io::Result<F>,
        path: impl Fn() -> Vec<u8>,
    ) -> Option<Vec<ExtendedAttribute>> {
        if !is_wanted(self.request.preserve) {
            return None;
        }
        let found = open().and_then(|file| {
            if !self.compares() {
                self.note_flags(&file, &path);
            }
            read(&file, self.request.preserve)
        });
        match found {
            Ok(attributes) => Some(attributes),
            // The read of the file itself reports this error.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => None,
            Err(error) => {
                let what = if self.compares() { "not compared" } else { "copied without them" };
                let text = format!("{}: {}: {what}", escape(&path()), describe(&error));
                self.reporter.send(&WorkerMessage::Warning { text });
                None
            }
        }
    }

    fn note_flags(&self, file: impl AsFd, path: impl Fn() -> Vec<u8>) {
        let flags = ioctl_getflags(file).unwrap_or(IFlags::empty());
        let word = match (flags.contains(IFlags::IMMUTABLE), flags.contains(IFlags::APPEND)) {
            (true, _) => "immutable",
            (false, true) => "append-only",
            (false, false) => return,
        };
        if self.flagged.fetch_add(1, Ordering::Relaxed) == 0 {
            let text = format!("{} is {word} (lsattr); its copy is not", escape(&path()));
            self.reporter.send(&WorkerMessage::Warning { text });
        }
    }
}

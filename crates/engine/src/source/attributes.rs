//! Extended attributes and access control lists of what is offered, where they are to be kept.

use haul_proto::manifest::Entry;
use haul_proto::more::{Attribute, More};
use haul_proto::path::escape;
use haul_proto::wire::report::WorkerMessage;
use std::io;

use super::Source;
use super::item::Item;
use crate::fs::attributes::{is_wanted, read};
use crate::fs::{Dir, describe};

impl Source {
    /// What a directory has besides.
    pub(super) fn more_of_directory(&self, dir: &Dir) -> Option<Box<More>> {
        let attributes = self.attributes(|| read(&*dir.fd()?, self.request.kept), || dir.path_bytes())?;
        Some(Box::new(More { attributes: Some(attributes), ..More::default() }))
    }

    /// Adds those of a file.
    pub(super) fn add_attributes(&self, entry: &mut Entry, item: &Item) {
        if let Some(attributes) = self.attributes(|| read(item.open()?, self.request.kept), || item.path()) {
            entry.more.get_or_insert_default().attributes = Some(attributes);
        }
    }

    /// `None` where they are not kept, or cannot be read: then a target leaves alone what it has.
    fn attributes(
        &self,
        read: impl FnOnce() -> io::Result<Vec<Attribute>>,
        path: impl FnOnce() -> Vec<u8>,
    ) -> Option<Vec<Attribute>> {
        if !is_wanted(self.request.kept) || self.compares() {
            return None;
        }
        match read() {
            Ok(attributes) => Some(attributes),
            // That is told of the file itself, when it is read.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => None,
            Err(error) => {
                let text = format!("{}: {}: it is copied without them", escape(&path()), describe(&error));
                self.reporter.send(&WorkerMessage::Notice { text });
                None
            }
        }
    }
}

//! A search for partial files in a file session, which may remove them.

use std::path::Path;

use haul_base::sys::describe::describe;
use haul_proto::limits::LISTED_ENTRIES_MAX;
use haul_proto::wire::file_session::{FailedEntries, FileAnswer};
use haul_proto::wire::partials::{FoundPartial, PartialOutcome};

use crate::partials::{FoundPartials, PartialRemoval, find};
use crate::worker::directory_operations::LISTED_BYTES;
use crate::worker::file_operation_error::FileOperationError;

/// A search in progress.
pub(super) struct PartialSearch {
    rest: FoundPartials,
    removes: bool,
}

impl PartialSearch {
    /// Begins at a file or directory.
    pub fn open(path: &Path, journals: Option<&Path>, removes: bool) -> Result<Self, FileOperationError> {
        Ok(Self { rest: find(path, journals)?, removes })
    }

    /// The next partial files; `number` is that of the search. `tell` gets the path of each removed file.
    pub fn next_partials(&mut self, number: u32, tell: &mut dyn FnMut(&[u8])) -> FileAnswer {
        let (mut found, mut failures, mut bytes) = (Vec::new(), FailedEntries::default(), 0);
        while found.len() < LISTED_ENTRIES_MAX && bytes < LISTED_BYTES {
            let mut partial = match self.rest.next() {
                None => return FileAnswer::Partials { search: number, found, failures, is_last: true },
                Some(Ok(partial)) => partial,
                Some(Err(unreadable)) => {
                    failures.add(unreadable.path, unreadable.text);
                    continue;
                }
            };
            let outcome = match self.removes.then(|| partial.remove()) {
                None => PartialOutcome::Shown,
                Some(Ok(PartialRemoval::Vanished)) => continue,
                Some(Ok(PartialRemoval::Kept)) => PartialOutcome::Kept,
                Some(Ok(PartialRemoval::Removed)) => {
                    tell(&partial.place);
                    PartialOutcome::Removed
                }
                Some(Err(error)) => {
                    failures.add(partial.about.path.clone(), describe(&error));
                    PartialOutcome::Kept
                }
            };
            bytes += partial.about.path.len() + size_of::<FoundPartial>();
            found.push(FoundPartial { about: partial.about, outcome });
        }
        FileAnswer::Partials { search: number, found, failures, is_last: false }
    }
}

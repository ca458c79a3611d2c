//! Partial files of earlier runs.

use std::sync::Arc;

use haul_proto::journal::{JournalHeader, PartialMatch};
use haul_proto::path::escape;
use haul_proto::wire::report::WorkerMessage;

use crate::io::storage::FileAccess;
use crate::io::storage::file::OpenedFile;
use crate::receiver::file::length::cut_to;
use crate::receiver::file::partial::PartialFile;
use crate::receiver::place::error::FileError;
use crate::receiver::place::journal::OpenJournal;
use crate::receiver::place::target_path::{FileName, TargetPath};
use crate::receiver::tree::TargetTree;

impl TargetTree {
    /// An earlier run's partial file for the file of `header`; `None` if there is none to resume. Unusable ones are
    /// reported. An error means that the file cannot be received now.
    pub(crate) fn find_part(
        &self,
        path: &TargetPath,
        leaf: &FileName,
        header: &JournalHeader,
    ) -> Result<Option<PartialFile>, FileError> {
        let Some((journal, found)) = OpenJournal::open(leaf, FileAccess::Write).unwrap_or_default() else {
            return Ok(None);
        };
        let shown = || escape(&self.copy.destination.path(&path.dir.path_of(path.name.as_bytes())));
        let compare = match found.kinship(header) {
            PartialMatch::Same => false,
            PartialMatch::Likely => true,
            PartialMatch::Other => {
                let text = format!("{}: the source has changed since the partial copy; starting over", shown());
                self.copy.reporter.send(&WorkerMessage::Warning { text });
                return Ok(None);
            }
            PartialMatch::Unusable => {
                let text = format!("{}: the partial file was copied with other settings; starting over", shown());
                self.copy.reporter.send(&WorkerMessage::Warning { text });
                return Ok(None);
            }
        };
        let Some(file) = self.temp_files.take_over(path, leaf, &self.copy_locks)? else { return Ok(None) };
        // Bytes after the end belong to no frame, so nothing verifies them.
        cut_to(&file, header.size)?;
        let file = OpenedFile::new(file, FileAccess::Write)?;
        Ok(Some(PartialFile { file: Arc::new(file), journal, compare }))
    }
}

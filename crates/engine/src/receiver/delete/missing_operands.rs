//! Source arguments that do not exist: on request, entries of their names are removed at the end of the copy.

use std::io;

use haul_base::copy::event::NOT_EMPTY;
use haul_base::sys::describe::describe;
use haul_proto::path::Name;
use rustix::fs::FileType;
use rustix::io::Errno;

use crate::fs::{Dir, FileStat, FollowLinks};
use crate::receiver::delete::Removals;
use crate::receiver::delete::remove_tree::{TreeClearing, sorted_names};
use crate::receiver::place::destination::DestinationKind;

impl Removals {
    /// Removes the entries of missing source arguments. A directory with contents stays, unless those may be deleted.
    pub(crate) fn remove_missing_operands(&self) {
        let request = &self.copy.request;
        let DestinationKind::Into(root) = &self.copy.destination.kind else { return };
        for number in &request.missing {
            let number = *number as usize;
            let Some(name) = request.operands.get(number).and_then(|operand| operand.name.as_ref()) else { continue };
            let below = request.below.get(number).map_or(&[][..], Vec::as_slice);
            if let Err(error) = self.remove_operand(root, below, name) {
                let path = below.iter().chain([name]).map(Name::as_bytes).collect::<Vec<_>>().join(&b'/');
                self.copy.fail(self.copy.destination.path(&path), describe(&error));
            }
        }
    }

    fn remove_operand(&self, root: &Dir, below: &[Name], name: &Name) -> io::Result<()> {
        let found = below.iter().try_fold(root.clone(), |dir, name| self.metadata.enter(&dir, name)).and_then(|dir| {
            let kind = FileStat::at_name(&*dir.fd()?, name, FollowLinks::Itself)?.kind;
            Ok((dir, kind))
        });
        let (dir, kind) = match found {
            // There is nothing, or a link of which nothing is below the destination.
            Err(error) if matches!(Errno::from_io_error(&error), Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP)) => {
                return Ok(());
            }
            found => found?,
        };
        let sync = &self.copy.request.sync;
        let is_kept = kind == FileType::Directory && !sync.deletes() && !sync.replaces_trees;
        if is_kept && !sorted_names(&self.metadata.enter(&dir, name)?)?.is_empty() {
            let path = self.copy.destination.path(&dir.path_of(name.as_bytes()));
            self.copy.reporter.left_out(path, NOT_EMPTY);
            return Ok(());
        }
        // The limit of removals is reported.
        let _ = TreeClearing::new(self).clear(&dir, name, kind, None);
        Ok(())
    }
}

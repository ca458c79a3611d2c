//! Hard links among existing files at the target. With `--hard-links`, each existing file may stay for one file of the
//! source only: separate source files must not remain hard links.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use haul_base::sys::sync::lock;
use haul_proto::entry::{Entry, EntryContent, EntryMetadata};
use haul_proto::overwrite_policy::OverwriteDecision;
use haul_proto::wire::report::WorkerMessage;
use rustix::fs::FileType;

use crate::fs::{FileIdentity, FileStat};
use crate::receiver::links::LinkTracker;

/// Most remembered files: a hash table of this size takes 25 MiB, and 37 MiB while it grows.
const STAYING_FILES_MAX: usize = 7 << 16;

/// Existing files that stay, with their final metadata.
#[derive(Default)]
pub struct HardLinkGuard {
    staying: Mutex<HashMap<FileIdentity, EntryMetadata>>,
    /// In a dry run, the number of names that would have been replaced, by link.
    replaced: Mutex<HashMap<FileIdentity, u64>>,
    /// The warning about the limit was sent.
    is_reported: AtomicBool,
}

/// The relation of a source file to an existing file.
pub(crate) enum GuardedName {
    /// None known.
    None,
    /// It keeps the existing file, whose metadata will be these; no other source file may.
    Stays(EntryMetadata),
    /// The existing file's metadata will be these.
    Has(EntryMetadata),
}

impl LinkTracker {
    /// Records that a source file keeps an existing one. Returns whether another one did before.
    pub(crate) fn other_name_of(&self, entry: &Entry, there: &FileStat) -> GuardedName {
        // Links, FIFOs, sockets and devices are offered separately for each name, without shared times or owners.
        let is_single = match entry.kind {
            EntryContent::File { .. } => self.copy.request.metadata.preserve.hard_links,
            EntryContent::Symlink { .. } | EntryContent::Node(_) => true,
            _ => return GuardedName::None,
        };
        if there.names < 2 || !(is_single || self.copy.is_dry()) {
            return GuardedName::None;
        }
        let mut staying = lock(&self.guard.staying);
        if staying.len() >= STAYING_FILES_MAX && !staying.contains_key(&there.identity) {
            return self.warn_of_too_many_names().unwrap_or(GuardedName::None);
        }
        match staying.get(&there.identity) {
            Some(meta) if is_single => GuardedName::Stays(*meta),
            earlier => {
                let other = earlier.map_or(GuardedName::None, |meta| GuardedName::Has(*meta));
                staying.insert(there.identity, entry.meta);
                other
            }
        }
    }

    /// Warns once that further hard links are not recognised.
    pub(crate) fn warn_of_too_many_names<T>(&self) -> Option<T> {
        if !self.guard.is_reported.swap(true, Ordering::Relaxed) {
            let text = "too many hard links at the target to remember: links between wrong files may stay";
            self.copy.reporter.send(&WorkerMessage::Warning { text: text.to_owned() });
        }
        None
    }
}

impl LinkTracker {
    /// The present number of names of a link.
    pub(crate) fn names_left(&self, there: &FileStat) -> u64 {
        let replaced = lock(&self.guard.replaced).get(&there.identity).copied().unwrap_or(0);
        there.names.saturating_sub(replaced)
    }

    /// Counts a name replaced in a dry run: a real run would find one less.
    pub(crate) fn count_replaced_name(&self, there: &FileStat, decision: OverwriteDecision) {
        let is_counted = self.copy.is_dry() && there.names > 1 && there.kind == FileType::Symlink;
        if !is_counted || decision != OverwriteDecision::Replace {
            return;
        }
        let mut replaced = lock(&self.guard.replaced);
        if replaced.len() < STAYING_FILES_MAX || replaced.contains_key(&there.identity) {
            *replaced.entry(there.identity).or_default() += 1;
        }
    }

    /// Forgets an existing entry that is replaced after all.
    pub(crate) fn forget_other_names_of(&self, there: &FileStat) {
        lock(&self.guard.staying).remove(&there.identity);
    }
}

#[cfg(test)]
mod tests {
    use haul_base::control_channel::ControlWriter;
    use haul_proto::entry::EntryLocation;
    use haul_proto::wire::request::TargetRequest;

    use super::*;
    use crate::metrics::reporter::Reporter;
    use crate::receiver::TargetReceiver;
    use crate::receiver::copy::WorkerContext;
    use crate::testing::target_request;

    #[test]
    fn beyond_the_limit_further_files_are_not_recognised() {
        let directory = tempfile::tempdir().unwrap();
        let mut request: TargetRequest = target_request(directory.path(), Vec::new());
        request.metadata.preserve.hard_links = true;
        let reporter = Reporter::new(ControlWriter::new(std::io::sink()), false);
        let prepared = TargetReceiver::prepare(request, reporter, &WorkerContext::default(), None);
        let target = prepared.map_err(|refused| refused.text).unwrap();
        let mut stat = FileStat::at_fd(tempfile::tempfile().unwrap()).unwrap();
        stat.names = 2;
        let (place, kind) = (EntryLocation::Operand(0), EntryContent::File { size: 1 });
        let entry = Entry { place, kind, meta: EntryMetadata::default(), version: None, more: None };
        let mut stays = |inode| {
            stat.identity.inode = inode;
            matches!(target.parts.links.other_name_of(&entry, &stat), GuardedName::Stays(_))
        };
        let most = STAYING_FILES_MAX as u64;
        assert!((0..most).all(|inode| !stays(inode)));
        assert!(stays(0) && stays(most - 1), "those that are remembered stay so");
        assert!(!stays(most) && !stays(most));
        assert!(target.parts.links.guard.is_reported.load(Ordering::Relaxed));
    }
}

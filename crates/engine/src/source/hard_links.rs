//! Hard links as the walk finds them: the first name represents the file, and the others are offered as links to it. A
//! file is remembered until all its names were found.

use std::collections::HashMap;

use haul_proto::hard_links::{LinkDirectoryName, LinkedBytes};
use haul_proto::ids::EntryId;
use haul_proto::path::Name;
use haul_proto::wire::report::WorkerMessage;

use crate::fs::{FileIdentity, FileStat};
use crate::metrics::reporter::Reporter;
use crate::source::removable::RemovableFile;

/// Warning when the limit of remembered files is reached.
const TOO_MANY: &str = "too many hard links to remember: further ones are copied as separate files";

/// Files with names still to be found.
#[derive(Default)]
pub struct LinkedFiles {
    files: HashMap<FileIdentity, FirstLinkName>,
    bytes: LinkedBytes<()>,
    has_told: bool,
}

struct FirstLinkName {
    entry: EntryId,
    counted: LinkCharge,
    /// Removal data for its other names.
    others: Option<RemovableFile>,
    /// Names not yet found.
    left: u64,
}

/// A file counted against the limit.
pub struct LinkCharge {
    parent: EntryId,
    name_len: usize,
}

impl LinkedFiles {
    /// Counts one more file; `None` beyond the limit, which is reported once. `directories` starts with `parent`.
    pub fn count(
        &mut self,
        parent: EntryId,
        name: &Name,
        directories: impl Iterator<Item = LinkDirectoryName>,
        reporter: &Reporter,
    ) -> Option<LinkCharge> {
        let name_len = name.as_bytes().len();
        if self.bytes.add(name_len, directories) {
            return Some(LinkCharge { parent, name_len });
        }
        if !std::mem::replace(&mut self.has_told, true) {
            reporter.send(&WorkerMessage::Warning { text: TOO_MANY.into() });
        }
        None
    }

    /// Remembers an offered file.
    pub fn add(&mut self, stat: &FileStat, entry: EntryId, counted: LinkCharge, others: Option<RemovableFile>) {
        self.files.insert(stat.identity, FirstLinkName { entry, counted, others, left: stat.names.saturating_sub(1) });
    }

    /// The entry that a hard link refers to, and the removal data of this name.
    pub fn first_of(&mut self, stat: &FileStat) -> Option<(EntryId, Option<RemovableFile>)> {
        let first = self.files.get_mut(&stat.identity)?;
        let taken = (first.entry, first.others.clone());
        first.left = first.left.saturating_sub(1);
        if first.left == 0
            && let Some(FirstLinkName { counted, .. }) = self.files.remove(&stat.identity)
        {
            self.bytes.remove(counted.name_len, counted.parent);
        }
        Some(taken)
    }
}

#[cfg(test)]
mod tests {
    use haul_base::control_channel::ControlWriter;
    use haul_base::sys::sync::lock;

    use super::*;
    use crate::fs::testing::{name, write_file};
    use crate::fs::{Dir, FollowLinks};
    use crate::testing::SentReport;

    #[test]
    fn a_file_is_remembered_until_its_last_name() {
        let temp = tempfile::tempdir().unwrap();
        let dir = Dir::open_root(temp.path()).unwrap();
        write_file(&dir, "a", b"x");
        for other in ["b", "c"] {
            std::fs::hard_link(temp.path().join("a"), temp.path().join(other)).unwrap();
        }
        let stat = FileStat::at_name(&*dir.fd().unwrap(), &name("a"), FollowLinks::Itself).unwrap();
        assert_eq!(stat.names, 3);
        let mut linked = LinkedFiles::default();
        let take = |linked: &mut LinkedFiles| linked.first_of(&stat).map(|(entry, _)| entry);
        assert_eq!(take(&mut linked), None);
        let silent = Reporter::new(ControlWriter::new(std::io::sink()), false);
        let (file, directory) = (name("a"), LinkDirectoryName { id: EntryId(0), name_len: 0 });
        let counted = linked.count(EntryId(0), &file, std::iter::once(directory), &silent).unwrap();
        linked.add(&stat, EntryId(7), counted, None);
        assert!(linked.bytes.bytes() > 0);
        assert_eq!(
            [take(&mut linked), take(&mut linked), take(&mut linked)],
            [Some(EntryId(7)), Some(EntryId(7)), None]
        );
        assert_eq!(linked.bytes.bytes(), 0);
    }

    #[test]
    fn beyond_the_limit_files_are_not_remembered_and_one_warning_says_so() {
        let sent = SentReport::default();
        let reporter = Reporter::new(ControlWriter::new(sent.clone()), false);
        let (file, directory) = (name("n".repeat(255)), LinkDirectoryName { id: EntryId(0), name_len: 0 });
        let mut linked = LinkedFiles::default();
        let mut count = || linked.count(EntryId(0), &file, std::iter::once(directory), &reporter);
        while count().is_some() {}
        assert!(count().is_none());
        let sent = lock(&sent.0).clone();
        let notices = sent.windows(TOO_MANY.len()).filter(|text| *text == TOO_MANY.as_bytes()).count();
        assert_eq!(notices, 1);
    }
}

//! Files with several names, as the walk meets them: the first name stands for the file, the others are offered as names
//! of it. A file is remembered until all its names were met.

use haul_proto::ids::EntryId;
use haul_proto::manifest::Place;
use haul_proto::session::linked::LinkedFiles;
use haul_proto::wire::report::WorkerMessage;
use std::cell::Cell;
use std::collections::HashMap;

use super::removal::Proof;
use crate::fs::{Identity, Look};
use crate::report::Reporter;

/// Said once, where there are more such files than can be remembered.
const TOO_MANY: &str = "there are more files with several names than can be remembered: names of further ones are copied as files of their own";

/// Files of which more names may come.
#[derive(Default)]
pub struct Linked {
    files: HashMap<Identity, First>,
    /// What they count.
    counted: LinkedFiles,
    has_told: Cell<bool>,
}

struct First {
    entry: EntryId,
    /// What its other names need to be removed.
    proof: Option<Proof>,
}

impl Linked {
    /// Whether a file at this place can be remembered; tells once if not.
    pub fn has_room(&self, place: &Place, reporter: &Reporter) -> bool {
        let Place::Child { parent, name } = place else { return false };
        let has_room = self.counted.has_room(*parent, name.as_bytes());
        if !has_room && !self.has_told.replace(true) {
            reporter.send(&WorkerMessage::Notice { text: TOO_MANY.into() });
        }
        has_room
    }

    /// A file was offered as this entry, in this place.
    pub fn add(&mut self, look: &Look, id: EntryId, place: &Place, proof: Option<Proof>) {
        self.counted.add(id, place, look.names.saturating_sub(1));
        self.files.insert(look.identity, First { entry: id, proof });
    }

    /// What a file was offered as under another name, and the proof of it.
    pub fn take(&mut self, look: &Look) -> Option<(EntryId, Option<Proof>)> {
        let first = self.files.get(&look.identity)?;
        let taken = (first.entry, first.proof.clone());
        if self.counted.named(taken.0) {
            self.files.remove(&look.identity);
        }
        Some(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::testing::{name, write_file};
    use crate::fs::{Dir, Links};

    #[test]
    fn a_file_is_remembered_until_its_last_name() {
        let temp = tempfile::tempdir().unwrap();
        let dir = Dir::open_root(temp.path()).unwrap();
        write_file(&dir, "a", b"x");
        for other in ["b", "c"] {
            std::fs::hard_link(temp.path().join("a"), temp.path().join(other)).unwrap();
        }
        let look = Look::at_name(&*dir.fd().unwrap(), &name("a"), Links::Itself).unwrap();
        assert_eq!(look.names, 3);
        let place = Place::Child { parent: EntryId(0), name: name("a") };
        let mut linked = Linked::default();
        let take = |linked: &mut Linked| linked.take(&look).map(|(entry, _)| entry);
        assert_eq!(take(&mut linked), None);
        linked.add(&look, EntryId(7), &place, None);
        assert_eq!(
            [take(&mut linked), take(&mut linked), take(&mut linked)],
            [Some(EntryId(7)), Some(EntryId(7)), None]
        );
    }
}

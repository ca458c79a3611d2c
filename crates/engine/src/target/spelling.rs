//! File systems on which names that are spelled in another way are one (upper and lower case, mostly): what stands under
//! another spelling is another file, and neither replaced nor taken for what is copied.

use haul_proto::path::Name;
use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::Mutex;

use super::Target;
use crate::fs::{Dir, Identity, Links, Look, each_name};
use crate::worker::lock;

/// Said of a name that another one stands for.
pub const OTHER_SPELLING: &str = "a name that is spelled in another way is there, and this file system takes both for one\nrename one of them, or copy to another file system";

/// What was found out of the directory that was looked at last: neighbours come one after the other.
#[derive(Default)]
pub struct Spellings {
    latest: Mutex<Option<Directory>>,
    hasher: RandomState,
}

struct Directory {
    identity: Identity,
    /// Whether spellings are one; `None` where no name has told yet.
    folds: Option<bool>,
    /// Hashes of its names, as they are spelled; listed when they are first needed.
    names: HashSet<u64>,
}

impl Target {
    /// Whether what stands at this name is called otherwise. Where that cannot be told, it is not.
    pub(super) fn is_spelled_otherwise(&self, dir: &Dir, name: &Name) -> bool {
        let mut latest = lock(&self.spellings.latest);
        let identity = dir.identity();
        if latest.as_ref().is_none_or(|known| known.identity != identity) {
            *latest = None;
        }
        let directory = latest.get_or_insert_with(|| Directory { identity, folds: None, names: HashSet::new() });
        if directory.folds.is_none() {
            directory.folds = folds(dir, name);
        }
        if directory.folds != Some(true) {
            return false;
        }
        let hash = self.spellings.hasher.hash_one(name.as_bytes());
        if !directory.names.contains(&hash) {
            let mut names = HashSet::new();
            let listed = each_name(dir, |name, _| {
                names.insert(self.spellings.hasher.hash_one(name.as_bytes()));
            });
            if listed.is_err() {
                return false;
            }
            directory.names = names;
        }
        !directory.names.contains(&hash)
    }
}

/// Whether a name that is there is there in another spelling, too; `None` where it has no letters to be spelled otherwise.
pub fn folds(dir: &Dir, name: &Name) -> Option<bool> {
    let other = otherwise(name)?;
    let fd = dir.fd().ok()?;
    let this = Look::at_name(&*fd, name, Links::Itself).ok()?;
    match Look::at_name(&*fd, &other, Links::Itself) {
        // It may be another name of the same file.
        Ok(there) if there.identity == this.identity && this.names > 1 && !this.kind.is_dir() => None,
        Ok(there) => Some(there.identity == this.identity),
        Err(_) => Some(false),
    }
}

/// A name with the other case of its letters.
fn otherwise(name: &Name) -> Option<Name> {
    let text = std::str::from_utf8(name.as_bytes()).ok()?;
    let swapped = |letter: char| -> String {
        if letter.is_uppercase() { letter.to_lowercase().collect() } else { letter.to_uppercase().collect() }
    };
    let other: String = text.chars().map(swapped).collect();
    Name::new(other.as_bytes()).ok().filter(|other| other != name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::testing::{name, write_file};

    #[test]
    fn names_are_spelled_otherwise_if_they_have_letters() {
        assert_eq!(otherwise(&name("aB1")), Some(name("Ab1")));
        assert_eq!(otherwise(&name("\u{e4}")), Some(name("\u{c4}")));
        assert_eq!(otherwise(&name("123")), None);
    }

    #[test]
    fn where_case_tells_names_apart_nothing_is_folded() {
        let temp = tempfile::tempdir().unwrap();
        let dir = Dir::open_root(temp.path()).unwrap();
        write_file(&dir, "a", b"x");
        assert_eq!((folds(&dir, &name("a")), folds(&dir, &name("1"))), (Some(false), None));
        std::fs::hard_link(temp.path().join("a"), temp.path().join("A")).unwrap();
        assert_eq!(folds(&dir, &name("a")), None, "that is another name");
    }
}

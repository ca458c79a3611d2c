//! The source's names in a directory, for the search for extraneous entries.
//!
//! Stores a keyed hash of each name: 8 bytes.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use haul_base::sys::sync::lock;
use haul_proto::path::Name;
use rustix::fs::FileType;

use crate::fs::{Dir, each_name_unless};

/// Most names kept for all open directories, as a limit on a source's use of memory: 134 MB.
const NAMES_MAX: usize = 1 << 24;

/// Number of names kept.
pub type NameBudget = Arc<AtomicUsize>;

/// The names in one directory.
pub struct SourceNames {
    hasher: RandomState,
    /// `None` beyond the limit.
    hashes: Mutex<Option<NameHashes>>,
    kept: NameBudget,
    /// The number of extraneous entries that count as removed, once decided.
    reserved: OnceLock<u64>,
    /// For a source argument's own directory, which must have some name before anything is deleted.
    is_argument: bool,
}

#[derive(Default)]
struct NameHashes {
    names: HashList,
    /// Lower-case forms of names with upper case.
    lower: HashList,
}

/// Hashes, sorted by the first query: names come first, all queries after the directory's last name.
#[derive(Default)]
struct HashList {
    hashes: Vec<u64>,
    is_sorted: bool,
}

impl HashList {
    fn add(&mut self, hash: u64) {
        self.hashes.push(hash);
        self.is_sorted = false;
    }

    fn has(&mut self, hash: u64) -> bool {
        if !self.is_sorted {
            self.hashes.sort_unstable();
            self.is_sorted = true;
        }
        self.hashes.binary_search(&hash).is_ok()
    }
}

impl NameHashes {
    fn len(&self) -> usize {
        self.names.hashes.len() + self.lower.hashes.len()
    }
}

impl SourceNames {
    /// An empty set.
    pub fn new(kept: &NameBudget) -> Self {
        Self {
            hasher: RandomState::new(),
            hashes: Mutex::new(Some(NameHashes::default())),
            kept: Arc::clone(kept),
            reserved: OnceLock::new(),
            is_argument: false,
        }
    }

    /// The names of a source argument's own directory.
    pub fn of_argument(mut self) -> Self {
        self.is_argument = true;
        self
    }

    /// Whether a source argument's own directory has no names.
    pub fn is_empty_argument(&self) -> bool {
        self.is_argument && lock(&self.hashes).as_ref().is_some_and(|hashes| hashes.names.hashes.is_empty())
    }

    /// Adds a name of the source.
    pub fn add(&self, name: &Name) {
        let mut hashes = lock(&self.hashes);
        let Some(kept) = hashes.as_mut() else { return };
        let before = kept.len();
        kept.names.add(self.hasher.hash_one(name.as_bytes()));
        if let Some(lower) = in_lower_case(name) {
            kept.lower.add(self.hasher.hash_one(lower.as_bytes()));
        }
        let (len, more) = (kept.len(), kept.len() - before);
        if self.kept.fetch_add(more, Ordering::Relaxed) + more > NAMES_MAX {
            self.forget(len);
            *hashes = None;
        }
    }

    /// Calls `tell` with each name in a directory that the source does not have, and its type. Returns `false` beyond
    /// the limit, where that is unknown.
    pub fn each_extraneous(&self, dir: &Dir, tell: impl FnMut(&Name, FileType)) -> io::Result<bool> {
        let mut is_known = true;
        let is_of_source = |name: &[u8]| {
            let has = self.has(name);
            is_known &= has.is_some();
            has != Some(false)
        };
        each_name_unless(dir, is_of_source, tell)?;
        Ok(is_known)
    }

    /// Whether the source has this name; `None` beyond the limit.
    pub fn has(&self, name: &[u8]) -> Option<bool> {
        lock(&self.hashes).as_mut().map(|hashes| hashes.names.has(self.hasher.hash_one(name)))
    }

    /// Whether the source has a name that differs from this missing one by case alone.
    pub fn has_in_other_case(&self, name: &Name) -> bool {
        let lower = in_lower_case(name);
        let hash = self.hasher.hash_one(lower.as_ref().map_or(name.as_bytes(), String::as_bytes));
        lock(&self.hashes).as_mut().is_some_and(|kept| kept.lower.has(hash) || kept.names.has(hash))
    }

    /// Counts entries as removed, once.
    pub fn reserve(&self, count: impl FnOnce() -> u64) {
        let _ = self.reserved.get_or_init(count);
    }

    /// The number of entries counted.
    pub fn reserved(&self) -> Option<u64> {
        self.reserved.get().copied()
    }

    /// Drops the names: from here on, queries return `None`.
    pub fn clear(&self) {
        let kept = lock(&self.hashes).take();
        self.forget(kept.map_or(0, |kept| kept.len()));
    }

    fn forget(&self, count: usize) {
        self.kept.fetch_sub(count, Ordering::Relaxed);
    }
}

impl Drop for SourceNames {
    fn drop(&mut self) {
        let count = lock(&self.hashes).as_ref().map_or(0, NameHashes::len);
        self.forget(count);
    }
}

/// A name in lower case, if that differs.
fn in_lower_case(name: &Name) -> Option<String> {
    let bytes = name.as_bytes();
    if !bytes.iter().any(|byte| byte.is_ascii_uppercase() || !byte.is_ascii()) {
        return None;
    }
    let text = std::str::from_utf8(bytes).ok()?;
    Some(text.to_lowercase()).filter(|lower| lower != text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::new(text.as_bytes()).unwrap()
    }

    #[test]
    fn exactly_the_added_names_are_known() {
        let kept = NameBudget::default();
        let names = SourceNames::new(&kept);
        (0..1000).for_each(|i| names.add(&name(&format!("n{i}"))));
        assert_eq!((names.has(b"n999"), names.has(b"n1000")), (Some(true), Some(false)));
        assert_eq!(kept.load(Ordering::Relaxed), 1000);
        drop(names);
        assert_eq!(kept.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn names_in_another_case_are_known() {
        let kept = NameBudget::default();
        let names = SourceNames::new(&kept);
        ["Read.me", "b", "\u{c4}"].iter().for_each(|text| names.add(&name(text)));
        let others = ["READ.ME", "read.me", "B", "\u{e4}", "c"].map(|text| names.has_in_other_case(&name(text)));
        assert_eq!(others, [true, true, true, true, false]);
        assert_eq!(kept.load(Ordering::Relaxed), 5);
        names.clear();
        assert_eq!((kept.load(Ordering::Relaxed), names.has(b"b")), (0, None));
    }

    #[test]
    fn too_many_are_not_kept_and_make_room_for_others() {
        let kept: NameBudget = Arc::new(AtomicUsize::new(NAMES_MAX - 2));
        let names = SourceNames::new(&kept);
        ["a", "b"].iter().for_each(|text| names.add(&name(text)));
        assert_eq!(names.has(b"a"), Some(true));
        names.add(&name("c"));
        assert_eq!(names.has(b"a"), None);
        assert_eq!(kept.load(Ordering::Relaxed), NAMES_MAX - 2);
        let others = SourceNames::new(&kept);
        others.add(&name("d"));
        assert_eq!(others.has(b"d"), Some(true));
    }
}

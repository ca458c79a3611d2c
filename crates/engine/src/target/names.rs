//! The names that the source has in a directory, in a job that only compares: what is at the target besides is there alone.
//!
//! Of a name, a hash is kept, whose key nobody else knows: 8 bytes, and as many again for the set.

use haul_proto::path::Name;
use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::worker::lock;

/// Most names that are kept, of all directories that are open: what a source offers is not to fill the memory.
const NAMES_MAX: usize = 1 << 24;

/// How many names are kept.
pub type Kept = Arc<AtomicUsize>;

/// The names in one directory.
pub struct Names {
    hasher: RandomState,
    /// `None` once there were too many.
    hashes: Mutex<Option<HashSet<u64>>>,
    kept: Kept,
}

impl Names {
    /// None yet.
    pub fn new(kept: &Kept) -> Self {
        Self { hasher: RandomState::new(), hashes: Mutex::new(Some(HashSet::new())), kept: Arc::clone(kept) }
    }

    /// The source has this one.
    pub fn add(&self, name: &Name) {
        let mut hashes = lock(&self.hashes);
        let Some(kept) = hashes.as_mut() else { return };
        kept.insert(self.hasher.hash_one(name.as_bytes()));
        if self.kept.fetch_add(1, Ordering::Relaxed) >= NAMES_MAX {
            self.forget(kept.len());
            *hashes = None;
        }
    }

    /// Whether the source has this one; `None` where there were too many to be kept.
    pub fn has(&self, name: &Name) -> Option<bool> {
        lock(&self.hashes).as_ref().map(|hashes| hashes.contains(&self.hasher.hash_one(name.as_bytes())))
    }

    fn forget(&self, count: usize) {
        self.kept.fetch_sub(count, Ordering::Relaxed);
    }
}

impl Drop for Names {
    fn drop(&mut self) {
        let count = lock(&self.hashes).as_ref().map_or(0, HashSet::len);
        self.forget(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::new(text.as_bytes()).unwrap()
    }

    #[test]
    fn what_was_added_is_known_and_nothing_else() {
        let kept = Kept::default();
        let names = Names::new(&kept);
        (0..1000).for_each(|i| names.add(&name(&format!("n{i}"))));
        assert_eq!((names.has(&name("n999")), names.has(&name("n1000"))), (Some(true), Some(false)));
        assert_eq!(kept.load(Ordering::Relaxed), 1000);
        drop(names);
        assert_eq!(kept.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn too_many_are_not_kept_and_make_room_for_others() {
        let kept: Kept = Arc::new(AtomicUsize::new(NAMES_MAX - 2));
        let names = Names::new(&kept);
        ["a", "b"].iter().for_each(|text| names.add(&name(text)));
        assert_eq!(names.has(&name("a")), Some(true));
        names.add(&name("c"));
        assert_eq!(names.has(&name("a")), None);
        assert_eq!(kept.load(Ordering::Relaxed), NAMES_MAX - 2);
        let others = Names::new(&kept);
        others.add(&name("d"));
        assert_eq!(others.has(&name("d")), Some(true));
    }
}

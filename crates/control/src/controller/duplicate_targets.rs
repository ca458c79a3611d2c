//! Destinations of a list's lines: each may occur once.
//!
//! Each destination is kept as a hash with a secret key, since a list may have any number of lines. A destination is
//! remembered until about 900,000 others follow, and at most twice that many. That takes at most 24 MiB. Beyond that, a
//! repeated destination meets the earlier file like any existing file.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

use haul_proto::wire::list_batch::OperandDestination;

/// Destinations in one generation: the capacity of a hash table of a million slots.
const GENERATION: usize = (1 << 20) / 8 * 7;

/// The destinations seen so far.
#[derive(Default)]
pub struct DuplicateTargets {
    hasher: RandomState,
    young: HashSet<u64>,
    old: HashSet<u64>,
}

impl DuplicateTargets {
    /// Adds a destination; returns whether this is the first line with it. A directory's contents have no name to collide.
    pub fn insert(&mut self, place: &OperandDestination) -> bool {
        self.insert_among(GENERATION, place)
    }

    fn insert_among(&mut self, generation: usize, OperandDestination { below, name }: &OperandDestination) -> bool {
        let Some(name) = name else { return true };
        if self.young.len() >= generation {
            self.old = std::mem::take(&mut self.young);
        }
        let hash = self.hasher.hash_one((below, name));
        !self.old.contains(&hash) && self.young.insert(hash)
    }
}

#[cfg(test)]
mod tests {
    use haul_proto::path::Name;

    use super::*;

    fn place(below: &[&str], at: &str) -> OperandDestination {
        let name = |text: &str| Name::new(text.as_bytes()).ok();
        OperandDestination { below: below.iter().filter_map(|text| name(text)).collect(), name: name(at) }
    }

    #[test]
    fn a_place_is_new_once_and_contents_always_are() {
        let mut twins = DuplicateTargets::default();
        let places = [place(&[], "a"), place(&["a"], "b"), place(&["a", "b"], "c"), place(&["a"], "c")];
        assert!(places.iter().all(|place| twins.insert(place)));
        assert!(!places.iter().any(|place| twins.insert(place)));
        assert!((0..2).all(|_| twins.insert(&place(&["a"], ""))));
    }

    #[test]
    fn the_latest_are_known_and_no_more_than_two_generations() {
        let mut twins = DuplicateTargets::default();
        let at = |number: usize| place(&[], &number.to_string());
        assert!((0..100).all(|number| twins.insert_among(10, &at(number))));
        assert!((90..100).all(|number| !twins.insert_among(10, &at(number))));
        assert!(twins.young.len() + twins.old.len() <= 20 && twins.insert_among(10, &at(0)));
    }
}

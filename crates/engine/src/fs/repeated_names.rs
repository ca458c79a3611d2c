//! Drops names that a listing has returned before.
//!
//! A directory that changes during its listing may list a name twice, on file systems of other machines and of programs
//! (NFS, FUSE). Directories of one chunk are compared within it, and nothing is kept. Of longer ones, digests of the
//! names are kept, up to a limit for all open directories. Beyond it, a repeated name fails at the target, and a rerun
//! succeeds. Other file systems cost nothing.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};

use crate::fs::Dir;
use crate::fs::file_system::{is_served, magic_of};
use crate::fs::listing::ListingChunk;

/// Most digests kept: about 10 MB.
const KEPT_MAX: usize = 1 << 18;

/// Digests of the names that a directory has listed in earlier chunks.
#[derive(Default)]
pub(super) struct EarlierNames(HashSet<u128>);

/// Finds repeated names, for all directories of a walk.
#[derive(Default)]
pub(super) struct RepeatedNames {
    keys: [RandomState; 2],
    kept: usize,
    /// Whether file systems may list names twice, by device.
    served: HashMap<u64, bool>,
    /// A buffer.
    hashes: Vec<u64>,
}

impl RepeatedNames {
    /// Removes names from the next chunk of `dir` that were listed before, in this chunk or in `earlier` ones.
    pub fn drop_from(&mut self, dir: &Dir, chunk: &mut ListingChunk, earlier: &mut EarlierNames) {
        let is_served = || dir.fd().is_ok_and(|fd| is_served(magic_of(&*fd)));
        if *self.served.entry(dir.identity().device).or_insert_with(is_served) {
            self.drop_repeated(chunk, earlier);
        }
    }

    fn drop_repeated(&mut self, chunk: &mut ListingChunk, earlier: &mut EarlierNames) {
        if self.has_repeated(chunk) {
            let mut seen = HashSet::new();
            chunk.retain(|name, _| seen.insert(name.to_vec()));
        }
        if earlier.0.is_empty() && chunk.rest.is_none() {
            return;
        }
        let keys = &self.keys;
        // Random keys and 128 bits: no two names of a directory share a digest by chance or on purpose.
        let digest = |name: &[u8]| {
            let [low, high] = keys.each_ref().map(|key| u128::from(key.hash_one(name)));
            high << 64 | low
        };
        if chunk.left().any(|(name, _)| earlier.0.contains(&digest(name))) {
            chunk.retain(|name, _| !earlier.0.contains(&digest(name)));
        }
        if chunk.rest.is_some() {
            let room = KEPT_MAX.saturating_sub(self.kept);
            let before = earlier.0.len();
            earlier.0.extend(chunk.left().take(room).map(|(name, _)| digest(name)));
            self.kept += earlier.0.len() - before;
        }
    }

    /// Releases the digests of a directory that the walk has left.
    pub fn forget(&mut self, earlier: EarlierNames) {
        self.kept -= earlier.0.len();
    }

    /// Whether two names of a chunk may be equal.
    fn has_repeated(&mut self, chunk: &mut ListingChunk) -> bool {
        self.hashes.clear();
        self.hashes.extend(chunk.left().map(|(name, _)| self.keys[0].hash_one(name)));
        self.hashes.sort_unstable();
        self.hashes.windows(2).any(|pair| pair[0] == pair[1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::listing::ListingPosition;

    fn chunk(names: &[&str], is_last: bool) -> ListingChunk {
        ListingChunk::of_names(names, (!is_last).then(ListingPosition::beginning))
    }

    fn left(chunk: &mut ListingChunk) -> Vec<String> {
        chunk.left().map(|(name, _)| String::from_utf8_lossy(name).into_owned()).collect()
    }

    #[test]
    fn names_are_found_once_within_a_chunk_and_across_chunks() {
        let (mut repeated, mut earlier) = (RepeatedNames::default(), EarlierNames::default());
        let mut found = Vec::new();
        for (names, is_last) in
            [(&["a", "b", "a", "c"][..], false), (&["b", "d"], false), (&[], false), (&["d", "e", "a", "e"], true)]
        {
            let mut chunk = chunk(names, is_last);
            repeated.drop_repeated(&mut chunk, &mut earlier);
            found.extend(left(&mut chunk));
        }
        assert_eq!(found, ["a", "b", "c", "d", "e"]);
        assert_eq!((repeated.kept, earlier.0.len()), (4, 4), "the last chunk is not kept");
        repeated.forget(earlier);
        assert_eq!(repeated.kept, 0);
    }

    #[test]
    fn a_directory_of_one_chunk_keeps_nothing_and_names_of_others_do_not_count() {
        let mut repeated = RepeatedNames::default();
        let mut outer = EarlierNames::default();
        repeated.drop_repeated(&mut chunk(&["a", "b"], false), &mut outer);
        let (mut inner, mut names) = (EarlierNames::default(), chunk(&["a", "b", "b"], true));
        repeated.drop_repeated(&mut names, &mut inner);
        assert_eq!((left(&mut names), inner.0.len()), (vec!["a".into(), "b".into()], 0));
    }

    #[test]
    fn digests_kept_are_limited() {
        let mut repeated = RepeatedNames { kept: KEPT_MAX - 1, ..RepeatedNames::default() };
        let mut earlier = EarlierNames::default();
        repeated.drop_repeated(&mut chunk(&["a", "b"], false), &mut earlier);
        assert_eq!((repeated.kept, earlier.0.len()), (KEPT_MAX, 1));
        let mut names = chunk(&["a", "b"], true);
        repeated.drop_repeated(&mut names, &mut earlier);
        assert_eq!(left(&mut names), ["b"]);
    }
}

//! Case-insensitive file systems, on which several spellings are one name. An existing entry under another spelling is
//! a different file: it is neither replaced nor taken for the copy.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::Mutex;

use haul_base::sys::sync::lock;
use haul_proto::path::Name;

use crate::fs::{Dir, FileIdentity, each_name};
use crate::receiver::place::case_sensitivity::folds;
use crate::receiver::tree::TargetTree;

/// Results for the last directory: entries of a directory mostly follow each other.
#[derive(Default)]
pub struct CaseFolding {
    latest: Mutex<Option<FoldedDirectory>>,
    hasher: RandomState,
}

struct FoldedDirectory {
    identity: FileIdentity,
    /// Whether the directory is case-insensitive; `None` until a name shows it.
    folds: Option<bool>,
    listed: FoldedNames,
}

/// The names in a directory when it was listed, as hashes.
#[derive(Default)]
struct FoldedNames {
    exact: HashSet<u64>,
    /// Hashes of the names in lower case.
    lower: HashSet<u64>,
}

impl FoldedNames {
    fn add(&mut self, name: &Name, hasher: &RandomState) {
        self.exact.insert(hasher.hash_one(name.as_bytes()));
        self.lower.insert(hasher.hash_one(lower(name)));
    }

    /// Whether an existing name has another spelling; `None` if it was created since. Both spellings cannot exist.
    fn is_spelled_otherwise(&self, name: &Name, hasher: &RandomState) -> Option<bool> {
        match self.exact.contains(&hasher.hash_one(name.as_bytes())) {
            true => Some(false),
            false => self.lower.contains(&hasher.hash_one(lower(name))).then_some(true),
        }
    }
}

fn lower(name: &Name) -> Vec<u8> {
    match std::str::from_utf8(name.as_bytes()) {
        Ok(text) => text.to_lowercase().into_bytes(),
        Err(_) => name.as_bytes().to_ascii_lowercase(),
    }
}

impl TargetTree {
    /// Whether the existing entry of this name has another spelling; `false` if unknown.
    pub(crate) fn is_spelled_otherwise(&self, dir: &Dir, name: &Name) -> bool {
        let mut latest = lock(&self.case_folding.latest);
        let identity = dir.identity();
        if latest.as_ref().is_none_or(|known| known.identity != identity) {
            *latest = None;
        }
        let directory =
            latest.get_or_insert_with(|| FoldedDirectory { identity, folds: None, listed: FoldedNames::default() });
        if directory.folds.is_none() {
            directory.folds = folds(dir, name);
        }
        if directory.folds != Some(true) {
            return false;
        }
        let hasher = &self.case_folding.hasher;
        if let Some(verdict) = directory.listed.is_spelled_otherwise(name, hasher) {
            return verdict;
        }
        let mut listed = FoldedNames::default();
        if each_name(dir, |name, _| listed.add(name, hasher)).is_err() {
            return false;
        }
        directory.listed = listed;
        // A name not found in lower case either follows the file system's own rules of case.
        directory.listed.is_spelled_otherwise(name, hasher).unwrap_or(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::testing::name;

    #[test]
    fn a_listing_reports_each_spelling_without_a_twin() {
        let hasher = RandomState::new();
        let mut listed = FoldedNames::default();
        listed.add(&name("Photo.JPG"), &hasher);
        listed.add(&name("\u{c4}"), &hasher);
        for (asked, verdict) in [
            ("Photo.JPG", Some(false)),
            ("photo.jpg", Some(true)),
            ("PHOTO.jpg", Some(true)),
            ("\u{e4}", Some(true)),
            ("made since", None),
        ] {
            assert_eq!(listed.is_spelled_otherwise(&name(asked), &hasher), verdict, "{asked}");
        }
    }
}

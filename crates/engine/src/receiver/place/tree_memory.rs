//! Memory of trees that the target created, so that a rerun of `haul -r run7 host:copy` resumes in `copy`, although
//! cp's rule for an existing directory would nest a second tree inside it.
//!
//! One small file for each tree, in the state directory, named by the tree's path.

use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::fs::{FileIdentity, lookup};
use crate::sys::confine::{ConfineBounds, ConfineRights};

/// Where trees are remembered.
pub struct TreeMemory {
    file: PathBuf,
    origin: [u8; 32],
}

impl TreeMemory {
    /// For the tree at `path`, which does not exist yet. `None` where nothing can be remembered.
    pub fn of(state_dir: Option<&Path>, path: &Path, origin: [u8; 32]) -> Option<Self> {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let absolute = lookup::real_path(parent).ok()?.join(path.file_name()?);
        let trees = state_dir?.join("trees");
        fs::create_dir_all(&trees).ok()?;
        Some(Self { file: file_for(&trees, &absolute), origin })
    }

    /// Lets it be kept.
    pub fn allow(&self, bounds: &mut ConfineBounds) {
        let trees = self.file.parent().and_then(|trees| fs::File::open(trees).ok());
        trees.iter().for_each(|trees| bounds.allow(trees, ConfineRights::OwnFiles));
    }

    /// Remembers that the tree now exists as this directory.
    pub fn keep(&self, made: FileIdentity) -> io::Result<()> {
        let beside = self.file.with_extension("new");
        let mut file = fs::File::create(&beside)?;
        file.write_all(&content(&self.origin, made))?;
        // After a loss of power it is there or not, but not half of it.
        file.sync_all()?;
        fs::rename(&beside, &self.file)
    }
}

/// Whether the directory at `path` was made by a copy of the same operands.
pub fn made_by(state_dir: Option<&Path>, path: &Path, identity: FileIdentity, origin: &[u8; 32]) -> bool {
    let remembered = state_dir.and_then(|state| {
        let absolute = lookup::real_path(path).ok()?;
        fs::read(file_for(&state.join("trees"), &absolute)).ok()
    });
    remembered.is_some_and(|bytes| bytes == content(origin, identity))
}

fn file_for(trees: &Path, absolute: &Path) -> PathBuf {
    trees.join(blake3::hash(absolute.as_os_str().as_bytes()).to_hex().as_str())
}

fn content(origin: &[u8; 32], identity: FileIdentity) -> Vec<u8> {
    [&b"haul tree 1\n"[..], origin, &identity.device.to_le_bytes(), &identity.inode.to_le_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_tree_from_the_same_source_is_remembered() {
        let state = tempfile::tempdir().unwrap();
        let place = tempfile::tempdir().unwrap();
        let tree = place.path().join("copy");
        let memory = TreeMemory::of(Some(state.path()), &tree, [1; 32]).unwrap();
        fs::create_dir(&tree).unwrap();
        let identity = FileIdentity { device: 3, inode: 4 };
        assert!(!made_by(Some(state.path()), &tree, identity, &[1; 32]));
        memory.keep(identity).unwrap();
        assert!(made_by(Some(state.path()), &tree, identity, &[1; 32]));
        assert!(!made_by(Some(state.path()), &tree, identity, &[2; 32]), "another source");
        assert!(
            !made_by(Some(state.path()), &tree, FileIdentity { inode: 5, ..identity }, &[1; 32]),
            "another directory"
        );
        assert!(!made_by(None, &tree, identity, &[1; 32]));
    }
}

//! Records of trees created by the target. A rerun of `haul -r run7 host:copy` then resumes in `copy`, although cp's
//! rule for an existing directory would nest a second tree inside.
//!
//! Each tree has a small file in the state directory, named by the tree's path.

use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{io, thread};

use haul_base::held_directory::HeldDirectory;
use haul_base::trusted_files::{OthersMay, read_own};
use rustix::fs::{FlockOperation, flock};

use crate::fs::{FileIdentity, lookup};
use crate::sys::confine::{ConfineBounds, ConfineRights};

/// Longest wait for the lock. Other runs hold it for milliseconds, unless they are stopped.
const TURN_MAX: Duration = Duration::from_secs(2);
/// Interval between attempts.
const CHECK_EVERY: Duration = Duration::from_millis(5);

/// The directory's name in the state directory.
pub const NAME: &str = "trees";
/// Largest record, in bytes.
const RECORD_MAX: u64 = 4096;

/// The record of a tree.
pub struct TreeMemory {
    /// The directory of all records, opened before the kernel confines this process.
    trees: HeldDirectory,
    /// The file of [`Self::turn`]'s lock.
    turns: PathBuf,
    file: PathBuf,
    origin: [u8; 32],
}

/// The lock under which a run records and names a tree, until dropped: of a private file, since whoever may read the
/// directory could lock that.
pub struct MemoryTurn(#[expect(dead_code, reason = "held locked")] File);

impl TreeMemory {
    /// For the tree at `path`, which does not exist yet. `None` if it cannot be recorded.
    pub fn of(state_dir: Option<&Path>, path: &Path, origin: [u8; 32]) -> Option<Self> {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let absolute = lookup::real_path(parent).ok()?.join(path.file_name()?);
        let trees = state_dir?.join(NAME);
        let file = file_for(&trees, &absolute);
        Some(Self { turns: trees.join("turns"), trees: HeldDirectory::looked_up(&trees).ok()?, file, origin })
    }

    /// Permits writes to the records.
    pub fn allow(&self, bounds: &mut ConfineBounds) {
        bounds.allow(&self.trees, ConfineRights::OwnFiles);
    }

    /// Waits until no other run is between recording a tree and naming it. Otherwise a late run could briefly replace
    /// the record of the named directory, and a third run would nest its copy there. `None` if the other run makes no
    /// progress, or the file system has no locks.
    pub fn turn(&self) -> Option<MemoryTurn> {
        let began = Instant::now();
        let turns = self.trees.append(&self.turns).ok()?;
        while flock(&turns, FlockOperation::NonBlockingLockExclusive).is_err() {
            if began.elapsed() > TURN_MAX {
                return None;
            }
            thread::sleep(CHECK_EVERY);
        }
        Some(MemoryTurn(turns))
    }

    /// Records this directory as the tree.
    pub fn keep(&self, made: FileIdentity) -> io::Result<()> {
        let content = content(&self.origin, made);
        if self.trees.read(&self.file, RECORD_MAX).is_ok_and(|remembered| remembered == content) {
            return Ok(());
        }
        // After a power loss, the record exists or not, but never in part.
        self.trees.replace(&self.file, &content)
    }
}

/// Whether the directory at `path` was created by a copy of the same source arguments.
pub fn made_by(state_dir: Option<&Path>, path: &Path, identity: FileIdentity, origin: &[u8; 32]) -> bool {
    let remembered = state_dir.and_then(|state| {
        let absolute = lookup::real_path(path).ok()?;
        read_own(&file_for(&state.join(NAME), &absolute), OthersMay::Read, RECORD_MAX).ok()
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
    use std::fs;

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

    #[test]
    fn one_run_at_a_time_has_its_turn() {
        let (state, place) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let memory = |name: &str| TreeMemory::of(Some(state.path()), &place.path().join(name), [1; 32]).unwrap();
        let (first, second) = (memory("copy"), memory("copy"));
        // Whoever may read the directory can lock it.
        let reader = File::open(state.path().join("trees")).unwrap();
        flock(&reader, FlockOperation::NonBlockingLockExclusive).unwrap();
        let turn = first.turn().unwrap();
        assert!(second.turn().is_none(), "it waits in vain");
        drop(turn);
        assert!(second.turn().is_some() && first.turn().is_some());
    }
}

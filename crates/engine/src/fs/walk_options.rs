//! Options of a walk.

use haul_base::job::spec::Symlinks;

use crate::fs::FileIdentity;
use rustix::fs::FileType;
/// Options of a walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WalkOptions {
    /// Whether subdirectories are walked; they are left out otherwise.
    pub recursive: bool,
    /// Treatment of symbolic links.
    pub symlinks: Symlinks,
    /// A directory that is left out wherever it is found: the target, when it lies inside the source.
    pub skip: Option<FileIdentity>,
    /// Whether filters leave something out: see [`Walker::filtered`](super::Walker::filtered).
    pub is_filtered: bool,
    /// Which devices, FIFOs and sockets are found; the others are left out.
    pub nodes: SpecialFiles,
    /// Whether files, whose names the filters exclude anyway, are only counted.
    pub only_counts_files: bool,
}

impl WalkOptions {
    /// Whether a listed name of this kind is only counted. What may lead to a directory is not.
    pub(super) fn only_counts(&self, kind: FileType) -> bool {
        let may_be_directory = match kind {
            FileType::Directory | FileType::Unknown => true,
            FileType::Symlink => self.symlinks == Symlinks::Follow,
            _ => false,
        };
        self.only_counts_files && !may_be_directory
    }
}

/// Which special files to include.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SpecialFiles {
    /// Devices.
    pub devices: bool,
    /// FIFOs and sockets.
    pub specials: bool,
}

impl SpecialFiles {
    pub(super) fn takes(self, kind: FileType) -> bool {
        match kind {
            FileType::CharacterDevice | FileType::BlockDevice => self.devices,
            FileType::Fifo | FileType::Socket => self.specials,
            _ => false,
        }
    }
}

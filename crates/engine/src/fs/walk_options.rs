//! Options of a walk.

use haul_base::copy::spec::Symlinks;
use rustix::fs::FileType;

use crate::fs::FileIdentity;
/// Options of a walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WalkOptions {
    /// Whether to walk subdirectories, or to exclude them.
    pub recursive: bool,
    /// Treatment of symbolic links.
    pub symlinks: Symlinks,
    /// A directory to exclude anywhere: the target within the source.
    pub skip: Option<FileIdentity>,
    /// Whether to stay on each root's file system, by device number: a mount point is an empty directory.
    pub one_file_system: bool,
    /// Whether filters exclude anything: see [`Walker::filtered`](super::Walker::filtered).
    pub is_filtered: bool,
    /// Devices, FIFOs and sockets to include.
    pub nodes: SpecialFiles,
    /// Whether to only count files, since filters exclude all of them.
    pub only_counts_files: bool,
}

impl WalkOptions {
    /// Whether to only count listed names of this type. A possible directory is not.
    pub(super) fn only_counts(&self, kind: FileType) -> bool {
        let may_be_directory = match kind {
            FileType::Directory | FileType::Unknown => true,
            FileType::Symlink => self.symlinks.follows(),
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
    pub(crate) fn takes(self, kind: FileType) -> bool {
        match kind {
            FileType::CharacterDevice | FileType::BlockDevice => self.devices,
            FileType::Fifo | FileType::Socket => self.specials,
            _ => false,
        }
    }
}

//! Patches of updates in place (`--inplace`), and whether they are still useful. A patch does not contain the name of
//! its file; its own name is derived from it, for readers that have all names of the directory.

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::OwnedFd;

use haul_proto::delta::patch::HEADER_LEN;
use haul_proto::path::Name;
use haul_proto::timestamps::looks_stored;
use haul_proto::wire::partials::PartialState;
use rustix::fs::{FileType, Mode, OFlags, fdatasync, openat};

use super::{Partial, PartialRemoval, impatient, unlink};
use crate::fs::{Dir, FileIdentity, FileStat, FollowLinks, each_name};
use crate::receiver::delta::in_place_update::read_header;
use crate::receiver::file::patch::patch_name;
use crate::receiver::place::error::{FileError, OtherRun};
use crate::receiver::place::target_path::FileName;
use crate::receiver::place::temp_files::lock_file;

/// The files of patches in the last directory.
#[derive(Default)]
pub struct PatchedNames {
    of: Option<FileIdentity>,
    files: HashMap<Name, Name>,
}

impl PatchedNames {
    /// The file of a patch in `dir`, if any.
    pub fn file_of(&mut self, dir: &Dir, patch: &Name) -> io::Result<Option<Name>> {
        if self.of != Some(dir.identity()) {
            *self = Self { of: Some(dir.identity()), files: files_with_patches(dir)? };
        }
        Ok(self.files.get(patch).cloned())
    }
}

/// The files of a directory with patches, by the names of their patches.
fn files_with_patches(dir: &Dir) -> io::Result<HashMap<Name, Name>> {
    // A separate open file description: the walk uses the offset of the directory's own.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let dir = Dir::from_fd(openat(&*dir.fd()?, c".", flags, Mode::empty())?)?;
    let mut patches = HashSet::new();
    each_name(&dir, |name, _| {
        if is_patch(name) {
            patches.insert(name.clone());
        }
    })?;
    let mut files = HashMap::new();
    each_name(&dir, |name, kind| {
        let patch = if kind == FileType::RegularFile { patch_name(name) } else { return };
        if patches.contains(&patch) {
            files.insert(patch, name.clone());
        }
    })?;
    Ok(files)
}

/// Whether this is the name of a patch.
pub fn is_patch(name: &Name) -> bool {
    name.reserved_parts().is_some_and(|(_, what)| what == "patch")
}

/// The state of a patch, by its file.
fn state_of(dir: &Dir, patch: &OwnedFd, file: Option<&Name>) -> io::Result<PartialState> {
    let Some(header) = read_header(patch) else { return Ok(PartialState::Damaged) };
    let stat = match file.map(|name| FileStat::at_name(&*dir.fd()?, name, FollowLinks::Itself)) {
        Some(Ok(stat)) if stat.identity.inode == header.inode => stat,
        Some(Err(error)) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => return Ok(PartialState::Spent),
    };
    // A file has its final time after the last change, and loses it with the first one.
    let found = stat.meta.modified;
    let has_time = found == header.modified || looks_stored(header.modified, found, stat.changed);
    if stat.size == header.size && has_time {
        return Ok(PartialState::Spent);
    }
    let bytes = header.end.saturating_sub(HEADER_LEN as u64);
    match FileStat::at_fd(patch)?.size < header.end {
        true => Ok(PartialState::Damaged),
        false => Ok(PartialState::Patch { bytes, size: header.size }),
    }
}

impl Partial {
    /// Determines the state of a patch; `false` if it has vanished.
    pub(super) fn examine_patch(&mut self) -> io::Result<bool> {
        self.about.state = match lock_file(&self.dir, &self.name, OFlags::RDONLY, &impatient()) {
            Ok(None) => return Ok(false),
            Ok(Some(patch)) => state_of(&self.dir, &patch, self.file.as_ref())?,
            Err(FileError::Held(OtherRun { process })) => PartialState::Busy { extent: None, process },
            Err(FileError::NameTaken) => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        Ok(true)
    }

    /// Removes a patch, unless it may be half applied: then only the patch can complete its file.
    pub(super) fn remove_patch(&mut self) -> io::Result<PartialRemoval> {
        let patch = match lock_file(&self.dir, &self.name, OFlags::RDWR, &impatient()) {
            Ok(Some(patch)) => patch,
            Ok(None) => return Ok(PartialRemoval::Vanished),
            Err(FileError::Held(OtherRun { process })) => {
                self.about.state = PartialState::Busy { extent: None, process };
                return Ok(PartialRemoval::Kept);
            }
            Err(FileError::NameTaken) => return Ok(PartialRemoval::Kept),
            Err(error) => return Err(error.into()),
        };
        self.about.state = state_of(&self.dir, &patch, self.file.as_ref())?;
        if matches!(self.about.state, PartialState::Patch { .. }) {
            return Ok(PartialRemoval::Kept);
        }
        // Applied changes may exist only in memory and in the patch.
        if let Some((file, _)) = self.file.as_ref().and_then(|name| self.dir.open_file(name, FollowLinks::Itself).ok())
        {
            fdatasync(&file)?;
        }
        unlink(&FileName { dir: self.dir.clone(), name: self.name.clone() })?;
        Ok(PartialRemoval::Removed)
    }
}

//! Operations of a file session on directories and names: lookup, listing, sums, new directories, removal.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use haul_base::copy::spec::Symlinks;
use haul_base::sys::describe::describe;
use haul_proto::entry::EntryKind;
use haul_proto::limits::LISTED_ENTRIES_MAX;
use haul_proto::path::Name;
use haul_proto::wire::file_session::{DiskUsage, FoundEntry};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, readlinkat, statat};
use rustix::io::Errno;

use crate::fs::remove_tree::{ProtectedDirectories, RemovalError, TreeRemoval};
use crate::fs::{Dir, DirectoryPages, FileStat, FollowLinks, SpecialFiles, WalkEntry, WalkOptions, Walker, lookup};
use crate::receiver::place::existing_entry::entry_kind;
use crate::worker::file_operation_error::FileOperationError;

/// Bytes of names and links in one answer, about.
pub(super) const LISTED_BYTES: usize = 1 << 20;
/// Most files with several names that a sum remembers.
const LINKED_FILES_MAX: usize = 1 << 20;

/// What an entry is; with `follows`, of a link its target.
pub(super) fn find_at(path: &Path, follows: bool) -> Result<FoundEntry, FileOperationError> {
    if !follows {
        return find(path);
    }
    let fd = lookup::open(path, OFlags::PATH | OFlags::CLOEXEC).map_err(io::Error::from)?;
    Ok(found(&fd, b"", AtFlags::EMPTY_PATH)?)
}

/// What an entry is, without following it.
pub(super) fn find(path: &Path) -> Result<FoundEntry, FileOperationError> {
    let (parent, name) = parent_and_name(path.as_os_str().as_bytes());
    let Ok(name) = Name::new(name) else { return find_at(path, true) };
    let dir = Dir::open_root_path(parent)?;
    Ok(found(&*dir.fd()?, name.as_bytes(), AtFlags::SYMLINK_NOFOLLOW)?)
}

/// The path of the parent directory, and the last component without its slashes. It may be no name: `..`.
fn parent_and_name(path: &[u8]) -> (&Path, &[u8]) {
    let end = path.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
    let begin = path[..end].iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    let parent = if begin == 0 { &b"."[..] } else { &path[..begin] };
    (Path::new(OsStr::from_bytes(parent)), &path[begin..end])
}

fn found(dir: impl AsFd, name: &[u8], flags: AtFlags) -> io::Result<FoundEntry> {
    let stat = statat(&dir, name, flags)?;
    let FileStat { kind, size, meta, .. } = FileStat::from(&stat);
    let points_to = match kind {
        FileType::Symlink => readlinkat(&dir, name, Vec::new())?.into_bytes(),
        _ => Vec::new(),
    };
    Ok(FoundEntry { mode: kind.as_raw_mode() | u32::from(meta.mode), size, modified: meta.modified, points_to })
}

/// A listing in progress.
pub(super) struct OpenListing {
    pages: DirectoryPages,
    has_details: bool,
}

impl OpenListing {
    /// Opens a directory, also through a link.
    pub fn open(path: &Path, has_details: bool) -> Result<Self, FileOperationError> {
        let dir = Dir::open_root(path).map_err(|error| match Errno::from_io_error(&error) {
            // A missing component above it is ENOENT.
            Some(Errno::NOTDIR) if find(path).is_ok() => FileOperationError::NotDirectory,
            _ => error.into(),
        })?;
        Ok(Self { pages: DirectoryPages::new(dir), has_details })
    }

    /// The next entries, and whether they are the last ones. Vanished entries are omitted.
    pub fn next_entries(&mut self) -> Result<(Vec<(Name, FoundEntry)>, bool), FileOperationError> {
        // A page of names has at most some hundred.
        let page_max = LISTED_ENTRIES_MAX / 16;
        let (mut entries, mut bytes) = (Vec::new(), 0);
        while entries.len() + page_max <= LISTED_ENTRIES_MAX && bytes < LISTED_BYTES {
            let mut names = Vec::new();
            self.pages.next_page(|_| false, |name, kind| names.push((name.clone(), kind)))?;
            for (name, kind) in names {
                let entry = match self.has_details {
                    true => found(&*self.pages.dir().fd()?, name.as_bytes(), AtFlags::SYMLINK_NOFOLLOW),
                    false => Ok(FoundEntry { mode: kind.as_raw_mode(), ..FoundEntry::default() }),
                };
                match entry {
                    Ok(entry) => {
                        bytes += name.as_bytes().len() + entry.points_to.len() + size_of::<FoundEntry>();
                        entries.push((name, entry));
                    }
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => return Err(error.into()),
                }
            }
            if self.pages.is_at_end() {
                return Ok((entries, true));
            }
        }
        Ok((entries, false))
    }
}

/// Sums up an entry and everything below.
pub(super) fn measure(path: &Path) -> Result<DiskUsage, FileOperationError> {
    let top = find(path)?;
    let mut usage = DiskUsage { entries: 1, ..DiskUsage::default() };
    let nodes = SpecialFiles { devices: true, specials: true };
    let options = WalkOptions {
        recursive: true,
        symlinks: Symlinks::Keep,
        skip: None,
        one_file_system: false,
        is_filtered: false,
        nodes,
        only_counts_files: false,
    };
    let mut linked = HashSet::new();
    if FileType::from_raw_mode(top.mode) != FileType::Directory {
        let (parent, name) = parent_and_name(path.as_os_str().as_bytes());
        if let (FileType::RegularFile, Ok(name)) = (FileType::from_raw_mode(top.mode), Name::new(name)) {
            let dir = Dir::open_root_path(parent)?;
            add_file(&mut usage, &FileStat::at_name(&*dir.fd()?, &name, FollowLinks::Itself)?, &mut linked);
        }
        return Ok(usage);
    }
    for entry in Walker::new(Dir::open_root(path)?, options) {
        match entry {
            WalkEntry::File { stat, .. } => {
                usage.entries += 1;
                add_file(&mut usage, &stat, &mut linked);
            }
            WalkEntry::EnterDir { dir, .. } if dir.parent().is_none() => {}
            WalkEntry::EnterDir { .. }
            | WalkEntry::Symlink { .. }
            | WalkEntry::Node { .. }
            | WalkEntry::LeftOut { .. } => usage.entries += 1,
            WalkEntry::Failed { path: below, error } => {
                usage
                    .failures
                    .add(haul_base::copy::display_path::below(path.as_os_str().as_bytes(), &below), describe(&error));
            }
            _ => {}
        }
    }
    Ok(usage)
}

/// Adds a file's bytes; those of a file with several names once.
fn add_file(usage: &mut DiskUsage, stat: &FileStat, linked: &mut HashSet<crate::fs::FileIdentity>) {
    if stat.names > 1 {
        let is_full = linked.len() >= LINKED_FILES_MAX && !linked.contains(&stat.identity);
        usage.repeats_links |= is_full;
        if !is_full && !linked.insert(stat.identity) {
            return;
        }
    }
    usage.bytes = usage.bytes.saturating_add(stat.size);
    usage.disk_bytes = usage.disk_bytes.saturating_add(stat.room);
}

/// Makes a directory. Returns whether it did not exist.
pub(super) fn make_directory(path: &Path, has_parents: bool, mode: u16) -> Result<bool, FileOperationError> {
    let mode = Mode::from_raw_mode(mode.into());
    if !has_parents {
        return lookup::create_dir(path, mode).map(|()| true).map_err(|error| io::Error::from(error).into());
    }
    let was_missing = lookup::stat(path).is_err();
    lookup::create_dir_all(path, mode)?;
    Ok(was_missing)
}

/// Removes an entry; with `is_recursive`, a directory with everything below. `tell` gets the path of each entry.
pub(super) fn remove(
    path: &[u8],
    is_recursive: bool,
    protected: &ProtectedDirectories,
    tell: &mut dyn FnMut(Vec<u8>, EntryKind, Result<(), RemovalError>),
) -> Result<(), FileOperationError> {
    let (parent, name) = parent_and_name(path);
    // `/`, `.` and `..` are directories above the working directory, or itself.
    let name = Name::new(name).map_err(|_| RemovalError::Protected)?;
    let dir = Dir::open_root_path(parent)?;
    let stat = FileStat::at_name(&*dir.fd()?, &name, FollowLinks::Itself)?;
    match stat.kind {
        FileType::Directory if protected.contains(stat.identity) => return Err(RemovalError::Protected.into()),
        FileType::Directory if !is_recursive => return Err(FileOperationError::DirectoryToRemove),
        FileType::Directory => {}
        _ if path.ends_with(b"/") => return Err(FileOperationError::NotDirectory),
        _ => {}
    }
    let above = parent.as_os_str().as_bytes();
    let above = if above == b"." && !path.starts_with(b"./") { b"" } else { above };
    let mut tell = |below: Vec<u8>, kind, outcome| tell([above, &below[..]].concat(), entry_kind(kind), outcome);
    TreeRemoval { protected, tell: &mut tell }.remove(&dir, &name, stat.kind);
    Ok(())
}

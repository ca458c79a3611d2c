//! Finds, describes and removes partial files, journals and patches of broken copies. It follows no symbolic link,
//! trusts only verified contents, and leaves the files of a running copy alone.

mod patches;
mod ranges;

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use haul_base::copy::display_path::below;
use haul_base::copy::spec::Symlinks;
use haul_base::sys::describe::describe;
use haul_proto::entry::Timestamp;
use haul_proto::path::Name;
use haul_proto::wire::partials::{PartialDetails, PartialExtent, PartialState};
use rustix::fs::{AtFlags, FileType, OFlags, statat, unlinkat};

use crate::fs::{Dir, SpecialFiles, WalkEntry, WalkOptions, Walker, lookup};
use crate::io::storage::FileAccess;
use crate::partials::ranges::RangeJournal;
use crate::receiver::place::copy_locks::CopyLocks;
use crate::receiver::place::directory_locks;
use crate::receiver::place::error::{FileError, OtherRun};
use crate::receiver::place::journal::{JournalLocation, OpenJournal};
use crate::receiver::place::target_path::{FileName, TargetPath};
use crate::receiver::place::temp_files::{is_own_name, lock_file};
use crate::receiver::place::temp_names::{is_for_same_name, random_names, sibling, temporary_name};

/// The remains of a copy, or files in use: the description, and the place.
pub struct Partial {
    /// The description.
    pub about: PartialDetails,
    /// Its present path.
    pub place: Vec<u8>,
    dir: Dir,
    name: Name,
    /// Its journal, or those of its ranges.
    journals: Vec<FileName>,
    /// The file of a patch.
    file: Option<Name>,
}

/// An entry that could not be read, with the reason.
pub struct PartialUnreadable {
    /// Where.
    pub path: Vec<u8>,
    /// Why, and what to do.
    pub text: String,
}

/// The result of the removal of a [`Partial`].
pub enum PartialRemoval {
    /// It was removed.
    Removed,
    /// It was kept because of its [`PartialState`].
    Kept,
    /// It has vanished, or got its final name.
    Vanished,
}

/// Partial files as they are found.
pub type FoundPartials = Box<dyn Iterator<Item = Result<Partial, PartialUnreadable>> + Send>;

/// Finds partial files at or below `path`. Journals are beside them, or in `journals` (`--journal-dir`).
pub fn find(path: &Path, journals: Option<&Path>) -> io::Result<FoundPartials> {
    let finder = PartialFinder::new(path, journals)?;
    match lookup::stat(path).map(|stat| FileType::from_raw_mode(stat.st_mode)) {
        Ok(FileType::Directory) => {
            let options = WalkOptions {
                recursive: true,
                symlinks: Symlinks::Ignore,
                skip: None,
                one_file_system: false,
                is_filtered: false,
                nodes: SpecialFiles { devices: false, specials: false },
                only_counts_files: false,
            };
            let walker = Walker::new(Dir::open_root(path)?, options);
            Ok(Box::new(walker.filter_map(move |found| finder.examine_found(found))))
        }
        is_there => Ok(Box::new(finder.of_file(path, is_there.is_ok())?.into_iter().map(Ok))),
    }
}

struct PartialFinder {
    /// Prefix of displayed paths.
    label: Vec<u8>,
    /// The directory of journals that are not beside their files.
    journals: Option<JournalLocation>,
    /// Final names by partial files' names, from all journals there.
    final_names: HashMap<Name, Name>,
    patched: RefCell<patches::PatchedNames>,
}

impl PartialFinder {
    fn new(path: &Path, journals: Option<&Path>) -> io::Result<Self> {
        let mut final_names = HashMap::new();
        if let Some(directory) = journals {
            let dir = Dir::open_root(directory)?;
            let options = WalkOptions {
                recursive: false,
                symlinks: Symlinks::Ignore,
                skip: None,
                one_file_system: false,
                is_filtered: false,
                nodes: SpecialFiles { devices: false, specials: false },
                only_counts_files: false,
            };
            for found in Walker::new(dir, options) {
                let WalkEntry::File { parent, name, .. } = found else { continue };
                if let Some((_, "journal")) = name.reserved_parts()
                    && let Ok(Some((_, header))) = OpenJournal::open(&FileName { dir: parent, name }, FileAccess::Read)
                {
                    final_names.insert(temporary_name(&header.name, b"file"), header.name);
                }
            }
        }
        let journals = journals.map(|directory| JournalLocation::new(true, true, Some(directory))).transpose()?;
        let label = path.as_os_str().as_bytes().to_vec();
        Ok(Self { label, journals, final_names, patched: RefCell::default() })
    }

    /// Examines an entry of the walk.
    fn examine_found(&self, found: WalkEntry) -> Option<Result<Partial, PartialUnreadable>> {
        match found {
            WalkEntry::File { parent, name, .. } => {
                let looked = self.examine_name(&parent, &name);
                let path = || below(&self.label, &parent.path_of(name.as_bytes()));
                looked.map_err(|error| PartialUnreadable { path: path(), text: describe(&error) }).transpose()
            }
            WalkEntry::Failed { path, error } => {
                Some(Err(PartialUnreadable { path: below(&self.label, &path), text: describe(&error) }))
            }
            _ => None,
        }
    }

    /// Returns the remains of the file at `path`; an error if neither the file nor any remains exist.
    fn of_file(mut self, path: &Path, is_there: bool) -> io::Result<Vec<Partial>> {
        let name = path.file_name().and_then(|name| Name::new(name.as_bytes()).ok());
        let name = name.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let dir = Dir::open_root(parent.unwrap_or(Path::new(".")))?;
        self.label = parent.map_or_else(Vec::new, |parent| parent.as_os_str().as_bytes().to_vec());
        let of_ranges = ranges::parts_of(&dir, &name)?;
        let part = if name.is_reserved() { name } else { temporary_name(&name, b"file") };
        let mut found = Vec::new();
        for what in ["part", "journal", "patch"] {
            found.extend(self.examine_name(&dir, &sibling(&part, what))?);
        }
        for part in of_ranges {
            found.extend(self.examine_name(&dir, &part)?);
        }
        match found.is_empty() && !is_there {
            true => Err(io::Error::other("no such file, and no partial file of it")),
            false => Ok(found),
        }
    }

    /// The kind of this file; `None` for foreign files, and for those described together with their partial file.
    fn examine_name(&self, dir: &Dir, name: &Name) -> io::Result<Option<Partial>> {
        let Some((_, what @ ("part" | "journal" | "patch"))) = name.reserved_parts() else { return Ok(None) };
        let stat = match statat(&*dir.fd()?, name.as_bytes(), AtFlags::SYMLINK_NOFOLLOW) {
            Err(rustix::io::Errno::NOENT) => return Ok(None),
            stat => stat?,
        };
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Ok(None);
        }
        let place = below(&self.label, &dir.path_of(name.as_bytes()));
        if stat.st_size == 0 && is_in_locks(&place) {
            return Ok(None);
        }
        let mut partial = Partial {
            about: PartialDetails {
                path: place.clone(),
                state: PartialState::Unrecorded,
                disk_bytes: disk_bytes(&stat),
                idle_s: idle_since(crate::fs::FileStat::from(&stat).meta.modified).as_secs(),
            },
            place,
            dir: dir.clone(),
            name: name.clone(),
            journals: Vec::new(),
            file: None,
        };
        if stat.st_uid != rustix::process::geteuid().as_raw() {
            partial.about.state = PartialState::Foreign { uid: stat.st_uid };
            return Ok(Some(partial));
        }
        let is_known = match what {
            "part" => self.examine_part(&mut partial)?,
            "patch" => self.examine_patch(&mut partial)?,
            _ => examine_journal(&mut partial)?,
        };
        Ok(is_known.then_some(partial))
    }

    /// Examines a patch; `false` if it has vanished. A useful patch is listed under the name of its file.
    fn examine_patch(&self, partial: &mut Partial) -> io::Result<bool> {
        partial.file = self.patched.borrow_mut().file_of(&partial.dir, &partial.name)?;
        let is_known = partial.examine_patch()?;
        if let (Some(file), PartialState::Patch { .. } | PartialState::Busy { .. }) =
            (&partial.file, partial.about.state)
        {
            partial.about.path = below(&self.label, &partial.dir.path_of(file.as_bytes()));
        }
        Ok(is_known)
    }

    /// Examines a partial file; `false` if it has vanished.
    fn examine_part(&self, partial: &mut Partial) -> io::Result<bool> {
        let rival = match lock_file(&partial.dir, &partial.name, OFlags::RDONLY, &impatient()) {
            Ok(None) => return Ok(false),
            Ok(Some(_)) => None,
            Err(FileError::Held(rival)) => Some(rival),
            // A file with a second name is kept: no run resumes it.
            Err(FileError::NameTaken) => None,
            Err(error) => return Err(error.into()),
        };
        let extent = self.find_journal(partial)?;
        partial.about.state = match (rival, extent) {
            (Some(OtherRun { process }), extent) => PartialState::Busy { extent, process },
            (None, Some(extent)) => PartialState::Part(extent),
            (None, None) => PartialState::Unrecorded,
        };
        Ok(true)
    }

    /// Determines the extent of a partial file by its journal.
    fn find_journal(&self, partial: &mut Partial) -> io::Result<Option<PartialExtent>> {
        let beside = FileName { dir: partial.dir.clone(), name: sibling(&partial.name, "journal") };
        let apart = self.journals.as_ref().zip(self.final_names.get(&partial.name)).map(|(journals, name)| {
            journals.leaf(&TargetPath { dir: partial.dir.clone(), name: name.clone(), replaces: false })
        });
        // A partial file has a random name if its expected one was taken; its journal has the expected name.
        let (dir, part) = (partial.dir.clone(), partial.name.clone());
        let others = || random_names(&dir, &sibling(&part, "journal")).unwrap_or_default();
        let others = std::iter::once_with(others).flatten().map(|name| FileName { dir: dir.clone(), name });
        for leaf in [beside].into_iter().chain(apart).chain(others) {
            let Some((journal, header)) = OpenJournal::open(&leaf, FileAccess::Read)? else { continue };
            let expected = temporary_name(&header.name, b"file");
            let has_random_name = || is_for_same_name(&expected, &part) && !is_own_name(&dir, &expected);
            if expected != part && !has_random_name() {
                continue;
            }
            let frame = u64::from(header.frame.get());
            let bytes = |index: u64| index.saturating_mul(frame).min(header.size);
            let recorded = journal.recorded()?;
            let recorded = recorded.iter().map(|run| bytes(run.end) - bytes(run.start)).sum();
            partial.about.path = below(&self.label, &partial.dir.path_of(header.name.as_bytes()));
            partial.about.disk_bytes += space_of(&leaf).unwrap_or(0);
            partial.journals = vec![leaf];
            return Ok(Some(PartialExtent { recorded, size: header.size }));
        }
        self.find_range_journals(partial)
    }

    /// Determines the extent by the journals of ranges.
    fn find_range_journals(&self, partial: &mut Partial) -> io::Result<Option<PartialExtent>> {
        let mut extent = None;
        for journal in ranges::journals_of(&partial.dir, &partial.name)? {
            let recorded = journal.recorded_bytes()?;
            let RangeJournal { leaf, header, .. } = journal;
            partial.about.path = below(&self.label, &partial.dir.path_of(header.name.as_bytes()));
            partial.about.disk_bytes += space_of(&leaf).unwrap_or(0);
            partial.journals.push(leaf);
            let extent = extent.get_or_insert(PartialExtent { recorded: 0, size: header.size });
            extent.recorded += recorded;
        }
        Ok(extent)
    }
}

/// Whether this is the place of a lock file: earlier versions gave them names of partial files.
fn is_in_locks(place: &[u8]) -> bool {
    let place = Path::new(OsStr::from_bytes(place));
    place.parent().is_some_and(|directory| directory.ends_with(Path::new("haul").join(directory_locks::NAME)))
}

/// Examines a journal; `false` if it is described with its partial file.
fn examine_journal(partial: &mut Partial) -> io::Result<bool> {
    let leaf = FileName { dir: partial.dir.clone(), name: partial.name.clone() };
    let part = sibling(&partial.name, "part");
    if is_there(&partial.dir, &part)? {
        return Ok(false);
    }
    let of_another = |name| temporary_name(name, b"file") != part;
    let header = OpenJournal::open(&leaf, FileAccess::Read)?.map(|(_, header)| header);
    if let Some(part) = header.as_ref().and_then(ranges::part_of) {
        partial.about.state = PartialState::Journal;
        return Ok(!is_there(&partial.dir, &part)?);
    }
    partial.about.state = match header {
        Some(header) if of_another(&header.name) => PartialState::Elsewhere,
        _ => PartialState::Journal,
    };
    Ok(true)
}

impl Partial {
    /// Removes it, unless a copy uses it. A lock keeps a copy from starting meanwhile.
    pub fn remove(&mut self) -> io::Result<PartialRemoval> {
        match self.about.state {
            PartialState::Elsewhere | PartialState::Foreign { .. } => return Ok(PartialRemoval::Kept),
            PartialState::Journal => return self.remove_journal(),
            _ if patches::is_patch(&self.name) => return self.remove_patch(),
            _ => {}
        }
        let extent = match self.about.state {
            PartialState::Part(extent) => Some(extent),
            PartialState::Busy { extent, .. } => extent,
            _ => None,
        };
        let _locked = match lock_file(&self.dir, &self.name, OFlags::WRONLY, &impatient()) {
            Ok(Some(file)) => file,
            Ok(None) => return Ok(PartialRemoval::Vanished),
            Err(FileError::Held(OtherRun { process })) => {
                self.about.state = PartialState::Busy { extent, process };
                return Ok(PartialRemoval::Kept);
            }
            Err(FileError::NameTaken) => return Ok(PartialRemoval::Kept),
            Err(error) => return Err(error.into()),
        };
        self.journals.iter().try_for_each(unlink)?;
        unlink(&FileName { dir: self.dir.clone(), name: self.name.clone() })?;
        Ok(PartialRemoval::Removed)
    }

    /// A copy creates the partial file before its journal: without one, no copy is active. A copy of a range locks its
    /// journal first.
    fn remove_journal(&self) -> io::Result<PartialRemoval> {
        let leaf = FileName { dir: self.dir.clone(), name: self.name.clone() };
        let _locked = match lock_file(&self.dir, &self.name, OFlags::RDWR, &impatient()) {
            Err(FileError::Held(_)) => return Ok(PartialRemoval::Vanished),
            Err(error) => return Err(error.into()),
            locked => locked,
        };
        let of_range = OpenJournal::open(&leaf, FileAccess::Read)?.and_then(|(_, header)| ranges::part_of(&header));
        if is_there(&self.dir, &of_range.unwrap_or_else(|| sibling(&self.name, "part")))? {
            return Ok(PartialRemoval::Vanished);
        }
        unlink(&leaf)?;
        Ok(PartialRemoval::Removed)
    }
}

fn idle_since(then: Timestamp) -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.saturating_sub(Duration::new(u64::try_from(then.seconds).unwrap_or(0), then.nanoseconds))
}

/// Inspection and cleaning never wait for a copy.
fn impatient() -> CopyLocks {
    CopyLocks::with_patience(Duration::ZERO)
}

fn is_there(dir: &Dir, name: &Name) -> io::Result<bool> {
    Ok(statat(&*dir.fd()?, name.as_bytes(), AtFlags::SYMLINK_NOFOLLOW).is_ok())
}

fn unlink(leaf: &FileName) -> io::Result<()> {
    match unlinkat(&*leaf.dir.fd()?, leaf.name.as_bytes(), AtFlags::empty()) {
        Err(rustix::io::Errno::NOENT) => Ok(()),
        done => Ok(done?),
    }
}

fn space_of(leaf: &FileName) -> io::Result<u64> {
    Ok(disk_bytes(&statat(&*leaf.dir.fd()?, leaf.name.as_bytes(), AtFlags::SYMLINK_NOFOLLOW)?))
}

/// `st_blocks` is in units of 512 bytes, on any file system (inode(7)).
fn disk_bytes(stat: &rustix::fs::Stat) -> u64 {
    u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512)
}

#[cfg(test)]
#[path = "partials_tests.rs"]
mod tests;

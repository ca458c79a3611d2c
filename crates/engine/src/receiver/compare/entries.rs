//! A copy that only compares: checks the existing entry for each offered one, and reports differences. It creates,
//! changes and removes nothing. [`crate::receiver::compare::reread`] reads the contents of files.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use haul_base::sys::describe::describe;
use haul_proto::entry::{Entry, EntryContent, EntryKind, EntryLocation, EntryMetadata};
use haul_proto::integrity::Digest;
use haul_proto::limits::DIFFERING_RANGES_MAX;
use haul_proto::overwrite_policy::OverwriteRefusal;
use haul_proto::path::Name;
use haul_proto::session::differing::Differing;
use haul_proto::session::step::{EntryAnswer, ParentDirectory};
use haul_proto::wire::difference::Difference;
use haul_proto::wire::preserve::RightsOptions;
use haul_proto::wire::request::Symlinks;
use rustix::fs::{FileType, readlinkat};

use crate::fs::attributes::read;
use crate::fs::{Dir, FileStat, FollowLinks};
use crate::metrics::counter::add;
use crate::receiver::compare::EntryComparer;
use crate::receiver::entry::{Compared, ComparedDirectory, ComparedFile, ReceiverEntry};
use crate::receiver::place::destination::DestinationKind;
use crate::receiver::place::error::FileError;
use crate::receiver::place::existing_entry::entry_kind;
use crate::receiver::source_names::SourceNames;

impl EntryComparer {
    /// Directory and name of a compared entry.
    pub(crate) fn compared_place(&self, place: &EntryLocation) -> Option<(Dir, Name)> {
        let (EntryLocation::Child { name, .. }, ParentDirectory::Open(parent)) =
            (place, self.parts.session.read(|machine| machine.parent(place)))
        else {
            return None;
        };
        match &*parent {
            ReceiverEntry::Compared(Compared::Directory(ComparedDirectory { dir, .. })) => {
                Some((dir.clone(), name.clone()))
            }
            _ => None,
        }
    }

    /// Compares an entry, and answers it.
    pub(crate) fn answer_compared(
        &self,
        parent: ParentDirectory<ReceiverEntry>,
        entry: &Entry,
    ) -> EntryAnswer<ReceiverEntry> {
        match (parent, &entry.place) {
            (ParentDirectory::Operand(number), _) => self.compare_operand(number, entry),
            (ParentDirectory::Open(parent), EntryLocation::Child { name, .. }) => match &*parent {
                ReceiverEntry::Compared(Compared::Directory(ComparedDirectory { dir, names })) => {
                    names.iter().for_each(|names| names.add(name));
                    self.compare_at(dir, name, entry)
                }
                _ => EntryAnswer::Refused,
            },
            (ParentDirectory::Again(item), EntryLocation::Again(_)) => match &*item {
                ReceiverEntry::Compared(Compared::File(file)) => self.compare_at(&file.dir, &file.name, entry),
                _ => EntryAnswer::Refused,
            },
            _ => EntryAnswer::Refused,
        }
    }

    fn compare_operand(&self, number: u32, entry: &Entry) -> EntryAnswer<ReceiverEntry> {
        let Some(operand) = self.parts.tree.requested_operand(number, entry) else {
            return self.parts.copy.refuse_operand(OverwriteRefusal::NotAsked);
        };
        let is_directory = entry.kind == EntryContent::Directory;
        match (&self.parts.copy.destination.kind, &operand.name) {
            (DestinationKind::Into(dir), name) if !operand.below.is_empty() => {
                self.compare_below(dir, &operand.below, name.as_ref(), entry)
            }
            (DestinationKind::Contents(dir), _) | (DestinationKind::Into(dir), None) if is_directory => {
                self.compare_contents(dir, entry, self.parts.copy.request.operands.len() == 1)
            }
            (DestinationKind::Into(dir), Some(name)) | (DestinationKind::As(dir, name), _) => {
                self.compare_at(dir, name, entry)
            }
            _ => self.parts.copy.refuse_operand(OverwriteRefusal::IsDirectory),
        }
    }

    /// Compares directories further down (`--dirbase`), each of which the copy would have created.
    fn compare_below(
        &self,
        root: &Dir,
        below: &[Name],
        name: Option<&Name>,
        entry: &Entry,
    ) -> EntryAnswer<ReceiverEntry> {
        let names: Vec<_> = below.iter().chain(name).map(Name::as_bytes).collect();
        let relative = names.join(&b'/');
        match (below.iter().try_fold(root.clone(), |dir, name| dir.child(name)), name) {
            (Ok(dir), Some(name)) => self.compare_at(&dir, name, entry),
            (Ok(dir), None) => self.compare_contents(&dir, entry, false),
            (Err(error), _) if error.kind() == io::ErrorKind::NotFound => {
                self.concluded(&relative, entry, vec![Difference::Missing(EntryKind::from(&entry.kind))])
            }
            (Err(error), _) => {
                self.parts.copy.fail(self.parts.copy.destination.path(&relative), describe(&error));
                EntryAnswer::Refused
            }
        }
    }

    fn compare_at(&self, dir: &Dir, name: &Name, entry: &Entry) -> EntryAnswer<ReceiverEntry> {
        let relative = dir.path_of(name.as_bytes());
        match self.compare_entry(dir, name, entry, &relative) {
            Ok(answer) => answer,
            Err(error) => {
                self.parts.copy.fail(self.parts.copy.destination.path(&relative), describe(&error));
                EntryAnswer::Refused
            }
        }
    }

    fn compare_entry(
        &self,
        dir: &Dir,
        name: &Name,
        entry: &Entry,
        relative: &[u8],
    ) -> io::Result<EntryAnswer<ReceiverEntry>> {
        let offered = EntryKind::from(&entry.kind);
        let there = match FileStat::at_name(&*dir.fd()?, name, FollowLinks::Itself) {
            Ok(there) => there,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(self.concluded(relative, entry, vec![Difference::Missing(offered)]));
            }
            Err(error) => return Err(error),
        };
        let mut differences = self.metadata_differences(&entry.meta, &there);
        match (&entry.kind, there.kind) {
            (EntryContent::Directory, FileType::Directory) => {
                let child = dir.child(name)?;
                differences.extend(self.attributes_of_directory(&child, entry)?);
                self.report_differences(relative, differences);
                return Ok(self.directory_compared(child, !self.parts.tree.merges()));
            }
            (EntryContent::HardLink { to, size }, FileType::RegularFile) => match self.differs_as_name(*to, &there)? {
                None => differences.clear(),
                Some(difference) => {
                    differences.push(difference);
                    if *size != there.size {
                        differences.insert(0, Difference::Size { source: *size, target: there.size });
                    }
                }
            },
            (EntryContent::File { size }, FileType::RegularFile) => {
                let found =
                    || read(dir.open_file(name, FollowLinks::Itself)?.0, self.parts.copy.request.metadata.preserve);
                differences.extend(self.attribute_differences(entry, found)?);
                differences.extend(self.differs_as_file(dir, name, entry, &there));
                if *size != there.size {
                    differences.insert(0, Difference::Size { source: *size, target: there.size });
                } else if *size > 0 {
                    let (dir, name, modified) = (dir.clone(), name.clone(), there.meta.modified);
                    let failed = AtomicBool::new(false);
                    let extents = Arc::default();
                    let file = ComparedFile { dir, name, size: *size, modified, failed, extents, differences };
                    return Ok(EntryAnswer::Compare(Arc::new(ReceiverEntry::Compared(Compared::File(file)))));
                }
            }
            (EntryContent::Node(node), _) if there.is_special() => {
                if let Some(target) = there.node().filter(|there| there != node) {
                    differences.push(Difference::Node { source: *node, target });
                }
            }
            (EntryContent::Symlink { points_to }, FileType::Symlink) => {
                let text = readlinkat(&*dir.fd()?, name.as_bytes(), Vec::new())?;
                if **points_to != *text.as_bytes() {
                    let (source, target) = (points_to.to_vec(), text.into_bytes());
                    differences.insert(0, Difference::Link { source, target });
                }
            }
            (_, kind) => differences = vec![Difference::Kind { source: offered, target: entry_kind(kind) }],
        }
        Ok(self.concluded(relative, entry, differences))
    }

    fn compare_contents(&self, dir: &Dir, entry: &Entry, is_alone: bool) -> EntryAnswer<ReceiverEntry> {
        let there = dir.fd().and_then(|fd| FileStat::at_fd(&*fd));
        let compared = there.and_then(|there| {
            let mut differences = self.metadata_differences(&entry.meta, &there);
            differences.extend(self.attributes_of_directory(dir, entry)?);
            Ok(differences)
        });
        match compared {
            Ok(differences) => {
                self.report_differences(b"", differences);
                self.directory_compared(dir.clone(), is_alone)
            }
            Err(error) => {
                self.parts.copy.fail(self.parts.copy.destination.path(b""), describe(&error));
                EntryAnswer::Refused
            }
        }
    }

    fn attributes_of_directory(&self, dir: &Dir, entry: &Entry) -> io::Result<Option<Difference>> {
        self.attribute_differences(entry, || read(&*dir.fd()?, self.parts.copy.request.metadata.preserve))
    }

    fn directory_compared(&self, dir: Dir, is_alone: bool) -> EntryAnswer<ReceiverEntry> {
        let names = is_alone.then(|| SourceNames::new(&self.parts.removals.name_budget));
        EntryAnswer::Needed(Arc::new(ReceiverEntry::Compared(Compared::Directory(ComparedDirectory { dir, names }))))
    }

    /// Preserved modes, owners and groups are compared too. Links have no modes.
    fn metadata_differences(&self, meta: &EntryMetadata, there: &FileStat) -> Vec<Difference> {
        let RightsOptions { mode, owner, group } = self.parts.copy.request.metadata.rights;
        let mut differences = Vec::new();
        if mode && meta.mode != there.meta.mode && there.kind != FileType::Symlink {
            differences.push(Difference::Mode { source: meta.mode, target: there.meta.mode });
        }
        let target = (there.meta.uid, there.meta.gid);
        let source = (if owner { meta.uid } else { target.0 }, if group { meta.gid } else { target.1 });
        if source != target {
            differences.push(Difference::Owner { source, target });
        }
        differences
    }

    /// Reports an entry whose comparison needs no file read.
    fn concluded(&self, relative: &[u8], entry: &Entry, differences: Vec<Difference>) -> EntryAnswer<ReceiverEntry> {
        match entry.kind {
            EntryContent::Symlink { .. } => add(&self.parts.copy.reporter.tally.symlinks, 1),
            EntryContent::File { size } => {
                let empty = || *blake3::hash(b"").as_bytes();
                let digest = (size == 0 && differences.is_empty()).then(empty);
                self.parts.copy.reporter.file_compared(|| relative.to_vec(), size, digest);
                // The file need not be read.
                add(&self.parts.copy.reporter.tally.bytes_skipped, size);
            }
            EntryContent::Directory | EntryContent::Stream | EntryContent::HardLink { .. } | EntryContent::Node(_) => {}
        }
        if self.report_differences(relative, differences) { EntryAnswer::Refused } else { EntryAnswer::Settled }
    }

    /// Reports an entry's differences. Returns whether there are any.
    pub(crate) fn report_differences(&self, relative: &[u8], differences: Vec<Difference>) -> bool {
        let differs = !differences.is_empty();
        if differs {
            self.parts.copy.reporter.differs(self.parts.copy.destination.path(relative), differences);
        }
        differs
    }

    /// Completes a directory with all entries compared, or a file with all frames equal. `false` on failure.
    pub(crate) fn finish_compared(
        &self,
        compared: &Compared,
        digest: Option<Digest>,
        complete: bool,
        is_left_out: &dyn Fn(&Name, bool) -> bool,
    ) -> bool {
        match compared {
            Compared::File(file) => {
                self.parts.copy.reporter.file_compared(|| file.relative(), file.size, digest);
                self.report_differences(&file.relative(), file.differences.clone());
                true
            }
            Compared::Directory(directory) => {
                let reported = if complete { self.report_extraneous(directory, is_left_out) } else { Ok(()) };
                directory.dir.keep_parent_open();
                add(&self.parts.copy.reporter.tally.directories, 1);
                reported
                    .map_err(|error| {
                        self.parts.copy.fail(self.parts.copy.destination.path(&directory.dir.path_bytes()), error)
                    })
                    .is_ok()
            }
        }
    }

    /// Names the entries of a directory that the source lacks. Special files are skipped, links where the source skips
    /// them, and names that filters exclude.
    fn report_extraneous(
        &self,
        ComparedDirectory { dir, names }: &ComparedDirectory,
        is_filtered: &dyn Fn(&Name, bool) -> bool,
    ) -> Result<(), FileError> {
        let Some(names) = names else { return Ok(()) };
        let leaves_links = self.parts.copy.request.compare == Some(Symlinks::Ignore);
        let is_known = names.each_extraneous(dir, |name, kind| {
            let is_left_out = match entry_kind(kind) {
                EntryKind::Special => !self.keeps_node(kind) || name.is_reserved(),
                EntryKind::Symlink => leaves_links || name.is_reserved(),
                EntryKind::File => name.is_reserved(),
                EntryKind::Directory => false,
            };
            if !is_left_out && !is_filtered(name, kind == FileType::Directory) {
                self.report_differences(&dir.path_of(name.as_bytes()), vec![Difference::Extra(entry_kind(kind))]);
            }
        })?;
        if is_known { Ok(()) } else { Err(FileError::ExtraneousUnknown) }
    }

    fn keeps_node(&self, kind: FileType) -> bool {
        let preserve = self.parts.copy.request.metadata.preserve;
        if matches!(kind, FileType::CharacterDevice | FileType::BlockDevice) {
            preserve.devices
        } else {
            preserve.specials
        }
    }
}

/// Differing frames, as byte ranges of the file.
pub(crate) fn content(differing: &Differing, frame_bytes: u64, size: u64) -> Difference {
    let bytes = |index: u64| index.saturating_mul(frame_bytes).min(size);
    let end = differing.frames().last().map_or(0, |run| run.end.saturating_mul(frame_bytes));
    // A file's last frame may be shorter.
    let all = differing.len().saturating_mul(frame_bytes).saturating_sub(end.saturating_sub(size)).min(size);
    let ranges = differing.frames().take(DIFFERING_RANGES_MAX).map(|run| bytes(run.start)..bytes(run.end));
    Difference::Content { ranges: ranges.collect(), bytes: all }
}

#[cfg(test)]
#[path = "entries_tests.rs"]
mod tests;

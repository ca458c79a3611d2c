//! Partial files of several runs with a range each, identified by the journals of their ranges beside them.

use std::collections::BTreeSet;
use std::io;

use haul_proto::journal::JournalHeader;
use haul_proto::path::Name;
use rustix::fs::{FileType, Mode, OFlags, openat};

use crate::fs::{Dir, each_name};
use crate::io::storage::FileAccess;
use crate::receiver::place::journal::OpenJournal;
use crate::receiver::place::range_files::partial_name;
use crate::receiver::place::target_path::FileName;

/// The journal of a range.
pub struct RangeJournal {
    pub leaf: FileName,
    pub header: JournalHeader,
    journal: OpenJournal,
    /// Its partial file.
    part: Name,
}

impl RangeJournal {
    /// Bytes of the range recorded as written.
    pub fn recorded_bytes(&self) -> io::Result<u64> {
        let frame = u64::from(self.header.frame.get());
        let bytes = |index: u64| index.saturating_mul(frame).min(self.header.size);
        Ok(self.journal.recorded()?.iter().map(|run| bytes(run.end) - bytes(run.start)).sum())
    }
}

/// The partial file of a range's journal; `None` for another journal.
pub fn part_of(header: &JournalHeader) -> Option<Name> {
    header.range.map(|range| partial_name(&header.name, range.len()))
}

/// The journals of a partial file's ranges.
pub fn journals_of(dir: &Dir, part: &Name) -> io::Result<Vec<RangeJournal>> {
    Ok(all(dir)?.into_iter().filter(|journal| journal.part == *part).collect())
}

/// Returns the partial files with ranges of a file.
pub fn parts_of(dir: &Dir, name: &Name) -> io::Result<BTreeSet<Name>> {
    let of_file = all(dir)?.into_iter().filter(|journal| journal.header.name == *name);
    Ok(of_file.map(|journal| journal.part).collect())
}

fn all(dir: &Dir) -> io::Result<Vec<RangeJournal>> {
    // Another thread may be reading the directory.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let listed = Dir::from_fd(openat(&*dir.fd()?, c".", flags, Mode::empty())?)?;
    let mut names = Vec::new();
    each_name(&listed, |name, kind| {
        if kind == FileType::RegularFile && name.reserved_parts().is_some_and(|(_, what)| what == "journal") {
            names.push(name.clone());
        }
    })?;
    let mut found = Vec::new();
    for name in names {
        let leaf = FileName { dir: dir.clone(), name };
        // Unreadable files belong to other users.
        let Ok(Some((journal, header))) = OpenJournal::open(&leaf, FileAccess::Read) else { continue };
        let Some(part) = part_of(&header) else { continue };
        found.push(RangeJournal { leaf, header, journal, part });
    }
    Ok(found)
}

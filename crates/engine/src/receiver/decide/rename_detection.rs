//! Files that exist at the target under other names. A wanted file may have been renamed (`--detect-renames`), or may
//! have a new first name among its hard links (`--hard-links`). A file of the same size, and of the same time or name,
//! serves as base file ([`crate::receiver::delta::find_base`]). Both ends read it, differences are sent, and the result
//! is verified as usual.

use std::cmp::Ordering;
use std::io;
use std::sync::OnceLock;

use haul_base::copy::spec::Symlinks;
use haul_base::sys::describe::describe;
use haul_proto::delta::DeltaMethod;
use haul_proto::delta::blocks::BLOCK;
use haul_proto::delta::options::DeltaOptions;
use haul_proto::entry::{Entry, Timestamp};
use haul_proto::path::Name;
use haul_proto::wire::report::WorkerMessage;
use rustix::fs::{Mode, OFlags, openat};

use crate::fs::{Dir, FileStat, SpecialFiles, WalkEntry, WalkOptions, Walker};
use crate::receiver::decide::EntryDecider;
use crate::receiver::file::base::BaseSource;
use crate::receiver::place::target_path::TargetPath;

/// Most remembered files.
const FILES_MAX: usize = 1 << 20;

/// Files of the target before the copy, collected on first use.
#[derive(Default)]
pub struct RenameDetector(OnceLock<SizeIndex>);

/// Most candidates of similar time compared with a wanted file. File systems round times, so the nearest times are the
/// likeliest. The number of files of one size has no limit.
const COMPARED_MAX: usize = 64;

/// Files, by size.
#[derive(Default)]
struct SizeIndex {
    dirs: Vec<Dir>,
    files: Vec<RenameCandidate>,
    /// Indices into `files`, sorted by size, name and time.
    by_name: Vec<u32>,
    /// Indices into `files`, sorted by size and time.
    by_time: Vec<u32>,
    is_full: bool,
}

struct RenameCandidate {
    size: u64,
    stat: FileStat,
    /// Its index in `dirs`.
    dir: u32,
    name: Name,
}

impl EntryDecider {
    /// A candidate for a wanted file of `size` bytes under another name, at the destination or in an earlier copy.
    pub(crate) fn find_moved(&self, path: &TargetPath, entry: &Entry, size: u64) -> Option<BaseSource> {
        let is_wanted = self.parts.copy.request.sync.detect_renames || self.may_have_other_names(entry);
        if !is_wanted || self.parts.copy.is_within_process() || size <= BLOCK as u64 {
            return None;
        }
        let modified = entry.meta.modified;
        let index = self.renames.0.get_or_init(|| self.index_sizes());
        let file = index.find(size, &path.name, modified, |file| {
            let dir = index.dirs.get(file.dir as usize);
            dir.is_some_and(|dir| self.parts.metadata.is_same_time(dir, modified, &file.stat))
        })?;
        let dir = index.dirs.get(file.dir as usize)?.clone();
        // The candidate is checked again; one that has vanished or changed is skipped.
        BaseSource::of(dir, file.name.clone(), DeltaMethod::Blocks)
            .ok()
            .filter(|base| base.version.size == size && self.parts.deltas.may_use(base))
    }

    /// Whether the first name of a file is new in a sync, so that its other names may exist here.
    fn may_have_other_names(&self, entry: &Entry) -> bool {
        let is_sync = self.parts.copy.request.sync.into && self.parts.copy.request.metadata.preserve.hard_links;
        is_sync && self.parts.copy.request.delta != DeltaOptions::default() && entry.further_names().is_some()
    }

    /// Indexes the destination and the earlier copies.
    fn index_sizes(&self) -> SizeIndex {
        let index = index(self.parts.copy.destination.dir().into_iter().chain(self.link_dests.dirs())).unwrap_or_else(
            |error| {
                let why = describe(&error);
                let text = format!("moved files were not searched for at the target: {why}");
                self.parts.copy.reporter.send(&WorkerMessage::Warning { text: text.replace('\n', "; ") });
                SizeIndex::default()
            },
        );
        if index.is_full {
            let text = format!("moved files were searched for only among {FILES_MAX} files of the target");
            self.parts.copy.reporter.send(&WorkerMessage::Warning { text });
        }
        index
    }
}

fn index<'d>(roots: impl Iterator<Item = &'d Dir>) -> io::Result<SizeIndex> {
    let mut index = SizeIndex::default();
    for root in roots {
        add(&mut index, root)?;
    }
    index.sort();
    Ok(index)
}

/// Adds the files below `root`.
fn add(index: &mut SizeIndex, root: &Dir) -> io::Result<()> {
    // A separate descriptor: another thread may be reading the same listing.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = Dir::from_fd(openat(&*root.fd()?, c".", flags, Mode::empty())?)?;
    let options = WalkOptions {
        recursive: true,
        symlinks: Symlinks::Ignore,
        skip: None,
        one_file_system: false,
        is_filtered: false,
        nodes: SpecialFiles::default(),
        only_counts_files: false,
    };
    let mut open = Vec::new();
    for found in Walker::new(root, options) {
        match found {
            WalkEntry::EnterDir { dir, .. } => {
                open.push(u32::try_from(index.dirs.len()).map_err(io::Error::other)?);
                index.dirs.push(dir);
            }
            WalkEntry::LeaveDir { .. } => drop(open.pop()),
            WalkEntry::File { name, stat, .. } if stat.size > BLOCK as u64 && !name.is_reserved() => {
                if index.files.len() == FILES_MAX {
                    index.is_full = true;
                    break;
                }
                let dir = open.last().copied().unwrap_or(0);
                index.files.push(RenameCandidate { size: stat.size, stat, dir, name });
            }
            // An inaccessible entry is no candidate.
            _ => {}
        }
    }
    Ok(())
}

impl SizeIndex {
    fn sort(&mut self) {
        let Self { files, by_name, by_time, .. } = self;
        let places = || (0..).take(files.len());
        let modified = |file: &RenameCandidate| file.stat.meta.modified;
        (*by_name, *by_time) = (places().collect(), places().collect());
        let file = |place: &u32| &files[*place as usize];
        by_name.sort_unstable_by(|a, b| {
            let (a, b) = (file(a), file(b));
            (a.size, &a.name, modified(a)).cmp(&(b.size, &b.name, modified(b)))
        });
        by_time.sort_unstable_by_key(|place| (file(place).size, modified(file(place))));
    }

    /// The best match for this size, name and time: both, else the time, else the name.
    fn find(
        &self,
        size: u64,
        name: &Name,
        modified: Timestamp,
        is_same_time: impl Fn(&RenameCandidate) -> bool,
    ) -> Option<&RenameCandidate> {
        let file = |place: &u32| &self.files[*place as usize];
        let range = |places: &'_ [u32], order: &dyn Fn(&RenameCandidate) -> Ordering| {
            let start = places.partition_point(|place| order(file(place)).is_lt());
            start..start + places[start..].partition_point(|place| order(file(place)).is_eq())
        };
        let of_time = |places: &[u32]| {
            let (before, behind) =
                places.split_at(places.partition_point(|at| file(at).stat.meta.modified <= modified));
            let nearest = before.iter().rev().take(COMPARED_MAX).chain(behind.iter().take(COMPARED_MAX));
            nearest.copied().find(|place| is_same_time(file(place)))
        };
        let named = &self.by_name[range(&self.by_name, &|file| (file.size, &file.name).cmp(&(size, name)))];
        let sized = &self.by_time[range(&self.by_time, &|file| file.size.cmp(&size))];
        let found = of_time(named).or_else(|| of_time(sized)).or(named.last().copied());
        found.map(|place| file(&place))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn files_are_found_by_size_except_small_ones() {
        let temp = tempfile::tempdir().unwrap();
        fs::create_dir_all(temp.path().join("a/b")).unwrap();
        for (path, size) in [("a/x", 5000), ("a/b/y", 9000), ("z", 5000), ("small", 4096), ("a/.haul-x.part", 0)] {
            fs::write(temp.path().join(path), vec![7; size]).unwrap();
        }
        let index = index(std::iter::once(&Dir::open_root(temp.path()).unwrap())).unwrap();
        let found: Vec<_> = index
            .by_name
            .iter()
            .map(|place| &index.files[*place as usize])
            .map(|file| (file.size, index.dirs[file.dir as usize].path_of(file.name.as_bytes())))
            .collect();
        assert_eq!(found, [(5000, b"a/x".to_vec()), (5000, b"z".to_vec()), (9000, b"a/b/y".to_vec())]);
    }

    #[test]
    fn many_files_of_one_size_need_few_comparisons() {
        let temp = tempfile::tempdir().unwrap();
        fs::write(temp.path().join("x"), "x").unwrap();
        let root = Dir::open_root(temp.path()).unwrap();
        let (_, stat) = root.open_file(&Name::new(b"x").unwrap(), crate::fs::FollowLinks::Itself).unwrap();
        let time = |seconds| Timestamp { seconds, nanoseconds: 7 };
        let named = |number: i64| Name::new(format!("n{}", number % 100).as_bytes()).unwrap();
        let candidate = |number: i64| {
            let mut stat = stat;
            stat.meta.modified = time(number);
            RenameCandidate { size: 5000 + u64::from(number == 9), stat, dir: 0, name: named(number) }
        };
        let mut index = SizeIndex { files: (0..20_000).map(candidate).collect(), ..SizeIndex::default() };
        index.sort();
        let compared = std::cell::Cell::new(0);
        let find = |name: &str, seconds, size| {
            let is_same = |file: &RenameCandidate| {
                compared.set(compared.get() + 1);
                file.stat.meta.modified == time(seconds)
            };
            let found = index.find(size, &Name::new(name.as_bytes()).unwrap(), time(seconds), is_same);
            found.map(|file| (file.stat.meta.modified.seconds, file.name.clone()))
        };
        assert_eq!(find("n42", 742, 5000), Some((742, named(42))), "both");
        assert_eq!(find("n41", 742, 5000), Some((742, named(42))), "the time alone");
        assert_eq!(find("n42", -5, 5000).map(|(_, name)| name), Some(named(42)), "the name alone");
        assert_eq!((find("other", 30_000, 5000), find("n42", 742, 4999)), (None, None));
        assert_eq!(find("n8", 9, 5001), Some((9, named(9))));
        assert!(compared.get() <= 5 * 4 * COMPARED_MAX, "{} comparisons", compared.get());
    }
}

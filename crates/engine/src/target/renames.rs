//! Files that the target has under other names: one that is needed may have been moved (`--detect-renames`), or have a new
//! first name among several (`--hard-links`). What has its size, and its time or its name, is taken for an old file in its place ([`super::basis`]): read at both ends, sent as far
//! as it differs, and proven as any other.

use haul_proto::delta::Method;
use haul_proto::delta::blocks::BLOCK;
use haul_proto::manifest::Entry;
use haul_proto::path::Name;
use haul_proto::wire::delta::DeltaRules;
use haul_proto::wire::report::WorkerMessage;
use rustix::fs::{Mode, OFlags, openat};
use std::io;
use std::sync::OnceLock;

use super::Target;
use super::basis::Basis;
use super::file::Spot;
use crate::fs::{Dir, Found, Look, Nodes, WalkOptions, Walker, describe};
use crate::spec::Symlinks;

/// Most files that are remembered.
const FILES_MAX: usize = 1 << 20;

/// What is at the target before anything is copied, once somebody asks.
#[derive(Default)]
pub struct Renames(OnceLock<Index>);

/// Files, by their sizes.
#[derive(Default)]
struct Index {
    dirs: Vec<Dir>,
    files: Vec<Candidate>,
    is_full: bool,
}

struct Candidate {
    size: u64,
    look: Look,
    /// Its place in `dirs`.
    dir: u32,
    name: Name,
}

impl Target {
    /// A file that may be the one that is to come, of `size` bytes, under another name: here or in an earlier copy.
    pub(super) fn find_moved(&self, spot: &Spot, entry: &Entry, size: u64) -> Option<Basis> {
        let is_wanted = self.request.sync.detect_renames || self.may_have_other_names(entry);
        if !is_wanted || self.is_within_process() || size <= BLOCK as u64 {
            return None;
        }
        let modified = entry.meta.modified;
        let index = self.renames.0.get_or_init(|| self.look_around());
        let first = index.files.partition_point(|file| file.size < size);
        let same_size = index.files[first..].iter().take_while(|file| file.size == size);
        // The name alone is enough, and so is the time; both are better.
        let best = same_size
            .map(|file| {
                let dir = index.dirs.get(file.dir as usize);
                let is_same_time = dir.is_some_and(|dir| self.is_same_time(dir, modified, &file.look));
                (u8::from(is_same_time) + u8::from(file.name == spot.name), file)
            })
            .filter(|(alike, _)| *alike > 0)
            .max_by_key(|(alike, _)| *alike);
        let (_, file) = best?;
        let dir = index.dirs.get(file.dir as usize)?.clone();
        // What is there by now is looked at; a file that has gone, or become another, is none.
        Basis::of(dir, file.name.clone(), Method::Blocks).ok().filter(|basis| basis.size == size && self.may_use(basis))
    }

    /// Whether the first name of a file is new in a sync, and other ones may be here.
    fn may_have_other_names(&self, entry: &Entry) -> bool {
        let is_sync = self.request.sync.into && self.request.kept.hard_links;
        is_sync && self.request.delta != DeltaRules::default() && entry.further_names().is_some()
    }

    /// Walks through what is here, and in earlier copies.
    fn look_around(&self) -> Index {
        let index = index(self.landing.dir().into_iter().chain(self.earlier.dirs())).unwrap_or_else(|error| {
            let why = describe(&error);
            let text = format!("what is at the target was not looked through for moved files: {why}");
            self.reporter.send(&WorkerMessage::Notice { text: text.replace('\n', "; ") });
            Index::default()
        });
        if index.is_full {
            let text = format!("moved files were looked for among {FILES_MAX} files of the target, and not among all");
            self.reporter.send(&WorkerMessage::Notice { text });
        }
        index
    }
}

fn index<'d>(roots: impl Iterator<Item = &'d Dir>) -> io::Result<Index> {
    let mut index = Index::default();
    for root in roots {
        add(&mut index, root)?;
    }
    index.files.sort_unstable_by(|a, b| (a.size, &a.name).cmp(&(b.size, &b.name)));
    Ok(index)
}

/// Adds the files below `root`.
fn add(index: &mut Index, root: &Dir) -> io::Result<()> {
    // Its own descriptor: the listing of the other one may be read meanwhile.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = Dir::from_fd(openat(&*root.fd()?, c".", flags, Mode::empty())?)?;
    let options = WalkOptions {
        recursive: true,
        symlinks: Symlinks::Ignore,
        skip: None,
        is_filtered: false,
        nodes: Nodes::default(),
    };
    let mut open = Vec::new();
    for found in Walker::new(root, options) {
        match found {
            Found::EnterDir { dir, .. } => {
                open.push(u32::try_from(index.dirs.len()).map_err(io::Error::other)?);
                index.dirs.push(dir);
            }
            Found::LeaveDir { .. } => drop(open.pop()),
            Found::File { name, look, .. } if look.size > BLOCK as u64 && !name.is_reserved() => {
                if index.files.len() == FILES_MAX {
                    index.is_full = true;
                    break;
                }
                let dir = open.last().copied().unwrap_or(0);
                index.files.push(Candidate { size: look.size, look, dir, name });
            }
            // What cannot be looked at is no candidate.
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn files_are_found_by_their_sizes_and_small_ones_are_not() {
        let temp = tempfile::tempdir().unwrap();
        fs::create_dir_all(temp.path().join("a/b")).unwrap();
        for (path, size) in [("a/x", 5000), ("a/b/y", 9000), ("z", 5000), ("small", 4096), ("a/.haul-x.part", 0)] {
            fs::write(temp.path().join(path), vec![7; size]).unwrap();
        }
        let index = index(std::iter::once(&Dir::open_root(temp.path()).unwrap())).unwrap();
        let found: Vec<_> = index
            .files
            .iter()
            .map(|file| (file.size, index.dirs[file.dir as usize].path_of(file.name.as_bytes())))
            .collect();
        assert_eq!(found, [(5000, b"a/x".to_vec()), (5000, b"z".to_vec()), (9000, b"a/b/y".to_vec())]);
    }
}

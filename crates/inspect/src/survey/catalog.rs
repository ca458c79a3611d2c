//! Names of possible duplicates in compact form: an index of the directory, and the name among all names. A million
//! files of 30 bytes each take 50 MB.
//!
//! When full, it drops the half with the smaller files, and accepts no further files of these sizes. It is complete for
//! the remaining sizes.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;

use haul_base::copy::display_path::below;
use haul_engine::fs::{Dir, FileStat, FollowLinks};
use haul_proto::path::Name;

use super::tally::FileTotals;

/// Most files.
const FILES_MAX: usize = 1 << 20;
/// Most bytes of names, of files and of directories.
const NAMES_MAX: usize = 48 << 20;
/// Most reopened directories.
const OPENED_MAX: usize = 512;
/// Replaces a root's name.
const ROOT: u32 = u32::MAX;

/// A file of the catalog.
pub type FileId = usize;

/// The catalog.
pub struct Catalog {
    roots: Vec<CatalogRoot>,
    dirs: Vec<DirRecord>,
    files: Vec<FileRecord>,
    /// For each name: whether a link is followed, its length, itself.
    names: Vec<u8>,
    /// Open directories.
    open: Vec<OpenCatalogDirectory>,
    /// Smallest accepted size.
    floor: u64,
    /// Whether it accepts no more files.
    is_closed: bool,
    left_out: FileTotals,
    most: (usize, usize),
}

struct CatalogRoot {
    dir: Dir,
    label: Vec<u8>,
}

struct OpenCatalogDirectory {
    name: Option<Name>,
    root: u32,
    /// Its index in the catalog, once a file in it is there.
    id: Option<u32>,
}

#[derive(Clone, Copy)]
struct DirRecord {
    /// The parent directory; for a root, the number of the root.
    parent: u32,
    /// The offset of its name, or [`ROOT`].
    name: u32,
}

#[derive(Clone, Copy)]
struct FileRecord {
    size: u64,
    dir: u32,
    name: u32,
}

impl Catalog {
    /// An empty one.
    pub fn new() -> Self {
        Self::with(FILES_MAX, NAMES_MAX)
    }

    fn with(files_max: usize, names_max: usize) -> Self {
        let (roots, dirs, files, names, open) = Default::default();
        let most = (files_max, names_max);
        Self { roots, dirs, files, names, open, floor: 1, is_closed: false, left_out: FileTotals::default(), most }
    }

    /// Enters a directory, shown as `label`. Files added until it is left belong to it.
    pub fn enter_root(&mut self, dir: Dir, label: &[u8]) {
        let root = u32::try_from(self.roots.len()).unwrap_or(ROOT);
        self.roots.push(CatalogRoot { dir, label: label.to_vec() });
        self.open.push(OpenCatalogDirectory { name: None, root, id: None });
    }

    /// Enters a subdirectory of the current directory.
    pub fn enter(&mut self, name: &Name) {
        let root = self.open.last().map_or(ROOT, |open| open.root);
        self.open.push(OpenCatalogDirectory { name: Some(name.clone()), root, id: None });
    }

    /// Leaves a directory.
    pub fn leave(&mut self) {
        self.open.pop();
    }

    /// Adds a file, if there is room and it is not empty.
    pub fn add(&mut self, name: &Name, links: FollowLinks, size: u64) {
        if size == 0 {
            return;
        }
        if !self.is_closed && size >= self.floor && self.is_full() {
            self.make_room();
        }
        if self.is_closed || size < self.floor {
            return self.left_out.add(size);
        }
        if let Some(dir) = self.directory() {
            let name = self.push_name(name, links);
            self.files.push(FileRecord { size, dir, name });
        }
    }

    fn is_full(&self) -> bool {
        self.files.len() >= self.most.0 || self.names.len() >= self.most.1
    }

    /// Adds the innermost directory and all above it to the catalog.
    fn directory(&mut self) -> Option<u32> {
        let known = self.open.iter().rposition(|open| open.id.is_some());
        let mut parent = known.and_then(|at| self.open[at].id);
        for at in known.map_or(0, |at| at + 1)..self.open.len() {
            let name = match self.open[at].name.clone() {
                Some(name) => self.push_name(&name, FollowLinks::Itself),
                None => ROOT,
            };
            // A root has no parent, and may be entered while another one is open.
            let above = if name == ROOT { self.open[at].root } else { parent? };
            let id = u32::try_from(self.dirs.len()).ok()?;
            self.dirs.push(DirRecord { parent: above, name });
            self.open[at].id = Some(id);
            parent = Some(id);
        }
        parent
    }

    fn push_name(&mut self, name: &Name, links: FollowLinks) -> u32 {
        // Far below 32 bits: no name is added beyond `most`.
        let at = u32::try_from(self.names.len()).unwrap_or(ROOT);
        let bytes = name.as_bytes();
        self.names.push(u8::from(links == FollowLinks::Followed));
        self.names.push(u8::try_from(bytes.len()).unwrap_or(u8::MAX));
        self.names.extend_from_slice(bytes);
        at
    }

    fn name(&self, at: u32) -> (&[u8], FollowLinks) {
        let at = at as usize;
        let links = if self.names[at] == 1 { FollowLinks::Followed } else { FollowLinks::Itself };
        let len = usize::from(self.names[at + 1]);
        (&self.names[at + 2..at + 2 + len], links)
    }

    /// Drops the files of the smaller sizes, with names used only by them.
    fn make_room(&mut self) {
        let mut sizes: Vec<_> = self.files.iter().map(|file| file.size).collect();
        let middle = sizes.len() / 2;
        let median = sizes.get_mut(..).map_or(0, |sizes| *sizes.select_nth_unstable(middle).1);
        drop(sizes);
        self.floor = median.saturating_add(1);
        let old = std::mem::take(&mut self.files);
        let (kept, small): (Vec<_>, Vec<_>) = old.into_iter().partition(|file| file.size >= self.floor);
        small.iter().for_each(|file| self.left_out.add(file.size));
        drop(small);
        self.files = kept;
        self.rebuild();
        // With long names, or more directories than files, that may not be enough.
        self.is_closed = self.names.len() > self.most.1 / 4 * 3;
    }

    /// Keeps the used names. Directories are renumbered, parents first.
    fn rebuild(&mut self) {
        let (dirs, names) = (std::mem::take(&mut self.dirs), std::mem::take(&mut self.names));
        let old = Self { dirs, names, ..Self::with(0, 0) };
        let mut needed = vec![false; old.dirs.len()];
        let open: Vec<_> = self.open.iter().filter_map(|open| open.id).collect();
        for mut at in self.files.iter().map(|file| file.dir).chain(open) {
            while !std::mem::replace(&mut needed[at as usize], true) && old.dirs[at as usize].name != ROOT {
                at = old.dirs[at as usize].parent;
            }
        }
        let mut number_of = vec![ROOT; old.dirs.len()];
        for (at, record) in old.dirs.iter().enumerate().filter(|(at, _)| needed[*at]) {
            let is_root = record.name == ROOT;
            let parent = if is_root { record.parent } else { number_of[record.parent as usize] };
            let name = if is_root { ROOT } else { self.copy_name(&old, record.name) };
            number_of[at] = u32::try_from(self.dirs.len()).unwrap_or(ROOT);
            self.dirs.push(DirRecord { parent, name });
        }
        let mut files = std::mem::take(&mut self.files);
        for file in &mut files {
            (file.dir, file.name) = (number_of[file.dir as usize], self.copy_name(&old, file.name));
        }
        self.files = files;
        for open in &mut self.open {
            open.id = open.id.map(|id| number_of[id as usize]);
        }
    }

    fn copy_name(&mut self, old: &Self, at: u32) -> u32 {
        let new = u32::try_from(self.names.len()).unwrap_or(ROOT);
        let end = at as usize + 2 + old.name(at).0.len();
        self.names.extend_from_slice(&old.names[at as usize..end]);
        new
    }

    /// Groups files of equal size, and passes each group to `each`.
    pub fn groups(&mut self, mut each: impl FnMut(u64, std::ops::Range<FileId>)) {
        self.files.shrink_to_fit();
        self.files.sort_by_key(|file| file.size);
        let mut begin = 0;
        for run in self.files.chunk_by(|a, b| a.size == b.size) {
            let end = begin + run.len();
            each(run[0].size, begin..end);
            begin = end;
        }
    }

    /// Bytes of a file.
    pub fn size(&self, file: FileId) -> u64 {
        self.files[file].size
    }

    /// A number that increases in the order of discovery.
    pub fn order(&self, file: FileId) -> u32 {
        self.files[file].name
    }

    /// Dropped files, and the smallest complete size.
    pub fn left_out(&self) -> (FileTotals, u64) {
        (self.left_out, self.floor)
    }

    /// The path of a file, in the user's terms.
    pub fn path(&self, file: FileId) -> Vec<u8> {
        let record = self.files[file];
        let mut names = vec![self.name(record.name).0];
        let mut dir = self.dirs[record.dir as usize];
        while dir.name != ROOT {
            names.push(self.name(dir.name).0);
            dir = self.dirs[dir.parent as usize];
        }
        names.reverse();
        below(&self.roots[dir.parent as usize].label, &names.join(&b'/'))
    }
}

/// Opens files of a catalog, one after the other. Directories are opened one component at a time.
pub struct CatalogOpener<'c> {
    catalog: &'c Catalog,
    opened: HashMap<u32, Dir>,
    /// Whether directories may be symbolic links.
    links: FollowLinks,
}

impl<'c> CatalogOpener<'c> {
    /// An opener without open directories.
    pub fn new(catalog: &'c Catalog, links: FollowLinks) -> Self {
        Self { catalog, opened: HashMap::new(), links }
    }

    /// Opens a file; returns its present properties as well.
    pub fn open(&mut self, file: FileId) -> io::Result<(OwnedFd, FileStat)> {
        let record = self.catalog.files[file];
        let dir = self.directory(record.dir)?;
        let (name, links) = self.catalog.name(record.name);
        dir.open_file(&Name::new(name).map_err(io::Error::other)?, links)
    }

    fn directory(&mut self, id: u32) -> io::Result<Dir> {
        let Catalog { dirs, roots, .. } = self.catalog;
        let (mut ids, mut at) = (Vec::new(), id);
        let mut dir = loop {
            if let Some(dir) = self.opened.get(&at) {
                break dir.clone();
            }
            let record = dirs[at as usize];
            if record.name == ROOT {
                break roots[record.parent as usize].dir.clone();
            }
            ids.push(at);
            at = record.parent;
        };
        while let Some(id) = ids.pop() {
            let (name, _) = self.catalog.name(dirs[id as usize].name);
            dir = dir.child_with_stat(&Name::new(name).map_err(io::Error::other)?, self.links)?.0;
            if self.opened.len() >= OPENED_MAX {
                self.opened.clear();
            }
            self.opened.insert(id, dir.clone());
        }
        Ok(dir)
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    fn name(text: &str) -> Name {
        Name::new(text.as_bytes()).unwrap()
    }

    fn read(file: impl AsFd) -> Vec<u8> {
        let mut bytes = [0; 64];
        let len = haul_engine::read_at(file, &mut bytes, 0).unwrap();
        bytes[..len].to_vec()
    }

    /// A catalog of `count` files `d<i / 10>/f<i>` of sizes 1 to `count`.
    fn filled(root: Dir, count: u64, most: (usize, usize)) -> Catalog {
        let mut catalog = Catalog::with(most.0, most.1);
        catalog.enter_root(root, b"top");
        for i in 0..count {
            catalog.enter(&name(&format!("d{}", i / 10)));
            catalog.add(&name(&format!("f{i}")), FollowLinks::Itself, i + 1);
            catalog.leave();
        }
        catalog
    }

    #[test]
    fn files_are_found_again_by_size_and_opened() {
        let temp = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(temp.path().join("a/b")).unwrap();
        std::fs::write(temp.path().join("a/b/one"), "one").unwrap();
        std::fs::write(temp.path().join("two"), "two").unwrap();
        let mut catalog = Catalog::new();
        catalog.enter_root(Dir::open_root(temp.path()).unwrap(), b"top/");
        ["a", "b"].iter().for_each(|dir| catalog.enter(&name(dir)));
        catalog.add(&name("one"), FollowLinks::Itself, 3);
        catalog.add(&name("empty"), FollowLinks::Itself, 0);
        ["b", "a"].iter().for_each(|_| catalog.leave());
        catalog.add(&name("two"), FollowLinks::Itself, 3);
        catalog.add(&name("gone"), FollowLinks::Itself, 2);
        let mut groups = Vec::new();
        catalog.groups(|size, files| groups.push((size, files)));
        assert_eq!(groups, [(2, 0..1), (3, 1..3)]);
        assert_eq!([0, 1, 2].map(|file| catalog.path(file)), [&b"top/gone"[..], b"top/a/b/one", b"top/two"]);
        let mut opener = CatalogOpener::new(&catalog, FollowLinks::Itself);
        assert_eq!(read(opener.open(1).unwrap().0), b"one");
        assert_eq!(read(opener.open(2).unwrap().0), b"two");
        assert!(opener.open(0).is_err());
    }

    #[test]
    fn a_directory_replaced_by_a_link_is_not_followed() {
        let temp = tempfile::tempdir().unwrap();
        std::fs::create_dir(temp.path().join("elsewhere")).unwrap();
        std::fs::write(temp.path().join("elsewhere/f"), "secret").unwrap();
        std::os::unix::fs::symlink("elsewhere", temp.path().join("d")).unwrap();
        let mut catalog = Catalog::new();
        catalog.enter_root(Dir::open_root(temp.path()).unwrap(), b"");
        catalog.enter(&name("d"));
        catalog.add(&name("f"), FollowLinks::Itself, 6);
        assert!(CatalogOpener::new(&catalog, FollowLinks::Itself).open(0).is_err());
        assert!(CatalogOpener::new(&catalog, FollowLinks::Followed).open(0).is_ok());
    }

    #[test]
    fn without_room_small_files_are_forgotten_and_big_ones_stay() {
        let temp = tempfile::tempdir().unwrap();
        let root = Dir::open_root(temp.path()).unwrap();
        let mut catalog = filled(root, 1000, (100, 1 << 20));
        assert!(catalog.files.len() <= 100);
        let (left, floor) = catalog.left_out();
        assert_eq!(left.files, floor - 1, "all below it, and none above it");
        let mut paths = Vec::new();
        let mut ranges = Vec::new();
        catalog.groups(|size, files| ranges.push((size, files)));
        ranges.into_iter().for_each(|(size, files)| paths.push((size, catalog.path(files.start))));
        let expected: Vec<_> =
            (floor..=1000).map(|size| (size, format!("top/d{}/f{}", (size - 1) / 10, size - 1).into_bytes())).collect();
        assert_eq!(paths, expected);
    }

    #[test]
    fn memory_for_names_is_bounded() {
        let temp = tempfile::tempdir().unwrap();
        let root = Dir::open_root(temp.path()).unwrap();
        let catalog = filled(root, 20_000, (1 << 20, 10_000));
        assert!(catalog.names.len() < 10_000 + 1024, "{}", catalog.names.len());
        let mut same = Catalog::with(100, 1 << 20);
        same.enter_root(Dir::open_root(temp.path()).unwrap(), b"");
        (0..1000).for_each(|i| same.add(&name(&format!("{i}")), FollowLinks::Itself, 7));
        assert!(same.files.len() <= 100);
        assert_eq!(same.left_out().0.files + same.files.len() as u64, 1000);
    }
}

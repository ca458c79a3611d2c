//! The walk of a survey, which feeds all collectors.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use haul_base::copy::display_path::{below, own_name};
use haul_base::copy::error::Error;
use haul_base::copy::spec::names_null;
use haul_base::sys::cancel::Cancel;
use haul_base::sys::describe::describe;
use haul_engine::FileExtents;
use haul_engine::fs::{
    Dir, DirAccess, FdCache, FileStat, FollowLinks, MAX_OPEN_DIRECTORIES, Prefetcher, SpecialFiles, WalkEntry,
    WalkFilter, WalkOptions, Walker,
};
use haul_proto::path::Name;
use rustix::fs::FileType;

use super::catalog::Catalog;
use super::sample::FramePicker;
use super::tally::{BigDirectory, BigFile, FileTotals, LinkedTally, SizeClasses};
use super::tree::SurveyDirectory;
use super::{Ask, Survey, SurveyObserver, SurveyProgress, SurveyStage, duplicates};
use crate::survey::extensions::ExtensionTable;
use crate::survey::target_survey::TargetComparison;
use crate::survey::top_n::TopN;

/// Most listed files and directories of the biggest.
const BIGGEST: usize = 20;
/// Number of files between progress reports.
const REPORT_EVERY: u64 = 512;
/// Most remembered directories of named files.
const PARENTS_MAX: usize = 1024;
/// Mode bits that make a readability check unnecessary.
const READABLE: u16 = 0o444;

/// The directory tree of the walk.
#[derive(Default)]
struct DirectoryStack {
    /// Above all arguments.
    root: SurveyDirectory,
    /// Open directories.
    open: Vec<SurveyDirectory>,
}

impl DirectoryStack {
    fn innermost(&mut self) -> &mut SurveyDirectory {
        self.open.last_mut().unwrap_or(&mut self.root)
    }
}

/// The results of the walk.
pub struct SurveyResult {
    /// The totals, and unreadable entries.
    found: Survey,
    sizes: SizeClasses,
    directories: TopN<BigDirectory>,
    files: TopN<BigFile>,
    kinds: ExtensionTable,
    tree: DirectoryStack,
    linked: LinkedTally,
    /// `None` without a search for duplicates.
    catalog: Option<Catalog>,
    /// `None` without a sample.
    picker: Option<FramePicker>,
    beside: Option<TargetComparison>,
    reported: u64,
}

/// Walks all paths of `ask`.
pub fn gather(
    ask: &Ask,
    filter: Option<&WalkFilter>,
    cancel: &Cancel,
    listener: SurveyObserver<'_>,
) -> Result<SurveyResult, Error> {
    let beside = TargetComparison::of(ask)?;
    let options = WalkOptions {
        recursive: true,
        symlinks: ask.symlinks,
        skip: beside.as_ref().and_then(TargetComparison::identity),
        one_file_system: ask.one_file_system,
        is_filtered: filter.is_some(),
        nodes: SpecialFiles { devices: true, specials: true },
        only_counts_files: false,
    };
    let ahead = Prefetcher::new(options, cancel.clone());
    let cache = FdCache::new(MAX_OPEN_DIRECTORIES);
    let mut gathered = SurveyResult::new(ask, beside);
    let mut parents = HashMap::new();
    for path in &ask.paths {
        gathered.operand(path, &ahead, filter, &cache, &mut parents, listener);
    }
    let seen = gathered.found.totals.files.bytes;
    gathered.tree.root.finish(seen);
    if cancel.is_cancelled() { Err(Error::Interrupted) } else { Ok(gathered) }
}

impl SurveyResult {
    fn new(ask: &Ask, beside: Option<TargetComparison>) -> Self {
        Self {
            found: Survey::default(),
            sizes: SizeClasses::default(),
            directories: TopN::new(BIGGEST),
            files: TopN::new(BIGGEST),
            kinds: ExtensionTable::default(),
            tree: DirectoryStack::default(),
            linked: LinkedTally::default(),
            catalog: ask.duplicates.then(Catalog::new),
            picker: ask.sample.then(FramePicker::new),
            beside,
            reported: 0,
        }
    }

    fn operand(
        &mut self,
        path: &Path,
        ahead: &Prefetcher,
        filter: Option<&WalkFilter>,
        cache: &Arc<FdCache>,
        parents: &mut HashMap<PathBuf, Dir>,
        listener: SurveyObserver<'_>,
    ) {
        let typed = path.as_os_str().as_bytes();
        let stat = match rustix::fs::stat(path) {
            // `null:` is not a file.
            Err(_) if names_null(path.as_os_str()) => return self.fail(typed.to_vec(), NULL),
            Err(error) => return self.fail(typed.to_vec(), &describe(&error.into())),
            Ok(stat) => FileStat::from(&stat),
        };
        match stat.kind {
            FileType::Directory => match Dir::open_operand(path, DirAccess::List, Arc::clone(cache)) {
                Ok(dir) => {
                    let name = own_name(path).and_then(|name| Name::new(name.as_bytes()).ok());
                    let walker = Walker::prefetched(dir.clone(), ahead).filtered(filter).transferred_as(name);
                    self.tree(path, &dir, walker, listener)
                }
                Err(error) => self.fail(typed.to_vec(), &describe(&error)),
            },
            FileType::RegularFile => self.operand_file(path, &stat, cache, parents),
            _ => self.found.totals.others += 1,
        }
    }

    /// Adds a named file, or a link to one.
    fn operand_file(
        &mut self,
        path: &Path,
        stat: &FileStat,
        cache: &Arc<FdCache>,
        parents: &mut HashMap<PathBuf, Dir>,
    ) {
        let typed = path.as_os_str().as_bytes();
        let Some(name) = own_name(path).and_then(|name| Name::new(name.as_bytes()).ok()) else {
            return self.fail(typed.to_vec(), "the path does not end in a file name");
        };
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let dir = match parents.get(parent) {
            Some(dir) => dir.clone(),
            None => match Dir::open_operand(parent, DirAccess::Search, Arc::clone(cache)) {
                Ok(dir) => dir,
                Err(error) => return self.fail(typed.to_vec(), &describe(&error)),
            },
        };
        if parents.len() >= PARENTS_MAX {
            parents.clear();
        }
        parents.insert(parent.to_owned(), dir.clone());
        let label = typed.strip_suffix(name.as_bytes()).unwrap_or_default();
        self.catalog.iter_mut().for_each(|catalog| catalog.enter_root(dir.clone(), label));
        self.file(label, &dir, &name, FollowLinks::Followed, stat);
        self.catalog.iter_mut().for_each(Catalog::leave);
    }

    fn tree(&mut self, path: &Path, root: &Dir, walker: Walker<'_>, listener: SurveyObserver<'_>) {
        let typed = path.as_os_str().as_bytes();
        for found in walker {
            self.found(path, typed, root, found);
            if self.found.totals.files.files >= self.reported + REPORT_EVERY {
                self.reported = self.found.totals.files.files;
                let FileTotals { files, bytes } = self.found.totals.files;
                listener(SurveyProgress { stage: SurveyStage::Walking, files, bytes });
            }
        }
        // A stopped walk leaves directories open.
        while !self.tree.open.is_empty() {
            self.leave(typed, root);
        }
    }

    fn found(&mut self, path: &Path, typed: &[u8], root: &Dir, found: WalkEntry) {
        match found {
            WalkEntry::EnterDir { dir, .. } => self.enter(path, typed, root, &dir),
            WalkEntry::LeaveDir { dir, .. } => self.leave(typed, &dir),
            WalkEntry::Filtered { .. } => self.found.totals.filtered += 1,
            WalkEntry::FilteredFiles { count } => self.found.totals.filtered += count,
            WalkEntry::File { name, .. } | WalkEntry::Symlink { name, .. } if name.is_reserved() => {
                self.found.totals.left_out += 1
            }
            WalkEntry::File { parent, name, links, stat } => self.file(typed, &parent, &name, links, &stat),
            WalkEntry::Symlink { .. } => self.found.totals.links += 1,
            WalkEntry::Node { .. } => self.found.totals.others += 1,
            WalkEntry::LeftOut { .. } => self.found.totals.left_out += 1,
            WalkEntry::Vanished { .. } | WalkEntry::VanishedDir { .. } => {}
            WalkEntry::Failed { path, error } => self.fail(below(typed, &path), &describe(&error)),
        }
    }

    fn enter(&mut self, path: &Path, typed: &[u8], root: &Dir, dir: &Dir) {
        self.found.totals.directories += 1;
        match dir.name() {
            None => {
                self.tree.open.push(SurveyDirectory::new(typed.to_vec()));
                self.catalog.iter_mut().for_each(|catalog| catalog.enter_root(root.clone(), typed));
                self.beside.iter_mut().for_each(|beside| beside.enter_operand(path));
            }
            Some(name) => {
                self.tree.open.push(SurveyDirectory::new(name.as_bytes().to_vec()));
                self.catalog.iter_mut().for_each(|catalog| catalog.enter(name));
                self.beside.iter_mut().for_each(|beside| beside.enter(name));
            }
        }
    }

    fn leave(&mut self, typed: &[u8], dir: &Dir) {
        let Some(node) = self.tree.open.pop() else { return };
        self.catalog.iter_mut().for_each(Catalog::leave);
        self.beside.iter_mut().for_each(TargetComparison::leave);
        let (own, all) = (node.own, node.all);
        self.directories.offer(all.bytes, || BigDirectory { path: below(typed, &dir.path_bytes()), own, all });
        let (depth, seen) = (self.tree.open.len() + 1, self.found.totals.files.bytes);
        self.tree.innermost().adopt(node, depth, seen);
    }

    /// Adds a file of the innermost directory, or a named one.
    fn file(&mut self, typed: &[u8], parent: &Dir, name: &Name, links: FollowLinks, stat: &FileStat) {
        let bytes = stat.size;
        self.found.totals.files.add(bytes);
        self.sizes.add(bytes);
        self.kinds.add(name.as_bytes(), bytes);
        let path = || below(typed, &parent.path_of(name.as_bytes()));
        self.files.offer(bytes, || BigFile { path: path(), bytes });
        if stat.meta.mode & READABLE != READABLE && parent.is_denied(name, links).unwrap_or(false) {
            self.found.unreadable.add(path, || describe(&std::io::ErrorKind::PermissionDenied.into()));
        }
        let data_bytes = data_bytes(parent, name, links, stat);
        self.found.totals.data_bytes = self.found.totals.data_bytes.saturating_add(data_bytes);
        let is_named = self.tree.open.is_empty();
        match &mut self.beside {
            Some(beside) if is_named => beside.operand(name, stat, data_bytes),
            Some(beside) => beside.file(name, stat, data_bytes),
            None => {}
        }
        self.tree.innermost().add(bytes);
        self.picker.iter_mut().for_each(|picker| picker.file(parent, name, links, bytes, data_bytes));
        match self.linked.count_name(stat) {
            true => self.found.totals.linked.add(bytes),
            false => self.catalog.iter_mut().for_each(|catalog| catalog.add(name, links, bytes)),
        }
    }

    fn fail(&mut self, path: Vec<u8>, text: &str) {
        self.found.unreadable.add(|| path, || text.to_owned());
    }

    /// Reads files if requested, and returns the survey.
    pub fn finish(self, ask: &Ask, cancel: &Cancel, listener: SurveyObserver<'_>) -> Result<Survey, Error> {
        let deadline = Instant::now() + ask.time;
        let files = self.found.totals.files.files;
        let sample = self.picker.and_then(|picker| {
            picker.measure(deadline, cancel, |bytes| {
                listener(SurveyProgress { stage: SurveyStage::Sampling, files, bytes })
            })
        });
        let links = if ask.symlinks.follows() { FollowLinks::Followed } else { FollowLinks::Itself };
        let duplicates = self.catalog.map(|catalog| {
            let tell = |bytes| listener(SurveyProgress { stage: SurveyStage::Comparing, files, bytes });
            duplicates::find(catalog, links, deadline, cancel, tell)
        });
        if cancel.is_cancelled() {
            return Err(Error::Interrupted);
        }
        let (kinds, other_kinds) = self.kinds.finish();
        Ok(Survey {
            sizes: self.sizes.finish(),
            directories: self.directories.into_sorted(),
            files: self.files.into_sorted(),
            kinds,
            other_kinds,
            tree: self.tree.root,
            duplicates,
            sample,
            there: self.beside.map(TargetComparison::finish),
            ..self.found
        })
    }
}

const NULL: &str = "null: is not a file";

/// Bytes outside holes. For a file that cannot be opened, its allocated blocks are an estimate.
fn data_bytes(parent: &Dir, name: &Name, links: FollowLinks, stat: &FileStat) -> u64 {
    if !stat.may_have_holes() {
        return stat.size;
    }
    match parent.open_file(name, links) {
        Ok((file, now)) => FileExtents::default().data_bytes(&file, now.size),
        Err(_) => stat.room,
    }
}

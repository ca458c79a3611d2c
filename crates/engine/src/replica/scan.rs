//! The scan of a replica: its walk, in the order of the tree, joined with the archive.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::{io, iter};

use haul_base::copy::spec::Symlinks;
use haul_base::sys::describe::describe;
use haul_proto::entry::{EntryMetadata, Timestamp};
use haul_proto::filter::FilterScope;
use haul_proto::filter::definition::{FileLimits, FilterOptions};
use haul_proto::path::Name;
use haul_proto::twoway::archive::ArchiveError;
use haul_proto::twoway::detect::{DetectUpdates, DetectedChange, ReplicaUpdate, resolve};
use haul_proto::twoway::entry::{FileStamp, PathEntry, ReplicaContent, ReplicaEntry, ReplicaMetadata, TreePath};
use haul_proto::twoway::is_own;
use haul_proto::twoway::merge::MetadataRules;
use haul_proto::twoway::unreadable::UnreadablePath;
use rustix::fs::{Mode, OFlags, openat};

use super::attributes::add_attributes;
use super::error::ReplicaError;
use super::root::{ReplicaRoot, entry_of, is_absent, now};
use crate::fs::{Dir, SpecialFiles, WalkEntry, WalkFilter, WalkOptions, Walker};

/// Entries that do not belong to a replica.
pub struct ReplicaFilter {
    patterns: Option<WalkFilter>,
    /// The directory for backups, if it is below the root.
    backups: Option<TreePath>,
    /// Whether only some paths are looked at.
    is_partial: bool,
}

/// What a scan found.
pub struct ScannedReplica {
    /// This host's clock at its start.
    pub started: Timestamp,
    /// All entries, in order, without digests.
    pub entries: Vec<PathEntry>,
    /// Number of entries in the base.
    pub archived: u64,
    /// Number of those that are not among the only paths to look at.
    pub unseen: u64,
    /// Updates, in order.
    pub updates: Vec<ReplicaUpdate>,
    /// Files that were hashed and are unchanged.
    pub restamped: BTreeMap<TreePath, PathEntry>,
    /// What could not be read.
    pub unreadable: Vec<UnreadablePath>,
    /// Number of files that were hashed.
    pub hashed: u64,
}

impl ReplicaFilter {
    /// Parses patterns. Other filters are refused: both ends have to exclude the same paths, present or not.
    pub fn new(filters: &FilterOptions, backups: Option<TreePath>) -> Result<Self, ReplicaError> {
        if !filters.files.is_empty() || filters.limits != FileLimits::default() {
            return Err(ReplicaError::FilterKind);
        }
        let patterns = WalkFilter::new(filters).map_err(|error| ReplicaError::Filter(error.to_string()))?;
        Ok(Self { patterns, backups, is_partial: filters.changed.is_some() })
    }

    /// Whether a path is no part of the replica.
    pub fn excludes(&self, path: &TreePath, is_directory: bool) -> bool {
        let names = path.as_bytes().split(|byte| *byte == b'/').filter_map(|name| Name::new(name).ok()).collect();
        self.is_backup(path) || self.patterns.as_ref().is_some_and(|filter| filter.leaves_out_path(names, is_directory))
    }

    fn is_backup(&self, path: &TreePath) -> bool {
        self.backups.as_ref().is_some_and(|backups| path == backups || path.is_below(backups))
    }

    /// Leaves excluded paths out of an archive, as a walk leaves them out of a tree.
    pub fn visible<'f>(
        &'f self,
        entries: impl Iterator<Item = Result<PathEntry, ArchiveError>> + 'f,
    ) -> impl Iterator<Item = Result<PathEntry, ArchiveError>> + 'f {
        let mut hides = HiddenPaths::new(self.patterns.as_ref());
        let mut is_visible = move |entry: &PathEntry| {
            !self.is_backup(&entry.path) && !hides.hides(&entry.path, entry.entry.content.is_directory())
        };
        entries.filter(move |entry| entry.as_ref().map_or(true, &mut is_visible))
    }
}

/// Excluded paths of a sequence in the order of the tree.
struct HiddenPaths<'f> {
    filter: Option<&'f WalkFilter>,
    /// Scopes of the directories above the next path, outermost first.
    scopes: Vec<(Option<TreePath>, Arc<FilterScope>)>,
    hidden: Option<TreePath>,
}

impl<'f> HiddenPaths<'f> {
    fn new(filter: Option<&'f WalkFilter>) -> Self {
        let root = filter.and_then(|filter| filter.scope(None, &[], 0).ok());
        Self { filter, scopes: root.into_iter().map(|scope| (None, scope)).collect(), hidden: None }
    }

    fn hides(&mut self, path: &TreePath, is_directory: bool) -> bool {
        let Some(filter) = self.filter else { return false };
        if self.hidden.as_ref().is_some_and(|hidden| path.is_below(hidden)) {
            return true;
        }
        while self.scopes.last().is_some_and(|(dir, _)| dir.as_ref().is_some_and(|dir| !path.is_below(dir))) {
            self.scopes.pop();
        }
        let (Some((_, above)), Ok(name)) = (self.scopes.last(), Name::new(path.split_name().1)) else { return false };
        if filter.matcher().leaves_out(above, name.as_bytes(), is_directory) {
            self.hidden = is_directory.then(|| path.clone());
            return true;
        }
        if is_directory && let Ok(scope) = filter.scope(Some((Arc::clone(above), name)), &[], 0) {
            self.scopes.push((Some(path.clone()), scope));
        }
        false
    }
}

/// Walks a replica. Returns its entries, and what could not be read. An unreadable root ends the run.
fn walk(
    root: &ReplicaRoot,
    filter: &ReplicaFilter,
    rules: &MetadataRules,
) -> Result<(Vec<PathEntry>, Vec<UnreadablePath>), ReplicaError> {
    let failed = |path: Vec<u8>, error| ReplicaError::Unreadable(path, error);
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    // A listing of its own.
    let opened = root.dir.fd().and_then(|fd| Dir::from_fd(openat(&*fd, c".", flags, Mode::empty())?));
    let options = WalkOptions {
        recursive: true,
        symlinks: Symlinks::Keep,
        skip: None,
        one_file_system: false,
        is_filtered: filter.patterns.is_some(),
        nodes: SpecialFiles { devices: true, specials: true },
        only_counts_files: false,
    };
    let (mut entries, mut unreadable) = (Vec::new(), Vec::new());
    let mut own: Option<Dir> = None;
    let mut above: Vec<TreePath> = Vec::new();
    for found in
        Walker::new(opened.map_err(|error| failed(Vec::new(), error))?, options).filtered(filter.patterns.as_ref())
    {
        let (parent, name, mut entry) = match found {
            WalkEntry::EnterDir { dir, meta, .. } => match (dir.parent().cloned(), dir.name().cloned()) {
                (Some(parent), Some(name)) => {
                    if own.is_none() && is_own(&name, parent.parent().is_none()) {
                        own = Some(dir);
                    }
                    (parent, name, plain(ReplicaContent::Directory, meta))
                }
                _ => continue,
            },
            WalkEntry::LeaveDir { dir, .. } => {
                above.pop();
                if own.as_ref().is_some_and(|own| own.identity() == dir.identity()) {
                    own = None;
                }
                continue;
            }
            WalkEntry::File { parent, name, stat, .. } => (parent, name, entry_of(&stat, Box::default())),
            WalkEntry::Symlink { parent, name, points_to, meta } => {
                (parent, name, plain(ReplicaContent::Symlink { points_to }, meta))
            }
            WalkEntry::Node { parent, name, node, meta } => (parent, name, plain(ReplicaContent::Special(node), meta)),
            WalkEntry::Failed { path, error } => {
                let Ok(path) = TreePath::new(&path) else { return Err(failed(path, error)) };
                unreadable.push(unread(path, &error));
                continue;
            }
            _ => continue,
        };
        let path = TreePath::child(above.last(), &name)?;
        if entry.content.is_directory() {
            above.push(path.clone());
        }
        if own.is_some() || is_own(&name, parent.parent().is_none()) {
            continue;
        }
        if filter.is_backup(&path) {
            continue;
        }
        match add_attributes(&mut entry, &parent, &name, rules) {
            Ok(()) => entries.push(PathEntry { path, entry }),
            Err(error) if is_absent(&error) => {}
            Err(error) => unreadable.push(unread(path, &error)),
        }
    }
    // Paths are shared, and entries are large: each is moved once.
    entries.sort_by_cached_key(|entry| entry.path.clone());
    Ok((entries, unreadable))
}

fn unread(path: TreePath, error: &io::Error) -> UnreadablePath {
    UnreadablePath { path, text: describe(error) }
}

fn plain(content: ReplicaContent, basic: EntryMetadata) -> ReplicaEntry {
    let metadata = ReplicaMetadata { basic, ..ReplicaMetadata::default() };
    ReplicaEntry { content, metadata, stamp: None }
}

impl ScannedReplica {
    /// Scans a replica, and hashes files where stamps do not decide.
    pub fn new(
        root: &ReplicaRoot,
        filter: &ReplicaFilter,
        archive: impl Iterator<Item = Result<PathEntry, ArchiveError>>,
        rules: &MetadataRules,
    ) -> Result<Self, ReplicaError> {
        let started = now();
        let (entries, mut unreadable) = walk(root, filter, rules)?;
        let (mut archived, mut seen, mut hashed) = (0, 0, 0);
        let (mut updates, mut restamped) = (Vec::new(), BTreeMap::new());
        let archive = filter.visible(archive.inspect(|_| archived += 1)).inspect(|_| seen += 1);
        let found = entries.iter().map(Ok);
        for change in DetectUpdates::new(archive, found, *rules) {
            let change = match change? {
                DetectedChange::Unsure(update) => {
                    hashed += 1;
                    let stamp = update.found.as_ref().and_then(|found| found.stamp);
                    match stamp.map(|stamp| root.digest(&update.path, stamp)).transpose() {
                        Ok(digest) => resolve(update, digest.flatten(), rules),
                        Err(error) => {
                            unreadable.push(unread(update.path, &error));
                            continue;
                        }
                    }
                }
                other => other,
            };
            match change {
                DetectedChange::Updated(update) | DetectedChange::Unsure(update) => updates.push(update),
                DetectedChange::Restamped(entry) => drop(restamped.insert(entry.path.clone(), entry)),
            }
        }
        let unseen = if filter.is_partial { archived - seen } else { 0 };
        Ok(Self { started, entries, archived, unseen, updates, restamped, unreadable, hashed })
    }

    /// Returns the stamp that a file had at the scan.
    pub fn stamp(&self, path: &TreePath) -> Option<FileStamp> {
        let at = self.entries.binary_search_by(|entry| entry.path.cmp(path)).ok()?;
        self.entries[at].entry.stamp
    }
}

/// An archive without entries.
pub fn no_archive() -> iter::Empty<Result<PathEntry, ArchiveError>> {
    iter::empty()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use haul_proto::filter::{ListSyntax, PatternList};

    use super::*;

    const RULES: MetadataRules = MetadataRules::ALL;

    fn filter(patterns: &str) -> ReplicaFilter {
        let list = PatternList { text: patterns.as_bytes().to_vec(), syntax: ListSyntax::File, includes: false };
        let lists = if patterns.is_empty() { Vec::new() } else { vec![list] };
        ReplicaFilter::new(&FilterOptions { lists, ..FilterOptions::default() }, None).unwrap()
    }

    fn scan(path: &Path, patterns: &str, archive: &[PathEntry]) -> ScannedReplica {
        let root = ReplicaRoot::open(path).unwrap();
        ScannedReplica::new(&root, &filter(patterns), archive.iter().cloned().map(Ok), &RULES).unwrap()
    }

    fn paths<'p>(paths: impl IntoIterator<Item = &'p TreePath>) -> Vec<String> {
        paths.into_iter().map(ToString::to_string).collect()
    }

    fn tree() -> tempfile::TempDir {
        let temp = tempfile::tempdir().unwrap();
        fs::create_dir_all(temp.path().join("d/e")).unwrap();
        for name in ["d/e/f", "d/g", "d.x", "a.tmp"] {
            fs::write(temp.path().join(name), name).unwrap();
        }
        std::os::unix::fs::symlink("d", temp.path().join("l")).unwrap();
        temp
    }

    #[test]
    fn all_entries_are_found_in_the_order_of_the_tree() {
        let temp = tree();
        fs::create_dir_all(temp.path().join(".haul-twoway/incoming")).unwrap();
        let found = scan(temp.path(), "", &[]);
        let expected = ["a.tmp", "d", "d/e", "d/e/f", "d/g", "d.x", "l"];
        assert_eq!(paths(found.entries.iter().map(|entry| &entry.path)), expected);
        assert_eq!((found.updates.len(), found.archived), (7, 0));
    }

    #[test]
    fn excluded_paths_are_no_updates_even_if_the_archive_has_them() {
        let temp = tree();
        let archive = scan(temp.path(), "", &[]).entries;
        fs::remove_dir_all(temp.path().join("d/e")).unwrap();
        fs::remove_file(temp.path().join("a.tmp")).unwrap();
        let updated = |patterns| paths(scan(temp.path(), patterns, &archive).updates.iter().map(|update| &update.path));
        assert_eq!(updated("*.tmp\ne/"), [] as [&str; 0]);
        assert_eq!(updated("*.tmp"), ["d/e", "d/e/f"]);
    }

    #[test]
    fn other_filters_are_refused() {
        let limits = FileLimits { max_size: Some(1), ..FileLimits::default() };
        let refused = ReplicaFilter::new(&FilterOptions { limits, ..FilterOptions::default() }, None);
        assert!(matches!(refused.err(), Some(ReplicaError::FilterKind)));
    }

    #[test]
    fn a_file_that_was_touched_is_hashed_and_found_unchanged() {
        let temp = tree();
        let mut archive = scan(temp.path(), "", &[]).entries;
        let file = archive.iter_mut().find(|entry| entry.path.as_bytes() == b"d/g").unwrap();
        file.entry.content = ReplicaContent::File { size: 3, digest: Some(*blake3::hash(b"d/g").as_bytes()) };
        file.entry.stamp = None;
        let found = scan(temp.path(), "", &archive);
        assert_eq!((found.hashed, found.restamped.len()), (1, 1));
        assert!(found.updates.iter().all(|update| update.path.as_bytes() != b"d/g"));
    }
}

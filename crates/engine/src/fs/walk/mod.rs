//! The source's walk: everything below a directory, depth first, in listing order.
//!
//! A directory's listing is read in chunks: first the entries of a chunk, then its subdirectories, then the next chunk.
//! So the first file is found before the end of a listing, and memory has one chunk's names per level, for any number
//! of files. Only directories are opened. If lookups wait, prefetch workers make them in advance
//! ([`crate::fs::walk::walk_prefetch`]); the order stays the same.

mod walk_level;
mod walk_prefetch;

use std::collections::HashSet;
use std::io;
use std::sync::Arc;

use haul_base::copy::spec::Symlinks;
use haul_proto::entry::{EntryMetadata, SpecialFile};
use haul_proto::filter::FilterScope;
use haul_proto::path::Name;
use rustix::fs::FileType;
use rustix::io::Errno;

use super::dir::Dir;
use super::filter::{PatternFile, WalkFilter};
use super::listing::{KnownName, ListedName, ListingChunk, ListingPosition};
use super::meta::{FileIdentity, FileStat, FollowLinks};
use crate::fs::WalkOptions;
use crate::fs::listing::{OpenSubdirectory, OpenedSubdirectory};
use crate::fs::listing_buffer::ListingBuffer;
use crate::fs::prefetch::Prefetcher;
use crate::fs::prefetch::task::LookupHandle;
use crate::fs::repeated_names::{EarlierNames, RepeatedNames};
use crate::fs::walk::walk_level::{QueuedSubdirectory, WalkLevel};
use crate::fs::walk::walk_prefetch::WalkPrefetch;
use crate::fs::walk_lookup::{WalkLookup, WalkStep};

pub use haul_base::copy::event::MISSING;

/// Why an unsafe link is skipped ([`Symlinks::Safe`]).
pub const UNSAFE_LINK: &str = "is an unsafe symbolic link: it may lead out of the copied tree";

/// One entry of a walk. Entries between a [`WalkEntry::EnterDir`] and its [`WalkEntry::LeaveDir`] are in that directory
/// or below.
#[derive(Debug)]
pub enum WalkEntry {
    /// A directory, before anything in it. The first one is the root.
    EnterDir {
        /// The directory. Its parent is the innermost open directory.
        dir: Dir,
        /// Its metadata.
        meta: EntryMetadata,
        /// The filter files in it.
        patterns: Vec<PatternFile>,
    },
    /// A regular file.
    File {
        /// Its directory.
        parent: Dir,
        /// Its name there.
        name: Name,
        /// Whether `name` is a link to follow to the file (only if [`Symlinks::follows`]).
        links: FollowLinks,
        /// Its properties.
        stat: FileStat,
    },
    /// A symbolic link that is copied as such.
    Symlink {
        /// Its directory.
        parent: Dir,
        /// Its name there.
        name: Name,
        /// Its text.
        points_to: Box<[u8]>,
        /// Its own metadata.
        meta: EntryMetadata,
    },
    /// A device, FIFO or socket (only where [`SpecialFiles`](super::SpecialFiles) says so).
    Node {
        /// Its directory.
        parent: Dir,
        /// Its name there.
        name: Name,
        /// Its kind.
        node: SpecialFile,
        /// Its metadata.
        meta: EntryMetadata,
    },
    /// A directory, after everything in it.
    LeaveDir {
        /// The directory.
        dir: Dir,
        /// Whether all its entries were found, or excluded with a reason. `false` after a failure in this directory
        /// itself, not in subdirectories.
        complete: bool,
        /// Whether its contents were not listed: it is a mount point below the root, or as deep as the walk goes.
        is_unlisted: bool,
    },
    /// The innermost open directory was removed during or after its listing. Its [`WalkEntry::LeaveDir`] follows, and
    /// counts as complete.
    VanishedDir {
        /// The directory.
        dir: Dir,
    },
    /// An entry that was listed, and is gone. The directory that it was in may be gone, too.
    Vanished {
        /// Its directory.
        parent: Dir,
        /// Its name there.
        name: Name,
    },
    /// An entry that is skipped on purpose.
    LeftOut {
        /// Its directory.
        parent: Dir,
        /// Its name there.
        name: Name,
        /// The reason, after the name: `is a FIFO`.
        reason: &'static str,
    },
    /// An entry excluded by filters, in the innermost open directory.
    Filtered {
        /// Its name there.
        name: Name,
        /// Whether the target decides by its own rules about such a name.
        is_hidden: bool,
    },
    /// Files excluded by filters in the innermost open directory, counted only ([`WalkOptions::only_counts_files`]).
    FilteredFiles {
        /// How many.
        count: u64,
    },
    /// A failed lookup. The walk continues.
    Failed {
        /// The path from the root. Bytes, not text.
        path: Vec<u8>,
        /// The error; [`haul_base::sys::describe::describe`] formats it.
        error: io::Error,
    },
}

/// An iterator over a root and everything below. No other reader may use the listing of a directory through the same
/// [`Dir`] meanwhile.
pub struct Walker<'a> {
    options: WalkOptions,
    root: Option<Dir>,
    levels: Vec<WalkLevel>,
    /// Listed names of the innermost level, not yet looked up.
    chunk: ListingChunk,
    buffer: ListingBuffer,
    /// Identities of open directories, only if followed links may lead back to one.
    entered: HashSet<FileIdentity>,
    help: Option<WalkPrefetch<'a>>,
    filter: Option<&'a WalkFilter>,
    /// The root's directory and name in the transfer, for rsync's rules.
    place: Option<(Arc<FilterScope>, Name)>,
    /// Number of names in the root's path in the transfer.
    root_depth: usize,
    /// Number of levels whose directories are listed.
    levels_max: usize,
    /// Excluded names of the innermost level, not yet reported: at most one chunk.
    filtered: Vec<Name>,
    /// Number of rules of open directories.
    open_rules: usize,
    repeated: RepeatedNames,
}

impl Walker<'static> {
    /// A walk before its first lookup.
    pub fn new(root: Dir, options: WalkOptions) -> Self {
        Self::with(root, options, None)
    }
}

impl<'a> Walker<'a> {
    /// A walk with prefetch workers, if lookups wait. Results and order are the same; concurrent changes may be seen a
    /// little earlier.
    pub fn prefetched(root: Dir, ahead: &'a Prefetcher) -> Self {
        Self::with(root, ahead.options(), Some(WalkPrefetch::new(ahead)))
    }

    fn with(root: Dir, options: WalkOptions, help: Option<WalkPrefetch<'a>>) -> Self {
        Self {
            options,
            root: Some(root),
            levels: Vec::new(),
            chunk: ListingChunk::empty(),
            buffer: ListingBuffer::new(),
            entered: HashSet::new(),
            help,
            filter: None,
            place: None,
            root_depth: 0,
            levels_max: usize::MAX,
            filtered: Vec::new(),
            open_rules: 0,
            repeated: RepeatedNames::default(),
        }
    }

    /// Adds a filter. Prefetch workers must know it ([`WalkOptions::is_filtered`]).
    pub fn filtered(self, filter: Option<&'a WalkFilter>) -> Self {
        Self { filter, ..self }
    }

    /// Sets the path of the root in the transfer, to which rsync's rules apply.
    pub fn transferred_as(self, path: impl IntoIterator<Item = Name>) -> Self {
        let is_rsync = self.filter.is_some_and(|filter| filter.matcher().is_rsync());
        let path: Vec<_> = path.into_iter().collect();
        Self { root_depth: path.len(), place: FilterScope::place_of(path).filter(|_| is_rsync), ..self }
    }

    /// Lists directories on this many levels, the root's first.
    pub fn limited_to(self, levels_max: usize) -> Self {
        Self { levels_max, ..self }
    }

    fn enter_root(&mut self, root: Dir) -> WalkEntry {
        match root.fd().and_then(|fd| FileStat::at_fd(&*fd)) {
            Ok(stat) => {
                let path = root.path_bytes();
                let opened =
                    OpenedSubdirectory { dir: root, stat, rest: ListingPosition::beginning(), rest_ahead: None };
                self.enter(opened).unwrap_or_else(|error| WalkEntry::Failed { path, error })
            }
            Err(error) => WalkEntry::Failed { path: root.path_bytes(), error },
        }
    }

    fn enter(
        &mut self,
        OpenedSubdirectory { dir, stat, rest, rest_ahead }: OpenedSubdirectory,
    ) -> io::Result<WalkEntry> {
        let (mut scope, mut patterns) = (None, Vec::new());
        if let Some(filter) = self.filter {
            let above = self.levels.last().and_then(|level| level.scope.clone());
            let place = above.zip(dir.name().cloned()).or_else(|| self.place.clone());
            let above = place.as_ref().map(|(above, _)| &**above);
            patterns = timed(&mut self.help, || filter.patterns_in(&dir, above))?;
            let entered = filter.scope(place, &patterns, self.open_rules)?;
            filter.withdraw_hidden(&entered, &mut patterns);
            self.open_rules += entered.own_rules();
            scope = Some(entered);
        }
        if self.options.symlinks.follows() {
            self.entered.insert(stat.identity);
        }
        let root_device = self.levels.first().map_or(stat.identity.device, |root| root.dir.identity().device);
        let is_mount_point = self.options.one_file_system && stat.identity.device != root_device;
        let is_unlisted = is_mount_point || self.levels.len() >= self.levels_max;
        let (waiting, rest) = (Vec::new(), Some(rest).filter(|_| !is_unlisted));
        let level = WalkLevel {
            dir: dir.clone(),
            waiting,
            rest,
            rest_ahead,
            scope,
            complete: true,
            is_unlisted,
            has_lost_names: false,
            is_removed: false,
            earlier: EarlierNames::default(),
        };
        self.levels.push(level);
        Ok(WalkEntry::EnterDir { dir, meta: stat.meta, patterns })
    }

    fn leave(&mut self) -> Option<WalkEntry> {
        let WalkLevel { dir, complete, scope, is_unlisted, earlier, .. } = self.levels.pop()?;
        self.repeated.forget(earlier);
        self.open_rules -= scope.map_or(0, |scope| scope.own_rules());
        self.entered.remove(&dir.identity());
        dir.keep_parent_open();
        if let Some(help) = &mut self.help {
            help.left(&mut self.levels);
        }
        Some(WalkEntry::LeaveDir { dir, complete, is_unlisted })
    }

    /// Reads the innermost level's next names. Returns a failure, if any.
    fn read_on(&mut self, rest: &ListingPosition) -> Option<WalkEntry> {
        let level = self.levels.last_mut()?;
        let (dir, options) = (&level.dir, self.options);
        let fetched = self.help.as_ref().and_then(|help| help.collect(level.rest_ahead.take()));
        let read = || rest.read(dir, |kind| options.only_counts(kind), &mut self.buffer);
        match fetched.unwrap_or_else(|| timed(&mut self.help, read)) {
            Ok(chunk) => self.chunk = chunk,
            Err(error) => {
                // The system lists no removed directory.
                if is(&error, Errno::NOENT) && level.dir.parent().is_some() {
                    return Some(level.vanished_itself());
                }
                level.complete = false;
                return Some(WalkEntry::Failed { path: level.dir.path_bytes(), error });
            }
        }
        self.repeated.drop_from(&level.dir, &mut self.chunk, &mut level.earlier);
        (level.rest, level.rest_ahead) = (self.chunk.rest.take(), self.chunk.rest_ahead.take());
        if let (Some(filter), Some(scope)) = (self.filter, &level.scope) {
            self.filtered = filter.exclude(scope, &mut self.chunk, self.options.symlinks);
        }
        if let Some(help) = &mut self.help {
            help.request_lookups(&mut self.levels, &mut self.chunk);
        }
        None
    }

    /// Handles a listed name of the innermost level. `None` for a directory, which is queued.
    fn examine(&mut self, entry: ListedName) -> Option<WalkEntry> {
        let level = self.levels.last_mut()?;
        let bytes = self.chunk.name(&entry);
        let name = match Name::new(bytes) {
            Ok(name) => name,
            Err(error) => return Some(level.failed(bytes, io::Error::other(error))),
        };
        let symlinks = self.options.symlinks;
        match (entry.known, WalkStep::of(entry.kind, symlinks)) {
            (KnownName::Seen(seen), _) => self.entry_of_lookup(name, seen),
            (KnownName::Asked(ticket), _) => self.wait_for(name, FollowLinks::Itself, Some(ticket)),
            (KnownName::Nothing, WalkStep::Enter) => self.wait_for(name, FollowLinks::Itself, None),
            (KnownName::Nothing, WalkStep::LookAt(links)) => {
                let seen = timed(&mut self.help, || WalkLookup::at(&level.dir, &name, links, symlinks));
                self.entry_of_lookup(name, seen)
            }
            (KnownName::Nothing, WalkStep::LeaveOut) if self.options.nodes.takes(entry.kind) => {
                let seen = WalkLookup::at(&level.dir, &name, FollowLinks::Itself, symlinks);
                self.entry_of_lookup(name, seen)
            }
            (KnownName::Nothing, WalkStep::LeaveOut) => Some(level.left_out(name, special(entry.kind))),
        }
    }

    fn wait_for(
        &mut self,
        name: Name,
        links: FollowLinks,
        ahead: Option<LookupHandle<OpenSubdirectory>>,
    ) -> Option<WalkEntry> {
        let level = self.levels.last_mut()?;
        if !self.options.recursive {
            return Some(level.left_out(name, "is a directory (-r copies directories)"));
        }
        level.waiting.push(QueuedSubdirectory { name, links, ahead });
        None
    }

    /// The entry for the lookup of `name`.
    fn entry_of_lookup(&mut self, name: Name, seen: io::Result<WalkLookup>) -> Option<WalkEntry> {
        let depth = (self.root_depth + self.levels.len()).saturating_sub(1);
        let level = self.levels.last_mut()?;
        let symlinks = self.options.symlinks;
        let mut seen = match seen.and_then(|seen| seen.judge(&level.dir, &name, symlinks, depth)) {
            Ok(seen) => seen,
            Err(error) if is(&error, Errno::NOENT) => return Some(dangling(level, name, symlinks)),
            Err(error) => return Some(level.failed(name.as_bytes(), error)),
        };
        if let (Some(filter), Some(scope)) = (self.filter, &level.scope)
            && filter.leaves_out(scope, &name, &seen.stat)
        {
            let is_hidden = filter.matcher().is_rsync() && !filter.is_beyond_limits(&seen.stat);
            return Some(WalkEntry::Filtered { name, is_hidden });
        }
        match (seen.stat.kind, seen.points_to.take()) {
            (FileType::RegularFile, _) => Some(level.found_file(name, &seen)),
            (FileType::Directory, _) => self.wait_for(name, seen.links, None),
            (FileType::Symlink, None) if symlinks == Symlinks::Safe => Some(level.left_out(name, UNSAFE_LINK)),
            (FileType::Symlink, None) => Some(level.left_out(name, "is a symbolic link")),
            (FileType::Symlink, Some(points_to)) => {
                Some(WalkEntry::Symlink { parent: level.dir.clone(), name, points_to, meta: seen.stat.meta })
            }
            (other, _) => match seen.stat.node().filter(|_| self.options.nodes.takes(other)) {
                Some(node) => Some(WalkEntry::Node { parent: level.dir.clone(), name, node, meta: seen.stat.meta }),
                None => Some(level.left_out(name, special(other))),
            },
        }
    }

    /// Opens a subdirectory of the innermost level.
    fn descend(&mut self, QueuedSubdirectory { name, links, ahead }: QueuedSubdirectory) -> Option<WalkEntry> {
        let level = self.levels.last_mut()?;
        let fetched = self.help.as_ref().and_then(|help| help.collect(ahead));
        let open = || {
            let (dir, stat) = level.dir.child_with_stat(&name, links)?;
            Ok(OpenedSubdirectory { dir, stat, rest: ListingPosition::beginning(), rest_ahead: None })
        };
        let opened = match fetched.unwrap_or_else(|| timed(&mut self.help, open)) {
            Ok(opened) => opened,
            Err(error) if is(&error, Errno::NOENT) => return Some(level.vanished(name)),
            Err(error) => return Some(level.failed(name.as_bytes(), error)),
        };
        if self.options.skip == Some(opened.stat.identity) {
            return Some(level.left_out(name, "is the target of this copy"));
        }
        if self.entered.contains(&opened.stat.identity) {
            let error = io::Error::other("symbolic link loop: the directory contains itself");
            return Some(level.failed(name.as_bytes(), error));
        }
        match self.enter(opened) {
            Ok(found) => Some(found),
            Err(error) => self.levels.last_mut().map(|level| level.failed(name.as_bytes(), error)),
        }
    }

    fn is_stopped(&self) -> bool {
        self.help.as_ref().is_some_and(|help| help.ahead.is_stopped())
    }

    /// Number of held names, which determines a walk's memory.
    #[cfg(test)]
    pub(super) fn names_held(&self) -> usize {
        self.filtered.len()
            + self.chunk.names_held()
            + self.levels.iter().map(|level| level.waiting.len()).sum::<usize>()
    }
}

impl Iterator for Walker<'_> {
    type Item = WalkEntry;

    fn next(&mut self) -> Option<WalkEntry> {
        if let Some(root) = self.root.take() {
            return Some(self.enter_root(root));
        }
        loop {
            if self.is_stopped() {
                return None;
            }
            if let Some(help) = &mut self.help {
                help.judge(&mut self.levels, &mut self.chunk);
            }
            let found = if self.chunk.counted > 0 {
                Some(WalkEntry::FilteredFiles { count: std::mem::take(&mut self.chunk.counted) })
            } else if let Some(name) = self.filtered.pop() {
                Some(WalkEntry::Filtered { name, is_hidden: self.filter.is_some_and(|it| it.matcher().is_rsync()) })
            } else if let Some(entry) = self.chunk.next_name() {
                self.examine(entry)
            } else {
                let level = self.levels.last_mut()?;
                if let Some(waiting) = level.waiting.pop() {
                    self.descend(waiting)
                } else if let Some(rest) = level.rest.take() {
                    self.read_on(&rest)
                } else if level.dir.parent().is_none() && level.complete && !level.dir.is_root_there() {
                    // A removed source argument is no source without entries.
                    Some(level.failed(b"", Errno::NOENT.into()))
                } else if level.is_removed_since() {
                    Some(level.vanished_itself())
                } else {
                    return self.leave();
                }
            };
            if found.is_some() {
                return found;
            }
        }
    }
}

/// Makes and measures one lookup of the walk.
fn timed<T>(help: &mut Option<WalkPrefetch<'_>>, lookup: impl FnOnce() -> T) -> T {
    match help {
        Some(help) => help.waits.time(lookup),
        None => lookup(),
    }
}

/// The entry for a dangling name.
fn dangling(level: &mut WalkLevel, name: Name, symlinks: Symlinks) -> WalkEntry {
    let itself = || level.dir.fd().and_then(|fd| FileStat::at_name(&*fd, &name, FollowLinks::Itself));
    if symlinks.follows() && itself().is_ok_and(|stat| stat.kind == FileType::Symlink) {
        let error = io::Error::new(io::ErrorKind::NotFound, "dangling symbolic link");
        return level.failed(name.as_bytes(), error);
    }
    level.vanished(name)
}

/// Why a special file is skipped.
fn special(kind: FileType) -> &'static str {
    match kind {
        FileType::Fifo => "is a FIFO",
        FileType::Socket => "is a socket",
        FileType::CharacterDevice => "is a character device",
        FileType::BlockDevice => "is a block device",
        _ => "unknown kind of file",
    }
}

fn is(error: &io::Error, errno: Errno) -> bool {
    error.raw_os_error() == Some(errno.raw_os_error())
}

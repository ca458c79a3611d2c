//! The source's walk: it offers entries as fast as the window of incomplete entries allows.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};

use haul_base::copy::display_path::below;
use haul_base::copy::error::CHANGED_SINCE_PLAN;
use haul_base::sys::describe::describe;
use haul_proto::entry::{Entry, EntryContent, EntryLocation, EntryMetadata, Timestamp};
use haul_proto::entry_extras::EntryExtras;
use haul_proto::hard_links::LinkDirectoryName;
use haul_proto::ids::EntryId;
use haul_proto::limits::{OFFER_ENTRIES_MAX, OPEN_DIRECTORIES_MAX};
use haul_proto::path::Name;
use haul_proto::wire::list_batch::SourceBatch;
use haul_proto::wire::message::ListingEnd;
use haul_proto::wire::resource_metrics::Stage;

use super::digest::WalkDigester;
use super::session::{Source, State};
use crate::fs::{
    Dir, FileStat, FollowLinks, PatternFile, Prefetcher, SpecialFiles, WalkEntry, WalkFilter, WalkOptions, Walker,
};
use crate::metrics::counter::add;
use crate::metrics::stage_timer::during;
use crate::source::entry::SourceEntry;
use crate::source::exclusions;
use crate::source::exclusions::UnreportedExclusions;
use crate::source::flow_feed::{FlowPipe, now};
use crate::source::hard_links::{LinkCharge, LinkedFiles};
use crate::source::input_file::InputFile;
use crate::source::list_batches::PendingBatches;
use crate::source::operand_parents::OperandParents;
use crate::source::operands::{OperandKind, OperandOpener, OperandRoot, base_of, operand_links};
use crate::source::path::SourcePath;
use crate::source::removable::RemovableFile;

/// Entries leave in batches. The first batches are small, to start the transfer early.
const BATCH_MAX: usize = OFFER_ENTRIES_MAX;
/// Longest wait of an entry for its batch.
const BATCH_AGE_MAX: Duration = Duration::from_millis(20);

/// Number of entries between two readings of the clock.
const CLOCK_EVERY: usize = 16;

/// From this size on, digesting a file delays the batch noticeably.
const LONG_READ_MIN: u64 = 1 << 20;

/// Error for a directory whose extended attributes are not copied.
const TOO_MANY_ATTRIBUTES: &str =
    "extended attributes not copied: too many parent directories have large ones\ncopy it separately";

/// Reason for skipping an unreadable entry.
const UNREADABLE: &str = "cannot be read";

impl Source {
    /// Walks all source arguments and offers their entries. Returns after the last offer, or when the copy is stopped.
    pub fn walk(&self) {
        walk(self);
    }
}

/// Walks all source arguments.
fn walk(source: &Source) {
    let kept = source.request.preserve;
    let nodes = SpecialFiles { devices: kept.devices, specials: kept.specials };
    let options = WalkOptions {
        recursive: true,
        symlinks: source.request.links,
        skip: source.walk.target_directory.get().copied(),
        one_file_system: source.request.skip.other_file_systems,
        is_filtered: source.walk.filter.is_some(),
        nodes,
        only_counts_files: !source.request.tell_left_out
            && source.walk.filter.as_ref().is_some_and(WalkFilter::leaves_out_all_files),
    };
    let ahead = Prefetcher::new(options, source.walk.cancel.clone());
    let mut offers = OfferBuilder {
        source,
        batch: 0,
        batch_target: 1,
        since: Instant::now(),
        open: Vec::new(),
        empty: Vec::new(),
        skipping: 0,
        linked: LinkedFiles::default(),
        digester: WalkDigester::default(),
        parents: OperandParents::default(),
        untold: UnreportedExclusions::default(),
    };
    if offers.all(&ahead).is_none() {
        return;
    }
    source.report_unkept_flags();
    let is_pipe = |root: &OperandRoot| matches!(root.kind, OperandKind::Pipe(_));
    let is_pipe = source.operands.roots.iter().flatten().any(is_pipe);
    source.reporter.tally.walk_complete.store(!is_pipe, Ordering::Relaxed);
    source.lock().machine.end_offers();
    source.notify();
}

struct OfferBuilder<'s> {
    source: &'s Source,
    batch: usize,
    batch_target: usize,
    since: Instant,
    /// Directories entered and not yet left.
    open: Vec<OpenDirectory>,
    /// Entered directories below those, offered once they have contents.
    empty: Vec<OfferedChild>,
    /// Depth of the walk below a skipped directory; 0 outside.
    skipping: usize,
    /// Excluded names of the innermost directory in `open`.
    untold: UnreportedExclusions,
    linked: LinkedFiles,
    digester: WalkDigester,
    /// Directories above source arguments with a base.
    parents: OperandParents,
}

/// An entered directory.
struct OfferedChild {
    name: Option<Name>,
    meta: EntryMetadata,
    more: Option<Box<EntryExtras>>,
    patterns: Vec<PatternFile>,
    /// Some of its entries are excluded, which the target does not know yet.
    hides: bool,
}

/// An offered directory.
struct OpenDirectory {
    id: EntryId,
    /// Length of its name in bytes; 0 for a source argument.
    name_len: usize,
    /// As [`OfferedChild::hides`].
    hides: bool,
    /// It was removed during its listing.
    has_vanished: bool,
}

/// An offered source argument.
struct OfferedOperand {
    number: u32,
    /// Its path as typed.
    path: Arc<[u8]>,
}

/// The methods return `None` if the copy was stopped.
impl OfferBuilder<'_> {
    fn all(&mut self, ahead: &Prefetcher) -> Option<()> {
        let source = self.source;
        for ((root, path), number) in source.operands.roots.iter().zip(&source.request.operands).zip(0..) {
            if let Some(root) = root {
                self.operand(&OfferedOperand { number, path: path.as_slice().into() }, root, ahead)?;
            }
        }
        match &source.operands.listed {
            Some(listed) => self.listed(listed, ahead),
            None => Some(()),
        }
    }

    /// Offers the entries of a list as it arrives.
    fn listed(&mut self, listed: &PendingBatches, ahead: &Prefetcher) -> Option<()> {
        let mut opener = OperandOpener::new(&self.source.request, &self.source.reporter);
        loop {
            let SourceBatch { first: mut number, paths, last } = listed.next()?;
            for path in paths {
                if let Some(root) = opener.open_operand(&path).filter(|root| !self.is_target_directory(root, &path)) {
                    self.operand(&OfferedOperand { number, path: path.into() }, &root, ahead)?;
                }
                number += 1;
            }
            self.source.lock().machine.finish_operands(number);
            self.source.signals.outbox.notify_all();
            self.batch = 0;
            if last {
                return Some(());
            }
        }
    }

    /// Whether this is the destination directory, whose copy would contain itself.
    fn is_target_directory(&self, root: &OperandRoot, path: &[u8]) -> bool {
        let is_target_directory = self.source.walk.target_directory.get() == Some(&root.identity());
        if is_target_directory {
            self.source.reporter.failed(path.to_vec(), "is the target of this copy");
        }
        is_target_directory
    }

    fn operand(&mut self, operand: &OfferedOperand, root: &OperandRoot, ahead: &Prefetcher) -> Option<()> {
        let filter = self.source.walk.filter.as_ref();
        let path = root.transfer_path(&operand.path, &self.source.request);
        let is_directory = matches!(root.kind, OperandKind::Directory(_));
        let is_excluded = |filter: &WalkFilter| match &root.kind {
            OperandKind::File(.., stat) => filter.excludes_operand(&path, Some(stat)),
            OperandKind::Symlink(..) | OperandKind::Node(..) => filter.excludes_operand(&path, None),
            _ => false,
        };
        if filter.is_some_and(|filter| filter.hides_operand(&path, is_directory) || is_excluded(filter)) {
            self.source.reporter.filtered(1);
            return Some(());
        }
        match &root.kind {
            OperandKind::File(parent, name, stat) => {
                let place =
                    SourcePath { parent: parent.clone(), name: name.clone(), links: operand_links(), is_operand: true };
                let at = EntryLocation::Operand(operand.number);
                self.file(operand, at, place, stat)
            }
            OperandKind::Symlink(parent, name, points_to, meta) => {
                let place = SourcePath {
                    parent: parent.clone(),
                    name: name.clone(),
                    links: FollowLinks::Itself,
                    is_operand: true,
                };
                self.symlink(operand, EntryLocation::Operand(operand.number), place, points_to.clone(), *meta)
            }
            OperandKind::Node(parent, name, node, meta) => {
                let place = SourcePath {
                    parent: parent.clone(),
                    name: name.clone(),
                    links: FollowLinks::Itself,
                    is_operand: true,
                };
                let item = SourceEntry::without_content(Arc::clone(&operand.path), place, meta.modified);
                let (place, kind) = (EntryLocation::Operand(operand.number), EntryContent::Node(*node));
                self.offer(Entry { place, kind, meta: *meta, version: None, more: None }, item).map(drop)
            }
            OperandKind::Null(size) => self.null(operand, *size),
            OperandKind::Pipe(pipe) => self.pipe(operand, Arc::clone(pipe)),
            OperandKind::Input(file) => self.input(operand, file),
            OperandKind::Directory(dir) => {
                let walker = Walker::prefetched(dir.clone(), ahead).filtered(filter).transferred_as(path);
                let levels_max = match self.source.request.skip.contents {
                    true => usize::from(root.means_contents()),
                    false => usize::MAX,
                };
                self.tree(operand, walker.limited_to(levels_max))
            }
        }
    }

    fn tree(&mut self, operand: &OfferedOperand, walker: Walker<'_>) -> Option<()> {
        let mut is_all_filtered = None;
        for found in walker {
            exclusions::judge(&mut is_all_filtered, &found);
            self.found(operand, found)?;
        }
        if is_all_filtered == Some(true) {
            exclusions::warn_all_excluded(&self.source.reporter, &operand.path);
        }
        // A stopped copy ends the walk early.
        (!self.source.lock().stopped).then_some(())
    }

    fn found(&mut self, operand: &OfferedOperand, found: WalkEntry) -> Option<()> {
        let reporter = &self.source.reporter;
        if self.track_skipping(&found) {
            return Some(());
        }
        match found {
            WalkEntry::EnterDir { dir, .. } if self.open.len() + self.empty.len() + 1 >= OPEN_DIRECTORIES_MAX => {
                let path = below(&operand.path, &dir.path_bytes());
                reporter.failed(path, "too many nested directories\ncopy it separately");
                self.skipping = 1;
                Some(())
            }
            WalkEntry::EnterDir { dir, meta, patterns } => {
                let more = self.source.more_of_directory(&dir);
                self.enter_directory(
                    operand,
                    OfferedChild { name: dir.name().cloned(), meta, more, patterns, hides: false },
                )
            }
            WalkEntry::LeaveDir { complete, is_unlisted, .. } => self.leave_directory(complete, is_unlisted),
            WalkEntry::Filtered { name, is_hidden } => {
                reporter.filtered(1);
                if is_hidden && !self.source.request.compare { Some(()) } else { self.exclude(name) }
            }
            WalkEntry::FilteredFiles { count } => {
                reporter.filtered(count);
                Some(())
            }
            WalkEntry::File { parent, name, .. } | WalkEntry::Symlink { parent, name, .. } if name.is_reserved() => {
                self.skip(operand, &parent, name, "partial file of an interrupted copy")
            }
            WalkEntry::File { parent, name, links, .. } if self.is_left_out(&parent, &name, links) => {
                self.skip(operand, &parent, name, UNREADABLE)
            }
            WalkEntry::File { parent, name, links, stat } => {
                let (entry_place, place) = self.child(operand, parent, name, links)?;
                if self.is_other_name(operand, &entry_place, &place, &stat)? {
                    return Some(());
                }
                self.file(operand, entry_place, place, &stat)
            }
            WalkEntry::Symlink { parent, name, points_to, meta } => {
                let (entry_place, place) = self.child(operand, parent, name, FollowLinks::Itself)?;
                self.symlink(operand, entry_place, place, points_to, meta)
            }
            WalkEntry::Node { parent, name, node, meta } => {
                let (entry_place, place) = self.child(operand, parent, name, FollowLinks::Itself)?;
                let item = SourceEntry::without_content(Arc::clone(&operand.path), place, meta.modified);
                let kind = EntryContent::Node(node);
                self.offer(Entry { place: entry_place, kind, meta, version: None, more: None }, item).map(drop)
            }
            WalkEntry::LeftOut { parent, name, reason } => self.skip(operand, &parent, name, reason),
            WalkEntry::Vanished { parent, name } => {
                reporter.vanished(below(&operand.path, &parent.path_of(name.as_bytes())));
                self.exclude_vanished(name)
            }
            WalkEntry::VanishedDir { dir } => {
                reporter.vanished(below(&operand.path, &dir.path_bytes()));
                // One that waits for its first entry is not offered at all.
                self.open.last_mut().filter(|_| self.empty.is_empty()).iter_mut().for_each(|it| it.has_vanished = true);
                Some(())
            }
            WalkEntry::Failed { path, error } => {
                self.report_unreadable(below(&operand.path, &path), &error);
                Some(())
            }
        }
    }

    fn report_unreadable(&self, path: Vec<u8>, error: &io::Error) {
        let Source { request, reporter, .. } = self.source;
        if request.skip.unreadable && error.kind() == io::ErrorKind::PermissionDenied {
            reporter.left_out(path, UNREADABLE);
        } else {
            reporter.failed(path, describe(error));
        }
    }

    /// Offers a directory, or waits for its first entry where empty directories are skipped.
    fn enter_directory(&mut self, operand: &OfferedOperand, entered: OfferedChild) -> Option<()> {
        if entered.name.is_none() || !self.source.request.skip.empty_directories {
            return self.directory(operand, entered);
        }
        self.empty.push(entered);
        Some(())
    }

    fn leave_directory(&mut self, is_complete: bool, is_unlisted: bool) -> Option<()> {
        if let Some(OfferedChild { name, .. }) = self.empty.pop() {
            return name.map_or(Some(()), |name| self.exclude(name));
        }
        self.report_exclusions()?;
        if let Some(OpenDirectory { id, hides, has_vanished, .. }) = self.open.pop() {
            let is_unknown = has_vanished || is_unlisted;
            let listing = if is_unknown { ListingEnd::Unknown } else { ListingEnd::from(is_complete && !hides) };
            self.source.lock().machine.end_directory(id, listing);
            self.source.signals.outbox.notify_all();
            self.batch = 0;
        }
        Some(())
    }

    /// The location of an entry below a source argument. Directories held back as empty are offered first.
    fn child(
        &mut self,
        operand: &OfferedOperand,
        parent: Dir,
        name: Name,
        links: FollowLinks,
    ) -> Option<(EntryLocation, SourcePath)> {
        std::mem::take(&mut self.empty).into_iter().try_for_each(|entered| self.directory(operand, entered))?;
        let entry_place = self.place_of(operand, Some(&name));
        Some((entry_place, SourcePath { parent, name, links, is_operand: false }))
    }

    /// Reports and excludes an entry that is not offered.
    fn skip(&mut self, operand: &OfferedOperand, parent: &Dir, name: Name, reason: &'static str) -> Option<()> {
        let path = below(&operand.path, &parent.path_of(name.as_bytes()));
        self.source.reporter.left_out(path, reason);
        self.exclude(name)
    }

    fn symlink(
        &mut self,
        operand: &OfferedOperand,
        entry_place: EntryLocation,
        place: SourcePath,
        points_to: Box<[u8]>,
        meta: EntryMetadata,
    ) -> Option<()> {
        let mut item = SourceEntry::without_content(Arc::clone(&operand.path), place, meta.modified);
        item.removable = self.source.removable_link(&points_to).map(Box::new);
        let kind = EntryContent::Symlink { points_to };
        self.offer(Entry { place: entry_place, kind, meta, version: None, more: None }, item).map(drop)
    }

    fn directory(
        &mut self,
        operand: &OfferedOperand,
        OfferedChild { name, meta, more, patterns, hides }: OfferedChild,
    ) -> Option<()> {
        self.report_exclusions()?;
        let place = self.place_of(operand, name.as_ref());
        let mut entry = Entry { place, kind: EntryContent::Directory, meta, version: None, more };
        self.drop_attributes_without_room(operand, &mut entry);
        let name_len = if let EntryLocation::Child { name, .. } = &entry.place { name.as_bytes().len() } else { 0 };
        let id = self.offer(entry, SourceEntry::directory(Arc::clone(&operand.path)))?;
        self.open.push(OpenDirectory { id, name_len, hides, has_vanished: false });
        if !self.source.request.tell_left_out {
            return Some(());
        }
        patterns.into_iter().try_for_each(|patterns| exclusions::report_patterns(self.source, id, patterns))
    }

    /// Drops attributes of a directory beyond the target's limit for open directories, with a report.
    fn drop_attributes_without_room(&self, operand: &OfferedOperand, entry: &mut Entry) {
        if entry.more.is_none() || self.source.lock().machine.has_room_for_attributes(entry) {
            return;
        }
        entry.more = None;
        let path = below(
            &operand.path,
            if let EntryLocation::Child { name, .. } = &entry.place { name.as_bytes() } else { b"" },
        );
        self.source.reporter.failed(path, TOO_MANY_ATTRIBUTES);
    }

    /// Records an excluded name of the innermost directory.
    fn exclude(&mut self, name: Name) -> Option<()> {
        if !self.source.request.tell_left_out {
            return Some(());
        }
        match self.empty.last_mut() {
            Some(entered) => entered.hides = true,
            None if self.untold.add(name) => self.report_exclusions()?,
            None => {}
        }
        Some(())
    }

    /// Records a name of the innermost directory that was listed, and is gone.
    fn exclude_vanished(&mut self, name: Name) -> Option<()> {
        match self.empty.last_mut() {
            _ if !self.source.request.tell_left_out => {}
            Some(entered) => entered.hides = true,
            None if self.untold.add_vanished(name) => self.report_exclusions()?,
            None => {}
        }
        Some(())
    }

    /// Reports excluded names to the target before messages about another directory.
    fn report_exclusions(&mut self) -> Option<()> {
        self.open.last().map_or(Some(()), |directory| self.untold.report(self.source, directory.id))
    }

    /// Whether a file is skipped as unreadable. If this is unknown here, its read decides.
    fn is_left_out(&self, parent: &Dir, name: &Name, links: FollowLinks) -> bool {
        let denied = || parent.is_denied(name, links).unwrap_or(false);
        self.source.request.skip.unreadable && denied()
    }

    /// Tracks the depth below a refused directory, whose own failure was reported. Whether to skip this entry.
    fn track_skipping(&mut self, found: &WalkEntry) -> bool {
        let is_refused = |parent: &OpenDirectory| self.source.lock().machine.is_refused(parent.id);
        let refused = self.skipping > 0
            || self.source.walk.has_refused.load(Ordering::Relaxed) && self.open.last().is_some_and(is_refused);
        match found {
            WalkEntry::EnterDir { .. } => self.skipping += usize::from(refused),
            WalkEntry::LeaveDir { .. } if self.skipping > 0 => self.skipping -= 1,
            WalkEntry::LeaveDir { .. } => return false,
            _ => {}
        }
        refused
    }

    fn file(
        &mut self,
        operand: &OfferedOperand,
        entry_place: EntryLocation,
        place: SourcePath,
        stat: &FileStat,
    ) -> Option<()> {
        self.source.count_found(stat.size);
        if self.source.has_changed_since_plan(stat) {
            self.source.reporter.failed(place.path(&operand.path), CHANGED_SINCE_PLAN);
            return Some(());
        }
        let mut item = SourceEntry::file(Arc::clone(&operand.path), place, stat);
        item.removable = self.source.removable(&item, stat).map(Box::new);
        item.tolerates = self.source.tolerates(&item);
        let mut entry = self.source.file_entry(entry_place, stat);
        self.source.add_attributes(&mut entry, &item);
        self.source.add_striping(&mut entry, &item, stat.size);
        if self.source.request.tell_digests && !self.source.compares() && stat.size > 0 {
            self.add_digest(&mut entry, &item);
        }
        let counted = self.count_linked(&entry.place, stat);
        if counted.is_some() {
            entry.more.get_or_insert_default().names = Some(stat.names);
        }
        let others = item.removable.as_deref_mut().filter(|_| counted.is_some()).map(RemovableFile::share);
        let id = self.offer(entry, item)?;
        if let Some(counted) = counted {
            self.linked.add(stat, id, counted, others);
        }
        Some(())
    }

    /// Adds a file's digest. Sends the batch first if the digest takes long.
    fn add_digest(&mut self, entry: &mut Entry, item: &SourceEntry) {
        if item.offered.size >= LONG_READ_MIN {
            self.source.lock().machine.flush_offers();
            self.source.signals.outbox.notify_all();
            self.batch = 0;
        }
        if let Some(digest) = self.digester.digest(self.source, item) {
            entry.more.get_or_insert_default().digest = Some(digest);
        }
    }

    /// Counts a file whose further names become hard links; `None` if they are copied as separate files.
    fn count_linked(&mut self, place: &EntryLocation, stat: &FileStat) -> Option<LinkCharge> {
        let EntryLocation::Child { parent, name } = place else { return None };
        if !self.source.request.preserve.hard_links || stat.names < 2 {
            return None;
        }
        let directories = self
            .open
            .iter()
            .rev()
            .map(|OpenDirectory { id, name_len, .. }| LinkDirectoryName { id: *id, name_len: *name_len });
        self.linked.count(*parent, name, directories, &self.source.reporter)
    }

    /// Offers a file as a hard link if its first name was offered before.
    fn is_other_name(
        &mut self,
        operand: &OfferedOperand,
        at: &EntryLocation,
        place: &SourcePath,
        stat: &FileStat,
    ) -> Option<bool> {
        let EntryLocation::Child { .. } = at else { return Some(false) };
        let Some((to, removable)) = self.linked.first_of(stat) else { return Some(false) };
        let kind = EntryContent::HardLink { to, size: stat.size };
        let entry = Entry { place: at.clone(), kind, meta: stat.meta, version: None, more: None };
        let mut item = SourceEntry::file(Arc::clone(&operand.path), place.clone(), stat);
        item.removable = removable.map(Box::new);
        self.offer(entry, item).map(|_| true)
    }

    /// Zeros: an ordinary file's mode, this process's owner, and no time.
    fn null(&mut self, operand: &OfferedOperand, size: u64) -> Option<()> {
        self.source.count_found(size);
        let meta = own_meta();
        let item = SourceEntry::null(Arc::clone(&operand.path), size, meta.modified);
        let place = EntryLocation::Operand(operand.number);
        self.offer(Entry { place, kind: EntryContent::File { size }, meta, version: None, more: None }, item)
            .map(|_| ())
    }

    /// A pipe: an ordinary file's mode, and this process's owner.
    fn pipe(&mut self, operand: &OfferedOperand, pipe: Arc<FlowPipe>) -> Option<()> {
        self.source.count_found(0);
        let meta = own_meta();
        let entry = Entry {
            place: EntryLocation::Operand(operand.number),
            kind: EntryContent::Stream,
            meta,
            version: None,
            more: None,
        };
        self.offer(entry, SourceEntry::pipe(Arc::clone(&operand.path), pipe)).map(|_| ())
    }

    /// Standard input that is a regular file: a pipe's mode and owner. Nothing says that an existing target is an
    /// earlier copy of it, so its time is the present, and it has no version to resume.
    fn input(&mut self, operand: &OfferedOperand, file: &Arc<InputFile>) -> Option<()> {
        self.source.count_found(file.stat.size);
        let mut item = SourceEntry::input(Arc::clone(&operand.path), Arc::clone(file));
        item.tolerates = self.source.tolerates(&item);
        let entry = self.source.file_entry(EntryLocation::Operand(operand.number), &file.stat);
        let meta = EntryMetadata { modified: now(), ..own_meta() };
        self.offer(Entry { meta, version: None, ..entry }, item).map(drop)
    }

    fn place_of(&self, operand: &OfferedOperand, name: Option<&Name>) -> EntryLocation {
        match (self.open.last(), name) {
            (Some(parent), Some(name)) => EntryLocation::Child { parent: parent.id, name: name.clone() },
            _ => EntryLocation::Operand(operand.number),
        }
    }

    /// Offers an entry once the window allows.
    fn offer(&mut self, mut entry: Entry, item: SourceEntry) -> Option<EntryId> {
        let source = self.source;
        if let (EntryLocation::Operand(_), Some(base)) = (&entry.place, base_of(&source.request, &item.operand)) {
            let above = self.parents.metadata(base, &item.operand);
            above.iter().for_each(|meta| source.report_owners(meta));
            if !above.is_empty() {
                entry.more.get_or_insert_default().parents = above;
            }
        }
        source.change_mode(&mut entry);
        source.report_owners(&entry.meta);
        let mut state = wait_for_window(source)?;
        let id = state.machine.offer(entry, Arc::new(item));
        add(&source.reporter.tally.entries_offered, 1);
        self.batch += 1;
        let is_old = self.batch.is_multiple_of(CLOCK_EVERY) && self.since.elapsed() > BATCH_AGE_MAX;
        if self.batch >= self.batch_target || is_old {
            state.machine.flush_offers();
            drop(state);
            self.source.signals.outbox.notify_all();
            self.batch = 0;
            self.batch_target = (self.batch_target * 2).min(BATCH_MAX);
            self.since = Instant::now();
        }
        Some(id)
    }
}

fn own_meta() -> EntryMetadata {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    EntryMetadata { mode: 0o644, uid, gid, modified: Timestamp::default() }
}

/// Waits for room in the window; `None` if the copy was stopped.
pub(super) fn wait_for_window(source: &Source) -> Option<MutexGuard<'_, State>> {
    let mut state = source.lock();
    loop {
        if state.stopped {
            return None;
        }
        if state.machine.window() > 0 {
            return Some(state);
        }
        state.machine.flush_offers();
        source.signals.outbox.notify_all();
        state = during(Stage::WalkWait, || source.signals.window.wait(state));
    }
}

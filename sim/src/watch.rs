//! A watched tree under edits from a seed: edits at every step, a queue of events that overflows, lost sessions, a root
//! that is replaced, runs that break. Everything that `haul_proto::watch` decides is the real thing.

use std::collections::{BTreeMap, VecDeque};

use haul_lab::Rng;
use haul_proto::watch::{
    ChangeCollector, ChangedPart, ChangedPath, ChangedPaths, DirectoryChange, DirectoryEvent, WatchId, WatchStep,
    WatchedTree,
};

/// Events that a queue holds.
const QUEUE_MAX: usize = 24;
const ROOT: usize = 0;
const NAMES: [&str; 4] = ["a", "b", "a-", "c"];

/// A mistake that is made on purpose, to see that the check notices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchMistake {
    /// None: the real thing.
    Nothing,
    /// A directory is listed before its watch is set.
    ListFirst,
    /// Directories in a new directory are not watched.
    WatchTopOnly,
    /// Dropped events do not matter.
    IgnoreOverflow,
    /// What a broken run looked at is forgotten.
    ForgetBrokenRun,
    /// A new session has missed nothing.
    TrustNewSession,
    /// Everything below a new directory is taken as it is.
    SkipContents,
}

impl WatchMistake {
    /// All mistakes.
    pub const ALL: [Self; 6] = [
        Self::ListFirst,
        Self::WatchTopOnly,
        Self::IgnoreOverflow,
        Self::ForgetBrokenRun,
        Self::TrustNewSession,
        Self::SkipContents,
    ];
}

/// What happened in a seed, or in many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WatchOutcome {
    /// Edits.
    pub edits: u64,
    /// Runs of changed paths.
    pub scoped: u64,
    /// Runs of everything.
    pub whole: u64,
    /// Runs that broke.
    pub broken: u64,
    /// Queues that overflowed.
    pub overflows: u64,
    /// Sessions that were lost.
    pub lost: u64,
}

impl WatchOutcome {
    /// Returns the sum of both.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            edits: self.edits + other.edits,
            scoped: self.scoped + other.scoped,
            whole: self.whole + other.whole,
            broken: self.broken + other.broken,
            overflows: self.overflows + other.overflows,
            lost: self.lost + other.lost,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum SimEntry {
    Directory { mode: u64, names: BTreeMap<String, usize> },
    File { version: u64, is_open: bool },
}

/// What a path has: for a directory its mode, for a file its version.
type PathState = (bool, u64);

/// The watched file system, with its watches.
struct WatchedFiles {
    entries: Vec<SimEntry>,
    watches: BTreeMap<WatchId, usize>,
    next_watch: i32,
    queue: VecDeque<DirectoryEvent>,
    has_overflow: bool,
    next_version: u64,
}

impl WatchedFiles {
    fn new() -> Self {
        let root = SimEntry::Directory { mode: 0, names: BTreeMap::new() };
        Self {
            entries: vec![root],
            watches: BTreeMap::new(),
            next_watch: 1,
            queue: VecDeque::new(),
            has_overflow: false,
            next_version: 1,
        }
    }

    fn names(&self, directory: usize) -> Option<&BTreeMap<String, usize>> {
        match &self.entries[directory] {
            SimEntry::Directory { names, .. } => Some(names),
            SimEntry::File { .. } => None,
        }
    }

    fn names_mut(&mut self, directory: usize) -> &mut BTreeMap<String, usize> {
        match &mut self.entries[directory] {
            SimEntry::Directory { names, .. } => names,
            SimEntry::File { .. } => unreachable!("no directory"),
        }
    }

    fn is_directory(&self, entry: usize) -> bool {
        self.names(entry).is_some()
    }

    fn find(&self, path: &[u8]) -> Option<usize> {
        let path = std::str::from_utf8(path).ok()?;
        path.split('/').filter(|name| !name.is_empty()).try_fold(ROOT, |at, name| self.names(at)?.get(name).copied())
    }

    fn state(&self, path: &[u8]) -> Option<PathState> {
        Some(match self.entries[self.find(path)?] {
            SimEntry::Directory { mode, .. } => (true, mode),
            SimEntry::File { version, .. } => (false, version),
        })
    }

    /// All directories of the tree with their paths, parents first.
    fn directories(&self) -> Vec<(Vec<u8>, usize)> {
        let mut found = vec![(Vec::new(), ROOT)];
        let mut at = 0;
        while let Some((path, directory)) = found.get(at).cloned() {
            at += 1;
            for (name, entry) in self.names(directory).into_iter().flatten() {
                if self.is_directory(*entry) {
                    found.push((join(&path, name), *entry));
                }
            }
        }
        found
    }

    fn all(&self) -> BTreeMap<Vec<u8>, PathState> {
        let names = |(path, directory): (Vec<u8>, usize)| {
            let names = self.names(directory).into_iter().flatten();
            names.map(|(name, _)| join(&path, name)).collect::<Vec<_>>()
        };
        let paths = self.directories().into_iter().flat_map(names).chain([Vec::new()]);
        paths.filter_map(|path| self.state(&path).map(|state| (path, state))).collect()
    }

    fn emit(&mut self, directory: usize, change: DirectoryChange, name: &str, is_directory: bool) {
        let Some(watch) = self.watches.iter().find(|(_, watched)| **watched == directory).map(|(watch, _)| *watch)
        else {
            return;
        };
        if self.queue.len() >= QUEUE_MAX {
            self.has_overflow = true;
            return;
        }
        self.queue.push_back(DirectoryEvent { watch, change, name: name.into(), is_directory });
    }

    fn add_watch(&mut self, directory: usize) -> WatchId {
        let known = self.watches.iter().find(|(_, watched)| **watched == directory).map(|(watch, _)| *watch);
        known.unwrap_or_else(|| {
            let watch = WatchId(self.next_watch);
            self.next_watch += 1;
            self.watches.insert(watch, directory);
            watch
        })
    }

    fn version(&mut self) -> u64 {
        self.next_version += 1;
        self.next_version
    }

    /// Removes a name with all below, as rm -r does.
    fn remove(&mut self, directory: usize, name: &str) {
        let Some(entry) = self.names(directory).and_then(|names| names.get(name)).copied() else { return };
        let below: Vec<_> = self.names(entry).into_iter().flatten().map(|(name, _)| name.clone()).collect();
        below.iter().for_each(|name| self.remove(entry, name));
        self.names_mut(directory).remove(name);
        let is_directory = self.is_directory(entry);
        if is_directory {
            self.emit(entry, DirectoryChange::Left, "", true);
            self.emit(entry, DirectoryChange::Ended, "", true);
            self.watches.retain(|_, watched| *watched != entry);
        }
        self.emit(directory, DirectoryChange::Gone, name, is_directory);
    }

    fn edit(&mut self, rng: &mut Rng) {
        let directories = self.directories();
        let (path, directory) = directories[rng.index(directories.len())].clone();
        let name = rng.pick(&NAMES);
        let found = self.names(directory).and_then(|names| names.get(name)).copied();
        match (rng.below(10), found) {
            (0..=2, None) => {
                let version = self.version();
                self.entries.push(SimEntry::File { version, is_open: false });
                let entry = self.entries.len() - 1;
                self.names_mut(directory).insert(name.to_owned(), entry);
                self.emit(directory, DirectoryChange::Appeared, name, false);
                self.emit(directory, DirectoryChange::Closed, name, false);
            }
            (3..=4, None) if path.len() < 8 => {
                self.entries.push(SimEntry::Directory { mode: 0, names: BTreeMap::new() });
                let entry = self.entries.len() - 1;
                self.names_mut(directory).insert(name.to_owned(), entry);
                self.emit(directory, DirectoryChange::Appeared, name, true);
            }
            (0..=4, Some(entry)) => self.change(rng, directory, name, entry),
            (5..=6, Some(_)) => self.remove(directory, name),
            (7..=9, Some(entry)) => {
                let (to_path, to) = directories[rng.index(directories.len())].clone();
                let own = join(&path, name);
                let is_inside = to_path == own || to_path.starts_with(&[&own[..], b"/"].concat());
                let to_name = rng.pick(&NAMES);
                if is_inside || self.names(to).is_none_or(|names| names.contains_key(to_name)) {
                    return;
                }
                let is_directory = self.is_directory(entry);
                self.names_mut(directory).remove(name);
                self.names_mut(to).insert(to_name.to_owned(), entry);
                self.emit(directory, DirectoryChange::Gone, name, is_directory);
                self.emit(to, DirectoryChange::Appeared, to_name, is_directory);
                if is_directory {
                    self.emit(entry, DirectoryChange::Left, "", true);
                }
            }
            _ => {}
        }
    }

    fn change(&mut self, rng: &mut Rng, directory: usize, name: &str, entry: usize) {
        let new = self.version();
        let closes = rng.chance(600);
        match &mut self.entries[entry] {
            SimEntry::Directory { mode, .. } => {
                *mode = new;
                self.emit(directory, DirectoryChange::Properties, name, true);
                self.emit(entry, DirectoryChange::Properties, "", true);
            }
            SimEntry::File { version, is_open } => {
                *version = new;
                *is_open = !closes;
                self.emit(directory, DirectoryChange::Written, name, false);
                if closes {
                    self.emit(directory, DirectoryChange::Closed, name, false);
                }
            }
        }
    }
}

fn join(path: &[u8], name: &str) -> Vec<u8> {
    if path.is_empty() { name.into() } else { [path, b"/", name.as_bytes()].concat() }
}

/// A watch with its runs.
struct WatchedCopy {
    rng: Rng,
    source: WatchedFiles,
    target: BTreeMap<Vec<u8>, PathState>,
    tree: WatchedTree,
    changes: ChangeCollector,
    due: Option<ChangedPart>,
    now_us: u64,
    is_quiet: bool,
    mistake: WatchMistake,
    outcome: WatchOutcome,
}

/// Runs a seed; an error names the path that was missed.
pub fn run_watch(seed: u64, mistake: WatchMistake) -> Result<WatchOutcome, String> {
    let mut copy = WatchedCopy {
        rng: Rng::new(seed),
        source: WatchedFiles::new(),
        target: BTreeMap::new(),
        tree: WatchedTree::default(),
        changes: ChangeCollector::default(),
        due: None,
        now_us: 0,
        is_quiet: false,
        mistake,
        outcome: WatchOutcome::default(),
    };
    (0..10).for_each(|_| copy.edit());
    copy.watch_below(ROOT, Vec::new());
    copy.due = Some(ChangedPart::Everything);
    for _ in 0..20 + copy.rng.below(60) {
        copy.step();
    }
    copy.is_quiet = true;
    copy.settle()?;
    let source = copy.source.all();
    let all = source.keys().chain(copy.target.keys());
    match all.into_iter().find(|path| source.get(*path) != copy.target.get(*path)) {
        None => Ok(copy.outcome),
        Some(path) => Err(format!(
            "{:?}: {:?} at the source, {:?} at the target",
            String::from_utf8_lossy(path),
            source.get(path),
            copy.target.get(path)
        )),
    }
}

impl WatchedCopy {
    fn edit(&mut self) {
        self.outcome.edits += 1;
        self.source.edit(&mut self.rng);
    }

    /// Others go on between any two steps.
    fn meanwhile(&mut self) {
        while !self.is_quiet && self.rng.chance(300) {
            self.edit();
        }
    }

    fn step(&mut self) {
        self.now_us += self.rng.below(150_000);
        match self.rng.below(100) {
            0..=39 => self.edit(),
            40..=69 => self.take_events(),
            70 => (0..QUEUE_MAX).for_each(|_| self.edit()),
            71 => self.lose_session(),
            72 => self.replace_root(),
            _ => self.run_due(),
        }
    }

    /// The end of all edits: files are closed, events taken, and runs made, until nothing is due.
    fn settle(&mut self) -> Result<(), String> {
        for (_, directory) in self.source.directories() {
            for (name, entry) in self.source.names(directory).cloned().into_iter().flatten() {
                if let SimEntry::File { is_open, .. } = &mut self.source.entries[entry]
                    && std::mem::take(is_open)
                {
                    self.source.emit(directory, DirectoryChange::Closed, &name, false);
                }
            }
        }
        for _ in 0..1000 {
            self.take_events();
            if self.due.is_some() {
                self.run_due();
                continue;
            }
            match self.changes.due_us() {
                Some(due_us) => self.now_us = self.now_us.max(due_us),
                None => return Ok(()),
            }
        }
        Err("there is no end to runs".to_owned())
    }

    fn lose_session(&mut self) {
        self.outcome.lost += 1;
        self.source.watches.clear();
        self.source.queue.clear();
        self.source.has_overflow = false;
        (self.tree, self.changes) = Default::default();
        self.watch_below(ROOT, Vec::new());
        if self.mistake != WatchMistake::TrustNewSession {
            self.add(ChangedPart::Everything);
        }
    }

    /// Another tree has the root's place.
    fn replace_root(&mut self) {
        let names: Vec<_> = self.source.names(ROOT).into_iter().flatten().map(|(name, _)| name.clone()).collect();
        let moved = self.source.entries.len();
        let old = self.source.entries[ROOT].clone();
        self.source.entries.push(old);
        self.source.entries[ROOT] = SimEntry::Directory { mode: 0, names: BTreeMap::new() };
        // The watch stays with the old directory.
        self.source.watches.values_mut().filter(|watched| **watched == ROOT).for_each(|watched| *watched = moved);
        self.source.emit(moved, DirectoryChange::Left, "", true);
        if self.rng.chance(500) {
            let kept =
                names.into_iter().next().and_then(|name| Some((name.clone(), *self.source.names(moved)?.get(&name)?)));
            self.source.names_mut(ROOT).extend(kept);
        }
    }

    fn add(&mut self, part: ChangedPart) {
        self.due = Some(match self.due.take() {
            Some(due) => due.and(part),
            None => part,
        });
    }

    /// What the worker does with all events that are there.
    fn take_events(&mut self) {
        self.meanwhile();
        let events: Vec<_> = self.source.queue.drain(..).collect();
        for event in events {
            self.meanwhile();
            let (tree, changes, now_us) = (&mut self.tree, &mut self.changes, self.now_us);
            let steps: Vec<_> =
                tree.paths_of(&event).into_iter().flat_map(|path| tree.take(now_us, &event, path, changes)).collect();
            for step in steps {
                match step {
                    WatchStep::Unwatch(watch) => drop(self.source.watches.remove(&watch)),
                    WatchStep::Watch(path) => {
                        self.meanwhile();
                        let found = self.source.find(&path).filter(|found| self.source.is_directory(*found));
                        found.into_iter().for_each(|found| self.watch_below(found, path.clone()));
                    }
                }
            }
        }
        if std::mem::take(&mut self.source.has_overflow) {
            self.outcome.overflows += 1;
            if self.mistake != WatchMistake::IgnoreOverflow {
                self.watch_anew();
            }
        }
        if !self.tree.has_root() {
            self.watch_anew();
        }
        if let Some(part) = self.changes.take(self.now_us) {
            self.add(part);
        }
    }

    fn watch_anew(&mut self) {
        self.source.watches.clear();
        self.source.queue.clear();
        self.tree = WatchedTree::default();
        self.watch_below(ROOT, Vec::new());
        self.changes.doubt(self.now_us);
    }

    fn watch_below(&mut self, directory: usize, path: Vec<u8>) {
        let mut waiting = vec![(directory, path)];
        while let Some((directory, path)) = waiting.pop() {
            let listed_first = (self.mistake == WatchMistake::ListFirst).then(|| self.source.names(directory).cloned());
            self.meanwhile();
            let watch = self.source.add_watch(directory);
            self.tree.watched(path.clone(), watch);
            self.meanwhile();
            let names = listed_first.unwrap_or_else(|| self.source.names(directory).cloned());
            let is_top_only = self.mistake == WatchMistake::WatchTopOnly && !path.is_empty();
            for (name, entry) in names.into_iter().flatten().filter(|_| !is_top_only) {
                // A name that is gone, or leads elsewhere by now, cannot be opened as what was listed.
                let is_there = self.source.names(directory).and_then(|names| names.get(&name)) == Some(&entry);
                if is_there && self.source.is_directory(entry) {
                    waiting.push((entry, join(&path, &name)));
                }
            }
        }
    }

    fn run_due(&mut self) {
        let Some(part) = self.due.take() else { return };
        match part {
            ChangedPart::Everything => self.outcome.whole += 1,
            ChangedPart::Paths(_) => self.outcome.scoped += 1,
        }
        let looked_at = match &part {
            ChangedPart::Paths(paths) if self.mistake == WatchMistake::SkipContents => {
                let tops = paths.iter().map(|one| ChangedPath { has_contents: false, ..one.clone() });
                ChangedPaths::new(tops).map(ChangedPart::Paths)
            }
            _ => Some(part.clone()),
        };
        let covers = |path: &[u8]| match &looked_at {
            Some(ChangedPart::Paths(paths)) => paths.covers(path),
            _ => true,
        };
        let paths: Vec<_> = self.source.all().into_keys().chain(self.target.keys().cloned()).collect();
        for path in paths.into_iter().filter(|path| covers(path)) {
            self.meanwhile();
            if !self.is_quiet && self.rng.chance(20) {
                self.outcome.broken += 1;
                if self.mistake != WatchMistake::ForgetBrokenRun {
                    self.add(part);
                }
                return;
            }
            match self.source.state(&path) {
                Some(state) => drop(self.target.insert(path, state)),
                None => drop(self.target.remove(&path)),
            }
        }
    }
}

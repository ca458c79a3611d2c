//! Watches a tree for changes: [`WatchedTree`] decides, inotify reports.
//!
//! Where changes may have been missed (an overflowed queue, a mount, a lost root), all watches are set anew, and
//! everything may have changed.

mod inotify;
mod mounts;

use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use haul_proto::filter::PatternListError;
use haul_proto::filter::definition::FilterOptions;
use haul_proto::path::Name;
use haul_proto::twoway::is_own;
use haul_proto::watch::{ChangeCollector, ChangedPart, DirectoryChange, DirectoryEvent, WatchStep, WatchedTree};
use haul_proto::wire::file_session::WatchCoverage;
use rustix::fs::FileType;
use rustix::io::Errno;

use self::inotify::{Inotify, Notice};
use self::mounts::Mounts;
use super::filter::WalkFilter;
use super::{Dir, DirectoryPages, FileIdentity, file_system};

/// How often a lost root is looked for.
const ROOT_INTERVAL: Duration = Duration::from_secs(1);
/// The limit of watches of a user.
const WATCHES_MAX_FILE: &str = "/proc/sys/fs/inotify/max_user_watches";

/// Why a tree cannot be watched.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// The root cannot be opened, or the system has no watches.
    #[error("{}", haul_base::sys::describe::describe(.0))]
    System(#[from] io::Error),
    /// A pattern is not valid.
    #[error("{0}")]
    Filter(#[from] PatternListError),
    /// There are more directories than watches.
    #[error(
        "more directories than watches (fs.inotify.max_user_watches{})\nlet the administrator raise it: sysctl fs.inotify.max_user_watches=1048576",
        .0.map(|most| format!(" is {most}")).unwrap_or_default()
    )]
    TooMany(Option<u64>),
}

/// A watched tree.
pub struct TreeWatch {
    path: PathBuf,
    filter: Option<WalkFilter>,
    root: FileIdentity,
    inotify: Inotify,
    mounts: Mounts,
    tree: WatchedTree,
    changes: ChangeCollector,
    began: Instant,
}

impl TreeWatch {
    /// Sets watches on a directory and everything below.
    pub fn start(path: &Path, filters: &FilterOptions) -> Result<Self, WatchError> {
        let path = super::lookup::real_path(path)?;
        let dir = Dir::open_root(&path)?;
        let mut watch = Self {
            filter: WalkFilter::new(filters)?,
            root: dir.identity(),
            inotify: Inotify::new()?,
            mounts: Mounts::new(&path),
            tree: WatchedTree::default(),
            changes: ChangeCollector::default(),
            began: Instant::now(),
            path,
        };
        watch.watch_below(dir, Vec::new())?;
        match watch.tree.has_root() {
            true => Ok(watch),
            // Its directory cannot be read.
            false => Err(io::Error::from(Errno::ACCESS).into()),
        }
    }

    /// How far it reaches.
    pub fn coverage(&self) -> WatchCoverage {
        let is_shared = Dir::open_root(&self.path)
            .and_then(|root| Ok(file_system::is_served(file_system::magic_of(&*root.fd()?))))
            .unwrap_or(false);
        WatchCoverage { directories: self.tree.len() as u64, is_shared }
    }

    /// Waits for changes until they are settled.
    pub fn next_changes(&mut self) -> Result<ChangedPart, WatchError> {
        loop {
            if let Some(part) = self.changes.take(self.now_us()) {
                return Ok(part);
            }
            let due_us = self.changes.due_us().map(|due_us| due_us.saturating_sub(self.now_us()));
            let are_mounts_changed = self.inotify.wait(self.mounts.fd(), due_us.map(Duration::from_micros))?;
            if are_mounts_changed && self.mounts.have_changed() {
                self.watch_anew()?;
            }
            self.take_notices()?;
            if !self.tree.has_root() {
                self.watch_anew()?;
            }
        }
    }

    fn now_us(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    fn take_notices(&mut self) -> Result<(), WatchError> {
        for notice in self.inotify.read()? {
            match notice {
                Notice::Overflow => return self.watch_anew(),
                Notice::Event(event) => self.take(&event)?,
            }
        }
        Ok(())
    }

    fn take(&mut self, event: &DirectoryEvent) -> Result<(), WatchError> {
        for path in self.tree.paths_of(event) {
            self.take_at(event, path)?;
        }
        Ok(())
    }

    fn take_at(&mut self, event: &DirectoryEvent, path: Vec<u8>) -> Result<(), WatchError> {
        let is_name =
            !matches!(event.change, DirectoryChange::Left | DirectoryChange::Unmounted | DirectoryChange::Ended);
        if is_name && self.leaves_out(&path, event.is_directory || event.name.is_empty()) {
            return Ok(());
        }
        let now_us = self.now_us();
        for step in self.tree.take(now_us, event, path, &mut self.changes) {
            match step {
                WatchStep::Unwatch(watch) => self.inotify.remove(watch),
                WatchStep::Watch(path) => {
                    // It may be gone already, which another event says.
                    if let Ok(dir) = self.open(&path) {
                        self.watch_below(dir, path)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Sets all watches anew, since some may be missing. Waits for the root, if it is gone.
    fn watch_anew(&mut self) -> Result<(), WatchError> {
        let root = loop {
            match Dir::open_root(&self.path) {
                Ok(root) => break root,
                Err(error) if error.kind() == io::ErrorKind::NotFound => thread::sleep(ROOT_INTERVAL),
                Err(error) => return Err(error.into()),
            }
        };
        self.root = root.identity();
        (self.inotify, self.tree) = (Inotify::new()?, WatchedTree::default());
        self.mounts = Mounts::new(&self.path);
        self.watch_below(root, Vec::new())?;
        self.changes.doubt(self.now_us());
        Ok(())
    }

    fn open(&self, path: &[u8]) -> io::Result<Dir> {
        let root = Dir::open_root(&self.path)?;
        if root.identity() != self.root {
            return Err(Errno::NOENT.into());
        }
        let names = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
        names.map(|name| Name::new(name).map_err(io::Error::other)).try_fold(root, |dir, name| dir.child(&name?))
    }

    /// Sets watches on a directory and those below. A directory is listed after its watch is set.
    fn watch_below(&mut self, dir: Dir, path: Vec<u8>) -> Result<(), WatchError> {
        let mut waiting = vec![(dir, path)];
        while let Some((dir, path)) = waiting.pop() {
            let watch = match dir.fd().and_then(|fd| self.inotify.add(&*fd)) {
                Ok(watch) => watch,
                Err(error) if error.raw_os_error() == Some(Errno::NOSPC.raw_os_error()) => {
                    let most = std::fs::read_to_string(WATCHES_MAX_FILE).ok();
                    return Err(WatchError::TooMany(most.and_then(|text| text.trim().parse().ok())));
                }
                // It is gone, or nobody may read it.
                Err(_) => continue,
            };
            self.tree.watched(path.clone(), watch);
            let mut pages = DirectoryPages::new(dir.clone());
            let mut names = Vec::new();
            let mut tell =
                |name: &Name, kind: FileType| names.extend((kind == FileType::Directory).then(|| name.clone()));
            while pages.next_page(|_| false, &mut tell).unwrap_or(false) {}
            for name in names {
                let below = if path.is_empty() { Vec::new() } else { [&path, &b"/"[..]].concat() };
                let below = [&below, name.as_bytes()].concat();
                if !self.leaves_out(&below, true) {
                    waiting.extend(dir.child(&name).ok().map(|child| (child, below)));
                }
            }
        }
        Ok(())
    }

    /// Whether a path is excluded, or belongs to haul.
    fn leaves_out(&self, path: &[u8], is_directory: bool) -> bool {
        let names: Vec<_> = path.split(|byte| *byte == b'/').filter_map(|name| Name::new(name).ok()).collect();
        names.iter().enumerate().any(|(depth, name)| is_own(name, depth == 0))
            || self.filter.as_ref().is_some_and(|filter| filter.leaves_out_path(names, is_directory))
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;

//! Lookups of many names in one directory at once, if lookups wait for a disk or a server: for the target, which
//! compares each offered name with what exists.

use std::collections::{HashSet, VecDeque};
use std::io;
use std::sync::Mutex;

use haul_base::copy::spec::Symlinks;
use haul_base::sys::cancel::Cancel;
use haul_base::sys::sync::lock;
use haul_proto::path::Name;

use super::{Dir, FileIdentity, FileStat, FollowLinks, Prefetcher, SpecialFiles, WalkOptions};
use crate::fs::lookup_waits::LookupWaits;
use crate::fs::prefetch::GroupId;
use crate::fs::prefetch::task::{LookupHandle, LookupTask, TaskSlot, weak};
use crate::fs::prefetch::worker::PrefetchWorker;

/// Looks up names, in advance where that saves time.
pub struct StatAhead {
    prefetcher: Prefetcher,
    state: Mutex<StatAheadState>,
}

#[derive(Default)]
struct StatAheadState {
    /// Waits of the lookups that no other thread made.
    waits: LookupWaits,
    /// The directory of `names`.
    dir: Option<(FileIdentity, GroupId)>,
    /// Requested names, in the order of their turns.
    names: VecDeque<(Name, LookupHandle<StatName>)>,
}

/// The lookup of one name.
struct StatName {
    dir: Dir,
    name: Name,
}

impl LookupTask for StatName {
    type Fetched = FileStat;

    fn run(&self, worker: &mut PrefetchWorker<'_>) -> Option<io::Result<FileStat>> {
        Some(worker.waits.time(|| stat(&self.dir, &self.name)))
    }

    fn bytes(_: &FileStat) -> usize {
        size_of::<StatName>() + size_of::<TaskSlot<StatName>>()
    }
}

impl Default for StatAhead {
    fn default() -> Self {
        let options = WalkOptions {
            recursive: false,
            symlinks: Symlinks::Keep,
            skip: None,
            one_file_system: false,
            is_filtered: false,
            nodes: SpecialFiles::default(),
            only_counts_files: false,
        };
        Self { prefetcher: Prefetcher::new(options, Cancel::new()), state: Mutex::default() }
    }
}

impl StatAhead {
    /// Whether lookups wait, so that [`Self::request`] saves time.
    pub fn is_of_use(&self) -> bool {
        self.prefetcher.is_of_use()
    }

    /// Requests these names of `dir`. Earlier requests are dropped. A name that comes twice is requested once: the
    /// first entry may change what the second one finds.
    pub fn request<'n>(&self, dir: &Dir, names: impl Iterator<Item = &'n Name>) {
        let group = self.prefetcher.new_group();
        let mut seen = HashSet::new();
        let requested = names.filter(|name| seen.insert(*name));
        let requested: VecDeque<_> = requested
            .map(|name| (name.clone(), TaskSlot::new(StatName { dir: dir.clone(), name: name.clone() })))
            .collect();
        self.prefetcher.ask_all(group, requested.iter().rev().map(|(_, handle)| weak(handle)).collect());
        let mut state = lock(&self.state);
        let before = state.dir.replace((dir.identity(), group));
        state.names = requested;
        drop(state);
        before.into_iter().for_each(|(_, group)| self.prefetcher.end_group(group));
    }

    /// Looks up a name, without following it. A requested lookup may have been made early; `may_be_early` refuses it.
    pub fn stat(
        &self,
        dir: &Dir,
        name: &Name,
        may_be_early: impl FnOnce(&io::Result<FileStat>) -> bool,
    ) -> io::Result<FileStat> {
        let early = self.take(dir, name).and_then(|handle| handle.collect());
        if let Some(found) = early.filter(may_be_early) {
            return found;
        }
        let mut state = lock(&self.state);
        self.prefetcher.judge(&mut state.waits);
        let timing = state.waits.begin();
        drop(state);
        let found = stat(dir, name);
        lock(&self.state).waits.end(timing);
        found
    }

    /// The request of a name. Those before it were passed over.
    fn take(&self, dir: &Dir, name: &Name) -> Option<LookupHandle<StatName>> {
        let mut state = lock(&self.state);
        state.dir.filter(|(identity, _)| *identity == dir.identity())?;
        let before = state.names.iter().position(|(requested, _)| requested == name)?;
        state.names.drain(..before);
        state.names.pop_front().map(|(_, handle)| handle)
    }
}

fn stat(dir: &Dir, name: &Name) -> io::Result<FileStat> {
    FileStat::at_name(&*dir.fd()?, name, FollowLinks::Itself)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::testing::{name, write_file};

    fn always() -> StatAhead {
        let StatAhead { prefetcher, state } = StatAhead::default();
        let options = prefetcher.options();
        StatAhead { prefetcher: Prefetcher::always(options, Cancel::new()), state }
    }

    #[test]
    fn requested_names_and_others_are_found_alike() {
        let temp = tempfile::tempdir().unwrap();
        let dir = Dir::open_root(temp.path()).unwrap();
        (0..500).for_each(|i| write_file(&dir, format!("f{i}"), &vec![b'x'; i]));
        let ahead = always();
        assert!(ahead.is_of_use());
        let names: Vec<_> = (0..500).map(|i| name(format!("f{i}"))).collect();
        ahead.request(&dir, names.iter());
        // Some are passed over, as entries that need no lookup are.
        for i in (0..500).filter(|i| i % 7 != 0) {
            assert_eq!(ahead.stat(&dir, &names[i], |_| true).unwrap().size, i as u64);
        }
        let absent = ahead.stat(&dir, &name("absent"), |_| true).unwrap_err();
        assert_eq!(absent.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn an_early_result_counts_once_in_its_directory_and_if_it_is_accepted() {
        let temp = tempfile::tempdir().unwrap();
        let dir = Dir::open_root(temp.path()).unwrap();
        std::fs::create_dir(temp.path().join("other")).unwrap();
        let other = dir.child(&name("other")).unwrap();
        let ahead = always();
        let names = ["a", "a", "b", "c"].map(name);
        ahead.request(&dir, names.iter());
        let fetched = |text: &&str| {
            let state = lock(&ahead.state);
            let (_, handle) = state.names.iter().find(|(requested, _)| *requested == name(*text)).unwrap();
            while !handle.is_fetched() {
                std::thread::yield_now();
            }
        };
        ["a", "b", "c"].iter().for_each(fetched);
        // All four were absent when they were requested.
        ["a", "b", "c"].iter().for_each(|text| write_file(&dir, text, b"new"));
        write_file(&other, "c", b"other");
        let size = |dir, text, may_be_early: bool| ahead.stat(dir, &name(text), |_| may_be_early).map(|stat| stat.size);
        assert!(size(&dir, "a", true).is_err(), "the early result");
        assert_eq!(size(&dir, "a", true).unwrap(), 3, "the second entry of the name");
        assert_eq!(size(&dir, "b", false).unwrap(), 3, "refused");
        assert_eq!(size(&other, "c", true).unwrap(), 5);
        assert!(size(&dir, "c", true).is_err(), "the early result");
    }
}

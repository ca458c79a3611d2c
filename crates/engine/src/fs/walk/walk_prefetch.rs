//! Prefetched lookups of a walk: the contents of its innermost directories.
//!
//! Each directory has a group of tasks. When the walk goes deeper, the outermost groups lose their results, and request
//! them again on the way back. So memory is limited, and nearer groups have room.

use std::collections::VecDeque;
use std::io;
use std::sync::Weak;

use haul_proto::path::Name;

use crate::fs::listing::{KnownName, ListingChunk, OpenSubdirectory, ReadListing};
use crate::fs::lookup_waits::LookupWaits;
use crate::fs::meta::FollowLinks;
use crate::fs::prefetch::budget::GROUPS_MAX;
use crate::fs::prefetch::task::{AnyTask, LookupHandle, LookupTask, TaskSlot, weak};
use crate::fs::prefetch::{GroupId, Prefetcher};
use crate::fs::walk::WalkLevel;
use crate::fs::walk_lookup::WalkStep;

/// A walk's prefetch workers and its requests to them.
pub(super) struct WalkPrefetch<'a> {
    pub ahead: &'a Prefetcher,
    /// Waits of the walk's own lookups.
    pub waits: LookupWaits,
    /// Levels with requested tasks, the innermost last.
    groups: VecDeque<(usize, GroupId)>,
}

impl<'a> WalkPrefetch<'a> {
    pub fn new(ahead: &'a Prefetcher) -> Self {
        Self { ahead, waits: LookupWaits::default(), groups: VecDeque::new() }
    }

    /// The result, if a worker has started the task.
    pub fn collect<E: LookupTask>(&self, ticket: Option<LookupHandle<E>>) -> Option<io::Result<E::Fetched>> {
        let fetched = ticket?.collect();
        self.ahead.collected();
        fetched
    }

    /// Starts the workers if the walk's own lookups wait.
    pub fn judge(&mut self, levels: &mut [WalkLevel], chunk: &mut ListingChunk) {
        if self.ahead.judge(&mut self.waits) {
            // Without their groups, the levels above are requested on the way back.
            self.drop_groups();
            self.request_lookups(levels, chunk);
        }
    }

    /// Leaves the innermost level.
    pub fn left(&mut self, levels: &mut [WalkLevel]) {
        while self.groups.back().is_some_and(|&(number, _)| number >= levels.len()) {
            if let Some((_, group)) = self.groups.pop_back() {
                self.ahead.end_group(group);
            }
        }
        // The parent's requests were dropped or never made.
        if self.groups.back().is_none_or(|&(number, _)| number + 1 < levels.len()) {
            self.request_lookups(levels, &mut ListingChunk::empty());
        }
    }

    /// Requests all further lookups of the innermost level, the farthest first.
    pub fn request_lookups(&mut self, levels: &mut [WalkLevel], chunk: &mut ListingChunk) {
        let Some(innermost) = levels.len().checked_sub(1).filter(|_| self.ahead.is_of_use()) else { return };
        let level = &mut levels[innermost];
        let options = self.ahead.options();
        let is_directory = |kind| options.recursive && matches!(WalkStep::of(kind, options.symlinks), WalkStep::Enter);
        let is_wanted = level.rest.is_some()
            || !level.waiting.is_empty()
            || chunk.left().any(|(_, entry)| is_directory(entry.kind));
        if !is_wanted {
            return;
        }
        let group = self.group_of(innermost);
        let dir = &level.dir;
        let mut tasks: Vec<Weak<dyn AnyTask>> = Vec::new();
        if let Some(rest) = &level.rest {
            let task = || TaskSlot::new(ReadListing { dir: dir.clone(), rest: rest.clone() });
            tasks.push(weak(level.rest_ahead.get_or_insert_with(task)));
        }
        let enter = |name: Name| TaskSlot::new(OpenSubdirectory { parent: dir.clone(), name });
        for waiting in level.waiting.iter_mut().filter(|waiting| waiting.links == FollowLinks::Itself) {
            tasks.push(weak(waiting.ahead.get_or_insert_with(|| enter(waiting.name.clone()))));
        }
        for (name, entry) in chunk.left().filter(|(_, entry)| is_directory(entry.kind)) {
            let Ok(name) = Name::new(name) else { continue };
            if let KnownName::Nothing = entry.known {
                entry.known = KnownName::Asked(enter(name));
            }
            if let KnownName::Asked(ticket) = &entry.known {
                tasks.push(weak(ticket));
            }
        }
        self.ahead.ask_all(group, tasks);
        if self.groups.len() > GROUPS_MAX
            && let Some((number, group)) = self.groups.pop_front()
        {
            self.ahead.end_group(group);
            levels[number].forget();
        }
    }

    fn drop_groups(&mut self) {
        self.groups.drain(..).for_each(|(_, group)| self.ahead.end_group(group));
    }

    fn group_of(&mut self, number: usize) -> GroupId {
        match self.groups.back() {
            Some(&(innermost, group)) if innermost == number => group,
            _ => {
                let group = self.ahead.new_group();
                self.groups.push_back((number, group));
                group
            }
        }
    }
}

impl Drop for WalkPrefetch<'_> {
    /// Another walk may use the workers.
    fn drop(&mut self) {
        self.drop_groups();
    }
}

impl WalkLevel {
    /// Discards fetched results.
    fn forget(&mut self) {
        self.rest_ahead = None;
        self.waiting.iter_mut().for_each(|waiting| waiting.ahead = None);
    }
}

//! A helper: a thread that sees to one errand after the other, and what it holds for the walk.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

#[cfg(test)]
use super::ahead::HELPERS;
use super::ahead::{GROUPS_MAX, GroupId, LOOKUPS, LookupRequests, PrefetchShared};
use super::errand::{AnyTask, LookupHandle, LookupTask, TaskSlot};
#[cfg(test)]
use super::listing::{ListedName, MAX_NAMES};
use super::listing::{ListingBuffer, ListingChunk, ListingPosition};
use super::waits::LookupWaits;
use super::{Dir, WalkOptions};

/// Bytes that are held for all groups before helpers rest; those at work may add a piece each.
const AHEAD_BYTES_MAX: usize = 2 * 1024 * 1024;
/// Bytes that are held for one group, so that what is nearer has room, too.
const GROUP_BYTES_MAX: usize = AHEAD_BYTES_MAX / GROUPS_MAX;
/// How many levels below the group's helpers go by themselves: what they hold is one in the other.
const DEPTH_MAX: u8 = 16;
/// Where helpers wait less than this for [`LOOKUPS`], they are of no use.
const IDLE_HELP: Duration = Duration::from_millis(4);

/// What is ever held, where names are short.
#[cfg(test)]
pub(super) const BYTES_HELD_MAX: usize = AHEAD_BYTES_MAX + 2 * HELPERS * MAX_NAMES * size_of::<ListedName>();

/// What a helper has at hand.
pub(super) struct PrefetchWorker<'s> {
    shared: &'s PrefetchShared,
    buffer: ListingBuffer,
    pub waits: LookupWaits,
    group: GroupId,
    depth: u8,
    held: Arc<PrefetchedBytes>,
}

/// Bytes that were fetched for a group and not collected.
pub(super) struct PrefetchedBytes {
    bytes: AtomicUsize,
    /// The same of all groups.
    all: Arc<AtomicUsize>,
}

/// Bytes that are held until this is dropped.
pub(super) struct ByteCharge(Arc<PrefetchedBytes>, usize);

/// A helper's life.
pub(super) fn help(shared: &PrefetchShared) {
    let (group, held) = (GroupId(0), Arc::new(PrefetchedBytes::new(&shared.held)));
    let mut helper =
        PrefetchWorker { shared, buffer: ListingBuffer::new(), waits: LookupWaits::new(), group, depth: 0, held };
    while let Some(job) = helper.wait_for_errand() {
        job.carry_out(&mut helper);
    }
}

impl PrefetchedBytes {
    /// Nothing yet; what comes is added to `all`, too.
    pub fn new(all: &Arc<AtomicUsize>) -> Self {
        Self { bytes: AtomicUsize::new(0), all: Arc::clone(all) }
    }

    fn has_room(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) < GROUP_BYTES_MAX && self.all.load(Ordering::Relaxed) < AHEAD_BYTES_MAX
    }
}

impl Drop for ByteCharge {
    fn drop(&mut self) {
        let Self(held, bytes) = self;
        held.bytes.fetch_sub(*bytes, Ordering::Relaxed);
        held.all.fetch_sub(*bytes, Ordering::Relaxed);
    }
}

impl PrefetchWorker<'_> {
    /// The nearest errand that nobody has begun; `None` when the walk is over.
    fn wait_for_errand(&mut self) -> Option<Arc<dyn AnyTask>> {
        let shared = self.shared;
        let mut asked = shared.lock();
        judge(shared, &mut asked, self.waits.take());
        loop {
            if shared.is_stopped() {
                return None;
            }
            for (&id, group) in asked.groups.iter_mut().rev() {
                while group.held.has_room()
                    && let Some((job, depth)) = group.errands.pop_back()
                {
                    if let Some(job) = job.upgrade().filter(|job| job.begin()) {
                        (self.group, self.depth, self.held) = (id, depth, Arc::clone(&group.held));
                        return Some(job);
                    }
                }
            }
            asked.resting += 1;
            asked = shared.work.wait(asked).unwrap_or_else(PoisonError::into_inner);
            asked.resting -= 1;
        }
    }

    /// The walk's.
    pub fn options(&self) -> &WalkOptions {
        &self.shared.options
    }

    /// Whether the walk ends.
    pub fn is_stopped(&self) -> bool {
        self.shared.is_stopped()
    }

    /// Counts what was fetched.
    pub fn charge(&self, bytes: usize) -> ByteCharge {
        self.held.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.held.all.fetch_add(bytes, Ordering::Relaxed);
        ByteCharge(Arc::clone(&self.held), bytes)
    }

    /// Reads some names.
    pub fn read(&mut self, rest: &ListingPosition, dir: &Dir) -> io::Result<ListingChunk> {
        self.waits.time(|| rest.read(dir, &mut self.buffer))
    }

    /// Asks for something in the directory of the errand at hand.
    pub fn ask<E: LookupTask>(&self, errand: E) -> Option<LookupHandle<E>> {
        self.ask_at(self.depth, errand)
    }

    /// Asks for something one level deeper.
    pub fn ask_deeper<E: LookupTask>(&self, errand: E) -> Option<LookupHandle<E>> {
        // What is below may be left out, and only the walk knows the rules.
        if self.depth < DEPTH_MAX && !self.options().is_filtered { self.ask_at(self.depth + 1, errand) } else { None }
    }

    fn ask_at<E: LookupTask>(&self, depth: u8, errand: E) -> Option<LookupHandle<E>> {
        let ticket = TaskSlot::new(errand);
        self.shared.ask(self.group, &ticket, depth).then_some(ticket)
    }
}

/// Whether helpers' lookups still wait: else the walk does as well without.
fn judge(shared: &PrefetchShared, asked: &mut LookupRequests, (lookups, waited): (u32, Duration)) {
    asked.lookups += lookups;
    asked.waited += waited;
    if asked.lookups >= LOOKUPS {
        if asked.waited < IDLE_HELP * asked.lookups / LOOKUPS && !shared.is_always_of_use {
            shared.is_of_use.store(false, Ordering::Relaxed);
        }
        (asked.lookups, asked.waited) = (0, Duration::ZERO);
    }
}

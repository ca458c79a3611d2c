//! Threads that look things up before the walk comes to them, where lookups wait for a disk or a server.
//!
//! The walk keeps its order and says what it will come to ([`Ahead::ask`]); helpers see to that, nearest first,
//! and to what they find on the way. What they fetched is held until the walk collects it, and counted: a helper
//! that is too far ahead rests. Nothing is started where lookups do not wait, and helpers whose lookups no longer do are left alone.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use super::errand::{Errand, Job, Slot, Ticket};
#[cfg(test)]
use super::listing::{Listed, MAX_NAMES};
use super::listing::{ListingBuffer, Piece, Rest};
use super::waits::Waits;
use super::{Dir, WalkOptions};
use crate::cancel::Cancel;

/// How many threads: as many requests as a disk or a server likes to have at a time.
const HELPERS: usize = 16;
/// How many groups a walk has at a time: for the innermost directories that it is in.
pub(super) const GROUPS_MAX: usize = 4;
/// Bytes that are held for all groups before helpers rest; those at work may add a piece each.
const AHEAD_BYTES_MAX: usize = 2 * 1024 * 1024;
/// Bytes that are held for one group, so that what is nearer has room, too.
const GROUP_BYTES_MAX: usize = AHEAD_BYTES_MAX / GROUPS_MAX;
/// Most errands of a group that wait for a helper; beyond that, the farthest are forgotten.
const ERRANDS_MAX: usize = 1024;
/// How many levels below the group's helpers go by themselves: what they hold is one in the other.
const DEPTH_MAX: u8 = 16;
/// By so many lookups it is judged whether they wait.
const LOOKUPS: u32 = 1024;
/// Where the walk's lookups wait as long as this among [`LOOKUPS`], help is called.
const SLOW_WALK: Duration = Duration::from_millis(10);
/// Where helpers wait less than this for [`LOOKUPS`], they are of no use.
const IDLE_HELP: Duration = Duration::from_millis(4);

/// What all groups may hold together.
#[cfg(test)]
pub(super) const BYTES_HELD_MAX: usize = (GROUPS_MAX + 1) * AHEAD_BYTES_MAX + HELPERS * MAX_NAMES * size_of::<Listed>();

/// Helpers for one walk after the other. Their threads, if there are any, end with it.
pub struct Ahead {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// What is asked for on behalf of one directory that the walk is in, and of what is below. Of two groups, the later one is nearer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct GroupId(u64);

struct Group {
    /// The nearest is the last.
    errands: VecDeque<(Weak<dyn Job>, u8)>,
    held: Arc<Held>,
}

/// Bytes that were fetched for a group and not collected.
#[derive(Default)]
struct Held {
    bytes: AtomicUsize,
    /// The same of all groups.
    all: Arc<AtomicUsize>,
}

/// Bytes that are held until this is dropped.
pub(super) struct Charge(Arc<Held>, usize);

struct Shared {
    options: WalkOptions,
    stop: Cancel,
    ended: AtomicBool,
    /// Whether the walk should ask.
    is_of_use: AtomicBool,
    is_always_of_use: bool,
    asked: Mutex<Asked>,
    work: Condvar,
    /// Bytes that are held.
    held: Arc<AtomicUsize>,
}

#[derive(Default)]
struct Asked {
    groups: BTreeMap<GroupId, Group>,
    group_count: u64,
    /// Helpers that wait for errands.
    resting: usize,
    /// What helpers' lookups waited, lately.
    lookups: u32,
    waited: Duration,
}

/// What a helper has at hand.
pub(super) struct Helper<'s> {
    shared: &'s Shared,
    buffer: ListingBuffer,
    pub waits: Waits,
    group: GroupId,
    depth: u8,
    held: Arc<Held>,
}

impl Ahead {
    /// For walks with these options. All of them end when `stop` is set.
    pub fn new(options: WalkOptions, stop: Cancel) -> Self {
        Self::with(options, stop, false)
    }

    /// Helpers that are asked however quick lookups are.
    #[cfg(test)]
    pub fn always(options: WalkOptions, stop: Cancel) -> Self {
        let ahead = Self::with(options, stop, true);
        ahead.call();
        ahead
    }

    fn with(options: WalkOptions, stop: Cancel, is_always_of_use: bool) -> Self {
        let shared = Shared {
            options,
            stop,
            ended: AtomicBool::new(false),
            is_of_use: AtomicBool::new(false),
            is_always_of_use,
            asked: Mutex::default(),
            work: Condvar::new(),
            held: Arc::default(),
        };
        Self { shared: Arc::new(shared), threads: Mutex::default() }
    }

    pub(super) fn options(&self) -> WalkOptions {
        self.shared.options
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.shared.is_stopped()
    }

    pub(super) fn is_of_use(&self) -> bool {
        self.shared.is_of_use.load(Ordering::Relaxed)
    }

    /// Calls help if the walk's own lookups wait; whether it has just come.
    pub(super) fn judge(&self, waits: &mut Waits) -> bool {
        if waits.waited < SLOW_WALK {
            if waits.lookups >= LOOKUPS {
                waits.take();
            }
            return false;
        }
        waits.take();
        !self.is_of_use() && self.call()
    }

    /// Starts the threads, the first time. Where the system does not permit them, fewer do.
    fn call(&self) -> bool {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        for number in threads.len()..HELPERS {
            let shared = Arc::clone(&self.shared);
            let started = Builder::new().name(format!("haul-look{number}")).spawn(move || shared.help());
            match started {
                Ok(thread) => threads.push(thread),
                Err(_) => break,
            }
        }
        self.shared.is_of_use.store(!threads.is_empty(), Ordering::Relaxed);
        !threads.is_empty()
    }

    /// A group that is nearer than all others.
    pub(super) fn new_group(&self) -> GroupId {
        let mut asked = self.shared.lock();
        asked.group_count += 1;
        let id = GroupId(asked.group_count);
        let held = Arc::new(Held { bytes: AtomicUsize::new(0), all: Arc::clone(&self.shared.held) });
        asked.groups.insert(id, Group { errands: VecDeque::new(), held });
        id
    }

    /// Nobody is to see to errands of this group any more.
    pub(super) fn end_group(&self, id: GroupId) {
        let group = self.shared.lock().groups.remove(&id);
        drop(group);
    }

    /// Has this seen to before anything else of the group.
    pub(super) fn ask<E: Errand>(&self, group: GroupId, ticket: &Ticket<E>) {
        self.shared.ask(group, ticket, 1);
    }

    /// The walk has collected something: a helper that rested may have room again.
    pub(super) fn collected(&self) {
        let asked = self.shared.lock();
        if asked.resting > 0 {
            self.shared.work.notify_one();
        }
    }

    /// How many threads were started.
    #[cfg(test)]
    pub(super) fn threads(&self) -> usize {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Something that is alive as long as any of the threads.
    #[cfg(test)]
    pub(super) fn watch(&self) -> Weak<impl Sized + use<>> {
        Arc::downgrade(&self.shared)
    }

    /// What is held for the walk now.
    #[cfg(test)]
    pub(super) fn bytes_held(&self) -> usize {
        self.shared.held.load(Ordering::Relaxed)
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Relaxed);
        // Under the lock, so that no helper is just about to rest.
        let asked = self.shared.lock();
        self.shared.work.notify_all();
        drop(asked);
        for thread in self.threads.get_mut().unwrap_or_else(PoisonError::into_inner).drain(..) {
            // What one that panicked had begun, the walk has done itself.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn is_stopped(&self) -> bool {
        self.ended.load(Ordering::Relaxed) || self.stop.is_cancelled()
    }

    fn ask<E: Errand>(&self, group: GroupId, ticket: &Ticket<E>, depth: u8) -> bool {
        let mut asked = self.lock();
        let Some(Group { errands, .. }) = asked.groups.get_mut(&group) else { return false };
        if errands.len() >= ERRANDS_MAX {
            errands.pop_front();
        }
        let job: Weak<Slot<E>> = Arc::downgrade(ticket);
        errands.push_back((job, depth));
        if asked.resting > 0 {
            self.work.notify_one();
        }
        true
    }

    /// A helper's life.
    fn help(&self) {
        let (group, held) = (GroupId(0), Arc::default());
        let mut helper =
            Helper { shared: self, buffer: ListingBuffer::new(), waits: Waits::new(), group, depth: 0, held };
        while let Some(job) = self.wait_for_errand(&mut helper) {
            job.carry_out(&mut helper);
        }
    }

    /// The nearest errand that nobody has begun; `None` when the walk is over.
    fn wait_for_errand(&self, helper: &mut Helper<'_>) -> Option<Arc<dyn Job>> {
        let mut asked = self.lock();
        self.judge(&mut asked, helper.waits.take());
        loop {
            if self.is_stopped() {
                return None;
            }
            for (&id, group) in asked.groups.iter_mut().rev() {
                while group.held.has_room()
                    && let Some((job, depth)) = group.errands.pop_back()
                {
                    if let Some(job) = job.upgrade().filter(|job| job.begin()) {
                        (helper.group, helper.depth, helper.held) = (id, depth, Arc::clone(&group.held));
                        return Some(job);
                    }
                }
            }
            asked.resting += 1;
            asked = self.work.wait(asked).unwrap_or_else(PoisonError::into_inner);
            asked.resting -= 1;
        }
    }

    /// Whether helpers' lookups still wait: else the walk does as well without.
    fn judge(&self, asked: &mut Asked, (lookups, waited): (u32, Duration)) {
        asked.lookups += lookups;
        asked.waited += waited;
        if asked.lookups >= LOOKUPS {
            if asked.waited < IDLE_HELP * asked.lookups / LOOKUPS && !self.is_always_of_use {
                self.is_of_use.store(false, Ordering::Relaxed);
            }
            (asked.lookups, asked.waited) = (0, Duration::ZERO);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Asked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    fn has_room(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) < GROUP_BYTES_MAX && self.all.load(Ordering::Relaxed) < AHEAD_BYTES_MAX
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        let Self(held, bytes) = self;
        held.bytes.fetch_sub(*bytes, Ordering::Relaxed);
        held.all.fetch_sub(*bytes, Ordering::Relaxed);
    }
}

impl Helper<'_> {
    pub fn options(&self) -> &WalkOptions {
        &self.shared.options
    }

    pub fn is_stopped(&self) -> bool {
        self.shared.is_stopped()
    }

    pub fn charge(&self, bytes: usize) -> Charge {
        self.held.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.held.all.fetch_add(bytes, Ordering::Relaxed);
        Charge(Arc::clone(&self.held), bytes)
    }

    pub fn read(&mut self, rest: &Rest, dir: &Dir) -> std::io::Result<Piece> {
        self.waits.time(|| rest.read(dir, &mut self.buffer))
    }

    /// Asks for something in the directory of the errand at hand.
    pub fn ask<E: Errand>(&self, errand: E) -> Option<Ticket<E>> {
        self.ask_at(self.depth, errand)
    }

    /// Asks for something one level deeper.
    pub fn ask_deeper<E: Errand>(&self, errand: E) -> Option<Ticket<E>> {
        if self.depth < DEPTH_MAX { self.ask_at(self.depth + 1, errand) } else { None }
    }

    fn ask_at<E: Errand>(&self, depth: u8, errand: E) -> Option<Ticket<E>> {
        let ticket = Slot::new(errand);
        self.shared.ask(self.group, &ticket, depth).then_some(ticket)
    }
}

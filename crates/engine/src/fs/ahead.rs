//! Threads that look things up before the walk comes to them, where lookups wait for a disk or a server.
//!
//! The walk keeps its order and says what it will come to ([`Prefetcher::ask`]); helpers see to that, nearest first,
//! and to what they find on the way. What they fetched is held until the walk collects it, and counted: a helper
//! that is too far ahead rests. Nothing is started where lookups do not wait, and helpers are left alone where theirs
//! no longer do.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use super::WalkOptions;
use super::errand::{AnyTask, LookupHandle, LookupTask, TaskSlot};
use super::helper::{PrefetchedBytes, help};
use super::waits::LookupWaits;
use crate::sys::cancel::Cancel;

/// How many threads: as many requests as a disk or a server likes to have at a time.
pub(super) const HELPERS: usize = 16;
/// How many groups a walk has at a time: for the innermost directories that it is in.
pub(super) const GROUPS_MAX: usize = 4;
/// Most errands of a group that wait for a helper; beyond that, the farthest are forgotten.
const ERRANDS_MAX: usize = 1024;
/// By so many lookups it is judged whether they wait.
pub(super) const LOOKUPS: u32 = 1024;
/// Where the walk's lookups wait as long as this among [`LOOKUPS`], help is called.
const SLOW_WALK: Duration = Duration::from_millis(10);

/// Helpers for one walk after the other. Their threads, if there are any, end with it.
pub struct Prefetcher {
    shared: Arc<PrefetchShared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// What is asked for on behalf of one directory that the walk is in, and of what is below. Of two groups, the later one is nearer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct GroupId(pub u64);

pub(super) struct LookupGroup {
    /// The nearest is the last.
    pub errands: VecDeque<(Weak<dyn AnyTask>, u8)>,
    pub held: Arc<PrefetchedBytes>,
}

pub(super) struct PrefetchShared {
    pub options: WalkOptions,
    pub stop: Cancel,
    pub ended: AtomicBool,
    /// Whether the walk should ask.
    pub is_of_use: AtomicBool,
    pub is_always_of_use: bool,
    pub asked: Mutex<LookupRequests>,
    pub work: Condvar,
    /// Bytes that are held.
    pub held: Arc<AtomicUsize>,
}

#[derive(Default)]
pub(super) struct LookupRequests {
    pub groups: BTreeMap<GroupId, LookupGroup>,
    pub group_count: u64,
    /// Helpers that wait for errands.
    pub resting: usize,
    /// What helpers' lookups waited, lately.
    pub lookups: u32,
    pub waited: Duration,
}

impl Prefetcher {
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
        let shared = PrefetchShared {
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
    pub(super) fn judge(&self, waits: &mut LookupWaits) -> bool {
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
            let started = Builder::new().name(format!("haul-look{number}")).spawn(move || help(&shared));
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
        let held = Arc::new(PrefetchedBytes::new(&self.shared.held));
        asked.groups.insert(id, LookupGroup { errands: VecDeque::new(), held });
        id
    }

    /// Nobody is to see to errands of this group any more.
    pub(super) fn end_group(&self, id: GroupId) {
        let group = self.shared.lock().groups.remove(&id);
        drop(group);
    }

    /// Has this seen to before anything else of the group.
    pub(super) fn ask<E: LookupTask>(&self, group: GroupId, ticket: &LookupHandle<E>) {
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

impl Drop for Prefetcher {
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

impl PrefetchShared {
    pub fn is_stopped(&self) -> bool {
        self.ended.load(Ordering::Relaxed) || self.stop.is_cancelled()
    }

    pub fn ask<E: LookupTask>(&self, group: GroupId, ticket: &LookupHandle<E>, depth: u8) -> bool {
        let mut asked = self.lock();
        let Some(LookupGroup { errands, .. }) = asked.groups.get_mut(&group) else { return false };
        if errands.len() >= ERRANDS_MAX {
            errands.pop_front();
        }
        let job: Weak<TaskSlot<E>> = Arc::downgrade(ticket);
        errands.push_back((job, depth));
        if asked.resting > 0 {
            self.work.notify_one();
        }
        true
    }

    pub fn lock(&self) -> MutexGuard<'_, LookupRequests> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

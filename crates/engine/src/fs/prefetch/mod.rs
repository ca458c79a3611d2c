//! Prefetch workers: threads that look up entries before the walk reaches them, if lookups wait for a disk or a server.
//!
//! The walk keeps its order and announces its next directories ([`PrefetchShared::ask`]). Workers take the nearest first,
//! and further ones below. Results are held and counted until the walk collects them: a worker too far ahead rests.
//! Workers start only if lookups wait, and stop when they no longer do.

pub(super) mod budget;
pub(super) mod task;
pub(super) mod worker;

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use haul_base::sys::cancel::Cancel;

use super::WalkOptions;
use crate::fs::listing_buffer::ListingBuffer;
use crate::fs::lookup_waits::LookupWaits;
use crate::fs::prefetch::budget::PrefetchedBytes;
use crate::fs::prefetch::task::{AnyTask, LookupHandle, LookupTask, TaskOrder, weak};
use crate::fs::prefetch::worker::PrefetchWorker;

/// Number of threads: a good number of concurrent requests for a disk or a server.
pub(in crate::fs) const WORKERS_MAX: usize = 32;
/// Most waiting tasks of a group; beyond that, the farthest are dropped.
const TASKS_MAX: usize = 1024;
/// Number of lookups in one measurement of waits.
pub(in crate::fs) const LOOKUPS: u32 = 1024;
/// Workers with shorter waits per [`LOOKUPS`] are useless.
const IDLE_WORKER: Duration = Duration::from_millis(4);
/// Workers start at these waits of the walk per [`LOOKUPS`].
const SLOW_WALK: Duration = Duration::from_millis(10);

/// Prefetch workers for consecutive walks. Their threads end when it is dropped.
pub struct Prefetcher {
    shared: Arc<PrefetchShared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// A group of lookup tasks, for a directory of the walk and those below. Later groups are nearer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::fs) struct GroupId(pub u64);

pub(in crate::fs) struct LookupGroup {
    /// The tasks, the nearest last.
    pub tasks: VecDeque<(Weak<dyn AnyTask>, u8)>,
    pub held: Arc<PrefetchedBytes>,
}

pub(in crate::fs) struct PrefetchShared {
    pub options: WalkOptions,
    pub stop: Cancel,
    pub ended: AtomicBool,
    /// Whether the walk should request prefetches.
    pub is_of_use: AtomicBool,
    /// Whether to prefetch even if lookups do not wait.
    pub is_always_of_use: bool,
    pub asked: Mutex<LookupRequests>,
    pub work: Condvar,
    /// Held bytes.
    pub held: Arc<AtomicUsize>,
}

#[derive(Default)]
pub(in crate::fs) struct LookupRequests {
    pub groups: BTreeMap<GroupId, LookupGroup>,
    pub group_count: u64,
    /// Number of idle workers.
    pub resting: usize,
    /// Recent waits of the workers' lookups.
    pub lookups: u32,
    pub waited: Duration,
}

impl Prefetcher {
    /// Creates prefetch workers for walks with these options. They end when `stop` is set.
    pub fn new(options: WalkOptions, stop: Cancel) -> Self {
        Self::with(options, stop, false)
    }

    /// Workers that are always used: for a walk without concurrent work.
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

    pub(in crate::fs) fn options(&self) -> WalkOptions {
        self.shared.options
    }

    pub(in crate::fs) fn is_stopped(&self) -> bool {
        self.shared.is_stopped()
    }

    pub(in crate::fs) fn is_of_use(&self) -> bool {
        self.shared.is_of_use.load(Ordering::Relaxed)
    }

    /// Starts the workers if the walk's own lookups wait. Returns whether it did.
    pub(in crate::fs) fn judge(&self, waits: &mut LookupWaits) -> bool {
        if waits.waited < SLOW_WALK {
            if waits.lookups >= LOOKUPS {
                waits.drain();
            }
            return false;
        }
        waits.drain();
        !self.is_of_use() && self.call()
    }

    /// Starts the threads once. Fewer suffice if the system refuses some.
    fn call(&self) -> bool {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        for number in threads.len()..WORKERS_MAX {
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

    /// Creates the nearest group.
    pub(in crate::fs) fn new_group(&self) -> GroupId {
        let mut asked = self.shared.lock();
        asked.group_count += 1;
        let id = GroupId(asked.group_count);
        let held = Arc::new(PrefetchedBytes::new(&self.shared.held));
        asked.groups.insert(id, LookupGroup { tasks: VecDeque::new(), held });
        id
    }

    /// Drops the tasks of a group.
    pub(in crate::fs) fn end_group(&self, id: GroupId) {
        let group = self.shared.lock().groups.remove(&id);
        drop(group);
    }

    /// Adds tasks before all others of the group, the nearest last. No worker takes a far one before a near one is
    /// there.
    pub(in crate::fs) fn ask_all(&self, group: GroupId, added: Vec<Weak<dyn AnyTask>>) {
        let mut asked = self.shared.lock();
        let Some(LookupGroup { tasks, .. }) = asked.groups.get_mut(&group) else { return };
        tasks.extend(added.into_iter().map(|task| (task, 1)));
        let far = tasks.len().saturating_sub(TASKS_MAX);
        tasks.drain(..far);
        if asked.resting > 0 {
            self.shared.work.notify_all();
        }
    }

    /// Wakes workers after the walk has collected results.
    pub(in crate::fs) fn collected(&self) {
        let asked = self.shared.lock();
        if asked.resting > 0 {
            self.shared.work.notify_one();
        }
    }

    /// Number of started threads.
    #[cfg(test)]
    pub(in crate::fs) fn threads(&self) -> usize {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// A reference that lives as long as any thread.
    #[cfg(test)]
    pub(in crate::fs) fn watch(&self) -> Weak<impl Sized + use<>> {
        Arc::downgrade(&self.shared)
    }

    /// Number of results held for the walk.
    #[cfg(test)]
    pub(in crate::fs) fn bytes_held(&self) -> usize {
        self.shared.held.load(Ordering::Relaxed)
    }
}

impl Drop for Prefetcher {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Relaxed);
        // Under the lock, so that no worker is about to rest.
        let asked = self.shared.lock();
        self.shared.work.notify_all();
        drop(asked);
        for thread in self.threads.get_mut().unwrap_or_else(PoisonError::into_inner).drain(..) {
            // The walk has done the work of a worker that panicked.
            let _ = thread.join();
        }
    }
}

impl PrefetchShared {
    pub fn is_stopped(&self) -> bool {
        self.ended.load(Ordering::Relaxed) || self.stop.is_cancelled()
    }

    pub fn ask<E: LookupTask>(&self, group: GroupId, ticket: &LookupHandle<E>, depth: u8, order: TaskOrder) -> bool {
        let mut asked = self.lock();
        let Some(LookupGroup { tasks, .. }) = asked.groups.get_mut(&group) else { return false };
        let task = weak(ticket);
        match order {
            TaskOrder::Farthest if tasks.len() >= TASKS_MAX => return false,
            TaskOrder::Farthest => tasks.push_front((task, depth)),
            TaskOrder::Nearest => tasks.push_back((task, depth)),
        }
        if tasks.len() > TASKS_MAX {
            tasks.pop_front();
        }
        if asked.resting > 0 {
            self.work.notify_one();
        }
        true
    }

    pub fn lock(&self) -> MutexGuard<'_, LookupRequests> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The loop of a worker.
fn help(shared: &PrefetchShared) {
    let (group, held) = (GroupId(0), Arc::new(PrefetchedBytes::new(&shared.held)));
    let mut worker =
        PrefetchWorker { shared, buffer: ListingBuffer::new(), waits: LookupWaits::default(), group, depth: 0, held };
    while let Some(copy) = worker.wait_for_task() {
        copy.carry_out(&mut worker);
    }
}

impl PrefetchWorker<'_> {
    /// The nearest waiting task; `None` at the end of the walk.
    fn wait_for_task(&mut self) -> Option<Arc<dyn AnyTask>> {
        let shared = self.shared;
        let mut asked = shared.lock();
        let (lookups, waited) = self.waits.drain();
        judge(shared, &mut asked, lookups, waited);
        loop {
            if shared.is_stopped() {
                return None;
            }
            for (&id, group) in asked.groups.iter_mut().rev() {
                while group.held.has_room()
                    && let Some((copy, depth)) = group.tasks.pop_back()
                {
                    if let Some(copy) = copy.upgrade().filter(|copy| copy.begin()) {
                        (self.group, self.depth, self.held) = (id, depth, Arc::clone(&group.held));
                        return Some(copy);
                    }
                }
            }
            asked.resting += 1;
            asked = shared.work.wait(asked).unwrap_or_else(PoisonError::into_inner);
            asked.resting -= 1;
        }
    }
}

/// Ends the prefetching if the workers' lookups no longer wait.
fn judge(shared: &PrefetchShared, asked: &mut LookupRequests, lookups: u32, waited: Duration) {
    asked.lookups += lookups;
    asked.waited += waited;
    if asked.lookups >= LOOKUPS {
        if asked.waited < IDLE_WORKER * asked.lookups / LOOKUPS && !shared.is_always_of_use {
            shared.is_of_use.store(false, Ordering::Relaxed);
        }
        (asked.lookups, asked.waited) = (0, Duration::ZERO);
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;
    use crate::fs::prefetch::task::TaskSlot;
    use crate::fs::testing::KEEP;

    struct Numbered;

    impl LookupTask for Numbered {
        type Fetched = ();

        fn run(&self, _: &mut PrefetchWorker<'_>) -> Option<io::Result<()>> {
            Some(Ok(()))
        }

        fn bytes((): &()) -> usize {
            0
        }
    }

    #[test]
    fn tasks_wait_in_the_order_of_the_walk() {
        let ahead = Prefetcher::new(KEEP, Cancel::new());
        let group = ahead.new_group();
        let slots: Vec<_> = (0..TASKS_MAX + 4).map(|_| TaskSlot::new(Numbered)).collect();
        let order = || {
            let asked = ahead.shared.lock();
            let is_at = |task: &Weak<dyn AnyTask>, slot: &LookupHandle<Numbered>| task.ptr_eq(&weak(slot));
            let number = |task: &Weak<dyn AnyTask>| slots.iter().position(|slot| is_at(task, slot)).unwrap();
            asked.groups[&group].tasks.iter().map(|(task, _)| number(task)).collect::<Vec<_>>()
        };
        ahead.ask_all(group, slots[..3].iter().map(weak).collect());
        assert!(ahead.shared.ask(group, &slots[3], 1, TaskOrder::Nearest));
        assert!(ahead.shared.ask(group, &slots[4], 1, TaskOrder::Farthest));
        assert_eq!(order(), [4, 0, 1, 2, 3], "the nearest is last");
        ahead.ask_all(group, slots[5..].iter().map(weak).collect());
        assert_eq!((order().len(), order()[0]), (TASKS_MAX, 3), "the farthest were dropped");
        assert!(!ahead.shared.ask(group, &slots[4], 1, TaskOrder::Farthest));
    }
}

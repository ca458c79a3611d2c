//! Limits the number of open directories, by the clock algorithm over the descriptors of one or several roots.
//!
//! `dir` reopens directories by names and parents.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use rustix::io::{Errno, retry_on_intr};

/// Default number of directories that a cache keeps open. A process may have 1,024 descriptors by default; streams and
/// files need theirs.
pub const MAX_OPEN_DIRECTORIES: usize = 256;

/// Fewest directories that a cache keeps open: a directory and its parent.
const MIN_OPEN_DIRECTORIES: usize = 2;

/// Keeps the descriptors of recently used directories, and closes the others. Roots, except operands, stay open and are
/// not counted.
#[derive(Debug)]
pub struct FdCache {
    max_open: usize,
    ring: Mutex<VecDeque<Weak<FdSlot>>>,
}

/// A directory's slot for a descriptor. It is in the ring exactly while it has one.
#[derive(Debug, Default)]
pub(super) struct FdSlot {
    fd: Mutex<Option<Arc<OwnedFd>>>,
    used: AtomicBool,
}

impl FdCache {
    /// A cache with at most `max_open` open directories, but at least two. A descriptor closed during its use stays
    /// until its user is done, so each thread may add one.
    pub fn new(max_open: usize) -> Arc<Self> {
        Arc::new(Self { max_open: max_open.max(MIN_OPEN_DIRECTORIES), ring: Mutex::default() })
    }

    /// Most open directories.
    pub fn max_open(&self) -> usize {
        self.max_open
    }

    /// Number of slots with a descriptor.
    pub fn open_now(&self) -> usize {
        lock(&self.ring).iter().filter(|slot| slot.strong_count() > 0).count()
    }

    /// Puts `fd` into `slot`, and closes another one over the limit. If another thread was faster, keeps and returns
    /// its descriptor.
    pub(super) fn insert(&self, slot: &Arc<FdSlot>, fd: OwnedFd) -> Arc<OwnedFd> {
        let fd = {
            let mut held = lock(&slot.fd);
            if let Some(theirs) = held.as_ref() {
                return Arc::clone(theirs);
            }
            Arc::clone(held.insert(Arc::new(fd)))
        };
        let closed = {
            let mut ring = lock(&self.ring);
            let closed = if ring.len() >= self.max_open { evict_one(&mut ring) } else { None };
            ring.push_back(Arc::downgrade(slot));
            closed
        };
        // Closed without the lock: a close may take long on a network file system.
        drop(closed);
        fd
    }

    /// Opens a descriptor outside the cache; on EMFILE or ENFILE, evicts half of the cache and retries.
    pub(super) fn open(&self, open: impl Fn() -> rustix::io::Result<OwnedFd>) -> rustix::io::Result<OwnedFd> {
        match retry_on_intr(&open) {
            Err(Errno::MFILE | Errno::NFILE) => {
                self.close_half();
                retry_on_intr(open)
            }
            opened => opened,
        }
    }

    /// Closes half of the cached directories, for a process without free descriptors.
    pub(super) fn close_half(&self) {
        let closed: Vec<_> = {
            let mut ring = lock(&self.ring);
            (0..ring.len().div_ceil(2)).map(|_| evict_one(&mut ring)).collect()
        };
        drop(closed);
    }
}

impl FdSlot {
    /// A slot outside of any cache.
    pub(super) fn pinned(fd: OwnedFd) -> Arc<Self> {
        Arc::new(Self { fd: Mutex::new(Some(Arc::new(fd))), used: AtomicBool::new(true) })
    }

    /// The descriptor, unless closed to save descriptors.
    pub(super) fn get(&self) -> Option<Arc<OwnedFd>> {
        let fd = lock(&self.fd).clone();
        self.used.store(true, Ordering::Relaxed);
        fd
    }

    /// Whether [`FdSlot::get`] would return one; does not count as a use.
    pub(super) fn is_open(&self) -> bool {
        lock(&self.fd).is_some()
    }
}

/// Removes one slot from the ring: a dead one, or the first unused since the last round. Two rounds are enough, as the
/// first one clears all marks.
fn evict_one(ring: &mut VecDeque<Weak<FdSlot>>) -> Option<Arc<OwnedFd>> {
    for _ in 0..2 * ring.len() {
        let weak = ring.pop_front()?;
        // A dead slot has no descriptor, but frees its place.
        let slot = weak.upgrade()?;
        if slot.used.swap(false, Ordering::Relaxed) {
            ring.push_back(weak);
        } else {
            return lock(&slot.fd).take();
        }
    }
    // All slots were used since the first round: take any.
    let slot = ring.pop_front()?.upgrade()?;
    lock(&slot.fd).take()
}

/// Guarded data is consistent at any time, so poisoning is ignored.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn descriptor() -> OwnedFd {
        rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).expect("an eventfd")
    }

    fn filled(cache: &FdCache) -> Arc<FdSlot> {
        let slot = Arc::new(FdSlot::default());
        cache.insert(&slot, descriptor());
        slot
    }

    #[test]
    fn closes_unused_descriptors() {
        let cache = FdCache::new(3);
        let slots: Vec<_> = (0..3).map(|_| filled(&cache)).collect();
        slots[0].get();
        let fourth = filled(&cache);
        let open: Vec<bool> = slots.iter().map(|slot| slot.is_open()).collect();
        assert_eq!(open, [true, false, true]);
        assert!(fourth.is_open());
        assert_eq!(cache.open_now(), 3);
    }

    #[test]
    fn finds_room_although_all_were_used() {
        let cache = FdCache::new(3);
        let slots: Vec<_> = (0..100).map(|_| filled(&cache)).inspect(|slot| drop(slot.get())).collect();
        assert_eq!(slots.iter().filter(|slot| slot.is_open()).count(), 3);
        assert_eq!(cache.open_now(), 3);
    }

    #[test]
    fn forgets_ended_directories_first() {
        let cache = FdCache::new(2);
        drop(filled(&cache));
        let kept = filled(&cache);
        let other = filled(&cache);
        assert!(kept.is_open() && other.is_open());
        assert_eq!(cache.open_now(), 2);
    }

    #[test]
    fn keeps_the_first_of_two_descriptors() {
        let cache = FdCache::new(2);
        let slot = Arc::new(FdSlot::default());
        let first = cache.insert(&slot, descriptor());
        let second = cache.insert(&slot, descriptor());
        assert!(Arc::ptr_eq(&first, &second));
        assert_eq!(cache.open_now(), 1);
    }

    #[test]
    fn releases_descriptors_when_none_are_left() {
        let cache = FdCache::new(10);
        let slots: Vec<_> = (0..10).map(|_| filled(&cache)).collect();
        let open_slots = || slots.iter().filter(|slot| slot.is_open()).count();
        let opened = cache.open(|| if open_slots() > 5 { Err(Errno::MFILE) } else { Ok(descriptor()) });
        assert!(opened.is_ok() && open_slots() == 5);
        assert_eq!(cache.open(|| Err(Errno::ACCESS)).unwrap_err(), Errno::ACCESS);
        assert_eq!(open_slots(), 5, "only where that may help");
    }

    #[test]
    fn closes_half_on_demand() {
        let cache = FdCache::new(10);
        let slots: Vec<_> = (0..10).map(|_| filled(&cache)).collect();
        cache.close_half();
        assert_eq!(slots.iter().filter(|slot| slot.is_open()).count(), 5);
    }
}

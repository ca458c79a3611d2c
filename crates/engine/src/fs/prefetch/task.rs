//! Lookup tasks: future needs of the walk that another thread may handle beforehand.
//!
//! The walk holds a [`LookupHandle`] for each. At its turn, [`TaskSlot::collect`] returns the result, or that no worker
//! has started: then the walk does the lookup itself. So only time depends on tasks, and a handle may be dropped at any
//! moment.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::fs::prefetch::budget::ByteCharge;
use crate::fs::prefetch::worker::PrefetchWorker;

/// The walk's claim on an errand.
pub(in crate::fs) type LookupHandle<E> = Arc<TaskSlot<E>>;

/// A lookup task for any thread.
pub(in crate::fs) trait LookupTask: Send + Sync + Sized + 'static {
    type Fetched: Send;
    /// `None` where the walk was stopped meanwhile.
    fn run(&self, helper: &mut PrefetchWorker<'_>) -> Option<io::Result<Self::Fetched>>;
    /// Roughly the memory that it takes.
    fn bytes(fetched: &Self::Fetched) -> usize;
}

/// A task and its state.
pub(in crate::fs) struct TaskSlot<E: LookupTask> {
    errand: E,
    state: Mutex<TaskState<io::Result<E::Fetched>>>,
    moved: Condvar,
}

enum TaskState<T> {
    /// Nobody has begun; next is [`TaskState::Running`] or [`TaskState::Over`].
    Waiting,
    /// A helper is at it; next is [`TaskState::Fetched`], or [`TaskState::Waiting`] where it gives up.
    Running { is_awaited: bool },
    /// Until the walk comes; next is [`TaskState::Over`].
    Fetched { fetched: T, _charge: ByteCharge },
    /// The walk has it, or does it itself.
    Over,
}

/// An errand of any kind, as helpers see it.
pub(in crate::fs) trait AnyTask: Send + Sync {
    /// Whether the caller is the one to start it.
    fn begin(&self) -> bool;
    /// Sees to it. Only after [`AnyTask::begin`].
    fn carry_out(&self, helper: &mut PrefetchWorker<'_>);
}

impl<E: LookupTask> TaskSlot<E> {
    pub fn new(errand: E) -> LookupHandle<E> {
        Arc::new(Self { errand, state: Mutex::new(TaskState::Waiting), moved: Condvar::new() })
    }

    /// Returns the result; waits for it while another thread works on it. `None` if no thread started it.
    pub fn collect(&self) -> Option<io::Result<E::Fetched>> {
        let mut state = self.lock();
        while let TaskState::Running { is_awaited } = &mut *state {
            *is_awaited = true;
            state = self.moved.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        match std::mem::replace(&mut *state, TaskState::Over) {
            TaskState::Fetched { fetched, .. } => Some(fetched),
            _ => None,
        }
    }

    fn end(&self, next: TaskState<io::Result<E::Fetched>>) {
        let mut state = self.lock();
        if let TaskState::Running { is_awaited } = std::mem::replace(&mut *state, next)
            && is_awaited
        {
            self.moved.notify_all();
        }
    }

    fn lock(&self) -> MutexGuard<'_, TaskState<io::Result<E::Fetched>>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<E: LookupTask> AnyTask for TaskSlot<E> {
    fn begin(&self) -> bool {
        let mut state = self.lock();
        let waits = matches!(*state, TaskState::Waiting);
        if waits {
            *state = TaskState::Running { is_awaited: false };
        }
        waits
    }

    fn carry_out(&self, helper: &mut PrefetchWorker<'_>) {
        /// Gives the errand back where it was not finished, also when its thread panicked: the walk may wait for it.
        struct GiveBack<'s, E: LookupTask>(&'s TaskSlot<E>);
        impl<E: LookupTask> Drop for GiveBack<'_, E> {
            fn drop(&mut self) {
                self.0.end(TaskState::Waiting);
            }
        }
        let give_back = GiveBack(self);
        if let Some(fetched) = self.errand.run(helper) {
            std::mem::forget(give_back);
            let _charge = helper.charge(fetched.as_ref().map_or(0, E::bytes));
            self.end(TaskState::Fetched { fetched, _charge });
        }
    }
}

/// Most levels below the group that workers descend by themselves, since their results are nested.
const DEPTH_MAX: u8 = 16;

impl PrefetchWorker<'_> {
    /// Asks for something in the directory of the errand at hand.
    pub fn ask<E: LookupTask>(&self, errand: E) -> Option<LookupHandle<E>> {
        self.ask_at(self.depth, errand)
    }

    /// Asks for something one level deeper.
    pub fn ask_deeper<E: LookupTask>(&self, errand: E) -> Option<LookupHandle<E>> {
        // A filter may exclude what is below, and only the walk knows it.
        if self.depth < DEPTH_MAX && !self.options().is_filtered { self.ask_at(self.depth + 1, errand) } else { None }
    }

    fn ask_at<E: LookupTask>(&self, depth: u8, errand: E) -> Option<LookupHandle<E>> {
        let ticket = TaskSlot::new(errand);
        self.shared.ask(self.group, &ticket, depth).then_some(ticket)
    }
}

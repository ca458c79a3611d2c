//! Lookup tasks: future lookups of the walk for other threads.
//!
//! The walk has a [`LookupHandle`] for each. At its turn, [`TaskSlot::collect`] returns the result, or `None` if no
//! worker has started: then the walk does the lookup itself. So tasks affect only time, and a handle may be dropped at
//! any moment.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};

use crate::fs::prefetch::budget::ByteCharge;
use crate::fs::prefetch::worker::PrefetchWorker;

/// The walk's handle of a task.
pub(in crate::fs) type LookupHandle<E> = Arc<TaskSlot<E>>;

/// A lookup task for any thread.
pub(in crate::fs) trait LookupTask: Send + Sync + Sized + 'static {
    type Fetched: Send;
    /// Runs the task; `None` if the walk was stopped.
    fn run(&self, worker: &mut PrefetchWorker<'_>) -> Option<io::Result<Self::Fetched>>;
    /// Its approximate memory, in bytes.
    fn bytes(fetched: &Self::Fetched) -> usize;
}

/// A task and its state.
pub(in crate::fs) struct TaskSlot<E: LookupTask> {
    task: E,
    state: Mutex<TaskState<io::Result<E::Fetched>>>,
    moved: Condvar,
}

enum TaskState<T> {
    /// Not started. Next: [`TaskState::Running`] or [`TaskState::Over`].
    Waiting,
    /// A worker runs it. Next: [`TaskState::Fetched`], or [`TaskState::Waiting`] if it gives up.
    Running { is_awaited: bool },
    /// Done, but not collected. Next: [`TaskState::Over`].
    Fetched { fetched: T, _charge: ByteCharge },
    /// Collected, or done by the walk itself.
    Over,
}

/// A task of any type, for workers.
pub(in crate::fs) trait AnyTask: Send + Sync {
    /// Claims the task. Returns whether it was waiting.
    fn begin(&self) -> bool;
    /// Runs the task, after [`AnyTask::begin`].
    fn carry_out(&self, worker: &mut PrefetchWorker<'_>);
}

impl<E: LookupTask> TaskSlot<E> {
    pub fn new(task: E) -> LookupHandle<E> {
        Arc::new(Self { task, state: Mutex::new(TaskState::Waiting), moved: Condvar::new() })
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

    #[cfg(test)]
    pub fn is_fetched(&self) -> bool {
        matches!(*self.lock(), TaskState::Fetched { .. })
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

/// The task of a handle, for workers.
pub(in crate::fs) fn weak<E: LookupTask>(handle: &LookupHandle<E>) -> Weak<dyn AnyTask> {
    let task: Weak<TaskSlot<E>> = Arc::downgrade(handle);
    task
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

    fn carry_out(&self, worker: &mut PrefetchWorker<'_>) {
        /// Returns an unfinished task, also if its thread panicked: the walk may wait for it.
        struct GiveBack<'s, E: LookupTask>(&'s TaskSlot<E>);
        impl<E: LookupTask> Drop for GiveBack<'_, E> {
            fn drop(&mut self) {
                self.0.end(TaskState::Waiting);
            }
        }
        let give_back = GiveBack(self);
        if let Some(fetched) = self.task.run(worker) {
            std::mem::forget(give_back);
            let _charge = worker.charge(fetched.as_ref().map_or(0, E::bytes));
            self.end(TaskState::Fetched { fetched, _charge });
        }
    }
}

/// Most levels below the group that workers descend by themselves, since their results are nested.
const DEPTH_MAX: u8 = 16;

/// The position of a requested task among the others of its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::fs) enum TaskOrder {
    /// The walk comes to it first.
    Nearest,
    /// The walk comes to all others first.
    Farthest,
}

impl PrefetchWorker<'_> {
    /// Requests a task in the directory of the present one.
    pub fn ask<E: LookupTask>(&self, task: E, order: TaskOrder) -> Option<LookupHandle<E>> {
        self.ask_at(self.depth, task, order)
    }

    /// Requests a task one level deeper.
    pub fn ask_deeper<E: LookupTask>(&self, task: E, order: TaskOrder) -> Option<LookupHandle<E>> {
        // A filter may exclude entries below, and only the walk evaluates it.
        let may_ask = self.depth < DEPTH_MAX && !self.options().is_filtered;
        if may_ask { self.ask_at(self.depth + 1, task, order) } else { None }
    }

    fn ask_at<E: LookupTask>(&self, depth: u8, task: E, order: TaskOrder) -> Option<LookupHandle<E>> {
        let ticket = TaskSlot::new(task);
        self.shared.ask(self.group, &ticket, depth, order).then_some(ticket)
    }
}

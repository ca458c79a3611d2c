//! Errands: what the walk will need, as something that another thread may see to beforehand.
//!
//! The walk holds a [`LookupHandle`] for each. When its turn comes, [`TaskSlot::collect`] hands over what was fetched, or
//! says that nobody has begun: the walk does it itself then, as it would have done without a ticket. So nothing
//! but time depends on errands, and a ticket may be thrown away at any moment.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use haul_proto::path::Name;

use super::Dir;
use super::helper::{ByteCharge, PrefetchWorker};
use super::listing::{KnownName, ListingChunk, ListingPosition};
use super::meta::{FileStat, FollowLinks};
use super::seen::{WalkLookup, WalkStep};

/// What an open directory counts for in bytes: more than it takes, since its descriptor is dear too.
const DIRECTORY_BYTES: usize = 2048;

/// The walk's claim on an errand.
pub(super) type LookupHandle<E> = Arc<TaskSlot<E>>;

/// Something that can be seen to by any thread.
pub(super) trait LookupTask: Send + Sync + Sized + 'static {
    type Fetched: Send;
    /// `None` where the walk was stopped meanwhile.
    fn run(&self, helper: &mut PrefetchWorker<'_>) -> Option<io::Result<Self::Fetched>>;
    /// Roughly the memory that it takes.
    fn bytes(fetched: &Self::Fetched) -> usize;
}

/// An errand, and what has become of it.
pub(super) struct TaskSlot<E: LookupTask> {
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
pub(super) trait AnyTask: Send + Sync {
    /// Whether nobody has begun: the caller has then.
    fn begin(&self) -> bool;
    /// Sees to it. Only after [`AnyTask::begin`].
    fn carry_out(&self, helper: &mut PrefetchWorker<'_>);
}

impl<E: LookupTask> TaskSlot<E> {
    pub fn new(errand: E) -> LookupHandle<E> {
        Arc::new(Self { errand, state: Mutex::new(TaskState::Waiting), moved: Condvar::new() })
    }

    /// What was fetched; waits for it where somebody is at it. `None` where nobody is: nobody will be.
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

/// Opens a subdirectory.
pub(super) struct OpenSubdirectory {
    pub parent: Dir,
    pub name: Name,
}

/// A subdirectory that was opened.
pub(super) struct OpenedSubdirectory {
    pub dir: Dir,
    pub look: FileStat,
    /// Its listing.
    pub rest: ListingPosition,
    /// The same, asked for.
    pub rest_ahead: Option<LookupHandle<ReadListing>>,
}

impl LookupTask for OpenSubdirectory {
    type Fetched = OpenedSubdirectory;

    fn run(&self, helper: &mut PrefetchWorker<'_>) -> Option<io::Result<OpenedSubdirectory>> {
        let opened = helper.waits.time(|| self.parent.child_looked_at(&self.name, FollowLinks::Itself));
        Some(opened.map(|(dir, look)| {
            let rest = ListingPosition::beginning();
            let read = ReadListing { dir: dir.clone(), rest: rest.clone() };
            // The walk will leave out what it was told to.
            let is_walked = helper.options().skip != Some(look.identity);
            let rest_ahead = if is_walked { helper.ask(read) } else { None };
            OpenedSubdirectory { dir, look, rest, rest_ahead }
        }))
    }

    fn bytes(_: &OpenedSubdirectory) -> usize {
        DIRECTORY_BYTES
    }
}

/// Reads some names of a directory and looks at what they stand for.
pub(super) struct ReadListing {
    pub dir: Dir,
    pub rest: ListingPosition,
}

impl LookupTask for ReadListing {
    type Fetched = ListingChunk;

    fn run(&self, helper: &mut PrefetchWorker<'_>) -> Option<io::Result<ListingChunk>> {
        let options = *helper.options();
        let mut piece = match helper.read(&self.rest, &self.dir) {
            Ok(piece) => piece,
            Err(error) => return Some(Err(error)),
        };
        // Another thread can read on while this one looks.
        piece.rest_ahead =
            piece.rest.as_ref().and_then(|rest| helper.ask(ReadListing { dir: self.dir.clone(), rest: rest.clone() }));
        for (name, entry) in piece.left() {
            if helper.is_stopped() {
                return None;
            }
            let Ok(name) = Name::new(name) else { continue };
            match WalkStep::of(entry.kind, options.symlinks) {
                WalkStep::LookAt(links) => {
                    let seen = helper.waits.time(|| WalkLookup::at(&self.dir, &name, links, options.symlinks));
                    entry.known = KnownName::Seen(seen);
                }
                WalkStep::Enter if options.recursive => {
                    let asked = helper.ask_deeper(OpenSubdirectory { parent: self.dir.clone(), name });
                    entry.known = asked.map_or(KnownName::Nothing, KnownName::Asked);
                }
                WalkStep::Enter | WalkStep::LeaveOut => {}
            }
        }
        Some(Ok(piece))
    }

    fn bytes(piece: &ListingChunk) -> usize {
        piece.bytes()
    }
}

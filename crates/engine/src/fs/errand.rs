//! Errands: what the walk will need, as something that another thread may see to beforehand.
//!
//! The walk holds a [`Ticket`] for each. When its turn comes, [`Slot::collect`] hands over what was fetched, or
//! says that nobody has begun: the walk does it itself then, as it would have done without a ticket. So nothing
//! but time depends on errands, and a ticket may be thrown away at any moment.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use haul_proto::path::Name;

use super::Dir;
use super::helper::{Charge, Helper};
use super::listing::{Known, Piece, Rest};
use super::meta::{Links, Look};
use super::seen::{Seen, Step};

/// What an open directory counts for in bytes: more than it takes, since its descriptor is dear too.
const DIRECTORY_BYTES: usize = 2048;

/// The walk's claim on an errand.
pub(super) type Ticket<E> = Arc<Slot<E>>;

/// Something that can be seen to by any thread.
pub(super) trait Errand: Send + Sync + Sized + 'static {
    type Fetched: Send;
    /// `None` where the walk was stopped meanwhile.
    fn run(&self, helper: &mut Helper<'_>) -> Option<io::Result<Self::Fetched>>;
    /// Roughly the memory that it takes.
    fn bytes(fetched: &Self::Fetched) -> usize;
}

/// An errand, and what has become of it.
pub(super) struct Slot<E: Errand> {
    errand: E,
    state: Mutex<State<io::Result<E::Fetched>>>,
    moved: Condvar,
}

enum State<T> {
    /// Nobody has begun; next is [`State::Running`] or [`State::Over`].
    Waiting,
    /// A helper is at it; next is [`State::Fetched`], or [`State::Waiting`] where it gives up.
    Running { is_awaited: bool },
    /// Until the walk comes; next is [`State::Over`].
    Fetched { fetched: T, _charge: Charge },
    /// The walk has it, or does it itself.
    Over,
}

/// An errand of any kind, as helpers see it.
pub(super) trait Job: Send + Sync {
    /// Whether nobody has begun: the caller has then.
    fn begin(&self) -> bool;
    /// Sees to it. Only after [`Job::begin`].
    fn carry_out(&self, helper: &mut Helper<'_>);
}

impl<E: Errand> Slot<E> {
    pub fn new(errand: E) -> Ticket<E> {
        Arc::new(Self { errand, state: Mutex::new(State::Waiting), moved: Condvar::new() })
    }

    /// What was fetched; waits for it where somebody is at it. `None` where nobody is: nobody will be.
    pub fn collect(&self) -> Option<io::Result<E::Fetched>> {
        let mut state = self.lock();
        while let State::Running { is_awaited } = &mut *state {
            *is_awaited = true;
            state = self.moved.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        match std::mem::replace(&mut *state, State::Over) {
            State::Fetched { fetched, .. } => Some(fetched),
            _ => None,
        }
    }

    fn end(&self, next: State<io::Result<E::Fetched>>) {
        let mut state = self.lock();
        if let State::Running { is_awaited } = std::mem::replace(&mut *state, next)
            && is_awaited
        {
            self.moved.notify_all();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<io::Result<E::Fetched>>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<E: Errand> Job for Slot<E> {
    fn begin(&self) -> bool {
        let mut state = self.lock();
        let waits = matches!(*state, State::Waiting);
        if waits {
            *state = State::Running { is_awaited: false };
        }
        waits
    }

    fn carry_out(&self, helper: &mut Helper<'_>) {
        /// Gives the errand back where it was not finished, also when its thread panicked: the walk may wait for it.
        struct GiveBack<'s, E: Errand>(&'s Slot<E>);
        impl<E: Errand> Drop for GiveBack<'_, E> {
            fn drop(&mut self) {
                self.0.end(State::Waiting);
            }
        }
        let give_back = GiveBack(self);
        if let Some(fetched) = self.errand.run(helper) {
            std::mem::forget(give_back);
            let _charge = helper.charge(fetched.as_ref().map_or(0, E::bytes));
            self.end(State::Fetched { fetched, _charge });
        }
    }
}

/// Opens a subdirectory.
pub(super) struct Enter {
    pub parent: Dir,
    pub name: Name,
}

/// A subdirectory that was opened.
pub(super) struct Opened {
    pub dir: Dir,
    pub look: Look,
    /// Its listing.
    pub rest: Rest,
    /// The same, asked for.
    pub rest_ahead: Option<Ticket<ReadOn>>,
}

impl Errand for Enter {
    type Fetched = Opened;

    fn run(&self, helper: &mut Helper<'_>) -> Option<io::Result<Opened>> {
        let opened = helper.waits.time(|| self.parent.child_looked_at(&self.name, Links::Itself));
        Some(opened.map(|(dir, look)| {
            let rest = Rest::beginning();
            let read = ReadOn { dir: dir.clone(), rest: rest.clone() };
            // The walk will leave out what it was told to.
            let is_walked = helper.options().skip != Some(look.identity);
            let rest_ahead = if is_walked { helper.ask(read) } else { None };
            Opened { dir, look, rest, rest_ahead }
        }))
    }

    fn bytes(_: &Opened) -> usize {
        DIRECTORY_BYTES
    }
}

/// Reads some names of a directory and looks at what they stand for.
pub(super) struct ReadOn {
    pub dir: Dir,
    pub rest: Rest,
}

impl Errand for ReadOn {
    type Fetched = Piece;

    fn run(&self, helper: &mut Helper<'_>) -> Option<io::Result<Piece>> {
        let options = *helper.options();
        let mut piece = match helper.read(&self.rest, &self.dir) {
            Ok(piece) => piece,
            Err(error) => return Some(Err(error)),
        };
        // Another thread can read on while this one looks.
        piece.rest_ahead =
            piece.rest.as_ref().and_then(|rest| helper.ask(ReadOn { dir: self.dir.clone(), rest: rest.clone() }));
        for (name, entry) in piece.left() {
            if helper.is_stopped() {
                return None;
            }
            let Ok(name) = Name::new(name) else { continue };
            match Step::of(entry.kind, options.symlinks) {
                Step::LookAt(links) => {
                    let seen = helper.waits.time(|| Seen::at(&self.dir, &name, links, options.symlinks));
                    entry.known = Known::Seen(seen);
                }
                Step::Enter if options.recursive => {
                    let asked = helper.ask_deeper(Enter { parent: self.dir.clone(), name });
                    entry.known = asked.map_or(Known::Nothing, Known::Asked);
                }
                Step::Enter | Step::LeaveOut => {}
            }
        }
        Some(Ok(piece))
    }

    fn bytes(piece: &Piece) -> usize {
        piece.bytes()
    }
}

//! The two machines of the protocol. Each takes messages and facts (`handle_*` and the like), gives messages
//! and work (`poll_*`, `next_work`), and touches nothing else: the engine drives them with files and sockets,
//! the simulator with faults from a seed.
//!
//! The life of an entry, as both see it:
//!
//! ```text
//! offered --(Needs)--> needed --(frames, FileEnd)--> finishing --(Done)--> settled
//!    |                    |                              |
//!    +--(Nothing, Refused)+--(SourceFailed, TargetFailed)+---------------> settled
//! ```
//!
//! In a job that only compares, a file is read at both ends: Holds and Same or Differs stand in the place of frames.
//!
//! A settled entry is forgotten; messages and frames about it that are still under way are ignored. So memory is
//! bounded by the window of unsettled entries, never by the number of files.

pub mod differing;
mod digest_state;
pub mod source;
pub mod step;
pub mod target;

#[cfg(test)]
mod compare_tests;
#[cfg(test)]
mod digest_state_tests;
#[cfg(test)]
mod pair_tests;

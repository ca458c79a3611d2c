//! The two state machines of the protocol, one for each end. Each takes messages and events (`handle_*` and the like)
//! and returns messages and work (`poll_*`, `next_work`). They have no other effects. The engine drives them with files
//! and sockets, the simulator with faults from a seed.
//!
//! The life of an entry, at both ends:
//!
//! ```text
//! offered --(Want)---> wanted --(frames, FileEnd)---> finishing --(Done)--> complete
//!    |                    |                              |
//!    +--(Nothing, Refused)+--(SourceFailed, TargetFailed)+---------------> complete
//! ```
//!
//! In a copy that only compares, both ends read a file: HaveRanges and Match or Mismatch replace the frames.
//!
//! A session forgets complete entries, and ignores late messages and frames about them. So memory is bounded by the
//! window of incomplete entries and is independent of the number of files.

pub mod differing;
mod digest_state;
pub mod source;
pub mod step;
pub mod target;
mod window;

#[cfg(test)]
mod compare_tests;
#[cfg(test)]
mod digest_state_tests;
#[cfg(test)]
mod pair_tests;

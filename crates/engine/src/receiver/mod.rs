//! The target's end of a job: answers offers, verifies frames, writes files, and renames them to their final names.
//!
//! [`TargetReceiver`] joins components, each with its own state. [`session`] holds the protocol's state machine behind
//! a lock. One thread answers offers ([`decide`]), one sends the session's messages, one for each stream delivers
//! frames ([`receive`]), and one commits complete files ([`commit`]). [`driver`] joins them. [`place`] and [`tree`] know the
//! destination. Jobs that only compare ([`compare`]) read files instead.

mod bounded_queue;
mod commit;
mod compare;
mod decide;
mod delete;
pub(crate) mod delta;
mod digest_checks;
mod driver;
mod durability;
mod entry;
pub(crate) mod file;
mod job;
mod links;
mod metadata;
pub(crate) mod place;
#[cfg(test)]
mod race_tests;
mod receive;
mod session;
mod target;
mod tree;
mod worker_context;

pub use self::place::tree_memory::made_by;
pub use self::receive::deliver::DirectSink;
pub use self::target::TargetReceiver;
pub use self::worker_context::WorkerContext;
pub use crate::receiver::session::StreamRequest;

//! The simulator: both machines of the protocol, driven to the end of a job under faults that come from a seed.
//!
//! A seed gives a tree at the source, what stands at the target before, the number of streams, how likely each fault
//! is, where runs are cut off and by what, and every choice of what happens next. A job is run again until it comes to
//! its end, and what the runs leave on the target's disk (parts, journals, names that a loss of power takes back) is what
//! the next one finds. So a seed that fails once fails always, and can be looked at with
//! `cargo run -p haul-sim -- --one SEED -v`.
//!
//! Everything that the machines say goes through the wire's own encoding. What is modelled, not real: disks (maps
//! from names to contents), connections (queues), the seals of records, and full frames, of which there are only
//! a few different ones, so that their hashes are computed once.
//!
//! [`jobs`] simulates `haul job` at scale instead: a thousand nodes and their scheduler, with the real packing.
//!
//! The simulator checks itself, too: with a [`Plant`] it breaks a rule on purpose and must notice.

mod check;
mod content;
mod disk;
pub mod jobs;
mod many;
mod net;
mod parts;
mod receiver;
mod scenario;
mod sender;
mod storage;
mod tree;
mod world;

pub use many::{Failure, run_many};
pub use world::{SeedOutcome, run};

/// A rule that the simulator breaks on purpose, to see that its checks notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plant {
    /// None: the real thing.
    Nothing,
    /// The target does not compare the check of what arrived.
    SkipCheck,
    /// The target's first Done messages get lost.
    DropDone,
    /// What the target asks for again gets lost.
    DropResend,
    /// The target writes under the final name from the first frame on.
    NameEarly,
    /// The target keeps whatever has the right size, whatever its time.
    KeepBySize,
    /// The target gives up a file and does not say so.
    FailSilently,
    /// The source sends a file on although it has changed.
    SendChanged,
    /// The way to the target delivers an offer twice.
    RepeatOffer,
    /// The source does not ask what came of a stream that broke.
    ForgetToAsk,
    /// The target's answer to that gets lost.
    DropMissing,
    /// The target trusts a partial file's journal, and does not read the data again.
    SkipProof,
    /// The target believes a part to be whole because it is as long as the file.
    TrustSize,
    /// The target resumes the partial file of another version.
    KeepOther,
    /// The target does not have the source compare what may be another version.
    SkipCompare,
    /// What the source finds the same gets lost.
    DropSame,
    /// The target says that a file is there before the disk has its name.
    SettleEarly,
    /// The target gives a file its name before the disk has its bytes.
    NameUnwritten,
}

impl Plant {
    /// All that break something.
    pub const ALL: [Plant; 17] = [
        Plant::SkipCheck,
        Plant::DropDone,
        Plant::DropResend,
        Plant::NameEarly,
        Plant::KeepBySize,
        Plant::FailSilently,
        Plant::SendChanged,
        Plant::RepeatOffer,
        Plant::ForgetToAsk,
        Plant::DropMissing,
        Plant::SkipProof,
        Plant::TrustSize,
        Plant::KeepOther,
        Plant::SkipCompare,
        Plant::DropSame,
        Plant::SettleEarly,
        Plant::NameUnwritten,
    ];
}

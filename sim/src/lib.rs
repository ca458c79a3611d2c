//! The simulator: both machines of the protocol, driven to the end of a copy under faults from a seed.
//!
//! A seed gives a tree at the source, existing entries at the target, the number of streams, the rates of faults, the
//! causes and moments of crashes, and every choice of the next event. The copy is run again until it completes. Each run
//! finds its predecessors' traces on the target's disk (parts, journals, names lost in a power cut). A failing seed
//! therefore always fails, and `cargo run -p haul-sim -- --one SEED -v` shows it.
//!
//! All messages of the machines pass through the wire's own encoding. Modelled are disks (maps from names to contents),
//! connections (queues), the seals of records, and full frames. There are only a few different frames, and each needs
//! hashing only once.
//!
//! [`twoway`] simulates two-way synchronisation, [`watch`] a watched tree. [`jobs`] simulates `haul job` at scale instead: a thousand nodes and
//! their scheduler, with the real packing.
//!
//! The simulator also tests itself: a [`Plant`] breaks a rule on purpose, and the checks must notice.

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
pub mod twoway;
pub mod watch;
mod world;

pub use many::{Failure, run_many, run_many_twoway, run_many_watch};
pub use world::{SeedOutcome, run};

/// A rule that the simulator breaks on purpose, to see that its checks notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plant {
    /// None: the real thing.
    Nothing,
    /// The target skips the checksums of received data.
    SkipCheck,
    /// The target's first Done messages get lost.
    DropDone,
    /// The target's requests to resend get lost.
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
    /// The source does not query a broken stream's data.
    ForgetToAsk,
    /// The target's answer to that gets lost.
    DropMissing,
    /// The target trusts a partial file's journal, and does not read the data again.
    SkipProof,
    /// The target believes a part to be whole because it is as long as the file.
    TrustSize,
    /// The target resumes the partial file of another version.
    KeepOther,
    /// The target does not let the source compare a possible other version.
    SkipCompare,
    /// The source's reports of matches get lost.
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

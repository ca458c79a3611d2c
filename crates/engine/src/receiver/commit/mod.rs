//! From the last frame to the final name: finalization, fsync and read-back.

pub mod checkpoints;
pub mod commit_queue;
pub mod finalize;
pub mod fsync;
pub mod group_commit;
pub mod outcomes;
pub mod read_back;
pub mod retransmit;

//! What waits for fsync: complete files, directories, and checkpoints of files that are still incomplete.
pub mod checkpoints;
pub mod commit_queue;
pub mod complete_file;
pub mod fsync;

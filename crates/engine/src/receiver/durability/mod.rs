//! Waiting for fsync: complete files, directories, and checkpoints of incomplete files.
pub mod checkpoints;
pub mod commit_queue;
pub mod complete_file;
pub mod fsync;

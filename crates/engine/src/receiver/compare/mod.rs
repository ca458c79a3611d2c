//! Jobs that only compare.

pub mod entries;
pub mod metadata;
pub mod reread;

//! Removal of extraneous entries, and backups of them.

pub mod backup;
pub mod extraneous;
pub mod removal;
pub mod remove_tree;
pub mod source_names;

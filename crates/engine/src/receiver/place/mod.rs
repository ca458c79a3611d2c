//! Names and directories below the target.

pub mod case_sensitivity;
pub mod copy_locks;
pub mod copy_quota;
pub mod destination;
pub mod directory_locks;
pub mod entry_position;
pub mod error;
pub mod existing_entry;
pub mod foreign_partials;
pub mod full_disk;
pub mod in_order_sink;
pub mod journal;
pub mod range_files;
pub mod target_path;
pub mod temp_dir;
pub mod temp_files;
pub mod temp_names;
pub mod tree_memory;

//! Names and directories below the target.

pub mod case_sensitivity;
pub mod destination;
pub mod directory_locks;
pub mod entry_position;
pub mod error;
pub mod existing_entry;
pub mod full_disk;
pub mod in_order_sink;
pub mod job_locks;
pub mod job_quota;
pub mod journal;
pub mod range_files;
pub mod target_path;
pub mod temp_files;
pub mod temp_names;
pub mod tree_memory;

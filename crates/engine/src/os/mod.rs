//! What depends on the system and is no file and no socket. Everything that is Linux's alone is in here or in
//! [`crate::fs`], behind functions that another system could have too.

pub mod accounts;
pub mod affinity;
pub mod arguments;
pub mod clone_range;
pub mod confine;
pub mod gauges;
pub mod handed;
pub mod interfaces;
pub mod lock_holder;
pub mod machine;
pub mod open_files;
pub mod page_cache;
pub mod prompt;
pub mod ring;
pub mod secrecy;
pub mod signals;
pub mod syscall_filter;
pub mod tcp_info;
pub mod usage;

//! The operating system below a worker, except files and sockets. All Linux-only code is here, in [`crate::fs`] or in
//! `io::storage`, behind functions that another system could implement.

pub mod accounts;
pub mod affinity;
pub mod arguments;
pub mod clone_range;
pub mod confine;
pub mod gauges;
pub mod interface_settings;
pub mod interfaces;
pub mod lock_holder;
pub mod machine;
pub mod notify;
pub mod open_files;
pub mod page_cache;
pub mod refusal;
pub mod secrecy;
pub mod signals;
pub mod syscall_filter;
pub mod tcp_info;
pub mod usage;

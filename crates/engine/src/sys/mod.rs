//! The operating system, except for files and sockets. Everything that only Linux has is here, in [`crate::fs`] or in
//! `io::storage`, behind functions that another system could have too.

pub mod accounts;
pub mod affinity;
pub mod arguments;
pub mod cancel;
pub mod child;
pub mod clone_range;
pub mod confine;
pub mod describe;
pub mod gauges;
pub mod inherited_fds;
pub mod interfaces;
pub mod links;
pub mod lock_holder;
pub mod machine;
pub mod memory;
pub mod notify;
pub mod open_files;
pub mod page_cache;
pub mod prompt;
pub mod random;
pub mod secrecy;
pub mod shared_numbers;
pub mod signals;
pub(crate) mod sync;
pub mod syscall_filter;
pub mod tcp_info;
pub mod usage;

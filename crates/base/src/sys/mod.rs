//! Processes and pipes of the operating system, for the controller and workers.

pub mod cancel;
pub mod child;
pub mod describe;
pub mod inherited_fds;
#[cfg(target_os = "linux")]
pub(crate) mod linux;
#[cfg(not(target_os = "linux"))]
pub(crate) mod other_unix;
pub mod panic;
pub mod random;
pub mod shared_numbers;
pub mod sync;

#[cfg(target_os = "linux")]
pub(crate) use self::linux as os;
#[cfg(not(target_os = "linux"))]
pub(crate) use self::other_unix as os;

//! Processes and pipes: what both the controller and the workers need of the operating system.

pub mod cancel;
pub mod child;
pub mod describe;
pub mod inherited_fds;
pub mod panic;
pub mod random;
pub mod shared_numbers;
pub mod sync;

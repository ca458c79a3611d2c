//! Test hosts on this machine, for the end-to-end tests and the benchmarks.
//!
//! Tools to watch haul between "hosts": an OpenSSH server ([`Sshd`]), networks ([`Netns`]), long links between them
//! ([`Wan`]), disks with a power switch ([`Disk`]), slow disks ([`SlowFs`]), reproducible data ([`TestTree`],
//! [`compare()`]), and programs under a time limit with their resources counted ([`run_with_timeout`]).
//!
//! Nothing here knows haul's protocol. `Drop` ends every started process, by its id.

#![deny(unsafe_code)]

mod cabled_hosts;
mod cgroup;
mod compare;
mod count;
mod emulation;
mod interrupt;
mod netns;
mod power;
mod process;
mod programs;
mod proxy;
mod reap;
mod rng;
mod run;
#[cfg(feature = "slow-fs")]
mod slow_fs;
mod sshd;
mod strangers;
mod table;
mod throttle;
mod tree;
mod vectors;
mod wan;

pub use cabled_hosts::CabledHosts;
pub use cgroup::Cgroup;
pub use compare::{Attributes, compare, compare_with};
pub use count::{cases, count};
pub use emulation::{emulating_aarch64, is_emulated_without};
pub use interrupt::interrupt_flag;
pub use netns::{Inside, Netns};
pub use power::{Cut, Disk, apart};
pub use process::{descendants, end_tree, peak_memory_bytes, tree_cpu, tree_memory_bytes};
pub use programs::{find_program, install_script};
pub use proxy::{Flip, Proxy, Seen, Towards};
pub use reap::{Reaped, reap, try_reap};
pub use rng::Rng;
pub use run::{Finished, Running, output_of, rebuild, run_with_timeout, start, start_attended, start_measured};
#[cfg(feature = "slow-fs")]
pub use slow_fs::{Layouts, Oddities, SlowFs, Slowness};
pub use sshd::{Options, Sshd};
pub use strangers::{Answers, Loiterers, knock};
pub use table::{aligned, number};
pub use throttle::Throttle;
pub use tree::TestTree;
pub use vectors::{check_vectors, documented_vector};
pub use wan::{Congestion, Count, Wan, WanSettings};

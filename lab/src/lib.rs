//! Test hosts on this machine, for the end-to-end tests and the benchmarks.
//!
//! What a test needs in order to watch haul at work between "hosts": an OpenSSH
//! server of its own ([`Sshd`]), networks of its own ([`Netns`]), long links between them ([`Wan`]), disks whose power can be
//! cut ([`Disk`]), disks that are slow ([`SlowFs`]), data that is the
//! same every time ([`TestTree`], [`compare()`]) and a way to run a program under a
//! time limit while counting what it uses ([`run_with_timeout`]).
//!
//! Nothing here knows haul's protocol. Everything that is started is ended in
//! `Drop`, by process id.

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
mod rng;
mod run;
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
pub use rng::Rng;
pub use run::{Finished, Running, output_of, rebuild, run_with_timeout, start, start_attended};
pub use slow_fs::{SlowFs, Slowness};
pub use sshd::{Options, Sshd};
pub use strangers::{Answers, Loiterers, knock};
pub use table::{aligned, number};
pub use throttle::Throttle;
pub use tree::TestTree;
pub use vectors::{check_vectors, documented_vector};
pub use wan::{Congestion, Count, Wan, WanSettings};

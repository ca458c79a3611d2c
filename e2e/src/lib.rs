//! Shared code of the end-to-end tests: sandboxes, the real program, hosts to copy to.
//!
//! A test makes a [`Sandbox`], usually a [`Remote`] in it, and runs [`Sandbox::haul`]. At the end, the sandbox, its
//! mounts, its sshd and every started process are gone, whatever went wrong. The tests themselves are in `tests/`, a
//! file for each topic.
#![forbid(unsafe_code)]

mod browser;
pub mod diagnose;
mod emulated;
mod fake;
mod files;
pub mod forecast;
mod processes;
mod program;
mod remote;
mod sandbox;
pub mod schema;
mod serving;
mod slurm;
mod stream;
mod terminal;
mod trio;
mod two_links;
mod under_way;
mod user;
mod wait;
mod worker;

use std::time::Duration;

pub use browser::{Browser, BrowserPage};
pub use emulated::EmulatedHaul;
pub use fake::{FakeLink, FakeWorker, hello};
pub use files::{chain, chain_file, contents, fifo, hidden_or_partial, listing, mode, mtime, set_mtime, stamp};
pub use haul_lab::{
    Answers, Attributes, Cgroup, Cut, Disk, Flip, Loiterers, Netns, Options, Proxy, Rng, Running, Seen, Sshd, TestTree,
    Towards, apart, cases, compare, compare_with, count, knock,
};
pub use processes::{commands, pid};
pub use program::{Haul, ProgramRun, copy_haul_binary, haul_binary, strace_arguments};
pub use remote::{Connection, HostPair, Remote};
pub use sandbox::{Mount, Sandbox, shell};
pub use serving::ServedShare;
pub use slurm::{SLURM_CONTROLLER, SLURM_NODES, SlurmCluster};
pub use stream::{RawAcceptor, RawStream, SUITE};
pub use terminal::Terminal;
pub use trio::{HostLink, Trio};
pub use two_links::TwoLinks;
pub use under_way::{MEGABIT_PER_S, RunningCopy, goes_on, group_or_skip};
pub use user::{NOBODY, give_to_user, user};
pub use wait::{eventually, within};
pub use worker::{WORKER_MEMORY_MAX, WorkerProgramProcess, assert_bounded_memory};

/// No run of the program in these tests needs nearly as long.
pub const RUN_LIMIT: Duration = Duration::from_secs(60);

/// Whether the test can go on. Where it cannot, it has to return at once: the line printed here makes it count as skipped, not as passed.
pub fn is_root_or_skip(what: &str) -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        println!("SKIPPED: {what} needs root");
    }
    root
}

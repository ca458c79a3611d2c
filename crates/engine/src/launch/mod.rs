//! Starts a worker at an end of a copy: here as a child process, elsewhere through ssh, and puts haul where there is none.
//!
//! What is handed back is a process that has greeted: its two pipes carry
//! nothing but the protocol from there on. What the protocol says is not known
//! here.
//!
//! - `hello`: the greeting and the identity. `scan`: finds haul's lines among noise. `greet`: listens for them.
//! - `local`, `remote` and `served`: the ways to start. `ssh`: the command line for it; `command`: a user's own.
//! - `own`: this executable. `script`: what a remote shell is told. `executable`, `elf`: what is sent there.
//! - `child`: the process and its error output. `explain`: what a failure means.

mod command;
mod elf;
mod executable;
mod failure;
mod greeting;
mod greeting_scanner;
mod local;
mod remote;
mod script;
mod served;
mod ssh;
#[cfg(test)]
pub(crate) mod tests;

use std::net::IpAddr;
use std::process::{ChildStdin, ChildStdout};

use crate::sys::child::ChildGuard;

pub use executable::verify_own_executable;
pub use local::{InheritedStdio, start_local};
pub use remote::start_remote;
pub use script::is_deployed;
pub use served::{label as served_label, start_served};
pub(crate) use ssh::words as ssh_words;

/// A worker that has greeted.
#[derive(Debug)]
pub struct StartedWorker {
    /// Its standard input. Nothing has been written to it that it has not read.
    pub to_worker: ChildStdin,
    /// Its standard output, right after the greeting line.
    pub from_worker: ChildStdout,
    /// The process that was started here: the worker itself, or ssh. Dropping it ends it.
    pub child: ChildGuard,
    /// The version that the worker greeted with.
    pub version: String,
    /// Where haul was put on the host by this start (escaped), if it was.
    pub deployed: Option<String>,
    /// The host as the user named it: `user@name`, `name`, or `this host`.
    pub host_label: String,
    /// Where the connection to it leads, as this host sees it. `None` where there is none, or it is not seen.
    pub peer: Option<IpAddr>,
}

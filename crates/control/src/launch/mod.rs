//! Starts a worker at an end of a copy: here as a child process, elsewhere through ssh. Deploys haul to a host without
//! it.
//!
//! The result is a process that has greeted: from then on its two pipes carry only the protocol, which this room does
//! not decode.
//!
//! - `greeting_scanner`: finds haul's lines among noise. `greeting`: waits for them.
//! - `local`, `remote` and `served`: the launch methods. `ssh`: its command line; `command`: a user's own command.
//! - `start_wait`: how long a start may say nothing. `ssh_settings`: what must be overridden in ssh's configuration.
//! - `ssh_master`: one login for many commands.
//! - `script`: the remote shell command. `executables`, `executable`, `elf`: what to deploy.
//! - `failure`: the errors of a failed start.

mod command;
pub mod elf;
mod executable;
mod executables;
mod failure;
mod greeting;
mod greeting_scanner;
mod local;
#[cfg(not(target_os = "linux"))]
#[path = "no_prompt.rs"]
mod prompt;
#[cfg(target_os = "linux")]
mod prompt;
mod remote;
mod script;
mod served;
mod ssh;
mod ssh_master;
mod ssh_settings;
mod start_wait;
#[cfg(test)]
pub(crate) mod tests;
mod verified_executable;

use std::net::IpAddr;
use std::process::{ChildStdin, ChildStdout};

pub use executable::verify_own_executable;
use haul_base::copy::location::Host;
use haul_base::sys::child::ChildGuard;
pub use local::{InheritedStdio, start_local};
pub use remote::{StartControl, start_remote};
pub use script::is_deployed;
pub use served::start_served;
pub use ssh::words as ssh_words;
pub use start_wait::{drop_ssh_reports, is_question_open};

/// Returns a host as the user named it, as [`StartedWorker::host_label`] will.
pub fn host_label(host: &Host) -> String {
    match host {
        Host::Local => local::LABEL.to_owned(),
        Host::Remote { user, name } => ssh::SshRemote { user: user.as_deref(), name }.label(),
        Host::Served { name, port, directory, .. } => served::label(name, *port, directory),
    }
}

/// A worker that has greeted.
#[derive(Debug)]
pub struct StartedWorker {
    /// Its standard input. The worker has read all data written so far.
    pub to_worker: ChildStdin,
    /// Its standard output, right after the greeting line.
    pub from_worker: ChildStdout,
    /// The local process: the worker itself, or ssh. Dropping it ends the process.
    pub child: ChildGuard,
    /// Version in the worker's greeting.
    pub version: String,
    /// Path (escaped) of the haul that this start deployed, if any.
    pub deployed: Option<String>,
    /// What the host has verified of its executable.
    pub(crate) verified: Option<String>,
    /// The host as the user named it: `user@name`, `name`, or `this host`.
    pub host_label: String,
    /// Remote address of the connection, as this host sees it. `None` if there is none, or it is unknown.
    pub peer: Option<IpAddr>,
}

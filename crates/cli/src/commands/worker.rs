//! `haul worker`: one end of a copy. A controller starts it and talks to it over standard input and output.

use std::ffi::OsStr;
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use haul_engine::bootstrap;
use haul_engine::worker::{Ended, Environment, Handed};

use crate::args::parse::Worker;
use crate::exit::Exit;
use crate::{show, signals};

/// Does what the controller asks for.
pub fn run(what: &Worker) -> u8 {
    match what {
        Worker::Identify => {
            super::print(&format!("{}\n", bootstrap::worker_identify_line().trim_end()));
            Exit::Done.number()
        }
        Worker::Verify(hex) => match bootstrap::verify_own_executable(&super::program().executable, hex) {
            true => Exit::Done.number(),
            false => Exit::Failed.number(),
        },
        Worker::Keep(word, command) => keep(word, command),
        Worker::Run { input, output } => work(*input, *output).unwrap_or_else(|error| {
            show::stderr().error(&format!("the worker could not start: {error}"));
            Exit::Failed.number()
        }),
    }
}

/// What goes wrong here is the last that is heard of the program.
fn keep(word: &str, command: &OsStr) -> u8 {
    let kept = signals::leave_to_controller()
        .and_then(|termination| haul_engine::worker::keep_program(word, command, &termination.stop).transpose());
    match kept {
        Ok(Some(status)) => status,
        Ok(None) => Exit::Usage.number(),
        Err(error) => {
            show::stderr().error(&format!("the program could not be started: {error}"));
            Exit::Failed.number()
        }
    }
}

fn work(input: Option<i32>, output: Option<i32>) -> io::Result<u8> {
    let handed = Handed::take(input, output)?;
    let termination = signals::leave_to_controller()?;
    let stdin = io::stdin().as_fd().try_clone_to_owned()?;
    let stdout = io::stdout().as_fd().try_clone_to_owned()?;
    let ended = haul_engine::worker::run(stdin, stdout, termination.stop, handed, &environment());
    // The controller shows it, if it can.
    if termination.came.load(Ordering::Acquire) {
        show::stderr().error("the worker was told to end (SIGTERM)");
    } else if ended == Ended::Unheard {
        show::stderr().error("the worker heard nothing from its controller any more, and ended");
    }
    Ok(match ended {
        Ended::Done => Exit::Done.number(),
        Ended::Undone | Ended::Unheard => Exit::Failed.number(),
    })
}

fn environment() -> Environment {
    Environment {
        ssh_connection: std::env::var("SSH_CONNECTION").ok().filter(|value| !value.is_empty()),
        state_dir: state_dir(),
        policy: policy_files(),
        umask: umask(),
    }
}

/// Where programs may be forbidden: for all users, and for this one.
fn policy_files() -> Vec<PathBuf> {
    let config = absolute("XDG_CONFIG_HOME").or_else(|| Some(absolute("HOME")?.join(".config")));
    let own = config.map(|config| config.join("haul/policy"));
    std::iter::once(PathBuf::from("/etc/haul/policy")).chain(own).collect()
}

fn absolute(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute())
}

/// Where a worker keeps what outlives it (XDG Base Directory Specification).
fn state_dir() -> Option<PathBuf> {
    let state = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")))?;
    Some(state.join("haul"))
}

/// Can only be read by setting it; no thread has started yet that could see it change.
fn umask() -> u16 {
    let mask = rustix::process::umask(rustix::fs::Mode::empty());
    rustix::process::umask(mask);
    u16::try_from(mask.bits() & 0o777).unwrap_or(0o077)
}

//! Workers of one copy's earlier attempts: found by the copy's random id, and ended.
//!
//! A worker listens on an abstract Unix socket (unix(7)) whose name is a hash of the copy's id and its role, and
//! accepts nothing there. The kernel frees the name when the worker ends, however it ends, and tells who listens. A
//! worker of another copy has another name, and who sees a name in `/proc/net/unix` does not know the id.

use std::os::fd::OwnedFd;
use std::time::Duration;

use haul_base::copy::End;
use haul_base::sys::child::is_ready;
use haul_proto::ids::CopyId;
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with};
use rustix::process::{Pid, PidfdFlags, Signal, geteuid, pidfd_open, pidfd_send_signal};

/// How long a worker may take to end after each signal. All in all less than any idle timeout.
const END_WAIT: Duration = Duration::from_secs(1);
/// Connections that the kernel keeps: each later attempt makes two.
const BACKLOG: i32 = 4096;
/// Context of the hash (BLAKE3, derive key).
const CONTEXT: &str = "haul 2025 name of a worker of a job";

/// Marks this process as a copy's worker until it ends.
pub struct WorkerMark(#[expect(dead_code, reason = "held open")] OwnedFd);

/// A worker of an earlier attempt that does not end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the worker of an earlier attempt (process {process}) is killed, but still waits for its disk", process = .process.as_raw_nonzero())]
pub struct RunningPredecessor {
    /// Its process.
    pub process: Pid,
}

impl WorkerMark {
    /// Ends the copy's earlier worker in this role, and marks this process as its worker. Without a mark (`None`), a
    /// later attempt does not find this one, and waits for its locks.
    ///
    /// # Errors
    /// The earlier worker goes on running: the kernel ends no process that waits for a disk.
    pub fn take_over(copy: &CopyId, end: End) -> Result<Option<Self>, RunningPredecessor> {
        let Ok(address) = SocketAddrUnix::new_abstract_name(name(copy, end).as_bytes()) else { return Ok(None) };
        if let Some((process, pidfd)) = find(&address)
            && !end_process(&pidfd)
        {
            return Err(RunningPredecessor { process });
        }
        Ok(mark(&address).ok().map(Self))
    }
}

/// Tells nothing about the id.
fn name(copy: &CopyId, end: End) -> String {
    let role = match end {
        End::Source => "source",
        End::Target => "target",
    };
    let digest = blake3::Hasher::new_derive_key(CONTEXT).update(&copy.0).update(role.as_bytes()).finalize();
    format!("haul-{}", &digest.to_hex()[..32])
}

fn mark(address: &SocketAddrUnix) -> Result<OwnedFd, Errno> {
    let socket = new_socket()?;
    bind(&socket, address)?;
    listen(&socket, BACKLOG)?;
    Ok(socket)
}

fn new_socket() -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
}

/// The process of this user that listens at `address`. It still listens once its descriptor is open, so that the
/// descriptor is no other process's with the same number.
fn find(address: &SocketAddrUnix) -> Option<(Pid, OwnedFd)> {
    let process = listener(address)?;
    let pidfd = pidfd_open(process, PidfdFlags::empty()).ok()?;
    (listener(address)? == process).then_some((process, pidfd))
}

fn listener(address: &SocketAddrUnix) -> Option<Pid> {
    let socket = new_socket().ok()?;
    connect(&socket, address).ok()?;
    let listener = socket_peercred(&socket).ok()?;
    (listener.uid == geteuid()).then_some(listener.pid)
}

/// Asks the process to end, then ends it; whether it has ended.
fn end_process(pidfd: &OwnedFd) -> bool {
    [Signal::TERM, Signal::KILL]
        .into_iter()
        .any(|signal| pidfd_send_signal(pidfd, signal) == Err(Errno::SRCH) || is_ready(pidfd, PollFlags::IN, END_WAIT))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(copy: &CopyId, end: End) -> SocketAddrUnix {
        SocketAddrUnix::new_abstract_name(name(copy, end).as_bytes()).unwrap()
    }

    #[test]
    fn a_worker_is_found_by_copy_and_role() {
        let (copy, other) = (CopyId(haul_base::sys::random::random().unwrap()), CopyId([7; 16]));
        let marked = WorkerMark::take_over(&copy, End::Target).unwrap().expect("the name is free");
        let me = rustix::process::getpid();
        assert_eq!(find(&address(&copy, End::Target)).map(|(process, _)| process), Some(me));
        assert!(find(&address(&copy, End::Source)).is_none() && find(&address(&other, End::Target)).is_none());
        assert!(mark(&address(&copy, End::Target)).is_err(), "a name has one holder");
        drop(marked);
        assert!(find(&address(&copy, End::Target)).is_none());
    }

    #[test]
    fn a_stopped_process_is_ended() {
        if haul_lab::is_emulated_without("end of a process by its descriptor") {
            return;
        }
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = Pid::from_child(&child);
        let pidfd = pidfd_open(pid, PidfdFlags::empty()).unwrap();
        rustix::process::kill_process(pid, Signal::STOP).unwrap();
        assert!(end_process(&pidfd) && end_process(&pidfd));
        assert!(!child.wait().unwrap().success());
    }
}

//! The process between a worker and a program: starts the program in its own process group, and ends that group when
//! the worker is gone. The worker is confined, and cannot signal others.
//!
//! Its standard input controls it: one byte starts the program, the end of input ends it. Its standard output is the
//! program's end of the data; its standard error is the program's. It exits with the program's status.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use haul_base::copy::End;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

/// Time for a program to end after SIGTERM, before it is killed.
const GRACE: Duration = Duration::from_millis(300);
/// A shell's exit status after a signal is this plus the signal's number.
const SIGNAL_STATUS: i32 = 128;

/// The word that makes haul a keeper.
pub fn word(end: End) -> &'static str {
    match end {
        End::Source => "--keep-source",
        End::Target => "--keep-target",
    }
}

/// Starts a program at the worker's request, and waits until it ends, the worker ends, or `stop` is set. Returns its
/// status.
pub fn keep(end: End, command: &OsStr, stop: &OwnedFd) -> io::Result<u8> {
    let lifeline = io::stdin();
    if !wait_for_start(&lifeline, stop)? {
        return Ok(1);
    }
    let mut program = start(end, command)?;
    let pid = Pid::from_child(&program);
    let ended = pidfd_open(pid, PidfdFlags::empty())?;
    loop {
        let mut fds = [
            PollFd::new(&ended, PollFlags::IN),
            PollFd::new(&lifeline, PollFlags::IN),
            PollFd::new(stop, PollFlags::IN),
        ];
        // An interrupted call is ignored.
        let _ = poll(&mut fds, None);
        if !fds[0].revents().is_empty() {
            return Ok(status_of(program.wait()?));
        }
        if fds[1..].iter().any(|fd| !fd.revents().is_empty()) {
            end_group(&mut program, pid, &ended)?;
            return Ok(1);
        }
    }
}

/// Waits for the worker's byte. `false` after the end of the worker, or at a stop.
fn wait_for_start(lifeline: &io::Stdin, stop: &OwnedFd) -> io::Result<bool> {
    loop {
        let mut fds = [PollFd::new(lifeline, PollFlags::IN), PollFd::new(stop, PollFlags::IN)];
        // An interrupted call is ignored.
        let _ = poll(&mut fds, None);
        if !fds[1].revents().is_empty() {
            return Ok(false);
        }
        if !fds[0].revents().is_empty() {
            return Ok(rustix::io::read(lifeline, &mut [0])? == 1);
        }
    }
}

fn start(end: End, command: &OsStr) -> io::Result<Child> {
    let data = io::stdout().as_fd().try_clone_to_owned()?;
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(command).process_group(0);
    match end {
        End::Source => shell.stdin(Stdio::null()).stdout(data),
        // Its output is for the user, like its errors.
        End::Target => shell.stdin(data).stdout(io::stderr().as_fd().try_clone_to_owned()?),
    };
    let program = shell.spawn()?;
    // Only the program has its end of the data, so that both sides notice its end.
    drop(shell);
    let nothing = openat(CWD, "/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    rustix::stdio::dup2_stdout(&nothing)?;
    Ok(program)
}

/// Ends the program's group with SIGTERM, then SIGKILL.
fn end_group(program: &mut Child, pid: Pid, ended: &OwnedFd) -> io::Result<()> {
    let _ = kill_process_group(pid, Signal::TERM);
    let grace = Timespec::try_from(GRACE).ok();
    let _ = poll(&mut [PollFd::new(ended, PollFlags::IN)], grace.as_ref());
    // It is not reaped yet, so its id is still its own.
    let _ = kill_process_group(pid, Signal::KILL);
    program.wait().map(|_| ())
}

fn status_of(status: ExitStatus) -> u8 {
    let number = status.code().unwrap_or_else(|| SIGNAL_STATUS + status.signal().unwrap_or(0));
    u8::try_from(number).unwrap_or(1)
}

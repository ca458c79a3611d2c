//! Waits for a child, and learns the resources that it used. No safe crate offers wait4(2).
//!
//! `/proc` would have to be read while the process runs. Dozens of tests that do so keep the kernel busy: whenever a
//! process ends, it has to forget every directory and file of that process that was looked up.
#![allow(unsafe_code)]

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};

/// A child that has ended. The child itself is not to be waited for or killed any more.
#[derive(Debug, Clone, Copy)]
pub struct Reaped {
    /// How it ended.
    pub status: ExitStatus,
    /// User plus system seconds of the child and all that it waited for.
    pub cpu_s: f64,
    /// The most resident memory that the child, or a process that it waited for, has had; no less than this process's
    /// own when it started the child.
    pub peak_memory_bytes: u64,
}

/// Waits for the child's end.
pub fn reap(child: &Child) -> io::Result<Reaped> {
    loop {
        match wait4(child, 0) {
            Ok(Some(reaped)) => return Ok(reaped),
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
    }
}

/// Reaps the child if it has ended.
pub fn try_reap(child: &Child) -> io::Result<Option<Reaped>> {
    wait4(child, libc::WNOHANG)
}

fn wait4(child: &Child, options: libc::c_int) -> io::Result<Option<Reaped>> {
    let pid = child.id().cast_signed();
    let mut status = 0;
    // SAFETY: the structure has integers alone, for which zero is a valid value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are those of values that outlive the call. The id is that of a child of this process; at
    // worst, another thread has waited for it, and the call fails with ECHILD.
    let ended = unsafe { libc::wait4(pid, &mut status, options, &mut usage) };
    match ended {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(None),
        _ => Ok(Some(Reaped {
            status: ExitStatus::from_raw(status),
            cpu_s: seconds(usage.ru_utime) + seconds(usage.ru_stime),
            // Linux counts in KiB (getrusage(2)).
            peak_memory_bytes: u64::try_from(usage.ru_maxrss).unwrap_or(0) * 1024,
        })),
    }
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn seconds(time: libc::timeval) -> f64 {
    time.tv_sec as f64 + time.tv_usec as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    #[expect(clippy::zombie_processes, reason = "reap waits for it")]
    fn a_childs_end_and_use_are_learned_once() {
        let script = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; read line; exit 3";
        let mut child = Command::new("sh").args(["-c", script]).stdin(Stdio::piped()).spawn().expect("sh starts");
        assert!(try_reap(&child).expect("it is a child").is_none(), "it waits for a line");
        drop(child.stdin.take());
        let reaped = reap(&child).expect("it is a child");
        assert_eq!(reaped.status.code(), Some(3));
        assert!(reaped.cpu_s > 0.01 && reaped.peak_memory_bytes > 500_000, "{reaped:?}");
        assert!(reap(&child).is_err());
    }
}

//! A child process with its pipes: starts it, collects its standard error, and ends it when dropped.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use haul_proto::path::escape;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use crate::sys::cancel::Cancel;
use crate::sys::os;
use crate::sys::sync::lock;

/// Kept bytes from the end of a child's standard error.
pub const KEPT_STDERR: usize = 8 * 1024;

/// Time for a child to end after SIGTERM, before it is killed.
const GRACE: Duration = Duration::from_millis(500);

/// Time to wait for an ended child's standard error. A process that it left may hold the pipe open.
const STDERR_WAIT: Duration = Duration::from_millis(500);

/// Longest pause between two checks for a child's end.
const LONGEST_NAP: Duration = Duration::from_millis(10);

/// Interval between checks for cancellation while waiting for a child.
pub const CANCEL_POLL: Duration = Duration::from_millis(50);

/// Bytes that a writable pipe accepts without blocking (Linux: PIPE_BUF).
const PIPE_ROOM: usize = 4096;

/// Owns a child process: ends and reaps it when dropped.
#[derive(Debug)]
pub struct ChildGuard {
    child: Child,
    /// Whether its exit is irrelevant.
    is_relay: bool,
    is_left: bool,
    status: Option<ExitStatus>,
    kept: Arc<Mutex<VecDeque<u8>>>,
    stderr_ended: Receiver<()>,
}

/// A child and its pipes.
pub struct SpawnedChild {
    /// Ends the child when it is dropped.
    pub guard: ChildGuard,
    /// Its standard input.
    pub stdin: ChildStdin,
    /// Its standard output.
    pub stdout: ChildStdout,
}

/// Starts `command` with three pipes, in this process's group, so that it can ask on the terminal.
pub fn spawn(command: &mut Command) -> io::Result<SpawnedChild> {
    let (guard, stdin, stdout) = spawn_with(command, Stdio::piped())?;
    let stdout = stdout.ok_or_else(missing)?;
    Ok(SpawnedChild { guard, stdin, stdout })
}

/// Starts `command` with this standard output, not necessarily a pipe.
pub fn spawn_with(command: &mut Command, stdout: Stdio) -> io::Result<(ChildGuard, ChildStdin, Option<ChildStdout>)> {
    let mut child = command.stdin(Stdio::piped()).stdout(stdout).stderr(Stdio::piped()).spawn()?;
    let stdout = child.stdout.take();
    let pipes = (child.stdin.take(), child.stderr.take());
    let kept = Arc::new(Mutex::new(VecDeque::with_capacity(KEPT_STDERR)));
    let (ended, stderr_ended) = channel();
    let guard =
        ChildGuard { child, is_relay: false, is_left: false, status: None, kept: Arc::clone(&kept), stderr_ended };
    let (Some(stdin), Some(stderr)) = pipes else { return Err(missing()) };
    thread::Builder::new().name("child-stderr".into()).spawn(move || {
        keep_end(stderr, &kept);
        // An error means that nobody waits.
        let _ = ended.send(());
    })?;
    Ok((guard, stdin, stdout))
}

fn missing() -> io::Error {
    io::Error::other("no pipe to the child")
}

impl ChildGuard {
    /// The child's process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the child's end for at most `timeout`; `None` if it still runs.
    pub fn wait(&mut self, timeout: Duration) -> io::Result<Option<ExitStatus>> {
        let deadline = Instant::now() + timeout;
        let mut nap = Duration::from_micros(200);
        let mut ended = None;
        loop {
            if self.status.is_none() {
                self.status = self.child.try_wait()?;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if self.status.is_some() || left.is_zero() {
                return Ok(self.status);
            }
            // Without such a descriptor, the child is polled.
            ended = ended.or_else(|| os::process_end(self.pid()?));
            match &ended {
                Some(ended) => drop(is_ready(ended, PollFlags::IN, left)),
                None => thread::sleep(nap.min(left)),
            }
            nap = (nap * 2).min(LONGEST_NAP);
        }
    }

    /// Marks the child as a relay, whose end is not waited for.
    pub fn mark_as_relay(&mut self) {
        self.is_relay = true;
    }

    /// Closes the child's standard input and waits for its end for at most `timeout`. Does not wait for a relay such as
    /// ssh, whose end takes a round trip on a long path.
    pub fn close(&mut self, timeout: Duration) {
        if !self.is_relay {
            // A child that does not end by itself is ended on drop.
            let _ = self.wait(timeout);
            return;
        }
        self.is_left = true;
        // Without a thread, it is reaped at the end of this process.
        let _ = thread::Builder::new().name("haul-reap".into()).spawn({
            let child = self.pid();
            move || child.map(|child| waitpid(Some(child), WaitOptions::empty()))
        });
    }

    fn pid(&self) -> Option<Pid> {
        i32::try_from(self.id()).ok().and_then(Pid::from_raw)
    }

    /// Ends the child with SIGTERM, then SIGKILL, and reaps it.
    pub fn end(&mut self) {
        self.signal(Signal::TERM);
        if !matches!(self.wait(GRACE), Ok(Some(_))) {
            self.signal(Signal::KILL);
            // A killed child always ends. A failed wait has no remedy here.
            self.status = self.child.wait().ok().or(self.status);
        }
    }

    /// The last lines of the child's standard error, escaped, without empty lines. Waits briefly for the rest if the
    /// child has ended.
    pub fn stderr_tail(&self) -> Vec<String> {
        if self.status.is_some() {
            // Complete or not, the lines so far are returned.
            let _ = self.stderr_ended.recv_timeout(STDERR_WAIT);
        }
        let mut kept = lock(&self.kept);
        let bytes: &[u8] = kept.make_contiguous();
        bytes.split(|&b| b == b'\n').map(|line| escape(line.trim_ascii())).filter(|line| !line.is_empty()).collect()
    }

    /// Returns a handle on the end of its standard error, to be searched while it runs.
    pub fn errors(&self) -> ChildErrors {
        ChildErrors(Arc::clone(&self.kept))
    }

    fn signal(&mut self, signal: Signal) {
        // A reaped child is not signalled: its id may belong to another process.
        if let (Ok(None), Some(pid)) = (self.wait(Duration::ZERO), self.pid()) {
            // This fails only if it has just ended.
            let _ = kill_process(pid, signal);
        }
    }
}

impl Drop for ChildGuard {
    fn drop(&mut self) {
        if !self.is_left {
            self.end();
        }
    }
}

/// The end of a running child's standard error.
#[derive(Debug)]
pub struct ChildErrors(Arc<Mutex<VecDeque<u8>>>);

impl ChildErrors {
    /// Whether a line begins with `start`.
    pub fn has_line(&self, start: &str) -> bool {
        let mut kept = lock(&self.0);
        kept.make_contiguous().split(|&b| b == b'\n').any(|line| line.starts_with(start.as_bytes()))
    }
}

/// Writes to a child that may not read. Fails once `cancel` is set, or with [`io::ErrorKind::TimedOut`].
pub struct CancellableStdin<'a> {
    /// The child's standard input.
    pub pipe: &'a mut ChildStdin,
    /// Cancels the wait.
    pub cancel: &'a Cancel,
    /// How long the child may leave the pipe full.
    pub patience: Duration,
}

impl Write for CancellableStdin<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let begun = Instant::now();
        while !is_ready(&*self.pipe, PollFlags::OUT, CANCEL_POLL) {
            if self.cancel.is_cancelled() {
                return Err(io::Error::other("cancelled"));
            }
            if begun.elapsed() > self.patience {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
        self.pipe.write(&bytes[..bytes.len().min(PIPE_ROOM)])
    }

    fn flush(&mut self) -> io::Result<()> {
        self.pipe.flush()
    }
}

/// Whether a pipe becomes ready within `timeout`. A pipe that cannot be polled counts as ready: its use gives the
/// better error.
pub fn is_ready(pipe: impl AsFd, wanted: PollFlags, timeout: Duration) -> bool {
    let Ok(timeout) = Timespec::try_from(timeout) else { return true };
    match poll(&mut [PollFd::new(&pipe, wanted)], Some(&timeout)) {
        Ok(0) | Err(rustix::io::Errno::INTR) => false,
        Ok(_) | Err(_) => true,
    }
}

/// Reads to the end and keeps the last [`KEPT_STDERR`] bytes.
fn keep_end(mut stderr: ChildStderr, kept: &Mutex<VecDeque<u8>>) {
    let mut chunk = [0; 4096];
    loop {
        let read = match stderr.read(&mut chunk) {
            Ok(0) => return,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => return,
        };
        let mut kept = lock(kept);
        let surplus = (kept.len() + read).saturating_sub(KEPT_STDERR);
        kept.drain(..surplus);
        kept.extend(&chunk[..read]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> SpawnedChild {
        spawn(Command::new("timeout").args(["--foreground", "20", "sh", "-c", script])).unwrap()
    }

    #[test]
    fn the_end_of_its_errors_is_kept_and_escaped() {
        let mut spawned = shell("yes x | head -c 20000 >&2; printf '\\n  \\033[1mlast \\n\\n' >&2; exit 3");
        let status = spawned.guard.wait(Duration::from_secs(10)).unwrap().unwrap();
        assert_eq!(status.code(), Some(3));
        let tail = spawned.guard.stderr_tail();
        assert_eq!(tail.last().map(String::as_str), Some("\\u{1b}[1mlast"));
        let bytes: usize = tail.iter().map(|line| line.len() + 1).sum();
        assert!((8000..=KEPT_STDERR + 16).contains(&bytes), "{bytes}");
    }

    #[test]
    fn a_pipe_held_open_by_another_process_delays_only_briefly() {
        let mut spawned = shell("sleep 15 & echo $!; echo bye >&2");
        let mut id = String::new();
        while !id.ends_with('\n') {
            let mut byte = [0];
            spawned.stdout.read_exact(&mut byte).unwrap();
            id.push(char::from(byte[0]));
        }
        let begun = Instant::now();
        spawned.guard.wait(Duration::from_secs(10)).unwrap().unwrap();
        assert_eq!(spawned.guard.stderr_tail(), ["bye"]);
        assert!(begun.elapsed() < Duration::from_secs(5));
        let left_behind = Pid::from_raw(id.trim().parse().unwrap()).unwrap();
        kill_process(left_behind, Signal::KILL).unwrap();
    }

    #[test]
    fn dropping_ends_even_a_stubborn_child() {
        for script in ["read x", "trap '' TERM; echo ready; while :; do read x || sleep 0.05; done"] {
            let mut spawned = spawn(Command::new("sh").args(["-c", script])).unwrap();
            if script.contains("ready") {
                spawned.stdout.read_exact(&mut [0; 6]).unwrap();
            }
            let pid = Pid::from_raw(i32::try_from(spawned.guard.id()).unwrap()).unwrap();
            let begun = Instant::now();
            drop(spawned);
            assert!(begun.elapsed() < Duration::from_secs(5));
            assert!(rustix::process::test_kill_process(pid).is_err(), "it is still there");
        }
    }

    #[test]
    fn writing_to_a_child_that_does_not_read_ends_on_cancellation() {
        let mut spawned = shell("sleep 15");
        let cancel = Cancel::new();
        let stop = cancel.clone();
        let stopping = thread::spawn(move || {
            thread::sleep(Duration::from_millis(100));
            stop.cancel();
        });
        let begun = Instant::now();
        let mut to = CancellableStdin { pipe: &mut spawned.stdin, cancel: &cancel, patience: Duration::from_secs(60) };
        let error = to.write_all(&vec![0; 1 << 20]).unwrap_err();
        assert!(begun.elapsed() < Duration::from_secs(5) && error.to_string() == "cancelled", "{error}");
        stopping.join().unwrap();
    }

    #[test]
    fn writing_to_a_child_that_does_not_read_has_a_limit() {
        let mut spawned = shell("sleep 15");
        let patience = Duration::from_millis(100);
        let mut to = CancellableStdin { pipe: &mut spawned.stdin, cancel: &Cancel::new(), patience };
        assert_eq!(to.write_all(&vec![0; 1 << 20]).unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn a_line_of_its_errors_is_found_while_it_runs() {
        let spawned = shell("echo Not authenticated >&2; printf 'Authenticated to x' >&2; echo ready; sleep 15");
        let deadline = Instant::now() + Duration::from_secs(10);
        while !spawned.guard.errors().has_line("Authenticated to ") {
            assert!(Instant::now() < deadline);
            thread::sleep(Duration::from_millis(1));
        }
        assert!(!spawned.guard.errors().has_line("authenticated"));
    }

    #[test]
    fn a_forwarding_child_ends_by_itself_and_is_reaped() {
        let mut spawned = shell("read x; sleep 0.2; exit 3");
        let pid = spawned.guard.pid().unwrap();
        spawned.guard.mark_as_relay();
        drop(spawned.stdin);
        spawned.guard.close(Duration::from_secs(10));
        drop(spawned.guard);
        assert!(rustix::process::test_kill_process(pid).is_ok(), "it was waited for, or ended");
        let deadline = Instant::now() + Duration::from_secs(5);
        while rustix::process::test_kill_process(pid).is_ok() {
            assert!(Instant::now() < deadline, "nobody reaped it");
            thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn a_worker_is_waited_for() {
        let mut spawned = shell("read x; sleep 0.2; exit 3");
        let pid = spawned.guard.pid().unwrap();
        drop(spawned.stdin);
        spawned.guard.close(Duration::from_secs(10));
        assert!(rustix::process::test_kill_process(pid).is_err(), "it is still there");
    }

    #[test]
    fn waiting_ends_at_its_time() {
        let mut spawned = shell("read x");
        assert!(spawned.guard.wait(Duration::from_millis(30)).unwrap().is_none());
        assert!(spawned.guard.stderr_tail().is_empty());
        drop(spawned.stdin);
        assert!(spawned.guard.wait(Duration::from_secs(10)).unwrap().is_some());
    }
}

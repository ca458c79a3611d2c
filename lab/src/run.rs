//! Runs one program to its end under a time limit, and counts its resources.
//!
//! The program gets a process group of its own, and the time limit ends all of it. Its output goes to unnamed files
//! instead of pipes: a leftover daemon cannot block the caller.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::process::{PidfdFlags, Signal, kill_process_group, pidfd_open};

use crate::process::{descendants, memory, signal, to_pid};
use crate::reap::{Reaped, reap};

/// How soon after the start memory is looked at. A peak between two looks may go unseen when it is made of several
/// processes; that of one process is exact.
const FIRST_SAMPLE: Duration = Duration::from_millis(10);
/// Each poll waits twice as long as the last, up to this limit. A poll reads all of the system's processes, so frequent
/// polls would slow down the measured program.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(200);

/// A program's results and resource use.
#[derive(Debug, Clone)]
pub struct Finished {
    /// How it ended.
    pub status: ExitStatus,
    /// Standard output, unless the command redirected it.
    pub stdout: Vec<u8>,
    /// Standard error, unless the command redirected it.
    pub stderr: Vec<u8>,
    /// Seconds from start to end.
    pub wall_s: f64,
    /// User plus system seconds of the program and every process it waited for. Orphans are not included.
    pub cpu_s: f64,
    /// The most resident memory of its largest process, no less than this process's own. If measured: or of the whole
    /// tree added up (sampled), whichever is more.
    pub peak_memory_bytes: u64,
    /// Whether it was killed because the time was up.
    pub timed_out: bool,
}

impl Finished {
    /// Whether it ended by itself with status 0.
    pub fn success(&self) -> bool {
        self.status.success() && !self.timed_out
    }

    /// Exit status; none when a signal ended it.
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// Standard output as text.
    pub fn stdout_text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Standard error as text.
    pub fn stderr_text(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }
}

/// A program under way. Dropping it kills its process group.
#[derive(Debug)]
pub struct Running {
    child: Child,
    pidfd: OwnedFd,
    stdout: File,
    /// None where standard error is the caller's.
    stderr: Option<File>,
    started: Instant,
    is_measured: bool,
    peak_memory_bytes: u64,
    reaped: bool,
}

/// Starts `command` in a process group of its own, with standard input from
/// `/dev/null` and its output collected. See [`Running::finish`].
pub fn start(mut command: Command) -> Result<Running> {
    let stderr = tempfile::tempfile().context("a temporary file for standard error")?;
    command.stderr(stderr.try_clone()?);
    Running::start(&mut command, Some(stderr))
}

/// The same, with samples of its tree's memory.
pub fn start_measured(command: Command) -> Result<Running> {
    let mut running = start(command)?;
    running.is_measured = true;
    Ok(running)
}

/// The same as [`start`] with the caller's standard error. Ends with its whole process group.
pub fn start_attended(command: &mut Command) -> Result<Running> {
    Running::start(command, None)
}

/// Runs `command` to its end without a limit. Gives its output, or an error with its standard error.
pub fn output_of(command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("could not start {command:?}: is it installed?"))?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {}", complaint.trim_end());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs `command` to its end; kills it and all that it started after `timeout`.
///
/// Standard input is `/dev/null`. An error means that it could not be started.
pub fn run_with_timeout(command: Command, timeout: Duration) -> Result<Finished> {
    start(command)?.finish(timeout)
}

impl Running {
    fn start(command: &mut Command, stderr: Option<File>) -> Result<Self> {
        let stdout = tempfile::tempfile().context("a temporary file for standard output")?;
        command.stdin(Stdio::null()).stdout(stdout.try_clone()?).process_group(0);
        let started = Instant::now();
        let program = command.get_program().to_owned();
        let child = command.spawn().with_context(|| format!("could not start {program:?}: is it installed?"))?;
        let pid = to_pid(child.id()).context("a child's process id is positive")?;
        let pidfd = pidfd_open(pid, PidfdFlags::empty()).context("pidfd_open (needs Linux 5.3)")?;
        Ok(Self { child, pidfd, stdout, stderr, started, is_measured: false, peak_memory_bytes: 0, reaped: false })
    }

    /// The process id, also the id of its process group.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal to the program alone.
    pub fn signal(&self, which: Signal) {
        signal(self.child.id(), which);
    }

    /// Standard error so far.
    pub fn stderr_so_far(&self) -> String {
        String::from_utf8_lossy(&self.complaint()).into_owned()
    }

    /// Standard output so far.
    pub fn stdout_so_far(&self) -> String {
        String::from_utf8_lossy(&self.stdout_from(0)).into_owned()
    }

    /// Standard output so far, from this offset.
    pub fn stdout_from(&self, offset: u64) -> Vec<u8> {
        read_from(&self.stdout, offset)
    }

    fn complaint(&self) -> Vec<u8> {
        self.stderr.as_ref().map(|file| read_from(file, 0)).unwrap_or_default()
    }

    /// Waits up to `time` for the end; true when it has ended. It can still be finished.
    pub fn wait_up_to(&mut self, time: Duration) -> bool {
        let deadline = Instant::now() + time;
        let mut pause = FIRST_SAMPLE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if self.ended_within(left.min(pause)) {
                return true;
            }
            if self.is_measured {
                self.sample_memory();
            }
            pause = (pause * 2).min(SAMPLE_INTERVAL);
            if Instant::now() >= deadline {
                return false;
            }
        }
    }

    /// Waits for the end, kills it after `timeout` from now, and gives the account.
    pub fn finish(mut self, timeout: Duration) -> Result<Finished> {
        let timed_out = !self.wait_up_to(timeout);
        let wall_s = self.started.elapsed().as_secs_f64();
        if timed_out {
            self.kill();
            // Until it is a zombie, its times would be read while they still grow.
            self.ended_within(Duration::from_secs(5));
        }
        let Reaped { status, cpu_s, peak_memory_bytes } = reap(&self.child).context("waiting for a child")?;
        self.reaped = true;
        if self.stderr.is_none() {
            self.kill_group();
        }
        Ok(Finished {
            status,
            stdout: self.stdout_from(0),
            stderr: self.complaint(),
            wall_s,
            cpu_s,
            peak_memory_bytes: self.peak_memory_bytes.max(peak_memory_bytes),
            timed_out,
        })
    }

    fn ended_within(&self, time: Duration) -> bool {
        let timeout = Timespec { tv_sec: time.as_secs().cast_signed(), tv_nsec: time.subsec_nanos().into() };
        let mut watched = [PollFd::new(&self.pidfd, PollFlags::IN)];
        poll(&mut watched, Some(&timeout)).is_ok_and(|ready| ready > 0)
    }

    fn sample_memory(&mut self) {
        let mut now_bytes = 0;
        for pid in std::iter::once(self.child.id()).chain(descendants(self.child.id())) {
            let sample = memory(pid);
            now_bytes += sample.now_bytes;
            self.peak_memory_bytes = self.peak_memory_bytes.max(sample.peak_bytes);
        }
        self.peak_memory_bytes = self.peak_memory_bytes.max(now_bytes);
    }

    /// Kills the process group, and descendants outside the group.
    fn kill(&self) {
        let strayed = descendants(self.child.id());
        self.kill_group();
        for pid in strayed {
            signal(pid, Signal::KILL);
        }
    }

    fn kill_group(&self) {
        if let Some(group) = to_pid(self.child.id()) {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.reaped {
            self.kill();
            let _ = self.child.wait();
        }
    }
}

/// `wrapper` with `command`'s program and arguments appended, and with its environment and directory.
pub fn rebuild(command: &Command, mut wrapper: Command) -> Command {
    wrapper.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => wrapper.env(name, value),
            None => wrapper.env_remove(name),
        };
    }
    if let Some(directory) = command.get_current_dir() {
        wrapper.current_dir(directory);
    }
    wrapper
}

/// Reads at a position, since the program shares the file's offset.
fn read_from(file: &File, offset: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 64 << 10];
    while let Ok(count @ 1..) = file.read_at(&mut buffer, offset + bytes.len() as u64) {
        bytes.extend_from_slice(&buffer[..count]);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.arg("-c").arg(script);
        command
    }

    #[test]
    fn output_status_and_use_are_reported() {
        let script = "echo out; echo err >&2; (i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done); exit 3";
        let running = start_measured(shell(script)).expect("sh starts");
        let finished = running.finish(Duration::from_secs(60)).expect("it was started");
        assert_eq!((finished.code(), finished.timed_out), (Some(3), false));
        assert_eq!((finished.stdout_text().as_str(), finished.stderr_text().as_str()), ("out\n", "err\n"));
        assert!(finished.cpu_s >= 0.01, "{finished:?}");
        assert!(finished.wall_s >= finished.cpu_s * 0.5 && finished.wall_s < 60.0, "{finished:?}");
        assert!(finished.peak_memory_bytes > 100_000, "{finished:?}");
    }

    #[test]
    fn the_time_limit_ends_children_too() {
        let command = shell("echo begun; setsid sleep 64 & sleep 65");
        let mut running = start(command).expect("sh starts");
        let begun = Instant::now();
        while descendants(running.id()).len() < 2 && begun.elapsed() < Duration::from_secs(5) {
            running.wait_up_to(Duration::from_millis(5));
        }
        let below = descendants(running.id());
        assert_eq!(below.len(), 2);
        let finished = running.finish(Duration::from_millis(100)).expect("it was started");
        assert!(finished.timed_out && finished.stdout_text() == "begun\n", "{finished:?}");
        assert!(begun.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(50));
        assert!(!below.iter().any(|&pid| crate::process::is_running(pid)));
    }

    #[test]
    fn a_daemon_left_behind_does_not_hold_the_caller_up() {
        let begun = Instant::now();
        let finished = run_with_timeout(shell("setsid sleep 3 & exit 0"), Duration::from_secs(30)).expect("sh starts");
        assert!(finished.success() && begun.elapsed() < Duration::from_secs(2));
    }
}

//! Reads a child's output up to its greeting, one byte at a time, so that later bytes stay in the pipe.

use std::io::{self, Read};
use std::process::ChildStdout;
use std::time::{Duration, Instant};

use haul_base::copy::hello::GreetingLine;
use haul_base::sys::cancel::Cancel;
use haul_base::sys::child::{CANCEL_POLL, ChildGuard, is_ready};
use rustix::event::PollFlags;

use crate::launch::failure::FailedChild;
use crate::launch::greeting_scanner::{GreetingScanner, ScannedLine};
use crate::launch::prompt::Prompter;
use crate::launch::start_wait::{StartWait, StartWaitState, drop_ssh_reports};

/// Interval of the login speed-up, as a fraction of the time so far.
const HURRIED_PART: u32 = 64;

/// Shortest interval of the login speed-up.
const HURRIED_EVERY_MIN: Duration = Duration::from_millis(2);

/// How long a child that closed its output may take to exit with a status.
const END_WAIT: Duration = Duration::from_secs(5);

/// Result of a read.
#[derive(Debug)]
pub(super) enum GreetResult {
    /// One of haul's lines.
    Line(ScannedLine),
    /// The output ended.
    Ended,
    /// More output than any banner.
    TooMuchNoise,
    /// The deadline passed.
    TimedOut,
    /// The wait after the login gets long; returned once.
    Slow,
    /// The login gets long, and asks nothing; returned once.
    SlowLogin,
    /// ssh has not logged in for long.
    NoLogin,
    /// ssh has logged in, and haul has not started in this time.
    NoStart(Duration),
    /// The caller cancelled.
    Cancelled,
}

/// A child's output before its greeting.
#[derive(Debug)]
pub(super) struct GreetingListener {
    stdout: ChildStdout,
    scanner: GreetingScanner,
    deadline: Option<Instant>,
    cancel: Cancel,
    /// The child to speed up until its first output, which ends the login.
    hurried: Option<LoginDeadline>,
    /// Limits of a start through another program, besides the deadline.
    wait: Option<StartWait>,
}

/// A child that is logging in.
#[derive(Debug)]
struct LoginDeadline {
    prompter: Prompter,
    since: Instant,
}

impl LoginDeadline {
    /// Returns the pause, longer for a slow path or a slow password prompt.
    fn pause(&self) -> Duration {
        (self.since.elapsed() / HURRIED_PART).clamp(HURRIED_EVERY_MIN, CANCEL_POLL)
    }
}

impl GreetingListener {
    /// Reads `stdout` until `cancel` is set. Without a deadline it reads as long as the output is open, since the user
    /// may be typing a password.
    pub(super) fn new(stdout: ChildStdout, deadline: Option<Instant>, cancel: Cancel) -> Self {
        Self { stdout, scanner: GreetingScanner::default(), deadline, cancel, hurried: None, wait: None }
    }

    /// Speeds up the login of `ssh`, the source of this output.
    pub(super) fn hurry(&mut self, ssh: &ChildGuard) {
        self.hurried = Prompter::of(ssh.id()).map(|prompter| LoginDeadline { prompter, since: Instant::now() });
    }

    /// Limits the time that `child`, the source of this output, says nothing.
    pub(super) fn limit(&mut self, wait: StartWait) {
        self.wait = Some(wait);
    }

    /// The next step has begun, and may take this much longer than usual.
    pub(super) fn begin_step(&mut self, longer: Duration) {
        if let Some(wait) = &mut self.wait {
            wait.begin_step(longer);
        }
    }

    /// Reads the next line of haul's.
    pub(super) fn next(&mut self) -> GreetResult {
        loop {
            if let Some(over) = self.wait() {
                return over;
            }
            self.hurried = None;
            let mut byte = [0];
            match self.stdout.read(&mut byte) {
                Ok(0) => return GreetResult::Ended,
                Ok(_) => match self.scanner.push(byte[0]) {
                    Ok(Some(line)) => {
                        self.begin_step(Duration::ZERO);
                        return GreetResult::Line(line);
                    }
                    Ok(None) => self.wait.iter_mut().for_each(StartWait::heard),
                    Err(_) => return GreetResult::TooMuchNoise,
                },
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // A read error counts as the end of the output.
                Err(_) => return GreetResult::Ended,
            }
        }
    }

    /// Reads up to the greeting, or returns the reason for its absence.
    pub(super) fn greeting(&mut self) -> Result<GreetingLine, GreetResult> {
        loop {
            match self.next() {
                GreetResult::Line(ScannedLine::Greeting(greeting)) => return Ok(greeting),
                GreetResult::Line(_) => {}
                other => return Err(other),
            }
        }
    }

    /// Returns the output, right after the last line.
    pub(super) fn into_stdout(self) -> ChildStdout {
        self.stdout
    }

    /// Returns output and status of a failed child. Waits for its exit, and ends it if necessary.
    pub(super) fn remains(&self, child: &mut ChildGuard) -> FailedChild {
        // If the wait fails, the status is reported as unknown.
        let deadline = Instant::now() + END_WAIT;
        let mut status = None;
        while status.is_none() && Instant::now() < deadline && !self.cancel.is_cancelled() {
            status = child.wait(CANCEL_POLL).ok().flatten();
        }
        child.end();
        let mut stderr = child.stderr_tail();
        drop_ssh_reports(&mut stderr);
        FailedChild { status, stderr, noise: self.scanner.noise() }
    }

    /// Waits for a byte or the end; otherwise returns the reason to stop.
    fn wait(&mut self) -> Option<GreetResult> {
        loop {
            if self.cancel.is_cancelled() {
                return Some(GreetResult::Cancelled);
            }
            let left = self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let pause = self.hurried.as_ref().map_or(CANCEL_POLL, LoginDeadline::pause);
            if is_ready(&self.stdout, PollFlags::IN, left.map_or(pause, |left| left.min(pause))) {
                return None;
            }
            if left.is_some_and(|left| left.is_zero()) {
                return Some(GreetResult::TimedOut);
            }
            match self.wait.as_mut().map(StartWait::check) {
                Some(StartWaitState::Slow) => return Some(GreetResult::Slow),
                Some(StartWaitState::SlowLogin) => return Some(GreetResult::SlowLogin),
                Some(StartWaitState::NoLogin) => return Some(GreetResult::NoLogin),
                Some(StartWaitState::NoStart(limit)) => return Some(GreetResult::NoStart(limit)),
                Some(StartWaitState::Waiting) | None => {}
            }
            self.hurried = self.hurried.take().filter(|hurried| hurried.prompter.prompt());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpListener;
    use std::process::Command;
    use std::thread;

    use haul_base::copy::hello::greeting_line;
    use haul_base::sys::child::spawn;

    use super::*;
    use crate::launch::prompt::tests::{connecting, is_prompt};

    #[test]
    fn the_login_deadline_ends_with_its_first_output() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let script = connecting(&server, &format!("read -t 20 <&3; printf '{}'; read -t 20", greeting_line()));
        let spawned = spawn(Command::new("bash").args(["-c", &script])).unwrap();
        let (mut accepted, _) = server.accept().unwrap();
        let deadline = Instant::now() + Duration::from_secs(10);
        let mut listener = GreetingListener::new(spawned.stdout, Some(deadline), Cancel::new());
        listener.hurry(&spawned.guard);
        let listening = thread::spawn(move || (listener.greeting().is_ok(), listener.hurried.is_some()));
        while is_prompt(spawned.guard.id()) != Some(true) {
            assert!(Instant::now() < deadline, "nobody hurries it");
        }
        accepted.write_all(b"you are in\n").unwrap();
        assert_eq!(listening.join().unwrap(), (true, false));
    }
}

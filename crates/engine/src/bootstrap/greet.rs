//! Listens to a child until it greets. Takes one byte at a time, so that what follows the greeting stays in the pipe.

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::process::ChildStdout;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::child::Guard;
use super::explain::Remains;
use super::scan::{Line, Scanner};

/// How long a child that closed its output may take to end, so that its status can be told.
const END_WAIT: Duration = Duration::from_secs(5);

/// What came of listening.
#[derive(Debug)]
pub(super) enum Heard {
    /// One of haul's lines.
    Line(Line),
    /// The output ended.
    Ended,
    /// More came than any banner prints.
    TooMuchNoise,
    /// The deadline passed.
    TimedOut,
}

/// A child's output before it greets.
#[derive(Debug)]
pub(super) struct Listener {
    stdout: ChildStdout,
    scanner: Scanner,
    deadline: Option<Instant>,
}

impl Listener {
    /// Listens to `stdout`; without a deadline, as long as it is open: someone may be looking for a password.
    pub(super) fn new(stdout: ChildStdout, deadline: Option<Instant>) -> Self {
        Self { stdout, scanner: Scanner::default(), deadline }
    }

    /// The next line of haul's.
    pub(super) fn next(&mut self) -> Heard {
        loop {
            if !self.readable() {
                return Heard::TimedOut;
            }
            let mut byte = [0];
            match self.stdout.read(&mut byte) {
                Ok(0) => return Heard::Ended,
                Ok(_) => match self.scanner.push(byte[0]) {
                    Ok(Some(line)) => return Heard::Line(line),
                    Ok(None) => {}
                    Err(_) => return Heard::TooMuchNoise,
                },
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // A pipe that cannot be read is as good as one that ended.
                Err(_) => return Heard::Ended,
            }
        }
    }

    /// The output, right after the last line.
    pub(super) fn into_stdout(self) -> ChildStdout {
        self.stdout
    }

    /// What can be told of a child that failed. Waits for its end, and brings it about if need be.
    pub(super) fn remains(&self, child: &mut Guard) -> Remains {
        // Were the wait to fail, the status would be unknown, which is what is told then.
        let status = child.wait(END_WAIT).ok().flatten();
        child.end();
        Remains { status, stderr: child.stderr_tail(), noise: self.scanner.noise() }
    }

    /// Waits for a byte or the end; false when the deadline passed.
    fn readable(&self) -> bool {
        let Some(deadline) = self.deadline else { return true };
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok(timeout) = Timespec::try_from(left) else { return true };
            match poll(&mut [PollFd::from_borrowed_fd(self.stdout.as_fd(), PollFlags::IN)], Some(&timeout)) {
                Ok(0) => return false,
                Err(rustix::io::Errno::INTR) => {}
                // Reading says what is wrong better than polling does.
                Ok(_) | Err(_) => return true,
            }
        }
    }
}

//! A program at an end of a copy: its output is the source, or its input is the target.
//!
//! It starts before the worker confines itself, through a keeper ([`keeper`]): an unconfined process of haul. The
//! keeper ends the program when the worker ends, for whatever reason. [`crate::policy`] may forbid programs.

pub mod keeper;

use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::{ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use haul_base::copy::End;
use haul_base::copy::own_executable::{BY_PROC, own_executable};
use haul_base::sys::child::{ChildGuard, spawn_with};
use haul_base::sys::sync::lock;

/// Interval at which a wait for a program checks the copy.
const CHECK_EVERY: Duration = Duration::from_millis(100);
/// Time for a program that stopped reading to exit with a reason.
const REASON_WAIT: Duration = Duration::from_secs(1);
/// Number of last lines reported of a failed program.
const LAST_LINES: usize = 3;

/// A pipe that a worker inherits as its end, and the program at its other side, if haul starts one.
pub struct InheritedPipe {
    /// The pipe, or any other open file.
    pub fd: OwnedFd,
    /// The program, which starts with the copy.
    pub program: Option<Arc<PipeProgram>>,
}

impl From<OwnedFd> for InheritedPipe {
    fn from(fd: OwnedFd) -> Self {
        Self { fd, program: None }
    }
}

/// A program that runs, until it ends or this is dropped.
pub struct PipeProgram(Mutex<Option<ProgramKeeper>>);

struct ProgramKeeper {
    /// The control pipe: a byte starts the program, and closing it ends the program. It is dropped before the guard,
    /// which waits for the keeper.
    lifeline: ChildStdin,
    guard: ChildGuard,
}

/// Why the program of an end failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ProgramError {
    /// It ended without success.
    #[error("{}", describe_exit(*.status, .stderr))]
    Exit {
        /// Its status, or that of its keeper.
        status: ExitStatus,
        /// The last lines of its standard error.
        stderr: Vec<String>,
    },
    /// It ended with success, and not all of its input was written.
    #[error("the program ended before it had read everything")]
    EarlyEnd,
    /// The copy ended before it.
    #[error("the copy was stopped")]
    Stop,
}

impl PipeProgram {
    /// Starts a line of shell, and returns the pipe of its data.
    pub fn start(end: End, command: &[u8]) -> io::Result<(Self, OwnedFd)> {
        let (program, data) = Self::prepare(end, command)?;
        program.start_prepared()?;
        Ok((program, data))
    }

    /// Prepares a program for [`Self::start_prepared`], for a worker that soon cannot start processes.
    pub fn prepare(end: End, command: &[u8]) -> io::Result<(Self, OwnedFd)> {
        let by_proc = Some(PathBuf::from(BY_PROC)).filter(|path| path.exists());
        let mut keeper = Command::new(by_proc.map_or_else(own_executable, Ok)?);
        keeper.arg("worker").arg(keeper::word(end)).arg(OsStr::from_bytes(command));
        let (guard, lifeline, data) = match end {
            End::Source => {
                let (guard, lifeline, stdout) = spawn_with(&mut keeper, Stdio::piped())?;
                let stdout = stdout.ok_or_else(|| io::Error::other("no pipe to the program"))?;
                (guard, lifeline, OwnedFd::from(stdout))
            }
            End::Target => {
                let (reading, writing) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
                let (guard, lifeline, _) = spawn_with(&mut keeper, reading.into())?;
                (guard, lifeline, writing)
            }
        };
        Ok((Self(Mutex::new(Some(ProgramKeeper { lifeline, guard }))), data))
    }

    /// Starts a prepared program.
    pub fn start_prepared(&self) -> io::Result<()> {
        lock(&self.0).as_mut().map_or(Ok(()), |kept| kept.lifeline.write_all(b"\n"))
    }

    /// Waits for its end during the copy.
    pub fn finish(&self, goes_on: impl Fn() -> bool) -> Result<(), ProgramError> {
        loop {
            match self.ended_within(CHECK_EVERY) {
                Some((status, _)) if status.success() => return Ok(()),
                Some((status, stderr)) => return Err(ProgramError::Exit { status, stderr }),
                None if goes_on() => {}
                None => return Err(ProgramError::Stop),
            }
        }
    }

    /// Why it stopped reading.
    pub fn why_it_ended(&self) -> Option<ProgramError> {
        let (status, stderr) = self.ended_within(REASON_WAIT)?;
        Some(if status.success() { ProgramError::EarlyEnd } else { ProgramError::Exit { status, stderr } })
    }

    /// Its error, if it has failed.
    pub fn has_failed(&self) -> Option<ProgramError> {
        let (status, stderr) = self.ended_within(Duration::ZERO)?;
        (!status.success()).then_some(ProgramError::Exit { status, stderr })
    }

    /// Ends it, if it still runs.
    pub fn end(&self) {
        let kept = lock(&self.0).take();
        drop(kept);
    }

    fn ended_within(&self, time: Duration) -> Option<(ExitStatus, Vec<String>)> {
        let mut kept = lock(&self.0);
        let kept = kept.as_mut()?;
        let status = kept.guard.wait(time).ok()??;
        Some((status, kept.guard.stderr_tail()))
    }
}

fn describe_exit(status: ExitStatus, stderr: &[String]) -> String {
    let ended = match status.code() {
        Some(code) => format!("the program ended with status {code}"),
        None => format!("the program's supervisor ended with {status}"),
    };
    let lines = stderr.iter().rev().take(LAST_LINES).rev().map(|line| format!("note: it said: {line}"));
    std::iter::once(ended).chain(lines).collect::<Vec<_>>().join("\n")
}

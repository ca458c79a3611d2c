//! `haul copies attach`, `log` and `cancel`.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::thread;
use std::time::{Duration, Instant};

use haul_job::this_host::host_name;
use haul_show as show;
use haul_show::exit::Exit;
use haul_show::terminal;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};

use super::record::{CopyRecord, RunReport, RunState};
use crate::args::UsageError;

/// Interval of looks at a copy.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Bytes of the log that are printed of what happened before.
const BEFORE: u64 = 2 << 10;
/// Longest wait for the end of a cancelled copy.
const END: Duration = Duration::from_secs(15);

/// Prints the log of a copy.
pub fn print_log(record: &CopyRecord) -> anyhow::Result<()> {
    if let Some(mut log) = record.log()? {
        io::copy(&mut log, &mut io::stdout().lock())?;
    }
    Ok(())
}

/// Follows a copy to its end, and returns its exit status. Ctrl-C ends only this command.
pub fn attach(record: &CopyRecord) -> anyhow::Result<Exit> {
    let mut follower = LogFollower { log: record.log()?, has_line: false };
    follower.skip_old()?;
    loop {
        let state = record.state();
        follower.print()?;
        match state {
            RunState::Running(report) => follower.show(record, &report),
            RunState::New => return Err(UsageError::new(format!("{} has not run yet", record.name)).into()),
            RunState::Ended(report) => return Ok(report.exit()),
            RunState::Lost(_) => {
                show::stderr().notice(&format!(
                    "{}: its process ended without a result\nhint: haul copies rerun {}",
                    record.name, record.name
                ));
                return Ok(Exit::Interrupted);
            }
        }
        thread::sleep(LOOK_EVERY);
    }
}

/// Prints the log as it grows, with the progress below it on a terminal.
struct LogFollower {
    log: Option<File>,
    has_line: bool,
}

impl LogFollower {
    fn skip_old(&mut self) -> io::Result<()> {
        let Some(log) = &mut self.log else { return Ok(()) };
        let length = log.seek(SeekFrom::End(0))?;
        log.seek(SeekFrom::Start(length.saturating_sub(BEFORE)))?;
        if length > BEFORE {
            let mut byte = [0];
            while log.read(&mut byte)? == 1 && byte != *b"\n" {}
        }
        Ok(())
    }

    fn print(&mut self) -> io::Result<()> {
        let mut text = Vec::new();
        if let Some(log) = &mut self.log {
            log.read_to_end(&mut text)?;
        }
        if text.is_empty() {
            return Ok(());
        }
        self.clear()?;
        io::stdout().write_all(&text)?;
        io::stdout().flush()
    }

    fn clear(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.has_line) {
            io::stderr().write_all(b"\r\x1b[K")?;
        }
        Ok(())
    }

    fn show(&mut self, record: &CopyRecord, report: &RunReport) {
        if terminal::stderr_is_terminal() {
            let columns = terminal::stderr_columns().saturating_sub(1);
            let line: String = format!("{}: {}", record.name, report.figures.shown()).chars().take(columns).collect();
            let _ = write!(io::stderr(), "\r\x1b[K{line}");
            self.has_line = true;
        }
    }
}

impl Drop for LogFollower {
    fn drop(&mut self) {
        let _ = self.clear();
    }
}

/// Stops a copy as Ctrl-C does, and waits for its end.
pub fn cancel(record: &CopyRecord) -> anyhow::Result<Exit> {
    let RunState::Running(report) = record.state() else {
        return Err(UsageError::new(format!("{} is not running", record.name)).into());
    };
    if report.host != host_name() {
        return Err(UsageError::new(format!("{} runs on {}", record.name, report.host))
            .remedy(format!("ssh {} haul copies cancel {}", report.host, record.name))
            .into());
    }
    if let Some(pid) = Pid::from_raw(report.pid) {
        let process = pidfd_open(pid, PidfdFlags::empty());
        // The lock was still held after the process was opened: so it is that process.
        if record.state().is_active() {
            terminate(pid, process)?;
        }
    }
    let since = Instant::now();
    while record.state().is_active() {
        if since.elapsed() > END {
            anyhow::bail!("{}: still running after {} s", record.name, END.as_secs());
        }
        thread::sleep(LOOK_EVERY);
    }
    show::stderr().notice(&format!("{} is cancelled\nhint: haul copies rerun {} resumes it", record.name, record.name));
    Ok(Exit::Done)
}

/// Terminates a process that was opened; on Linux before 5.3, which opens none, by its id.
fn terminate(pid: Pid, process: rustix::io::Result<OwnedFd>) -> rustix::io::Result<()> {
    match process {
        Ok(process) => pidfd_send_signal(process, Signal::TERM),
        // A filter of system calls may say so in place of the kernel.
        Err(Errno::NOSYS | Errno::PERM) => kill_process(pid, Signal::TERM),
        Err(Errno::SRCH) => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    use super::*;

    #[test]
    fn a_copy_is_terminated_on_any_kernel() {
        type Opened = fn(Pid) -> rustix::io::Result<OwnedFd>;
        let kernels: [Opened; 3] =
            [|pid| pidfd_open(pid, PidfdFlags::empty()), |_| Err(Errno::NOSYS), |_| Err(Errno::PERM)];
        for open in kernels {
            let mut child = Command::new("sleep").arg("60").spawn().unwrap();
            let pid = Pid::from_child(&child);
            terminate(pid, open(pid)).unwrap();
            assert_eq!(child.wait().unwrap().signal(), Some(Signal::TERM.as_raw()));
        }
        assert_eq!(terminate(Pid::INIT, Err(Errno::SRCH)), Ok(()), "it has ended");
    }
}

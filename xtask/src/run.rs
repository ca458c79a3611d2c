//! Runs a command under a time limit: what it prints is shown as it comes, and can be kept as well.
//!
//! Every command is the head of a process group of its own, so that at the limit, at Ctrl-C and at its end nothing that it started stays behind.

use std::io::{Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

/// How often a running command is looked at.
const POLL: Duration = Duration::from_millis(10);
/// How long a command's output may stay open after its end: a process that kept the pipe must not hold us up.
const MAX_DRAIN: Duration = Duration::from_secs(5);

/// What becomes of standard output; standard error is always shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// Shown as it comes, and kept.
    Shown,
    /// Kept only.
    Kept,
}

/// How a command ended.
#[derive(Debug)]
pub struct CommandEnd {
    /// What it printed on standard output.
    pub stdout: String,
    /// Why it failed, if it did, as one phrase.
    pub failure: Option<String>,
}

impl CommandEnd {
    /// Whether it ended by itself with status 0.
    pub fn succeeded(&self) -> bool {
        self.failure.is_none()
    }
}

/// Runs `command` without standard input for at most `limit`.
pub fn run(command: &mut Command, limit: Duration, output: Output) -> CommandEnd {
    let stop = interrupted();
    command.stdin(Stdio::null()).stdout(Stdio::piped()).process_group(0);
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            let program = command.get_program().to_string_lossy().into_owned();
            return CommandEnd {
                stdout: String::new(),
                failure: Some(format!("{program} could not be started: {error}")),
            };
        }
    };
    let reader = read_along(&mut child, output);
    let failure = await_end(&mut child, limit, &stop);
    end_group(&child);
    CommandEnd { stdout: collect(reader), failure }
}

/// Set at the first SIGINT or SIGTERM; a process-wide fact, so it is registered once.
fn interrupted() -> Arc<AtomicBool> {
    static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();
    let flag = FLAG.get_or_init(|| {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            if let Err(error) = signal_hook::flag::register(signal, flag.clone()) {
                eprintln!("cargo xtask: signal {signal} cannot be watched: {error}");
            }
        }
        flag
    });
    flag.clone()
}

/// Reads standard output to its end in a thread, showing it where that is wanted.
fn read_along(child: &mut Child, output: Output) -> Option<JoinHandle<Vec<u8>>> {
    let mut stdout = child.stdout.take()?;
    Some(thread::spawn(move || {
        let mut kept = Vec::new();
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(count @ 1..) = stdout.read(&mut buffer) {
            kept.extend_from_slice(&buffer[..count]);
            if output == Output::Shown {
                // A reader that went away is no reason to stop testing.
                let mut shown = std::io::stdout().lock();
                let _ = shown.write_all(&buffer[..count]).and_then(|()| shown.flush());
            }
        }
        kept
    }))
}

/// Waits for `child`; kills its group at the limit or when the user stops us. Returns why it failed.
fn await_end(child: &mut Child, limit: Duration, stop: &AtomicBool) -> Option<String> {
    let started = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return failure_of(status),
            Ok(None) => {}
            Err(error) => return Some(format!("it could not be waited for: {error}")),
        }
        let reason = if stop.load(Ordering::Relaxed) {
            "interrupted".to_owned()
        } else if started.elapsed() > limit {
            format!("stopped after {} s, its time limit", limit.as_secs())
        } else {
            thread::sleep(POLL);
            continue;
        };
        end_group(child);
        let _ = child.wait();
        return Some(reason);
    }
}

/// Whether the user has asked us to stop.
pub fn was_interrupted() -> bool {
    interrupted().load(Ordering::Relaxed)
}

/// A phrase for a status that is not success.
fn failure_of(status: ExitStatus) -> Option<String> {
    match (status.code(), status.signal()) {
        (Some(0), _) => None,
        (Some(code), _) => Some(format!("exit status {code}")),
        (None, Some(signal)) => Some(format!("killed by signal {signal}")),
        (None, None) => Some("ended for an unknown reason".to_owned()),
    }
}

/// Kills whatever is left of the group that `child` heads.
fn end_group(child: &Child) {
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        // No such group is the usual and wanted case: all of it has ended.
        let _ = kill_process_group(group, Signal::KILL);
    }
}

/// The kept output, once the reader is through or has had its time.
fn collect(reader: Option<JoinHandle<Vec<u8>>>) -> String {
    let Some(reader) = reader else {
        return String::new();
    };
    let deadline = Instant::now() + MAX_DRAIN;
    while !reader.is_finished() {
        if Instant::now() > deadline {
            return String::new();
        }
        thread::sleep(POLL);
    }
    String::from_utf8_lossy(&reader.join().unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn keeps_output_and_names_the_failure() {
        let ended = run(&mut shell("echo one; exit 3"), Duration::from_secs(10), Output::Kept);
        assert_eq!(ended.stdout, "one\n");
        assert_eq!(ended.failure.as_deref(), Some("exit status 3"));
        assert!(run(&mut shell("true"), Duration::from_secs(10), Output::Kept).succeeded());
        let ended = run(&mut Command::new("/nonexistent/tool"), Duration::from_secs(1), Output::Kept);
        assert!(ended.failure.is_some_and(|why| why.contains("/nonexistent/tool could not be started")));
    }

    #[test]
    fn the_limit_ends_the_whole_group() {
        let started = Instant::now();
        let ended = run(&mut shell("sleep 60 & echo $!; sleep 60"), Duration::from_millis(300), Output::Kept);
        assert!(started.elapsed() < Duration::from_secs(10));
        assert!(ended.failure.is_some_and(|why| why.contains("time limit")));
        let background = ended.stdout.trim();
        let state = || std::fs::read_to_string(format!("/proc/{background}/stat")).unwrap_or_default();
        let is_gone = || state().is_empty() || state().contains(") Z");
        // A signal that was sent takes its moment.
        while !is_gone() && started.elapsed() < Duration::from_secs(10) {
            thread::yield_now();
        }
        assert!(is_gone(), "still running: {}", state());
    }
}

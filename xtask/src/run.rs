//! Runs a command under a time limit. Its output appears at once, and can be kept as well.
//!
//! Every command leads its own process group. At the limit, at Ctrl-C and at its end, all its processes end with it.

use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use haul_lab::{Running, interrupt_flag, start_attended};

/// How often a running command is looked at.
const POLL: Duration = Duration::from_millis(50);
/// A command without output for so long gets a line, which shows that it runs.
const SIGN_OF_LIFE: Duration = Duration::from_secs(60);

/// Handling of standard output. Standard error always goes to the terminal.
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
    /// Captured standard output.
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
    let name = Path::new(command.get_program()).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let words = std::iter::once(name).chain(command.get_args().take(2).map(|word| word.to_string_lossy().into_owned()));
    let shown = words.collect::<Vec<_>>().join(" ");
    match start_attended(command).and_then(|running| attend(running, &shown, limit, output)) {
        Ok(ended) => ended,
        Err(error) => CommandEnd { stdout: String::new(), failure: Some(format!("{error:#}")) },
    }
}

/// Waits for the end; kills the group at the limit or when the user stops us.
fn attend(mut running: Running, shown: &str, limit: Duration, output: Output) -> anyhow::Result<CommandEnd> {
    let stop = interrupt_flag()?;
    let started = Instant::now();
    let (mut written, mut last_sign) = (0, started);
    let stopped = loop {
        let has_ended = running.wait_up_to(POLL);
        if output == Output::Shown {
            let fresh = running.stdout_from(written);
            written += fresh.len() as u64;
            if !fresh.is_empty() {
                last_sign = Instant::now();
            }
            // A reader that went away is no reason to stop testing.
            let mut stdout = std::io::stdout().lock();
            let _ = stdout.write_all(&fresh).and_then(|()| stdout.flush());
        }
        if last_sign.elapsed() > SIGN_OF_LIFE {
            println!("    {shown}: {} s", started.elapsed().as_secs());
            last_sign = Instant::now();
        }
        if has_ended {
            break None;
        } else if stop.load(Ordering::Relaxed) {
            break Some("interrupted".to_owned());
        } else if started.elapsed() > limit {
            break Some(format!("stopped after {} s, its time limit", limit.as_secs()));
        }
    };
    let finished = running.finish(Duration::ZERO)?;
    Ok(CommandEnd { stdout: finished.stdout_text(), failure: stopped.or_else(|| failure_of(finished.status)) })
}

/// Whether the user pressed Ctrl-C.
pub fn was_interrupted() -> bool {
    interrupt_flag().is_ok_and(|flag| flag.load(Ordering::Relaxed))
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
        assert!(ended.failure.is_some_and(|why| why.contains("could not start \"/nonexistent/tool\"")));
    }

    #[test]
    fn the_limit_ends_all_processes_of_the_group() {
        let started = Instant::now();
        let ended = run(&mut shell("sleep 60 & echo $!; sleep 60"), Duration::from_millis(300), Output::Kept);
        assert!(started.elapsed() < Duration::from_secs(10));
        assert!(ended.failure.is_some_and(|why| why.contains("time limit")));
        let background = ended.stdout.trim();
        let state = || std::fs::read_to_string(format!("/proc/{background}/stat")).unwrap_or_default();
        let is_gone = || state().is_empty() || state().contains(") Z");
        // A signal that was sent takes its moment.
        while !is_gone() && started.elapsed() < Duration::from_secs(10) {
            std::thread::yield_now();
        }
        assert!(is_gone(), "still running: {}", state());
    }
}

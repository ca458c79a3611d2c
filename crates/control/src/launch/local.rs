//! Starts a worker on this host, as a child process over pipes.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use haul_base::copy::End;
use haul_base::copy::error::Error;
use haul_base::copy::hello::{GreetingLine, PROTOCOL};
use haul_base::copy::own_executable::{BY_PROC, own_executable};
use haul_base::copy::spec::{CopyOptions, PipeEnd, WorkerProgram};
use haul_base::sys::cancel::Cancel;
use haul_base::sys::child::spawn;
use haul_base::sys::describe::{describe_start, is_limit};
use haul_base::sys::inherited_fds::hand_over;

use super::StartedWorker;
use crate::launch::failure::describe_status;
use crate::launch::greeting::{GreetResult, GreetingListener};

/// Display name of this host.
pub(super) const LABEL: &str = "this host";

/// Greeting timeout of a worker on this host.
const GREETING_WAIT: Duration = Duration::from_secs(30);

/// The caller's standard input and output, for a local worker that needs them.
#[derive(Debug, Clone, Default)]
pub struct InheritedStdio {
    input: Option<Arc<OwnedFd>>,
    output: Option<Arc<OwnedFd>>,
}

impl InheritedStdio {
    /// Selects the descriptors that a copy needs.
    pub fn of(options: &CopyOptions) -> Self {
        let standard = |piped: &Option<PipeEnd>| match piped {
            Some(PipeEnd::Standard(fd)) => Some(Arc::clone(fd)),
            Some(PipeEnd::Named | PipeEnd::Growing(_)) | None => None,
        };
        Self { input: standard(&options.pipes.source), output: standard(&options.pipes.target) }
    }

    /// Passes the descriptors to the worker, with arguments that name them.
    fn hand_over(&self, command: &mut Command) -> io::Result<()> {
        for (word, fd) in [("--input", &self.input), ("--output", &self.output)] {
            if let Some(fd) = fd {
                let number = hand_over(command, fd)?;
                command.arg(format!("{word}={number}"));
            }
        }
        Ok(())
    }
}

/// Starts `program` as a local worker in this process's group. Blocks until it has greeted, for at most 30 s, or until
/// `cancel` is set. On an error the process is gone.
pub fn start_local(
    program: &WorkerProgram,
    end: End,
    standard: &InheritedStdio,
    cancel: &Cancel,
) -> Result<StartedWorker, Error> {
    let mut command = Command::new(&program.executable);
    command.args(&program.worker_arguments);
    let spawned = standard.hand_over(&mut command).and_then(|()| spawn(&mut command)).map_err(|error| {
        if is_limit(&error) {
            return Error::Failed(format!("cannot start a worker on {LABEL}: {}", describe_start(&error)));
        }
        let path = program.executable.display();
        if program.executable == Path::new(BY_PROC) && error.kind() == io::ErrorKind::NotFound {
            let why = own_executable().map_or_else(|error| error.to_string(), |_| error.to_string());
            return Error::Connect(format!(
                "cannot start a worker on {LABEL}: {why}\nmount /proc, or start haul by its path"
            ));
        }
        Error::Connect(format!(
            "cannot start {path} as a worker on {LABEL}: {error}\ncheck that it exists and is executable"
        ))
    })?;
    let mut child = spawned.guard;
    let mut listener = GreetingListener::new(spawned.stdout, Some(Instant::now() + GREETING_WAIT), cancel.clone());
    let why = match listener.greeting() {
        Ok(greeting) if greeting.protocol == PROTOCOL => {
            return Ok(StartedWorker {
                peer: None,
                to_worker: spawned.stdin,
                from_worker: listener.into_stdout(),
                child,
                version: greeting.version,
                deployed: None,
                verified: None,
                host_label: LABEL.to_owned(),
            });
        }
        Ok(GreetingLine { version, protocol }) => {
            return Err(failed(
                end,
                program,
                &format!("haul {version} speaks protocol {protocol}, not {PROTOCOL}"),
                &[],
            ));
        }
        Err(why) => why,
    };
    match why {
        GreetResult::Cancelled => Err(Error::Interrupted),
        GreetResult::TimedOut => {
            let why = format!("no output for {} s", GREETING_WAIT.as_secs());
            child.end();
            Err(failed(end, program, &why, &child.stderr_tail()))
        }
        _ => {
            let remains = listener.remains(&mut child);
            let output: Vec<String> = remains.noise.into_iter().chain(remains.stderr).collect();
            Err(failed(end, program, &describe_status(remains.status), &output))
        }
    }
}

fn failed(end: End, program: &WorkerProgram, why: &str, output: &[String]) -> Error {
    let which = match end {
        End::Source => "source",
        End::Target => "target",
    };
    let mut lines = vec![format!("the {which}'s worker on {LABEL} did not start: {why}")];
    lines.extend(output.iter().rev().take(3).rev().map(|line| format!("note: it said: {line}")));
    lines.push(format!("check that {} is haul and was not replaced", program.executable.display()));
    Error::Connect(lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::path::PathBuf;

    use haul_base::copy::hello::VERSION;

    use super::*;

    /// Returns a "program" that is a shell with the given script.
    fn program(script: &str) -> WorkerProgram {
        let worker_arguments = ["10", "sh", "-c", script].iter().map(Into::into).collect();
        WorkerProgram { executable: PathBuf::from("/usr/bin/timeout"), worker_arguments, ..WorkerProgram::default() }
    }

    #[test]
    fn a_greeting_worker_is_connected() {
        let script = format!("echo noise; printf '\\nHAUL-WORKER 1 {VERSION}\\n\\n\\000binary'; cat");
        let mut started =
            start_local(&program(&script), End::Source, &InheritedStdio::default(), &Cancel::new()).unwrap();
        started.to_worker.write_all(b"echoed").unwrap();
        drop(started.to_worker);
        let mut all = Vec::new();
        started.from_worker.read_to_end(&mut all).unwrap();
        assert_eq!(all, b"\n\0binaryechoed");
        assert_eq!((started.version.as_str(), started.host_label.as_str()), (VERSION, "this host"));
        assert!(started.child.wait(Duration::from_secs(5)).unwrap().is_some_and(|status| status.success()));
    }

    #[test]
    fn a_failed_worker_gives_its_reason() {
        if haul_lab::is_emulated_without("error of a failed exec") {
            return;
        }
        let error = start_local(
            &program("echo 'no such option' >&2; exit 7"),
            End::Target,
            &InheritedStdio::default(),
            &Cancel::new(),
        )
        .unwrap_err()
        .to_string();
        assert!(error.starts_with("the target's worker on this host did not start: ended with status 7\n"), "{error}");
        assert!(error.contains("it said: no such option\n"), "{error}");
        let error = start_local(
            &program("printf '\\nHAUL-WORKER 9 5.0\\n'; cat"),
            End::Target,
            &InheritedStdio::default(),
            &Cancel::new(),
        )
        .unwrap_err()
        .to_string();
        assert!(error.contains("haul 5.0 speaks protocol 9, not 1"), "{error}");
        let missing = WorkerProgram {
            executable: "/nonexistent/haul".into(),
            worker_arguments: Vec::new(),
            ..WorkerProgram::default()
        };
        let error =
            start_local(&missing, End::Source, &InheritedStdio::default(), &Cancel::new()).unwrap_err().to_string();
        assert!(error.starts_with("cannot start /nonexistent/haul as a worker"), "{error}");
    }

    #[test]
    fn a_silent_worker_is_ended_when_the_copy_is_cancelled() {
        let cancel = Cancel::new();
        let stop = cancel.clone();
        let stopping = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(100));
            stop.cancel();
        });
        let begun = Instant::now();
        let error = start_local(&program("cat"), End::Source, &InheritedStdio::default(), &cancel).unwrap_err();
        assert!(matches!(error, Error::Interrupted) && begun.elapsed() < Duration::from_secs(5), "{error}");
        stopping.join().unwrap();
    }
}

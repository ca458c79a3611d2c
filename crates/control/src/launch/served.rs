//! Starts a worker behind `haul serve`, through a process of haul's own instead of ssh (`haul_serve::dial`). The
//! secret or the key goes first over its standard input.

use std::io::Write;
use std::process::Command;
use std::time::{Duration, Instant};

use haul_base::copy::End;
use haul_base::copy::error::Error;
use haul_base::copy::hello::PROTOCOL;
use haul_base::copy::location::Host;
use haul_base::copy::spec::WorkerProgram;
use haul_base::sys::cancel::Cancel;
use haul_base::sys::child::spawn;
use haul_base::sys::describe::describe_start;
use haul_proto::path::escape;

use super::StartedWorker;
use crate::launch::greeting::{GreetResult, GreetingListener};
use crate::launch::prompt::Prompter;

/// Time limit from the connection to the worker's greeting.
const GREETING_WAIT: Duration = Duration::from_secs(45);

/// Starts a worker on a served `host`. Blocks until it has greeted, for at most 45 s, or until `cancel` is set. On an
/// error no process remains.
pub fn start_served(host: &Host, end: End, program: &WorkerProgram, cancel: &Cancel) -> Result<StartedWorker, Error> {
    let Host::Served { name, port, directory, pass } = host else {
        return Err(Error::Usage(format!("the {} is not a haul serve", end_word(end))));
    };
    let Some(proof) = pass.line() else {
        return Err(Error::Usage(format!(
            "the secret of the {} is missing\ngive it with --secret-file",
            end_word(end)
        )));
    };
    let label = label(name, *port, directory);
    let mut command = Command::new(&program.executable);
    command.args(&program.worker_arguments).args(["--dial", name, &port.to_string(), directory]);
    let mut spawned = spawn(&mut command)
        .map_err(|error| Error::Failed(format!("{label}: cannot start a process: {}", describe_start(&error))))?;
    // An exited process reports its own error.
    let _ = spawned.stdin.write_all(format!("{}\n", proof).as_bytes());
    let mut child = spawned.guard;
    let mut listener = GreetingListener::new(spawned.stdout, Some(Instant::now() + GREETING_WAIT), cancel.clone());
    match listener.greeting() {
        Ok(greeting) if greeting.protocol == PROTOCOL => Ok(StartedWorker {
            peer: Prompter::of(child.id()).and_then(|dial| dial.peer()),
            to_worker: spawned.stdin,
            from_worker: listener.into_stdout(),
            child,
            version: greeting.version,
            deployed: None,
            verified: None,
            host_label: label,
        }),
        Ok(greeting) => Err(Error::Connect(format!(
            "{label}: haul {} there speaks protocol {}, this one {PROTOCOL}\nuse the same version at both ends",
            greeting.version, greeting.protocol
        ))),
        Err(GreetResult::Cancelled) => Err(Error::Interrupted),
        Err(GreetResult::TimedOut) => {
            child.end();
            Err(Error::Connect(format!("{label}: no answer for {} s", GREETING_WAIT.as_secs())))
        }
        Err(_) => {
            let remains = listener.remains(&mut child);
            let text = |line: &String| line.trim_start().trim_start_matches("hint: ").to_owned();
            let output = remains.stderr.iter().map(text).collect::<Vec<_>>().join("\n");
            let output = output.strip_prefix("haul: ").unwrap_or(&output);
            Err(Error::Connect(format!("{label}: {}", if output.is_empty() { "lost the connection" } else { output })))
        }
    }
}

/// Returns the display name of a served host.
pub fn label(name: &str, port: u16, directory: &str) -> String {
    let name = if name.contains(':') { format!("[{name}]") } else { name.to_owned() };
    escape(format!("haul://{name}:{port}/{directory}").as_bytes())
}

fn end_word(end: End) -> &'static str {
    match end {
        End::Source => "source",
        End::Target => "target",
    }
}

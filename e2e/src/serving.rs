//! A server of haul's own (`haul serve`), on this machine.

use std::net::TcpListener;

use rustix::process::Signal;

use crate::schema::assert_valid;
use crate::{Haul, ProgramRun, Running, Sandbox, eventually};

/// A server of the directory `shared`.
pub struct ServedShare {
    /// The process.
    pub running: Running,
    /// The printed address.
    pub line: String,
}

impl ServedShare {
    /// One that listens on this machine alone.
    pub fn start(sandbox: &Sandbox, options: &[&str]) -> Self {
        sandbox.dir("shared");
        Self::of(sandbox.haul(["serve", "--bind", "127.0.0.1", "--json"]).args(options).arg("shared"))
    }

    /// One of the directories that a file names, on any port.
    pub fn standing(sandbox: &Sandbox, file: &str) -> Self {
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port");
        let (port, options) = (free.port().to_string(), ["serve", "--bind", "127.0.0.1", "--json", "--port"]);
        Self::of(sandbox.haul(options).args([&port, "--config", file]))
    }

    /// The server started by this command.
    pub fn of(haul: Haul<'_>) -> Self {
        let running = haul.start();
        eventually("it listens", || running.stdout_so_far().ends_with('\n'));
        let line = running.stdout_so_far().trim_end().to_owned();
        Self { running, line }
    }

    /// The argument for `path` on the server.
    pub fn at(&self, path: &str) -> String {
        format!("{}:{path}", self.line)
    }

    /// Where it listens.
    pub fn address(&self) -> String {
        let after = self.line.strip_prefix("haul://").expect("a line");
        after.split('/').next().expect("a host").to_owned()
    }

    /// Its log entries of this kind.
    pub fn log(&self, event: &str) -> Vec<serde_json::Value> {
        let log = self.running.stderr_so_far();
        let events = log.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        let events = events.inspect(assert_valid);
        events.filter(|line| line["event"] == event).collect()
    }

    /// How much of that there is.
    pub fn logged(&self, event: &str) -> usize {
        self.log(event).len()
    }

    /// Asks it to end.
    pub fn end(self) -> ProgramRun {
        self.running.signal(Signal::TERM);
        ProgramRun::of(self.running)
    }
}

//! A server, or a receiver of one connection, that runs beside the measured client.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use haul_lab::{Cgroup, Finished, Running, descendants, end_tree, start_measured, tree_cpu, tree_memory_bytes};

const START_TIMEOUT: Duration = Duration::from_secs(10);

/// A program that listens. Ended with all its sessions in `Drop`.
#[derive(Debug)]
pub struct Daemon {
    running: Running,
    account: Option<Cgroup>,
}

impl Daemon {
    /// Starts `command` and waits until something in its network namespace listens on `port`.
    pub fn start(command: &Command, port: u16) -> Result<Self> {
        let account = Cgroup::create();
        let enclosed = account.as_ref().map(|account| account.enclose(command));
        let program = command.get_program().to_owned();
        let running = start_measured(enclosed.unwrap_or_else(|| plain_copy(command)))?;
        let mut daemon = Self { running, account };
        daemon.await_listening(port).with_context(|| format!("starting {program:?}"))?;
        Ok(daemon)
    }

    /// User plus system CPU seconds since its start, with all that it started.
    pub fn cpu_s(&self) -> f64 {
        self.account.as_ref().map_or_else(|| tree_cpu(self.running.id()), Cgroup::cpu_s)
    }

    /// Resident bytes now, with all that it started.
    pub fn memory_bytes(&self) -> u64 {
        self.account.as_ref().map_or_else(|| tree_memory_bytes(self.running.id()), Cgroup::memory_bytes)
    }

    /// Whether it serves no client: it has no child process.
    pub fn is_idle(&self) -> bool {
        descendants(self.running.id()).is_empty()
    }

    /// Ends its sessions, but not the daemon itself.
    pub fn end_sessions(&self) {
        for pid in descendants(self.running.id()) {
            end_tree(pid, Duration::ZERO);
        }
    }

    /// Whether it ended within this time.
    pub fn ends_within(&mut self, time: Duration) -> bool {
        self.running.wait_up_to(time)
    }

    /// For a receiver that has ended, or is to be ended now.
    pub fn finish(self) -> Result<Finished> {
        self.running.finish(Duration::ZERO)
    }

    fn await_listening(&mut self, port: u16) -> Result<()> {
        let deadline = Instant::now() + START_TIMEOUT;
        while Instant::now() < deadline {
            if self.listens(port) {
                return Ok(());
            }
            if self.running.wait_up_to(Duration::from_millis(2)) {
                bail!("it ended at once: {}{}", self.running.stdout_so_far(), self.running.stderr_so_far());
            }
        }
        bail!("it did not listen on port {port} within {START_TIMEOUT:?}: {}", self.running.stderr_so_far())
    }

    /// Looks into the kernel's table: a connection made to find out would be taken for the client's.
    fn listens(&self, port: u16) -> bool {
        const LISTEN: &str = "0A";
        let table = fs::read_to_string(format!("/proc/{}/net/tcp", self.running.id())).unwrap_or_default();
        let suffix = format!(":{port:04X}");
        table.lines().any(|line| {
            let mut fields = line.split_whitespace().skip(1);
            fields.next().is_some_and(|local| local.ends_with(&suffix)) && fields.nth(1) == Some(LISTEN)
        })
    }
}

/// A port on 127.0.0.1 that is free now.
pub fn free_port() -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free port on 127.0.0.1")?;
    Ok(listener.local_addr()?.port())
}

/// `Command` cannot be cloned; the recipes use no environment and no directory of their own.
pub fn plain_copy(command: &Command) -> Command {
    let mut copy = Command::new(command.get_program());
    copy.args(command.get_args());
    copy
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_without_a_listener_is_reported() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo no such option >&2; exit 4"]);
        let error = Daemon::start(&command, 1).expect_err("it ends");
        assert!(format!("{error:#}").contains("no such option"), "{error:#}");
    }

    #[test]
    fn a_server_is_awaited_counted_and_ended() {
        let port = free_port().expect("a port");
        let mut command = Command::new("nc");
        command.args(["-l", "127.0.0.1", &port.to_string()]);
        let mut daemon = Daemon::start(&command, port).expect("nc is installed");
        assert!(daemon.memory_bytes() > 0 && daemon.is_idle() && !daemon.ends_within(Duration::ZERO));
        assert!(daemon.cpu_s() < 1.0);
        drop(daemon);
        free_port().expect("a port");
        assert!(TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok(), "it still listens");
    }
}

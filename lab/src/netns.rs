//! Network namespaces: hosts with their own addresses, links and packet filters, on this machine.
//!
//! Needs root and iproute2. Programs enter a namespace through `nsenter`: `ip netns exec` would also give them a mount
//! namespace.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Write;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::process::signal;
use crate::run::{output_of, rebuild};

const PREFIX: &str = "haul-";
const DIRECTORY: &str = "/run/netns";

/// A network namespace that exists as long as this value. Its loopback is up.
///
/// Whatever still runs in it is killed in `Drop`.
#[derive(Debug)]
pub struct Netns {
    name: String,
    next_interface: AtomicU32,
}

impl Netns {
    /// Makes a namespace, after removing those of test processes that are gone.
    pub fn create() -> Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        ensure!(Self::available(), "network namespaces need root");
        remove_leftovers();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}{}-{number}", std::process::id());
        ip(&["netns", "add", &name])?;
        let netns = Self { name, next_interface: AtomicU32::new(0) };
        netns.run("ip", ["link", "set", "lo", "up"])?;
        Ok(netns)
    }

    /// Whether this user can make namespaces at all, for tests that would rather be skipped (loudly).
    pub fn available() -> bool {
        rustix::process::geteuid().is_root()
    }

    /// Its name, as `ip netns list` shows it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its file, for `setns` and the like.
    pub fn path(&self) -> PathBuf {
        Path::new(DIRECTORY).join(&self.name)
    }

    /// A command that runs `program` in here.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = self.nsenter();
        command.arg(program);
        command
    }

    /// The same command, but in here.
    pub fn enclose(&self, command: &Command) -> Command {
        rebuild(command, self.nsenter())
    }

    /// Runs a program in this namespace to its end. Gives its output, or an error with its standard error.
    pub fn run<Word: AsRef<OsStr>>(&self, program: &str, args: impl IntoIterator<Item = Word>) -> Result<String> {
        let mut command = self.command(program);
        output_of(command.args(args))
    }

    /// Links this namespace to another by a cable (a veth pair). Addresses are in CIDR form, `10.9.0.1/24` or
    /// `fd09::1/64`. Gives the names of this end's and the other end's interfaces.
    pub fn connect(&self, other: &Self, address_here: &str, address_there: &str) -> Result<(String, String)> {
        let (here, there) = (self.interface_name(), other.interface_name());
        let ends = ["link", "add", &here, "netns", &self.name, "type", "veth", "peer", "name", &there];
        ip(&[&ends[..], &["netns", &other.name]].concat())?;
        self.bring_up(&here, address_here)?;
        other.bring_up(&there, address_there)?;
        Ok((here, there))
    }

    /// Gives an interface one more address.
    pub fn add_address(&self, interface: &str, address: &str) -> Result<()> {
        let mut args = vec!["address", "add", address, "dev", interface];
        if address.contains(':') {
            // Duplicate address detection would keep a fresh IPv6 address unusable for a second.
            args.push("nodad");
        }
        self.run("ip", args).map(|_| ())
    }

    /// Lets an interface send no more than this.
    pub fn slow_down(&self, interface: &str, megabit_per_s: u32) -> Result<()> {
        let rate = format!("{megabit_per_s}mbit");
        let shape =
            ["qdisc", "add", "dev", interface, "root", "tbf", "rate", &rate, "burst", "128k", "latency", "50ms"];
        self.run("tc", shape).map(|_| ())
    }

    /// Runs `work` in a thread of its own in here. The sockets that it makes, and the threads that it starts, stay in here.
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T> {
        let inside = self.inside()?;
        // Only a thread of its own may go elsewhere: this one's later sockets shall stay where they are.
        let done = std::thread::scope(|scope| scope.spawn(|| inside.enter().map(|()| work())).join());
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// For a thread that shall go in here and stay.
    pub fn inside(&self) -> Result<Inside> {
        File::open(self.path()).map(Inside).with_context(|| format!("opening {:?}", self.path()))
    }

    /// Loads packet filter rules, in the language of `nft -f`.
    pub fn nft(&self, rules: &str) -> Result<()> {
        let mut command = self.command("nft");
        command.args(["-f", "-"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().context("could not start nsenter")?;
        child.stdin.take().context("standard input was piped")?.write_all(rules.as_bytes())?;
        let output = child.wait_with_output()?;
        let complaint = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "nft: {complaint} (nft missing? apt-get install nftables)");
        Ok(())
    }

    fn nsenter(&self) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={DIRECTORY}/{}", self.name)).arg("--");
        command
    }

    fn bring_up(&self, interface: &str, address: &str) -> Result<()> {
        self.add_address(interface, address)?;
        self.run("ip", ["link", "set", interface, "up"]).map(|_| ())
    }

    fn interface_name(&self) -> String {
        format!("veth{}", self.next_interface.fetch_add(1, Ordering::Relaxed))
    }
}

/// The way into a namespace, also for a thread that outlives its [`Netns`].
#[derive(Debug)]
pub struct Inside(File);

impl Inside {
    /// Moves the calling thread there, for good.
    pub fn enter(&self) -> Result<()> {
        move_into_link_name_space(self.0.as_fd(), Some(LinkNameSpaceType::Network))
            .context("entering a network namespace")
    }
}

impl Drop for Netns {
    fn drop(&mut self) {
        delete(&self.name);
    }
}

fn delete(name: &str) {
    let pids = ip(&["netns", "pids", name]).unwrap_or_default();
    for pid in pids.split_whitespace().filter_map(|pid| pid.parse().ok()) {
        signal(pid, Signal::KILL);
    }
    let _ = ip(&["netns", "delete", name]);
}

/// Deletes the namespaces of processes that were killed before they could.
fn remove_leftovers() {
    let Ok(entries) = fs::read_dir(DIRECTORY) else { return };
    for name in entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()) {
        let owner = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
        if owner.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            delete(&name);
        }
    }
}

fn ip(args: &[&str]) -> Result<String> {
    output_of(Command::new("ip").args(args))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn two_hosts_reach_each_other_until_a_filter_forbids_it() {
        if !Netns::available() {
            eprintln!("SKIPPED: network namespaces need root");
            return;
        }
        let (a, b) = (Netns::create().expect("a"), Netns::create().expect("b"));
        a.connect(&b, "10.99.0.1/24", "10.99.0.2/24").expect("IPv4 cable");
        a.connect(&b, "fd99::1/64", "fd99::2/64").expect("IPv6 cable");
        assert!(reaches(&a, &b, "10.99.0.2"));
        assert!(reaches(&a, &b, "fd99::2"));
        let rules =
            "table inet t { chain c { type filter hook input priority 0; meta l4proto tcp reject with tcp reset; }; }";
        b.nft(rules).expect("rules are right");
        assert!(!reaches(&a, &b, "10.99.0.2"));
        assert!(b.nft("nonsense").is_err());
        let name = a.name().to_owned();
        drop(a);
        assert!(!Path::new(DIRECTORY).join(name).exists());
    }

    /// Whether a TCP connection from `a` to `address` in `b` carries a word.
    fn reaches(a: &Netns, b: &Netns, address: &str) -> bool {
        let mut listen = b.command("nc");
        listen.args(["-l", "-s", address, "-p", "7000"]).stdin(Stdio::null());
        let listener = crate::start(listen).expect("nc is installed");
        let probe = format!(
            "for i in 1 2 3 4 5 6 7 8 9 10; do echo hello | nc -N -w 1 {address} 7000 && exit 0; sleep 0.05; done; exit 1"
        );
        let mut connect = a.command("sh");
        connect.args(["-c", &probe]);
        let connected = crate::run_with_timeout(connect, Duration::from_secs(15)).expect("sh starts");
        let received = listener.finish(Duration::from_secs(if connected.success() { 5 } else { 0 }));
        connected.success() && received.expect("nc was started").stdout == b"hello\n"
    }
}

//! Runs one recipe once, and counts its resources at each end.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use haul_lab::{Cgroup, Finished, Sshd, compare, start_measured};

use crate::daemon::Daemon;
use crate::kind::WorkloadPlace;
use crate::machine::busy_s;
use crate::recipes::{Recipe, Server, landing};
use crate::site::BenchSite;
use crate::tools::BenchTool;
use crate::workload::Workload;

/// Interval between samples of memory.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(200);

/// Time limit for a server to end a session without its client.
const QUIET_TIMEOUT: Duration = Duration::from_secs(5);

/// How much of a tool's complaint is kept.
const COMPLAINT_CHARS_MAX: usize = 300;

/// One copy by one tool.
#[derive(Debug, Clone, Default)]
pub struct ToolRun {
    /// The round, from 1.
    pub round: u32,
    /// Seconds from the client's start to the end of the copy.
    pub wall_s: f64,
    /// User plus system seconds of the client and all that it started.
    pub client_cpu_s: f64,
    /// The same of the serving end.
    pub server_cpu_s: f64,
    /// CPU seconds of the rest of the machine during the run: its disturbance.
    pub others_cpu_s: f64,
    /// Most resident memory of the client and all that it started.
    pub client_peak_bytes: u64,
    /// The same of the serving end.
    pub server_peak_bytes: u64,
    /// Why it does not count; none when the copy is right.
    pub failure: Option<String>,
    /// Whether it failed by taking too long.
    pub timed_out: bool,
}

impl ToolRun {
    /// Of both ends.
    pub fn cpu_s(&self) -> f64 {
        self.client_cpu_s + self.server_cpu_s
    }
}

/// Runs `tool` once and compares its copy. An error here is the benchmark's own; a tool's is in the run.
pub fn measure(
    site: &BenchSite,
    tool: &BenchTool,
    workload: &Workload,
    round: u32,
    timeout: Duration,
) -> Result<ToolRun> {
    let recipe = tool.recipe(site, workload)?;
    let on_disk = workload.kind.place() == WorkloadPlace::Disk;
    if on_disk && tool.copies() {
        forget_pages(&workload.source)?;
    }
    let sync = || if on_disk && tool.copies() { site.sync_target(workload) } else { Ok(()) };
    let mut run = copy(site, recipe, timeout, sync)?;
    run.round = round;
    if run.failure.is_none() && tool.copies() {
        run.failure = check(site, workload).err();
    }
    ensure_null_device()?;
    Ok(run)
}

/// Takes a file out of the page cache. Its pages are clean: its file system was synced since it was made (`rounds`). The whole cache is not dropped,
/// since the tools' own programs are in it.
fn forget_pages(path: &Path) -> Result<()> {
    let file = fs::File::open(path).with_context(|| format!("opening {path:?}"))?;
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).with_context(|| format!("dropping {path:?}"))
}

/// `sync` is part of the time. Its CPU time counts for no tool, like that of the kernel's own threads.
fn copy(site: &BenchSite, recipe: Recipe, timeout: Duration, sync: impl Fn() -> Result<()>) -> Result<ToolRun> {
    let mut other = OtherEnd::start(site, recipe.server)?;
    let account = Cgroup::create();
    let client = site.place(&recipe.client);
    let client =
        account.as_ref().map_or_else(|| crate::daemon::plain_copy(&client), |account| account.enclose(&client));
    let (cpu_before_s, busy_before_s) = (other.cpu_s(), busy_s());
    let begun = Instant::now();
    let mut running = start_measured(client)?;
    let (mut ended, mut server_peak_bytes) = (false, 0);
    while !ended && begun.elapsed() <= timeout {
        ended = running.wait_up_to(SAMPLE_INTERVAL) && other.receiver_ends_within(SAMPLE_INTERVAL);
        server_peak_bytes = server_peak_bytes.max(other.memory_bytes());
        site.check_interrupt()?;
    }
    if ended {
        sync()?;
    }
    let wall_s = begun.elapsed().as_secs_f64();
    let client = running.finish(Duration::ZERO)?;
    other.quiet_down(ended);
    let busy_s = busy_s() - busy_before_s;
    let server_cpu_s = other.cpu_s() - cpu_before_s;
    let client_cpu_s = account.as_ref().map_or(client.cpu_s, Cgroup::cpu_s);
    let receiver = other.finish()?;
    Ok(ToolRun {
        round: 0,
        wall_s,
        client_cpu_s,
        server_cpu_s,
        others_cpu_s: (busy_s - client_cpu_s - server_cpu_s).max(0.0),
        client_peak_bytes: client.peak_memory_bytes,
        server_peak_bytes: server_peak_bytes.max(receiver.as_ref().map_or(0, |receiver| receiver.peak_memory_bytes)),
        failure: failure(ended, timeout, &client, receiver.as_ref()),
        timed_out: !ended,
    })
}

fn failure(ended: bool, timeout: Duration, client: &Finished, receiver: Option<&Finished>) -> Option<String> {
    if !ended {
        return Some(format!("took more than {} s", timeout.as_secs()));
    }
    let failed = [Some(client), receiver].into_iter().flatten().find(|finished| !finished.success())?;
    let said = format!("{}\n{}", failed.stderr_text().trim(), failed.stdout_text().trim());
    let skipped = said.chars().count().saturating_sub(COMPLAINT_CHARS_MAX);
    let end: String = said.trim().chars().skip(skipped).collect();
    Some(format!("{}: {}", failed.status, end))
}

/// Whether the copy equals its source.
fn check(site: &BenchSite, workload: &Workload) -> Result<(), String> {
    match workload.kind.place() {
        WorkloadPlace::Null => Ok(()),
        _ => compare(&workload.source, &landing(site, workload)),
    }
}

/// A tool that renames its result over `/dev/null` would break the machine; better to know at once.
fn ensure_null_device() -> Result<()> {
    const ADVICE: &str = "/dev/null is no longer the null device: rm -f /dev/null; mknod -m 666 /dev/null c 1 3";
    let metadata = fs::symlink_metadata("/dev/null").context(ADVICE)?;
    let right = metadata.file_type().is_char_device() && metadata.mode() & 0o777 == 0o666;
    ensure!(right, "{ADVICE}");
    Ok(())
}

/// The serving end of one copy.
struct OtherEnd<'a> {
    site: &'a BenchSite,
    server: ServedSource<'a>,
}

enum ServedSource<'a> {
    None,
    Sshd(&'a Sshd),
    Rsyncd,
    Gridftp,
    Receiver(Daemon),
}

impl<'a> OtherEnd<'a> {
    fn start(site: &'a BenchSite, server: Server) -> Result<Self> {
        let server = match server {
            Server::None => ServedSource::None,
            Server::Sshd(host) => ServedSource::Sshd(site.sshd_of(host)),
            Server::Rsyncd => ServedSource::Rsyncd,
            Server::Gridftp => ServedSource::Gridftp,
            Server::Receiver(command, port) => ServedSource::Receiver(Daemon::start(&site.place(&command), port)?),
        };
        Ok(Self { site, server })
    }

    fn daemon(&self) -> Option<&Daemon> {
        match &self.server {
            ServedSource::Rsyncd => self.site.rsyncd().map(|(daemon, _)| daemon),
            ServedSource::Gridftp => self.site.gridftp().map(|(daemon, _)| daemon),
            ServedSource::Receiver(receiver) => Some(receiver),
            ServedSource::None | ServedSource::Sshd(_) => None,
        }
    }

    fn cpu_s(&self) -> f64 {
        match self.server {
            ServedSource::Sshd(sshd) => sshd.cpu_s(),
            _ => self.daemon().map_or(0.0, Daemon::cpu_s),
        }
    }

    fn memory_bytes(&self) -> u64 {
        match self.server {
            ServedSource::Sshd(sshd) => sshd.session_memory_bytes(),
            _ => self.daemon().map_or(0, Daemon::memory_bytes),
        }
    }

    /// True at once where no receiver belongs to the copy.
    fn receiver_ends_within(&mut self, time: Duration) -> bool {
        match &mut self.server {
            ServedSource::Receiver(receiver) => receiver.ends_within(time),
            _ => true,
        }
    }

    /// Waits until all that the copy used has been accounted for; ends it if the client did not end well.
    fn quiet_down(&self, ended: bool) {
        let deadline = Instant::now() + if ended { QUIET_TIMEOUT } else { Duration::from_millis(200) };
        while !self.is_quiet() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(2));
        }
        match &self.server {
            ServedSource::Sshd(sshd) => sshd.end_sessions(),
            ServedSource::Rsyncd | ServedSource::Gridftp => {
                if let Some(daemon) = self.daemon() {
                    daemon.end_sessions();
                }
            }
            ServedSource::None | ServedSource::Receiver(_) => {}
        }
    }

    fn is_quiet(&self) -> bool {
        match self.server {
            ServedSource::Sshd(sshd) => sshd.session_pids().is_empty(),
            ServedSource::Rsyncd | ServedSource::Gridftp => self.daemon().is_none_or(Daemon::is_idle),
            ServedSource::None | ServedSource::Receiver(_) => true,
        }
    }

    fn finish(self) -> Result<Option<Finished>> {
        match self.server {
            ServedSource::Receiver(receiver) => receiver.finish().map(Some),
            _ => Ok(None),
        }
    }
}

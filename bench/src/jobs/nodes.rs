//! One and four nodes, each in a network namespace, with a link of its own to a server of its own. All servers write to
//! one directory, as transfer hosts before one file system do. Nodes take shards as a scheduler hands them out.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use haul_lab::{TestTree, Wan, WanSettings, compare};
use tempfile::TempDir;

use super::{JobFigure, timed};
use crate::daemon::Daemon;
use crate::settings::BenchSettings;
use crate::statistics::median;

const SEED: u64 = 0x6a_6f62;
const SHARDS: u32 = 96;
const SHARD_BYTES: u64 = 25_000_000;
const NODES: usize = 4;
const RATE_BITS_PER_S: u64 = 200_000_000;
const SLOWDOWN: u64 = 4;
const RTT: Duration = Duration::from_millis(2);
const PORT: u16 = 7099;
const SECRET_FILE: &str = "secret";

/// A node's link, and the server at its far end.
struct NodeLink {
    // The server ends before its network.
    _server: Daemon,
    wan: Wan,
}

/// The tree that nodes copy, and where jobs and copies are.
struct NodesBench<'a> {
    haul: &'a Path,
    settings: &'a BenchSettings,
    directory: TempDir,
    shards: u32,
}

/// Measures one node, four nodes, and four nodes with a slow one among them.
pub fn measure(haul: &Path, settings: &BenchSettings) -> Result<Vec<JobFigure>> {
    let directory = tempfile::Builder::new().prefix("haul-bench-").tempdir_in(&settings.dir)?;
    let mut tree = TestTree::new(directory.path().join("source"), SEED);
    let shards = u32::try_from(settings.scaled(u64::from(SHARDS)).max(NODES as u64))?;
    for number in 0..shards {
        tree.incompressible_file(format!("file{number}"), SHARD_BYTES)?;
    }
    let secret = OpenOptions::new().write(true).create_new(true).mode(0o600).open(directory.path().join(SECRET_FILE));
    secret.and_then(|mut file| file.write_all("5e".repeat(16).as_bytes()))?;
    let bench = NodesBench { haul, settings, directory, shards };
    let (mut one, mut four, mut uneven) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..settings.runs {
        one.push(last(&bench.copy(&[RATE_BITS_PER_S])?));
        four.push(last(&bench.copy(&[RATE_BITS_PER_S; NODES])?));
        let mut rates = [RATE_BITS_PER_S; NODES];
        rates[0] /= SLOWDOWN;
        let ends = bench.copy(&rates)?;
        eprintln!(
            "bench: round {round}: one {:.1?} s, four {:.1?} s, one of four slow {ends:.1?} s",
            one.last(),
            four.last()
        );
        uneven.push(last(&ends) / median(ends).context("there is a node")?);
    }
    let [one, four, uneven] = [one, four, uneven].map(|times| median(times).unwrap_or(f64::NAN));
    println!("{shards} shards of {SHARD_BYTES} bytes; links of {RATE_BITS_PER_S} bit/s and {RTT:?}.\n");
    println!("| nodes | seconds |\n|---|---:|\n| 1 | {one:.2} |\n| {NODES} | {four:.2} |\n");
    Ok(vec![
        JobFigure { what: "four nodes as fast as so many", value: one / four, aim: 3.6, is_least: true },
        JobFigure {
            what: "one node throttled fourfold: last end over the median",
            value: uneven,
            aim: 1.2,
            is_least: false,
        },
    ])
}

/// The largest.
fn last(ends: &[f64]) -> f64 {
    ends.iter().copied().fold(0.0, f64::max)
}

impl NodesBench<'_> {
    /// Copies the tree over links of these rates; when each node ended, in seconds after the first began.
    fn copy(&self, rates: &[u64]) -> Result<Vec<f64>> {
        let [source, target, job] = ["source", "target", "job"].map(|name| self.directory.path().join(name));
        fs::create_dir(&target)?;
        let links = rates.iter().map(|rate| self.link(*rate, &target)).collect::<Result<Vec<_>>>()?;
        let mut plan = self.command(["job", "plan", "-r", "--quiet", "--shard-bytes", "40m", "--dir"]);
        plan.arg(&job)
            .arg("--secret-file")
            .arg(self.secret())
            .arg(&source)
            .arg(format!("haul://{}:{PORT}/", Wan::ADDRESS_B));
        timed(plan, self.settings.timeout)?;
        let (next, begun) = (AtomicU32::new(0), Instant::now());
        let ends = thread::scope(|scope| {
            let node = |link| {
                scope.spawn({
                    let (next, job) = (&next, &job);
                    move || self.work(link, job, next, begun)
                })
            };
            let nodes: Vec<_> = links.iter().map(node).collect();
            let ends =
                nodes.into_iter().map(|node| node.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            ends.collect::<Result<Vec<_>>>()
        })?;
        drop(links);
        compare(&source, &target.join("source")).map_err(anyhow::Error::msg)?;
        fs::remove_dir_all(&target)?;
        fs::remove_dir_all(&job)?;
        Ok(ends)
    }

    fn link(&self, rate_bits_per_s: u64, target: &Path) -> Result<NodeLink> {
        let wan = Wan::new(&WanSettings { rtt: RTT, rate_bits_per_s, ..WanSettings::default() })?;
        let mut serve = self.command(["serve", "--write-only", "--port"]);
        serve.arg(PORT.to_string()).arg("--bind").arg(Wan::ADDRESS_B.to_string());
        serve.arg("--secret-file").arg(self.secret()).arg(target);
        let server = Daemon::start(&wan.b().enclose(&serve), PORT)?;
        Ok(NodeLink { _server: server, wan })
    }

    /// Copies one shard after the other until none is left.
    fn work(&self, link: &NodeLink, job: &Path, next: &AtomicU32, begun: Instant) -> Result<f64> {
        loop {
            let shard = next.fetch_add(1, Ordering::Relaxed);
            if shard >= self.shards {
                return Ok(begun.elapsed().as_secs_f64());
            }
            let mut copy = self.command(["job", "shard", "--quiet"]);
            copy.arg(job).arg(shard.to_string());
            timed(link.wan.a().enclose(&copy), self.settings.timeout)?;
            ensure!(begun.elapsed() < self.settings.timeout, "the job takes longer than {:?}", self.settings.timeout);
        }
    }

    fn secret(&self) -> PathBuf {
        self.directory.path().join(SECRET_FILE)
    }

    fn command<const N: usize>(&self, words: [&str; N]) -> Command {
        let mut command = Command::new(self.haul);
        command.args(words).env("HOME", self.directory.path());
        command
    }
}

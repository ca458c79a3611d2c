//! Settings of a benchmark: workloads, tools, rounds, and directories.

use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::Parser;

use crate::cpuid::CpuLevel;
use crate::kind::WorkloadKind;
use crate::programs;

/// Runs haul beside every peer found on this machine, over loopback and an sshd of its own.
#[derive(Debug, Clone, PartialEq, Parser)]
#[command(name = "cargo xtask bench", no_binary_name = true, args_override_self = true)]
pub struct BenchSettings {
    /// apt-get install the peers that Debian has
    #[arg(long)]
    pub install: bool,
    /// Instead: how smoothly -x keeps its rate, 512 KB/s to 1 GB/s (needs root)
    #[arg(long)]
    pub pacing: bool,
    /// With --pacing: fewer rates and numbers of streams
    #[arg(long)]
    pub quick: bool,
    /// Instead: how fast one core seals, hashes and checks, and older kinds of CPU
    #[arg(long)]
    pub primitives: bool,
    /// Instead: measure the cost of strangers at the data port to a copy (needs root)
    #[arg(long)]
    pub strangers: bool,
    /// Instead: text and noise over 1 Gbit/s, with and without -c (needs root)
    #[arg(long)]
    pub compression: bool,
    /// Instead: how CPU time grows with bytes, files, depth, rules (needs root)
    #[arg(long)]
    pub curves: bool,
    /// With --curves: up to 10,000,000 files
    #[arg(long)]
    pub large: bool,
    /// Instead: jobs of one and four nodes, and of a million files (needs root)
    #[arg(long)]
    pub jobs: bool,
    /// Instead: measure the data moved to update an existing copy (needs root)
    #[arg(long)]
    pub sync: bool,
    /// Only this case of --sync, --curves or --jobs; repeatable
    #[arg(long = "case", value_name = "NAME")]
    pub cases: Vec<String>,
    /// Measured rounds; each runs every tool once
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub runs: u32,
    /// A workload or a family of them; repeatable (default: those without *)
    #[arg(long = "workload", value_name = "NAME", value_parser = WorkloadKind::named)]
    pub families: Vec<Vec<WorkloadKind>>,
    /// The same as --workload old-cpu: AVX2, AVX-512, VAES masked
    #[arg(long)]
    pub old_cpu: bool,
    /// The workloads of all families.
    #[arg(skip)]
    pub workloads: Vec<WorkloadKind>,
    /// A tool or a family of them, haul or gridftp; repeatable (default: all)
    #[arg(long = "tool", value_name = "NAME")]
    pub tools: Vec<String>,
    /// Factor on the workloads' sizes and counts, 0.0001 to 10
    #[arg(long, value_name = "FACTOR", default_value = "1", value_parser = |text: &str| within(text, 0.0001, 10.0))]
    pub scale: f64,
    /// Directory for the data
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    pub dir: PathBuf,
    /// Directory for data on a disk (default: the build directory)
    #[arg(long, value_name = "DIR")]
    pub disk_dir: Option<PathBuf>,
    /// The haul to measure (default: this workspace's release build)
    #[arg(long, value_name = "PATH")]
    pub haul: Option<PathBuf>,
    /// Another haul (a build from before a change): the tool haul-before
    #[arg(long, value_name = "PATH")]
    pub beside: Option<PathBuf>,
    /// haul and the bare loop see this older CPU (masked CPUID): as Zen 3, Zen 2 or Ivy Bridge
    #[arg(long, value_name = "KIND")]
    pub cpu: Option<CpuLevel>,
    /// Congestion control in a network namespace (needs root); both: cubic, then bbr (default: this machine's own)
    #[arg(long, value_name = "NAME", value_parser = ["cubic", "bbr", "reno", "both"])]
    pub congestion: Option<String>,
    /// Limit of one run; a tool that needs more is not run again
    #[arg(long, value_name = "SECONDS", default_value = "300", value_parser = seconds)]
    pub timeout: Duration,
    /// File for every single run, and the aims
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// File for the tables that are printed
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,
}

/// A number between two others.
fn within<N: FromStr + PartialOrd + Display>(text: &str, low: N, high: N) -> Result<N, String> {
    let number = text.parse().ok().filter(|number| (&low..=&high).contains(&number));
    number.ok_or_else(|| format!("not a number from {low} to {high}"))
}

/// A limit of up to a day.
pub fn seconds(text: &str) -> Result<Duration, String> {
    within(text, 1, 86_400).map(Duration::from_secs)
}

impl BenchSettings {
    /// Congestion controls, one after the other; none for this machine's own.
    pub fn congestions(&self) -> Vec<Option<&str>> {
        match self.congestion.as_deref() {
            Some("both") => vec![Some("cubic"), Some("bbr")],
            name => vec![name],
        }
    }

    /// A size at the requested scale.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a length"
    )]
    pub fn scaled(&self, bytes: u64) -> u64 {
        (bytes as f64 * self.scale) as u64
    }

    /// Whether a case of `--sync` is to be measured.
    pub fn is_wanted(&self, case: &str) -> bool {
        self.cases.is_empty() || self.cases.iter().any(|wanted| wanted == case)
    }

    /// Where a directory for data on a disk is made.
    pub fn disk_dir(&self) -> PathBuf {
        self.disk_dir.clone().unwrap_or_else(programs::build_directory)
    }
}

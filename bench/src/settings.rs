//! Settings of a benchmark: workloads, tools, rounds, and directories.

use std::path::PathBuf;
use std::time::Duration;

use crate::cpuid::CpuLevel;
use crate::kind::WorkloadKind;
use crate::programs;

/// What was asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct BenchSettings {
    /// Install peers first.
    pub install: bool,
    /// Measure pacing instead.
    pub pacing: bool,
    /// Measure how fast one core seals, hashes and checks instead.
    pub primitives: bool,
    /// Measure what strangers at the port cost instead.
    pub strangers: bool,
    /// Fewer cases of pacing.
    pub quick: bool,
    /// Measure compression, and nothing else.
    pub compression: bool,
    /// Measure how time grows instead.
    pub curves: bool,
    /// With more files than usual.
    pub large: bool,
    /// Measure what is synced instead.
    pub sync: bool,
    /// Only these cases of it; empty for all.
    pub cases: Vec<String>,
    /// Measured rounds.
    pub runs: u32,
    /// In the order given.
    pub workloads: Vec<WorkloadKind>,
    /// Names or families; empty for all.
    pub tools: Vec<String>,
    /// Factor on sizes and counts.
    pub scale: f64,
    /// Where a directory for the data is made.
    pub dir: PathBuf,
    /// Where a directory for data on a disk is made; none for the build directory.
    pub disk_dir: Option<PathBuf>,
    /// The program to measure; none for the release build.
    pub haul: Option<PathBuf>,
    /// A second haul, to be compared with it.
    pub beside: Option<PathBuf>,
    /// The kind of CPU that haul and the bare loop see; none for this machine's own.
    pub cpu: Option<CpuLevel>,
    /// Congestion controls to set, one after the other; empty for this machine's own.
    pub congestion: Vec<String>,
    /// Limit of one run.
    pub timeout: Duration,
    /// Where to write every run.
    pub json: Option<PathBuf>,
    /// Where to write the tables.
    pub markdown: Option<PathBuf>,
}

impl Default for BenchSettings {
    fn default() -> Self {
        Self {
            install: false,
            pacing: false,
            primitives: false,
            strangers: false,
            quick: false,
            compression: false,
            curves: false,
            large: false,
            sync: false,
            cases: Vec::new(),
            runs: 3,
            workloads: Vec::new(),
            tools: Vec::new(),
            scale: 1.0,
            dir: PathBuf::from("/dev/shm"),
            disk_dir: None,
            haul: None,
            beside: None,
            cpu: None,
            congestion: Vec::new(),
            timeout: Duration::from_secs(300),
            json: None,
            markdown: None,
        }
    }
}

impl BenchSettings {
    /// A size at the scale that was asked for.
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

//! `haul-sim jobs`: its options.

use std::time::Duration;

use clap::Args;
use haul_job::packer::{SHARDS_AT_A_TIME, ShardLimits, ShardSizes};
use haul_sim::jobs::JobScenario;
use haul_sim::jobs::cluster::ClusterScenario;
use haul_sim::jobs::workload::JobWorkload;

const GIB: u64 = 1 << 30;

/// Simulates a job on a Slurm cluster
#[derive(Debug, Args)]
pub struct JobArguments {
    /// The seed of sizes and failures
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,
    /// Files of the source
    #[arg(long, value_name = "N", default_value_t = 100_000_000)]
    files: u64,
    /// Files that the walk finds in a second
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    walked: u64,
    /// Larger files count as several of this size
    #[arg(long, value_name = "GIB", value_parser = clap::value_parser!(u64).range(1..1 << 20))]
    range: Option<u64>,
    /// --shard-bytes (without sizes, shards grow as they do by default)
    #[arg(long, value_name = "GIB", value_parser = clap::value_parser!(u64).range(1..1 << 20))]
    shard_bytes: Option<u64>,
    /// --shard-files
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    shard_files: Option<u64>,
    #[command(flatten)]
    cluster: ClusterArguments,
}

#[derive(Debug, Args)]
struct ClusterArguments {
    /// Nodes of the cluster
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..100_000))]
    nodes: u32,
    /// MaxArraySize
    #[arg(long, value_name = "N", default_value_t = 1001, value_parser = clap::value_parser!(u32).range(2..4_000_001))]
    array_size: u32,
    /// Shards at a time
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    /// Millions of bytes that a node copies in a second
    #[arg(long, value_name = "MB", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..1_000_000))]
    megabytes_per_s: u64,
    /// Small files that a node copies in a second
    #[arg(long, value_name = "N", default_value_t = 2500, value_parser = clap::value_parser!(u64).range(1..))]
    files_per_s: u64,
    /// The first node takes so many times as long
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..1000))]
    slowdown: u32,
    /// Hours between failures of a node
    #[arg(long, value_name = "H", default_value_t = 48, value_parser = clap::value_parser!(u64).range(1..1_000_000))]
    fails_every: u64,
}

impl JobArguments {
    /// The job that they describe.
    pub fn scenario(&self) -> JobScenario {
        JobScenario {
            workload: JobWorkload {
                seed: self.seed,
                files: self.files,
                range_bytes: self.range.map_or(u64::MAX, |range| range * GIB),
                sizes: self.sizes(),
                walked_per_s: self.walked,
            },
            cluster: self.cluster.scenario(),
        }
    }

    fn sizes(&self) -> ShardSizes {
        let default = ShardLimits::default();
        let bytes = self.shard_bytes.map_or(default.bytes, |bytes| bytes * GIB);
        let full = ShardLimits { bytes, files: self.shard_files.unwrap_or(default.files) };
        let is_exact = self.shard_bytes.is_some() || self.shard_files.is_some();
        let at_once = self.cluster.limit.unwrap_or(SHARDS_AT_A_TIME);
        ShardSizes { full, grows_for: (!is_exact).then_some(at_once) }
    }
}

impl ClusterArguments {
    fn scenario(&self) -> ClusterScenario {
        ClusterScenario {
            nodes: self.nodes,
            array_size: self.array_size,
            at_once: self.limit,
            bytes_per_s: self.megabytes_per_s * 1_000_000,
            files_per_s: self.files_per_s,
            slowdown: self.slowdown,
            fails_every: Duration::from_secs(3600 * self.fails_every),
        }
    }
}

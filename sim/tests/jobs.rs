//! Jobs of a cluster from seeds. Each run checks itself: every file is in one shard, shards and arrays keep to their
//! limits, and no shard is in the queue twice.

use std::time::Duration;

use haul_job::packer::{ShardLimits, ShardSizes};
use haul_lab::Rng;
use haul_sim::jobs::cluster::ClusterScenario;
use haul_sim::jobs::figures::{JobFigures, most_per_minute};
use haul_sim::jobs::workload::JobWorkload;
use haul_sim::jobs::{JobScenario, run_job};

const SEEDS: u64 = 60;

/// A few dozen nodes that fail often.
fn scenario(seed: u64) -> JobScenario {
    let mut rng = Rng::new(seed);
    JobScenario {
        workload: JobWorkload {
            seed,
            files: rng.log_between(1000, 200_000),
            range_bytes: rng.pick(&[u64::MAX, 1 << 30, 1 << 28]),
            sizes: ShardSizes {
                full: ShardLimits { bytes: rng.log_between(1 << 26, 1 << 31), files: rng.log_between(100, 5000) },
                grows_for: (seed % 2 == 1).then_some(8),
            },
            walked_per_s: rng.log_between(100, 100_000),
        },
        cluster: ClusterScenario {
            nodes: u32::try_from(rng.between(1, 60)).unwrap(),
            array_size: u32::try_from(rng.log_between(2, 2000)).unwrap(),
            at_once: rng.chance(500).then_some(u32::try_from(rng.between(1, 80)).unwrap()),
            bytes_per_s: 20_000_000,
            files_per_s: 100,
            slowdown: u32::try_from(rng.between(1, 10)).unwrap(),
            fails_every: Duration::from_secs(rng.log_between(1200, 20_000)),
        },
    }
}

fn ran(scenario: &JobScenario) -> JobFigures {
    run_job(scenario).unwrap_or_else(|why| panic!("{scenario:?}: {why}"))
}

#[test]
fn every_job_ends_within_its_limits_and_gives_up_no_shard() {
    let (mut interrupted, mut changes) = (0, 0);
    for seed in 0..SEEDS {
        let figures = ran(&scenario(seed));
        let most = [&figures.calls.submissions, &figures.calls.queries, &figures.calls.changes];
        let most = most.map(|times| most_per_minute(times));
        assert!(most[0] <= 13 && most[1] <= 6 && most[2] <= 6, "seed {seed}: {most:?} calls in a minute");
        assert!(figures.nodes.idle >= 0.0 && figures.ended >= figures.nodes.last_end, "seed {seed}:\n{figures}");
        // A large file on a slow node takes days, and loses several; each gets further.
        assert_eq!(figures.given_up, 0, "seed {seed}:\n{figures}");
        interrupted += figures.interrupted;
        changes += figures.calls.changes.len();
    }
    assert!(interrupted > 50 && changes > 50, "too little happens: {interrupted} interrupted, {changes} changes");
}

#[test]
fn a_seed_always_gives_the_same_result() {
    for seed in 0..5 {
        let same = |figures: JobFigures| (figures.ended, figures.plan.shards, figures.calls.submissions);
        assert_eq!(same(ran(&scenario(seed))), same(ran(&scenario(seed))), "seed {seed}");
    }
}

#[test]
fn shards_at_a_time_are_used() {
    let mut scenario = scenario(1);
    scenario.workload =
        JobWorkload { seed: 1, files: 100_000, range_bytes: 1 << 28, walked_per_s: 50_000, ..scenario.workload };
    scenario.workload.sizes = ShardSizes::exact(ShardLimits { bytes: 1 << 29, files: 500 });
    let fails_every = Duration::from_secs(1 << 30);
    scenario.cluster = ClusterScenario { nodes: 8, at_once: Some(4), slowdown: 1, fails_every, ..scenario.cluster };
    scenario.cluster.array_size = 101;
    let figures = ran(&scenario);
    assert!((0.5..0.7).contains(&figures.nodes.idle), "half of the nodes work nearly always:\n{figures}");
}

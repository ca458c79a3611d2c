//! `haul job run --slurm` with a real Slurm: undisturbed, with processes killed at random, and past a time limit.
//!
//! `HAUL_SLURM_ROUNDS` is the number of disturbed runs.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use haul_e2e::{Haul, ProgramRun, Rng, SLURM_NODES, Sandbox, SlurmCluster, listing, pid, set_mtime, within};
use rustix::process::{Signal, kill_process};
use serde_json::Value;

const FILES: u32 = 2500;
/// Of a run with all its requeues.
const RUN_LIMIT: Duration = Duration::from_secs(200);
const ROUNDS: u64 = 2;

/// Thousands of small files, hard links across directories, links, attributes, and a large file of holes.
fn tree(sandbox: &Sandbox) {
    sandbox.dir("src/links");
    for number in 0..FILES {
        let file = sandbox.file(format!("src/d{}/{number}", number % 23), format!("{number}").repeat(number as usize % 90));
        set_mtime(&file, 1_500_000_000 + i64::from(number), number);
        if number % 50 == 0 {
            fs::hard_link(&file, sandbox.path(format!("src/links/{number}"))).unwrap();
        }
        if number % 100 == 0 {
            rustix::fs::setxattr(&file, "user.number", number.to_string().as_bytes(), rustix::fs::XattrFlags::empty())
                .unwrap();
        }
    }
    symlink("nowhere", sandbox.path("src/d1/link")).unwrap();
    sandbox.dir("src/empty");
    let holes = fs::File::create(sandbox.path("src/holes")).unwrap();
    holes.set_len(1 << 30).unwrap();
    (0..20).for_each(|at| holes.write_all_at(&[at as u8 + 1; 4096], u64::from(at as u32) * 50_000_000).unwrap());
    (0..4).for_each(|number| drop(sandbox.big_file(format!("src/large{number}"), 8_000_000)));
    set_mtime(&sandbox.path("src/d1"), 1_400_000_000, 5);
}

fn run<'a>(sandbox: &'a Sandbox, cluster: &'a SlurmCluster, more: &[&str]) -> Haul<'a> {
    let words = ["job", "run", "--slurm", "--archive", "--hard-links", "--xattrs", "-A", "--dir", "job"];
    let sizes = ["--shard-files", "120", "--shard-bytes", "100m"];
    let haul = sandbox.haul(words).args(sizes).args(more).args(["src", "to"]);
    cluster.enclose(haul).limit(RUN_LIMIT)
}

fn step<'a>(sandbox: &'a Sandbox, cluster: &'a SlurmCluster, words: &[&str]) -> ProgramRun {
    cluster.enclose(sandbox.haul(["job"]).args(words)).run()
}

/// Source and target are equal, a shard moves nothing any more, and nothing is left.
#[track_caller]
fn is_the_source(sandbox: &Sandbox, cluster: &SlurmCluster) {
    sandbox.haul(["verify", "--archive", "--xattrs", "src", "to"]).run().succeeds();
    let [source, target] = ["src", "to/src"].map(|root| sandbox.path(root));
    for name in ["links/0", "links/2450"] {
        assert_eq!(fs::metadata(target.join(name)).unwrap().nlink(), 2, "{name}");
    }
    let blocks = |root: &Path| fs::metadata(root.join("holes")).unwrap().blocks();
    assert!(blocks(&target) <= blocks(&source) + 64, "the holes were filled");
    let run = sandbox.haul(["job", "shard", "--json", "job", "1"]).run().succeeds();
    assert_eq!(run.summary()["bytes"].as_u64(), Some(0));
    assert!(within(Duration::from_secs(30), || cluster.has_empty_queue()), "tasks are left");
    assert_eq!(listing(&sandbox.path("job/running")), [""; 0]);
    assert_eq!(listing(&target).len(), listing(&source).len());
}

fn report(sandbox: &Sandbox) -> Value {
    serde_json::from_slice(&fs::read(sandbox.path("job/report.json")).unwrap()).unwrap()
}

#[test]
fn a_job_runs_on_the_nodes_of_slurm() {
    let sandbox = Sandbox::new();
    tree(&sandbox);
    sandbox.dir("to");
    let Some(cluster) = SlurmCluster::start(&sandbox) else { return };
    let words = ["--limit", "6", "--time", "30", "--cpus-per-task", "1", "--sbatch=--comment=haul", "--then-verify"];
    let ended = run(&sandbox, &cluster, &words).run();
    assert_eq!(ended.status, Some(0), "{}\n{}", ended.account(), cluster.logs());
    is_the_source(&sandbox, &cluster);
    let report = report(&sandbox);
    assert_eq!((report["verified"].as_bool(), report["failed"].as_u64()), (Some(true), Some(0)), "{report}");
    let hosts = report["hosts"].as_array().unwrap();
    assert!(hosts.len() > 1 && hosts.iter().all(|host| host["host"].as_str().unwrap().starts_with('n')), "{report}");
    let shards = report["shards"].as_u64().unwrap();
    let submissions = fs::read_to_string(sandbox.path("job/slurm/submissions")).unwrap();
    // MaxArraySize of the test's cluster is 8.
    assert!(shards > 16 && submissions.lines().count() > 3, "{shards} shards\n{submissions}");
}

//! `haul job run --slurm` with a real Slurm: undisturbed, with processes killed at random, and past a time limit.
//!
//! `HAUL_SLURM_ROUNDS` is the number of disturbed runs, `HAUL_SLURM_FILES` that of small files, and `HAUL_SLURM_HOLES`
//! the size of the file of holes in the undisturbed run.

use std::ffi::OsStr;
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{fs, thread};

use haul_e2e::{
    Haul, Options, ProgramRun, Remote, Rng, Running, SLURM_CONTROLLER, SLURM_NODES, Sandbox, SlurmCluster, cases,
    commands, listing, pid, set_mtime, within,
};
use rustix::process::{Signal, kill_process};
use serde_json::Value;

const FILES: u32 = 2500;
/// Of small files in a shard, at least: a larger tree has larger shards, not more of them.
const SHARD_FILES: u32 = 120;
/// Of a run with all its requeues: Slurm notices a killed node after half a minute, and some are killed twice.
const RUN_LIMIT: Duration = Duration::from_secs(400);
const ROUNDS: u64 = 2;
/// Runs of a job with cancelled tasks.
const RERUNS_MAX: u32 = 4;

fn small_files() -> u32 {
    u32::try_from(cases("HAUL_SLURM_FILES", FILES.into())).unwrap()
}

/// Thousands of small files, hard links across directories, links, attributes, and a large file of holes.
fn tree(sandbox: &Sandbox, holes_bytes: u64) {
    sandbox.dir("src/links");
    for number in 0..small_files() {
        let file =
            sandbox.file(format!("src/d{}/{number}", number % 23), format!("{number}").repeat(number as usize % 90));
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
    holes.set_len(holes_bytes).unwrap();
    (0..20).for_each(|at| holes.write_all_at(&[7; 4096], at * (holes_bytes / 20)).unwrap());
    (0..4).for_each(|number| drop(sandbox.big_file(format!("src/large{number}"), 8_000_000)));
    set_mtime(&sandbox.path("src/d1"), 1_400_000_000, 5);
}

fn run<'a>(sandbox: &'a Sandbox, cluster: &'a SlurmCluster, more: &[&str]) -> Haul<'a> {
    run_from("src".as_ref(), sandbox, cluster, more)
}

fn run_from<'a>(source: &OsStr, sandbox: &'a Sandbox, cluster: &'a SlurmCluster, more: &[&str]) -> Haul<'a> {
    let words = ["job", "run", "--slurm", "-aHAX", "--hard-links", "--xattrs", "--mkdir", "--dir", "job"];
    let shard_files = (small_files() / 20).max(SHARD_FILES).to_string();
    let sizes = ["--shard-files", &shard_files, "--shard-bytes", "100m"];
    let haul = sandbox.haul(words).args(sizes).args(more).arg(source).arg("to");
    cluster.enclose(haul).limit(RUN_LIMIT)
}

/// Processes of `haul job shard` on all nodes.
fn shards(cluster: &SlurmCluster) -> Vec<u32> {
    let is_shard = |pid: &u32| commands(&[*pid])[0].contains("job shard");
    (0..SLURM_NODES).flat_map(|node| cluster.pids(node)).filter(is_shard).collect()
}

/// Source and target are equal, a rerun of a shard moves no data, and there are no leftovers.
#[track_caller]
fn is_the_source(sandbox: &Sandbox, cluster: &SlurmCluster) {
    sandbox.haul(["verify", "-aHAX", "--xattrs", "src", "to"]).run().succeeds();
    let [source, target] = ["src", "to/src"].map(|root| sandbox.path(root));
    for name in ["links/0", "links/2450"] {
        assert_eq!(fs::metadata(target.join(name)).unwrap().nlink(), 2, "{name}");
    }
    let blocks = |root: &Path| fs::metadata(root.join("holes")).unwrap().blocks();
    assert!(blocks(&target) <= blocks(&source) + 64, "the holes were filled");
    let run = cluster.enclose(sandbox.haul(["job", "shard", "--json", "job", "1"])).run().succeeds();
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
    tree(&sandbox, cases("HAUL_SLURM_HOLES", 1 << 30));
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
    let compared = fs::read_to_string(sandbox.path("job/verify/slurm/submissions")).unwrap();
    assert!(compared.lines().count() > 3, "{compared}");
}

/// A number below `end`.
fn pick(rng: &mut Rng, end: usize) -> usize {
    usize::try_from(rng.below(end as u64)).expect("it is below a usize")
}

/// Harms a running job in one of seven ways; `run` is started anew where it was killed.
fn disturb(sandbox: &Sandbox, cluster: &mut SlurmCluster, rng: &mut Rng, run: &mut Option<Running>) -> &'static str {
    let node = pick(rng, SLURM_NODES);
    match rng.below(7) {
        0 => {
            let shards = shards(cluster);
            let Some(chosen) = shards.get(pick(rng, shards.len().max(1))) else { return "nothing" };
            let _ = kill_process(pid(*chosen), Signal::KILL);
            "a shard"
        }
        1 => {
            cluster.kill_node(node);
            cluster.start_node(node).unwrap();
            "a node"
        }
        2 => {
            cluster.kill_controller();
            thread::sleep(Duration::from_millis(rng.below(1500)));
            cluster.start_controller().unwrap();
            "slurmctld"
        }
        3 => {
            let is_finish = |pid: &u32| commands(&[*pid])[0].contains("job finish");
            let finishing = (0..SLURM_NODES).flat_map(|node| cluster.pids(node)).find(is_finish);
            let Some(chosen) = finishing else { return "nothing" };
            let _ = kill_process(pid(chosen), Signal::KILL);
            "the last step"
        }
        4 => {
            let queue = cluster.command("squeue", &["--noheader", "--array", "--format=%i"]).unwrap_or_default();
            let tasks: Vec<_> = queue.split_whitespace().collect();
            let Some(chosen) = tasks.get(pick(rng, tasks.len().max(1))) else { return "nothing" };
            // The controller may be starting.
            let _ = cluster.command("scancel", &[*chosen]);
            "a task, by scancel"
        }
        5 => {
            let file = sandbox.path(format!("src/d{}/{}", 7, 7 + 23 * rng.below(50)));
            let _ = fs::remove_file(file);
            "a file of the source"
        }
        _ => {
            drop(run.take());
            *run = Some(disturbed(sandbox, cluster).start());
            "the submitter"
        }
    }
}

fn disturbed<'a>(sandbox: &'a Sandbox, cluster: &'a SlurmCluster) -> Haul<'a> {
    run(sandbox, cluster, &["--xfrrate", "48m"])
}

#[test]
fn a_job_survives_killed_shards_nodes_controllers_and_submitters() {
    let sandbox = Sandbox::new();
    let Some(mut cluster) = SlurmCluster::start(&sandbox) else { return };
    let rounds = cases("HAUL_SLURM_ROUNDS", ROUNDS);
    let seed = u64::from(std::process::id());
    let mut rng = Rng::new(seed);
    for round in 0..rounds {
        for name in ["job", "to", "src"] {
            let _ = fs::remove_dir_all(sandbox.path(name));
        }
        // A limit of the rate holds for holes, too.
        tree(&sandbox, 1 << 26);
        sandbox.dir("to");
        let begun = Instant::now();
        let mut running = Some(disturbed(&sandbox, &cluster).start());
        let mut harmed = Vec::new();
        for _ in 0..3 {
            thread::sleep(Duration::from_millis(500 + rng.below(5000)));
            harmed.push(disturb(&sandbox, &mut cluster, &mut rng, &mut running));
        }
        let has_ended = AtomicBool::new(false);
        let finished = thread::scope(|scope| {
            scope.spawn(|| {
                while !has_ended.load(Ordering::Acquire) {
                    cluster.resume_drained_nodes();
                    thread::sleep(Duration::from_secs(3));
                }
            });
            let finished = running.unwrap().finish(RUN_LIMIT);
            has_ended.store(true, Ordering::Release);
            finished.unwrap()
        });
        let told = format!("seed {seed}, round {round}, killed {harmed:?}, {:?}", begun.elapsed());
        println!("{told}, status {:?}", finished.code());
        let mut code = finished.code();
        let mut said = finished.stderr_text();
        for _ in 0..RERUNS_MAX {
            // What was cancelled waits for this line.
            if code == Some(4) {
                let again = cluster.enclose(sandbox.haul(["job", "run", "job"])).limit(RUN_LIMIT).run();
                (code, said) = (again.status, again.account());
            }
        }
        assert!(matches!(code, Some(0 | 5)), "{told}: {code:?}\n{said}\n{}", cluster.logs());
        is_the_source(&sandbox, &cluster);
    }
}

#[test]
fn nodes_pull_from_a_host_and_a_killed_shard_is_copied_again() {
    let sandbox = Sandbox::new();
    tree(&sandbox, 1 << 26);
    sandbox.dir("to");
    let Some(cluster) = SlurmCluster::start(&sandbox) else { return };
    let host = Options { address: SLURM_CONTROLLER.into(), netns: Some(cluster.controller()), ..Options::default() };
    let remote = Remote::with_haul(&sandbox, host);
    let login = remote.sshd().haul_args();
    let words: Vec<_> = login.iter().map(String::as_str).chain(["--xfrrate", "96m"]).collect();
    let running = run_from(&remote.at(sandbox.path("src")), &sandbox, &cluster, &words).start();
    assert!(within(RUN_LIMIT, || !shards(&cluster).is_empty()), "no shard has begun\n{}", cluster.logs());
    if let Some(shard) = shards(&cluster).first() {
        let _ = kill_process(pid(*shard), Signal::KILL);
    }
    let finished = running.finish(RUN_LIMIT).unwrap();
    assert_eq!(finished.code(), Some(0), "{}\n{}", finished.stderr_text(), cluster.logs());
    is_the_source(&sandbox, &cluster);
    let hosts = report(&sandbox)["hosts"].as_array().unwrap().len();
    assert!(hosts > 1, "one node has copied all");
    remote.is_left_clean();
}

#[test]
fn a_shard_past_its_time_limit_is_requeued_and_resumes() {
    let sandbox = Sandbox::new();
    (0..4).for_each(|number| drop(sandbox.big_file(format!("src/large{number}"), 8_000_000)));
    sandbox.dir("to");
    let Some(cluster) = SlurmCluster::start(&sandbox) else { return };
    // 53 seconds of copying, and a warning 20 to 50 seconds before the end of a minute.
    let words =
        ["job", "run", "--slurm", "-r", "--mkdir", "--dir", "job", "--time", "1", "--xfrrate", "600k", "src", "to"];
    let ended = cluster.enclose(sandbox.haul(words)).limit(RUN_LIMIT).run();
    assert_eq!(ended.status, Some(0), "{}\n{}", ended.account(), cluster.logs());
    sandbox.haul(["verify", "-r", "src", "to"]).run().succeeds();
    let results = listing(&sandbox.path("job/results"));
    let requeued = results.iter().filter(|name| {
        let attempts = sandbox.path("job/attempts").join(name.replace(".json", ".log"));
        let text = fs::read_to_string(sandbox.path("job/results").join(name)).unwrap();
        let result: Value = serde_json::from_str(&text).unwrap();
        let is_requeued = fs::read_to_string(attempts).unwrap().lines().count() > 1;
        let all = result["bytes"].as_u64().unwrap() + result["bytes_skipped"].as_u64().unwrap();
        // The last run of a requeued shard did not begin anew.
        assert!(!is_requeued || result["bytes"].as_u64().unwrap() < all || all < 32_000_000, "{text}");
        is_requeued
    });
    let output = listing(&sandbox.path("job/slurm"));
    assert!(requeued.count() > 0, "{output:?}\n{}", cluster.logs());
    let is_told = |name: &String| {
        fs::read_to_string(sandbox.path("job/slurm").join(name)).is_ok_and(|text| text.contains("status 4"))
    };
    assert!(output.iter().filter(|name| name.starts_with("array-")).any(is_told), "{output:?}");
}

#[test]
fn following_a_job_can_end_without_it_or_cancel_it() {
    let sandbox = Sandbox::new();
    (0..6).for_each(|number| drop(sandbox.big_file(format!("src/large{number}"), 8_000_000)));
    sandbox.dir("to");
    let Some(cluster) = SlurmCluster::start(&sandbox) else { return };
    let words = ["job", "run", "--slurm", "-r", "--mkdir", "--dir", "job", "--limit", "2", "--xfrrate", "400k"];
    let shards = ["--shard-bytes", "10m", "src", "to"];
    let running = cluster.enclose(sandbox.haul(words).args(shards)).start();
    let status = || cluster.enclose(sandbox.haul(["job", "status", "job"])).run();
    let is_running = || {
        thread::sleep(Duration::from_secs(1));
        status().stdout.contains("Slurm: running")
    };
    assert!(within(Duration::from_secs(60), is_running), "{}\n{}", status().account(), cluster.logs());
    running.signal(Signal::INT);
    ProgramRun::of(running).ends(4).says(["keep running in Slurm", "haul job run --slurm", "haul job cancel"]);
    assert!(!cluster.has_empty_queue());
    let queue = cluster.command("squeue", &["--noheader", "--array", "--states=RUNNING"]).unwrap();
    assert!(queue.lines().count() <= 2, "{queue}");
    let line = cluster.enclose(sandbox.haul(["job", "status", "--json", "job"])).run().stdout;
    assert!(line.contains("\"slurm_state\":\"RUNNING\""), "{line}");
    cluster.enclose(sandbox.haul(["job", "cancel", "job"])).run().succeeds();
    assert!(within(Duration::from_secs(30), || cluster.has_empty_queue()), "tasks are left\n{}", cluster.logs());
    let partition = ["job", "run", "--slurm", "--partition", "none", "job"];
    cluster.enclose(sandbox.haul(partition)).run().ends(2).says(["invalid partition", "hint: "]);
}

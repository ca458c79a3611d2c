//! Shards of a job run by other engines: GNU parallel over ssh, MPI, and the commands of Kubernetes pods.

use std::time::Duration;
use std::{fs, thread};

use haul_e2e::{ProgramRun, Remote, Sandbox, compare, listing, shell};
use haul_lab::find_program;

const FILES: u32 = 600;
const ENGINE_LIMIT: Duration = Duration::from_secs(90);

/// A planned job; how many shards it has.
fn planned(sandbox: &Sandbox) -> usize {
    (0..FILES).for_each(|number| drop(sandbox.file(format!("src/d{}/{number}", number % 7), number.to_string())));
    sandbox.dir("to");
    sandbox.haul(["job", "plan", "-r", "-A", "--dir", "job", "--shard-files", "60", "src", "to"]).run().succeeds();
    let shards = listing(&sandbox.path("job/shards")).len();
    assert!(shards > 8, "{shards}");
    shards
}

#[track_caller]
fn finishes(sandbox: &Sandbox) {
    sandbox.haul(["job", "finish", "--verify", "job"]).run().succeeds();
    compare(&sandbox.path("src"), &sandbox.path("to/src")).unwrap();
}

fn is_installed(program: &str, package: &str) -> bool {
    let is_there = find_program(program).is_some();
    if !is_there {
        println!("SKIPPED: {program} is not installed: apt-get install {package}");
    }
    is_there
}

#[test]
fn gnu_parallel_runs_shards_over_ssh() {
    if !is_installed("parallel", "parallel") {
        return;
    }
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    let last = planned(&sandbox) - 1;
    let options: String = remote.sshd().ssh_options().iter().map(|option| format!(" -o '{option}'")).collect();
    let (port, key) = (remote.sshd().port(), remote.sshd().identity().display().to_string());
    let ssh = sandbox.script("ssh-there", &format!("#!/bin/sh\nexec ssh -p {port} -i '{key}'{options} \"$@\"\n"));
    let hosts = sandbox.file("hosts", format!("2/{}\n", remote.sshd().host()));
    let job = sandbox.path("job");
    let script = format!(
        "seq 0 {last} | parallel --ssh {} --sshloginfile {} haul job shard --quiet {} {{}}",
        ssh.display(),
        hosts.display(),
        job.display()
    );
    shell(&sandbox, &script).limit(ENGINE_LIMIT).run().succeeds();
    finishes(&sandbox);
}

#[test]
fn mpi_ranks_take_every_nth_shard() {
    if !is_installed("mpirun", "openmpi-bin") {
        return;
    }
    let sandbox = Sandbox::new();
    let last = planned(&sandbox) - 1;
    let loop_of_ranks = format!(
        "for shard in $(seq $OMPI_COMM_WORLD_RANK $OMPI_COMM_WORLD_SIZE {last}); do \"$HAUL\" job shard --quiet job $shard; done"
    );
    let script =
        format!("HAUL=$0 TMPDIR=$PWD mpirun --allow-run-as-root --oversubscribe -np 3 -x HAUL sh -c '{loop_of_ranks}'");
    shell(&sandbox, &script).limit(ENGINE_LIMIT).run().succeeds();
    finishes(&sandbox);
}

/// The arguments of each container in a manifest.
fn container_arguments(manifest: &str) -> Vec<Vec<String>> {
    let lines = manifest.lines().filter_map(|line| line.trim().strip_prefix("args: "));
    lines.map(|list| serde_json::from_str(list).unwrap()).collect()
}

#[test]
fn pods_copy_their_shards_and_the_last_one_finishes() {
    let sandbox = Sandbox::new();
    let shards = planned(&sandbox);
    let words = ["job", "manifest", "--image", "haul:1", "--claim", "shared", "--verify", "job"];
    let manifest = sandbox.haul(words).run().succeeds().stdout;
    assert!(manifest.contains(&format!("  completions: {shards}\n")), "{manifest}");
    assert!(manifest.contains(&format!("mountPath: \"{}\"", sandbox.path("").display()).replace("/\"", "\"")));
    let pods = container_arguments(&manifest);
    assert_eq!(pods.len(), 2, "{manifest}");
    let last = sandbox.haul(&pods[1]).current_dir("/").start();
    thread::sleep(Duration::from_millis(500));
    for index in (0..shards).rev() {
        sandbox.haul(&pods[0]).current_dir("/").env("JOB_COMPLETION_INDEX", index.to_string()).run().succeeds();
        assert!(!sandbox.path("job/report.json").exists() || index == 0, "the last step waits");
    }
    ProgramRun::of(last).succeeds();
    compare(&sandbox.path("src"), &sandbox.path("to/src")).unwrap();
}

#[test]
fn unsuitable_jobs_for_pods_are_refused() {
    let sandbox = Sandbox::new();
    planned(&sandbox);
    let manifest = |words: &[&str], job: &str| {
        sandbox.haul(["job", "manifest", "--image", "haul:1"]).args(words).arg(job).run().ends(2)
    };
    manifest(&[], "job").says(["needs --claim"]);
    manifest(&["--claim", "c", "--mount", "/nowhere"], "job").says(["is not below it", "on the claim"]);
    sandbox.haul(["job", "plan", "-r", "--dir", "far", "src", "h:/to"]).run().succeeds();
    manifest(&["--claim", "c"], "far").says(["of haul has no ssh", "haul serve"]);
    fs::write(sandbox.path("job/plan"), "0 1 1 planned\n").unwrap();
    manifest(&["--claim", "c"], "job").says(["the plan is not complete"]);
}

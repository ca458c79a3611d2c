//! Shards of a job run by other engines: GNU parallel over ssh, MPI, and the commands of Kubernetes pods. Also the
//! confirmation that engines pass on.

use std::path::PathBuf;
use std::time::Duration;
use std::{fs, thread};

use haul_e2e::{ProgramRun, Remote, Sandbox, compare, haul_binary, listing, shell};
use haul_lab::find_program;

const FILES: u32 = 600;
const ENGINE_LIMIT: Duration = Duration::from_secs(90);

/// A planned job; how many shards it has.
fn planned(sandbox: &Sandbox) -> usize {
    (0..FILES).for_each(|number| drop(sandbox.file(format!("src/d{}/{number}", number % 7), number.to_string())));
    sandbox.dir("to");
    sandbox.haul(["job", "plan", "-r", "--mkdir", "--dir", "job", "--shard-files", "60", "src", "to"]).run().succeeds();
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

/// A job with a command in the place of ssh, which leaves a trace, as an option; and the trace.
fn own_command(sandbox: &Sandbox, name: &str) -> (String, PathBuf) {
    let trace = sandbox.path(format!("{name}-ran"));
    let haul = haul_binary();
    let script =
        sandbox.script(name, &format!("#!/bin/sh\n: >'{}'\nexec '{}' \"$@\"\n", trace.display(), haul.display()));
    (format!("--target-command={}", script.display()), trace)
}

#[test]
fn a_job_starts_only_programs_that_are_confirmed_outside_of_its_directory() {
    let sandbox = Sandbox::new();
    sandbox.file("src/file", "x");
    let target = format!("host:{}", sandbox.path("to").display());
    let ((own, ran), (_, planted_ran)) = (own_command(&sandbox, "own"), own_command(&sandbox, "bad"));
    let plan = sandbox.haul(["job", "plan", "-r", "--mkdir", "--dir", "job", &own, "src", &target]).run().succeeds();
    let digest = plan.stderr.split("haul job shard --confirm ").nth(1).unwrap().split(' ').next().unwrap();
    let step = |words: &[&str], is_elsewhere: bool| {
        let state = sandbox.path(if is_elsewhere { "other-state" } else { "home/.local/state" });
        sandbox.haul(["job"]).args(words).env("XDG_STATE_HOME", state).run()
    };
    let steps: [&[&str]; 4] = [
        &["shard", "job", "0"],
        &["run", "job"],
        &["verify", "job"],
        &["manifest", "--image", "i", "--claim", "c", "job"],
    ];
    for words in steps.iter().filter(|words| words[0] != "verify") {
        step(words, true).ends(2).says(["able to start programs: --target-command=", digest]);
    }
    step(&["shard", "--confirm", &"0".repeat(32), "job", "0"], true).ends(2);
    assert!(!ran.exists() && !sandbox.path("to").exists());
    step(&["shard", "--confirm", digest, "job", "0"], true).succeeds();
    step(&["shard", "job", "0"], false).succeeds();
    step(&["finish", "job"], true).ends(2).says([&format!("haul job finish --confirm {digest} ")[..]]);
    step(&["finish", "--confirm", digest, "job"], true).succeeds();
    compare(&sandbox.path("src"), &sandbox.path("to/src")).unwrap();
    step(&["verify", "job"], false).succeeds();
    step(&["verify", "job"], true).ends(2).says(["able to start programs"]);

    fs::remove_dir_all(sandbox.path("job/verify")).unwrap();
    let description = sandbox.path("job/job.json");
    let text = fs::read_to_string(&description).unwrap();
    fs::write(&description, text.replace("/own\"", "/bad\"")).unwrap();
    for words in steps {
        step(words, false).ends(2).says(["able to start programs: --target-command=", "/bad"]);
        let confirmed = [&words[..1], &["--confirm", digest], &words[1..]].concat();
        step(&confirmed, false).ends(2).says(["/bad"]);
    }
    assert!(ran.exists() && !planted_ran.exists());
}

#[test]
fn slurm_gets_confirmed_lines_alone_and_scripts_that_confirm() {
    let sandbox = Sandbox::new();
    sandbox.file("src/file", "x");
    let submitted = sandbox.path("submitted");
    sandbox.script("bin/scontrol", "#!/bin/sh\necho MaxArraySize = 100\n");
    sandbox.script("bin/squeue", "#!/bin/sh\n");
    sandbox.script("bin/sbatch", &format!("#!/bin/sh\n{{ echo \"$*\"; cat; }} >>'{}'\necho 7\n", submitted.display()));
    let path = format!("{}:/usr/bin:/bin", sandbox.path("bin").display());
    let run = |words: &[&str]| {
        let words = [&["job", "run", "--slurm", "--no-wait"], words].concat();
        sandbox.haul(words).env("PATH", &path).limit(ENGINE_LIMIT).run()
    };
    let target = format!("host:{}", sandbox.path("to").display());
    let (own, ran) = own_command(&sandbox, "own");
    run(&["-r", "--mkdir", "--dir", "job", &own, "--sbatch=--comment=own", "src", &target]).succeeds();
    let text = fs::read_to_string(&submitted).unwrap();
    for line in [
        "--parsable\n#!/bin/sh\n",
        "#SBATCH --comment=own\n",
        " job shard --quiet --confirm ",
        " job finish --confirm ",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    assert!(sandbox.path("job/slurm/finish.sh").exists(), "for people");
    assert!(ran.exists(), "the login is tried before anything is submitted");

    let settings = sandbox.path("job/slurm/settings.json");
    let kept = fs::read_to_string(&settings).unwrap();
    for (from, to) in [("--comment=own", "--comment=bad"), ("\"partition\": null", "\"partition\": \"bad\\nbad\"")] {
        fs::write(&settings, kept.replace(from, to)).unwrap();
        run(&["job"]).ends(2).says(["able to start programs: ", "bad", "haul job run --slurm --confirm "]);
    }
    assert_eq!(fs::read_to_string(&submitted).unwrap(), text);
    fs::write(&settings, kept).unwrap();
    run(&["job"]).succeeds();
}

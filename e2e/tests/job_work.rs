//! `haul job work`, `haul job list`, the command at the end of a job, and its rate limit.

use std::fs;
use std::time::{Duration, Instant};

use haul_e2e::{Options, ProgramRun, Remote, Sandbox, compare, listing};

const LIMIT: Duration = Duration::from_secs(90);

fn planned(sandbox: &Sandbox) {
    (0..400).for_each(|number| drop(sandbox.file(format!("src/d{}/{number}", number % 7), number.to_string())));
    sandbox.dir("to");
    sandbox.haul(["job", "plan", "-r", "--dir", "job", "--shard-files", "40", "src", "to"]).run().succeeds();
}

#[track_caller]
fn is_finished(sandbox: &Sandbox) {
    sandbox.haul(["job", "finish", "job"]).run().succeeds();
    compare(&sandbox.path("src"), &sandbox.path("to/src")).unwrap();
}

#[test]
fn several_processes_take_shards_until_none_is_left_and_each_runs_once() {
    let sandbox = Sandbox::new();
    planned(&sandbox);
    let work = || sandbox.haul(["job", "work", "--local", "2", "job"]).limit(LIMIT).start();
    for running in [work(), work(), work()] {
        ProgramRun::of(running).succeeds();
    }
    let attempts = listing(&sandbox.path("job/attempts"));
    assert!(attempts.len() > 8, "{attempts:?}");
    for name in attempts {
        let text = fs::read_to_string(sandbox.path("job/attempts").join(&name)).unwrap();
        assert_eq!(text.lines().count(), 1, "{name}: {text}");
    }
    sandbox.haul(["job", "work", "job"]).run().succeeds().says(["all shards have ended; next: haul job finish"]);
    is_finished(&sandbox);
}

#[test]
fn hosts_of_a_list_take_shards_by_ssh_and_end_with_the_command() {
    let sandbox = Sandbox::new();
    planned(&sandbox);
    let remote = Remote::with_haul(&sandbox, Options::default());
    let options: String = remote.sshd().ssh_options().iter().map(|option| format!(" -o '{option}'")).collect();
    let (port, key) = (remote.sshd().port(), remote.sshd().identity().display().to_string());
    sandbox.script("bin/ssh", &format!("#!/bin/sh\nexec /usr/bin/ssh -p {port} -i '{key}'{options} \"$@\"\n"));
    let path = format!("{}:/usr/bin:/bin", sandbox.path("bin").display());
    let host = remote.sshd().host();
    let hosts = format!("{host},{host}");
    let run =
        sandbox.haul(["job", "work", "--local", "2", "--hosts", &hosts, "job"]).env("PATH", path).limit(LIMIT).run();
    run.succeeds().says(["all shards have ended"]);
    is_finished(&sandbox);
}

#[test]
fn a_plan_that_nobody_completes_is_named() {
    let sandbox = Sandbox::new();
    planned(&sandbox);
    let plan = sandbox.path("job/plan");
    let text = fs::read_to_string(&plan).unwrap();
    fs::write(
        &plan,
        text.lines().filter(|line| !line.starts_with("complete")).map(|line| format!("{line}\n")).collect::<String>(),
    )
    .unwrap();
    sandbox.haul(["job", "work", "job"]).limit(LIMIT).run().ends(1).says(["the plan is not complete", "haul job run"]);
}

#[test]
fn a_command_runs_at_the_end_and_the_list_has_the_job() {
    let sandbox = Sandbox::new();
    sandbox.file("src/file", "x");
    let command = "echo \"$HAUL_STATUS $HAUL_JOB\" > notified; test -s \"$HAUL_REPORT\"";
    sandbox.haul(["job", "run", "-r", "--dir", "job", "--notify", command, "src", "to"]).run().succeeds();
    let notified = fs::read_to_string(sandbox.path("notified")).unwrap();
    assert_eq!(notified, format!("0 {}\n", sandbox.path("job").display()));
    sandbox.haul(["job", "plan", "-r", "--dir", "other", "src", "elsewhere"]).run().succeeds();
    let list = sandbox.haul(["job", "list"]).run().succeeds().stdout;
    let rows: Vec<_> = list.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).collect();
    assert_eq!(
        rows.iter().map(|row| row[..2].to_vec()).collect::<Vec<_>>(),
        [["finished", "1/1"], ["unfinished", "0/1"]]
    );
    assert_eq!(sandbox.haul(["job", "list", "--json"]).run().succeeds().events().len(), 2);
    // Another host's user has confirmed nothing.
    let elsewhere = sandbox.dir("other-state").display().to_string();
    sandbox.haul(["job", "run", "job"]).env("XDG_STATE_HOME", elsewhere).run().ends(2).says(["--notify="]);
    sandbox.haul(["job", "list", "job"]).run().ends(2).says(["takes no job"]);
}

#[test]
fn a_rate_limit_holds_for_all_shards_together() {
    let sandbox = Sandbox::new();
    (0..8).for_each(|number| drop(sandbox.big_file(format!("src/{number}"), 1 << 20)));
    let words = [
        "job",
        "run",
        "-r",
        "--mkdir",
        "--dir",
        "job",
        "--local",
        "4",
        "--shard-bytes",
        "1m",
        "--xfrrate",
        "2m",
        "src",
        "to",
    ];
    let begun = Instant::now();
    sandbox.haul(words).limit(LIMIT).run().succeeds();
    assert!(begun.elapsed() > Duration::from_secs(3), "8 MiB at 2 MiB/s took {:?}", begun.elapsed());
    compare(&sandbox.path("src"), &sandbox.path("to/src")).unwrap();
}

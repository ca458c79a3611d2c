//! `haul job` with its source on other hosts: planned, copied, compared and finished through ssh.

use std::ffi::{OsStr, OsString};
use std::fs::{self, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::thread;
use std::time::Duration;

use haul_e2e::{Haul, ProgramRun, Remote, Sandbox, compare, fifo, listing, mode, mtime, set_mtime};

/// Directories with modes and times, odd names, links and hard links, and a file beyond `--shard-range`.
fn tree(sandbox: &Sandbox) {
    for number in 0..200 {
        let dir = match number % 3 {
            0 => sandbox.path("src/plain"),
            1 => sandbox.path("src").join(OsStr::from_bytes(b"\xff:new\nline")),
            _ => sandbox.path(format!("src/deep/{}", number % 7)),
        };
        fs::create_dir_all(&dir).unwrap();
        let file = dir.join(format!("{number}"));
        fs::write(&file, format!("{number}").repeat(number % 50)).unwrap();
        set_mtime(&file, 1_500_000_000 + number as i64, 7);
    }
    sandbox.big_file("src/large", 3_000_000);
    sandbox.dir("src/empty");
    fs::hard_link(sandbox.path("src/plain/3"), sandbox.path("src/deep/again")).unwrap();
    symlink("nowhere", sandbox.path("src/link")).unwrap();
    symlink("plain", sandbox.path("src/directory")).unwrap();
    for (number, dir) in ["empty", "plain", "deep", ""].into_iter().enumerate() {
        let dir = sandbox.path("src").join(dir);
        fs::set_permissions(&dir, Permissions::from_mode(if number % 2 == 0 { 0o2751 } else { 0o705 })).unwrap();
        set_mtime(&dir, 1_400_000_000 + number as i64, 5);
    }
}

/// A tree on a host with ssh, as its operand, and a place for it here.
fn tree_on_a_host() -> (Sandbox, Remote, OsString) {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    tree(&sandbox);
    sandbox.dir("to");
    let from = remote.at(sandbox.path("src"));
    (sandbox, remote, from)
}

/// A step of the job with the options of ssh.
fn job<'a>(sandbox: &'a Sandbox, remote: &Remote, words: &[&str]) -> Haul<'a> {
    sandbox.haul(["job"]).args(words).args(remote.sshd().haul_args())
}

/// A step that takes no options of a copy.
fn step<'a>(sandbox: &'a Sandbox, words: &[&str]) -> Haul<'a> {
    sandbox.haul(["job"]).args(words)
}

#[track_caller]
fn is_the_source(sandbox: &Sandbox, target: &Path) {
    compare(&sandbox.path("src"), target).unwrap();
    for name in ["empty", "plain", "deep", ""] {
        let [source, target] = [sandbox.path("src").join(name), target.join(name)];
        assert_eq!((mode(&source), mtime(&source)), (mode(&target), mtime(&target)), "{name}");
    }
    let inode = |path: &str| fs::metadata(target.join(path)).unwrap().ino();
    assert_eq!(inode("deep/again"), inode("plain/3"));
}

fn shards(sandbox: &Sandbox) -> usize {
    let plan = fs::read_to_string(sandbox.path("job/plan")).unwrap();
    plan.lines().filter(|line| line.contains(" planned")).count()
}

#[test]
fn a_remote_source_is_planned_copied_and_compared_and_a_rerun_moves_nothing() {
    let (sandbox, remote, from) = tree_on_a_host();
    let words = ["run", "-aHAX", "--dir", "job", "--shard-files", "40", "--local", "2", "--then-verify"];
    let run = job(&sandbox, &remote, &words).arg(&from).arg("to").run().succeeds();
    assert!(run.stdout.contains("source and target are the same"), "{}", run.account());
    is_the_source(&sandbox, &sandbox.path("to/src"));
    assert!(shards(&sandbox) > 4);
    assert_eq!(listing(&sandbox.path("job/vacant")), Vec::<String>::new());
    let again = step(&sandbox, &["shard", "--json", "job", "3"]).run().succeeds();
    assert_eq!(again.summary()["bytes"].as_u64(), Some(0), "{}", again.account());
    remote.is_left_clean();
}

#[test]
fn hosts_of_one_source_take_turns_without_a_silent_one() {
    let (sandbox, remote, from) = tree_on_a_host();
    // Nobody listens on this port: the login fails at once.
    let silent = OsString::from(format!("nobody@[127.0.0.1]:{}", sandbox.path("src").display()));
    fs::write(sandbox.path("sources"), from.as_encoded_bytes()).unwrap();
    let sizes = ["--shard-files", "40", "--ssh-option", "ConnectTimeout=2"];
    let words = ["run", "-aHAX", "--dir", "job", "--sources", "sources"];
    let run = job(&sandbox, &remote, &words).args(sizes).arg(&silent).arg("to").run();
    let run = run.says(["other sources take its turns for a while"]).succeeds();
    compare(&sandbox.path("src"), &sandbox.path("to/src")).unwrap_or_else(|error| panic!("{error}\n{}", run.account()));
    let status = step(&sandbox, &["status", "job"]).run().succeeds();
    assert!(status.stdout.contains("and 1 more hosts to"), "{}", status.account());
}

#[test]
fn a_killed_plan_is_restarted_and_a_killed_run_resumes() {
    let (sandbox, remote, from) = tree_on_a_host();
    let step = |step| {
        let words = [step, "-aHAX", "--dir", "job", "--shard-files", "20", "--xfrrate", "8m"];
        job(&sandbox, &remote, &words).arg(&from).arg("to")
    };
    // A login takes about half a second.
    for (name, millis) in [("plan", 400), ("plan", 700), ("plan", 1000), ("run", 1500), ("run", 2000)] {
        let killed = step(name).start();
        thread::sleep(Duration::from_millis(millis));
        drop(killed);
    }
    step("run").run().succeeds();
    is_the_source(&sandbox, &sandbox.path("to/src"));
    remote.is_left_clean();
}

#[test]
fn changes_since_the_plan_are_copied_or_reported_and_another_job_on_the_target_is_refused() {
    let (sandbox, remote, from) = tree_on_a_host();
    let plan = |dir| job(&sandbox, &remote, &["plan", "-aHAX", "--dir", dir]).arg(&from).arg("to").run();
    plan("job").succeeds();
    plan("other").ends(2).says(["copies to this target", "haul job cancel"]);
    fs::remove_file(sandbox.path("src/plain/6")).unwrap();
    sandbox.file("src/plain/9", "written after the plan");
    let run = step(&sandbox, &["run", "job"]).run().ends(5);
    assert!(run.stdout.contains("1 file vanished at the source"), "{}", run.account());
    assert_eq!(fs::read_to_string(sandbox.path("to/src/plain/9")).unwrap(), "written after the plan");
    assert!(!sandbox.path("to/src/plain/6").exists() && sandbox.path("to/src/plain/12").exists());
}

#[test]
fn a_pulled_sync_deletes_extraneous_files_under_filters() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    tree(&sandbox);
    fifo(&sandbox.path("src/fifo"));
    sandbox.file("to/extraneous", "x");
    sandbox.file("to/plain/old", "x");
    let mut from = remote.at(sandbox.path("src"));
    from.push("/");
    let words = ["run", "--sync", "--delete", "-aHAX", "--dir", "job", "--shard-files", "40", "--exclude", "deep/"];
    job(&sandbox, &remote, &words).arg(&from).arg("to").run().succeeds();
    assert!(!sandbox.path("to/extraneous").exists() && !sandbox.path("to/plain/old").exists());
    assert!(
        !sandbox.path("to/deep").exists() && sandbox.path("to/plain/3").exists() && sandbox.path("to/large").exists()
    );
    assert_eq!(mtime(&sandbox.path("to/plain")), mtime(&sandbox.path("src/plain")));
}

#[test]
fn the_contents_of_a_flat_or_an_empty_source_are_pulled() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    sandbox.file("flat/a", "a");
    sandbox.dir("empty");
    for (name, files) in [("flat", vec!["a"]), ("empty", Vec::new())] {
        let target = format!("to-{name}");
        sandbox.dir(&target);
        let mut from = remote.at(sandbox.path(name));
        from.push("/");
        let words = ["run", "--sync", "--dir", &format!("job-{name}")];
        job(&sandbox, &remote, &words).arg(&from).arg(&target).run().succeeds();
        assert_eq!(listing(&sandbox.path(&target)), files, "{name}");
    }
}

#[test]
fn an_impossible_pull_is_refused_with_the_remedy() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    sandbox.dir("to");
    sandbox.file("file", "x");
    let plan =
        |words: &[&OsStr]| -> ProgramRun { job(&sandbox, &remote, &["plan", "-r", "--dir", "job"]).args(words).run() };
    let (from, other) = (remote.at(sandbox.path("src")), remote.at(sandbox.path("elsewhere")));
    let to = OsStr::new("to");
    plan(&[&from, to]).ends(2).says(["src: No such file", "a job copies a directory"]);
    fs::remove_dir_all(sandbox.path("job")).unwrap();
    plan(&[&remote.at(sandbox.path("file")), to]).ends(2).says(["file: not a directory"]);
    fs::remove_dir_all(sandbox.path("job")).unwrap();
    plan(&[OsStr::new("haul://host:7/src"), to]).ends(2).says(["a server reads no lists of files"]);
    for more in [[to, other.as_os_str()], [other.as_os_str(), to]] {
        plan(&[&from, more[0], more[1]]).ends(2).says(["has one target", "the same path"]);
    }
}

//! `haul job`: a tree of odd names and links in shards, run in any order, twice, and after kills, equals the source in
//! the end. Also invalid requests.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::thread;
use std::time::Duration;

use haul_e2e::{
    Haul, ProgramRun, Remote, Rng, Sandbox, compare, eventually, fifo, give_to_user, listing, mode, mtime, set_mtime,
};
use rustix::fs::{XattrFlags, lgetxattr, lsetxattr};
use serde_json::Value;

/// Files of the tree.
const FILES: u32 = 3000;

/// Thousands of files with odd names, hard links across directories, empty directories, symbolic links and modes.
fn tree(sandbox: &Sandbox) {
    for number in 0..FILES {
        let dir = match number % 5 {
            0 => sandbox.path("src/plain"),
            1 => sandbox.path("src/h:dir").join(OsStr::from_bytes(b"new\nline")),
            2 => sandbox.path("src").join(OsStr::from_bytes(b"\xff\xfe")),
            3 => sandbox.path(format!("src/deep/{}/{}", number % 11, number % 7)),
            _ => sandbox.path("src/-dash"),
        };
        fs::create_dir_all(&dir).unwrap();
        let file = dir.join(match number % 3 {
            0 => format!("{number}:x"),
            1 => format!("-{number}"),
            _ => format!("{number}\n\t'"),
        });
        fs::write(&file, format!("{number}").repeat(number as usize % 50)).unwrap();
        set_mtime(&file, 1_500_000_000 + i64::from(number), number);
        if number % 10 == 0 {
            sandbox.dir("src/links");
            fs::hard_link(&file, sandbox.path(format!("src/links/{number}"))).unwrap();
            set_mtime(&file, 1_500_000_000 + i64::from(number), number);
        }
    }
    sandbox.big_file("src/large", 3_000_000);
    sandbox.dir("src/empty/emptier");
    symlink("nowhere at all", sandbox.path("src/link")).unwrap();
    symlink("plain", sandbox.path("src/link to a directory")).unwrap();
    for (number, dir) in ["empty/emptier", "empty", "plain", "deep", "links", "-dash", ""].into_iter().enumerate() {
        let dir = sandbox.path("src").join(dir);
        let odd = if number % 2 == 0 { 0o2751 } else { 0o705 };
        fs::set_permissions(&dir, Permissions::from_mode(odd)).unwrap();
        set_mtime(&dir, 1_400_000_000 + number as i64, 5);
    }
}

/// The target is the source: contents, links, modes, and times of directories.
#[track_caller]
fn is_the_source(sandbox: &Sandbox, target: &str) {
    compare(&sandbox.path("src"), &sandbox.path(target)).unwrap();
    for name in ["empty/emptier", "empty", "plain", "deep", "links", "-dash", ""] {
        let [source, target] = ["src", target].map(|root| sandbox.path(root).join(name));
        assert_eq!((mode(&source), mtime(&source)), (mode(&target), mtime(&target)), "{name}");
    }
    let inode = |path: &str| fs::metadata(sandbox.path(target).join(path)).unwrap().ino();
    assert_eq!(inode("links/0"), inode("plain/0:x"));
    assert!(sandbox.path(target).join("link").is_symlink());
}

fn job<'a>(sandbox: &'a Sandbox, words: &[&str]) -> Haul<'a> {
    sandbox.haul(["job"]).args(words)
}

/// The last line of `haul job status --json`, and its exit status.
#[track_caller]
fn status(sandbox: &Sandbox) -> (Value, Option<i32>) {
    let run = job(sandbox, &["status", "--json", "job"]).run();
    (run.events().pop().unwrap(), run.status)
}

fn plan(sandbox: &Sandbox, more: &[&str]) {
    job(sandbox, &["plan", "-aHAX", "--mkdir", "--dir", "job", "--shard-files", "150"])
        .args(more)
        .args(["src", "to"])
        .run()
        .succeeds();
}

/// Numbers of the planned shards.
fn shards(sandbox: &Sandbox) -> Vec<u32> {
    let plan = fs::read_to_string(sandbox.path("job/plan")).unwrap();
    let mut numbers: Vec<u32> = plan.lines().filter_map(|line| line.split(' ').next()?.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}

fn shard(sandbox: &Sandbox, number: u32) -> Haul<'_> {
    job(sandbox, &["shard", "--json", "job"]).arg(number.to_string())
}

fn shuffle(numbers: &mut [u32], rng: &mut Rng) {
    for at in (1..numbers.len()).rev() {
        numbers.swap(at, rng.index(at + 1));
    }
}

/// `haul job shard` and `finish` on a node with a configuration directory of its own.
fn on_node<'a>(sandbox: &'a Sandbox, node: &str, words: &[&str]) -> Haul<'a> {
    job(sandbox, words).env("XDG_CONFIG_HOME", sandbox.path(node))
}

#[test]
fn nodes_with_contradicting_configurations_copy_by_the_options_of_the_plan() {
    let sandbox = Sandbox::new();
    let names: Vec<_> = (0..40).map(|number| format!("src/{number}")).collect();
    for name in &names {
        let file = sandbox.file(name, name);
        lsetxattr(&file, "user.kept", b"yes", XattrFlags::empty()).unwrap();
    }
    sandbox.file("src/skipped.o", "object");
    fs::hard_link(sandbox.path("src/0"), sandbox.path("src/linked")).unwrap();
    sandbox.file("planning/haul/config.toml", "archive = true\nhard-links = true\nxattrs = true\n");
    sandbox.file("planning/patterns", "*.o\n");
    sandbox.file("other/haul/config.toml", "xattrs = false\nstreams = 1\n");
    sandbox.file("broken/haul/config.toml", "no-such-option = 1\n");
    sandbox.dir("to");
    let words = ["plan", "--dir", "job", "--shard-files", "5", "--exclude-from", "planning/patterns", "src", "to"];
    on_node(&sandbox, "planning", &words).run().succeeds();
    fs::remove_file(sandbox.path("planning/patterns")).unwrap();
    on_node(&sandbox, "broken", &["shard", "job", "0"]).run().ends(2).says(["no-such-option"]);
    for number in shards(&sandbox) {
        let node = ["planning", "other"][number as usize % 2];
        if node == "planning" {
            sandbox.file("planning/haul/config.toml", "");
        }
        on_node(&sandbox, node, &["shard", "job", &number.to_string()]).run().succeeds();
    }
    on_node(&sandbox, "other", &["finish", "job"]).run().succeeds();
    for name in &names {
        let mut value = [0; 8];
        let copy = sandbox.path(name.replacen("src", "to/src", 1));
        let len = lgetxattr(&copy, "user.kept", &mut value[..]).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(&value[..len], b"yes", "{name}");
    }
    let inode = |name: &str| fs::metadata(sandbox.path("to/src").join(name)).unwrap().ino();
    assert_eq!(inode("0"), inode("linked"));
    assert!(!sandbox.path("to/src/skipped.o").exists());
}

#[test]
fn shards_in_any_order_repeated_and_killed_give_the_source() {
    let sandbox = Sandbox::new();
    tree(&sandbox);
    sandbox.dir("to");
    plan(&sandbox, &[]);
    let mut numbers = shards(&sandbox);
    assert!(numbers.len() > 15, "{numbers:?}");
    assert!((0..).zip(&numbers).all(|(at, number)| at == *number), "{numbers:?}");
    let (before, exit) = status(&sandbox);
    assert_eq!((before["planned"].as_bool(), before["copied"].as_bool(), exit), (Some(true), Some(false), Some(4)));
    job(&sandbox, &["finish", "job"]).run().ends(1).says([&format!("{} shards are not done", numbers.len())[..]]);

    let mut rng = Rng::new(40);
    shuffle(&mut numbers, &mut rng);
    for (at, number) in numbers.iter().enumerate() {
        if at % 3 == 0 {
            let running = shard(&sandbox, *number).start();
            thread::sleep(Duration::from_millis(rng.below(150)));
            drop(running);
        }
        if at % 3 != 1 {
            shard(&sandbox, *number).limit(Duration::from_secs(120)).run().succeeds();
        }
    }
    let missing = numbers.iter().skip(1).step_by(3).count();
    let refused = job(&sandbox, &["finish", "job"]).run().ends(1);
    assert!(refused.stderr.contains("not done"), "{missing}: {}", refused.account());
    numbers.iter().for_each(|number| drop(shard(&sandbox, *number).run().succeeds()));
    assert_eq!(status(&sandbox).0["shards"]["done"].as_u64(), Some(numbers.len() as u64));

    job(&sandbox, &["finish", "--verify", "job"]).run().succeeds();
    is_the_source(&sandbox, "to/src");
    sandbox.haul(["verify", "-aHAX", "src", "to"]).run().succeeds();
    let (after, exit) = status(&sandbox);
    assert_eq!((after["finished"].as_bool(), exit), (Some(true), Some(0)), "{after}");
    let report: Value = serde_json::from_slice(&fs::read(sandbox.path("job/report.json")).unwrap()).unwrap();
    assert_eq!((report["verified"].as_bool(), report["failed"].as_u64()), (Some(true), Some(0)));
    assert!(report["reruns"].as_u64() >= Some(numbers.len() as u64 / 2), "{report}");
    for folder in ["running", "spill", "failures"] {
        assert_eq!(listing(&sandbox.path("job").join(folder)), [""; 0], "{folder}");
    }
}

#[test]
fn a_finished_shard_moves_no_payload_when_it_is_run_again() {
    let sandbox = Sandbox::new();
    tree(&sandbox);
    sandbox.dir("to");
    plan(&sandbox, &[]);
    for number in shards(&sandbox) {
        let first = shard(&sandbox, number).run().succeeds().summary();
        let again = shard(&sandbox, number).run().succeeds().summary();
        assert_eq!((again["bytes"].as_u64(), again["files_copied"].as_u64()), (Some(0), Some(0)), "{again}");
        assert_eq!(again["bytes_skipped"].as_u64(), first["bytes"].as_u64(), "{again}");
    }
}

#[test]
fn a_job_runs_on_one_host_during_its_planning_and_resumes_after_a_kill() {
    let sandbox = Sandbox::new();
    tree(&sandbox);
    let words = [
        "run",
        "-aHAX",
        "--mkdir",
        "--dir",
        "job",
        "--shard-files",
        "150",
        "--local",
        "3",
        "--xfrrate",
        "1200k",
        "src",
        "to",
    ];
    let running = job(&sandbox, &words).start();
    eventually("two results", || fs::read_dir(sandbox.path("job/results")).is_ok_and(|results| results.count() > 1));
    drop(running);
    let (killed, exit) = status(&sandbox);
    assert_eq!((killed["finished"].as_bool(), exit), (Some(false), Some(4)), "{killed}");
    let run = job(&sandbox, &["run", "job", "--local", "3", "--then-verify"])
        .limit(Duration::from_secs(120))
        .run()
        .succeeds();
    is_the_source(&sandbox, "to/src");
    assert!(run.stdout.contains("shards: "), "{}", run.account());
    let report = job(&sandbox, &["report", "--json", "job"]).run().succeeds();
    let report: Value = serde_json::from_str(&report.stdout).unwrap();
    assert_eq!((report["verified"].as_bool(), report["shards_done"].as_u64()), (Some(true), report["shards"].as_u64()));
}

#[test]
fn a_page_has_the_figures_of_the_json_and_names_in_it_are_only_text() {
    let sandbox = Sandbox::new();
    (0..400).for_each(|number| drop(sandbox.file(format!("<img src=x>/{number}"), vec![b'x'; 1000])));
    let words = ["run", "-r", "--quiet", "--dir", "job", "--shard-files", "60", "--local", "2", "<img src=x>", "to"];
    job(&sandbox, &words).run().succeeds();
    // A node with a hostile name and message.
    let odd = sandbox.path("job/results/000002.json");
    let mut result: Value = serde_json::from_slice(&fs::read(&odd).unwrap()).unwrap();
    result["host"] = "<script>alert(1)</script>".into();
    (result["state"], result["message"]) = ("interrupted".into(), "\u{1b}[2J<b>".into());
    fs::write(&odd, result.to_string()).unwrap();
    fs::remove_file(sandbox.path("job/report.json")).unwrap();

    let report = job(&sandbox, &["report", "--json", "job"]).run().ends(4);
    let report: Value = serde_json::from_str(&report.stdout).unwrap();
    assert_eq!(job(&sandbox, &["report", "--out", "job.html", "job"]).run().ends(4).stdout, "job.html\n");
    let page = fs::read_to_string(sandbox.path("job.html")).unwrap();
    let (done, shards) = (&report["shards_done"], report["shards"].as_u64().unwrap());
    assert!(shards > 6 && done.as_u64() == Some(shards - 1), "{report}");
    let mut said = vec![
        format!("{done} of {shards} shards done, 1 interrupted: 400 files, 400.0 kB in "),
        "shard 2: interrupted on &lt;script&gt;alert(1)&lt;/script&gt; \\u{1b}[2J&lt;b&gt;</li>".to_owned(),
        "<h3>Rate of all hosts together</h3>".to_owned(),
    ];
    let text = |value: &Value| value.as_str().unwrap().replace('<', "&lt;").replace('>', "&gt;");
    for host in report["hosts"].as_array().unwrap() {
        said.push(format!("<tr><td>{}</td><td>{}</td>", text(&host["host"]), host["shards"]));
    }
    for slow in report["slowest"].as_array().unwrap() {
        said.push(format!("<tr><td>{}</td><td>{}</td>", slow["shard"], text(&slow["host"])));
    }
    for said in said {
        assert!(page.contains(&said), "{said}: {page}");
    }
    for never in ["<img", "<script", "<b>", "\u{1b}"] {
        assert!(!page.contains(never), "{never}: {page}");
    }
    job(&sandbox, &["report", "--out", "job.pdf", "job"]).run().ends(2).says(["job.pdf", ".html", ".md"]);
    job(&sandbox, &["report", "--out", "job.md", "job"]).run().ends(4);
    assert!(fs::read_to_string(sandbox.path("job.md")).unwrap().contains("All hosts over time"));
}

#[test]
fn a_sync_deletes_extraneous_files_after_all_shards() {
    let sandbox = Sandbox::new();
    tree(&sandbox);
    sandbox.file("to/extraneous/file", "x");
    sandbox.file("to/plain/0:x", "another");
    sandbox.file("to/plain/extraneous", "x");
    let run = |sandbox: &Sandbox| {
        job(sandbox, &["plan", "--sync", "--delete", "-aHAX", "--dir", "job", "--shard-files", "400", "src/", "to"])
            .run()
            .succeeds();
        shards(sandbox).into_iter().for_each(|number| drop(shard(sandbox, number).run().succeeds()));
    };
    run(&sandbox);
    assert!(sandbox.path("to/extraneous/file").exists(), "shards delete nothing");
    job(&sandbox, &["finish", "job"]).run().succeeds();
    is_the_source(&sandbox, "to");
    assert!(!sandbox.path("to/extraneous").exists());
}

#[test]
fn a_copy_with_delete_is_a_job_too() {
    let sandbox = Sandbox::new();
    sandbox.file("src/a", "a");
    sandbox.file("to/src/extraneous", "x");
    sandbox.file("to/beside", "x");
    job(&sandbox, &["run", "-r", "-f", "--delete", "--dir", "job", "src", "to"]).run().succeeds();
    assert_eq!([listing(&sandbox.path("to")), listing(&sandbox.path("to/src"))].concat(), ["beside", "src", "a"]);
}

#[test]
fn filters_and_special_files_hold_in_a_job() {
    let sandbox = Sandbox::new();
    sandbox.file("src/a/keep.c", "c");
    sandbox.file("src/a/drop.o", "o");
    sandbox.file("src/tmp/inside", "x");
    fifo(&sandbox.path("src/fifo"));
    let words =
        ["run", "-r", "--mkdir", "--specials", "--exclude", "*.o", "--exclude", "tmp/", "--dir", "job", "src", "to"];
    job(&sandbox, &words).run().succeeds();
    assert_eq!(listing(&sandbox.path("to/src")), ["a", "fifo"]);
    assert_eq!(listing(&sandbox.path("to/src/a")), ["keep.c"]);
}

#[test]
fn a_failed_file_is_named_once_and_everything_else_is_finished() {
    let sandbox = Sandbox::new();
    sandbox.file("src/good", "good");
    sandbox.file("src/closed", "closed");
    sandbox.dir("src/empty");
    sandbox.dir("src/links");
    fs::hard_link(sandbox.path("src/good"), sandbox.path("src/links/good")).unwrap();
    set_mtime(&sandbox.path("src/empty"), 1_400_000_000, 5);
    fs::set_permissions(sandbox.path("src/closed"), Permissions::from_mode(0o000)).unwrap();
    give_to_user(&sandbox.dir("own"));
    give_to_user(&sandbox.dir("own/to"));
    give_to_user(&sandbox.file("own/to/extraneous", "x"));
    let user = |words: &[&'static str]| {
        let words = std::iter::once("job").chain(words.iter().copied());
        sandbox.haul_of_user(words.collect::<Vec<_>>()).run()
    };
    let words = ["run", "--sync", "--delete", "-aHAX", "--dir", "own/job", "src/", "own/to"];
    let run = user(&words).ends(1).says(["closed"]);
    assert_eq!(run.stderr.matches("src/closed: Permission denied").count(), 1, "{}", run.account());
    assert!(run.stdout.starts_with("0 of 1 shard done, 1 incomplete: "), "{}", run.account());
    assert!(run.stdout.contains("1 file failed: see failures/ in the job's directory"), "{}", run.account());
    let inode = |name: &str| fs::metadata(sandbox.path("own/to").join(name)).unwrap().ino();
    assert_eq!(inode("good"), inode("links/good"));
    assert_eq!(mtime(&sandbox.path("own/to/empty")), mtime(&sandbox.path("src/empty")));
    assert!(sandbox.path("own/to/extraneous").exists(), "deletions are withheld");
    let table = user(&["status", "own/job"]).ends(1).stdout;
    assert!(table.contains("finished; 1 file failed; haul job run"), "{table}");
    let failures = sandbox.path("own/job/failures");
    assert_eq!(listing(&failures), ["finish.jsonl"]);
    let listed = fs::read_to_string(failures.join("finish.jsonl")).unwrap();
    let lines: Vec<Value> = listed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.len() == 1 && lines[0]["path"].as_str().unwrap().ends_with("closed"), "{listed}");
    // The next run copies the file, and deletes.
    fs::set_permissions(sandbox.path("src/closed"), Permissions::from_mode(0o644)).unwrap();
    user(&["run", "own/job"]).succeeds();
    assert_eq!(listing(&sandbox.path("own/to")), ["closed", "empty", "good", "links"]);
    assert!(listing(&failures).is_empty());
    user(&["status", "own/job"]).succeeds();
}

#[test]
fn a_shard_that_failed_as_a_whole_holds_the_last_step() {
    let sandbox = Sandbox::new();
    sandbox.file("src/good", "good");
    sandbox.file("to", "a file where the target directory belongs");
    let run = job(&sandbox, &["run", "-r", "--dir", "job", "src", "to/below"]).run();
    assert_ne!(run.status, Some(0), "{}", run.account());
    assert_eq!(status(&sandbox).0["shards"]["failed"], 1);
    job(&sandbox, &["finish", "job"]).run().ends(1).says(["1 shard is not done: 0"]);
}

#[test]
fn a_file_that_vanishes_after_the_plan_is_counted_by_its_shard_and_the_job() {
    let sandbox = Sandbox::new();
    (0..20).for_each(|number| drop(sandbox.file(format!("src/{number}"), "x")));
    plan(&sandbox, &[]);
    fs::remove_file(sandbox.path("src/7")).unwrap();
    let statuses: Vec<_> = shards(&sandbox).into_iter().map(|number| shard(&sandbox, number).run().status).collect();
    assert_eq!(statuses.iter().filter(|status| **status == Some(5)).count(), 1, "{statuses:?}");
    let finished = job(&sandbox, &["finish", "--json", "job"]).run().ends(5);
    assert!(finished.stdout.contains(r#""vanished":1"#), "{}", finished.account());
    assert_eq!(status(&sandbox).1, Some(5));
    assert_eq!(listing(&sandbox.path("to/src")).len(), 19);
}

#[test]
fn a_sync_replaces_a_file_by_a_directory_and_the_reverse() {
    let sandbox = Sandbox::new();
    sandbox.file("src/now a directory/inside", "x");
    sandbox.file("src/now a file", "x");
    sandbox.file("to/now a directory", "old");
    sandbox.file("to/now a file/old", "old");
    job(&sandbox, &["run", "--sync", "--delete", "--dir", "job", "src/", "to"]).run().succeeds();
    compare(&sandbox.path("src"), &sandbox.path("to")).unwrap();
    assert_eq!(status(&sandbox).1, Some(0));
}

#[test]
fn a_vanished_file_withholds_no_deletion() {
    let sandbox = Sandbox::new();
    (0..3).for_each(|number| drop(sandbox.file(format!("src/{number}"), "x")));
    sandbox.file("to/extraneous", "x");
    job(&sandbox, &["plan", "--sync", "--delete", "--dir", "job", "src/", "to"]).run().succeeds();
    fs::remove_file(sandbox.path("src/1")).unwrap();
    shard(&sandbox, 0).run().ends(5);
    let run = job(&sandbox, &["finish", "job"]).run().ends(5);
    assert!(run.stdout.contains("1 file vanished at the source"), "{}", run.account());
    assert_eq!(listing(&sandbox.path("to")), ["0", "2"]);
}

#[test]
fn a_second_run_of_a_shard_waits_and_a_cancelled_job_stops() {
    let sandbox = Sandbox::new();
    sandbox.big_file("src/large", 30_000_000);
    sandbox.dir("to");
    job(&sandbox, &["plan", "-r", "--dir", "job", "--xfrrate", "1m", "src", "to"]).run().succeeds();
    let first = shard(&sandbox, 0).start();
    eventually("a lock", || !listing(&sandbox.path("job/running")).is_empty());
    let second = shard(&sandbox, 0).start();
    eventually("an attempt", || listing(&sandbox.path("job/attempts")) == ["000000.log"]);
    let table = job(&sandbox, &["status", "job"]).run().ends(4).stdout;
    assert!(table.contains("running") && table.contains("process"), "{table}");
    let other = job(&sandbox, &["plan", "-r", "--dir", "other", "src", "to"]).run().ends(2);
    other.says(["copies to this target", "haul job cancel"]);
    job(&sandbox, &["cancel", "job"]).run().succeeds();
    for run in [first, second] {
        let run = ProgramRun::of(run).ends(4);
        assert!(run.elapsed < Duration::from_secs(25), "{}", run.account());
    }
    let attempts = fs::read_to_string(sandbox.path("job/attempts/000000.log")).unwrap();
    assert_eq!(attempts.lines().count(), 1, "the second one waited");
    shard(&sandbox, 0).run().ends(4).says(["the job was cancelled", "haul job run"]);
    job(&sandbox, &["plan", "-r", "--dir", "other", "src", "to"]).run().succeeds();
}

#[test]
fn shards_take_turns_on_targets_and_skip_a_silent_host() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    (0..200).for_each(|number| drop(sandbox.file(format!("src/{number}"), "x")));
    sandbox.dir("to");
    let here = remote.at(sandbox.path("to")).into_string().unwrap();
    // Nobody listens on this port: the login fails at once.
    let silent = format!("nobody@[127.0.0.1]:{}", sandbox.path("to").display());
    let ssh = ["--ssh-option", "ConnectTimeout=2"];
    let words = ["-r", "--shard-files", "60", "--dir", "job"];
    let run = job(&sandbox, &["run"]).args(remote.sshd().haul_args()).args(words).args(ssh);
    let run = run.arg("src").args([&silent, &here]).run();
    let run = run.says(["does not answer"]).succeeds();
    compare(&sandbox.path("src"), &sandbox.path("to/src")).unwrap_or_else(|error| panic!("{error}\n{}", run.account()));
}

#[test]
fn an_impossible_job_is_refused_with_the_remedy() {
    let sandbox = Sandbox::new();
    sandbox.file("src/file", "x");
    sandbox.file("full/file", "x");
    sandbox.dir("to");
    sandbox.dir("wide");
    let served = format!("haul://h:1/#{}", "5e".repeat(16));
    let refused: [(&[&str], &[&str]); 11] = [
        (&["shard", "missing", "0"], &["no such job directory on this host", "shared file system"]),
        (&["status", "src"], &["not a job", "haul job plan"]),
        (&["plan", "-r", "--dir", "src/job", "src", "to"], &["in the source"]),
        (&["plan", "-r", "--dir", "to/job", "src", "to"], &["in the target"]),
        (&["plan", "-r", "--dir", "full", "src", "to"], &["not empty"]),
        (&["plan", "-r", "--dir", "wide", "src", "to"], &["wide: others can read", "chmod -R go= "]),
        (&["plan", "-r", "src", "to"], &["needs a directory", "--dir JOB"]),
        (&["plan", "-r", "--dir", "job1", "haul://h/src", "to"], &["a server reads no lists", "HOST:PATH"]),
        (&["plan", "--dir", "job2", "src", "to"], &["a job copies a directory", "-r"]),
        (&["plan", "-r", "--dir", "job4", "src/file", "to"], &["not a directory"]),
        (&["plan", "-r", "--dir", "job5", "src", &served], &["secret", "--secret-file"]),
    ];
    for (words, phrases) in refused {
        job(&sandbox, words).run().ends(2).says(phrases.iter().copied());
    }
    let gone = job(&sandbox, &["plan", "-r", "--dir", "job3", "gone", "to"]).run().ends(1);
    gone.says(["gone: No such file", "mounts the source"]);
    assert!((1..6).all(|number| !sandbox.path(format!("job{number}")).exists()), "nothing is made");
    job(&sandbox, &["plan", "-r", "--dir", "job", "src", "to"]).run().succeeds();
    job(&sandbox, &["plan", "-r", "--preserve", "--dir", "job", "src", "to"]).run().ends(2).says(["there is a job"]);
    job(&sandbox, &["plan", "-r", "--dir", "job", "src", "to"]).run().succeeds();
    shard(&sandbox, 7).run().ends(2).says(["there is no shard 7", "0 to 0"]);
    job(&sandbox, &["shard", "job"]).run().ends(2).says(["SLURM_ARRAY_TASK_ID", "JOB_COMPLETION_INDEX"]);
    job(&sandbox, &["shard", "job"]).env("JOB_COMPLETION_INDEX", "x").run().ends(2).says(["JOB_COMPLETION_INDEX=x"]);
    job(&sandbox, &["shard", "job"]).env("SLURM_ARRAY_TASK_ID", "0").run().succeeds();
    job(&sandbox, &["run", "-f", "job"]).run().ends(2).says(["a job keeps the options"]);
    let description = sandbox.path("job/job.json");
    let text = fs::read_to_string(&description).unwrap();
    for (from, to, phrases) in [
        ("\"format\": 3", "\"format\": 2", ["a plan of format 2", "plan the job again"]),
        ("\"haul\": \"", "\"haul\": \"9.", ["planned by haul 9.", "one version on all hosts"]),
    ] {
        fs::write(&description, text.replacen(from, to, 1)).unwrap();
        shard(&sandbox, 0).run().ends(2).says(phrases);
    }
    // One that was planted for this command line, with something else to copy.
    fs::write(&description, text.replacen("\"verify\": false", "\"verify\": true", 1)).unwrap();
    job(&sandbox, &["run", "-r", "--dir", "job", "src", "to"]).run().ends(2).says(["there is a job"]);
}

/// A job of one shard that seems to be on Slurm, and a squeue that creates `asked`.
fn submitted_job(sandbox: &Sandbox) -> String {
    sandbox.file("src/file", "x");
    sandbox.dir("to");
    job(sandbox, &["plan", "-r", "--dir", "job", "src", "to"]).run().succeeds();
    sandbox.dir("job/slurm");
    sandbox.file("job/slurm/submissions", "array 1 0 0-4294967295\narray 1 0 0\n");
    let asked = sandbox.path("asked");
    sandbox.script("bin/squeue", &format!("#!/bin/sh\n: >'{}'\n", asked.display()));
    format!("{}:/usr/bin:/bin", sandbox.path("bin").display())
}

#[test]
fn a_job_that_others_could_change_is_shown_and_neither_run_nor_written() {
    let sandbox = Sandbox::new();
    let path = submitted_job(&sandbox);
    let (directory, asked) = (sandbox.path("job"), sandbox.path("asked"));
    let refused: [&[&str]; 8] = [
        &["run", "job"],
        &["run", "-r", "--dir", "job", "src", "to"],
        &["plan", "-r", "--dir", "job", "src", "to"],
        &["shard", "job", "0"],
        &["finish", "job"],
        &["verify", "job"],
        &["cancel", "job"],
        &["manifest", "--image", "i", "--claim", "c", "job"],
    ];
    let before = listing(&directory);
    let is_only_shown = |phrases: [&str; 2]| {
        refused.iter().for_each(|words| drop(job(&sandbox, words).run().ends(2).says(phrases)));
        let shown = job(&sandbox, &["status", "job"]).env("PATH", &path).run().ends(4);
        assert!(shown.stdout.contains("planned: 1 file"), "{}", shown.stdout);
        job(&sandbox, &["report", "job"]).env("PATH", &path).run().ends(4);
        assert_eq!((listing(&directory), asked.exists()), (before.clone(), false));
    };
    fs::set_permissions(&directory, Permissions::from_mode(0o770)).unwrap();
    is_only_shown(["others can read or write it (mode 770)", "chmod -R go= "]);
    fs::set_permissions(&directory, Permissions::from_mode(0o700)).unwrap();
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&directory, Some(65_534), None).unwrap();
        is_only_shown(["belongs to another user (65534)", "sudo -u '#65534' haul job"]);
        std::os::unix::fs::chown(&directory, Some(0), None).unwrap();
    }
    job(&sandbox, &["status", "job"]).env("PATH", &path).run().ends(4);
    assert!(asked.exists() && sandbox.path("job/slurm/queue").exists(), "one's own job");
    assert_eq!((mode(&directory), mode(&directory.join("slurm/queue"))), (0o700, 0o600));
    job(&sandbox, &["run", "--local", "1", "--quiet", "job"]).run().succeeds();
}

#[test]
fn whatever_is_in_a_job_is_shown_escaped_and_summed_without_a_panic() {
    let sandbox = Sandbox::new();
    submitted_job(&sandbox);
    job(&sandbox, &["run", "--local", "1", "--quiet", "job"]).run().succeeds();
    let result = sandbox.path("job/results/000000.json");
    let text = fs::read_to_string(&result).unwrap();
    let most = u64::MAX;
    let mut planned = String::new();
    for number in 0..2 {
        let mut value: Value = serde_json::from_str(&text).unwrap();
        (value["shard"], value["host"]) = (number.into(), "n\u{9b}31m\u{202e}".into());
        for figure in ["files_copied", "files_skipped", "failed", "bytes", "bytes_skipped"] {
            value[figure] = most.into();
        }
        fs::write(sandbox.path(format!("job/results/00000{number}.json")), value.to_string()).unwrap();
        planned.push_str(&format!("{number} {most} {most} planned\n"));
    }
    let totals = "directories=0 linked=0 others=0 failed=0 lengthened=0";
    sandbox.file("job/plan", format!("{planned}complete shards=2 files={most} bytes={most} {totals}\n"));
    let report = serde_json::json!({ "finish": { "differences": most, "failed": most }, "by": "\u{9b}\u{202e}" });
    sandbox.file("job/report.json", report.to_string());
    sandbox.file("job/slurm/queue", "1_0|\u{1b}]0;x\u{7}|\u{9b}31m\u{202e}|n1\n1_0|PENDING|\u{9b}31m\u{202e}|n1\n");
    for words in [["status", "job"], ["report", "job"], ["status", "--json"], ["report", "--json"]] {
        let run = job(&sandbox, &words).args((words[1] == "--json").then_some("job")).run();
        assert!(matches!(run.status, Some(0 | 1)), "{}", run.account());
        let is_raw = |letter: char| letter.is_control() && letter != '\n' || letter == '\u{202e}';
        assert!(!run.stdout.contains(is_raw) && !run.stderr.contains(is_raw), "{}", run.account());
    }
    fs::remove_file(sandbox.path("job/plan")).unwrap();
    fifo(&sandbox.path("job/plan"));
    job(&sandbox, &["status", "job"]).run().ends(1).says(["plan: not a regular file"]);
}

#[test]
fn a_list_for_a_job_is_also_one_for_a_copy() {
    let sandbox = Sandbox::new();
    tree(&sandbox);
    sandbox.dir("to");
    plan(&sandbox, &[]);
    let lists: Vec<_> = listing(&sandbox.path("job/shards"));
    for list in lists {
        let compressed = fs::File::open(sandbox.path("job/shards").join(list)).unwrap();
        sandbox.file("list", zstd::decode_all(compressed).unwrap());
        sandbox.haul(["sync", "--null", "--infiles", "list", "--dirbase", ".", "to"]).run().succeeds();
    }
    // Of a file with two names, one is in a list.
    let further = count_files(&sandbox.path("src/links"));
    assert_eq!(count_files(&sandbox.path("to/src")), count_files(&sandbox.path("src")) - further);
}

fn count_files(directory: &Path) -> usize {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries
        .map(|path| if path.is_dir() && !path.is_symlink() { count_files(&path) } else { usize::from(path.is_file()) })
        .sum()
}

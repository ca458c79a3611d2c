//! One source and several targets (`--to`): each target proves its copy, and none harms another.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use haul_e2e::{Haul, ProgramRun, Remote, Sandbox, compare, contents, haul_binary, hidden_or_partial, within};
use rustix::fs::{Advice, fadvise};
use rustix::process::Signal;
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_secs(60);
/// Large enough that a copy alone tries O_DIRECT.
const LARGE: u64 = 272 << 20;

/// The last line of a run with `--json`.
#[track_caller]
fn targets(run: &ProgramRun) -> Value {
    let last = run.events().pop().unwrap_or_else(|| panic!("no event\n{}", run.account()));
    assert_eq!(last["event"], "targets", "{}", run.account());
    last
}

#[test]
fn each_target_has_a_verified_copy_and_a_status() {
    let sandbox = Sandbox::new();
    let (source, remote) = (sandbox.tree("source"), Remote::new(&sandbox));
    sandbox.dir("b");
    let there = remote.at(sandbox.path("c"));
    let haul = || remote.haul(&sandbox).arg("-a").arg(&source).args(["--to", "a,b/deep"]).arg("--to").arg(&there);
    let run = haul().run().succeeds();
    for target in ["a", "b/deep", "c"] {
        compare(&source, &sandbox.path(target)).unwrap();
    }
    let shown = there.to_str().unwrap();
    run.says(["3 of 3 targets complete", "  b/deep: complete", &format!("  {shown}: complete"), "a: 127 files,"]);

    let again = haul().arg("--json").run().succeeds();
    let status = |target: &str| json!({ "to": target, "status": 0 });
    assert_eq!(targets(&again)["targets"], json!([status("a"), status("b/deep"), status(shown)]));
    let events = again.events();
    let (_, of_targets) = events.split_last().unwrap();
    assert!(of_targets.iter().all(|event| event["to"].is_string()), "{}", again.account());
    let summary = |event: &&Value| event["event"] == "summary" && event["files_copied"] == 0 && event["status"] == 0;
    assert_eq!(of_targets.iter().filter(summary).count(), 3, "{}", again.account());
    remote.is_left_clean();
}

#[test]
fn a_host_is_a_source_for_several_targets_too() {
    let sandbox = Sandbox::new();
    let (source, remote) = (sandbox.tree("source"), Remote::new(&sandbox));
    let there = remote.at(sandbox.path("b"));
    remote.haul(&sandbox).arg("-r").arg(remote.at(&source)).args(["--to", "a", "--to"]).arg(there).run().succeeds();
    compare(&source, &sandbox.path("a")).unwrap();
    compare(&source, &sandbox.path("b")).unwrap();
}

#[test]
fn a_target_that_fails_has_its_name_and_the_others_are_complete() {
    let sandbox = Sandbox::new();
    let source = sandbox.big_file("source", 3_000_000);
    sandbox.file("other/source", "another file, which stays");
    sandbox.dir("a");
    sandbox.dir("b");
    let run = sandbox.haul(["--json", "source", "--to", "a,other,nohost.invalid:x,b"]).run().ends(1);
    run.clone().says([
        "haul: other: this host: other/source: already exists",
        "haul: nohost.invalid:x: ",
        "nohost.invalid",
    ]);
    let status = |target: &str, status: u8| json!({ "to": target, "status": status });
    let all = json!([status("a", 0), status("other", 1), status("nohost.invalid:x", 3), status("b", 0)]);
    assert_eq!((&targets(&run)["targets"], &targets(&run)["status"]), (&all, &json!(1)));
    compare(&source, &sandbox.path("a/source")).unwrap();
    compare(&source, &sandbox.path("b/source")).unwrap();
    assert_eq!(contents(&sandbox.path("other/source")), b"another file, which stays");

    let run = sandbox.haul(["source", "--to", "nohost.invalid:x,a"]).run().ends(3);
    run.says(["1 of 2 targets complete", "nohost.invalid:x: not reached (status 3)", "  a: complete"]);
    sandbox.haul(["-q", "source", "--to", "nohost.invalid:x,nohost.invalid:y"]).run().ends(3);
    assert_eq!(sandbox.haul(["-q", "source", "--to", "a,b"]).run().succeeds().stderr, "");
}

#[test]
fn a_killed_run_resumes_where_a_target_lacks_data() {
    let sandbox = Sandbox::new();
    let source = sandbox.big_file("source", 48_000_001);
    for target in ["a", "b"] {
        sandbox.dir(target);
    }
    let haul = |words: &[&str]| sandbox.haul(["source", "--to", "a,b"]).args(words).limit(LIMIT);
    let mut running = haul(&["--xfrrate", "24m"]).start();
    let arrived = |target: &str| hidden_or_partial(&sandbox.path(target), &[], 6_000_000).is_some();
    let both = within(LIMIT, || arrived("a") && arrived("b"));
    running.signal(Signal::KILL);
    running.wait_up_to(LIMIT);
    assert!(both, "{}", running.stderr_so_far());
    sandbox.haul(["source", "a"]).run().succeeds();
    let run = haul(&["--json"]).run().succeeds();
    let resumed: Vec<_> = run.events().into_iter().filter(|event| event["event"] == "resumed").collect();
    assert!(matches!(&resumed[..], [one] if one["to"] == "b"), "{}", run.account());
    for target in ["a", "b"] {
        compare(&source, &sandbox.path(target).join("source")).unwrap();
    }
}

#[test]
fn the_rate_is_that_of_all_targets_and_a_failed_one_leaves_its_share() {
    let sandbox = Sandbox::new();
    sandbox.big_file("source", 12_000_000);
    sandbox.dir("a");
    let run = sandbox.haul(["--json", "--xfrrate", "4m", "source", "--to", "absent/b,a"]).limit(LIMIT).run().ends(2);
    let limit = |event: &Value| (event["event"] == "rate_limit").then(|| event["bytes_per_s"].as_u64());
    assert_eq!(run.events().iter().find_map(limit).flatten(), Some(4 << 20), "{}", run.account());
    assert!(run.elapsed > Duration::from_secs(2), "{}", run.account());
}

/// Bytes that the disk has read for a run, with the source out of the page cache; none where the kernel does not count.
fn disk_reads(sandbox: &Sandbox, source: &Path, words: &[&str]) -> u64 {
    let file = File::open(source).unwrap();
    file.sync_all().unwrap();
    fadvise(&file, 0, None, Advice::DontNeed).unwrap();
    let mut shell = Command::new("sh");
    shell.args(["-c", "\"$0\" \"$@\" && cat /proc/$$/io"]).arg(haul_binary()).args(words);
    let output = shell.current_dir(sandbox.path("")).env("HOME", sandbox.home()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    let bytes = text.lines().find_map(|line| line.strip_prefix("read_bytes: "));
    bytes.map_or(0, |bytes| bytes.parse().unwrap())
}

#[test]
fn the_disk_reads_the_source_once() {
    let sandbox = Sandbox::new();
    let source = sandbox.big_file("source", LARGE);
    let alone = disk_reads(&sandbox, &source, &["-q", "--fsync=none", "source", "alone"]);
    fs::remove_file(sandbox.path("alone")).unwrap();
    if alone < LARGE {
        println!("SKIPPED: the kernel counted {alone} bytes for {LARGE}: no disk, or shared blocks");
        return;
    }
    let all = disk_reads(&sandbox, &source, &["-q", "--fsync=none", "source", "--to", "a,b,c"]);
    assert!(all < LARGE + LARGE / 8, "{all} bytes for {LARGE}");
    assert!(all >= LARGE / 8 * 7, "{all} bytes for {LARGE}: the source was not dropped");
}

#[test]
fn what_cannot_be_meant_is_refused_before_anything_is_copied() {
    let sandbox = Sandbox::new();
    sandbox.file("f", "content");
    for target in ["a", "b"] {
        sandbox.dir(target);
    }
    let refused = |words: &[&str], text: &str| drop(sandbox.haul(words).run().ends(2).says([text]));
    for empty in ["", ",", "a,,b", "a,"] {
        refused(&["f", "--to", empty], "must be targets, separated by commas");
    }
    refused(&["f", "--to"], "--to needs");
    refused(&["f", "--to", "a,b,./a/"], "--to: ./a/ and a are the same target");
    refused(&["f", "--to", "h:x", "--to", "h:./x/"], "are the same target");
    refused(&["f", "h:d", "--to", "a"], "h:d: with --to, all operands are sources");
    refused(&["--to", "a,b"], "no source given");
    refused(&["sync", "f", "--to", "a"], "--to is for copies alone");
    refused(&["sync", "f", "b", "--to", "a"], "--to is for copies alone");
    refused(&["verify", "f", "b", "--to", "a"], "--to");
    refused(&["-r", "-f", "--delete", "f", "--to", "b,b/deep"], "contains the other");
    for (words, option) in [
        (&["--pairs", "f"][..], "--pairs"),
        (&["f", "--pipe", "o"], "--pipe"),
        (&["f", "--report", "x.html"], "--report"),
        (&["f", "--metrics", "x"], "--metrics"),
        (&["f", "--checksums", "x"], "--checksums"),
        (&["f", "--remove-source-files"], "--remove-source-files"),
        (&["f", "--unbuffered", "s"], "--unbuffered s: each target's copy would read"),
        (&["f", "--cache", "cold"], "--cache cold"),
        (&["--infiles", "-"], "--infiles -"),
    ] {
        refused(&[words, &["--to", "a,b"]].concat(), &format!("--to cannot be used with {option}"));
    }
    refused(&["-", "--to", "a,b"], "a pipe has one source and one target");
    assert!(!sandbox.path("a/f").exists() && !sandbox.path("b/f").exists());
    // A comma of a name has a backslash.
    sandbox.dir("c,d");
    sandbox.haul(["f", "--to", "a,c\\,d"]).run().succeeds();
    assert_eq!(contents(&sandbox.path("c,d/f")), b"content");
}

#[test]
fn a_list_a_dry_run_a_deletion_and_a_notification_are_those_of_each_target() {
    let sandbox = Sandbox::new();
    for file in ["src/f", "src/g", "a/src/old", "b/src/f"] {
        sandbox.file(file, "content");
    }
    let haul = |words: &[&str]| sandbox.haul(words).args(["--to", "a,b"]).run();
    let run = haul(&["-r", "-f", "--delete", "--dry-run", "src"]).succeeds();
    let line = |text: &str| run.stdout.lines().any(|line| line.split_whitespace().eq(text.split(' ')));
    assert!(line("a: deleted a/src/old") && line("b: created b/src/g"), "{}", run.account());
    assert!(sandbox.path("a/src/old").exists());
    haul(&["-r", "-f", "--delete", "--notify", "echo $HAUL_STATUS >>ended", "src"]).succeeds();
    compare(&sandbox.path("src"), &sandbox.path("a/src")).unwrap();
    compare(&sandbox.path("src"), &sandbox.path("b/src")).unwrap();
    assert_eq!(contents(&sandbox.path("ended")), b"0\n");
    sandbox.file("list", "src/f\nsrc/g\n");
    haul(&["--infiles", "list"]).succeeds();
    for path in ["a/f", "a/g", "b/f", "b/g"] {
        assert_eq!(contents(&sandbox.path(path)), b"content");
    }
}

#[test]
fn a_detached_copy_to_several_targets_is_one_copy() {
    let sandbox = Sandbox::new();
    let source = sandbox.big_file("big", 8_000_000);
    let haul =
        |words: &[&str]| -> Haul<'_> { sandbox.haul(words).env("XDG_STATE_HOME", sandbox.path("state")).limit(LIMIT) };
    let run = haul(&["--detach", "--xfrrate", "4m", "big", "--to", "a,b"]).run().succeeds();
    assert_eq!(run.stdout, "big-1\n", "{}", run.account());
    let attached = haul(&["copies", "attach", "big-1"]).run().succeeds();
    assert!(attached.stdout.contains("2 of 2 targets complete"), "{}", attached.account());
    compare(&source, &sandbox.path("a")).unwrap();
    compare(&source, &sandbox.path("b")).unwrap();
    let copies = haul(&["copies", "--json"]).run().succeeds().events();
    assert!(matches!(&copies[..], [one] if one["state"] == "done" && one["bytes"] == 16_000_000), "{copies:?}");
}

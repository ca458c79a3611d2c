//! `haul sweep`: the same copy with many settings, measured, interrupted and gone on with.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use haul_e2e::{
    Browser, HostPair, Options, ProgramRun, Remote, Sandbox, contents, eventually, is_root_or_skip, listing, pid,
};
use rustix::process::{Signal, kill_process};
use serde_json::Value;

/// The rows of a record, without its header.
fn rows(sandbox: &Sandbox) -> Vec<String> {
    let text = fs::read_to_string(sandbox.path("sweep.csv")).unwrap_or_default();
    text.lines().filter(|line| !line.starts_with('#')).skip(1).map(str::to_owned).collect()
}

fn json(sandbox: &Sandbox) -> Value {
    serde_json::from_slice(&contents(&sandbox.path("sweep.json"))).unwrap()
}

#[test]
fn every_combination_is_measured_and_reported_in_csv_json_and_html() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    let words = ["sweep", "--no-pause", "-s", "1,3", "--ciphers", "aes-128-gcm,none", "--repeat", "2", "--report"];
    let run = sandbox.haul(words).args(remote.sshd().haul_args()).arg("null:20m").arg(remote.at("null:")).run();
    let run = run.succeeds();
    run.says([
        "1/8  streams 1, cipher aes-128-gcm: ",
        "8/8  streams 3, cipher none: ",
        "the target null: writes nothing",
    ]);
    assert_eq!(rows(&sandbox).len(), 8);
    let told = json(&sandbox);
    let settings = told["settings"].as_array().unwrap();
    assert_eq!(settings.len(), 4);
    for setting in settings {
        assert_eq!(setting["runs"], 2);
        let [least, median, most] = ["least", "median", "most"].map(|it| setting["bytes_per_s"][it].as_f64().unwrap());
        assert!(0.0 < least && least <= median && median <= most, "{setting}");
    }
    for run in told["runs"].as_array().unwrap() {
        assert_eq!((run["bytes"].as_f64(), &run["failure"]), (Some(20_971_520.0), &Value::Null));
        assert_eq!(run["streams_used"].as_f64().map(|used| used.to_string()).as_deref(), run["streams"].as_str());
        let figure = |name: &str| run[name].as_f64().unwrap_or_else(|| panic!("{name}: {run}"));
        for name in
            ["real_s", "data_s", "source_cpu_s", "target_cpu_s", "rtt_unloaded_s", "segments", "stream_window_bytes"]
        {
            assert!(figure(name) > 0.0, "{name}: {run}");
        }
        // The system counts them in ticks.
        let [parts, all] = [["user_s", "system_s"], ["source_cpu_s", "target_cpu_s"]].map(|it| it.map(figure));
        assert!((parts[0] + parts[1] - all[0] - all[1]).abs() < 0.05, "{run}");
    }
    if let Some(browser) = Browser::or_skip(&sandbox) {
        let page = browser.read(&sandbox.path("sweep.html"));
        assert_eq!(page.complaints, Vec::<String>::new());
        let count = |what: &str| page.dom.matches(what).count();
        assert!(count("<svg class=\"chart\"") >= 3 && count("stroke=\"#C4500B\"") >= 2, "{}", page.dom);
        assert!(page.dom.contains("Rate against streams") && page.dom.contains("\nstreams\n</text>"));
    }
}

#[test]
fn an_interrupted_sweep_resumes() {
    if !is_root_or_skip("a slow cable") {
        return;
    }
    let sandbox = Sandbox::new();
    // Each run takes long enough to be interrupted in it, or in the pause after it.
    let pair = HostPair::slow(&sandbox, 100);
    let there = sandbox.dir("there");
    sandbox.file("there/theirs", "theirs");
    sandbox.big_file("source", 6_000_000);
    let sweep = || {
        let haul = sandbox.haul(["sweep", "-s", "1,2,3", "--repeat", "2"]).args(pair.remote.sshd().haul_args());
        haul.arg("source").arg(pair.at(&there)).netns(&pair.near)
    };
    let running = sweep().start();
    eventually("two runs are over", || rows(&sandbox).len() >= 2);
    eventually("a third writes", || listing(&there).len() > 1);
    kill_process(pid(running.id()), Signal::INT).unwrap();
    ProgramRun::of(running).ends(4).says(["interrupted", "rerun the command"]);
    let before = rows(&sandbox);
    assert_eq!(before.len(), 2, "{before:?}");
    assert_eq!(listing(&there), ["theirs"], "what it made is gone");
    assert_eq!(json(&sandbox)["runs"].as_array().unwrap().len(), 2);

    let other = sandbox.haul(["sweep", "-s", "1,2,3"]).args(pair.remote.sshd().haul_args());
    let run = other.arg("source").arg(pair.at(sandbox.path("elsewhere"))).netns(&pair.near).run().ends(1);
    run.says(["record of another sweep", "its target is", "--out"]);
    assert_eq!(rows(&sandbox), before);

    sweep().limit(Duration::from_secs(120)).run().succeeds().says(["3/6", "6/6"]).does_not_say("2/6");
    let after = rows(&sandbox);
    assert_eq!((after.len(), &after[..2]), (6, &before[..]));
    assert_eq!(listing(&there), ["theirs"]);
}

#[test]
fn only_the_scratch_copy_of_a_tree_is_removed() {
    let sandbox = Sandbox::new();
    sandbox.tree("source");
    sandbox.file("target/haul-sweep-not-ours/file", "theirs");
    let words =
        ["sweep", "--json", "--no-pause", "-r", "--engines", "off,auto", "--out", "results", "source", "target"];
    let run = sandbox.haul(words).run().succeeds();
    let lines: Vec<Value> = run.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let events: Vec<_> = lines.iter().map(|line| line["event"].as_str().unwrap()).collect();
    assert_eq!(&events[..2], ["run", "run"]);
    assert_eq!((events.last(), &lines[lines.len() - 1]["status"]), (Some(&"summary"), &Value::from(0)));
    assert_eq!((lines[0]["engine"].as_str(), lines[1]["engine"].as_str()), (Some("off"), Some("auto")));
    assert_eq!(listing(&sandbox.path("target")), ["haul-sweep-not-ours"]);
    assert!(sandbox.path("results.csv").exists() && sandbox.path("results.json").exists());
    let said = lines.iter().filter_map(|line| line["message"].as_str()).collect::<Vec<_>>().join("\n");
    assert!(said.contains("page cache"), "{said}");
}

/// The sweep's directory below `target`.
fn scratch(sandbox: &Sandbox) -> PathBuf {
    let record = fs::read_to_string(sandbox.path("sweep.csv")).unwrap();
    let number = record.lines().find_map(|line| line.strip_prefix("# number ")).unwrap().to_owned();
    sandbox.path(format!("target/haul-sweep-{}", &blake3::hash(number.as_bytes()).to_hex()[..16]))
}

#[test]
fn a_killed_sweeps_remains_are_removed_before_it_resumes() {
    let sandbox = Sandbox::new();
    sandbox.big_file("source", 2_000_000);
    let target = sandbox.dir("target");
    let words = ["sweep", "--no-pause", "--xfrrate", "1m", "-s", "1", "--repeat", "2", "source", "target"];
    let running = sandbox.haul(words).start();
    eventually("the second run writes", || rows(&sandbox).len() == 1 && scratch(&sandbox).join("data").exists());
    running.signal(Signal::KILL);
    drop(ProgramRun::of(running));
    assert_eq!(listing(&target).len(), 1, "it is left");
    sandbox.haul(words).run().succeeds().says(["2/2"]);
    assert_eq!(json(&sandbox)["runs"][1]["bytes"].as_f64(), Some(2_000_000.0), "it was copied anew");
    assert_eq!(listing(&target), Vec::<String>::new());
}

#[test]
fn a_tree_renamed_to_a_sweeps_directory_stays() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    sandbox.file("source", "content");
    let target = sandbox.dir("target");
    for (place, to) in [("here", target.clone().into_os_string()), ("there", remote.at(&target))] {
        let sweep = |rounds| {
            let haul = sandbox.haul(["sweep", "--no-pause", "-s", "1", "--repeat", rounds, "--out", "sweep"]);
            haul.args(remote.sshd().haul_args()).arg("source").arg(&to).run()
        };
        sweep("1").succeeds();
        assert_eq!(listing(&target), Vec::<String>::new(), "{place}");
        let renamed = scratch(&sandbox);
        fs::create_dir_all(renamed.join("data/theirs")).unwrap();
        sweep("2").ends(1).says(["could not be removed: not created by this sweep"]);
        assert!(renamed.join("data/theirs").exists(), "{place}");
        fs::remove_dir_all(renamed).unwrap();
        fs::remove_file(sandbox.path("sweep.csv")).unwrap();
    }
}

#[test]
fn impossible_sweeps_are_refused_and_failures_are_reported() {
    let sandbox = Sandbox::new();
    sandbox.haul(["sweep", "null:1m"]).run().ends(2).says(["null:1g db1:null:"]);
    sandbox.haul(["sweep", "-s", "1,999", "null:1m", "null:"]).run().ends(2).says(["--streams 999"]);
    sandbox
        .haul(["sweep", "--target-command", "ssh %H haul", "null:1m", "db1:there"])
        .run()
        .ends(2)
        .says(["--target-command", "delete"]);
    let words = ["sweep", "--no-pause", "-s", "1,2,3,4", "--repeat", "2", "missing", "null:"];
    let run = sandbox.haul(words).run().ends(1);
    run.says(["1/8", "missing", "gave up"]);
    assert_eq!(rows(&sandbox).len(), 3);
    assert!(json(&sandbox)["runs"][0]["failure"].as_str().unwrap().contains("missing"));
}

#[test]
fn a_missing_host_gives_no_measurement() {
    let sandbox = Sandbox::new();
    let remote = Remote::without_haul(&sandbox, Options::default());
    let words = ["sweep", "--no-pause", "--no-deploy", "-s", "1,2,3,4"];
    let run = sandbox.haul(words).args(remote.sshd().haul_args()).arg("null:1m").arg(remote.at("null:")).run();
    run.ends(1).says(["gave up"]);
    assert_eq!(json(&sandbox)["settings"][0]["bytes_per_s"], Value::Null);
}

#[test]
fn sizes_times_classes_and_targets_are_dimensions_and_the_path_is_pinged() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    let sweep = |words: &[&str]| {
        let haul = sandbox.haul(["sweep", "--no-pause", "--report"]).args(remote.sshd().haul_args());
        haul.args(words.iter().copied())
    };
    let further = remote.at(sandbox.dir("there"));
    let run =
        sweep(&["--sizes", "1m,4m", "--qos", "0,8", "--targets"]).arg(&further).arg("null:").arg(remote.at("null:"));
    run.run().succeeds().says(["8/8  qos 8, size 4m, target "]);
    let told = json(&sandbox);
    let runs = told["runs"].as_array().unwrap();
    for run in runs {
        let size = if run["size"] == "1m" { 1 << 20 } else { 4 << 20 };
        assert_eq!((run["bytes"].as_f64(), &run["failure"]), (Some(f64::from(size)), &Value::Null), "{run}");
        // Whoever may not send echoes has none.
        let [least, median, most, deviation] =
            ["min_s", "s", "max_s", "deviation_s"].map(|name| run[format!("ping_unloaded_{name}")].as_f64());
        assert!(least <= median && median <= most && deviation.is_some() == most.is_some(), "{run}");
        assert!(["source_peak_bytes", "target_peak_bytes"].iter().all(|end| run[end].as_f64() > Some(0.0)), "{run}");
        assert!(run["reordered"].as_f64() >= Some(0.0), "{run}");
        assert!(!rustix::process::geteuid().is_root() || least > Some(0.0), "{run}");
    }
    let written = runs.iter().filter(|run| run["target"].as_str() == further.to_str()).count();
    assert_eq!((runs.len(), written), (8, 4));
    assert_eq!(listing(&sandbox.path("there")), Vec::<String>::new(), "nothing stays");
    let page = fs::read_to_string(sandbox.path("sweep.html")).unwrap();
    assert!(page.contains("Rate against size") && page.contains("Median rate by qos and size"), "{page}");

    let run = sweep(&["--durations", "1s,2s", "--out", "times", "null:"]).arg(remote.at("null:")).run().succeeds();
    run.says(["1/2  duration 1s: ", "2/2  duration 2s: "]);
    let told: Value = serde_json::from_slice(&contents(&sandbox.path("times.json"))).unwrap();
    let times: Vec<_> = told["runs"].as_array().unwrap().iter().map(|run| run["data_s"].as_f64().unwrap()).collect();
    assert!((0.9..1.9).contains(&times[0]) && times[1] > 1.9, "{times:?}");

    sandbox.file("source", "content");
    for (words, said) in [
        (["--sizes", "1m", "source", "null:"], "the source is not null:"),
        (["--sizes", "x", "null:", "null:"], "not a size"),
        (["--durations", "1s", "source", "target"], "the target is not null:"),
    ] {
        sweep(&words).run().ends(2).says([said]);
    }
}

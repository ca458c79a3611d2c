//! `-x`, the signals that change it, and `--cpus`. How smooth the rate is, is measured by `cargo xtask bench --pacing`;
//! here only bounds are held that no slow machine can break.

use std::ffi::OsString;
use std::time::Duration;

use haul_e2e::{ProgramRun, RUN_LIMIT, Remote, Running, Sandbox, compare, eventually, fifo, within};
use haul_lab::descendants;
use rustix::process::Signal;

/// Between two looks at a copy that runs.
const SOON: Duration = Duration::from_millis(20);

/// The least time for `bytes` at this rate, with the permitted burst.
fn least(bytes: u64, per_s: u64) -> Duration {
    Duration::from_millis(bytes * 1000 / per_s) - Duration::from_millis(80)
}

#[test]
fn the_duration_of_a_copy_matches_its_rate() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    sandbox.big_file("tree/big", 5_000_000);
    (0..300).for_each(|n| drop(sandbox.file(format!("tree/small/{n}"), vec![7; 4000])));
    let copy = sandbox.path("copy");
    let ways: [OsString; 2] = [remote.at(&copy), copy.clone().into()];
    for to in ways {
        for streams in ["1", "32"] {
            let run =
                remote.haul(&sandbox).args(["-r", "--xfrrate", "4m", "-s", streams, "--json", "tree"]).arg(&to).run();
            let run = run.succeeds();
            assert!(run.elapsed >= least(6_200_000, 4 << 20), "{}", run.account());
            assert_eq!(run.summary()["rate_limit_bytes_per_s"], 4 << 20, "{}", run.account());
            compare(&sandbox.path("tree"), &copy).unwrap();
            std::fs::remove_dir_all(&copy).expect("it is ours");
        }
    }
}

/// Starts a copy that takes minutes at its rate, and waits until it is under way.
fn slow_copy(sandbox: &Sandbox, remote: &Remote, options: &[&str]) -> Running {
    sandbox.big_file("big", 8_000_000);
    let running =
        remote.haul(sandbox).args(options).args(["--json", "big"]).arg(remote.at(sandbox.path("copy"))).start();
    eventually("it is connected", || running.stdout_so_far().contains("\"connected\""));
    running
}

#[test]
fn sigusr1_makes_it_faster_and_sigusr2_slower() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    let mut running = slow_copy(&sandbox, &remote, &["--xfrrate", "64k"]);
    running.signal(Signal::USR2);
    let half = format!("{{\"event\":\"rate_limit\",\"bytes_per_s\":{}}}", 32 << 10);
    eventually("the rate is halved", || running.stdout_so_far().contains(&half));
    // At this rate it would take four minutes.
    let ended = within(RUN_LIMIT, || {
        running.signal(Signal::USR1);
        running.wait_up_to(SOON)
    });
    assert!(ended, "it is no faster: {}", running.stdout_so_far());
    let run = ProgramRun::of(running).succeeds();
    assert!(run.summary()["rate_limit_bytes_per_s"].as_u64() > Some(64 << 10), "{}", run.account());
    compare(&sandbox.path("big"), &sandbox.path("copy")).unwrap();
}

#[test]
fn sigusr2_limits_an_unlimited_copy() {
    let sandbox = Sandbox::new();
    sandbox.big_file("source", 3_000_000);
    fifo(&sandbox.path("fifo"));
    // Nobody reads more than a little from the pipe: so the copy is still there, at no rate at all.
    let mut reader = std::process::Command::new("sh");
    reader.args(["-c", "exec 3<fifo; head -c 1000 <&3 >/dev/null; sleep 60"]).current_dir(sandbox.path(""));
    let _reader = haul_lab::start(reader).unwrap();
    let running = sandbox.haul(["--json", "source", "fifo"]).start();
    eventually("it is connected", || running.stdout_so_far().contains("\"connected\""));
    running.signal(Signal::USR2);
    eventually("there is a limit", || running.stdout_so_far().contains("{\"event\":\"rate_limit\",\"bytes_per_s\":"));
}

#[test]
fn a_slow_copy_is_interrupted_at_once() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    let mut running = slow_copy(&sandbox, &remote, &["--xfrrate", "1k", "-s", "4"]);
    running.signal(Signal::INT);
    assert!(running.wait_up_to(Duration::from_millis(1500)), "{}", running.stderr_so_far());
    ProgramRun::of(running).ends(4);
    remote.is_left_clean();
}

/// The CPUs that this process may use, as the kernel lists them.
fn allowed(status: &str) -> Option<String> {
    let text = std::fs::read_to_string(status).ok()?;
    text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).map(|list| list.trim().to_owned())
}

#[test]
fn both_ends_keep_to_their_cpus() {
    let own = allowed("/proc/self/status").expect("the kernel tells");
    let Some(last) = own.split([',', '-']).next_back().filter(|last| *last != own).map(str::to_owned) else {
        println!("SKIPPED: there is but one CPU to choose from");
        return;
    };
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    let running = slow_copy(&sandbox, &remote, &["--xfrrate", "64k", "--cpus", &last]);
    let is_worker = |pid: &u32| {
        let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        words.split(|byte| *byte == 0).nth(1) == Some(b"worker")
    };
    let mut workers = remote.workers();
    workers.extend(descendants(running.id()).into_iter().filter(is_worker));
    assert_eq!(workers.len(), 2, "{workers:?}");
    let pinned = |pid: &u32| {
        let threads = std::fs::read_dir(format!("/proc/{pid}/task")).expect("it runs").flatten();
        let lists: Vec<_> =
            threads.filter_map(|thread| allowed(&format!("{}/status", thread.path().display()))).collect();
        // The first thread, a stream's, and others.
        assert!(lists.len() > 3 && lists.iter().all(|list| *list == last), "{lists:?}, not {last}");
    };
    eventually("streams run", || workers.iter().all(|pid| threads(*pid) > 3));
    workers.iter().for_each(pinned);
}

fn threads(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count)
}

#[test]
fn an_end_without_the_requested_cpus_says_so_and_continues() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    sandbox.file("file", "content");
    let run =
        remote.haul(&sandbox).args(["--cpus", "1023", "file"]).arg(remote.at(sandbox.path("copy"))).run().succeeds();
    let said = run.stderr.lines().filter(|line| line.contains("--cpus: no such CPU on this machine")).count();
    assert_eq!(said, 2, "{}", run.account());
}

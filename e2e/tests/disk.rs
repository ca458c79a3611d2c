//! Disks that are full, read-only or not ours; sources that change under the copy.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;

use haul_e2e::{
    HostPair, ProgramRun, Remote, Sandbox, contents, eventually, give_to_user, hidden_or_partial, is_root_or_skip,
    listing, shell,
};

#[test]
fn a_full_disk_is_reported_with_its_host() {
    if !is_root_or_skip("mounting a small file system") {
        return;
    }
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    let small = sandbox.tmpfs("small", "size=8m");
    sandbox.big_file("source/big", 20_000_000);
    sandbox.file("source/little", "fits");

    sandbox.haul(["source/big", "small/file"]).run().ends(1).says(["small/file", "no space"]);
    assert!(!small.path().join("file").exists());
    // Incomplete files may stay for the next run, if other files still fit.
    let run = remote.haul(&sandbox).args(["-r", "source"]).arg(remote.at(small.path())).run().ends(1);
    let run = run.says(["127.0.0.1", "source/big", "no space"]);
    assert!(!small.path().join("source/big").exists(), "{}", run.account());
    remote.is_left_clean();
    drop(small);
}

#[test]
fn a_file_that_never_fits_ends_in_time() {
    if !is_root_or_skip("mounting a small file system") {
        return;
    }
    let sandbox = Sandbox::new();
    let small = sandbox.tmpfs("small", "size=16m");
    // A fully sparse file of a terabyte, to be copied without holes.
    let huge = File::create(sandbox.file("source/huge", "")).unwrap();
    huge.set_len(1 << 40).unwrap();
    let run = sandbox.haul(["-r", "--sparse=fill", "source", "small/copy"]).run().ends(1).says(["huge", "no space"]);
    assert!(!small.path().join("copy/huge").exists());
    assert!(run.elapsed.as_secs() < 20, "{}", run.account());
}

#[test]
fn a_full_disk_stops_new_files_unless_space_is_not_checked() {
    if !is_root_or_skip("mounting a small file system") {
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.big_file("source/there", 10_000);
    (0..200).for_each(|number| drop(sandbox.big_file(format!("source/many/{number:03}"), 30_000)));
    sandbox.file("source/last", "fits");
    for (target, option, gets_last) in [("stopped", "-r", false), ("tried", "--nofschk", true)] {
        let full = sandbox.tmpfs(target, "size=160k");
        sandbox.haul(["source/there", target]).run().succeeds();
        let sources = ["source/there", "source/many", "source/last"];
        let run = sandbox.haul(["-r", "-s", "1", "--json", option]).args(sources).arg(full.path()).run().ends(1);
        assert_eq!(full.path().join("last").exists(), gets_last, "{}", run.account());
        assert!(run.stdout.contains(r#""files_skipped":1,"#), "{}", run.account());
        assert_eq!(run.stderr.matches("free space there").count(), 1, "{}", run.account());
        // Failures that JSON lists, and no trace of those files.
        let failures = run.stdout.matches(r#""event":"failed""#).count();
        let copied = listing(&full.path().join("many")).len();
        let refused = usize::from(!gets_last);
        assert_eq!(failures, 200 - copied + refused, "{}", run.account());
    }
}

#[test]
fn a_file_beyond_the_limit_of_sizes_is_named_and_the_rest_is_copied() {
    let sandbox = Sandbox::new();
    sandbox.big_file("source/big", 20_000_000);
    sandbox.file("source/little", "fits");
    for options in ["", "--sparse", "--fsync none -s 1"] {
        // In blocks of 1024 or 512 bytes.
        let line = format!(r#"ulimit -f 5000; exec "$0" -r {options} source/. target --mkdir"#);
        shell(&sandbox, &line).run().ends(1).says(["target/big", "ulimit -f"]).does_not_say("again");
        assert_eq!(contents(&sandbox.path("target/little")), b"fits");
        assert!(!sandbox.path("target/big").exists());
        fs::remove_dir_all(sandbox.path("target")).unwrap();
    }
}

#[test]
fn a_limit_of_the_account_is_named_and_no_rerun_is_asked_for() {
    let sandbox = Sandbox::new();
    sandbox.file("source", "content");
    for (limit, says) in [("-n 8", "ulimit -n"), ("-n 12", "ulimit -n"), ("-v 25000", "ulimit -v")] {
        let run = shell(&sandbox, &format!("ulimit {limit}; exec \"$0\" source target")).run();
        run.ends(1).says([says]).does_not_say("rerun").does_not_say("executable");
        assert!(!sandbox.path("target").exists());
    }
}

#[test]
fn what_can_be_known_here_is_checked_before_the_login() {
    let sandbox = Sandbox::new();
    sandbox.file("source", "content");
    let cases: [(&[&str], i32, &str); 4] = [
        (&["missing", "host.invalid:"], 1, "missing: No such file"),
        (&["--metrics", "nodir/metrics", "source", "host.invalid:"], 1, "nodir/metrics"),
        (&["--metrics", "127.0.0.1:9100", "source", "host.invalid:"], 2, "is an address"),
        (&["~/source", "host.invalid:"], 2, "in quotes"),
    ];
    for (words, status, says) in cases {
        sandbox.haul(words.iter().copied()).run().ends(status).says([says]).does_not_say("host.invalid");
    }
}

#[test]
fn a_read_only_disk_is_reported() {
    if !is_root_or_skip("mounting a file system") {
        return;
    }
    let sandbox = Sandbox::new();
    let mount = sandbox.tmpfs("fixed", "size=8m");
    mount.remount("ro");
    sandbox.file("source", "content");
    let run = sandbox.haul(["source", "fixed/file"]).run().says(["fixed", "read-only"]);
    assert!(matches!(run.status, Some(1 | 2)), "{}", run.account());
}

#[test]
fn unreadable_files_are_named_and_the_rest_is_copied() {
    let sandbox = Sandbox::new();
    for name in ["open", "closed", "locked/inner", "free/inner"] {
        sandbox.file(format!("source/{name}"), name);
    }
    for name in ["closed", "locked"] {
        fs::set_permissions(sandbox.path(format!("source/{name}")), fs::Permissions::from_mode(0o000)).unwrap();
    }
    give_to_user(&sandbox.dir("target"));
    let run = sandbox.haul_of_user(["-r", "source", "target"]).run();
    let run = run.ends(1).says(["source/closed", "source/locked", "permission"]);
    assert_eq!(contents(&sandbox.path("target/source/open")), b"open", "{}", run.account());
    assert_eq!(contents(&sandbox.path("target/source/free/inner")), b"free/inner", "{}", run.account());
    assert!(!sandbox.path("target/source/closed").exists(), "{}", run.account());
}

/// Starts to copy `source` to `there` over a slow cable, and waits until some of `source/changing` has arrived.
fn half_way<'a>(sandbox: &'a Sandbox, pair: &'a HostPair) -> haul_e2e::Running {
    sandbox.big_file("source/changing", 24_000_000);
    sandbox.file("source/steady", "steady");
    sandbox.dir("there");
    let target = sandbox.path("there/copy");
    let running = pair.haul(sandbox).args(["-r", "-s", "1", "source"]).arg(pair.at(&target)).start();
    eventually("some of the file is there", || hidden_or_partial(&target, &[], 500_000).is_some());
    running
}

#[test]
fn a_shrinking_source_is_restarted() {
    if !is_root_or_skip("a slow cable") {
        return;
    }
    let sandbox = Sandbox::new();
    let pair = HostPair::slow(&sandbox, 100);
    let running = half_way(&sandbox, &pair);
    OpenOptions::new().write(true).open(sandbox.path("source/changing")).unwrap().set_len(1000).unwrap();
    ProgramRun::of(running).succeeds().says(["source/changing", "starting it over"]);
    assert!(contents(&sandbox.path("there/copy/changing")) == contents(&sandbox.path("source/changing")));
    assert_eq!(contents(&sandbox.path("there/copy/steady")), b"steady");
}

#[test]
fn a_source_written_during_the_copy_is_never_mixed() {
    if !is_root_or_skip("a slow cable") {
        return;
    }
    let sandbox = Sandbox::new();
    let pair = HostPair::slow(&sandbox, 100);
    let running = half_way(&sandbox, &pair);
    let mut file = OpenOptions::new().write(true).open(sandbox.path("source/changing")).unwrap();
    file.write_all(&[b'n'; 4_000_000]).unwrap();
    drop(file);
    ProgramRun::of(running).succeeds().says(["source/changing", "starting it over"]);
    assert!(contents(&sandbox.path("there/copy/changing")) == contents(&sandbox.path("source/changing")));
    assert_eq!(contents(&sandbox.path("there/copy/steady")), b"steady");
    assert!(listing(&sandbox.path("there/copy")).contains(&"steady".to_owned()));
}

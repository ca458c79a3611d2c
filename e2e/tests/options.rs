//! Effects of bbcp's options. Options with a file of their own here (streams, rates, storage, compression, resuming,
//! ssh) are tested there.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;

use haul_e2e::{
    Options, ProgramRun, Remote, Sandbox, compare, contents, is_root_or_skip, listing, mode, mtime, set_mtime, shell,
};

#[test]
fn omit_skips_existing_files_and_copies_the_rest() {
    let sandbox = Sandbox::new();
    for name in ["same", "other", "fresh"] {
        sandbox.file(format!("source/{name}"), name);
    }
    symlink("same", sandbox.path("source/link")).unwrap();
    let old = sandbox.file("target/source/other", "not to be touched");
    set_mtime(&old, 1_000_000_000, 5);
    symlink("elsewhere", sandbox.path("target/source/link")).unwrap();
    let before = mtime(&old);
    sandbox.haul(["-r", "--omit", "source", "target"]).run().succeeds();
    assert_eq!((contents(&old), mtime(&old)), (b"not to be touched".to_vec(), before));
    assert_eq!(contents(&sandbox.path("target/source/fresh")), b"fresh");
    assert_eq!(fs::read_link(sandbox.path("target/source/link")).unwrap(), Path::new("elsewhere"));
    sandbox.haul(["-r", "source", "target"]).run().ends(1).says(["target/source/other", "-f"]);
    sandbox.haul(["-r", "-f", "--omit", "source", "target"]).run().ends(2).says(["-f cannot", "--omit"]);
}

#[test]
fn explicit_modes_are_applied() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    sandbox.file("source/dir/small", "small");
    let big = sandbox.big_file("source/big", 20_000_000);
    fs::set_permissions(&big, fs::Permissions::from_mode(0o400)).unwrap();
    for (modes, directory, file) in [("751/604", 0o751, 0o604), ("2770/", 0o2770, 0o644), ("666", 0o755, 0o666)] {
        let target = sandbox.path("target");
        // The umask does not affect explicit modes.
        let script = format!(r#"umask 027; chmod 644 source/big; exec "$0" -r --mode {modes} source target"#);
        shell(&sandbox, &script).run().succeeds();
        let made = ["dir/small", "big"].map(|name| mode(&target.join(name)));
        let expected = if modes.ends_with('/') { 0o640 } else { file };
        assert_eq!(made, [expected; 2], "-m {modes}");
        let expected = if modes.contains('/') { directory } else { 0o750 };
        assert_eq!(["", "dir"].map(|name| mode(&target.join(name))), [expected; 2], "-m {modes}");
        fs::remove_dir_all(&target).unwrap();
    }
    remote
        .haul(&sandbox)
        .args(["-r", "--mode", "700/600", "source"])
        .arg(remote.at(sandbox.path("there")))
        .run()
        .succeeds();
    assert_eq!((mode(&sandbox.path("there/dir")), mode(&sandbox.path("there/dir/small"))), (0o700, 0o600));
}

#[test]
fn relative_sources_keep_their_place_below_the_base() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    sandbox.file("base/run7/a/file", "a");
    sandbox.file("base/run7/b/file", "b");
    sandbox.file("base/run8/deep/er/inner", "deep");
    sandbox.file("base/top", "top");
    sandbox.file("outside/alone", "alone");
    let absolute = sandbox.path("outside/alone");
    let sources = ["run7/a/file", "run7/b/file", "./run8//deep", "top"];
    let check = |target: &Path| {
        for (name, content) in [
            ("run7/a/file", "a"),
            ("run7/b/file", "b"),
            ("run8/deep/er/inner", "deep"),
            ("top", "top"),
            ("alone", "alone"),
        ] {
            assert_eq!(contents(&target.join(name)), content.as_bytes(), "{name} in {}", target.display());
        }
        assert_eq!(listing(target), ["alone", "run7", "run8", "top"]);
    };
    let copy = || sandbox.haul(["-r", "--dirbase", "base"]).args(sources).arg(&absolute);
    copy().arg("here").run().ends(2).says(["here", "--mkdir"]);
    copy().args(["--mkdir", "here"]).run().succeeds();
    check(&sandbox.path("here"));
    copy().args(["--json", "here"]).run().succeeds();
    let again = copy().args(["--json", "here"]).run().succeeds().summary();
    assert_eq!((again["files_copied"].as_u64(), again["files_skipped"].as_u64()), (Some(0), Some(5)), "{again}");

    let there = sandbox.dir("there");
    remote
        .haul(&sandbox)
        .args(["-r", "--dirbase", "base"])
        .args(sources)
        .arg(&absolute)
        .arg(remote.at(&there))
        .run()
        .succeeds();
    check(&there);
    // Pulled: the base names the host, and relative sources are on it.
    let back = sandbox.dir("back");
    let haul = remote.haul(&sandbox).args(["-r", "--dirbase"]).arg(remote.at(sandbox.path("base"))).args(sources);
    haul.arg(remote.at(&absolute)).arg(&back).run().succeeds();
    check(&back);
}

#[test]
fn paths_cannot_leave_base_or_target() {
    let sandbox = Sandbox::new();
    let file = sandbox.file("base/a/file", "must stay");
    sandbox.file("secret", "secret");
    sandbox.dir("target");
    sandbox.haul(["--dirbase", "base", "../secret", "target"]).run().ends(2).says(["../secret", ".."]);
    // A link where a directory must be made is not followed.
    sandbox.dir("elsewhere");
    symlink("../elsewhere", sandbox.path("target/a")).unwrap();
    sandbox.haul(["--dirbase", "base", "a/file", "target"]).run().ends(1).says(["target/a", "symbolic link"]);
    assert_eq!(listing(&sandbox.path("elsewhere")), Vec::<String>::new());
    // Nor is a source copied onto itself.
    sandbox.haul(["-f", "--dirbase", "base", "a/file", "base"]).run().ends(2).says(["is the source itself"]);
    assert_eq!(contents(&file), b"must stay");
}

#[test]
fn unreadable_files_are_skipped_on_request() {
    if !is_root_or_skip("becoming another user") {
        return;
    }
    let sandbox = Sandbox::new();
    for name in ["open", "closed", "locked/inner"] {
        sandbox.file(format!("source/{name}"), name);
    }
    sandbox.big_file("source/closed too", 3_000_000);
    for name in ["closed", "closed too", "locked"] {
        fs::set_permissions(sandbox.path(format!("source/{name}")), fs::Permissions::from_mode(0o000)).unwrap();
    }
    for place in [sandbox.dir("target"), sandbox.home()] {
        chown(place, Some(65_534), Some(65_534)).unwrap();
    }
    // The binary may lie where that user cannot go.
    fs::copy(haul_e2e::haul_binary(), sandbox.path("haul")).unwrap();
    let run = |arguments: &str| -> ProgramRun {
        let command = "exec setpriv --reuid=65534 --regid=65534 --clear-groups ./haul -r";
        shell(&sandbox, &format!("{command} {arguments} source target")).run()
    };
    run("--readable").succeeds().says([
        "source/closed: skipped",
        "source/closed too: skipped",
        "source/locked: skipped",
    ]);
    assert_eq!(listing(&sandbox.path("target/source")), ["open"]);
    run("").ends(1).says(["source/closed", "permission"]);
}

#[test]
fn empty_directories_are_skipped_on_request() {
    let sandbox = Sandbox::new();
    sandbox.file("source/full/deep/file", "file");
    sandbox.dir("source/empty");
    sandbox.dir("source/hollow/empty/too");
    sandbox.dir("source/full/empty");
    sandbox.dir("source/linked");
    symlink("nowhere", sandbox.path("source/linked/link")).unwrap();
    sandbox.haul(["-r", "--no-empty-dirs", "source", "target"]).run().succeeds();
    assert_eq!(listing(&sandbox.path("target")), ["full", "linked"]);
    assert_eq!(listing(&sandbox.path("target/full")), ["deep"]);
    sandbox.haul(["-r", "source", "whole"]).run().succeeds();
    assert_eq!(listing(&sandbox.path("whole")), ["empty", "full", "hollow", "linked"]);
    compare(&sandbox.path("source"), &sandbox.path("whole")).unwrap();
}

/// File offsets of write calls larger than this.
fn offsets_written(trace: &Path, more_than: u64) -> Vec<u64> {
    let text = fs::read_to_string(trace).unwrap();
    let call = |line: &str| {
        let (call, result) = line.split_once("pwrite64(")?.1.rsplit_once(") = ")?;
        let written: u64 = result.trim().parse().ok()?;
        let offset: u64 = call.rsplit_once(", ")?.1.parse().ok()?;
        (written > more_than).then_some(offset)
    };
    text.lines().filter_map(call).collect()
}

#[test]
fn order_writes_from_the_beginning_to_the_end() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    let source = sandbox.big_file("source", 40_000_007);
    let words = remote.haul(&sandbox).args(["--order", "source", "there"]).into_command();
    let options: Vec<_> = words.get_args().map(|word| format!("'{}'", word.to_string_lossy())).collect();
    // A pull makes the target a child of the traced process.
    let from = remote.at(&source);
    let options = options.join(" ").replace("'source' 'there'", &format!("'{}' there", from.to_string_lossy()));
    let strace = "exec strace -f -qq -e trace=pwrite64 -s 0 -o trace";
    shell(&sandbox, &format!(r#"{strace} "$0" -v {options}"#)).run().succeeds().says(["1 stream"]);
    compare(&source, &sandbox.path("there")).unwrap();
    let offsets = offsets_written(&sandbox.path("trace"), 100_000);
    assert!(offsets.len() > 50, "{offsets:?}");
    assert!(offsets.is_sorted(), "{offsets:?}");
}

#[test]
fn a_time_limit_ends_a_resumable_copy() {
    let sandbox = Sandbox::new();
    let source = sandbox.big_file("source", 30_000_000);
    let run = sandbox.haul(["--xfrrate", "1m", "--timelimit", "1", "source", "target"]).run().ends(4);
    assert!(run.elapsed.as_secs_f64() < 10.0, "{}", run.account());
    run.says(["time limit", "1 s", "rerun the command"]);
    assert!(!sandbox.path("target").exists());
    sandbox.haul(["--timelimit", "10m", "source", "target"]).run().succeeds();
    compare(&source, &sandbox.path("target")).unwrap();
}

/// Socket options set by the program and its children.
fn sockets_of(sandbox: &Sandbox, arguments: &str) -> String {
    let strace = "exec strace -f -qq -e trace=setsockopt -o trace";
    shell(sandbox, &format!(r#"{strace} "$0" {arguments}"#)).run().succeeds();
    fs::read_to_string(sandbox.path("trace")).unwrap()
}

#[test]
fn the_traffic_class_is_put_on_the_data_connections() {
    let sandbox = Sandbox::new();
    let asked = sockets_of(&sandbox, "demo --size 1m -- --qos 184");
    assert!(asked.contains("IP_TOS, [184]") && asked.contains("IPV6_TCLASS, [184]"), "{asked}");
    let asked = sockets_of(&sandbox, "demo --size 1m");
    assert!(!asked.contains("IP_TOS") && !asked.contains("IPV6_TCLASS"), "{asked}");
}

#[test]
fn windows_have_the_requested_size_or_the_kernels() {
    let sandbox = Sandbox::new();
    let set = |arguments: &str, size: &str| {
        let asked = sockets_of(&sandbox, &format!("demo --size 1m -- {arguments}"));
        let accepted = |line: &&str| line.contains("SO_RCVBUF") && line.contains(size);
        asked.lines().filter(accepted).count()
    };
    assert!(set("-w =128k", "[131072]") >= 2, "at both ends");
    assert!(set("-w 128k", "[131072]") > set("-w =128k", "[131072]"), "it is tried before it is set");
    assert_eq!(set("", "[131072]"), 0);
}

#[test]
fn a_window_refused_by_the_kernel_is_named_once_for_each_end() {
    let sandbox = Sandbox::new();
    let limit = |name: &str| {
        let text = fs::read_to_string(format!("/proc/sys/net/core/{name}")).unwrap_or_default();
        text.trim().parse::<u64>().unwrap_or(u64::MAX)
    };
    if limit("rmem_max").min(limit("wmem_max")) >= 1 << 30 {
        eprintln!("SKIPPED: this kernel grants every window");
        return;
    }
    let said = |window: &str| {
        let run = sandbox.haul(["demo", "--size", "1m", "--", "-s", "2", "-w", window]).run().succeeds();
        let lines: Vec<_> =
            run.stderr.lines().filter(|line| line.contains("was asked for")).map(str::to_owned).collect();
        lines
    };
    let refused = said("1g");
    assert_eq!(refused.len(), 2, "{refused:?}");
    for line in refused {
        assert!(line.contains("-w 1g was asked for, the kernel grants ") && line.contains("(net.core."), "{line}");
        assert!(line.contains("autotuning is used instead"), "{line}");
    }
    assert_eq!(said("64k"), Vec::<String>::new());
}

#[test]
fn the_free_space_check_can_be_disabled() {
    if !is_root_or_skip("mounting") {
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.big_file("source", 8_000_000);
    let _mount = sandbox.tmpfs("small", "size=4m");
    sandbox.haul(["source", "small/file"]).run().ends(1).says(["no space: the file has 8.00 MB, "]);
    let run = sandbox.haul(["--nofschk", "source", "small/file"]).run().ends(1);
    run.does_not_say("the file has").says(["small/file", "space"]);
    assert!(!sandbox.path("small/file").exists());
}

#[test]
fn rates_are_in_bits_on_request() {
    let sandbox = Sandbox::new();
    let run = sandbox.haul(["--bits", "null:1m", "null:"]).run().succeeds();
    assert!(run.stdout.contains("bit/s") || run.stderr.contains("bit/s"), "{}", run.account());
    assert!(!run.stderr.contains("B/s"), "{}", run.account());
}

#[test]
fn a_log_gets_the_terminals_output() {
    let sandbox = Sandbox::new();
    sandbox.file("source", "content");
    for times in [1, 2] {
        let run = sandbox.haul(["-vv", "--logfile", "log", "source", "target"]).run().succeeds();
        assert_eq!((run.stdout.as_str(), run.stderr.as_str()), ("", ""), "{}", run.account());
        let log = fs::read_to_string(sandbox.path("log")).unwrap();
        assert_eq!(log.matches("memory ").count(), times, "{log}");
        // Behind the header, each line begins with its time.
        let mut lines = log.lines().filter(|line| !line.starts_with('#'));
        assert!(lines.all(|line| line.get(10..11) == Some("T") && line.get(13..14) == Some(":")), "{log}");
    }
    sandbox.haul(["--logfile", "no/such/log", "source", "target"]).run().ends(1).says(["no/such/log"]);
}

/// `haul sync -l first second target` takes `first` for the log.
#[test]
fn a_log_is_appended_to_regular_files_only() {
    let sandbox = Sandbox::new();
    for (name, content) in [("first", "content"), ("second", "# haul lo"), ("third", "\n# haul log\n")] {
        sandbox.file(name, content);
        sandbox.haul(["--logfile", name, "first", "target"]).run().ends(1).says([name, "not a log of haul"]);
        assert_eq!(fs::read_to_string(sandbox.path(name)).unwrap(), content);
    }
    assert!(!sandbox.path("target").exists());
    sandbox.haul(["sync", "--logfile", "first", "second", "target"]).run().ends(1).says(["--logfile"]);
    sandbox.haul(["--logfile", "/dev/null", "first", "target"]).run().succeeds();
}

#[test]
fn each_v_adds_output() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    sandbox.file("source", "content");
    let said = |options: &[&str], target: &str| {
        let haul = remote.haul(&sandbox).args(options).arg("source").arg(remote.at(sandbox.path(target)));
        haul.run().succeeds().stderr
    };
    let [plain, verbose] = [said(&[], "1"), said(&["-v"], "2")];
    let [path, wide] = [said(&["-vv"], "3"), said(&["--vverbose"], "4")];
    let [files, debug] = [said(&["-vvv"], "5"), said(&["--debug"], "6")];
    assert!(!plain.contains("connected:") && verbose.contains("connected:") && !verbose.contains("RTT"));
    assert!(path.contains("RTT") && wide.contains("RTT") && !wide.contains(": done"));
    assert!(files.contains("5: done, 7 bytes") && debug.contains("6: done, 7 bytes"), "{files}\n{debug}");
}

#[test]
fn options_for_hauls_default_behaviour_are_accepted() {
    let sandbox = Sandbox::new();
    let source = sandbox.file("source", "content");
    set_mtime(&source, 1_500_000_000, 123);
    let letters = ["--keep", "--gross", "--ptime", "--nodns", "--buffers", "2", "--buffers", "+4", "--buffsz", "512k"];
    sandbox.haul(letters).args(["source", "target"]).run().succeeds();
    assert_eq!(mtime(&sandbox.path("target")), (1_500_000_000, 123), "times are always kept");
    sandbox.file("source", "changed");
    sandbox.haul(["-f", "source", "target"]).run().succeeds();
    assert_eq!(contents(&sandbox.path("target")), b"changed");
}

#[test]
fn a_replaced_file_stays_until_the_new_one_is_complete() {
    let sandbox = Sandbox::new();
    sandbox.big_file("source", 30_000_000);
    let old = sandbox.file("target", "old");
    let before = fs::metadata(&old).unwrap().ino();
    // -K would have it cut off at once.
    sandbox.haul(["-f", "--xfrrate", "1m", "--timelimit", "1", "source", "target"]).run().ends(4);
    assert_eq!((contents(&old), fs::metadata(&old).unwrap().ino()), (b"old".to_vec(), before));
}

#[test]
fn frames_have_the_requested_buffer_size() {
    let sandbox = Sandbox::new();
    sandbox.big_file("source", 20_000_000);
    let largest = |size: &str| {
        let strace = "exec strace -f -qq -e trace=pwrite64 -s 0 -o trace";
        let run = shell(&sandbox, &format!(r#"{strace} "$0" --unbuffered off -f --buffsz {size} source target; "#));
        run.run().succeeds();
        let trace = fs::read_to_string(sandbox.path("trace")).unwrap();
        fs::remove_file(sandbox.path("target")).unwrap();
        trace.lines().filter_map(|line| line.rsplit_once(") = ")?.1.trim().parse::<u64>().ok()).max()
    };
    assert_eq!(largest("300k"), Some(256 << 10));
    assert_eq!(largest("4m"), Some(1 << 20));
}

#[test]
fn the_license_and_the_version_are_printed() {
    let sandbox = Sandbox::new();
    for flag in ["-V", "--version"] {
        assert!(sandbox.haul([flag]).run().succeeds().stdout.starts_with("haul "), "{flag}");
    }
    assert!(sandbox.haul(["--license"]).run().succeeds().stdout.contains("MIT"));
}

#[test]
fn an_ipv6_address_is_in_brackets() {
    let sandbox = Sandbox::new();
    let options = Options { address: "::1".parse().unwrap(), ..Options::default() };
    let remote = Remote::with_haul(&sandbox, options);
    sandbox.file("source", "six");
    let target = remote.at(sandbox.path("target"));
    assert!(target.to_string_lossy().starts_with("[::1]:"));
    remote.haul(&sandbox).args(["--qos", "32", "source"]).arg(target).run().succeeds();
    assert_eq!(contents(&sandbox.path("target")), b"six");
}

#[test]
fn several_sources_need_a_directory_and_a_tilde_is_the_login_directory() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    sandbox.file("a", "a");
    sandbox.file("b", "b");
    sandbox.haul(["a", "b", "c"]).run().ends(2).says(["c", "directory"]);
    remote.haul(&sandbox).arg("a").arg(remote.at("~/test.file")).run().succeeds();
    assert_eq!(contents(&remote.home().join("test.file")), b"a");
}

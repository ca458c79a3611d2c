//! Direct and buffered I/O: the same bytes arrive, and the summary names the method. `null:` for measuring.

use std::fs;

use haul_e2e::{ProgramRun, Remote, Sandbox, compare, contents, eventually, is_root_or_skip, listing};
use haul_lab::{SlowFs, Slowness};

/// Around frames (512 KiB) and blocks (4 KiB); all too large for a pack.
const SIZES: [u64; 8] = [131_073, 524_287, 524_288, 524_289, 528_384, 5_000_003, 8_388_608, 20_000_001];

fn odd_files(sandbox: &Sandbox) {
    for size in SIZES {
        sandbox.big_file(format!("source/{size}"), size);
    }
    sandbox.file("source/little", "in a pack");
}

/// Whether this place supports O_DIRECT: otherwise haul reports its choice.
fn is_direct(sandbox: &Sandbox) -> bool {
    let run = sandbox.haul(["--unbuffered", "st", "source/5000003", "probe"]).run().succeeds();
    fs::remove_file(sandbox.path("probe")).unwrap();
    let direct = !run.stderr.contains("no O_DIRECT");
    if !direct {
        println!("SKIPPED: no O_DIRECT in {}", sandbox.path("").display());
    }
    direct
}

#[test]
fn every_size_arrives_by_every_method() {
    let sandbox = Sandbox::new();
    odd_files(&sandbox);
    let direct = is_direct(&sandbox);
    for ends in ["s", "t", "st", "off"] {
        let run = sandbox.haul(["--json", "-r", "--unbuffered", ends, "-s", "3", "source", ends]).run().succeeds();
        compare(&sandbox.path("source"), &sandbox.path(ends)).unwrap();
        let summary = run.summary();
        let bytes = |end: &str| summary[format!("{end}_direct_bytes")].as_u64().unwrap();
        if direct && ends.contains('s') {
            assert_eq!(bytes("source"), SIZES.iter().sum::<u64>(), "{summary}");
        }
        if direct && ends.contains('t') {
            let blocks: u64 = SIZES.iter().map(|size| size / 4096 * 4096).sum();
            assert_eq!(bytes("target"), blocks, "{summary}");
        }
        if ends == "off" {
            assert_eq!((bytes("source"), bytes("target")), (0, 0), "{summary}");
        }
    }
}

#[test]
fn to_and_from_another_host_as_well() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    odd_files(&sandbox);
    let there = sandbox.dir("there");
    for (streams, frame) in [("1", "256k"), ("4", "1m")] {
        let options = ["-r", "--unbuffered", "st", "-s", streams, "--frame", frame];
        remote.haul(&sandbox).args(options).arg("source").arg(remote.at(there.join(frame))).run().succeeds();
        compare(&sandbox.path("source"), &there.join(frame)).unwrap();
        remote.haul(&sandbox).args(options).arg(remote.at(there.join(frame))).arg(streams).run().succeeds();
        compare(&sandbox.path("source"), &sandbox.path(streams)).unwrap();
    }
    remote.is_left_clean();
}

#[test]
fn the_absence_of_direct_io_is_reported_once_and_the_page_cache_is_used() {
    if !is_root_or_skip("mounting a file system") {
        return;
    }
    let sandbox = Sandbox::new();
    let without = sandbox.mount("ramfs", "without", "mode=755");
    for name in ["a", "b"] {
        sandbox.big_file(format!("without/source/{name}"), 3_000_001);
    }
    let run = sandbox.haul(["-r", "--unbuffered", "st", "without/source", "without/target"]).run().succeeds();
    compare(&without.path().join("source"), &without.path().join("target")).unwrap();
    for phrase in ["no O_DIRECT reads", "no O_DIRECT writes"] {
        assert_eq!(run.stderr.matches(phrase).count(), 1, "{}", run.account());
    }
    let quiet = sandbox.haul(["-r", "without/source", "without/again"]).run().succeeds();
    assert!(!quiet.stderr.contains("O_DIRECT"), "{}", quiet.account());
}

#[test]
fn a_disk_filling_up_under_direct_io_loses_only_one_file() {
    if !is_root_or_skip("mounting a small file system") {
        return;
    }
    let sandbox = Sandbox::new();
    let small = sandbox.tmpfs("small", "size=9m");
    sandbox.big_file("source/a", 6_000_000);
    sandbox.big_file("source/b", 6_000_000);
    let run =
        sandbox.haul(["-r", "--unbuffered", "t", "-s", "2", "source", "small/copy"]).run().ends(1).says(["no space"]);
    let whole: Vec<_> = ["a", "b"].into_iter().filter(|name| small.path().join("copy").join(name).exists()).collect();
    assert!(whole.len() <= 1, "{}", run.account());
    for name in whole {
        compare(&sandbox.path("source").join(name), &small.path().join("copy").join(name)).unwrap();
    }
    sandbox.file("source/c", "little");
    sandbox.haul(["source/c", "small/c"]).run().succeeds();
}

#[test]
fn a_cold_start_reads_cached_data_from_the_disk() {
    let sandbox = Sandbox::new();
    let size = 20_000_001;
    let place = sandbox.big_file("tree/file", size);
    // Clean pages can be dropped.
    fs::File::open(&place).unwrap().sync_all().unwrap();
    let run = sandbox.haul(["--json", "-r", "--cache", "cold", "tree", "null:"]).run().succeeds();
    let disk = &run.summary()["load"]["source"]["disk"]["read_bytes"];
    match disk.as_u64() {
        Some(0) | None => println!("SKIPPED: no disk is known in {}", sandbox.path("").display()),
        Some(bytes) => assert!(bytes >= size, "{bytes} bytes were read from the disk"),
    }
}

#[test]
fn cached_pages_are_kept_or_dropped_as_requested_and_the_data_arrives() {
    let sandbox = Sandbox::new();
    let source = sandbox.big_file("source", 70_000_001);
    for how in ["keep", "drop"] {
        sandbox.haul(["--unbuffered", "off", "--cache", how, "source", how]).run().succeeds();
        compare(&source, &sandbox.path(how)).unwrap();
    }
}

#[test]
fn zeros_are_generated_and_discarded() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    for (size, bytes) in [("null:0", 0), ("null:100k", 100 << 10), ("null:3m", 3 << 20)] {
        sandbox.haul(["-f", size, "."]).run().succeeds();
        assert_eq!(contents(&sandbox.path("null")), vec![0; bytes]);
    }
    let summary = sandbox.haul(["--json", "null:1g", "null:"]).run().succeeds().summary();
    assert_eq!(summary["bytes"], 1u64 << 30, "{summary}");
    let run = remote.haul(&sandbox).args(["--json", "null:64m"]).arg(remote.at("null:")).run().succeeds();
    assert_eq!(run.summary()["bytes"], 64u64 << 20);
    remote.haul(&sandbox).arg(remote.at("null:5m")).arg("from there").run().succeeds();
    assert_eq!(contents(&sandbox.path("from there")), vec![0; 5 << 20]);
    assert_eq!(listing(&sandbox.path("")).iter().filter(|name| name.contains("null:")).count(), 0);
    remote.is_left_clean();
}

#[test]
fn entire_trees_are_read_and_discarded() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    sandbox.big_file("tree/big", 20_000_000);
    (0..200).for_each(|number| drop(sandbox.file(format!("tree/sub/{number}"), "content")));
    sandbox.dir("tree/empty");
    std::os::unix::fs::symlink("big", sandbox.path("tree/link")).unwrap();
    fs::hard_link(sandbox.path("tree/big"), sandbox.path("tree/other")).unwrap();
    sandbox.file("one", "content");
    for options in [&["-r"][..], &["-aHAX"], &["-r", "--unbuffered", "st"], &["-r", "--checksum", "md5"]] {
        let json = sandbox.haul(["--json"]).args(options).args(["tree", "one", "null:"]).run().succeeds();
        let summary = json.summary();
        assert_eq!((&summary["files_copied"], &summary["bytes"]), (&203.into(), &40_001_407.into()), "{options:?}");
    }
    let pushed = remote.haul(&sandbox).args(["--json", "-r", "tree"]).arg(remote.at("null:")).run().succeeds();
    assert_eq!(pushed.summary()["files_copied"], 202);
    assert!(!sandbox.path("null:").exists());
    remote.is_left_clean();
}

#[test]
fn a_slow_disk_holds_up_no_file_of_another_disk() {
    if !SlowFs::available() {
        println!("SKIPPED: a FUSE file system needs root and /dev/fuse");
        return;
    }
    const SIZE: u64 = 64 << 20;
    let sandbox = Sandbox::new();
    let slow = SlowFs::mount(sandbox.dir("slow")).unwrap();
    for name in ["slow/1", "slow/2", "other/3"] {
        sandbox.big_file(name, SIZE);
    }
    slow.set(Slowness { bytes_per_s: Some(4_000_000), ..Slowness::default() });
    let running = sandbox.haul(["-r", "-s", "2", "--mkdir", "--cache", "cold", "slow", "other", "target"]).start();
    let is_complete = |name: &str| sandbox.path("target").join(name).exists();
    eventually("the other disk's file is complete", || is_complete("other/3"));
    assert!(!is_complete("slow/1"), "the slow disk is slow");
    slow.set(Slowness::default());
    ProgramRun::of(running).succeeds();
    compare(&sandbox.path("slow"), &sandbox.path("target/slow")).unwrap();
}

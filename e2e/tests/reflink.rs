//! Within one file system that can do that, large files share blocks with their sources instead of being copied; and
//! only where nobody wants to know more than that they are equal.

use std::fs::{self, File, OpenOptions};
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::FileExt;

use haul_e2e::{Mount, Sandbox, compare, contents, is_root_or_skip, listing};

/// Not a multiple of anything.
const SIZE: u64 = 20_000_001;
/// The least that `mkfs.xfs` takes, and room for a few copies.
const IMAGE_BYTES: u64 = 400 << 20;

/// Runs a test on each available kind of file system with reflinks.
fn on_each_kind(test: impl Fn(&Sandbox, &Mount<'_>, &str)) {
    if !is_root_or_skip("mounting a file system") {
        return;
    }
    for kind in ["btrfs", "xfs"] {
        let sandbox = Sandbox::new();
        if let Some(mount) = sandbox.image(kind, IMAGE_BYTES) {
            test(&sandbox, &mount, kind);
        }
    }
}

#[test]
fn large_files_share_their_blocks_and_stay_apart() {
    on_each_kind(|sandbox, mount, kind| {
        let source = sandbox.big_file(format!("{kind}/source"), SIZE);
        let target = mount.path().join("target");
        for (streams, frame) in [("1", "256k"), ("3", "1m")] {
            let run = sandbox
                .haul(["-f", "-s", streams, "--frame", frame])
                .args([&source, &target])
                .run()
                .succeeds()
                .says(["20.0 MB with the source (reflink)", "all blocks shared"]);
            assert!(!run.stderr.contains("verified"), "{}", run.account());
            compare(&source, &target).unwrap();
            assert_eq!(listing(mount.path()), ["source", "target"], "{}", run.account());
            fs::remove_file(&target).unwrap();
        }
        sandbox.haul(["-s", "2"]).args([&source, &target]).run().succeeds();
        let before = contents(&source);
        OpenOptions::new().write(true).open(&target).unwrap().write_all_at(b"changed", 600_000).unwrap();
        assert!(contents(&source) == before, "{kind}: what is written to the one is in the other");
    });
}

#[test]
fn standard_input_shares_its_blocks_only_from_the_start_of_its_file() {
    on_each_kind(|sandbox, mount, kind| {
        let source = sandbox.big_file(format!("{kind}/source"), SIZE);
        let target = mount.path().join("target");
        for begins in [0, 4096] {
            let mut file = File::open(&source).unwrap();
            file.seek(SeekFrom::Start(begins)).unwrap();
            let mut command = sandbox.haul(["-f", "-"]).arg(&target).into_command();
            let output = command.stdin(file).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && said.contains("all blocks shared") == (begins == 0), "{said}");
            let start = usize::try_from(begins).unwrap();
            assert!(contents(&target) == contents(&source)[start..], "{kind}: from {begins}");
        }
    });
}

#[test]
fn a_tree_is_shared_as_far_as_it_is_large() {
    on_each_kind(|sandbox, mount, kind| {
        let source = sandbox.tree(format!("{kind}/source"));
        let run = sandbox.haul(["-r".as_ref(), source.as_os_str(), mount.path().join("target").as_os_str()]).run();
        run.succeeds().says(["with the source (reflink)", "every copied byte verified (xxh3)"]);
        compare(&source, &mount.path().join("target")).unwrap();
    });
}

#[test]
fn an_unshareable_file_is_copied_and_the_next_is_shared() {
    on_each_kind(|sandbox, mount, kind| {
        if kind != "btrfs" {
            return;
        }
        // A file without data checksums and one with them cannot share blocks there.
        let odd = sandbox.file(format!("{kind}/source/a"), "");
        haul_e2e::shell(sandbox, &format!("chattr +C {}", odd.display())).run().succeeds();
        sandbox.big_file("whole", SIZE);
        haul_e2e::shell(sandbox, &format!("cat whole >{kind}/source/a; cat whole >{kind}/source/b")).run().succeeds();
        let target = mount.path().join("target");
        let run = sandbox.haul(["-r".as_ref(), mount.path().join("source").as_os_str(), target.as_os_str()]).run();
        let run = run.succeeds();
        let run = run.says(["2 files, 40.0 MB", "20.0 MB with the source", "every copied byte verified"]);
        assert!(compare(&mount.path().join("source"), &target).is_ok(), "{}", run.account());
    });
}

#[test]
fn digests_and_direct_io_require_a_copy() {
    on_each_kind(|sandbox, mount, kind| {
        let source = sandbox.big_file(format!("{kind}/source"), SIZE);
        let digest = haul_e2e::shell(sandbox, &format!("b3sum --no-names {kind}/source")).run().succeeds().stdout;
        for options in [&["--json", "--checksums", "sums"][..], &["--json", "--verify", "memory"], &["--json"]] {
            let target = mount.path().join("target");
            let run = sandbox.haul(options).args([&source, &target]).run().succeeds();
            assert_eq!(run.summary()["cloned_bytes"], 0, "{}", run.account());
            let told = run.events().into_iter().find(|event| event["event"] == "file").unwrap();
            assert_eq!(told["blake3"].as_str(), Some(digest.trim()), "{}", run.account());
            compare(&source, &target).unwrap();
            fs::remove_file(&target).unwrap();
        }
        let sums = String::from_utf8(contents(&sandbox.path("sums"))).unwrap();
        assert!(sums.starts_with(digest.trim()), "{sums}");
        for options in [&["--verify", "memory"][..], &["--unbuffered", "s"], &["--unbuffered", "t"]] {
            let run = sandbox.haul(options.iter().chain(&["-f"])).args([&source, &mount.path().join("target")]).run();
            run.succeeds().says(["every byte verified"]).does_not_say("reflink");
            fs::remove_file(mount.path().join("target")).unwrap();
        }
    });
}

#[test]
fn without_reflink_support_data_is_copied() {
    if !is_root_or_skip("mounting a file system") {
        return;
    }
    let sandbox = Sandbox::new();
    let _memory = sandbox.tmpfs("memory", "size=64m");
    let source = sandbox.big_file("memory/source", SIZE);
    let run = sandbox.haul(["memory/source", "memory/target"]).run().succeeds();
    run.says(["every byte verified (xxh3)"]).does_not_say("reflink");
    compare(&source, &sandbox.path("memory/target")).unwrap();
    for kind in ["btrfs", "xfs"] {
        let Some(mount) = sandbox.image(kind, IMAGE_BYTES) else { continue };
        let run = sandbox.haul(["memory/source", kind]).run().succeeds();
        run.says(["every byte verified (xxh3)"]).does_not_say("reflink");
        compare(&source, &mount.path().join("source")).unwrap();
    }
}

//! Targets that are there already: equal, different, half done, or no files at all.

use std::io::Read;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use std::{fs, thread};

use haul_e2e::{
    HostPair, ProgramRun, RUN_LIMIT, Remote, Sandbox, compare, contents, eventually, fifo, hidden_or_partial,
    is_root_or_skip, listing, mtime, set_mtime, shell, stamp, within,
};
use haul_lab::{run_with_timeout, start};

#[test]
fn an_equal_file_is_not_touched() {
    let sandbox = Sandbox::new();
    sandbox.tree("source");
    sandbox.haul(["-r", "source", "target"]).run().succeeds();
    let before = stamp(&sandbox.path("target/big"));
    for force in [&[][..], &["-f"][..]] {
        let summary = sandbox.haul(["--json", "-r"]).args(force).args(["source", "target"]).run().succeeds().summary();
        assert_eq!(summary["files_copied"], 0, "{summary}");
        assert_eq!(stamp(&sandbox.path("target/big")), before);
    }
}

#[test]
fn a_differing_file_is_an_error_with_a_hint_to_replace_it() {
    let sandbox = Sandbox::new();
    let source = sandbox.tree("source");
    let one = sandbox.file("target/source/big", "an older one, much smaller");
    // Of the same size, but from another time: that is no proof of equality.
    let other = sandbox.file("target/source/a frame", vec![7; 1024 * 1024]);
    let run = sandbox.haul(["-r", "source", "target"]).run().ends(1).says(["source/big", "source/a frame", "-f"]);
    assert!(run.stderr.contains("exist"), "{}", run.account());
    assert_eq!(contents(&one), b"an older one, much smaller");
    assert_eq!(contents(&other), vec![7; 1024 * 1024]);
    assert_eq!(contents(&sandbox.path("target/source/x/y/z/deep")), contents(&source.join("x/y/z/deep")));

    sandbox.haul(["-r", "-f", "source", "target"]).run().succeeds();
    compare(&source, &sandbox.path("target/source")).unwrap();
}

#[test]
fn a_differing_file_is_an_error_over_ssh_too() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    let source = sandbox.big_file("source", 2_000_000);
    let target = sandbox.file("target", "older");
    let run = remote.haul(&sandbox).arg("source").arg(remote.at(&target)).run().ends(1);
    run.says(["127.0.0.1", "target", "-f"]);
    assert_eq!(contents(&target), b"older");
    remote.haul(&sandbox).args(["-f", "source"]).arg(remote.at(&target)).run().succeeds();
    compare(&source, &target).unwrap();
    // The reverse: replace a newer file.
    sandbox.file("source", "changed since");
    remote.haul(&sandbox).arg("-f").arg(remote.at(&target)).arg("source").run().succeeds();
    compare(&target, &sandbox.path("source")).unwrap();
}

#[test]
fn a_changed_source_is_copied_again_with_force() {
    let sandbox = Sandbox::new();
    let source = sandbox.file("source", "first");
    sandbox.haul(["source", "target"]).run().succeeds();
    sandbox.file("source", "later");
    set_mtime(&source, 1_800_000_000, 5);
    sandbox.haul(["source", "target"]).run().ends(1).says(["target", "-f"]);
    assert_eq!(contents(&sandbox.path("target")), b"first");
    sandbox.haul(["-f", "source", "target"]).run().succeeds();
    assert_eq!(contents(&sandbox.path("target")), b"later");
    assert_eq!(mtime(&sandbox.path("target")), (1_800_000_000, 5));
}

#[test]
fn the_old_file_stays_until_the_new_one_is_complete() {
    if !is_root_or_skip("a slow cable") {
        return;
    }
    let sandbox = Sandbox::new();
    let pair = HostPair::slow(&sandbox, 100);
    let source = sandbox.big_file("source", 24_000_000);
    let old = vec![b'o'; 3_000_000];
    let target = sandbox.file("there/file", &old);
    let running = pair.haul(&sandbox).args(["-f", "source"]).arg(pair.at(&target)).start();
    eventually("some of the new file is there", || {
        hidden_or_partial(&sandbox.path("there"), &["file"], 500_000).is_some()
    });
    assert_eq!(contents(&target), old, "while the new one is on its way");
    // Dropping it kills the controller and all that it started here, at once.
    drop(running);
    pair.remote.is_left_clean();
    assert_eq!(contents(&target), old, "after the copy was killed");
    pair.haul(&sandbox).args(["-f", "source"]).arg(pair.at(&target)).run().succeeds();
    compare(&source, &target).unwrap();
    assert_eq!(listing(&sandbox.path("there")), ["file"], "something was left beside it");
}

#[test]
fn a_device_is_written_and_stays_one() {
    if !is_root_or_skip("making a device") {
        return;
    }
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    sandbox.big_file("source", 3_000_000);
    // A node of our own: if haul removed it, this machine's /dev/null would still be there.
    shell(&sandbox, "mknod null c 1 3").run().succeeds();
    let null = sandbox.path("null");
    let before = fs::metadata(&null).unwrap();
    sandbox.haul(["source", "null"]).run().succeeds();
    let summary = sandbox.haul(["-f", "--json", "source", "null"]).run().succeeds().summary();
    assert_eq!(summary["bytes"], 3_000_000, "{summary}");
    remote.haul(&sandbox).args(["-f", "source"]).arg(remote.at(&null)).run().succeeds();
    remote.haul(&sandbox).arg("-f").arg(remote.at(sandbox.path("source"))).arg("null").run().succeeds();
    let after = fs::metadata(&null).unwrap();
    assert!(after.file_type().is_char_device());
    assert_eq!((after.ino(), after.rdev(), after.mode()), (before.ino(), before.rdev(), before.mode()));
    assert_eq!(listing(&sandbox.path("")), ["home", "null", "remote-bin", "remote-home", "source"]);
}

#[test]
fn a_disk_is_written_from_its_beginning() {
    if !is_root_or_skip("a loop device") {
        return;
    }
    let sandbox = Sandbox::new();
    let source = sandbox.big_file("source", 3_000_000);
    let image = sandbox.file("image", vec![0; 8 * 1024 * 1024]);
    let disk = Loop::new(&image);
    sandbox.haul(["source", &disk.0]).run().ends(2).says(["is a device", "add -f"]);
    sandbox.haul(["--pipe", "o", "source", &disk.0]).run().ends(2).says(["is a device", "add -f"]);
    assert!(contents(Path::new(&disk.0))[..3_000_000].iter().all(|byte| *byte == 0));
    sandbox.haul(["-f", "source", &disk.0]).run().succeeds();
    assert!(fs::metadata(&disk.0).unwrap().file_type().is_block_device());
    drop(disk);
    assert_eq!(contents(&image)[..3_000_000], contents(&source)[..]);
}

#[test]
fn a_disk_is_read_to_its_end() {
    if !is_root_or_skip("a loop device") {
        return;
    }
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    let disk = Loop::new(&sandbox.big_file("image", 5_000_192));
    sandbox.haul([&disk.0, "copy"]).run().succeeds();
    remote.haul(&sandbox).arg(remote.at(&disk.0)).arg("fetched").run().succeeds();
    for copy in ["copy", "fetched"] {
        compare(&sandbox.path("image"), &sandbox.path(copy)).unwrap();
    }
    sandbox.dir("place");
    sandbox.haul([&disk.0, "image", "place"]).run().ends(1).says(["is a block device", "alone"]);
}

/// A loop device, detached at its end.
struct Loop(String);

impl Loop {
    fn new(image: &Path) -> Self {
        let mut command = Command::new("losetup");
        command.args(["--find", "--show"]).arg(image);
        let finished = run_with_timeout(command, Duration::from_secs(10)).expect("losetup starts");
        assert!(finished.success(), "losetup: {}", finished.stderr_text());
        Self(finished.stdout_text().trim().to_owned())
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.0]).status();
    }
}

#[test]
fn a_fifo_is_written_for_its_reader() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    let source = sandbox.big_file("source", 3_000_001);
    fifo(&sandbox.path("fifo"));
    for over_ssh in [false, true] {
        let mut reader = Command::new("cat");
        reader.arg(sandbox.path("fifo")).stdin(std::process::Stdio::null());
        let reader = start(reader).unwrap();
        let target = if over_ssh { remote.at(sandbox.path("fifo")) } else { "fifo".into() };
        remote.haul(&sandbox).arg("source").arg(target).run().succeeds();
        let read = reader.finish(RUN_LIMIT).unwrap();
        assert!(read.success(), "over ssh: {over_ssh}");
        assert!(read.stdout == contents(&source), "over ssh: {over_ssh}, {} bytes", read.stdout.len());
        assert!(fs::metadata(sandbox.path("fifo")).unwrap().file_type().is_fifo());
    }
}

#[test]
fn a_socket_is_connected_to_and_written() {
    let sandbox = Sandbox::new();
    let source = sandbox.big_file("source", 2_000_001);
    let listener = UnixListener::bind(sandbox.path("socket")).unwrap();
    listener.set_nonblocking(true).unwrap();
    let reader = thread::spawn(move || {
        let mut received = Vec::new();
        let mut accepted = None;
        within(Duration::from_secs(20), || {
            accepted = listener.accept().ok();
            accepted.is_some()
        });
        if let Some((mut stream, _)) = accepted {
            stream.set_nonblocking(false).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            stream.read_to_end(&mut received).unwrap();
        }
        received
    });
    let run: ProgramRun = sandbox.haul(["source", "socket"]).run();
    let received = reader.join().unwrap();
    let run = run.succeeds();
    assert!(received == contents(&source), "{} bytes arrived\n{}", received.len(), run.account());
    assert!(fs::metadata(sandbox.path("socket")).unwrap().file_type().is_socket());
}

#[test]
fn a_link_at_the_target_is_not_followed_out() {
    let sandbox = Sandbox::new();
    sandbox.file("source/name", "new");
    let outside = sandbox.file("outside/file", "must stay");
    sandbox.dir("target/source");
    std::os::unix::fs::symlink("../../outside/file", sandbox.path("target/source/name")).unwrap();
    sandbox.haul(["-r", "source", "target"]).run().ends(1).says(["name"]);
    assert_eq!(contents(&outside), b"must stay");
    sandbox.haul(["-r", "-f", "source", "target"]).run().succeeds();
    assert_eq!(contents(&outside), b"must stay");
    assert_eq!(contents(&sandbox.path("target/source/name")), b"new");
    assert!(fs::symlink_metadata(sandbox.path("target/source/name")).unwrap().is_file());
}

#[test]
fn an_uncopyable_named_source_is_a_failure() {
    let sandbox = Sandbox::new();
    fifo(&sandbox.path("pipe"));
    sandbox.file("file", "x");
    sandbox.dir("target");
    sandbox.haul(["--quiet", "pipe", "file", "target"]).run().ends(1).says(["pipe", "FIFO", "--pipe i"]);
    assert_eq!(contents(&sandbox.path("target/file")), b"x");
    sandbox.haul(["--quiet", "/dev/zero", "target"]).run().ends(1).says(["/dev/zero", "device"]);
}

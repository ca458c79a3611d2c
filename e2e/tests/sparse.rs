//! Holes: they do not travel, and are holes where the file arrives.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::time::Duration;

use haul_e2e::{Haul, Remote, Sandbox, compare, hidden_or_partial, mtime, set_mtime, within};
use rustix::process::Signal;
use serde_json::Value;

const MIB: u64 = 1 << 20;
const LIMIT: Duration = Duration::from_secs(120);

/// A file of `len` bytes with noise in `pieces` (offset, length), and holes elsewhere.
fn sparse(sandbox: &Sandbox, name: &str, len: u64, pieces: impl IntoIterator<Item = (u64, u64)>) -> std::path::PathBuf {
    let path = sandbox.file(name, "");
    let file = File::options().write(true).open(&path).unwrap();
    file.set_len(len).unwrap();
    for (at, bytes) in pieces {
        let noise = haul_lab::Rng::new(at).bytes(usize::try_from(bytes).unwrap());
        file.write_all_at(&noise, at).unwrap();
    }
    path
}

/// Bytes on the disk.
fn room(path: &Path) -> u64 {
    fs::metadata(path).unwrap().blocks() * 512
}

#[track_caller]
fn is_as_sparse(source: &Path, target: &Path) {
    let (there, here) = (room(target), room(source));
    assert!(there <= here + MIB, "{there} bytes of the disk for {here}");
}

fn push(sandbox: &Sandbox, remote: &Remote, options: &[&str], source: &Path, target: &Path) -> Value {
    let haul = remote.haul(sandbox).limit(LIMIT).arg("--json").args(options).arg(source).arg(remote.at(target));
    haul.run().succeeds().summary()
}

fn on_wire(summary: &Value) -> u64 {
    summary["bytes_on_wire"].as_u64().unwrap()
}

#[test]
fn holes_do_not_travel_and_are_holes_at_the_target() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    // In pieces of several frames, of a few blocks, and at the very end.
    let large = (0..5).map(|i| (i * 100 * MIB + 7 * 4096, 4 * MIB));
    let scattered = (0..160).map(|i| ((i * 6 + 3) * MIB / 2, 64 << 10));
    for (name, pieces) in [("large", large.collect::<Vec<_>>()), ("scattered", scattered.collect())] {
        let data: u64 = pieces.iter().map(|(_, bytes)| bytes).sum();
        let source = sparse(&sandbox, name, 600 * MIB + 12_345, pieces);
        let target = sandbox.path(format!("{name} there"));
        let summary = push(&sandbox, &remote, &["--compress", "off"], &source, &target);
        compare(&source, &target).unwrap();
        assert!(on_wire(&summary) < data + data / 100 + MIB / 2, "{name}: {} of {data}", on_wire(&summary));
        is_as_sparse(&source, &target);
    }
}

#[test]
fn an_entirely_sparse_file_arrives_as_one() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    let source = sparse(&sandbox, "hole", 64 * MIB + 1, []);
    let target = sandbox.path("hole there");
    let summary = push(&sandbox, &remote, &["--verify=disk"], &source, &target);
    compare(&source, &target).unwrap();
    assert!(on_wire(&summary) < MIB / 10 && room(&target) < MIB, "{summary}");
    // Here, too, and past the page cache.
    for (name, options) in [("local", &["--unbuffered", "off"][..]), ("direct", &["--unbuffered", "st"])] {
        let target = sandbox.path(name);
        let data = sparse(&sandbox, "data", 64 * MIB, [(20 * MIB + 5, 3 * MIB), (60 * MIB, 4096)]);
        sandbox.haul(options).arg(&data).arg(&target).limit(LIMIT).run().succeeds();
        compare(&data, &target).unwrap();
        is_as_sparse(&data, &target);
    }
}

#[test]
fn written_zeros_stay_data_unless_holes_are_requested() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    let zeros = sandbox.file("zeros", vec![0; 20 << 20]);
    let copied = sandbox.path("copied");
    push(&sandbox, &remote, &[], &zeros, &copied);
    assert!(room(&copied) >= 20 * MIB);
    let made = sandbox.path("made");
    let summary = push(&sandbox, &remote, &["--sparse=make"], &zeros, &made);
    compare(&zeros, &made).unwrap();
    assert!(room(&made) < MIB && on_wire(&summary) < MIB / 10, "{summary}");
    let hole = sparse(&sandbox, "hole", 20 * MIB, []);
    let filled = sandbox.path("filled");
    push(&sandbox, &remote, &["--sparse=fill"], &hole, &filled);
    compare(&hole, &filled).unwrap();
    assert!(room(&filled) >= 20 * MIB);
}

/// Starts a copy and ends it in the middle; the rerun resumes.
#[test]
fn a_broken_copy_resumes_and_a_hole_that_was_data_is_zeros() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    let pieces: Vec<_> = (0..32).map(|i| (i * 4 * MIB, MIB)).collect();
    let source = sparse(&sandbox, "source", 128 * MIB + 99, pieces);
    let place = sandbox.dir("place");
    let target = place.join("file");
    let haul = || -> Haul<'_> { remote.haul(&sandbox).limit(LIMIT).args(["--json", "--progress=1"]) };
    let mut running = haul().args(["--xfrrate", "4m", "-s1"]).arg(&source).arg(remote.at(&target)).start();
    let part = || hidden_or_partial(&place, &["file"], 64 * MIB).filter(|part| room(part) > 2 * MIB);
    assert!(within(LIMIT, || part().is_some()), "nothing arrived\n{}", running.stderr_so_far());
    running.signal(Signal::KILL);
    running.wait_up_to(LIMIT);
    assert!(within(LIMIT, || remote.workers().is_empty()), "a worker is left");
    // Former data is a hole now, and the part still has the data. The times are unchanged.
    let (seconds, nanoseconds) = mtime(&source);
    let file = File::options().write(true).open(&source).unwrap();
    rustix::fs::fallocate(
        &file,
        rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE,
        0,
        6 * MIB,
    )
    .unwrap();
    drop(file);
    set_mtime(&source, seconds, u32::try_from(nanoseconds).unwrap());
    let run = haul().arg(&source).arg(remote.at(&target)).run().succeeds();
    assert!(run.events().iter().any(|event| event["event"] == "resumed"), "{}", run.account());
    compare(&source, &target).unwrap();
    is_as_sparse(&source, &target);
    let again = haul().arg(&source).arg(remote.at(&target)).run().succeeds();
    assert_eq!(again.summary()["files_skipped"], 1);
}

/// A sync of a file of `len` bytes with 4 KiB of data over an older copy at `target`; then one of the changed file.
#[track_caller]
fn sync_twice(len: u64, target: &Path, sync: impl Fn(&Path)) {
    let source = tempfile::tempdir().unwrap();
    let (name, copy) = (source.path().join("hole"), target.join("hole"));
    let file = File::create_new(&name).unwrap();
    file.set_len(len).unwrap();
    file.write_all_at(&[7; 4096], len / 2).unwrap();
    sync(source.path());
    set_mtime(&copy, 1_700_000_000, 0);
    sync(source.path());
    compare(&name, &copy).unwrap();
    is_as_sparse(&name, &copy);
    // A hole at the end, and other data in a hole.
    file.set_len(len + 20 * MIB).unwrap();
    file.write_all_at(&[8; 4096], len / 4).unwrap();
    sync(source.path());
    compare(&name, &copy).unwrap();
    is_as_sparse(&name, &copy);
}

#[test]
fn a_delta_writes_no_holes_out() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    let slash = |path: &Path| format!("{}/", path.display());
    for options in [&[][..], &["--delta=rolling"], &["--inplace"], &["--sparse=make"]] {
        let haul = || sandbox.haul(["sync"]).args(remote.sshd().haul_args()).limit(LIMIT).args(options);
        let (pushed, pulled) = (sandbox.dir("pushed"), sandbox.dir("pulled"));
        sync_twice(100 * MIB, &pushed, |from| drop(haul().arg(slash(from)).arg(remote.at(&pushed)).run().succeeds()));
        sync_twice(100 * MIB, &pulled, |from| {
            drop(haul().arg(remote.at(slash(from))).arg(&pulled).run().succeeds());
        });
        [pushed, pulled].iter().for_each(|made| fs::remove_dir_all(made).unwrap());
    }
}

#[test]
fn a_copy_needs_no_room_for_holes() {
    if !haul_e2e::is_root_or_skip("mounting") {
        return;
    }
    let sandbox = Sandbox::new();
    let mount = sandbox.tmpfs("small", "size=30m");
    let source = sparse(&sandbox, "source", 100 * MIB, (0..8).map(|at| (at * 12 * MIB, 4096)));
    for options in [&["--sparse"][..], &["--sparse=make"], &[]] {
        let target = mount.path().join("target");
        sandbox.haul(options).arg(&source).arg(&target).limit(LIMIT).run().succeeds();
        compare(&source, &target).unwrap();
        is_as_sparse(&source, &target);
        fs::remove_file(target).unwrap();
    }
}

#[test]
fn a_delta_needs_no_room_for_holes() {
    if !haul_e2e::is_root_or_skip("mounting") {
        return;
    }
    let sandbox = Sandbox::new();
    let mount = sandbox.tmpfs("small", "size=32m");
    for options in [["--delta=blocks"], ["--delta=rolling"], ["--inplace"]] {
        let there = mount.path().join(options[0]);
        fs::create_dir(&there).unwrap();
        sync_twice(256 * MIB, &there, |from| {
            let from = format!("{}/", from.display());
            sandbox.haul(["sync"]).args(options).arg(from).arg(&there).limit(LIMIT).run().succeeds();
        });
    }
}

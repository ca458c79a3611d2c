//! Checkpoints of large files: their order, errors, and the result of a power cut.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use haul_e2e::{
    Cut, Disk, ProgramRun, Rng, Sandbox, apart, compare, contents, eventually, is_root_or_skip, pid, shell, within,
};
use rustix::process::{Signal, kill_process};

/// Bytes between two checkpoints.
const EVERY_BYTES: u64 = 512 << 20;
/// One checkpoint, and something behind it.
const BIG: u64 = EVERY_BYTES + (100 << 20);
const IMAGE_BYTES: u64 = 1600 << 20;
const LIMIT: Duration = Duration::from_secs(120);

/// A large file, quickly made: no two frames are the same in place and content.
fn big_file(sandbox: &Sandbox) {
    let block = Rng::new(1).bytes(1 << 20);
    let mut file = File::create(sandbox.dir("source").join("big")).unwrap();
    for number in 0..BIG >> 20 {
        file.write_all(&number.to_le_bytes()).and_then(|()| file.write_all(&block[8..])).unwrap();
    }
}

fn can_be_tried(sandbox: &Sandbox) -> bool {
    if !is_root_or_skip("mounting a file system") {
        return false;
    }
    let has_strace = shell(sandbox, "strace -V").run().status == Some(0);
    if !has_strace {
        println!("SKIPPED: no strace here");
    }
    has_strace
}

fn trace(sandbox: &Sandbox) -> String {
    let text = String::from_utf8(contents(&sandbox.path("trace"))).unwrap();
    // strace also shows calls unknown to it.
    text.lines().filter(|line| !line.contains("syscall_0x")).map(|line| format!("{line}\n")).collect()
}

#[test]
fn the_part_is_synced_before_its_journal_and_an_error_voids_both() {
    let sandbox = Sandbox::new();
    if !can_be_tried(&sandbox) {
        return;
    }
    let Some(mount) = sandbox.image("ext4", IMAGE_BYTES) else { return };
    big_file(&sandbox);
    let copy = |strace: &str, haul: &str| {
        let strace = format!("strace -f --seccomp-bpf -qq -y -o trace -e trace=fdatasync,fsync,ftruncate {strace}");
        shell(&sandbox, &format!("exec {strace} $0 {haul} source/big ext4/")).limit(LIMIT).run().succeeds()
    };
    copy("", "").says(["durable"]).does_not_say("sent again");
    let text = trace(&sandbox);
    let of = |call: &str, file: &str| {
        let place = text.lines().position(|line| line.contains(call) && line.contains(file));
        place.unwrap_or_else(|| panic!("{call} of {file}:\n{text}"))
    };
    let order =
        [of("fdatasync(", ".part"), of("fdatasync(", ".journal"), of("fsync(", "/ext4>"), of("fsync(", ".part")];
    assert!(order.is_sorted(), "{order:?}\n{text}");
    compare(&sandbox.path("source/big"), &mount.path().join("big")).unwrap();

    // The kernel reports the error once. A program that ignores it calls the file durable in the end.
    fs::remove_file(mount.path().join("big")).unwrap();
    let run = copy("-e inject=fdatasync:error=EIO:when=1", "");
    run.says(["not written to the disk", "sending it again", "it is sent again", "durable"]);
    let text = trace(&sandbox);
    assert!(text.lines().any(|line| line.contains("ftruncate(") && line.contains(".journal")), "{text}");
    compare(&sandbox.path("source/big"), &mount.path().join("big")).unwrap();

    fs::remove_file(mount.path().join("big")).unwrap();
    copy("", "--fsync=none");
    assert!(!trace(&sandbox).contains("sync("), "{}", trace(&sandbox));
}

/// A copy is stopped just after a checkpoint, the power is cut, and the same command resumes.
fn goes_on_from_the_checkpoint(kind: &'static str) {
    let sandbox = Sandbox::new();
    if !can_be_tried(&sandbox) {
        return;
    }
    big_file(&sandbox);
    let directory = sandbox.dir(kind);
    let result = apart(|| {
        let disk = match Disk::new(kind, &directory, IMAGE_BYTES) {
            Ok(disk) => disk,
            Err(why) => {
                println!("SKIPPED: no {kind} here: {why:#}");
                return Ok(());
            }
        };
        let place = disk.path().join("place");
        fs::create_dir(&place)?;
        rustix::fs::syncfs(File::open(&place)?)?;
        let haul = |strace: &str| {
            shell(&sandbox, &format!("exec {strace} $0 --json source/big {}/", place.display())).limit(LIMIT)
        };
        // The first directory that is put on the disk is the last thing that a checkpoint does.
        let running =
            haul("strace -f -qq -o trace -e trace=fdatasync,fsync -e inject=fsync:signal=SIGSTOP:when=1").start();
        let stopped = || fs::read_to_string(sandbox.path("trace")).unwrap_or_default();
        eventually("a checkpoint", || stopped().contains("--- SIGSTOP {"));
        let text = stopped();
        assert_eq!(text.matches("fdatasync(").count(), 2, "{text}");
        assert!(!place.join("big").exists(), "it is whole already");
        disk.cut(Cut::LogLost)?;
        let thread = text.lines().find(|line| line.contains("--- SIGSTOP {")).and_then(|line| line.split(' ').next());
        kill_process(pid(thread.and_then(|id| id.parse().ok()).expect("strace says whose")), Signal::CONT)?;
        let run = ProgramRun::of(running);
        assert!(!run.timed_out && run.status != Some(0), "{}", run.account());
        assert!(within(Duration::from_secs(10), || disk.recover().is_ok()), "{kind} cannot be mounted again");
        let run = haul("").run().succeeds();
        let held = run.events().iter().find(|event| event["event"] == "resumed").and_then(|e| e["bytes_held"].as_u64());
        assert!(held.is_some_and(|held| held >= EVERY_BYTES), "{held:?}\n{}", run.account());
        is_there(&sandbox, &place);
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error:#}"));
}

#[track_caller]
fn is_there(sandbox: &Sandbox, place: &Path) {
    compare(&sandbox.path("source/big"), &place.join("big")).unwrap();
}

#[test]
fn after_a_power_cut_a_large_file_resumes_from_its_checkpoint_on_ext4() {
    goes_on_from_the_checkpoint("ext4");
}

#[test]
fn after_a_power_cut_a_large_file_resumes_from_its_checkpoint_on_xfs() {
    goes_on_from_the_checkpoint("xfs");
}

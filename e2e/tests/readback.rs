//! `--verify=disk`, on a disk that returns wrong bytes: an image, changed below the file system between a file's sync
//! and its read-back.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::time::Duration;

use haul_e2e::{Mount, ProgramRun, Running, Sandbox, compare, contents, is_root_or_skip, listing, pid, shell};
use rustix::process::{Signal, kill_process};

const IMAGE_BYTES: u64 = 96 << 20;
/// More than a file needs to have a journal, in frames of 512 KiB and a rest.
const BIG: u64 = 20_000_001;
/// Where bytes are changed: in the third frame.
const AT: u64 = 1_500_000;
const FRAME_BYTES: u64 = 512 << 10;
/// So many bytes are found again in the image.
const NEEDLE_BYTES: usize = 64;
/// Blocks of the file system may be larger, but not smaller.
const BLOCK_BYTES: usize = 1024;

/// A tree to copy, and a disk to copy it to. Prints the reason and returns `None` if it or strace is missing.
fn ground(sandbox: &Sandbox) -> Option<Mount<'_>> {
    if !is_root_or_skip("mounting a file system") {
        return None;
    }
    if shell(sandbox, "strace -V").run().status != Some(0) {
        println!("SKIPPED: no strace here");
        return None;
    }
    let mount = sandbox.image("ext4", IMAGE_BYTES)?;
    sandbox.big_file("source/big", BIG);
    sandbox.big_file("source/middle", 700_000);
    sandbox.big_file("source/small", 5000);
    sandbox.file("source/empty", "");
    sandbox.dir("ext4/source");
    Some(mount)
}

/// The bytes to change: those at this position of a source.
#[derive(Clone)]
struct Needle {
    bytes: Vec<u8>,
    /// The offset in its block, in the source and in the image.
    in_block: usize,
}

fn needle(sandbox: &Sandbox, name: &str, at: u64) -> Needle {
    let mut bytes = vec![0; NEEDLE_BYTES];
    File::open(sandbox.path("source").join(name)).unwrap().read_exact_at(&mut bytes, at).unwrap();
    Needle { bytes, in_block: usize::try_from(at).unwrap() % BLOCK_BYTES }
}

/// Changes a bit at every occurrence in the image; gives their number.
fn damage(sandbox: &Sandbox, needle: &Needle) -> usize {
    let path = sandbox.path("ext4.image");
    let bytes = contents(&path);
    let image = File::options().write(true).open(&path).unwrap();
    let places = (needle.in_block..bytes.len()).step_by(BLOCK_BYTES);
    let found: Vec<_> = places.filter(|at| bytes[*at..].starts_with(&needle.bytes)).collect();
    for at in &found {
        image.write_all_at(&[needle.bytes[0] ^ 4], *at as u64).unwrap();
    }
    found.len()
}

fn damage_all(sandbox: &Sandbox, needles: &[Needle]) {
    for needle in needles {
        damage(sandbox, needle);
    }
}

/// Copies with these options. After each sync, its process is stopped during `meanwhile`: only at a sync's return are
/// the bytes on the disk and not yet read back.
fn copy(sandbox: &Sandbox, options: &str, mut meanwhile: impl FnMut()) -> ProgramRun {
    let _ = fs::remove_file(sandbox.path("trace"));
    let strace = "strace -f -qq -o trace -e trace=fsync,syncfs -e inject=fsync,syncfs:signal=SIGSTOP";
    let mut running: Running = shell(sandbox, &format!("exec {strace} $0 {options} -r source ext4/")).start();
    let mut seen = 0;
    while !running.wait_up_to(Duration::from_millis(2)) {
        let trace = fs::read_to_string(sandbox.path("trace")).unwrap_or_default();
        let stops: Vec<_> = trace.lines().filter(|line| line.contains("--- SIGSTOP {")).collect();
        for stopped in &stops[seen..] {
            seen += 1;
            meanwhile();
            let thread = stopped.split_whitespace().next().and_then(|id| id.parse().ok()).expect("strace says whose");
            // It may be gone by now.
            let _ = kill_process(pid(thread), Signal::CONT);
        }
    }
    ProgramRun::of(running)
}

/// Removes the last copy.
fn clear(sandbox: &Sandbox) {
    fs::remove_dir_all(sandbox.path("ext4/source")).unwrap();
    sandbox.dir("ext4/source");
}

#[test]
fn data_read_back_wrong_once_is_sent_again_and_goes_unnoticed_without_the_option() {
    let sandbox = Sandbox::new();
    let Some(mount) = ground(&sandbox) else { return };
    let needles = [needle(&sandbox, "big", AT), needle(&sandbox, "middle", 7), needle(&sandbox, "small", 4800)];
    // Past the page cache, and through it.
    for options in ["--verify=disk", "--verify=disk --unbuffered off", "--verify=disk --fsync=data"] {
        // An earlier copy's remains in the image must not count as this one's data.
        damage_all(&sandbox, &needles);
        let mut left = needles.to_vec();
        let run = copy(&sandbox, &format!("--json {options}"), || left.retain(|needle| damage(&sandbox, needle) == 0));
        let run = run.succeeds();
        assert!(left.is_empty(), "{}", run.account());
        compare(&sandbox.path("source"), &mount.path().join("source")).unwrap();
        let (summary, notices) =
            (run.summary(), run.events().iter().filter(|event| event["event"] == "notice").count());
        assert!(
            notices >= 1 && run.stdout.contains("the disk returned other data than was written"),
            "{}",
            run.account()
        );
        assert_eq!(summary["frames_resent"], 2, "a frame of each large file, and no others\n{}", run.account());
        let read = &summary["read_back"];
        let bytes = |name: &str| read[name].as_u64().unwrap();
        assert!(bytes("disk_bytes") + bytes("cache_bytes") >= BIG + 705_000, "{read}");
        assert_eq!(bytes("memory_bytes"), 0, "{read}");
        assert!(options.contains("--unbuffered off") || bytes("cache_bytes") == 0, "{read}");
        clear(&sandbox);
    }
    let run = copy(&sandbox, "", || damage_all(&sandbox, &needles));
    run.succeeds().says(["durable"]).does_not_say("read back");
    // The page cache's content is still right.
    let big = File::open(mount.path().join("source/big")).unwrap();
    rustix::fs::fadvise(&big, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    assert!(compare(&sandbox.path("source"), &mount.path().join("source")).is_err(), "the harness damages nothing");
}

#[test]
fn data_read_back_wrong_twice_fails_only_its_file_by_name_and_place() {
    let sandbox = Sandbox::new();
    let Some(mount) = ground(&sandbox) else { return };
    let place = format!("{FRAME_BYTES} bytes at {}", AT / FRAME_BYTES * FRAME_BYTES);
    for (name, at, place) in [("big", AT, place.as_str()), ("small", 0, "5000 bytes at 0")] {
        let needle = needle(&sandbox, name, at);
        let run = copy(&sandbox, "--verify=disk", || damage_all(&sandbox, std::slice::from_ref(&needle))).ends(1);
        let path = format!("source/{name}");
        let phrases = [path.as_str(), "the disk returned other data than was written", place, "sent again", "smartctl"];
        run.says(phrases).does_not_say("not written to the disk");
        let others = ["big", "empty", "middle", "small"].into_iter().filter(|other| *other != name);
        assert_eq!(listing(&mount.path().join("source")), others.collect::<Vec<_>>());
        sandbox.haul(["-r", "--verify", "disk", "source", "ext4/"]).run().succeeds().says(["read back"]);
        compare(&sandbox.path("source"), &mount.path().join("source")).unwrap();
        clear(&sandbox);
    }
}

#[test]
fn many_files_are_read_back_and_the_wrong_one_is_found() {
    let sandbox = Sandbox::new();
    let Some(mount) = ground(&sandbox) else { return };
    for number in 0..60 {
        sandbox.big_file(format!("source/d/f{number}"), 3000 + number);
    }
    let needle = needle(&sandbox, "d/f17", 99);
    let mut damaged = 0;
    let run = copy(&sandbox, "--verify=disk", || {
        damaged += if damaged == 0 { damage(&sandbox, &needle) } else { 0 };
    });
    run.succeeds().says(["d/f17: the disk returned", "it is sent again", "from the disk", "durable"]);
    assert_eq!(damaged, 1);
    compare(&sandbox.path("source"), &mount.path().join("source")).unwrap();
}

#[test]
fn the_absence_of_a_disk_is_reported() {
    let sandbox = Sandbox::new();
    if !is_root_or_skip("mounting a file system") {
        return;
    }
    let memory = sandbox.tmpfs("memory", "size=64m");
    sandbox.big_file("source/big", BIG);
    sandbox.big_file("source/small", 5000);
    let run = sandbox.haul(["-r", "--verify=disk", "source"]).arg(memory.path()).run().succeeds();
    run.says(["read back   20.0 MB from memory: there is no disk"]).does_not_say("durable");
    compare(&sandbox.path("source"), &memory.path().join("source")).unwrap();
    let run = sandbox.haul(["--verify=disk", "source/big", "/dev/null"]).run().succeeds();
    run.says(["read back   nothing"]);
}

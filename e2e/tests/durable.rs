//! The order of writes and syncs: system calls under strace, and injected disk errors.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use haul_e2e::{Mount, ProgramRun, Sandbox, compare, contents, is_root_or_skip, listing, shell};

/// Enough for all that is copied here.
const IMAGE_BYTES: u64 = 64 << 20;
/// More than are put on the disk one by one.
const MANY: usize = 60;

/// A disk to copy to, `ext4` in the sandbox. Prints the reason and returns `None` if it or strace is missing.
fn disk(sandbox: &Sandbox) -> Option<Mount<'_>> {
    if !is_root_or_skip("mounting a file system") {
        return None;
    }
    if shell(sandbox, "strace -V").run().status != Some(0) {
        println!("SKIPPED: no strace here");
        return None;
    }
    sandbox.image("ext4", IMAGE_BYTES)
}

/// Copies `source` into `ext4` under strace with these options.
fn traced(sandbox: &Sandbox, strace: &str, haul: &str) -> ProgramRun {
    shell(sandbox, &format!("exec strace -f -qq -o trace {strace} $0 {haul} -r source ext4/")).run()
}

fn many_files(sandbox: &Sandbox) {
    for number in 0..MANY {
        sandbox.file(format!("source/d{}/f{number}", number % 3), vec![b'x'; 100 * number]);
    }
}

/// One call of the trace: its position, thread, name and arguments.
struct Call<'a> {
    at: usize,
    thread: &'a str,
    name: &'a str,
    arguments: &'a str,
}

/// A trace's calls, by the time of their start.
fn calls(trace: &str) -> Vec<Call<'_>> {
    let lines = trace.lines().enumerate();
    lines
        .filter_map(|(at, line)| {
            let (thread, rest) = line.split_once(' ')?;
            let (name, arguments) = rest.trim_start().split_once('(')?;
            Some(Call { at, thread, name, arguments })
        })
        .collect()
}

/// A descriptor's file, as `strace -y` shows it: `7</tmp/#12>(deleted)`.
fn file_of(arguments: &str) -> &str {
    let shown = arguments.split_once('<').map_or("", |(_, rest)| rest);
    shown.split_once('>').map_or("", |(path, _)| path)
}

#[test]
fn contents_then_name_then_directory() {
    let sandbox = Sandbox::new();
    let Some(mount) = disk(&sandbox) else { return };
    many_files(&sandbox);
    sandbox.big_file("source/big", 3_000_000);
    // Some replace existing files.
    for number in (0..MANY).step_by(2) {
        sandbox.file(format!("ext4/source/d{}/f{number}", number % 3), "old");
    }
    let run = traced(&sandbox, "-y -e trace=pwrite64,fsync,syncfs,linkat,renameat,renameat2", "-f");
    run.succeeds().says(["durable"]);
    compare(&sandbox.path("source"), &mount.path().join("source")).unwrap();

    let trace = String::from_utf8(contents(&sandbox.path("trace"))).unwrap();
    let calls = calls(&trace);
    let mut written = HashMap::new();
    let mut named = 0;
    for call in &calls {
        if call.name == "pwrite64" {
            written.insert(file_of(call.arguments), call.at);
        }
        let moved = match call.name {
            "linkat" => file_of(call.arguments).to_owned(),
            "renameat" | "renameat2" => renamed(call.arguments),
            _ => continue,
        };
        named += 1;
        let by_thread = |other: &&Call<'_>| other.thread == call.thread;
        // An empty file is never written to.
        let written_at = written.get(moved.as_str()).copied().unwrap_or(0);
        let synced = calls.iter().filter(by_thread).any(|sync| {
            let of_it = sync.name == "syncfs" || sync.name == "fsync" && file_of(sync.arguments) == moved;
            of_it && (written_at..call.at).contains(&sync.at)
        });
        assert!(synced, "line {}: {moved} has its name before it is on the disk", call.at + 1);
        let directory = Path::new(&directory_of(call)).to_owned();
        let name_synced = calls.iter().filter(by_thread).any(|sync| {
            let of_it =
                sync.name == "syncfs" || sync.name == "fsync" && Path::new(file_of(sync.arguments)) == directory;
            of_it && sync.at > call.at
        });
        assert!(name_synced, "line {}: the name in {} does not reach the disk", call.at + 1, directory.display());
    }
    assert_eq!(named, MANY + 1);
}

/// The temporary file of `renameat2(5</tmp/d>, "a", 5</tmp/d>, "b", 0)`.
fn renamed(arguments: &str) -> String {
    format!("{}/{}", file_of(arguments), arguments.split('"').nth(1).unwrap_or_default())
}

/// The directory that a name appears in: the last descriptor of the call.
fn directory_of(call: &Call<'_>) -> String {
    let last = call.arguments.rsplit_once('<').map_or("", |(_, rest)| rest);
    last.split_once('>').map_or("", |(path, _)| path).to_owned()
}

#[test]
fn without_fsync_there_is_no_waiting() {
    let sandbox = Sandbox::new();
    let Some(_mount) = disk(&sandbox) else { return };
    many_files(&sandbox);
    let syncs = |sandbox: &Sandbox| {
        let trace = String::from_utf8(contents(&sandbox.path("trace"))).unwrap();
        ["fsync(", "syncfs(", "sync_file_range("].map(|call| trace.matches(call).count())
    };
    sandbox.dir("ext4/source");
    let trace = "-e trace=fsync,fdatasync,syncfs,sync_file_range";
    traced(&sandbox, trace, "--fsync=none").succeeds().does_not_say("durable");
    assert_eq!(syncs(&sandbox), [0; 3]);
    let memory = sandbox.tmpfs("memory", "size=16m");
    let haul = format!("exec strace -f -qq -o trace {trace} $0 -r source {}", memory.path().display());
    shell(&sandbox, &haul).run().succeeds().does_not_say("durable");
    assert_eq!(syncs(&sandbox), [0; 3]);
    fs::remove_dir_all(sandbox.path("ext4/source")).unwrap();
    sandbox.dir("ext4/source");
    let run = traced(&sandbox, "-y -e trace=fsync,syncfs", "--fsync d").succeeds().does_not_say("durable");
    let trace = String::from_utf8(contents(&sandbox.path("trace"))).unwrap();
    let of_directories = calls(&trace).iter().filter(|call| Path::new(file_of(call.arguments)).is_dir()).count();
    assert!(trace.contains("syncfs(") && of_directories == trace.matches("syncfs(").count(), "{}", run.account());
}

#[test]
fn directories_created_during_the_copy_are_durable_too() {
    let sandbox = Sandbox::new();
    let Some(mount) = disk(&sandbox) else { return };
    sandbox.file("source/inner/file", "content");
    let haul = "exec strace -f -qq -o trace -y -e trace=fsync,syncfs $0 --mkdir -r source ext4/one/two/";
    shell(&sandbox, haul).run().succeeds().says(["durable"]);
    compare(&sandbox.path("source"), &mount.path().join("one/two/source")).unwrap();
    let trace = String::from_utf8(contents(&sandbox.path("trace"))).unwrap();
    for made_in in ["", "one", "one/two", "one/two/source", "one/two/source/inner"] {
        let place = mount.path().join(made_in);
        let place = place.to_str().unwrap().trim_end_matches('/');
        assert!(trace.contains(&format!("<{place}>)")), "{place}:\n{trace}");
    }
}

/// Makes a call of the thread that settles fail, always or at one of its times.
fn failing(call: &str, when: &str) -> String {
    format!("-e inject={call}:error=EIO:when={when} -e trace={call}")
}

/// Runs without disk errors complete the remains of others.
#[track_caller]
fn goes_on(sandbox: &Sandbox) {
    sandbox.haul(["-r", "source", "ext4/"]).run().succeeds();
    compare(&sandbox.path("source"), &sandbox.path("ext4/source")).unwrap();
}

#[test]
fn a_large_file_that_misses_the_disk_is_sent_once_more() {
    let sandbox = Sandbox::new();
    let Some(mount) = disk(&sandbox) else { return };
    // Large enough for a broken run to be resumed. This one must not be: the page cache's content is not on the disk.
    sandbox.big_file("source/big", 20_000_000);
    sandbox.dir("ext4/source");
    let run = traced(&sandbox, &format!("{},unlinkat", failing("fsync", "1")), "").succeeds();
    run.says(["source/big: not written to the disk", "it is sent again", "durable"]);
    compare(&sandbox.path("source"), &mount.path().join("source")).unwrap();
    assert_eq!(listing(&mount.path().join("source")), ["big"]);
    let trace = String::from_utf8(contents(&sandbox.path("trace"))).unwrap();
    assert!(trace.contains(".part\", 0)"), "into a new file:\n{trace}");

    fs::remove_dir_all(mount.path().join("source")).unwrap();
    sandbox.dir("ext4/source");
    let run = traced(&sandbox, &failing("fsync", "1+"), "").ends(1);
    run.says(["source/big", "it is sent again", "not written to the disk", "smartctl"]).does_not_say("durable");
    assert_eq!(listing(&mount.path().join("source")), [""; 0]);
    goes_on(&sandbox);
}

#[test]
fn small_files_that_miss_the_disk_are_sent_once_more() {
    let sandbox = Sandbox::new();
    let Some(mount) = disk(&sandbox) else { return };
    for name in ["one", "two"] {
        sandbox.file(format!("source/{name}"), name);
    }
    sandbox.dir("ext4/source");
    let run = traced(&sandbox, &failing("fsync", "1"), "").succeeds();
    run.says(["source/", "not written to the disk", "sent again", "durable"]);
    compare(&sandbox.path("source"), &mount.path().join("source")).unwrap();

    fs::remove_dir_all(mount.path().join("source")).unwrap();
    sandbox.dir("ext4/source");
    let run = traced(&sandbox, &failing("fsync", "1+"), "").ends(1);
    run.says(["source/one", "source/two", "not written to the disk"]).does_not_say("durable");
    assert_eq!(listing(&mount.path().join("source")), [""; 0]);
    goes_on(&sandbox);
}

#[test]
fn one_bad_file_of_a_group_is_found() {
    let sandbox = Sandbox::new();
    let Some(mount) = disk(&sandbox) else { return };
    many_files(&sandbox);
    // Each file is checked for its own errors after syncfs, and one by one if that fails.
    for (call, when) in [("sync_file_range", "7"), ("syncfs", "1"), ("syncfs", "1+")] {
        let run = traced(&sandbox, &failing(call, when), "").succeeds().says(["durable"]);
        assert_eq!(run.stderr.contains("sent again"), call == "sync_file_range", "{}", run.account());
        compare(&sandbox.path("source"), &mount.path().join("source")).unwrap();
        fs::remove_dir_all(mount.path().join("source")).unwrap();
    }
    let run = traced(&sandbox, &failing("sync_file_range", "1+"), "").ends(1).says(["not written to the disk"]);
    // Where few were left over, they were put there one by one.
    for directory in listing(&mount.path().join("source")) {
        for name in listing(&mount.path().join("source").join(&directory)) {
            let path = Path::new(&directory).join(name);
            let (ours, theirs) = (sandbox.path("source").join(&path), mount.path().join("source").join(&path));
            assert_eq!(contents(&ours), contents(&theirs), "{}", run.account());
        }
    }
    goes_on(&sandbox);
}

#[test]
fn a_name_that_misses_the_disk_is_reported() {
    let sandbox = Sandbox::new();
    let Some(mount) = disk(&sandbox) else { return };
    sandbox.file("source", "content");
    // The file's own, then its directory's.
    let run = traced(&sandbox, &failing("fsync", "2"), "").ends(1);
    run.says(["ext4/source", "its name was not written to the disk"]).does_not_say("durable");
    assert_eq!(contents(&mount.path().join("source")), b"content", "it is right all the same");
    sandbox.haul(["source", "ext4/"]).run().succeeds();
}

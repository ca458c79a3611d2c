//! Files replaced or updated by their difference from a base file.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use haul_e2e::{
    ProgramRun, Remote, Rng, Sandbox, compare, contents, hidden_or_partial, is_root_or_skip, listing, mtime, set_mtime,
    within,
};
use haul_lab::descendants;
use haul_proto::delta::patch::{PatchHeader, append};
use haul_proto::entry::Timestamp;
use rustix::process::Signal;
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(60);
/// Frames of 512 KiB, and a rest.
const BIG: u64 = 24_000_001;
const PAGE: usize = 4096;

/// An old file at the target, and a new one.
struct Change {
    sandbox: Sandbox,
    remote: Remote,
    new: PathBuf,
    old: PathBuf,
}

impl Change {
    /// Makes the new file of the old one's bytes.
    fn new(change: impl FnOnce(&mut Vec<u8>)) -> Self {
        let sandbox = Sandbox::new();
        let remote = Remote::new(&sandbox);
        let old = sandbox.big_file("there/file", BIG);
        let mut bytes = contents(&old);
        change(&mut bytes);
        let new = sandbox.file("here/file", bytes);
        set_mtime(&new, 1_700_000_000, 5);
        Self { sandbox, remote, new, old }
    }

    fn push(&self, options: &[&str]) -> ProgramRun {
        let haul = self.remote.haul(&self.sandbox).limit(LIMIT).args(["--json", "-f"]).args(options);
        haul.arg(&self.new).arg(self.remote.at(&self.old)).run()
    }

    /// The file is the new one, without anything left beside it.
    #[track_caller]
    fn is_done(&self) {
        compare(&self.new, &self.old).unwrap();
        assert_eq!(mtime(&self.old), mtime(&self.new));
        assert_eq!(listing(self.old.parent().expect("a directory")), ["file"]);
    }
}

/// Overwrites scattered pages.
fn pages(bytes: &mut [u8], number: usize) {
    let mut rng = Rng::new(7);
    for _ in 0..number {
        let page = rng.index(bytes.len() / PAGE) * PAGE;
        bytes[page..page + PAGE].iter_mut().for_each(|byte| *byte ^= 0x5a);
    }
}

fn number(value: &Value, name: &str) -> u64 {
    value[name].as_u64().unwrap_or_else(|| panic!("{name} in {value}"))
}

/// The reported counts for base files, and the bytes received.
#[track_caller]
fn travelled(run: &ProgramRun) -> (Value, u64) {
    let delta = run.summary()["delta"].clone();
    let bytes = number(&delta, "told_bytes") + number(&delta, "carried_bytes");
    (delta, bytes)
}

#[test]
fn only_changed_pages_are_sent() {
    let change = Change::new(|bytes| pages(bytes, 60));
    let run = change.push(&[]).succeeds();
    change.is_done();
    let (delta, travelled) = travelled(&run);
    assert_eq!((number(&delta, "files"), number(&delta, "bytes")), (1, BIG), "{delta}");
    assert!(number(&delta, "old_bytes") >= BIG - 61 * PAGE as u64, "{delta}");
    assert!(travelled < 60 * 5000 + BIG / 400, "{delta}");
    assert!(delta["speedup"].as_f64().is_some_and(|speedup| speedup > 50.0), "{delta}");
}

#[test]
fn the_file_of_an_earlier_copy_is_a_base_file() {
    let change = Change::new(|bytes| pages(bytes, 60));
    let (earlier, now) = (change.old.parent().unwrap(), change.sandbox.path("now"));
    let haul = change.remote.haul(&change.sandbox).limit(LIMIT).args(["sync", "--json"]);
    let from = format!("{}/", change.new.parent().unwrap().display());
    let run = haul.arg("--link-dest").arg(earlier).arg(from).arg(change.remote.at(&now)).run().succeeds();
    compare(&change.new, &now.join("file")).unwrap();
    let (delta, travelled) = travelled(&run);
    assert!(number(&delta, "files") == 1 && travelled < 60 * 5000 + BIG / 400, "{delta}");
}

#[test]
fn only_inserted_and_appended_data_is_sent() {
    let change = Change::new(|bytes| {
        drop(bytes.splice(10_000..10_000, vec![7; 1000]));
        drop(bytes.drain(9_000_000..9_300_000));
        bytes.extend(vec![9; 5000]);
    });
    let run = change.push(&[]).succeeds();
    change.is_done();
    let (delta, travelled) = travelled(&run);
    assert!(travelled < 200_000, "{delta}");
}

#[test]
fn misleading_blocks_are_sent_in_full() {
    let change = Change::new(|bytes| {
        drop(bytes.splice(10_000..10_000, vec![7; 1000]));
        // A change that keeps both a block's sum and its position-weighted sum.
        let place = bytes[12_000_000..].windows(3).position(|three| three[0] < 255 && three[1] > 1 && three[2] < 255);
        let place = 12_000_000 + place.expect("most bytes are neither large nor small");
        bytes[place] += 1;
        bytes[place + 1] -= 2;
        bytes[place + 2] += 1;
    });
    let run = change.push(&[]).succeeds();
    change.is_done();
    assert_eq!(number(&run.summary(), "frames_resent"), 0, "{}", run.summary());
}

#[test]
fn unrelated_files_are_sent_in_full() {
    for how in ["blocks", "rolling"] {
        let change = Change::new(|bytes| bytes.iter_mut().for_each(|byte| *byte ^= 0x5a));
        let run = change.push(&["--delta", how]).succeeds();
        change.is_done();
        let (delta, _) = travelled(&run);
        assert_eq!(number(&delta, "old_bytes"), 0, "{how}: {delta}");
    }
}

#[test]
fn both_directions_and_both_sizes_give_the_new_file() {
    for (how, cut) in [("blocks", 100_000), ("rolling", 100_000), ("blocks", 0), ("rolling", 0)] {
        let change = Change::new(|bytes| {
            pages(bytes, 5);
            bytes.truncate(bytes.len() - cut);
        });
        // Pulled: the old file is here.
        let pull = change.remote.haul(&change.sandbox).limit(LIMIT).args(["--json", "-f", "--delta", how]);
        let run = pull.arg(change.remote.at(&change.new)).arg(&change.old).run().succeeds();
        change.is_done();
        let (delta, travelled) = travelled(&run);
        assert!(travelled < 1_500_000, "{how} {cut}: {delta}");
    }
}

#[test]
fn off_sends_everything_silently() {
    let change = Change::new(|bytes| pages(bytes, 5));
    let run = change.push(&["--delta", "off"]).succeeds();
    change.is_done();
    assert_eq!(run.summary()["delta"], Value::Null);
    assert!(number(&run.summary(), "bytes_on_wire") > BIG / 2);
}

#[test]
fn a_policy_without_deltas_reports_no_old_files() {
    for options in [&[][..], &["--delta", "rolling"], &["--inplace"]] {
        let change = Change::new(|bytes| pages(bytes, 5));
        let policy = change.remote.home().join(".config/haul");
        fs::create_dir_all(&policy).unwrap();
        fs::write(policy.join("policy"), "deltas = no\n").unwrap();
        let run = change.push(options).succeeds();
        change.is_done();
        let delta = &run.summary()["delta"];
        assert!(delta.is_null() || number(delta, "told_bytes") == 0, "{options:?}: {delta}");
        assert!(number(&run.summary(), "bytes_on_wire") > BIG / 2, "{options:?}");
        let says_so = run.stdout.contains("deltas are forbidden here") || run.stderr.contains("deltas are forbidden");
        assert_eq!(says_so, !options.is_empty(), "{options:?}: {} {}", run.stdout, run.stderr);
    }
}

#[test]
fn in_place_a_file_stays_the_same_file() {
    for (longer, shorter) in [(0, 0), (700_000, 0), (0, 900_000)] {
        let change = Change::new(|bytes| {
            pages(bytes, 60);
            bytes.extend(vec![3; longer]);
            bytes.truncate(bytes.len() - shorter);
        });
        let inode = fs::metadata(&change.old).unwrap().ino();
        let run = change.push(&["--inplace"]).succeeds();
        change.is_done();
        assert_eq!(fs::metadata(&change.old).unwrap().ino(), inode);
        let (delta, travelled) = travelled(&run);
        assert!(travelled < 60 * 5000 + longer as u64 + 700_000, "{delta}");
    }
}

#[test]
fn in_place_within_one_machine_works_too() {
    let change = Change::new(|bytes| pages(bytes, 60));
    let inode = fs::metadata(&change.old).unwrap().ino();
    let haul = change.sandbox.haul(["-f", "--inplace"]).limit(LIMIT);
    haul.arg(&change.new).arg(&change.old).run().succeeds();
    change.is_done();
    assert_eq!(fs::metadata(&change.old).unwrap().ino(), inode);
}

#[test]
fn in_place_a_killed_run_leaves_the_old_file() {
    let change = Change::new(|bytes| bytes.iter_mut().for_each(|byte| *byte ^= 0x5a));
    let before = contents(&change.old);
    let place = change.old.parent().expect("a directory");
    let haul = change.remote.haul(&change.sandbox).limit(LIMIT).args(["-f", "--inplace", "--xfrrate", "8m"]);
    let mut running = haul.arg(&change.new).arg(change.remote.at(&change.old)).start();
    let arrived = within(LIMIT, || hidden_or_partial(place, &["file"], 2_000_000).is_some());
    assert!(arrived, "nothing arrived\n{}", running.stderr_so_far());
    running.signal(Signal::KILL);
    running.wait_up_to(LIMIT);
    assert!(within(LIMIT, || change.remote.workers().is_empty()), "a worker is left");
    assert!(contents(&change.old) == before, "the old file was touched");
    change.push(&["--inplace"]).succeeds();
    change.is_done();
}

/// Writes the remains of a run killed while it applied a patch to a file.
fn leave_patch(change: &Change, inode: u64) -> PathBuf {
    let (new, old) = (contents(&change.new), contents(&change.old));
    let (seconds, nanoseconds) = mtime(&change.new);
    let modified = Timestamp { seconds, nanoseconds: u32::try_from(nanoseconds).unwrap() };
    let mut pieces = Vec::new();
    for (at, (new, old)) in new.chunks(PAGE).zip(old.chunks(PAGE)).enumerate() {
        if new != old {
            append(&mut pieces, (at * PAGE) as u64, new);
        }
    }
    let header = PatchHeader { inode, size: new.len() as u64, modified, end: 96 + pieces.len() as u64, applied: 0 };
    let patch = patch_of(&change.old);
    fs::write(&patch, [header.encode(), pieces].concat()).unwrap();
    patch
}

fn patch_of(file: &Path) -> PathBuf {
    let name = file.file_name().expect("a name").as_encoded_bytes();
    let digest = blake3::hash(&[&b"file\0"[..], name].concat());
    file.with_file_name(format!(".haul-{}.patch", &digest.to_hex()[..24]))
}

#[test]
fn an_unapplied_patch_is_applied_first() {
    let change = Change::new(|bytes| pages(bytes, 60));
    leave_patch(&change, fs::metadata(&change.old).unwrap().ino());
    let run = change.push(&[]).succeeds();
    change.is_done();
    let (delta, _) = travelled(&run);
    assert_eq!(number(&delta, "old_bytes"), BIG, "it was the new file then: {delta}");
}

#[test]
fn changes_made_to_a_file_after_its_patch_are_overwritten() {
    let change = Change::new(|bytes| pages(bytes, 60));
    leave_patch(&change, fs::metadata(&change.old).unwrap().ino());
    let mut bytes = contents(&change.old);
    let same = bytes.iter().zip(&contents(&change.new)).position(|(old, new)| old == new).expect("a byte that stays");
    bytes[same] ^= 1;
    fs::write(&change.old, bytes).unwrap();
    change.push(&[]).succeeds();
    change.is_done();
}

#[test]
fn a_truncated_patch_obstructs_nothing() {
    let change = Change::new(|bytes| pages(bytes, 60));
    let patch = leave_patch(&change, fs::metadata(&change.old).unwrap().ino());
    fs::File::options().write(true).open(patch).unwrap().set_len(100_000).unwrap();
    change.push(&["--inplace"]).succeeds();
    change.is_done();
}

/// Ends a run within one machine while it puts a patch into its file; `false` where it was too fast.
fn killed_in_the_middle(change: &Change, patch: &Path) -> bool {
    let haul = change.sandbox.haul(["-f", "--inplace"]).limit(LIMIT);
    let mut running = haul.arg(&change.new).arg(&change.old).start();
    while !patch.exists() && !running.wait_up_to(Duration::ZERO) {}
    let kill = |process: u32| {
        let process = rustix::process::Pid::from_raw(i32::try_from(process).unwrap()).unwrap();
        let _ = rustix::process::kill_process(process, Signal::KILL);
    };
    let workers = descendants(running.id());
    workers.iter().copied().for_each(kill);
    running.signal(Signal::KILL);
    assert!(running.wait_up_to(LIMIT), "still running");
    let is_gone = |worker: &u32| !Path::new(&format!("/proc/{worker}")).exists();
    assert!(within(LIMIT, || workers.iter().all(is_gone)), "a worker is left");
    patch.exists() && contents(&change.old) != contents(&change.new)
}

#[test]
fn a_killed_runs_patches_are_listed_and_survive_a_cleanup() {
    let change = Change::new(|bytes| bytes.iter_mut().for_each(|byte| *byte ^= 0x5a));
    let before = contents(&change.old);
    let (patch, place) = (patch_of(&change.old), change.old.parent().expect("a directory").to_owned());
    let left = (0..20).any(|_| {
        fs::write(&change.old, &before).unwrap();
        killed_in_the_middle(&change, &patch)
    });
    assert!(left, "it was always too fast");
    for path in [&place, &change.old] {
        let run = change.sandbox.haul(["status"]).arg(path).run().succeeds();
        let says =
            ["there/file: 24.0 MB of pending changes, last written ", "rerun the command to apply all", "1 unfinished"];
        says.iter().for_each(|phrase| assert!(run.stdout.contains(phrase), "{phrase}\n{}", run.account()));
    }
    let events = change.sandbox.haul(["status", "--json"]).arg(&place).run().succeeds().events();
    assert_eq!((&events[0]["state"], &events[0]["bytes"]), (&"patch".into(), &BIG.into()));
    let run = change.sandbox.haul(["clean"]).arg(&place).run().succeeds();
    assert!(run.stdout.contains("kept ") && run.stdout.contains("0 deleted"), "{}", run.account());
    change.sandbox.haul(["-f", "--inplace"]).limit(LIMIT).arg(&change.new).arg(&change.old).run().succeeds();
    change.is_done();
    // Once its file has it, or there is another one, it can go.
    leave_patch(&change, 1);
    let run = change.sandbox.haul(["clean"]).arg(&place).run().succeeds();
    assert!(run.stdout.contains("deleted ") && run.stdout.contains("1 deleted"), "{}", run.account());
    change.is_done();
}

#[test]
fn a_patch_for_another_file_is_not_applied() {
    let change = Change::new(|bytes| pages(bytes, 60));
    leave_patch(&change, 1);
    let run = change.push(&[]).succeeds();
    change.is_done();
    assert_eq!(number(&run.summary(), "files_copied"), 1);
}

#[test]
fn a_started_delta_is_resumed_as_a_delta() {
    let change = Change::new(|bytes| {
        // One half has to be sent, and takes its time.
        let half = bytes.len() / 2;
        bytes[..half].iter_mut().for_each(|byte| *byte ^= 0x5a);
    });
    let place = change.old.parent().expect("a directory");
    let haul = change.remote.haul(&change.sandbox).limit(LIMIT).args(["-f", "--xfrrate", "4m", "--compress", "off"]);
    let mut running = haul.arg(&change.new).arg(change.remote.at(&change.old)).start();
    let arrived = within(LIMIT, || hidden_or_partial(place, &["file"], 3_000_000).is_some());
    assert!(arrived, "nothing arrived\n{}", running.stderr_so_far());
    running.signal(Signal::KILL);
    running.wait_up_to(LIMIT);
    assert!(within(LIMIT, || change.remote.workers().is_empty()), "a worker is left");
    let run = change.push(&["--compress", "off"]).succeeds();
    change.is_done();
    // How much of each half was there already differs from run to run.
    let rest = number(&run.summary(), "bytes");
    let old = run.summary()["delta"]["old_bytes"].as_u64().unwrap_or(0);
    assert!(old > 0 && number(&run.summary(), "bytes_on_wire") < rest - old / 2, "{}", run.account());
}

/// A file of 4 MB on a disk of 24 MB; it is to grow by `more` bytes.
fn grow_in_place(more: u64, look: impl Fn(&Path, &dyn Fn() -> ProgramRun)) {
    if !is_root_or_skip("mounting") {
        return;
    }
    let sandbox = Sandbox::new();
    let small = sandbox.tmpfs("small", "size=24m");
    let source = sandbox.big_file("source/file", 4_000_000);
    fs::copy(&source, small.path().join("file")).unwrap();
    let bytes = Rng::new(more).bytes(usize::try_from(more).unwrap());
    fs::write(&source, [contents(&source), bytes].concat()).unwrap();
    look(small.path(), &|| {
        let haul = sandbox.haul(["-f", "--inplace", "--nofschk"]).limit(LIMIT);
        haul.arg(&source).arg(small.path().join("file")).run()
    });
}

#[test]
fn a_patch_makes_room_for_its_file() {
    // There is no room for both the patch and the file's growth.
    grow_in_place(14_000_000, |place, push| {
        push().succeeds();
        assert_eq!(listing(place), ["file"]);
        assert_eq!(fs::metadata(place.join("file")).unwrap().len(), 18_000_000);
        push().succeeds();
    });
}

#[test]
fn a_patch_without_room_for_its_file_leaves_the_old_one() {
    grow_in_place(20_900_000, |place, push| {
        let old = contents(&place.join("file"));
        push().ends(1).says(["No space left"]);
        assert!(contents(&place.join("file")) == old);
        assert_eq!(listing(place), ["file"], "nothing holds the room that a rerun needs");
    });
}

/// A patch after its first chunk was applied to the file and freed.
#[test]
fn a_partly_freed_patch_is_applied_completely() {
    let change = Change::new(|bytes| pages(bytes, 60));
    let patch = leave_patch(&change, fs::metadata(&change.old).unwrap().ino());
    let bytes = contents(&patch);
    let header = PatchHeader::decode(bytes[..96].try_into().unwrap()).unwrap();
    let piece = 12 + PAGE;
    let at = usize::try_from(u64::from_le_bytes(bytes[96..104].try_into().unwrap())).unwrap();
    let file = fs::File::options().write(true).open(&change.old).unwrap();
    file.write_all_at(&contents(&change.new)[at..at + PAGE], at as u64).unwrap();
    let header = PatchHeader { applied: piece as u64, ..header };
    fs::write(&patch, [&header.encode()[..], &vec![0; piece], &bytes[96 + piece..]].concat()).unwrap();
    let run = change.push(&[]).succeeds();
    change.is_done();
    let (delta, _) = travelled(&run);
    assert_eq!(number(&delta, "old_bytes"), BIG, "it was the new file then: {delta}");
}

/// The file has the content of one of its names. The other one fails, if both were compared before.
#[test]
fn in_place_a_file_with_another_name_is_replaced() {
    for size in [5, 8_000_000] {
        for extra in [&[][..], &["--hard-links"]] {
            let sandbox = Sandbox::new();
            let sources = ["from/a", "from/b"].map(|name| sandbox.big_file(name, size));
            let old = sandbox.file("to/a", vec![0; usize::try_from(size).unwrap()]);
            ["to/b", "elsewhere"].iter().for_each(|name| fs::hard_link(&old, sandbox.path(name)).unwrap());
            set_mtime(&old, 5, 0);
            let haul = sandbox.haul(["-r", "-f", "--inplace", "-s", "4", "--fsync", "none", "from/.", "to"]);
            let run = haul.args(extra).limit(LIMIT).run().succeeds();
            run.says(["replaced instead of updated in place (--inplace): existing files with other names"]);
            for (source, name) in sources.iter().zip(["to/a", "to/b"]) {
                compare(source, &sandbox.path(name)).unwrap();
            }
            assert!(contents(&sandbox.path("elsewhere")).iter().all(|byte| *byte == 0), "written through");
        }
    }
}

#[test]
fn in_place_with_hard_links_all_names_get_the_new_contents() {
    for are_linked in [false, true] {
        for size in [5, 2_000_000] {
            let sandbox = Sandbox::new();
            let remote = Remote::new(&sandbox);
            let source = sandbox.big_file("s/b", size);
            fs::hard_link(&source, sandbox.path("s/a")).unwrap();
            let names = ["a", "b"].map(|name| sandbox.path("t").join(name));
            sandbox.file("t/a", "old and longer");
            if are_linked {
                fs::hard_link(&names[0], &names[1]).unwrap();
            } else {
                sandbox.file("t/b", "old and longer");
            }
            names.iter().for_each(|name| set_mtime(name, 5, 0));
            let inode = |name: &Path| fs::metadata(name).unwrap().ino();
            let before = [inode(&names[0]), inode(&names[1])];
            let items = |run: ProgramRun| {
                let items = run.events().into_iter().filter(|event| event["event"] == "item");
                items.map(|item| (item["path"].clone(), item["reasons"].clone())).collect::<Vec<_>>()
            };
            let sync = |options: &[&str]| {
                let haul = sandbox.haul(["sync", "-aHAX", "--inplace", "--json", "--items"]).limit(LIMIT);
                haul.args(remote.sshd().haul_args()).args(options).arg("s/").arg(remote.at(sandbox.path("t"))).run()
            };
            let mut planned = items(sync(&["--dry-run"]).succeeds());
            let mut done = items(sync(&[]).succeeds());
            [&mut planned, &mut done].into_iter().for_each(|all| all.sort_by_key(|(path, _)| path.to_string()));
            assert_eq!(planned, done, "{are_linked} {size}");
            // The name that the source listed first was updated.
            assert!(before.contains(&inode(&names[0])) && inode(&names[0]) == inode(&names[1]), "{are_linked} {size}");
            compare(&source, &names[1]).unwrap();
        }
    }
}

//! Power cuts in the middle of copies: after each, a name has its old or its new content, and everything that a copy
//! called durable is there.
//!
//! `HAUL_POWER_CUTS` is the number of cuts on each file system.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use haul_e2e::{Cut, Disk, ProgramRun, Sandbox, apart, cases, count, is_root_or_skip, set_mtime, within};

/// Cuts on each file system, unless the environment says otherwise.
const CUTS: u64 = 30;
/// The least that `mkfs.xfs` takes.
const IMAGE_BYTES: u64 = 310 << 20;
/// Some that travel in packs, some in frames.
const SMALL_FILES: usize = 40;
const LARGE_FILES: usize = 4;
const LARGE_BYTES: usize = 700_000;

type Contents = BTreeMap<String, Vec<u8>>;

/// Contents of the files; every second one also exists in an old version.
fn contents_of(version: u8) -> Contents {
    let files = SMALL_FILES + LARGE_FILES;
    let content = |number: usize| {
        let bytes = if number < SMALL_FILES { 1000 + 97 * number } else { LARGE_BYTES + number };
        (0..bytes + usize::from(version)).map(|at| (at * 31 + number).to_le_bytes()[0] ^ version).collect()
    };
    let chosen = (0..files).filter(|number| version > 0 || number % 2 == 0);
    chosen.map(|number| (format!("d{}/f{number}", number % 3), content(number))).collect()
}

fn write(root: &Path, contents: &Contents, seconds: i64) {
    for (name, content) in contents {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        set_mtime(&path, seconds, 0);
    }
}

/// Names with wrong content after a cut. `complete`: the copy had reported success.
fn wrong(root: &Path, old: &Contents, new: &Contents, complete: bool) -> Vec<String> {
    let mut wrong = Vec::new();
    for (name, content) in new {
        let found = fs::read(root.join(name)).ok();
        let is_old = found.as_ref() == old.get(name) && !complete;
        if !is_old && found.as_ref() != Some(content) {
            let len = found.map(|found| found.len());
            wrong.push(format!("{name} has {len:?} bytes, and should have {}", content.len()));
        }
    }
    wrong
}

/// Copies repeatedly onto a disk of this kind and cuts the power, each time at another moment. Returns the faults of
/// all cuts. Prints the reason and returns `None` without such a disk.
fn cut_again_and_again(kind: &'static str, cuts: u64, fsync: &str) -> Option<Vec<String>> {
    let sandbox = Sandbox::new();
    let (old, new) = (contents_of(0), contents_of(1));
    write(&sandbox.path("source"), &new, 2_000_000_000);
    let directory = sandbox.dir(kind);
    let result = apart(|| {
        let disk = match Disk::new(kind, &directory, IMAGE_BYTES) {
            Ok(disk) => disk,
            Err(why) => {
                println!("SKIPPED: no {kind} here: {why:#}");
                return Ok(None);
            }
        };
        let copy = |root: &Path| {
            write(root, &old, 1_000_000_000);
            // The old files are durable.
            rustix::fs::syncfs(fs::File::open(root)?)?;
            let source = sandbox.path("source/.");
            Ok::<_, anyhow::Error>(sandbox.haul(["-r", "-f", fsync]).arg(source).arg(root).start())
        };
        let begun = std::time::Instant::now();
        ProgramRun::of(copy(&disk.path().join("uncut"))?).succeeds();
        let takes = begun.elapsed();
        let mut failures = Vec::new();
        for round in 0..cuts {
            let root = disk.path().join(format!("round{round}"));
            let mut running = copy(&root)?;
            // The moment of the cut varies, without waiting for an event: the last cuts come after the end.
            running.wait_up_to(takes.mul_f64(1.2 * round as f64 / cuts as f64));
            let complete = running.wait_up_to(Duration::ZERO);
            disk.cut(if round % 2 == 0 { Cut::LogWritten } else { Cut::LogLost })?;
            let run = ProgramRun::of(running);
            assert!(!run.timed_out && run.status.is_some(), "{}", run.account());
            let complete = complete && run.status == Some(0) && run.stderr.contains("durable");
            assert!(within(Duration::from_secs(10), || disk.recover().is_ok()), "{kind} cannot be mounted again");
            let wrong = wrong(&root, &old, &new, complete);
            if !wrong.is_empty() {
                failures.push(format!("cut {round} (complete: {complete}): {}", wrong.join("; ")));
            }
            fs::remove_dir_all(&root)?;
        }
        // The remains of the last cut are no obstacle.
        let root = disk.path().join("again");
        let running = copy(&root)?;
        disk.cut(Cut::LogLost)?;
        drop(ProgramRun::of(running));
        assert!(within(Duration::from_secs(10), || disk.recover().is_ok()), "{kind} cannot be mounted again");
        ProgramRun::of(copy(&root)?).succeeds();
        assert_eq!(wrong(&root, &old, &new, true), [""; 0]);
        Ok(Some(failures))
    });
    result.unwrap_or_else(|error| panic!("{error:#}"))
}

fn no_name_is_wrong_after_a_cut(kind: &'static str) {
    if !is_root_or_skip("a disk of one's own") {
        return;
    }
    let cuts = cases("HAUL_POWER_CUTS", CUTS);
    let Some(failures) = cut_again_and_again(kind, cuts, "--fsync=full") else { return };
    assert!(failures.is_empty(), "{} of {cuts} cuts:\n{}", failures.len(), failures.join("\n"));
    count(&format!("power-cuts-{kind}"), cuts);
}

#[test]
fn no_name_has_wrong_content_after_a_cut_on_ext4() {
    no_name_is_wrong_after_a_cut("ext4");
}

#[test]
fn no_name_has_wrong_content_after_a_cut_on_xfs() {
    no_name_is_wrong_after_a_cut("xfs");
}

/// That the tests above can fail.
#[test]
fn without_fsync_names_may_have_wrong_content() {
    if !is_root_or_skip("a disk of one's own") {
        return;
    }
    let cuts = cases("HAUL_POWER_CUTS", CUTS).min(10);
    for kind in ["xfs", "ext4"] {
        let Some(failures) = cut_again_and_again(kind, cuts, "--fsync=none") else { return };
        println!("without fsync, {} of {cuts} cuts left something wrong on {kind}", failures.len());
        // ext4 allocates blocks at once for a replacing file, and so loses less.
        assert!(kind != "xfs" || !failures.is_empty(), "nothing was lost in {cuts} cuts");
    }
}

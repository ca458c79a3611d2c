//! Resuming broken runs: verified data is kept, and only lost data is sent again.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use haul_e2e::{
    Haul, ProgramRun, Remote, Running, Sandbox, compare, hidden_or_partial, is_root_or_skip, listing, mtime, set_mtime,
    within,
};
use rustix::process::Signal;

/// More than a file needs to be recorded, in frames of 512 KiB and a rest.
const BIG: u64 = 48_000_001;
/// How much has arrived when a run is ended.
const SOME: u64 = 12_000_000;
/// So slow that it is ended in the middle.
const SLOW: [&str; 2] = ["--xfrrate", "16m"];
/// The least that `mkfs.xfs` takes.
const IMAGE_BYTES: u64 = 310 << 20;
const LIMIT: Duration = Duration::from_secs(60);

/// A file and where it goes, there and not there.
struct Copying<'a> {
    sandbox: &'a Sandbox,
    remote: Remote,
    source: PathBuf,
    place: PathBuf,
}

impl<'a> Copying<'a> {
    fn of(sandbox: &'a Sandbox, bytes: u64) -> Self {
        let remote = Remote::new(sandbox);
        Self { sandbox, remote, source: sandbox.big_file("source/big", bytes), place: sandbox.dir("place") }
    }

    fn haul(&self) -> Haul<'_> {
        self.remote.haul(self.sandbox).limit(LIMIT).args(["--json", "--progress=1"])
    }

    /// Pushes it to the other host.
    fn push(&self, options: &[&str]) -> Haul<'_> {
        self.haul().args(options).arg(&self.source).arg(self.remote.at(self.place.join("big")))
    }

    /// Starts a run and kills it by SIGKILL in the middle; gives the partial file.
    fn broken(&self, haul: Haul<'_>) -> PathBuf {
        let mut running = haul.args(SLOW).start();
        self.kill_when_some_arrived(&mut running)
    }

    #[track_caller]
    fn kill_when_some_arrived(&self, running: &mut Running) -> PathBuf {
        let arrived = within(LIMIT, || hidden_or_partial(&self.place, &[], SOME).is_some());
        assert!(arrived, "nothing arrived\n{}", running.stderr_so_far());
        running.signal(Signal::KILL);
        running.wait_up_to(LIMIT);
        // The workers notice the controller's death.
        assert!(within(LIMIT, || self.remote.workers().is_empty()), "a worker is left");
        assert!(!self.place.join("big").exists(), "a half copy has its final name");
        hidden_or_partial(&self.place, &[], SOME).expect("a part is left")
    }

    /// The file is complete, with nothing left beside it.
    #[track_caller]
    fn is_done(&self) {
        compare(&self.source, &self.place.join("big")).unwrap();
        assert_eq!(listing(&self.place), ["big"]);
    }
}

/// The event `resumed` of a run.
#[track_caller]
fn resumed(run: &ProgramRun) -> serde_json::Value {
    let events = run.events();
    let found = events.iter().find(|event| event["event"] == "resumed").cloned();
    found.unwrap_or_else(|| panic!("nothing was gone on with\n{}", run.account()))
}

fn number(value: &serde_json::Value, name: &str) -> u64 {
    value[name].as_u64().unwrap_or_else(|| panic!("{name} in {value}"))
}

/// Sent and held make up the file.
#[track_caller]
fn adds_up(run: &ProgramRun, size: u64) {
    let summary = run.summary();
    let (sent, there) = (number(&summary, "bytes"), number(&summary, "bytes_skipped"));
    assert_eq!(sent + there, size, "{}", run.account());
    assert_eq!(there, number(&resumed(run), "bytes_held"));
}

#[test]
fn killed_in_the_middle_it_resumes_in_either_direction() {
    let sandbox = Sandbox::new();
    let copying = Copying::of(&sandbox, BIG);
    copying.broken(copying.push(&[]));
    let run = copying.push(&[]).run().succeeds();
    copying.is_done();
    adds_up(&run, BIG);
    assert!(number(&resumed(&run), "bytes_held") >= SOME / 2, "{}", run.account());
    fs::remove_file(copying.place.join("big")).unwrap();
    let pull = || copying.haul().arg(copying.remote.at(&copying.source)).arg(copying.place.join("big"));
    copying.broken(pull());
    adds_up(&pull().run().succeeds(), BIG);
    copying.is_done();
}

#[test]
fn with_k_or_a_smaller_files_resume_too() {
    const MEDIUM: u64 = 15_000_001;
    let sandbox = Sandbox::new();
    let copying = Copying::of(&sandbox, MEDIUM);
    let journals = format!("--journal-dir={}", sandbox.dir("journals").display());
    for option in ["--keep", &journals] {
        copying.broken(copying.push(&[option]));
        let run = copying.push(&[option]).run().succeeds();
        copying.is_done();
        adds_up(&run, MEDIUM);
        assert!(number(&resumed(&run), "bytes_held") >= SOME / 2, "{option}: {}", run.account());
        fs::remove_file(copying.place.join("big")).unwrap();
    }
    assert_eq!(listing(&sandbox.path("journals")), [""; 0]);
}

#[test]
fn without_k_a_kept_part_of_a_small_file_is_replaced_with_its_journal() {
    let sandbox = Sandbox::new();
    let copying = Copying::of(&sandbox, 15_000_001);
    copying.broken(copying.push(&["--keep"]));
    let run = copying.push(&[]).run().succeeds();
    copying.is_done();
    assert_eq!(number(&run.summary(), "bytes"), 15_000_001, "{}", run.account());
}

#[test]
fn within_one_machine_it_resumes_too() {
    let sandbox = Sandbox::new();
    let copying = Copying::of(&sandbox, BIG);
    let copy =
        || sandbox.haul(["--json", "--progress=1"]).limit(LIMIT).arg(&copying.source).arg(copying.place.join("big"));
    copying.broken(copy());
    adds_up(&copy().run().succeeds(), BIG);
    copying.is_done();
    // A part begun without checksums is resumed by a run with them, and the reverse.
    fs::remove_file(copying.place.join("big")).unwrap();
    copying.broken(copy().args(["--unbuffered", "off"]));
    adds_up(&copying.push(&[]).run().succeeds(), BIG);
    copying.is_done();
    fs::remove_file(copying.place.join("big")).unwrap();
    copying.broken(copying.push(&[]));
    adds_up(&copy().run().succeeds(), BIG);
    copying.is_done();
}

#[test]
fn damaged_data_is_resent_frame_by_frame() {
    let sandbox = Sandbox::new();
    let copying = Copying::of(&sandbox, BIG);
    let part = copying.broken(copying.push(&[]));
    let file = File::options().read(true).write(true).open(&part).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, 700_000).unwrap();
    file.write_all_at(&[!byte[0]], 700_000).unwrap();
    let run = copying.push(&[]).run().succeeds();
    copying.is_done();
    adds_up(&run, BIG);
    assert_eq!(number(&resumed(&run), "frames_damaged"), 1, "{}", run.account());
}

#[test]
fn a_part_that_lost_its_end_or_records_costs_only_the_lost_data() {
    let sandbox = Sandbox::new();
    let copying = Copying::of(&sandbox, BIG);
    let part = copying.broken(copying.push(&[]));
    // As after a power cut: the file is shorter than its journal claims.
    File::options().write(true).open(&part).unwrap().set_len(5_000_000).unwrap();
    let run = copying.push(&[]).run().succeeds();
    copying.is_done();
    adds_up(&run, BIG);
    let held = number(&resumed(&run), "bytes_held");
    assert!((4_000_000..=5_000_000).contains(&held), "{held}\n{}", run.account());
    fs::remove_file(copying.place.join("big")).unwrap();
    // A journal with torn slots, and then one with a torn header.
    for torn_at in [1024 + 3 * 48, 100] {
        let part = copying.broken(copying.push(&[]));
        let journal = part.with_extension("journal");
        File::options().write(true).open(&journal).unwrap().write_all_at(&[0xff; 96], torn_at).unwrap();
        let run = copying.push(&[]).run().succeeds();
        copying.is_done();
        let summary = run.summary();
        assert_eq!(number(&summary, "bytes") + number(&summary, "bytes_skipped"), BIG);
        assert_eq!(number(&summary, "bytes_skipped") > 0, torn_at > 1000, "{}", run.account());
        fs::remove_file(copying.place.join("big")).unwrap();
    }
}

#[test]
fn a_changed_source_restarts_and_a_possibly_changed_one_is_compared() {
    let sandbox = Sandbox::new();
    let copying = Copying::of(&sandbox, BIG);
    copying.broken(copying.push(&[]));
    rewrite_same_size(&copying.source);
    let run = copying.push(&[]).run().succeeds();
    copying.is_done();
    assert!(run.events().iter().all(|event| event["event"] != "resumed"), "{}", run.account());
    assert!(run.stdout.contains("the source has changed since"), "{}", run.account());
    fs::remove_file(copying.place.join("big")).unwrap();
    // Other bytes with the old size and time: only the change time or a comparison reveals them.
    copying.broken(copying.push(&[]));
    let (seconds, nanoseconds) = mtime(&copying.source);
    let file = File::options().write(true).open(&copying.source).unwrap();
    file.write_all_at(b"other bytes", 1_000_000).unwrap();
    drop(file);
    set_mtime(&copying.source, seconds, u32::try_from(nanoseconds).unwrap());
    let run = copying.push(&[]).run().succeeds();
    copying.is_done();
    let event = resumed(&run);
    assert_eq!(event["compared"], true, "{event}");
    assert_eq!(number(&run.summary(), "bytes") + number(&event, "bytes_held"), BIG + (512 << 10), "{}", run.account());
}

fn rewrite_same_size(path: &Path) {
    let bytes = fs::read(path).unwrap();
    fs::write(path, bytes.iter().rev().copied().collect::<Vec<_>>()).unwrap();
    set_mtime(path, 1_700_000_000, 0);
}

#[test]
fn a_rerun_of_a_finished_copy_moves_nothing() {
    let sandbox = Sandbox::new();
    let copying = Copying::of(&sandbox, BIG);
    copying.push(&[]).run().succeeds();
    let run = copying.push(&[]).run().succeeds();
    assert_eq!((number(&run.summary(), "bytes"), number(&run.summary(), "bytes_skipped")), (0, BIG));
}

/// xfs allocates ahead of writes, and frees that at the first close only.
#[test]
fn no_blocks_stay_behind_the_end_of_a_resumed_file_on_xfs() {
    if !is_root_or_skip("mounting") {
        return;
    }
    let sandbox = Sandbox::new();
    let Some(disk) = sandbox.image("xfs", IMAGE_BYTES) else { return };
    let copying = Copying { place: disk.path().join("place"), ..Copying::of(&sandbox, BIG) };
    for number in 0..4 {
        fs::create_dir(&copying.place).unwrap();
        copying.broken(copying.push(&[]));
        if number % 2 == 1 {
            // Its part is not resumed, and written all the same.
            rewrite_same_size(&copying.source);
        }
        copying.push(&[]).run().succeeds();
        copying.is_done();
        let room = fs::metadata(copying.place.join("big")).unwrap().blocks() * 512;
        assert!(room < BIG + 64 * 1024, "{number}: {room} bytes of the disk for {BIG}");
        fs::remove_dir_all(&copying.place).unwrap();
    }
}

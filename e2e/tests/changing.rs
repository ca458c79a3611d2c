//! Files that change while they are copied: begun anew once, named where that is in vain, never a mixture. Growth and
//! new names, modes and owners are proven harmless by a second reading. Files that vanish are no failures.

use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, sleep};
use std::time::Duration;

use haul_e2e::{ProgramRun, Remote, Running, Sandbox, compare, hidden_or_partial, listing, mtime, within};

const BIG: u64 = 24_000_001;
const SOME: u64 = 4_000_000;
const LIMIT: Duration = Duration::from_secs(60);

struct Copying {
    source: PathBuf,
    place: PathBuf,
    running: Running,
    /// The host that it goes to, as long as the copy lasts.
    _remote: Remote,
}

/// Where the ends of a copy are.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Direction {
    Push,
    Pull,
    Local,
}

/// A slow, running copy of a tree with one big file.
fn under_way(sandbox: &Sandbox) -> Copying {
    under_way_with(sandbox, Direction::Push, &["--progress=1"])
}

fn under_way_with(sandbox: &Sandbox, direction: Direction, options: &[&str]) -> Copying {
    let remote = Remote::new(sandbox);
    let source = sandbox.big_file("source/big", BIG);
    sandbox.file("source/little", "little");
    let place = sandbox.path("place");
    let here = |path: PathBuf| path.into_os_string();
    let (from, to) = (sandbox.path("source"), place.clone());
    let ends = match direction {
        Direction::Push => [here(from), remote.at(&to)],
        Direction::Pull => [remote.at(&from), here(to)],
        Direction::Local => [here(from), here(to)],
    };
    let haul = remote.haul(sandbox).limit(LIMIT).args(["-r", "--xfrrate", "12m", "--json"]);
    let running = haul.args(options).args(ends).start();
    let partial = |dir: &Path| hidden_or_partial(dir, &["little", "big"], SOME).is_some();
    let arrived = within(LIMIT, || partial(&place) || partial(&place.join("source")));
    assert!(arrived, "nothing arrived\n{}", running.stderr_so_far());
    Copying { source, place, running, _remote: remote }
}

impl Copying {
    fn ended(mut self) -> ProgramRun {
        assert!(self.running.wait_up_to(LIMIT), "it goes on for ever: {}", self.running.stderr_so_far());
        ProgramRun::of(self.running)
    }
}

/// Appends to a file.
fn append(path: &Path) {
    File::options().append(true).open(path).unwrap().write_all(b"more").unwrap();
}

/// Overwrites the first byte.
fn rewrite_start(path: &Path) {
    File::options().write(true).open(path).unwrap().write_all_at(b"\n", 0).unwrap();
}

/// The first `len` bytes of a file.
fn beginning(path: &Path, len: u64) -> Vec<u8> {
    fs::read(path).unwrap()[..usize::try_from(len).unwrap()].to_vec()
}

#[test]
fn a_file_that_shrank_or_grew_and_was_rewritten_is_restarted() {
    let refuses = &["--progress=1", "--refuse-growing"][..];
    for (what, options) in
        [("shrinks", &["--progress=1"][..]), ("is rewritten", &["--progress=1"]), ("is refused", refuses)]
    {
        let sandbox = Sandbox::new();
        let copying = under_way_with(&sandbox, Direction::Push, options);
        match what {
            // To a size with another transfer path.
            "shrinks" => File::options().write(true).open(&copying.source).unwrap().set_len(1000).unwrap(),
            "is rewritten" => {
                append(&copying.source);
                rewrite_start(&copying.source);
            }
            _ => append(&copying.source),
        }
        let (source, place) = (copying.source.clone(), copying.place.clone());
        let run = copying.ended().succeeds();
        assert!(run.stdout.contains("starting it over"), "{what}: {}", run.account());
        compare(source.parent().unwrap(), &place).unwrap();
        assert_eq!(listing(&place), ["big", "little"]);
        // Bytes of the version that changed do not count.
        let bytes = fs::metadata(&source).unwrap().len() + "little".len() as u64;
        assert_eq!(run.summary()["bytes"].as_u64(), Some(bytes), "{}", run.account());
    }
}

#[test]
fn a_file_that_grows_is_copied_up_to_its_first_length_and_the_next_sync_sends_the_rest() {
    let ways: [(Direction, &[&str]); 5] = [
        (Direction::Push, &["--progress=1"]),
        (Direction::Push, &["--progress=4", "--checksum", "%md5"]),
        (Direction::Pull, &["--progress=1", "--digest", "blake3"]),
        (Direction::Push, &["--order"]),
        (Direction::Local, &["--progress=1"]),
    ];
    for (direction, options) in ways {
        let sandbox = Sandbox::new();
        let mut copying = under_way_with(&sandbox, direction, options);
        let first_look = mtime(&copying.source);
        while !copying.running.wait_up_to(Duration::ZERO) {
            append(&copying.source);
            sleep(Duration::from_millis(5));
        }
        let run = ProgramRun::of(copying.running).succeeds();
        let (source, copy) = (&copying.source, copying.place.join("big"));
        let account = format!("{direction:?} {options:?}: {}", run.account());
        assert!(run.stdout.contains(r#""change":"grew""#) && !run.stdout.contains("starting it over"), "{account}");
        assert_eq!(fs::read(&copy).unwrap(), beginning(source, BIG), "{account}");
        assert_eq!(mtime(&copy), first_look, "{account}");
        sandbox.haul(["sync", "-v", "source/"]).arg(&copying.place).run().succeeds();
        compare(source.parent().unwrap(), &copying.place).unwrap();
    }
}

#[test]
fn a_small_file_that_grows_all_the_time_is_copied() {
    let sandbox = Sandbox::new();
    let log = sandbox.file("log", "a line\n");
    let ends = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !ends.load(Ordering::Relaxed) {
                append(&log);
            }
        });
        for number in 0..8 {
            let copy = format!("copy{number}");
            let run = sandbox.haul(["-v", "log"]).arg(&copy).run();
            if number == 7 || run.status != Some(0) {
                ends.store(true, Ordering::Relaxed);
            }
            run.succeeds();
            let copied = fs::read(sandbox.path(copy)).unwrap();
            assert_eq!(copied, beginning(&log, copied.len() as u64));
        }
    });
}

#[test]
fn a_new_mode_or_name_while_a_file_is_read_is_no_change_of_its_contents() {
    for (direction, options) in [(Direction::Push, &["--progress=1"][..]), (Direction::Local, &["--progress=4"])] {
        let sandbox = Sandbox::new();
        let copying = under_way_with(&sandbox, direction, options);
        fs::set_permissions(&copying.source, Permissions::from_mode(0o600)).unwrap();
        fs::hard_link(&copying.source, sandbox.path("other name")).unwrap();
        let (source, place) = (copying.source.clone(), copying.place.clone());
        let run = copying.ended().succeeds();
        assert!(!run.stdout.contains("starting it over") && !run.stdout.contains("grew"), "{}", run.account());
        compare(source.parent().unwrap(), &place).unwrap();
    }
}

#[test]
fn a_file_that_grows_stays_at_the_source() {
    let sandbox = Sandbox::new();
    let log = sandbox.big_file("source/log", BIG);
    let command = ["sync", "--remove-source-files", "--xfrrate", "12m", "--json", "source/", "place/"];
    let mut running = sandbox.haul(command).limit(LIMIT).start();
    assert!(within(LIMIT, || hidden_or_partial(&sandbox.path("place"), &["log"], SOME).is_some()));
    append(&log);
    assert!(running.wait_up_to(LIMIT));
    let run = ProgramRun::of(running).succeeds();
    let summary = run.summary();
    assert_eq!((&summary["deleted_at_source"], &summary["left_at_source"]), (&0.into(), &1.into()), "{summary}");
    assert!(log.exists() && sandbox.path("place/log").exists());
}

#[test]
fn vanished_files_are_counted_and_neither_stop_deletions_nor_are_deleted() {
    let sandbox = Sandbox::new();
    for number in 0..300 {
        sandbox.big_file(format!("source/{number}"), 100_000);
        sandbox.file(format!("place/{number}"), "old");
    }
    sandbox.file("place/extraneous", "old");
    let command =
        ["sync", "--delete", "--delete-excluded", "--xfrrate", "8m", "--streams", "1", "--json", "source/", "place"];
    let mut running = sandbox.haul(command).limit(LIMIT).start();
    let has_come = |number| fs::metadata(sandbox.path(format!("place/{number}"))).is_ok_and(|it| it.len() == 100_000);
    assert!(within(LIMIT, || (0..300).any(has_come)), "{}", running.stderr_so_far());
    (0..300).filter(|number| !has_come(*number)).for_each(|number| {
        fs::remove_file(sandbox.path(format!("source/{number}"))).unwrap();
    });
    assert!(running.wait_up_to(LIMIT));
    let run = ProgramRun::of(running).ends(5);
    let summary = run.summary();
    let vanished = summary["vanished"].as_u64().unwrap();
    assert!(vanished > 0 && summary["failed"] == 0 && summary["deleted"] == 1, "{summary}");
    assert_eq!((&summary["status"], &summary["files_copied"]), (&5.into(), &(300 - vanished).into()), "{summary}");
    assert_eq!(run.stdout.matches(r#""change":"vanished""#).count() as u64, vanished, "{}", run.account());
    assert!(!run.stderr.contains("vanished before"), "only -v names them: {}", run.account());
    assert_eq!(listing(&sandbox.path("place")).len(), 300);
    let old = (0..300).filter(|number| !has_come(*number)).count() as u64;
    assert_eq!(old, vanished, "nothing is copied under their names");
}

/// Writes other bytes over all of a file, and gives it back its time.
fn overwrite(path: &Path) {
    let modified = fs::metadata(path).unwrap().modified().unwrap();
    let file = File::options().read(true).write(true).open(path).unwrap();
    let mut bytes = fs::read(path).unwrap();
    bytes.iter_mut().for_each(|byte| *byte = !*byte);
    file.write_all_at(&bytes, 0).unwrap();
    file.set_modified(modified).unwrap();
}

#[test]
fn a_file_overwritten_with_its_time_restored_is_restarted() {
    let one_stream: &[&str] = &["--progress=1"];
    for (direction, options) in [
        (Direction::Push, one_stream),
        (Direction::Push, &["--progress=4"]),
        (Direction::Pull, one_stream),
        (Direction::Local, one_stream),
    ] {
        let sandbox = Sandbox::new();
        let copying = under_way_with(&sandbox, direction, options);
        overwrite(&copying.source);
        let (source, place) = (copying.source.clone(), copying.place.clone());
        let run = copying.ended().succeeds();
        assert!(run.stdout.contains("starting it over"), "{direction:?}: {}", run.account());
        compare(source.parent().unwrap(), &place).unwrap();
    }
}

#[test]
fn a_delta_overwritten_during_the_copy_is_restarted() {
    let sandbox = Sandbox::new();
    sandbox.big_file("place/source/big", BIG - 1);
    let copying = under_way_with(&sandbox, Direction::Push, &["--progress=1", "-f", "--delta", "rolling"]);
    overwrite(&copying.source);
    let (source, place) = (copying.source.clone(), copying.place.clone());
    copying.ended().succeeds();
    compare(source.parent().unwrap(), &place.join("source")).unwrap();
}

#[test]
fn a_constantly_changing_file_is_named_and_gets_no_final_name() {
    let sandbox = Sandbox::new();
    let mut copying = under_way(&sandbox);
    let file = File::options().write(true).open(&copying.source).unwrap();
    let mut byte = 0;
    while !copying.running.wait_up_to(Duration::ZERO) {
        byte += 1;
        file.write_all_at(&[byte], u64::from(byte) * 1000).unwrap();
        sleep(Duration::from_millis(20));
        byte %= 100;
    }
    let place = copying.place.clone();
    let run = ProgramRun::of(copying.running).ends(1);
    assert!(run.stdout.contains("changed while being read\\ncopy"), "{}", run.account());
    assert_eq!(listing(&place), ["little"]);
}

#[test]
fn a_vanishing_file_is_named_and_the_others_arrive() {
    let sandbox = Sandbox::new();
    let copying = under_way(&sandbox);
    // The open file is still read, but its name means nothing by now.
    rewrite_start(&copying.source);
    fs::remove_file(&copying.source).unwrap();
    let place = copying.place.clone();
    let run = copying.ended().ends(5);
    assert!(run.stdout.contains(r#""change":"vanished""#), "{}", run.account());
    assert_eq!(listing(&place), ["little"]);
}

#[test]
fn names_of_one_file_are_removed_at_the_source_without_counting_as_changed() {
    for options in [&["--json"][..], &["--json", "--hard-links"]] {
        let sandbox = Sandbox::new();
        let remote = Remote::new(&sandbox);
        for (file, bytes) in [("small", 1000), ("large", 3_000_000)] {
            let first = sandbox.big_file(format!("source/{file}"), bytes);
            (0..40).for_each(|i| fs::hard_link(&first, sandbox.path(format!("source/{file} {i}"))).unwrap());
        }
        let haul = sandbox.haul(["sync"]).args(remote.sshd().haul_args()).args(options).limit(LIMIT);
        let to = remote.at(sandbox.path("place"));
        let run = haul.args(["--remove-source-files", "source/"]).arg(to).run().succeeds();
        assert_eq!(run.summary()["deleted_at_source"], 82, "{}", run.account());
        assert!(!run.stdout.contains("starting it over"), "{}", run.account());
        assert!(listing(&sandbox.path("source")).is_empty());
        assert_eq!(listing(&sandbox.path("place")).len(), 82);
    }
}

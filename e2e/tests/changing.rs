//! Files that change while they are copied: begun anew once, named where that is in vain, never a mixture.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use haul_e2e::{ProgramRun, Remote, Running, Sandbox, compare, hidden_or_partial, listing, within};

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
    under_way_with(sandbox, Direction::Push, &["-P", "1"])
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
    let haul = remote.haul(sandbox).limit(LIMIT).args(["-r", "-x", "12m", "--json"]);
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

#[test]
fn a_file_that_grew_or_shrank_is_restarted() {
    for grows in [true, false] {
        let sandbox = Sandbox::new();
        let copying = under_way(&sandbox);
        if grows {
            File::options().append(true).open(&copying.source).unwrap().write_all(b"more").unwrap();
        } else {
            // To a size with another transfer path.
            File::options().write(true).open(&copying.source).unwrap().set_len(1000).unwrap();
        }
        let (source, place) = (copying.source.clone(), copying.place.clone());
        let run = copying.ended().succeeds();
        assert!(run.stdout.contains("starting it over"), "{}", run.account());
        compare(source.parent().unwrap(), &place).unwrap();
        assert_eq!(listing(&place), ["big", "little"]);
        // Bytes of the version that changed do not count.
        let bytes = fs::metadata(&source).unwrap().len() + "little".len() as u64;
        assert_eq!(run.summary()["bytes"].as_u64(), Some(bytes), "{}", run.account());
    }
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
    let one_stream: &[&str] = &["-P", "1"];
    for (direction, options) in [
        (Direction::Push, one_stream),
        (Direction::Push, &["-P", "4"]),
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
    let copying = under_way_with(&sandbox, Direction::Push, &["-P", "1", "-f", "--delta", "rolling"]);
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
    File::options().append(true).open(&copying.source).unwrap().write_all(b"more").unwrap();
    fs::remove_file(&copying.source).unwrap();
    let place = copying.place.clone();
    let run = copying.ended().ends(1);
    assert!(run.stdout.contains("No such file or directory"), "{}", run.account());
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

//! Partial files and journals damaged between a kill and the rerun: the rerun ends with the source's files, byte by
//! byte, touches no file of the user's, and leaves none of haul's.
//!
//! `HAUL_PART_DAMAGES` is the number of rounds, `HAUL_PART_SEED` the first seed. Repeat a failed round by
//! `HAUL_PART_SEED=ITS_SEED HAUL_PART_DAMAGES=1`.

use std::collections::BTreeMap;
use std::fs::{self, File, Metadata};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use haul_e2e::{
    Haul, ProgramRun, Remote, Rng, Sandbox, cases, compare, count, fifo, give_to_user, hidden_or_partial,
    is_root_or_skip, listing, mtime, set_mtime, user, within,
};
use rustix::fs::{FallocateFlags, fallocate};
use rustix::process::Signal;

const LIMIT: Duration = Duration::from_secs(120);
/// Rounds of an everyday run.
const EVERYDAY: u64 = 40;
/// The files: name, bytes, bytes that have arrived at the kill, bytes of the old file. Both have journals, and the part
/// of the second one is longer than all of the first.
const FILES: [(&str, u64, u64, u64); 2] =
    [("a", 17_000_001, 5_000_000, 19_000_000), ("b", 36_000_514, 20_000_000, 8_000_000)];
/// So slow that a run is killed in the middle.
const SLOW: [&str; 2] = ["--xfrrate", "32m"];

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    Push,
    Pull,
    Local,
}

const WAYS: [Way; 3] = [Way::Push, Way::Pull, Way::Local];

/// How files are copied.
struct Recipe {
    name: &'static str,
    options: &'static [&'static str],
    is_sync: bool,
    replaces: bool,
}

const fn copy(name: &'static str, options: &'static [&'static str], replaces: bool) -> Recipe {
    Recipe { name, options, is_sync: false, replaces }
}

const fn sync(name: &'static str, options: &'static [&'static str]) -> Recipe {
    Recipe { name, options, is_sync: true, replaces: true }
}

const RECIPES: [Recipe; 9] = [
    copy("new", &[], false),
    copy("replace", &["-f"], true),
    copy("delta-off", &["-f", "--delta", "off"], true),
    copy("delta-blocks", &["-f", "--delta", "blocks"], true),
    copy("delta-rolling", &["-f", "--delta", "rolling"], true),
    copy("in-place", &["-f", "--inplace"], true),
    copy("durable", &["--fsync", "full"], false),
    sync("sync", &[]),
    sync("sync-backup", &["--backup-dir", "../kept"]),
];

#[derive(Debug, Clone, Copy)]
enum Damage {
    Longer,
    Shorter,
    Swapped,
    SwappedWithJournals,
    OfAnotherFile,
    Holes,
    Zeros,
    Removed,
    Link,
    HardLink,
    Directory,
    Fifo,
    JournalAppended,
    JournalOfAnother,
    JournalRemoved,
    JournalLink,
    JournalDirectory,
    JournalHardLink,
}

const DAMAGES: [Damage; 18] = [
    Damage::Longer,
    Damage::Shorter,
    Damage::Swapped,
    Damage::SwappedWithJournals,
    Damage::OfAnotherFile,
    Damage::Holes,
    Damage::Zeros,
    Damage::Removed,
    Damage::Link,
    Damage::HardLink,
    Damage::Directory,
    Damage::Fifo,
    Damage::JournalAppended,
    Damage::JournalOfAnother,
    Damage::JournalRemoved,
    Damage::JournalLink,
    Damage::JournalDirectory,
    Damage::JournalHardLink,
];

/// Sources, and a host to copy them to and from.
struct Ground<'a> {
    sandbox: &'a Sandbox,
    remote: Remote,
    source: PathBuf,
    old: PathBuf,
    /// A file of the user's; no file of haul's may change it.
    precious: PathBuf,
}

impl<'a> Ground<'a> {
    fn new(sandbox: &'a Sandbox) -> Self {
        for (name, bytes, _, old_bytes) in FILES {
            let source = sandbox.big_file(Path::new("source").join(name), bytes);
            let old = sandbox.big_file(Path::new("old").join(name), old_bytes);
            // Some of the old file is of use to a delta.
            let mut shared = vec![0; 3 << 20];
            File::open(&source).unwrap().read_exact_at(&mut shared, 2 << 20).unwrap();
            File::options().write(true).open(&old).unwrap().write_all_at(&shared, 2 << 20).unwrap();
            set_mtime(&old, 1_600_000_000, 0);
        }
        let precious = sandbox.big_file("precious", 21_000_000);
        let remote = Remote::new(sandbox);
        Self { sandbox, remote, source: sandbox.path("source"), old: sandbox.path("old"), precious }
    }

    fn haul(&self, way: Way, recipe: &Recipe, names: &[&str], place: &Path) -> Haul<'_> {
        let haul = if recipe.is_sync { self.sandbox.haul(["sync"]) } else { self.sandbox.haul([""; 0]) };
        let haul = if way == Way::Local { haul } else { haul.args(self.remote.sshd().haul_args()) };
        let haul = haul.limit(LIMIT).args(["--json", "--progress", "1"]).args(recipe.options);
        let from = names.iter().map(|name| self.source.join(name));
        match way {
            Way::Push => haul.args(from).arg(self.remote.at(place)),
            Way::Pull => haul.args(from.map(|path| self.remote.at(path))).arg(place),
            Way::Local => haul.args(from).arg(place),
        }
    }

    fn copy_both(&self, way: Way, recipe: &Recipe, place: &Path) -> Haul<'_> {
        self.haul(way, recipe, &FILES.map(|(name, ..)| name), place)
    }

    /// Both files, killed in the middle of the first run.
    fn kill(&self, way: Way, recipe: &Recipe, place: &Path) {
        fs::create_dir_all(place).unwrap();
        if recipe.replaces {
            FILES.iter().for_each(|(name, ..)| clone(&self.old.join(name), &place.join(name)));
        }
        let mut parts = Vec::new();
        for (name, _, arrived, _) in FILES {
            let mut known: Vec<_> = FILES.iter().map(|(name, ..)| *name).collect();
            known.extend(parts.iter().map(String::as_str));
            let mut running = self.haul(way, recipe, &[name], place).args(SLOW).start();
            let part = || hidden_or_partial(place, &known, arrived).filter(|part| has_data(part, arrived));
            let is_there = within(LIMIT, || part().is_some());
            running.signal(Signal::KILL);
            running.wait_up_to(LIMIT);
            assert!(is_there, "{way:?} {}: nothing of {name} arrived\n{}", recipe.name, running.stderr_so_far());
            assert!(within(LIMIT, || self.remote.workers().is_empty()), "a worker is left");
            // After a kill of the controller, its worker removes files that no run can resume.
            let part = part().and_then(|part| Some(part.file_name()?.to_str()?.to_owned()));
            let is_resumable = !recipe.options.contains(&"--inplace");
            assert!(part.is_some() || !is_resumable, "{way:?} {}: no part of {name} is left", recipe.name);
            parts.extend(part);
        }
    }
}

/// Files in a directory that haul cannot have made: name and inode.
fn others(place: &Path) -> Vec<(String, u64)> {
    let paths = listing(place).into_iter().map(|name| (place.join(&name), name));
    let others = paths.filter(|(path, name)| name.starts_with(".haul-") && !may_be_hauls(path));
    others.map(|(path, name)| (name, look(&path).unwrap().ino())).collect()
}

/// Copies a file or a directory with its times.
fn clone(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap();
    assert!(status.success(), "cp {} {}", from.display(), to.display());
}

/// The temporary name of a file, `part` or `journal`: as docs/internals/resume.md has it.
fn temporary(place: &Path, name: &str, what: &str) -> PathBuf {
    let digest = blake3::hash(format!("file\0{name}").as_bytes()).to_hex();
    place.join(format!(".haul-{}.{what}", &digest[..24]))
}

fn look(path: &Path) -> Option<Metadata> {
    fs::symlink_metadata(path).ok()
}

/// Whether so many bytes have arrived, but for holes.
fn has_data(part: &Path, arrived: u64) -> bool {
    look(part).is_some_and(|meta| meta.blocks() * 512 >= arrived / 2)
}

/// Whether haul may have made it: a regular file with one name.
fn may_be_hauls(path: &Path) -> bool {
    look(path).is_some_and(|meta| meta.is_file() && meta.nlink() == 1)
}

/// Removes whatever is there.
fn remove(path: &Path) {
    match look(path) {
        Some(meta) if meta.is_dir() => fs::remove_dir_all(path).unwrap(),
        Some(_) => fs::remove_file(path).unwrap(),
        None => {}
    }
}

fn exchange(one: &Path, other: &Path) {
    let aside = one.with_extension("aside");
    for (from, to) in [(one, &*aside), (other, one), (&*aside, other)] {
        if look(from).is_some() {
            fs::rename(from, to).unwrap();
        }
    }
}

/// Opens a possible file of haul's, to damage it.
fn open(path: &Path) -> Option<(File, u64)> {
    let len = look(path).filter(|_| may_be_hauls(path))?.len();
    Some((File::options().read(true).write(true).open(path).unwrap(), len))
}

impl Damage {
    /// Damages the remains of a file.
    fn inflict(self, ground: &Ground<'_>, place: &Path, file: usize, rng: &mut Rng) {
        let ((name, bytes, ..), (other, ..)) = (FILES[file], FILES[1 - file]);
        let (part, journal) = (temporary(place, name, "part"), temporary(place, name, "journal"));
        let (other_part, other_journal) = (temporary(place, other, "part"), temporary(place, other, "journal"));
        match self {
            Self::Longer => {
                let Some((part, len)) = open(&part) else { return };
                let count = 1 + rng.index(9000);
                let behind = rng.bytes(count);
                part.write_all_at(&behind, len.max(bytes) + rng.below(20_000_000)).unwrap();
            }
            Self::Shorter => {
                let Some((part, len)) = open(&part) else { return };
                part.set_len(rng.below(len.max(1))).unwrap();
            }
            Self::Swapped => exchange(&part, &other_part),
            Self::SwappedWithJournals => {
                exchange(&part, &other_part);
                exchange(&journal, &other_journal);
            }
            Self::OfAnotherFile => {
                if let Some((part, _)) = open(&part) {
                    part.set_len(0).unwrap();
                    part.write_all_at(&fs::read(&ground.precious).unwrap(), 0).unwrap();
                }
            }
            Self::Holes | Self::Zeros => {
                let Some((part, len)) = open(&part) else { return };
                let at = rng.below(len.max(1));
                let count = 1 + rng.below(3_000_000);
                match self {
                    Self::Holes => {
                        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                        fallocate(&part, flags, at, count).unwrap();
                    }
                    _ => part.write_all_at(&vec![0; usize::try_from(count).unwrap()], at).unwrap(),
                }
            }
            Self::Removed => remove(&part),
            Self::Link => {
                remove(&part);
                symlink(&ground.precious, &part).unwrap();
            }
            Self::HardLink => {
                remove(&part);
                fs::hard_link(&ground.precious, &part).unwrap();
            }
            Self::Directory => {
                remove(&part);
                fs::create_dir(&part).unwrap();
            }
            Self::Fifo => {
                remove(&part);
                fifo(&part);
            }
            Self::JournalAppended => {
                if let Some((journal, len)) = open(&journal) {
                    let count = 1 + rng.index(200_000);
                    journal.write_all_at(&rng.bytes(count), len).unwrap();
                }
            }
            Self::JournalOfAnother => {
                if may_be_hauls(&other_journal) {
                    remove(&journal);
                    clone(&other_journal, &journal);
                }
            }
            Self::JournalRemoved => remove(&journal),
            Self::JournalLink => {
                remove(&journal);
                symlink(&ground.precious, &journal).unwrap();
            }
            Self::JournalDirectory => {
                remove(&journal);
                fs::create_dir(&journal).unwrap();
            }
            Self::JournalHardLink => {
                remove(&journal);
                fs::hard_link(&ground.precious, &journal).unwrap();
            }
        }
    }
}

/// The files are the source's, to the last byte; the user's file is unchanged; no file of haul's is left.
fn is_right(ground: &Ground<'_>, place: &Path, precious: &[u8]) -> Result<(), String> {
    for (name, bytes, ..) in FILES {
        compare(&ground.source.join(name), &place.join(name))?;
        let len = look(&place.join(name)).map_or(0, |meta| meta.len());
        if len != bytes {
            return Err(format!("{name} has {len} bytes"));
        }
    }
    if fs::read(&ground.precious).unwrap() != precious {
        return Err("the user's file was changed".into());
    }
    for entry in fs::read_dir(place).unwrap() {
        let path = entry.unwrap().path();
        let is_known = FILES.iter().any(|(name, ..)| path.ends_with(name)) || path.ends_with("kept");
        if !is_known && may_be_hauls(&path) {
            return Err(format!("{} is left", path.display()));
        }
    }
    Ok(())
}

/// One round. An error describes the fault after the rerun.
fn round(ground: &Ground<'_>, killed: &mut BTreeMap<(Way, &'static str), PathBuf>, seed: u64) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let recipe = &RECIPES[usize::try_from(seed).unwrap() % RECIPES.len()];
    let way = WAYS[usize::try_from(seed / RECIPES.len() as u64).unwrap() % WAYS.len()];
    let template = killed.entry((way, recipe.name)).or_insert_with(|| {
        let template = ground.sandbox.path(format!("killed-{way:?}-{}", recipe.name));
        ground.kill(way, recipe, &template);
        template
    });
    let base = ground.sandbox.dir(format!("round{seed}"));
    let place = base.join("place");
    clone(template, &place);
    let damages: Vec<_> = (0..1 + rng.below(3)).map(|_| (rng.pick(&DAMAGES), rng.index(2))).collect();
    damages.iter().for_each(|(damage, file)| damage.inflict(ground, &place, *file, &mut rng));
    let (precious, others_before) = (fs::read(&ground.precious).unwrap(), others(&place));
    let run = ground.copy_both(way, recipe, &place).run();
    let account = |why: &str| format!("{way:?} {} {damages:?}: {why}\n{}", recipe.name, run.account());
    if run.status != Some(0) {
        return Err(account("it did not succeed"));
    }
    is_right(ground, &place, &precious).map_err(|why| account(&why))?;
    if others(&place) != others_before {
        return Err(account("what haul did not make is gone"));
    }
    fs::remove_dir_all(base).unwrap();
    Ok(())
}

#[test]
fn damaged_parts_never_become_wrong_files() {
    let sandbox = Sandbox::new();
    let ground = Ground::new(&sandbox);
    let (rounds, from) = (cases("HAUL_PART_DAMAGES", EVERYDAY), cases("HAUL_PART_SEED", 0));
    let mut killed = BTreeMap::new();
    let mut failed = Vec::new();
    for seed in from..from + rounds {
        if let Err(why) = round(&ground, &mut killed, seed) {
            println!("seed {seed} (HAUL_PART_SEED={seed} HAUL_PART_DAMAGES=1): {why}\n");
            failed.push(seed);
        }
    }
    assert!(failed.is_empty(), "{} of {rounds} rounds failed: {failed:?}", failed.len());
    count("damaged-parts", rounds);
}

#[test]
fn the_harness_detects_wrong_files_after_a_rerun() {
    let sandbox = Sandbox::new();
    let ground = Ground::new(&sandbox);
    let place = sandbox.dir("place");
    ground.copy_both(Way::Local, &RECIPES[0], &place).run().succeeds();
    let precious = fs::read(&ground.precious).unwrap();
    let is_right = || is_right(&ground, &place, &precious);
    is_right().unwrap();
    let (source, copy) = (ground.source.join("a"), place.join("a"));
    let file = File::options().write(true).open(&copy).unwrap();
    let bytes = FILES[0].1;
    file.set_len(bytes + 1).unwrap();
    assert!(is_right().is_err(), "a byte behind the end");
    file.set_len(bytes).unwrap();
    file.write_all_at(&[!fs::read(&source).unwrap()[9]], 9).unwrap();
    assert!(is_right().is_err(), "another byte");
    clone(&source, &copy);
    is_right().unwrap();
    fs::write(temporary(&place, "a", "journal"), "left").unwrap();
    assert!(is_right().is_err(), "a journal that is left");
    remove(&temporary(&place, "a", "journal"));
    fs::write(&ground.precious, "changed").unwrap();
    assert!(is_right().is_err(), "a file of the user's that was changed");
}

/// Also a journal without a part, whatever its content; but no foreign file.
#[test]
fn a_journal_beside_a_finished_file_is_removed() {
    let sandbox = Sandbox::new();
    let ground = Ground::new(&sandbox);
    for (way, recipe) in [(Way::Push, &RECIPES[0]), (Way::Pull, &RECIPES[7]), (Way::Local, &RECIPES[1])] {
        let place = sandbox.dir(format!("place-{way:?}"));
        // Before the file is there, when it is there, and when it is there with a journal of the user's.
        for is_own in [true, true, false] {
            let journal = temporary(&place, "a", "journal");
            match is_own {
                true => fs::write(&journal, [7; 9000]).unwrap(),
                false => symlink(&ground.precious, &journal).unwrap(),
            }
            let run = ground.copy_both(way, recipe, &place).run().succeeds();
            let expected =
                if is_own { vec!["a", "b"] } else { vec![journal.file_name().unwrap().to_str().unwrap(), "a", "b"] };
            assert_eq!(listing(&place), expected, "{way:?} {}\n{}", recipe.name, run.account());
            let notices = notices_of(&run, &journal);
            assert_eq!(notices, usize::from(!is_own), "{way:?} {}\n{}", recipe.name, run.account());
        }
    }
}

/// Notices of a run that name this temporary name.
fn notices_of(run: &ProgramRun, temporary: &Path) -> usize {
    let name = temporary.file_name().unwrap().to_str().unwrap().to_owned();
    let is_notice = |text: &str| text.contains(&name) && text.contains("which is not haul's");
    run.events().iter().filter(|event| is_notice(&event.to_string())).count()
}

/// A link, a directory and a file with two names: none is touched, and each is named once.
#[test]
fn foreign_files_with_temporary_names_are_named() {
    let sandbox = Sandbox::new();
    let ground = Ground::new(&sandbox);
    for (number, recipe) in [&RECIPES[0], &RECIPES[1], &RECIPES[5], &RECIPES[7]].into_iter().enumerate() {
        let place = sandbox.dir(format!("place-{number}"));
        if recipe.replaces {
            FILES.iter().for_each(|(name, ..)| clone(&ground.old.join(name), &place.join(name)));
        }
        let (part, journal, patch) =
            (temporary(&place, "a", "part"), temporary(&place, "b", "journal"), temporary(&place, "b", "patch"));
        fs::create_dir(&part).unwrap();
        symlink(&ground.precious, &journal).unwrap();
        fs::hard_link(&ground.precious, &patch).unwrap();
        let run = ground.copy_both(WAYS[number % 3], recipe, &place).run().succeeds();
        FILES.iter().for_each(|(name, ..)| compare(&ground.source.join(name), &place.join(name)).unwrap());
        let in_place = recipe.name == "in-place";
        for (path, is_met) in [(&part, true), (&journal, !in_place), (&patch, in_place)] {
            assert!(look(path).is_some());
            assert_eq!(
                notices_of(&run, path),
                usize::from(is_met),
                "{}: {}\n{}",
                recipe.name,
                path.display(),
                run.account()
            );
            remove(path);
        }
        assert_eq!(listing(&place), ["a", "b"]);
    }
}

/// A run is killed, and resumes with another directory for journals.
#[test]
fn a_journal_follows_its_file_with_a_journal_directory() {
    let sandbox = Sandbox::new();
    let ground = Ground::new(&sandbox);
    let journals = sandbox.dir("journals").display().to_string();
    for way in [Way::Push, Way::Local] {
        let place = sandbox.path(format!("place-{way:?}"));
        ground.kill(way, &RECIPES[0], &place);
        let (journal, aside) = (temporary(&place, "b", "journal"), sandbox.path("aside"));
        clone(&journal, &aside);
        let copy =
            || ground.copy_both(way, &RECIPES[0], &place).arg(format!("--journal-dir={journals}")).run().succeeds();
        let run = copy();
        let is_left_clean = |what: &str| {
            assert_eq!(listing(&place), ["a", "b"], "{way:?}, {what}: {}", run.account());
            assert_eq!(listing(Path::new(&journals)), [""; 0], "{way:?}, {what}");
        };
        is_left_clean("after the rerun");
        // The remains of a run of an earlier version.
        clone(&aside, &journal);
        copy();
        is_left_clean("beside a finished file");
        fs::remove_file(&aside).unwrap();
    }
}

/// Another program truncates a part while it is resumed: verified data is gone, and is sent again.
#[test]
fn a_part_truncated_during_its_resume_is_sent_again() {
    let sandbox = Sandbox::new();
    let ground = Ground::new(&sandbox);
    for way in [Way::Push, Way::Local] {
        let place = sandbox.path(format!("place-{way:?}"));
        ground.kill(way, &RECIPES[0], &place);
        let part = temporary(&place, "b", "part");
        let mut running = ground.haul(way, &RECIPES[0], &["b"], &place).args(["--xfrrate", "16m"]).start();
        let is_resumed = within(LIMIT, || running.stdout_so_far().contains("\"resumed\""));
        assert!(is_resumed, "{}", running.stderr_so_far());
        File::options().write(true).open(&part).unwrap().set_len(0).unwrap();
        assert!(running.wait_up_to(LIMIT), "it is still running");
        let run = ProgramRun::of(running).succeeds();
        compare(&ground.source.join("b"), &place.join("b"))
            .unwrap_or_else(|error| panic!("{error}\n{}", run.account()));
        assert!(run.stdout.contains("were removed after they were written"), "{}", run.account());
    }
}

/// The source changes between the kill and the rerun, and keeps its size and its time of modification.
#[test]
fn a_source_changed_with_its_time_restored_is_compared() {
    let sandbox = Sandbox::new();
    let ground = Ground::new(&sandbox);
    let source = ground.source.join("b");
    let bytes = fs::read(&source).unwrap();
    let with_holes = || {
        let file = File::create(&source).unwrap();
        file.set_len(bytes.len() as u64).unwrap();
        file.write_all_at(&bytes[..1 << 20], 0).unwrap();
        file.write_all_at(&bytes[9 << 20..], 9 << 20).unwrap();
    };
    let patch = |at: usize, len: usize| {
        let (seconds, nanoseconds) = mtime(&source);
        File::options().write(true).open(&source).unwrap().write_all_at(&bytes[at..at + len], at as u64).unwrap();
        set_mtime(&source, seconds, u32::try_from(nanoseconds).unwrap());
    };
    for (way, recipe, at, len) in [
        (Way::Push, &RECIPES[0], 3 << 20, 100),
        (Way::Pull, &RECIPES[4], 1 << 20, 8 << 20),
        (Way::Local, &RECIPES[7], 3 << 20, 100),
    ] {
        let place = sandbox.path(format!("place-{way:?}-{}", recipe.name));
        with_holes();
        ground.kill(way, recipe, &place);
        patch(at, len);
        let run = ground.copy_both(way, recipe, &place).run().succeeds();
        let compared = compare(&source, &place.join("b"));
        assert!(compared.is_ok(), "{way:?} {}: {compared:?}\n{}", recipe.name, run.account());
    }
}

/// In a directory writable by everybody, another user takes the temporary names of the files to copy.
#[test]
fn another_users_temporary_names_block_no_copy() {
    if !is_root_or_skip("files of two users") {
        return;
    }
    let sandbox = Sandbox::new();
    let ground = Ground::new(&sandbox);
    let place = sandbox.dir("place");
    fs::set_permissions(&place, fs::Permissions::from_mode(0o1777)).unwrap();
    for (number, what) in ["part", "journal", "patch"].into_iter().enumerate() {
        let taken = fs::write(temporary(&place, "a", what), "another user's");
        taken.unwrap();
        fs::set_permissions(temporary(&place, "a", what), fs::Permissions::from_mode(0o666)).unwrap();
        let held = File::open(temporary(&place, "a", what)).unwrap();
        rustix::fs::flock(&held, rustix::fs::FlockOperation::LockExclusive).unwrap();
        let copy = |options: &[&str]| {
            sandbox.haul_of_user(["--json"]).limit(LIMIT).args(options).arg(ground.source.join("a")).arg(&place)
        };
        let is_right = || {
            compare(&ground.source.join("a"), &place.join("a")).unwrap();
            let own = listing(&place).into_iter().filter(|name| look(&place.join(name)).unwrap().uid() == user());
            assert_eq!(own.collect::<Vec<_>>(), ["a"], "round {number}");
        };
        // Killed, and resumed under the name that it got.
        let mut running = copy(&SLOW).start();
        let part = || hidden_or_partial(&place, &[], 5_000_000);
        assert!(within(LIMIT, || part().is_some()), "{}", running.stderr_so_far());
        running.signal(Signal::KILL);
        running.wait_up_to(LIMIT);
        let run = copy(&[]).run().succeeds();
        is_right();
        let resumed = run.events().iter().any(|event| event["event"] == "resumed");
        assert_eq!(resumed, what != "journal", "{}", run.account());
        // Replaced, and changed in its own place.
        for options in [&["-f"][..], &["-f", "--inplace", "--delta", "blocks"]] {
            fs::write(place.join("a"), "old").unwrap();
            give_to_user(&place.join("a"));
            copy(options).run().succeeds();
            is_right();
        }
        fs::remove_file(place.join("a")).unwrap();
        assert_eq!(fs::read(temporary(&place, "a", what)).unwrap(), b"another user's");
        remove(&temporary(&place, "a", what));
    }
}

//! Large files with holes that change between two syncs: the copy is equal, and takes no more of the disk.
//!
//! `HAUL_SPARSE_PAIRS` sets the number of files, `HAUL_SYNC_SEED` the first seed.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use haul_e2e::{ProgramRun, Remote, Rng, Sandbox, cases, compare, count};
use rustix::fs::{FallocateFlags, fallocate};

use super::place::temporary;

/// Each way with each of [`MODES`].
const EVERYDAY: u64 = 9;
const SIZE: u64 = 100 << 20;
/// Most bytes that are written or punched at a time.
const PIECE_MAX: u64 = 2 << 20;
const CHANGES_MAX: u64 = 4;
/// Syncs after the first one.
const ROUNDS: usize = 2;
/// Bytes of the disk that a copy may take beyond its source: blocks of extents, and those at both ends of a piece.
const SLACK: u64 = 256 << 10;

#[derive(Debug, Clone, Copy)]
enum Way {
    Push,
    Pull,
    Local,
}

const WAYS: [Way; 3] = [Way::Push, Way::Pull, Way::Local];
const MODES: [&[&str]; 5] = [&[], &["--delta=blocks"], &["--delta=rolling"], &["--inplace"], &["--sparse=make"]];

#[test]
fn a_changed_sparse_file_takes_no_more_space_than_its_source() {
    let (files, from) = (cases("HAUL_SPARSE_PAIRS", EVERYDAY), cases("HAUL_SYNC_SEED", 0));
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    for seed in from..from + files {
        let number = usize::try_from(seed).expect("a small number");
        let (way, options) = (WAYS[number % WAYS.len()], MODES[number / WAYS.len() % MODES.len()]);
        let made = file(&sandbox, &remote, seed, way, options);
        let what = format!("HAUL_SYNC_SEED={seed} HAUL_SPARSE_PAIRS=1: {way:?} {options:?}");
        made.unwrap_or_else(|why| panic!("{what}: {why}"));
    }
    count("sparse-pairs", files);
}

fn file(sandbox: &Sandbox, remote: &Remote, seed: u64, way: Way, options: &[&str]) -> Result<(), String> {
    let words = |error: io::Error| format!("the file cannot be made: {error}");
    let (place, mut rng) = (temporary(), Rng::new(seed));
    let [source, target] = ["s", "t"].map(|name| place.path().join(name));
    [&source, &target].into_iter().try_for_each(fs::create_dir).map_err(words)?;
    let name = source.join("file");
    let new = File::create_new(&name).map_err(words)?;
    new.set_len(SIZE).map_err(words)?;
    (0..8).try_for_each(|_| write(&mut rng, &new)).map_err(words)?;
    let mut changes = Vec::new();
    for _ in 0..=ROUNDS {
        let run = sync(sandbox, remote, way, options, [&source, &target]);
        if run.status != Some(0) {
            return Err(format!("after {changes:?} it ended with {:?}\n{}", run.status, run.stderr));
        }
        compare(&source, &target).map_err(|why| format!("after {changes:?}: {why}"))?;
        let [wanted, there] = [&source, &target].map(|tree| fs::metadata(tree.join("file")).map_or(0, |m| m.blocks()));
        if there * 512 > wanted * 512 + SLACK {
            return Err(format!("after {changes:?} it takes {there} blocks for {wanted}"));
        }
        changes = (0..rng.between(1, CHANGES_MAX))
            .map(|_| change(&mut rng, &name))
            .collect::<Result<_, _>>()
            .map_err(words)?;
    }
    Ok(())
}

fn sync(sandbox: &Sandbox, remote: &Remote, way: Way, options: &[&str], [source, target]: [&Path; 2]) -> ProgramRun {
    let haul = sandbox.haul(["sync"]).args(options);
    let slash = |path: &Path| OsString::from(format!("{}/", path.display()));
    let haul = if matches!(way, Way::Local) { haul } else { haul.args(remote.sshd().haul_args()) };
    let [from, to] = match way {
        Way::Push => [slash(source), remote.at(target)],
        Way::Pull => [remote.at(slash(source)), target.into()],
        Way::Local => [slash(source), target.into()],
    };
    haul.args([from, to]).run()
}

/// Changes the file, and says how.
fn change(rng: &mut Rng, name: &Path) -> io::Result<&'static str> {
    let file = File::options().read(true).write(true).open(name)?;
    let size = file.metadata()?.len();
    match rng.below(6) {
        0 => punch(rng, &file).map(|()| "punch"),
        1 => file.set_len(size + rng.between(1, SIZE / 4)).map(|()| "grow"),
        2 => file.set_len(size - rng.between(1, SIZE / 8)).map(|()| "cut"),
        3 => {
            // The contents move, holes and all.
            let by = rng.between(1, PIECE_MAX);
            let moved = File::create(name.with_extension("new"))?;
            moved.set_len(size + by)?;
            let mut buffer = vec![0; 1 << 20];
            for at in (0..size).step_by(buffer.len()) {
                let read = file.read_at(&mut buffer, at)?;
                if buffer[..read].iter().any(|byte| *byte != 0) {
                    moved.write_all_at(&buffer[..read], at + by)?;
                }
            }
            fs::rename(name.with_extension("new"), name).map(|()| "insert")
        }
        _ => write(rng, &file).map(|()| "write"),
    }
}

fn write(rng: &mut Rng, file: &File) -> io::Result<()> {
    let at = rng.below(file.metadata()?.len() - PIECE_MAX);
    let len = usize::try_from(rng.log_between(1, PIECE_MAX)).expect("a small number");
    file.write_all_at(&rng.bytes(len), at)
}

fn punch(rng: &mut Rng, file: &File) -> io::Result<()> {
    let at = rng.below(file.metadata()?.len() - PIECE_MAX);
    fallocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, at, PIECE_MAX)?;
    // An empty file would otherwise count as unchanged.
    file.set_modified(std::time::SystemTime::now())
}

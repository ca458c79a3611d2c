//! Kills at any moment: the command, or the worker of either end. After a rerun both sides are equal, and have all edits
//! of both.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use haul_e2e::{Attributes, ProgramRun, Remote, Rng, cases, commands, compare_with, contents, count, pid};
use haul_lab::descendants;
use rustix::process::{Signal, kill_process};

use super::Pair;

/// Files of each side.
const FILES: u64 = 40;
/// The size of the file that makes a run long enough to be killed while it copies.
const BIG: usize = 6_000_000;
/// A run whose predecessor was killed may find its worker still alive.
const TRIES: u32 = 5;

/// Contents by path, as both sides have to have them.
type Expected = BTreeMap<String, Vec<u8>>;

/// Random edits of a side, each of a file that the other side does not touch.
fn edit(pair: &Pair, side: &str, rng: &mut Rng, expected: &mut Expected) {
    let own = |number: u64| format!("d{}/{side}{number}", number % 5);
    for _ in 0..12 {
        let path = own(rng.below(FILES));
        let at = pair.path(format!("{side}/{path}"));
        match rng.below(4) {
            0 if at.exists() => {
                fs::remove_file(at).unwrap();
                expected.remove(&path);
            }
            1 if at.exists() => {
                let to = format!("moved/{side}{}", rng.below(FILES));
                fs::create_dir_all(pair.path(format!("{side}/moved"))).unwrap();
                fs::rename(at, pair.path(format!("{side}/{to}"))).unwrap();
                let content = expected.remove(&path).unwrap();
                expected.insert(to, content);
            }
            _ => {
                let len = rng.index(20_000);
                write(pair, side, path, rng.bytes(len), expected);
            }
        }
    }
    write(pair, side, format!("big-{side}"), rng.bytes(BIG), expected);
}

fn write(pair: &Pair, side: &str, path: String, content: Vec<u8>, expected: &mut Expected) {
    pair.sandbox.file(format!("{side}/{path}"), &content);
    expected.insert(path, content);
}

/// All files below a directory, by path.
fn files(root: &Path, directory: &Path, found: &mut Expected) {
    for entry in fs::read_dir(directory).unwrap().flatten() {
        let path = entry.path();
        match entry.file_type().unwrap().is_dir() {
            true => files(root, &path, found),
            false => {
                let name = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
                drop(found.insert(name, contents(&path)));
            }
        }
    }
}

/// Checks that both sides are equal, and have exactly the expected files: no edit is lost, nothing came back, and no
/// temporary name is left.
fn check(pair: &Pair, expected: &Expected) -> Result<(), String> {
    compare_with(&pair.path("a"), &pair.path("b"), Attributes { modes: true, ..Attributes::default() })?;
    let mut found = Expected::new();
    files(&pair.path("a"), &pair.path("a"), &mut found);
    let differs = |path: &&String| found.get(*path) != expected.get(*path);
    let differing: Vec<_> = expected.keys().chain(found.keys()).filter(differs).collect();
    let hidden = pair.names().concat().into_iter().find(|name| name.starts_with(".haul"));
    match (differing.is_empty(), hidden) {
        (true, None) => Ok(()),
        (false, _) => Err(format!("{differing:?} are not as they were edited")),
        (true, Some(name)) => Err(format!("{name} is left")),
    }
}

/// The command, its workers here and those of the remote host.
fn victims(command: u32, remote: &Remote) -> Vec<u32> {
    let is_worker = |pid: &u32| commands(&[*pid])[0].contains(" worker");
    let here = descendants(command).into_iter().filter(is_worker);
    [command].into_iter().chain(here).chain(remote.workers()).collect()
}

#[test]
fn after_a_kill_a_rerun_ends_where_an_undisturbed_run_would_have() {
    let rounds = cases("HAUL_TWOWAY_KILLS", 10);
    let seed = cases("HAUL_TWOWAY_SEED", 1);
    let (pair, mut rng, mut expected) = (Pair::new(), Rng::new(seed), Expected::new());
    let remote = Remote::new(&pair.sandbox);
    let haul = || {
        let haul = remote.haul(&pair.sandbox).env("XDG_STATE_HOME", pair.path("state"));
        haul.args(["twoway", "--batch", "--max-delete=1000", "a"]).arg(remote.at(pair.path("b")))
    };
    let mut length = Duration::ZERO;
    let mut killed = 0;
    for round in 0..=rounds {
        ["a", "b"].iter().for_each(|side| edit(&pair, side, &mut rng, &mut expected));
        if round > 0 {
            let running = haul().start();
            let moment = length.mul_f64(f64::from(u32::try_from(rng.below(1000)).unwrap()) / 1000.0);
            thread::sleep(moment);
            let victim = rng.pick(&victims(running.id(), &remote));
            let _ = kill_process(pid(victim), Signal::KILL);
            killed += u64::from(ProgramRun::of(running).status != Some(0));
        }
        let started = Instant::now();
        let mut run = haul().run();
        for _ in 1..TRIES {
            if run.stderr.contains("works in this replica") {
                run = haul().run();
            }
        }
        let run = run.succeeds();
        length = started.elapsed();
        let checked = check(&pair, &expected);
        checked.unwrap_or_else(|why| panic!("seed {seed}, round {round}: {why}\n{}", run.account()));
    }
    println!("{killed} of {rounds} runs were killed before their end");
    count("twoway-kills", rounds);
    remote.is_left_clean();
}

#[test]
fn the_check_notices_lost_edits_returned_files_and_leftovers() {
    let pair = Pair::with(&["f", "g"]);
    let mut expected: Expected = ["f", "g"].map(|path| (path.to_owned(), path.as_bytes().to_vec())).into();
    assert_eq!(check(&pair, &expected), Ok(()));
    expected.insert("g".into(), b"edited".to_vec());
    assert!(check(&pair, &expected).unwrap_err().contains("\"g\""));
    expected.remove("g");
    assert!(check(&pair, &expected).unwrap_err().contains("\"g\""));
    ["a", "b"].iter().for_each(|side| {
        pair.remove(&format!("{side}/g"));
        pair.sandbox.dir(format!("{side}/.haul-twoway"));
    });
    assert_eq!(check(&pair, &expected), Err(".haul-twoway is left".into()));
}

//! Pairs of random trees: `haul sync`'s result is compared with the source, including all preserved metadata, and with
//! rsync's result.
//!
//! `HAUL_SYNC_PAIRS` is the number of pairs, `HAUL_SYNC_SEED` the first seed. Repeat a failed pair by
//! `HAUL_SYNC_SEED=ITS_SEED HAUL_SYNC_PAIRS=1`.

mod families;
mod place;
mod sparse;
mod spec;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use haul_e2e::{Mount, NOBODY, ProgramRun, Sandbox, cases, count};
use place::{Difference, Look, as_kept_on, differences, lines, look, make, temporary};
use spec::{Maker, Scope};

const EVERYDAY: u64 = 800;
/// Every so many pairs it is also looked at first, and done once more.
const LOOKED_AT_EVERY: u64 = 10;
/// One in this many pairs compares a dry run with the run, with options that leave the target different from the
/// source.
const DIFFERENTIAL_EVERY: u64 = 8;
/// Such options.
const FAMILIES: [&[&str]; 10] = [
    &["--existing", "--delete"],
    &["--existing", "--compare=digest"],
    &["--ignore-existing", "--delete=during"],
    &["--update", "--delete=before"],
    &["--delete=during", "--max-delete=3"],
    &["--delete", "--max-delete=3"],
    &["--delete=before", "--max-delete=3"],
    &["--delete", "--max-delete=1"],
    &["--compare=size", "--delete=during", "--exclude=*.b", "--exclude=?"],
    &["--compare=digest", "--delete", "--backup-dir=../b"],
];
/// Every so many pairs the target's file system keeps times to the second.
const COARSE_EVERY: u64 = 16;
/// One in this many pairs belongs to a user without root, with possibly read-only directories.
const USER_EVERY: u64 = 7;
/// So many failures are shown.
const SHOWN_MAX: usize = 10;
/// Preserves the same as `rsync -aHAX`.
const KEPT: [&str; 6] = ["sync", "--hard-links", "--xattrs", "--acls", "--specials", "--json"];

/// haul's result equals the source; and rsync's?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// The same, or it is not there.
    Same,
    /// Something else, or it has failed.
    RsyncDiffers,
}

#[test]
fn any_tree_becomes_the_source_as_with_rsync() {
    let (pairs, from) = (cases("HAUL_SYNC_PAIRS", EVERYDAY), cases("HAUL_SYNC_SEED", 0));
    let has_rsync = Command::new("rsync").arg("--version").stdout(Stdio::null()).status().is_ok_and(|s| s.success());
    if !has_rsync {
        println!("SKIPPED: there is no rsync to hold it against");
    }
    let sandbox = Sandbox::new();
    let is_root = rustix::process::geteuid().is_root();
    let coarse = if is_root { sandbox.image_with("ext4", &["-q", "-I", "128"], 2 << 30) } else { None };
    if is_root {
        // The user's copy of the program is made once.
        sandbox.haul_of_user(["--version"]).run().succeeds();
    }
    let (next, others, failed) = (AtomicU64::new(from), AtomicU64::new(0), Mutex::new(Vec::new()));
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= from + pairs {
                        return;
                    }
                    match pair(&sandbox, seed, has_rsync, coarse.as_ref()) {
                        Ok(Verdict::Same) => {}
                        Ok(Verdict::RsyncDiffers) => drop(others.fetch_add(1, Ordering::Relaxed)),
                        Err(why) => failed.lock().expect("no thread panics with it").push((seed, why)),
                    }
                }
            });
        }
    });
    println!("of {} pairs, rsync makes something else, or fails", others.into_inner());
    let mut failed = failed.into_inner().expect("no thread panics with it");
    failed.sort();
    for (seed, why) in failed.iter().take(SHOWN_MAX) {
        println!("seed {seed} (HAUL_SYNC_SEED={seed} HAUL_SYNC_PAIRS=1):\n{why}\n");
    }
    let seeds: Vec<_> = failed.iter().map(|(seed, _)| seed).collect();
    assert!(failed.is_empty(), "{} of {pairs} pairs failed: {seeds:?}", failed.len());
    count("sync-pairs", pairs);
}

/// Makes a pair, syncs it, and compares the result with the source. An error describes the fault.
fn pair(sandbox: &Sandbox, seed: u64, has_rsync: bool, coarse: Option<&Mount<'_>>) -> Result<Verdict, String> {
    let place = temporary();
    let is_root = rustix::process::geteuid().is_root();
    let is_of_user = is_root && seed.is_multiple_of(USER_EVERY);
    let on_coarse = coarse.filter(|_| seed % COARSE_EVERY == 1);
    let [source, of_rsync] = ["s", "r"].map(|name| place.path().join(name));
    let there = on_coarse.map(|mount| tempfile::tempdir_in(mount.path()).expect("room for a pair"));
    let target = there.as_ref().map_or(place.path(), |there| there.path()).join("t");
    let has_rsync = has_rsync && on_coarse.is_none();
    let scope = match (is_root, is_of_user) {
        (_, true) => Scope::User(NOBODY),
        (true, false) => Scope::Root,
        (false, false) => Scope::Own,
    };
    if is_of_user {
        // A user needs access to the place to copy in it. Backups go beside the target.
        fs::set_permissions(place.path(), PermissionsExt::from_mode(0o777)).expect("it is ours");
    }
    let mut maker = Maker::new(seed, scope);
    let tree = maker.tree();
    let old = maker.target(&tree);
    let delete = maker.pick(&["--delete", "--delete=during", "--delete=before"]);
    let compare = maker.pick(&["--compare=time", "--compare=time", "--compare=time", "--compare=digest"]);
    let options = [delete, compare];
    let words = |error| format!("the pair cannot be made: {error}");
    for (place, tree) in [(&source, &tree), (&of_rsync, &old), (&target, &old)] {
        fs::create_dir(place).and_then(|()| make(place, tree)).map_err(words)?;
    }
    let of_source = look(&source).map_err(words)?;
    let wanted = match &there {
        Some(there) => as_kept_on(there.path(), &of_source).map_err(words)?,
        None => of_source.clone(),
    };
    if seed.is_multiple_of(DIFFERENTIAL_EVERY) {
        let family = FAMILIES[usize::try_from(seed / DIFFERENTIAL_EVERY).unwrap_or(0) % FAMILIES.len()];
        return differential(sandbox, scope, &source, &target, family).map(|()| Verdict::Same);
    }
    let is_looked_at = seed.is_multiple_of(LOOKED_AT_EVERY);
    let expected =
        if is_looked_at { Some(items(&succeeds(dry(sandbox, scope, &source, &target, &options)?)?)) } else { None };
    let run = succeeds(sync(sandbox, scope, &source, &target, &options, "--items"))?;
    let found = look(&target).map_err(|error| format!("what has become of it cannot be looked at: {error}"))?;
    let of_haul = differences(&wanted, &found);
    let of_rsync = has_rsync.then(|| rsync(scope, &source, &of_rsync, &wanted)).flatten();
    if !of_haul.is_empty() {
        let as_rsync = if of_rsync.as_ref() == Some(&of_haul) { " (so does rsync's)" } else { "" };
        return Err(format!("differs from the source{as_rsync}, with {options:?}:\n{}", lines(&of_haul)));
    }
    if let Some(expected) = expected {
        same_items(&options, &expected, &items(&run))?;
        let again = items(&succeeds(sync(sandbox, scope, &source, &target, &options, "--items"))?);
        let touched = look(&target).map_err(words)?;
        if !again.is_empty() {
            return Err(format!("run once more, with {options:?}, it does once more:\n{}", again.join("\n")));
        }
        if touched != found {
            return Err(format!("run once more, with {options:?}, it touches what is the same"));
        }
    }
    if of_source != look(&source).map_err(words)? {
        return Err("the source was changed".into());
    }
    let rsync_differs = has_rsync && of_rsync.is_none_or(|found| !found.is_empty());
    Ok(if rsync_differs { Verdict::RsyncDiffers } else { Verdict::Same })
}

/// Compares a dry run's reports with the run's, also if both fail.
fn differential(sandbox: &Sandbox, scope: Scope, source: &Path, target: &Path, options: &[&str]) -> Result<(), String> {
    let planned = dry(sandbox, scope, source, target, options)?;
    let run = sync(sandbox, scope, source, target, options, "--items");
    same_items(options, &items(&planned), &items(&run))?;
    match planned.status == run.status && matches!(run.status, Some(0 | 1)) {
        true => Ok(()),
        false => Err(format!(
            "with {options:?}, the dry run ended with {:?}, the run with {:?}\n{}\n{}",
            planned.status, run.status, planned.stderr, run.stderr
        )),
    }
}

fn same_items(options: &[&str], planned: &[String], done: &[String]) -> Result<(), String> {
    let only = |a: &[String], b: &[String]| a.iter().filter(|i| !b.contains(i)).cloned().collect::<Vec<_>>();
    match planned == done {
        true => Ok(()),
        false => Err(format!(
            "with {options:?}, only the dry run told:\n{}\nonly the run told:\n{}",
            only(planned, done).join("\n"),
            only(done, planned).join("\n")
        )),
    }
}

fn sync(sandbox: &Sandbox, scope: Scope, source: &Path, target: &Path, options: &[&str], how: &str) -> ProgramRun {
    let slash = |path: &Path| format!("{}/", path.display());
    // The two exclude each other.
    let links = !options.contains(&"--existing");
    let kept = KEPT.into_iter().filter(|option| links || *option != "--hard-links");
    let haul = match scope {
        Scope::User(_) => sandbox.haul_of_user(kept),
        Scope::Root | Scope::Own => sandbox.haul(kept),
    };
    haul.args(options).args(also_of_empty(options)).arg(how).args([slash(source), slash(target)]).run()
}

/// rsync empties the target from an empty source, too.
fn also_of_empty(options: &[&str]) -> Option<&'static str> {
    let deletes = options.iter().any(|option| *option == "--delete" || option.starts_with("--delete="));
    deletes.then_some("--allow-empty-source")
}

fn succeeds(run: ProgramRun) -> Result<ProgramRun, String> {
    let ProgramRun { command, status, timed_out, stderr, .. } = &run;
    match status {
        Some(0) => Ok(run),
        _ => Err(format!("it ended with {status:?}, timed out: {timed_out}\n{command}\n{stderr}")),
    }
}

/// A run's reports of single entries, in alphabetical order.
fn items(run: &ProgramRun) -> Vec<String> {
    let mut items: Vec<_> =
        run.events().into_iter().filter(|event| event["event"] == "item").map(|event| event.to_string()).collect();
    items.sort();
    items
}

/// A dry run's reports; it must change nothing.
fn dry(sandbox: &Sandbox, scope: Scope, source: &Path, target: &Path, options: &[&str]) -> Result<ProgramRun, String> {
    let before = look(target).map_err(|error| error.to_string())?;
    let run = sync(sandbox, scope, source, target, options, "--dry-run");
    let after = look(target).map_err(|error| error.to_string())?;
    // The change time reveals a directory's temporarily widened mode.
    match before == after || matches!(scope, Scope::User(_)) && differences(&before, &after).is_empty() {
        true => Ok(run),
        false => Err(format!("a dry run has changed something:\n{}", lines(&differences(&before, &after)))),
    }
}

/// Differences between the source and rsync's result; `None` if rsync fails.
fn rsync(scope: Scope, source: &Path, target: &Path, wanted: &Look) -> Option<Vec<Difference>> {
    let slash = |path: &Path| format!("{}/", path.display());
    // Times are compared to the nanosecond.
    let mut command = Command::new("rsync");
    if let Scope::User(user) = scope {
        command = Command::new("setpriv");
        command.args([&format!("--reuid={user}"), &format!("--regid={user}"), "--clear-groups", "rsync"]);
    }
    command.args(["-aHAX", "--delete", "--modify-window=-1"]).args([slash(source), slash(target)]);
    match (command.output(), look(target)) {
        (Ok(output), Ok(found)) if output.status.success() => Some(differences(wanted, &found)),
        _ => None,
    }
}

#[test]
fn each_preserved_attribute_is_seen_to_differ() {
    let place = temporary();
    let root = |number: usize| place.path().join(number.to_string());
    let tree = spec::example();
    let first = place.path().join("first");
    fs::create_dir(&first).and_then(|()| make(&first, &tree)).expect("a tree");
    let first = look(&first).expect("it is ours");
    let changed = spec::changed_examples(rustix::process::geteuid().is_root());
    for (number, (what, tree)) in changed.iter().enumerate() {
        fs::create_dir(root(number)).and_then(|()| make(&root(number), tree)).expect("a tree");
        let second = look(&root(number)).expect("it is ours");
        assert_eq!(differences(&first, &second).is_empty(), what.is_empty(), "{what}");
    }
    assert!(changed.len() > 10);
}

//! Families of options: `haul sync` and rsync get the same random pair and equal options, and make equal targets.
//!
//! `HAUL_SYNC_FAMILY_PAIRS` sets the number of pairs for each family, `HAUL_SYNC_SEED` the first seed.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};
use std::{fs, io};

use haul_e2e::{Sandbox, cases, count};

use super::place::{
    Difference, Look, agree, differences, forget_times_of_directories, look, make, other_names, temporary,
};
use super::spec::{Maker, Scope};

const EVERYDAY: u64 = 3;
/// Failures that are printed.
const PRINTED_MAX: usize = 100;
/// Options that keep as much as `rsync -aHAX`.
const HAUL_KEEPS: &[&str] = &["--hard-links", "--xattrs", "--acls", "--specials"];
/// Equal to [`HAUL_KEEPS`]; times count to the nanosecond.
const RSYNC_KEEPS: &[&str] = &["-aHAX", "--modify-window=-1"];
/// The same without hard links: haul refuses them together with `--existing`.
const NO_LINKS: [&[&str]; 2] = [&["--xattrs", "--acls", "--specials"], &["-aAX", "--modify-window=-1"]];
/// Neither owners nor attributes; no FIFOs, since only rsync changes their modes along with those of files.
const MODES: [&[&str]; 2] = [&["--hard-links"], &["-rltHp", "--modify-window=-1"]];
/// Placeholder for the pair's directory in an argument.
const PLACE: &str = "@";

/// Equal options of haul and rsync.
struct Family {
    haul: &'static [&'static str],
    rsync: &'static [&'static str],
    /// Replaces [`HAUL_KEEPS`] and [`RSYNC_KEEPS`].
    keeps: Option<[&'static [&'static str]; 2]>,
    /// Exit statuses of haul and rsync besides 0.
    also: [Option<i32>; 2],
    /// The target is empty before.
    into_empty: bool,
}

const fn family(haul: &'static [&'static str], rsync: &'static [&'static str]) -> Family {
    Family { haul, rsync, keeps: None, also: [None, None], into_empty: false }
}

/// Both have the option under one name.
const fn same(options: &'static [&'static str]) -> Family {
    family(options, options)
}

impl Family {
    const fn keeping(mut self, haul: &'static [&'static str], rsync: &'static [&'static str]) -> Self {
        self.keeps = Some([haul, rsync]);
        self
    }

    const fn into_empty(mut self) -> Self {
        self.into_empty = true;
        self
    }

    const fn or_ends(mut self, haul: i32, rsync: i32) -> Self {
        self.also = [Some(haul), Some(rsync)];
        self
    }
}

const FAMILIES: &[Family] = &[
    same(&[]),
    // haul fails a hard link in the place of a newer file that stays.
    same(&["--update"]).or_ends(1, 0),
    same(&["--existing"]).keeping(NO_LINKS[0], NO_LINKS[1]),
    // haul fails a file in the place of a directory; rsync leaves the directory and exits with 0. With hard links, both
    // link other names of a file if one exists.
    same(&["--ignore-existing"]).keeping(NO_LINKS[0], NO_LINKS[1]).or_ends(1, 0),
    same(&["--modify-window=1"]),
    same(&["--inplace"]),
    same(&["--numeric-ids"]),
    same(&["--max-size=20k"]),
    same(&["--min-size=20k"]),
    same(&["--chown=7:8"]),
    same(&["--usermap=*:7", "--groupmap=*:8"]),
    same(&["--link-dest=@/old"]),
    same(&["--link-dest=@/old"]).into_empty(),
    same(&["--exclude=a*"]),
    same(&["--exclude=/a*", "--exclude=*.b"]),
    same(&["--include=*/", "--include=a*", "--exclude=*"]),
    same(&["--exclude=a*", "--delete"]),
    same(&["--exclude=a*", "--delete", "--delete-excluded"]),
    same(&["--delete", "--max-size=20k"]),
    same(&["--delete", "--existing"]).keeping(NO_LINKS[0], NO_LINKS[1]),
    same(&["--delete", "--ignore-existing"]).keeping(NO_LINKS[0], NO_LINKS[1]).or_ends(1, 0),
    same(&["--delete", "--update"]).or_ends(1, 0),
    same(&["--delete", "--max-delete=1000000"]),
    same(&["--delete", "--max-delete=0"]).or_ends(1, 25),
    family(&["--delete=before"], &["--delete-before"]),
    family(&["--delete=during"], &["--delete-during"]),
    family(&["--delete=after"], &["--delete-after"]),
    family(&["--compare=size"], &["--size-only"]),
    family(&["--compare=digest"], &["--checksum"]),
    family(&["--delta=off"], &["--whole-file"]),
    family(&["--detect-renames"], &["--fuzzy"]),
    family(&["--sparse"], &["--sparse"]),
    family(&["--no-empty-dirs"], &["--prune-empty-dirs"]),
    family(&["--no-empty-dirs", "--exclude=a*"], &["--prune-empty-dirs", "--exclude=a*"]),
    family(&["--backup-dir=@/backup"], &["--backup", "--backup-dir=@/backup"]),
    family(&["--backup-dir=@/backup", "--delete"], &["--backup", "--backup-dir=@/backup", "--delete"]),
    family(&["--mode=750/640"], &["--chmod=D750,F640"]).keeping(MODES[0], MODES[1]),
    family(&["--mode=750/640"], &["--chmod=D750,F640"]).keeping(MODES[0], MODES[1]).into_empty(),
    same(&["--dry-run", "--delete"]),
    same(&["--delete"]).keeping(&[], &["-rlptgo", "--modify-window=-1"]),
    same(&["--delete"]).keeping(&["--hard-links"], &["-rlptgoH", "--modify-window=-1"]),
    same(&["--delete"]).keeping(&["--acls", "--specials"], &["-aA", "--modify-window=-1"]),
    same(&["--delete"]).keeping(&["--xattrs", "--specials"], &["-aX", "--modify-window=-1"]),
];

/// A difference that is known, with its reason.
struct Known {
    /// An option of haul's that brings it about; empty for any.
    option: &'static str,
    /// In backups, and not in the target.
    in_backup: bool,
    what: &'static [&'static str],
    /// The expected agreement with haul's result.
    haul_agrees_with: With,
    reason: &'static str,
}

/// The reference of a result.
#[derive(Clone, Copy, PartialEq, Eq)]
enum With {
    Source,
    /// The target as it was.
    Before,
    /// The target as it was, of a name that was added to a file.
    BeforeUnderAnotherName,
    /// An entry that the source does not have is as it was in the target.
    BeforeIfExtraneous,
    /// An entry that the source does not have shares its file with no other.
    AloneIfExtraneous,
    NothingIfExtraneous,
    /// The entry in the target was not changed.
    Untouched,
    Nothing,
}

const fn known(option: &'static str, what: &'static [&'static str], with: With, reason: &'static str) -> Known {
    Known { option, in_backup: false, what, haul_agrees_with: with, reason }
}

impl Known {
    const fn in_backup(mut self) -> Self {
        self.in_backup = true;
        self
    }
}

const CONTENT: &[&str] = &["what", "mode", "owner", "time", "attributes", "a name of"];

const KNOWN: &[Known] = &[
    known(
        "--mode=750/640",
        &["mode", "attributes"],
        With::Before,
        "haul sets the modes of new entries, rsync those of all entries",
    ),
    known(
        "--mode=750/640",
        &["mode"],
        With::BeforeUnderAnotherName,
        "haul sets no modes where it adds a name to a file, rsync those of all entries",
    ),
    known(
        "--link-dest=@/old",
        &["a name of"],
        With::Nothing,
        "rsync replaces an existing file by a link to the earlier copy; haul links new names",
    ),
    known("--link-dest=@/old", &["attributes"], With::Source, "rsync changes the mask of an access control list"),
    known("--inplace", CONTENT, With::Source, "rsync writes into a file that has another name at the target"),
    known("--update", &["time"], With::Before, "rsync takes a file that is newer by a nanosecond for the same"),
    known(
        "--detect-renames",
        &["a name of"],
        With::Nothing,
        "haul links further names to the file that stays, rsync to the one that it made",
    ),
    known(
        "--backup-dir=@/backup",
        &["mode", "attributes", "owner"],
        With::Before,
        "rsync makes directories of a backup like the source's, or without attributes",
    )
    .in_backup(),
    known(
        "--link-dest=@/old",
        &["mode", "owner", "attributes"],
        With::NothingIfExtraneous,
        "haul changes the metadata of an existing file with all its names; rsync links to the earlier copy",
    ),
    known(
        "--backup-dir=@/backup",
        &["extra", "a name of"],
        With::Nothing,
        "haul backs up each name that it makes anew, rsync none that it links anew",
    )
    .in_backup(),
    known("--backup-dir=@/backup", &["missing"], With::Untouched, "rsync backs up what it does not change").in_backup(),
    known("", &["a name of"], With::AloneIfExtraneous, "rsync leaves names linked that the source does not have"),
    known("", &["a name of"], With::Source, "rsync leaves a file linked to names that the source does not link"),
    known(
        "",
        &["time", "owner"],
        With::BeforeIfExtraneous,
        "rsync changes a link through another name of it; haul makes that name anew",
    ),
];

/// Trees of one pair.
struct Trees {
    source: Look,
    before: Look,
    of_haul: Look,
    /// haul's resulting target, also if backups are compared.
    target: Look,
}

impl Known {
    fn covers(&self, family: &Family, in_backup: bool, difference: &Difference, trees: &Trees) -> bool {
        let is_asked_for = self.option.is_empty() || family.haul.contains(&self.option);
        let is_extraneous = || !trees.source.contains_key(&difference.name);
        is_asked_for
            && self.in_backup == in_backup
            && self.what.contains(&difference.what)
            && match self.haul_agrees_with {
                With::Source => agree(difference, &trees.source, &trees.of_haul),
                With::Before => agree(difference, &trees.before, &trees.of_haul),
                With::BeforeUnderAnotherName => other_names(&trees.of_haul, &difference.name).any(|name| {
                    trees.before.contains_key(name) && agree(&difference.at(name), &trees.before, &trees.of_haul)
                }),
                With::BeforeIfExtraneous => is_extraneous() && agree(difference, &trees.before, &trees.of_haul),
                With::AloneIfExtraneous => {
                    is_extraneous() && other_names(&trees.of_haul, &difference.name).next().is_none()
                }
                With::NothingIfExtraneous => is_extraneous(),
                With::Untouched => trees.before.get(&difference.name) == trees.target.get(&difference.name),
                With::Nothing => true,
            }
    }
}

/// Result of one pair.
enum Verdict {
    Same,
    Known,
    RsyncFails,
}

#[test]
fn options_have_the_same_effect_as_in_rsync_on_any_tree() {
    let has_rsync = Command::new("rsync").arg("--version").stdout(Stdio::null()).status().is_ok_and(|s| s.success());
    if !has_rsync {
        println!("SKIPPED: rsync is not installed");
        return;
    }
    let (pairs, from) = (cases("HAUL_SYNC_FAMILY_PAIRS", EVERYDAY), cases("HAUL_SYNC_SEED", 0));
    let sandbox = Sandbox::new();
    // Only root gives entries away.
    let is_root = rustix::process::geteuid().is_root();
    let is_possible = |family: &&Family| {
        is_root || !family.haul.iter().any(|option| option.starts_with("--chown") || option.starts_with("--usermap"))
    };
    let families = FAMILIES.iter().filter(is_possible);
    let all: Vec<_> = families.flat_map(|family| (from..from + pairs).map(move |seed| (family, seed))).collect();
    let (next, known, fails) = (AtomicUsize::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let failed = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                while let Some((family, seed)) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                    match pair(&sandbox, family, *seed) {
                        Ok(Verdict::Same) => {}
                        Ok(Verdict::Known) => drop(known.fetch_add(1, Ordering::Relaxed)),
                        Ok(Verdict::RsyncFails) => drop(fails.fetch_add(1, Ordering::Relaxed)),
                        Err(why) => failed.lock().expect("no thread panics with it").push((family.haul, *seed, why)),
                    }
                }
            });
        }
    });
    let (known, fails) = (known.into_inner(), fails.into_inner());
    println!("{} pairs: {known} with known differences, rsync failed in {fails}", all.len());
    let mut failed = failed.into_inner().expect("no thread panics with it");
    failed.sort();
    for (options, seed, why) in failed.iter().take(PRINTED_MAX) {
        println!("{options:?}, seed {seed} (HAUL_SYNC_SEED={seed} HAUL_SYNC_FAMILY_PAIRS=1):\n{why}\n");
    }
    assert!(failed.is_empty(), "{} of {} pairs failed", failed.len(), all.len());
    // A test with hardly any comparison is worthless.
    assert!(4 * (known + fails) < all.len() as u64, "too few pairs were the same");
    count("sync-family-pairs", all.len() as u64);
}

/// Runs both on equal targets and compares the results. An error describes the difference.
fn pair(sandbox: &Sandbox, family: &Family, seed: u64) -> Result<Verdict, String> {
    let place = temporary();
    let scope = if rustix::process::geteuid().is_root() { Scope::Root } else { Scope::Own };
    let mut maker = Maker::new(seed, scope);
    let tree = maker.tree();
    let old = maker.target(&tree);
    let source = place.path().join("s");
    let words = |error| format!("the pair cannot be made: {error}");
    fs::create_dir(&source).and_then(|()| make(&source, &tree)).map_err(words)?;
    let [of_haul, of_rsync] = ["haul", "rsync"].map(|name| place.path().join(name));
    for end in [&of_haul, &of_rsync] {
        for (name, tree) in [("t", &old), ("old", &tree)] {
            let root = end.join(name);
            let is_left_empty = name == "t" && family.into_empty;
            fs::create_dir_all(&root).map_err(words)?;
            if !is_left_empty {
                make(&root, tree).map_err(words)?;
            }
        }
    }
    let before = look(&of_haul.join("t")).map_err(words)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_err(|error| error.to_string())?;
    let begun = i64::try_from(now.as_secs()).map_err(|error| error.to_string())?;
    let [haul_keeps, rsync_keeps] = family.keeps.unwrap_or([HAUL_KEEPS, RSYNC_KEEPS]);
    let haul = sandbox.haul(["sync"]).args(haul_keeps).args(super::also_of_empty(family.haul));
    let haul = haul.args(arguments(family.haul, &source, &of_haul)).run();
    let is_expected = |status: Option<i32>, also: Option<i32>| status == Some(0) || status.is_some() && status == also;
    let mut rsync = Command::new("timeout");
    rsync.args(["60", "rsync"]).args(rsync_keeps).args(arguments(family.rsync, &source, &of_rsync));
    let rsync = rsync.output().map_err(|error| error.to_string())?;
    // Where an entry cannot be made, both say so.
    match (is_expected(haul.status, family.also[0]), is_expected(rsync.status.code(), family.also[1])) {
        (true, true) => {}
        (true, false) => return Ok(Verdict::RsyncFails),
        (false, false) if haul.status == Some(1) => return Ok(Verdict::RsyncFails),
        (false, _) => return Err(format!("haul ended with {:?}:\n{}", haul.status, haul.stderr)),
    }
    compare(family, seed, begun, [&source, &of_rsync, &of_haul], before).map_err(|error| error.to_string())?
}

/// Holds the targets, and the backups where there are any, against each other.
fn compare(
    family: &Family,
    seed: u64,
    begun: i64,
    [source, of_rsync, of_haul]: [&Path; 3],
    before: Look,
) -> io::Result<Result<Verdict, String>> {
    let (source, mut others, mut is_same) = (look(source)?, Vec::new(), true);
    for (name, in_backup) in [("t", false), ("backup", true)] {
        let of = |end: &Path| -> io::Result<Look> {
            let root: PathBuf = end.join(name);
            let mut tree = if root.exists() { look(&root)? } else { Look::new() };
            // Directories changed last by the run itself have a time of the run.
            forget_times_of_directories(&mut tree, begun);
            if in_backup {
                tree.remove(&b""[..]);
            }
            Ok(tree)
        };
        let trees = Trees {
            source: source.clone(),
            before: before.clone(),
            of_haul: of(of_haul)?,
            target: look(&of_haul.join("t"))?,
        };
        for difference in differences(&of(of_rsync)?, &trees.of_haul) {
            is_same = false;
            match KNOWN.iter().find(|known| known.covers(family, in_backup, &difference, &trees)) {
                Some(known) => println!("{:?}, seed {seed}: {}", family.haul, known.reason),
                None => others.push(format!("{}{difference}", if in_backup { "backup " } else { "" })),
            }
        }
    }
    Ok(match (is_same, others.is_empty()) {
        (true, _) => Ok(Verdict::Same),
        (false, true) => Ok(Verdict::Known),
        (false, false) => Err(format!("rsync's result (first) and haul's (second) differ:\n{}", others.join("\n"))),
    })
}

fn arguments(options: &[&str], source: &Path, end: &Path) -> Vec<String> {
    let options = options.iter().map(|option| option.replace(PLACE, &end.display().to_string()));
    options.chain([source, &end.join("t")].map(|path| format!("{}/", path.display()))).collect()
}

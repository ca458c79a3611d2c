//! The same histories of edits for Unison and for haul: both have to make the same trees of them.
//!
//! Where they differ, the difference has to be one of [`Reason`]s, each a decision of `docs/internals/twoway.md`.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use haul_e2e::{RUN_LIMIT, Rng, Sandbox, cases, count, set_mtime};
use haul_lab::{find_program, run_with_timeout};

/// Rounds of edits in a history.
const ROUNDS: u64 = 4;

/// What a path is. Times of directories and links are not synchronised by Unison.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Node {
    Directory { mode: u32 },
    File { content: String, mode: u32, modified: i64 },
    Link(Vec<u8>),
}

impl Node {
    fn is_directory(&self) -> bool {
        matches!(self, Self::Directory { .. })
    }
}

/// A tree: nodes by path.
type Tree = BTreeMap<String, Node>;

/// A documented difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Reason {
    /// Both sides changed a file or a directory, but no field of it both, or of times alone: haul merges, and takes the
    /// newer time. Of Unison, contents and properties are a conflict.
    MergedFields,
    /// One side removed a file, the other changed its mode or time: haul calls it a conflict, as of every other update.
    /// Unison removes it.
    RemovedAndTouched,
    /// One side removed a directory, the other only removed something below it: haul removes it all, since there is
    /// nothing new in it. Unison calls it a conflict.
    RemovedBelowRemoved,
}

fn read_tree(root: &Path) -> Tree {
    let mut tree = Tree::new();
    read_below(root, "", &mut tree);
    tree
}

fn read_below(directory: &Path, prefix: &str, tree: &mut Tree) {
    for entry in fs::read_dir(directory).unwrap().flatten() {
        let path = format!("{prefix}{}", entry.file_name().to_str().unwrap());
        let meta = entry.metadata().unwrap();
        let mode = meta.mode() & 0o7777;
        let node = if meta.is_dir() {
            read_below(&entry.path(), &format!("{path}/"), tree);
            Node::Directory { mode }
        } else if meta.is_symlink() {
            Node::Link(fs::read_link(entry.path()).unwrap().as_os_str().as_bytes().to_vec())
        } else {
            Node::File { content: fs::read_to_string(entry.path()).unwrap(), mode, modified: meta.mtime() }
        };
        tree.insert(path, node);
    }
}

/// An edit of a tree.
#[derive(Debug, Clone)]
enum Edit {
    Write(String, String, i64),
    Touch(String, i64),
    Link(String, String),
    MakeDirectory(String),
    Remove(String),
    Mode(String, u32),
    Rename(String, String),
}

impl Edit {
    /// An edit of this tree; few names, so that both sides meet.
    fn random(rng: &mut Rng, tree: &Tree, clock: &mut i64) -> Self {
        *clock += 10;
        let paths: Vec<&String> = tree.keys().collect();
        let known = |rng: &mut Rng| paths.get(rng.index(paths.len().max(1))).map(|path| (*path).clone());
        let directories: Vec<&String> =
            tree.iter().filter(|(_, node)| node.is_directory()).map(|(path, _)| path).collect();
        let new = |rng: &mut Rng| {
            let name = format!("{}{}", rng.pick(&["d", "f", "l"]), rng.below(4));
            match directories.get(rng.index(directories.len() + 1)) {
                Some(directory) if directory.matches('/').count() < 3 => format!("{directory}/{name}"),
                _ => name,
            }
        };
        let len = rng.index(40);
        let content = format!("{clock}{}", ".".repeat(len));
        match (rng.below(20), known(rng)) {
            (0..=3, Some(path)) => Self::Remove(path),
            (4..=7, Some(path)) => Self::Write(path, content, *clock),
            (8..=9, Some(path)) => Self::Mode(path, rng.pick(&[0o644, 0o600, 0o755, 0o700, 0o750])),
            (10, Some(path)) => Self::Touch(path, *clock),
            (11..=12, Some(path)) => Self::Rename(path, new(rng)),
            (13..=14, _) => Self::MakeDirectory(new(rng)),
            (15, _) => Self::Link(new(rng), format!("to-{}", rng.below(3))),
            _ => Self::Write(new(rng), content, *clock),
        }
    }

    /// Edits a tree. What cannot be done there is left out.
    fn apply(&self, root: &Path) {
        let at = |path: &str| root.join(path);
        let is_directory = |path: &Path| path.symlink_metadata().is_ok_and(|meta| meta.is_dir());
        match self {
            Self::Write(path, content, modified) => {
                let (path, is_new) = (at(path), !at(path).exists());
                if !is_directory(&path) && !path.is_symlink() && fs::write(&path, content).is_ok() {
                    if is_new {
                        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
                    }
                    set_mtime(&path, *modified, 0);
                }
            }
            Self::Touch(path, modified) => {
                let path = at(path);
                if path.symlink_metadata().is_ok_and(|meta| meta.is_file()) {
                    set_mtime(&path, *modified, 0);
                }
            }
            Self::Link(path, target) => drop(symlink(target, at(path))),
            Self::MakeDirectory(path) => drop(fs::create_dir(at(path))),
            Self::Remove(path) => match is_directory(&at(path)) {
                true => drop(fs::remove_dir_all(at(path))),
                false => drop(fs::remove_file(at(path))),
            },
            Self::Mode(path, mode) => {
                let path = at(path);
                let is_link = path.is_symlink();
                // Without the owner's rights to a directory, nothing could be edited below it.
                let mode = if is_directory(&path) { mode | 0o700 } else { *mode };
                if path.exists() && !is_link {
                    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
                }
            }
            Self::Rename(from, to) => {
                if at(to).symlink_metadata().is_err() && !to.starts_with(&format!("{from}/")) {
                    drop(fs::rename(at(from), at(to)));
                }
            }
        }
    }
}

/// A tool with its own pair of replicas.
struct Tool<'s> {
    sandbox: &'s Sandbox,
    place: PathBuf,
}

impl<'s> Tool<'s> {
    fn new(sandbox: &'s Sandbox, name: &str) -> Self {
        let place = sandbox.dir(name);
        ["a", "b", "state"].iter().for_each(|directory| drop(sandbox.dir(place.join(directory))));
        Self { sandbox, place }
    }

    fn root(&self, side: usize) -> PathBuf {
        self.place.join(["a", "b"][side])
    }

    fn trees(&self) -> [Tree; 2] {
        [0, 1].map(|side| read_tree(&self.root(side)))
    }

    fn unison(&self) -> String {
        let mut command = Command::new("unison");
        command.args([self.root(0), self.root(1)]).args(["-batch", "-ui", "text", "-auto", "-times", "-perms", "-1"]);
        // Without a fast check it reads everything; a whole replica may go.
        command.args(["-fastcheck", "no", "-confirmbigdel=false", "-log=false", "-owner", "-group", "-numericids"]);
        command.env("UNISON", self.place.join("state")).env("HOME", self.sandbox.home());
        let finished = run_with_timeout(command, RUN_LIMIT).unwrap();
        // 1: conflicts were left.
        assert!(matches!(finished.code(), Some(0 | 1)), "{}\n{}", finished.stdout_text(), finished.stderr_text());
        finished.stdout_text() + &finished.stderr_text()
    }

    fn haul(&self) -> String {
        let haul = self.sandbox.haul(["twoway", "--batch", "--max-delete=100000"]).args([self.root(0), self.root(1)]);
        let run = haul.env("XDG_STATE_HOME", self.place.join("state")).run();
        assert!(matches!(run.status, Some(0 | 6)), "{}", run.account());
        run.does_not_say("changed since").account()
    }
}

/// The trees of a round: the base, both sides before the run, and what each tool made of them.
struct Round<'t> {
    base: &'t Tree,
    before: &'t [Tree; 2],
    unison: &'t [Tree; 2],
    haul: &'t [Tree; 2],
}

impl Round<'_> {
    fn differing(&self) -> Vec<String> {
        let [a, b] = self.unison;
        let mut paths: Vec<_> = a.keys().chain(b.keys()).chain(self.haul.iter().flat_map(|tree| tree.keys())).collect();
        paths.sort();
        paths.dedup();
        let differs = |path: &&&String| {
            let at = |trees: &[Tree; 2]| trees.each_ref().map(|tree| tree.get(**path).cloned());
            at(self.unison) != at(self.haul)
        };
        paths.iter().filter(differs).map(|path| (*path).clone()).collect()
    }

    /// Why the tools differ at a path, as that path or a directory above it shows.
    fn reason(&self, path: &str) -> Option<Reason> {
        let above = path.match_indices('/').map(|(at, _)| &path[..at]);
        above.chain([path]).find_map(|path| {
            let is_merged = self.is_merged(path).then_some(Reason::MergedFields);
            let is_touched = self.is_removed_and_touched(path).then_some(Reason::RemovedAndTouched);
            is_merged.or(is_touched).or(self.is_removed_below(path).then_some(Reason::RemovedBelowRemoved))
        })
    }

    fn at<'t>(&self, trees: &'t [Tree; 2], path: &str) -> [Option<&'t Node>; 2] {
        trees.each_ref().map(|tree| tree.get(path))
    }

    fn is_merged(&self, path: &str) -> bool {
        let [Some(a), Some(b)] = self.at(self.before, path) else { return false };
        let Some(merged) = merge(self.base.get(path), a, b) else { return false };
        self.at(self.haul, path) == [Some(&merged); 2] && self.at(self.unison, path) == [Some(a), Some(b)]
    }

    fn is_removed_and_touched(&self, path: &str) -> bool {
        let content = |node: Option<&Node>| match node {
            Some(Node::File { content, .. }) => Some(content.clone()),
            _ => None,
        };
        let old = content(self.base.get(path));
        let [a, b] = self.at(self.before, path);
        let is_such = |removed: Option<&Node>, other| removed.is_none() && old.is_some() && content(other) == old;
        (is_such(a, b) || is_such(b, a))
            && self.at(self.haul, path) == [a, b]
            && self.at(self.unison, path) == [None; 2]
    }

    /// Whether one side removed or replaced the directory of the base, and the other has nothing new in it.
    fn is_removed_below(&self, path: &str) -> bool {
        let is_directory = |tree: &Tree| tree.get(path).is_some_and(Node::is_directory);
        let below = format!("{path}/");
        let is_old = |tree: &Tree| {
            let mut inside = tree.iter().filter(|(other, _)| *other == path || other.starts_with(&below));
            inside.all(|(other, node)| self.base.get(other) == Some(node))
        };
        let [a, b] = self.before;
        let goes = |from: &Tree, other: &Tree| {
            is_directory(self.base) && !is_directory(from) && is_directory(other) && is_old(other)
        };
        let new = if goes(a, b) { a } else { b };
        (goes(a, b) || goes(b, a)) && self.at(self.haul, path) == [new.get(path); 2]
    }
}

/// What haul makes of two versions with changes of different fields, or of times; `None` for a conflict.
fn merge(base: Option<&Node>, a: &Node, b: &Node) -> Option<Node> {
    match (a, b) {
        (Node::Directory { mode: a }, Node::Directory { mode: b }) => {
            let base = base.and_then(|base| if let Node::Directory { mode } = base { Some(mode) } else { None });
            Some(Node::Directory { mode: *pick(base, a, b)? })
        }
        (
            Node::File { content: a, mode: mode_a, modified: time_a },
            Node::File { content: b, mode: mode_b, modified: time_b },
        ) => {
            let known = |base: &'_ Node| match base {
                Node::File { content, mode, modified } => Some((content.clone(), *mode, *modified)),
                _ => None,
            };
            let base = base.and_then(known);
            let content = pick(base.as_ref().map(|base| &base.0), a, b)?;
            let mode = pick(base.as_ref().map(|base| &base.1), mode_a, mode_b)?;
            let newer = || time_a.max(time_b);
            // New contents bring their own time.
            let modified = match a == b {
                true => pick(base.as_ref().map(|base| &base.2), time_a, time_b).unwrap_or_else(newer),
                false if content == a => time_a,
                false => time_b,
            };
            Some(Node::File { content: content.clone(), mode: *mode, modified: *modified })
        }
        _ => None,
    }
}

fn pick<'n, T: PartialEq>(base: Option<&T>, a: &'n T, b: &'n T) -> Option<&'n T> {
    if a == b || base == Some(b) { Some(a) } else { (base == Some(a)).then_some(b) }
}

/// What became of a history.
#[derive(Debug, Default)]
struct Tally {
    same: u64,
    reasons: BTreeMap<Reason, u64>,
    failures: Vec<String>,
}

fn history(seed: u64, tally: &mut Tally) {
    let mut rng = Rng::new(seed);
    let sandbox = Sandbox::new();
    let tools = ["unison", "haul"].map(|name| Tool::new(&sandbox, name));
    let (mut clock, mut base) = (1_600_000_000, Tree::new());
    let mut log = Vec::new();
    for round in 0..ROUNDS {
        let trees = tools[0].trees();
        let number = if round == 0 { 12 } else { rng.between(1, 6) };
        for _ in 0..number {
            let side = rng.index(2);
            let edit = Edit::random(&mut rng, &trees[side], &mut clock);
            // Some are made at both sides.
            let sides = if rng.chance(150) { vec![0, 1] } else { vec![side] };
            for side in sides {
                tools.iter().for_each(|tool| edit.apply(&tool.root(side)));
                log.push(format!("round {round}, side {side}: {edit:?}"));
            }
        }
        let before = tools[0].trees();
        assert_eq!(before, tools[1].trees(), "seed {seed}");
        let said = [tools[0].unison(), tools[1].haul()];
        let (unison, haul) = (tools[0].trees(), tools[1].trees());
        let compared = Round { base: &base, before: &before, unison: &unison, haul: &haul };
        let differing = compared.differing();
        if differing.is_empty() {
            mark(&mut base, &haul);
            continue;
        }
        let unknown: Vec<_> = differing.iter().filter(|path| compared.reason(path).is_none()).collect();
        if let Some(path) = unknown.first() {
            let at = |trees: &[Tree; 2]| format!("{:?}", trees.each_ref().map(|tree| tree.get(*path)));
            let states = [base.get(*path)].map(|node| format!("{node:?}"));
            let text = format!(
                "seed {seed}, round {round}: {unknown:?}\nfirst: base {states:?}\n before {}\n unison {}\n haul {}\n{}\n{}\n{}",
                at(&before),
                at(&unison),
                at(&haul),
                log.join("\n"),
                said[0],
                said[1]
            );
            tally.failures.push(text);
        } else {
            let mut reasons: Vec<_> = differing.iter().filter_map(|path| compared.reason(path)).collect();
            reasons.sort();
            reasons.dedup();
            reasons.into_iter().for_each(|reason| *tally.reasons.entry(reason).or_default() += 1);
        }
        // The trees differ from here on.
        return;
    }
    tally.same += 1;
}

/// Paths on which both sides agree are the next base there.
fn mark(base: &mut Tree, [a, b]: &[Tree; 2]) {
    let paths: Vec<String> = base.keys().chain(a.keys()).chain(b.keys()).cloned().collect();
    for path in paths {
        match (a.get(&path), b.get(&path)) {
            (Some(one), Some(other)) if one == other => drop(base.insert(path, one.clone())),
            (None, None) => drop(base.remove(&path)),
            _ => {}
        }
    }
}

#[test]
fn histories_of_edits_end_as_with_unison_or_differ_for_a_known_reason() {
    if find_program("unison").is_none() {
        println!("SKIPPED: a comparison with Unison needs unison");
        return;
    }
    let (number, first) = (cases("HAUL_TWOWAY_ORACLE", 30), cases("HAUL_TWOWAY_SEED", 1));
    let mut tally = Tally::default();
    for seed in first..first + number {
        history(seed, &mut tally);
    }
    println!("{number} histories: {} the same, different: {:?}", tally.same, tally.reasons);
    tally.failures.iter().for_each(|failure| println!("{}", failure.lines().take(5).collect::<Vec<_>>().join("\n")));
    let shown = tally.failures.first().cloned().unwrap_or_default();
    assert!(tally.failures.is_empty(), "{} of {number} differ without a reason:\n{shown}", tally.failures.len());
    count("twoway-oracle", number);
}

#[test]
fn an_unexplained_difference_is_noticed() {
    let file = |content: &str, mode| Node::File { content: content.to_owned(), mode, modified: 1 };
    let tree = |content: &str, mode| Tree::from([("f".to_owned(), file(content, mode))]);
    let reason = |base: &Tree, before: [Tree; 2], haul: [Tree; 2]| {
        let round = Round { base, before: &before, unison: &before, haul: &haul };
        (round.differing(), round.reason("f"))
    };
    let base = tree("old", 0o644);
    let (of_a, of_b) = (tree("new", 0o644), tree("old", 0o600));
    let merged = tree("new", 0o600);
    let differing = vec!["f".to_owned()];
    let known = reason(&base, [of_a.clone(), of_b.clone()], [merged.clone(), merged]);
    assert_eq!(known, (differing.clone(), Some(Reason::MergedFields)));
    // One side's version is lost.
    assert_eq!(reason(&base, [of_a.clone(), of_b.clone()], [of_b.clone(), of_b]), (differing.clone(), None));
    // A conflict is overwritten.
    let other = tree("other", 0o644);
    assert_eq!(reason(&base, [of_a.clone(), other], [of_a.clone(), of_a]), (differing, None));
}

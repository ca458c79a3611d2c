//! `haul twoway`: what goes to the other side, what stays, and what is refused (`docs/internals/twoway.md`).

mod attributes;
mod conflicts;
mod kills;
mod links;
mod oracle;
mod plans;
mod replicas;
mod safety;
mod ssh;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::SystemTime;

use haul_e2e::{Attributes, Haul, ProgramRun, Sandbox, compare_with, contents, listing, mode, set_mtime, user};
use serde_json::Value;

/// What a run without an archive says.
const UNION: &str = "nothing is deleted in this run";

/// Two replicas, `a` and `b`, with a state directory of their own.
struct Pair {
    sandbox: Sandbox,
    clock: AtomicI64,
}

impl Pair {
    fn new() -> Self {
        let sandbox = Sandbox::new();
        sandbox.dir("a");
        sandbox.dir("b");
        Self { sandbox, clock: AtomicI64::new(1_600_000_000) }
    }

    /// A pair that was synchronised with these files in it; the contents are the paths.
    fn with(paths: &[&str]) -> Self {
        let pair = Self::new();
        paths.iter().for_each(|path| drop(pair.put(format!("a/{path}"), path)));
        pair.run(&[]).succeeds();
        pair
    }

    fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        self.sandbox.path(path)
    }

    /// Writes a file. Its time is long ago, and after that of the file before.
    fn put(&self, path: impl AsRef<Path>, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.sandbox.file(path, content);
        set_mtime(&path, self.clock.fetch_add(10, Ordering::Relaxed), 0);
        path
    }

    /// Writes a file just now. Its time is after that of the file before.
    fn put_now(&self, path: &str, content: &str) {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
        let order = self.clock.fetch_add(10, Ordering::Relaxed) % 1_000_000_000;
        set_mtime(&self.sandbox.file(path, content), i64::try_from(now).unwrap(), u32::try_from(order).unwrap());
    }

    fn remove(&self, path: &str) {
        fs::remove_file(self.path(path)).unwrap();
    }

    fn set_mode(&self, path: &str, mode: u32) {
        fs::set_permissions(self.path(path), fs::Permissions::from_mode(mode)).unwrap();
    }

    /// The command with these arguments.
    fn command<'a>(&'a self, arguments: &[&str]) -> Haul<'a> {
        self.sandbox.haul(["twoway"]).args(arguments).env("XDG_STATE_HOME", self.path("state"))
    }

    /// A run of the pair with these options, which asks nothing.
    fn run(&self, options: &[&str]) -> ProgramRun {
        self.command(options).args(["--batch", "a", "b"]).run()
    }

    /// A pair of a user without rights, synchronised with these files in it.
    fn of_user(paths: &[&str]) -> Self {
        let pair = Self::new();
        paths.iter().for_each(|path| drop(pair.put(format!("a/{path}"), path)));
        pair.sandbox.dir("state");
        let mut chown = Command::new("chown");
        chown.args(["-R", &user().to_string(), "a", "b", "state"]).current_dir(pair.path(""));
        assert!(chown.status().unwrap().success());
        pair.run_of_user(&[]).succeeds();
        pair
    }

    fn run_of_user(&self, options: &[&str]) -> ProgramRun {
        let command = self.sandbox.haul_of_user(["twoway", "--batch"]).args(options).args(["a", "b"]);
        command.env("XDG_STATE_HOME", self.path("state")).run()
    }

    /// The lines of a run with `--json`.
    fn json(&self, options: &[&str]) -> Vec<Value> {
        self.run(&[options, &["--json"]].concat()).events()
    }

    fn text(&self, path: &str) -> String {
        String::from_utf8_lossy(&contents(&self.path(path))).into_owned()
    }

    /// The contents at both sides.
    fn both(&self, path: &str) -> [String; 2] {
        ["a", "b"].map(|side| self.text(&format!("{side}/{path}")))
    }

    /// What is in both roots.
    fn names(&self) -> [Vec<String>; 2] {
        ["a", "b"].map(|side| listing(&self.path(side)))
    }

    #[track_caller]
    fn is_equal(&self) {
        let attributes = Attributes { modes: true, owners: true, ..Attributes::default() };
        compare_with(&self.path("a"), &self.path("b"), attributes).unwrap();
    }

    /// Another run must find nothing to do.
    #[track_caller]
    fn is_settled(&self) {
        let lines = self.json(&[]);
        let planned = event(&lines, "planned");
        assert_eq!((&planned["actions"], &planned["conflicts"]), (&0.into(), &0.into()), "{lines:?}");
    }
}

/// The first line of this kind.
#[track_caller]
fn event<'l>(lines: &'l [Value], name: &str) -> &'l Value {
    lines.iter().find(|line| line["event"] == name).unwrap_or_else(|| panic!("no {name} in {lines:?}"))
}

/// The actions of a run: `copy b f`.
fn actions(lines: &[Value]) -> Vec<String> {
    let actions = lines.iter().filter(|line| line["event"] == "action");
    let word = |line: &Value, key: &str| line[key].as_str().unwrap_or_default().to_owned();
    actions.map(|line| ["action", "side", "path"].map(|key| word(line, key)).join(" ")).collect()
}

#[test]
fn every_kind_of_change_goes_to_the_other_side() {
    let pair = Pair::with(&["changed", "deleted", "d/in", "d/other", "e/f", "theirs", "mode", "becomes-dir", "dir/f"]);
    pair.is_equal();
    pair.put("a/changed", "longer than before");
    pair.remove("a/deleted");
    pair.put("a/new/deep/file", "new");
    symlink("changed", pair.path("a/link")).unwrap();
    pair.set_mode("a/mode", 0o600);
    pair.set_mode("a/e", 0o750);
    pair.remove("a/becomes-dir");
    pair.put("a/becomes-dir/f", "in a directory");
    pair.put("b/theirs", "of B");
    pair.put("b/d/new", "of B, too");
    pair.remove("b/d/other");
    fs::remove_dir_all(pair.path("b/dir")).unwrap();
    pair.put("b/dir", "a file");
    pair.run(&[]).succeeds();
    pair.is_equal();
    assert_eq!(pair.both("theirs"), ["of B", "of B"]);
    assert_eq!((pair.text("b/new/deep/file"), pair.text("b/becomes-dir/f")), ("new".into(), "in a directory".into()));
    assert_eq!((pair.text("a/dir"), listing(&pair.path("a/d"))), ("a file".into(), vec!["in".into(), "new".into()]));
    assert!(!pair.path("b/deleted").exists());
    assert_eq!((mode(&pair.path("b/mode")), mode(&pair.path("b/e"))), (0o600, 0o750));
    pair.is_settled();
}

#[test]
fn a_first_run_unites_both_sides_and_says_so() {
    let pair = Pair::new();
    pair.put("a/d/of-a", "a");
    pair.put("b/d/of-b", "b");
    pair.put("a/differs", "a");
    pair.put("b/differs", "bb");
    for side in ["a", "b"] {
        let same = pair.put(format!("{side}/same"), "same");
        set_mtime(&same, 1_500_000_000, 0);
    }
    pair.run(&[]).ends(6).says(["no earlier run", UNION]);
    assert_eq!((pair.text("b/d/of-a"), pair.text("a/d/of-b")), ("a".into(), "b".into()));
    assert_eq!(pair.both("differs"), ["a", "bb"]);
    pair.run(&[]).ends(6).does_not_say("no earlier run");
}

/// Both ends keep their stamps in one state directory here.
#[test]
fn unchanged_files_are_not_read_again() {
    let pair = Pair::with(&["one", "d/two"]);
    let table = pair.path("calls");
    let reads = || {
        pair.command(&["--batch", "a", "b"]).counting_calls(&table).run().succeeds();
        let text = pair.text("calls");
        let line = text.lines().find(|line| line.ends_with(" openat")).unwrap_or_default();
        line.split_whitespace().next().and_then(|number| number.parse::<u64>().ok()).unwrap()
    };
    reads();
    let few = reads();
    for number in 0..200 {
        pair.put(format!("a/many/{number}"), "content");
    }
    pair.run(&[]).succeeds();
    reads();
    let many = reads();
    assert!(many < few + 50, "{few} calls of openat, and {many} with 200 more files");
}

#[test]
fn moved_files_are_renamed_at_the_other_side() {
    let pair = Pair::with(&["old", "d/one", "d/two", "stays"]);
    let inode = |path: &str| fs::metadata(pair.path(path)).unwrap().ino();
    let before = [inode("b/old"), inode("b/d/one")];
    fs::rename(pair.path("a/old"), pair.path("a/new")).unwrap();
    fs::rename(pair.path("a/d"), pair.path("a/e")).unwrap();
    let lines = pair.json(&[]);
    let moved: Vec<_> = actions(&lines).into_iter().filter(|action| action.starts_with("move")).collect();
    assert_eq!(moved, ["move b e/one", "move b e/two", "move b new"]);
    assert_eq!([inode("b/new"), inode("b/e/one")], before);
    pair.is_equal();
    pair.is_settled();
}

#[test]
fn contents_of_one_side_and_the_mode_of_the_other_are_merged() {
    for is_recent in [false, true] {
        let pair = Pair::with(&["f"]);
        pair.set_mode("a/f", 0o600);
        if is_recent {
            pair.put_now("b/f", "changed at B");
        } else {
            pair.put("b/f", "changed at B");
        }
        pair.run(&[]).succeeds().does_not_say("changed since the scan");
        pair.is_equal();
        assert_eq!((pair.text("a/f"), mode(&pair.path("b/f"))), ("changed at B".into(), 0o600), "recent: {is_recent}");
        pair.is_settled();
    }
}

#[test]
fn equal_updates_of_both_sides_only_mark_the_archive() {
    let pair = Pair::with(&["f", "gone", "stays"]);
    for side in ["a", "b"] {
        let file = pair.put(format!("{side}/f"), "the same at both");
        set_mtime(&file, 1_650_000_000, 0);
        pair.remove(&format!("{side}/gone"));
    }
    let lines = pair.json(&[]);
    assert!(actions(&lines).is_empty(), "{lines:?}");
    // It is agreed from here on: what A removes now goes.
    pair.remove("a/f");
    pair.run(&[]).succeeds();
    assert_eq!(pair.names(), [["stays"]; 2]);
}

#[test]
fn excluded_paths_are_invisible_at_both_sides() {
    let pair = Pair::with(&["f", "x.tmp", "cache/f"]);
    pair.put("a/x.tmp", "changed at A");
    pair.put("b/y.tmp", "of B");
    pair.remove("b/cache/f");
    pair.put("a/f", "changed");
    let options = ["--exclude", "*.tmp", "--exclude", "cache/"];
    let lines = pair.json(&options);
    assert_eq!(actions(&lines), ["copy b f"]);
    assert_eq!(pair.both("x.tmp"), ["changed at A", "x.tmp"]);
    assert!(pair.path("a/cache/f").exists() && !pair.path("a/y.tmp").exists());
    // Without the option they are found as they are.
    let all = actions(&pair.json(&[]));
    assert_eq!(all, ["copy b x.tmp", "copy a y.tmp", "delete a cache/f"]);
}

#[test]
fn names_of_any_bytes_deep_trees_and_holes_are_synchronised() {
    let pair = Pair::new();
    let names: [&[u8]; 4] = [b"not \xff utf-8", b"new\nline", b"-option", b" space "];
    for name in names {
        pair.put(Path::new("a").join(OsStr::from_bytes(name)), name);
    }
    haul_e2e::chain(&pair.path("a"), 400, b"bottom");
    let sparse = pair.sandbox.file("b/sparse", "");
    fs::File::options().write(true).open(&sparse).unwrap().set_len(64 << 20).unwrap();
    pair.run(&[]).succeeds();
    assert_eq!(haul_e2e::chain_file(&pair.path("b")), (400, b"bottom".to_vec()));
    for name in names {
        assert_eq!(contents(&pair.path("b").join(OsStr::from_bytes(name))), name);
    }
    let copy = fs::metadata(pair.path("a/sparse")).unwrap();
    assert!(copy.len() == 64 << 20 && copy.blocks() < 1000, "{} blocks", copy.blocks());
    fs::remove_file(pair.path("b").join(OsStr::from_bytes(names[1]))).unwrap();
    let lines = pair.json(&[]);
    assert_eq!(actions(&lines).len(), 1, "{lines:?}");
    assert!(!pair.path("a").join(OsStr::from_bytes(names[1])).exists());
}

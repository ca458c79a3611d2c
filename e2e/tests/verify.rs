//! `haul verify`: reports equal trees as identical and names each difference, and only those; neither end changes.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use haul_e2e::{Haul, ProgramRun, Remote, Sandbox, TestTree, chain, fifo, is_root_or_skip, set_mtime, stamp};
use rustix::fs::{CWD, FileType, Mode, XattrFlags, lsetxattr, makedev};

/// A frame, by default.
const FRAME: u64 = 512 << 10;
/// Small files in the large tree, beside the others.
const MANY: u32 = 2000;
/// Directories in one another, more than a path has room for.
const DEEP: usize = 2100;
/// The damaged frame of `large`.
const DAMAGED: u64 = 5;

/// The same tree twice: `source`, and the result of its copy into `target`.
struct Twins<'a> {
    sandbox: &'a Sandbox,
    remote: Option<Remote>,
}

/// The kinds of ends.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Way {
    Local,
    Push,
    Pull,
    /// From another host to another host.
    Away,
}

const WAYS: [Way; 4] = [Way::Local, Way::Push, Way::Pull, Way::Away];

impl<'a> Twins<'a> {
    fn new(sandbox: &'a Sandbox) -> Self {
        let source = sandbox.tree("source");
        let mut tree = TestTree::new(&source, 7);
        tree.incompressible_file("one byte", 1).unwrap();
        tree.incompressible_file("frame", FRAME).unwrap();
        tree.incompressible_file("large", 17 * FRAME + 5).unwrap();
        tree.file(OsStr::from_bytes(b"odd \xff\n\\"), b"odd").unwrap();
        symlink("large", source.join("link")).unwrap();
        symlink("nowhere", source.join("x/dangling")).unwrap();
        let twins = Self { sandbox, remote: None };
        twins.duplicate();
        twins
    }

    fn on_another_host(self) -> Self {
        Self { remote: Some(Remote::new(self.sandbox)), ..self }
    }

    /// Makes `target/source` equal to `source`.
    fn duplicate(&self) {
        let _ = fs::remove_dir_all(self.sandbox.path("target"));
        let copied = Command::new("cp").arg("-a").arg(self.source()).arg(self.sandbox.dir("target")).status();
        assert!(copied.unwrap().success());
    }

    fn source(&self) -> PathBuf {
        self.sandbox.path("source")
    }

    /// A path in the copy.
    fn there(&self, path: impl AsRef<Path>) -> PathBuf {
        self.sandbox.path("target/source").join(path)
    }

    fn verify(&self, way: Way, options: &[&str]) -> Haul<'_> {
        let (source, target) = (self.source(), self.sandbox.path("target"));
        let haul = self.sandbox.haul(["verify", "--json", "-r"]).args(options);
        let Some(remote) = self.remote.as_ref().filter(|_| way != Way::Local) else {
            return haul.arg(source).arg(target);
        };
        let haul = haul.args(remote.sshd().haul_args());
        match way {
            Way::Pull => haul.arg(remote.at(source)).arg(target),
            Way::Away => haul.arg(remote.at(source)).arg(remote.at(target)),
            _ => haul.arg(source).arg(remote.at(target)),
        }
    }

    /// A comparison's reported differences, by paths in the copy.
    #[track_caller]
    fn named(&self, run: &ProgramRun) -> BTreeMap<PathBuf, String> {
        let root = self.sandbox.path("target/source");
        let events = run.events().into_iter().filter(|event| event["event"] == "differs");
        let named = events.map(|event| {
            let path = PathBuf::from(event["path"].as_str().unwrap());
            let path = path.strip_prefix(&root).unwrap_or_else(|_| panic!("{path:?}\n{}", run.account()));
            let whats = event["differences"].as_array().unwrap().iter().map(|one| one["what"].as_str().unwrap());
            (path.to_owned(), whats.collect::<Vec<_>>().join(" "))
        });
        named.collect()
    }
}

/// Everything below `root`, with stamps that reveal changes.
fn stamps(root: &Path) -> BTreeMap<PathBuf, (u64, i64, i64, i64, i64)> {
    let mut found = BTreeMap::from([(root.to_owned(), stamp(root))]);
    for entry in fs::read_dir(root).unwrap() {
        let entry = entry.unwrap();
        match entry.file_type().unwrap().is_dir() {
            true => found.extend(stamps(&entry.path())),
            false => drop(found.insert(entry.path(), stamp(&entry.path()))),
        }
    }
    found
}

/// Changes a byte of a file, invisibly to stat(2).
#[track_caller]
fn flip(path: &Path, offset: u64) {
    let before = fs::metadata(path).unwrap();
    let file = File::options().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset).unwrap();
    file.write_all_at(&[!byte[0]], offset).unwrap();
    file.set_times(fs::FileTimes::new().set_modified(before.modified().unwrap())).unwrap();
}

#[test]
fn the_same_trees_are_identical_and_stay_untouched() {
    let sandbox = Sandbox::new();
    let twins = Twins::new(&sandbox);
    TestTree::new(twins.source(), 3).small_files("many", MANY, 20, 0..=4096).unwrap();
    twins.duplicate();
    let twins = twins.on_another_host();
    let files = stamps(&twins.source()).into_keys().filter(|path| path.symlink_metadata().unwrap().is_file());
    let sizes: Vec<_> = files.map(|path| path.metadata().unwrap().len()).collect();
    let before = stamps(&sandbox.path(""));
    for (way, all_options) in [
        (Way::Local, &[&["-s", "1", "--unbuffered", "st"][..]][..]),
        (Way::Push, &[&[], &["--preserve", "--frame", "256k"]]),
        (Way::Pull, &[&["--cache", "drop"]]),
    ] {
        for options in all_options {
            let run = twins.verify(way, options).run().succeeds();
            let summary = run.summary();
            assert_eq!(summary["files_compared"], sizes.len(), "{way:?}: {}", run.account());
            assert_eq!(summary["bytes_compared"], sizes.iter().sum::<u64>(), "{way:?}: {}", run.account());
            assert_eq!((&summary["differences"], &summary["status"]), (&0.into(), &0.into()));
            assert_eq!(summary["symlinks"], 2);
            let same = run.events().iter().filter(|event| event["event"] == "file").count();
            assert_eq!(same, sizes.len(), "each is named as the same");
            assert!(twins.named(&run).is_empty());
        }
    }
    let mut after = stamps(&sandbox.path(""));
    after.retain(|path, _| before.contains_key(path));
    let of_trees = |path: &Path| path.starts_with(twins.source()) || path.starts_with(sandbox.path("target"));
    let changed: Vec<_> =
        before.iter().filter(|(path, stamp)| of_trees(path) && after.get(*path) != Some(stamp)).collect();
    assert!(changed.is_empty(), "{changed:?}");
    assert_eq!(stamps(&sandbox.path("target")).len(), stamps(&twins.source()).len() + 1, "nothing was made");
}

/// A difference between two trees: its place, and haul's word for it.
type Planted = (&'static str, fn(&Path), &'static str);

const PLANTED: [Planted; 14] = [
    ("one byte", |path| fs::write(path, "?!").unwrap(), "size"),
    ("name with  spaces", |path| fs::write(path, "Spaces").unwrap(), "content"),
    ("frame", |path| flip(path, FRAME - 1), "content"),
    ("large", |path| flip(path, DAMAGED * FRAME + 77), "content"),
    ("x/y/z/deep", |path| fs::remove_file(path).unwrap(), "missing"),
    ("empty", |path| fs::remove_dir_all(path).unwrap(), "missing"),
    ("link", |path| (fs::remove_file(path).unwrap(), symlink("small", path).unwrap()).1, "link"),
    ("x/dangling", |path| fs::remove_file(path).unwrap(), "missing"),
    ("none", |path| (fs::remove_dir_all(path).unwrap(), fs::write(path, "").unwrap()).1, "kind"),
    ("a frame", |path| (fs::remove_file(path).unwrap(), symlink("frame", path).unwrap()).1, "kind"),
    ("big", |path| (fs::remove_file(path).unwrap(), fs::create_dir(path).unwrap()).1, "kind"),
    ("more", |path| fs::write(path, "more").unwrap(), "extra"),
    ("small/dir", |path| (fs::create_dir(path).unwrap(), fs::write(path.join("in it"), "").unwrap()).1, "extra"),
    ("x/y/extra", |path| symlink("z", path).unwrap(), "extra"),
];

#[test]
fn exactly_the_differences_are_named() {
    let sandbox = Sandbox::new();
    let twins = Twins::new(&sandbox);
    for (path, plant, what) in PLANTED {
        twins.duplicate();
        plant(&twins.there(path));
        let run = twins.verify(Way::Local, &[]).run().ends(1);
        assert_eq!(twins.named(&run), BTreeMap::from([(path.into(), what.to_owned())]), "{}", run.account());
        assert_eq!((&run.summary()["differences"], &run.summary()["failed"]), (&1.into(), &0.into()));
    }
}

#[test]
fn all_differences_together_are_named_in_every_direction() {
    let sandbox = Sandbox::new();
    let twins = Twins::new(&sandbox).on_another_host();
    PLANTED.iter().for_each(|(path, plant, _)| plant(&twins.there(path)));
    let expected: BTreeMap<_, _> = PLANTED.iter().map(|(path, _, what)| (path.into(), (*what).to_owned())).collect();
    let before = stamps(&sandbox.path("target"));
    for way in WAYS {
        let run = twins.verify(way, &[]).run().ends(1);
        assert_eq!(twins.named(&run), expected, "{way:?}: {}", run.account());
        assert_eq!(run.summary()["differences"], PLANTED.len());
        let run = run.says(["is missing", "is extraneous", "links to"]);
        let differs = run.events().into_iter().find(|event| event["path"] == *twins.there("large").to_str().unwrap());
        let content = &differs.unwrap()["differences"][0];
        let range = serde_json::json!([[DAMAGED * FRAME, (DAMAGED + 1) * FRAME]]);
        assert_eq!((&content["ranges"], &content["bytes"]), (&range, &FRAME.into()), "{way:?}");
    }
    assert_eq!(stamps(&sandbox.path("target")), before);
}

#[test]
fn a_damaged_file_is_named_by_its_blocks_in_words() {
    let sandbox = Sandbox::new();
    let source = sandbox.big_file("source", 9 * FRAME + 100);
    let target = sandbox.path("target");
    fs::copy(&source, &target).unwrap();
    [0, 3 * FRAME, 4 * FRAME + 5, 9 * FRAME + 99].into_iter().for_each(|offset| flip(&target, offset));
    let run = sandbox.haul(["verify", "source", "target"]).run().ends(1);
    let words = format!("target: differs in bytes 0-524287, 1572864-2621439, {}-{}\n", 9 * FRAME, 9 * FRAME + 99);
    run.says([&words[..], "1 file, 4.72 MB compared", "1 difference"]);
    sandbox.haul(["verify", "--quiet", "source", "target"]).run().ends(1).says([&words[..]]).does_not_say("compared");
    let quiet = sandbox.haul(["verify", "--quiet", "source", "source"]).run();
    assert_eq!(quiet.status, Some(2), "a file is not compared with itself: {}", quiet.account());
}

#[test]
fn modes_and_owners_count_with_p_and_times_never() {
    let sandbox = Sandbox::new();
    let twins = Twins::new(&sandbox);
    fs::set_permissions(twins.there("one byte"), Permissions::from_mode(0o4700)).unwrap();
    fs::set_permissions(twins.there("none"), Permissions::from_mode(0o700)).unwrap();
    flip(&twins.there("frame"), 0);
    fs::set_permissions(twins.there("frame"), Permissions::from_mode(0o600)).unwrap();
    set_mtime(&twins.there("large"), 1_000_000_000, 0);
    let content = ("frame".into(), "content".to_owned());
    let run = twins.verify(Way::Local, &[]).run().ends(1);
    assert_eq!(twins.named(&run), BTreeMap::from([content]), "{}", run.account());
    let mut expected = [("one byte", "mode"), ("none", "mode"), ("frame", "content mode")].to_vec();
    if is_root_or_skip("another owner") {
        for path in ["big", "x/dangling"] {
            std::os::unix::fs::lchown(twins.there(path), Some(1), Some(2)).unwrap();
            expected.push((path, "owner"));
        }
    }
    let expected = expected.into_iter().map(|(path, what)| (path.into(), what.to_owned())).collect();
    let run = twins.verify(Way::Local, &["--preserve"]).run().ends(1);
    assert_eq!(twins.named(&run), expected, "{}", run.account());
    run.says(["has mode 4700, but at the source"]);
}

fn set_attribute(path: &Path, name: &str, value: &str) {
    lsetxattr(path, name, value.as_bytes(), XattrFlags::empty()).unwrap_or_else(|error| panic!("{name}: {error}"));
}

fn pipe_at(path: &Path) {
    let _ = fs::remove_file(path);
    fifo(path);
}

#[test]
fn metadata_counts_with_the_option_that_preserves_it() {
    let sandbox = Sandbox::new();
    let twins = Twins::new(&sandbox);
    let source = twins.source();
    for name in ["one byte", "large", "x", "none"] {
        set_attribute(&source.join(name), "user.same", "same");
        set_attribute(&source.join(name), "user.color", "blue");
    }
    fs::hard_link(source.join("large"), source.join("x/also large")).unwrap();
    fs::hard_link(source.join("frame"), source.join("x/also frame")).unwrap();
    pipe_at(&source.join("pipe"));
    let all = ["-aHAX", "--specials"];
    let _ = fs::remove_dir_all(sandbox.path("target"));
    sandbox.dir("target");
    let copied = sandbox.haul(["-aHAX", "--specials", "source", "target"]).run().succeeds();
    let twins = twins.on_another_host();
    assert!(twins.there("pipe").exists(), "{}", copied.account());
    for way in WAYS {
        twins.verify(way, &all).run().succeeds();
    }
    set_attribute(&twins.there("one byte"), "user.color", "red");
    set_attribute(&twins.there("x"), "user.more", "");
    rustix::fs::lremovexattr(twins.there("none"), "user.color").unwrap();
    // A name that is a file of its own, and a file that is another name.
    let (own, joined) = (twins.there("x/also large"), twins.there("odd too"));
    fs::copy(&own, twins.there("copy")).unwrap();
    fs::rename(twins.there("copy"), &own).unwrap();
    set_attribute(&own, "user.same", "same");
    set_attribute(&own, "user.color", "blue");
    let odd = twins.there(OsStr::from_bytes(b"odd \xff\n\\"));
    fs::copy(source.join(OsStr::from_bytes(b"odd \xff\n\\")), source.join("odd too")).unwrap();
    fs::hard_link(&odd, &joined).unwrap();
    fs::remove_file(twins.there("pipe")).unwrap();
    std::os::unix::net::UnixListener::bind(twins.there("pipe")).unwrap();
    pipe_at(&twins.there("more"));
    for (options, expected) in [
        (&[][..], &[][..]),
        (&["--xattrs"], &[("one byte", "attributes"), ("x", "attributes"), ("none", "attributes")]),
        (&["--hard-links"], &[("x/also large", "name"), ("odd too", "name")]),
        (&["--specials"], &[("pipe", "node"), ("more", "extra")]),
    ] {
        for way in [Way::Local, Way::Push] {
            let run = twins.verify(way, options).run();
            // The directory's order decides which name of a file comes first.
            let named: BTreeMap<_, _> = twins
                .named(&run)
                .into_iter()
                .map(|(path, what)| {
                    let path =
                        if path.as_os_str().as_bytes().starts_with(b"odd") { PathBuf::from("odd too") } else { path };
                    let path = if path == Path::new("large") { PathBuf::from("x/also large") } else { path };
                    (path, what)
                })
                .collect();
            let expected: BTreeMap<_, _> =
                expected.iter().map(|(path, what)| (path.into(), (*what).to_owned())).collect();
            assert_eq!(named, expected, "{options:?} {way:?}: {}", run.account());
        }
    }
    let run = twins.verify(Way::Local, &["--xattrs"]).run().ends(1);
    let of_byte = |event: &serde_json::Value| event["path"].as_str().is_some_and(|path| path.ends_with("one byte"));
    let byte = run.events().into_iter().find(|event| event["event"] == "differs" && of_byte(event)).unwrap();
    let expected = serde_json::json!([{
        "what": "attributes", "missing": [], "extra": [], "changed": ["user.color"], "count": 1
    }]);
    assert_eq!(byte["differences"], expected);
    run.says([
        "has another value of attribute user.color",
        "lacks attribute user.color",
        "has an extraneous attribute user.more",
    ]);
}

#[test]
fn devices_are_the_same_by_kind_and_number() {
    if !is_root_or_skip("devices") {
        return;
    }
    let sandbox = Sandbox::new();
    let twins = Twins::new(&sandbox);
    let device = |path: PathBuf, minor| {
        rustix::fs::mknodat(CWD, path, FileType::CharacterDevice, Mode::from_raw_mode(0o600), makedev(1, minor))
            .unwrap();
    };
    for (name, minor) in [("null", 3), ("zero", 5)] {
        device(twins.source().join(name), minor);
        device(twins.there(name), 3);
    }
    twins.verify(Way::Local, &[]).run().succeeds();
    let run = twins.verify(Way::Local, &["--devices"]).run().ends(1);
    assert_eq!(twins.named(&run), BTreeMap::from([("zero".into(), "node".to_owned())]), "{}", run.account());
    run.says(["is the character device 1:3, but at the source the character device 1:5"]);
}

#[test]
fn uncopied_kinds_are_not_compared() {
    let sandbox = Sandbox::new();
    let twins = Twins::new(&sandbox);
    fifo(&twins.source().join("fifo"));
    fifo(&twins.there("another fifo"));
    for left in [".haul-0123456789abcdef01234567.part", ".haul-0123456789abcdef01234567.journal"] {
        fs::write(twins.source().join("none").join(left), "a").unwrap();
        fs::write(twins.there("small").join(left), "b").unwrap();
    }
    let run = twins.verify(Way::Local, &[]).run().succeeds();
    assert_eq!(run.summary()["left_out"], 3, "{}", run.account());
}

#[test]
fn links_are_compared_as_they_would_be_copied() {
    let sandbox = Sandbox::new();
    let twins = Twins::new(&sandbox);
    fs::remove_file(twins.there("x/dangling")).unwrap();
    symlink("anywhere", twins.there("only here")).unwrap();
    twins.verify(Way::Local, &["--symlinks", "ignore"]).run().succeeds();
    fs::remove_file(twins.source().join("x/dangling")).unwrap();
    fs::remove_file(twins.there("only here")).unwrap();
    let run = twins.verify(Way::Local, &["--symlinks", "follow"]).run().ends(1);
    assert_eq!(twins.named(&run), BTreeMap::from([("link".into(), "kind".to_owned())]), "{}", run.account());
    fs::remove_file(twins.there("link")).unwrap();
    fs::copy(twins.source().join("large"), twins.there("link")).unwrap();
    twins.verify(Way::Local, &["--symlinks", "follow"]).run().succeeds();
}

#[test]
fn verify_finds_arguments_at_the_destination_of_a_copy() {
    let sandbox = Sandbox::new();
    let source = sandbox.tree("source");
    sandbox.file("note", "a note");
    sandbox.haul(["-r", "source", "note", "into/", "--mkdir"]).run().succeeds();
    sandbox.haul(["verify", "-r", "source", "note", "into"]).run().succeeds().says(["identical"]);
    sandbox.haul(["-r", "source", "copy"]).run().succeeds();
    sandbox.haul(["verify", "-r", "source", "copy"]).run().succeeds();
    sandbox.haul(["verify", "-r", "source/.", "into/source"]).run().succeeds();
    sandbox.haul(["verify", "note", "into/note"]).run().succeeds();
    fs::write(source.join("added"), "after the copy").unwrap();
    sandbox.haul(["verify", "-r", "source", "copy"]).run().ends(1).says(["copy/added: is missing"]);
    // A directory that haul did not make is one that the source would go into.
    sandbox.dir("other");
    sandbox
        .haul(["verify", "-r", "source", "other"])
        .run()
        .ends(1)
        .says(["other/source: is missing", "hint: haul verify -r source/. other"]);
    sandbox.haul(["verify", "note", "source", "nowhere"]).run().ends(1).says(["nowhere does not exist"]);
    sandbox.haul(["verify", "source", "copy"]).run().ends(1).says(["-r"]);
    sandbox.haul(["verify", "note", "/dev/null"]).run().ends(1).says(["nothing to compare with"]);
    assert!(!sandbox.path("nowhere").exists());
}

#[test]
fn verify_of_a_sync_finds_what_the_sync_wrote() {
    let sandbox = Sandbox::new();
    let source = sandbox.tree("source");
    sandbox.file("note", "a note");
    let remote = Remote::new(&sandbox);
    let there = |path: &str| remote.at(sandbox.path(path));
    for (sources, target) in [
        (&["source/"][..], "contents".into()),
        (&["source"], "named".into()),
        (&["note"], "new".into()),
        (&["source/", "note"], "both".into()),
        (&["source/"], there("contents there")),
        (&["source"], there("named there")),
    ] {
        let is_remote = target.as_encoded_bytes().ends_with(b" there");
        let login = if is_remote { remote.sshd().haul_args() } else { Vec::new() };
        let haul = |words: &[&str]| sandbox.haul(words).args(&login).args(sources).arg(&target);
        haul(&["sync"]).run().succeeds();
        let verify = || haul(&["verify", "--sync"]);
        verify().run().succeeds().says(["identical"]);
        if *sources != ["note"] {
            let kept = fs::metadata(source.join("x")).unwrap().permissions();
            fs::set_permissions(source.join("x"), Permissions::from_mode(0o700)).unwrap();
            verify().run().ends(1).says(["has mode"]);
            fs::set_permissions(source.join("x"), kept).unwrap();
        }
    }
    let wrong = sandbox.haul(["verify", "-r", "source/", "contents"]).run().ends(1);
    wrong.says(["contents/source: is missing", "hint: haul verify --sync -r source/ contents"]);
    sandbox.haul(["verify", "--sync", "--exclude", "/x", "source/", "contents"]).run().succeeds();
    sandbox.file("contents/x/extraneous", "");
    sandbox.haul(["verify", "--sync", "source/", "contents"]).run().ends(1).says(["is extraneous"]);
    sandbox.haul(["verify", "--sync", "--exclude", "/x", "source/", "contents"]).run().succeeds();
}

#[test]
fn trees_beyond_any_path_are_compared_to_their_last_leaf() {
    let sandbox = Sandbox::new();
    for (root, leaf) in [("a", "leaf"), ("same/a", "leaf"), ("other/a", "Leaf")] {
        chain(&sandbox.dir(root), DEEP, leaf.as_bytes());
    }
    sandbox.haul(["verify", "-r", "a", "same"]).run().succeeds();
    sandbox.haul(["verify", "-r", "a", "other"]).run().ends(1).says(["d/leaf: differs in bytes 0-3"]);
}

#[test]
fn unreadable_files_are_failures_and_no_differences() {
    let sandbox = Sandbox::new();
    let twins = Twins::new(&sandbox);
    // Each thread meets it once, at whichever end it reads.
    let run = twins
        .verify(Way::Local, &["-s", "1", "--unbuffered", "off"])
        .injecting("pread64", "error=EIO:when=5")
        .run()
        .ends(1);
    let failed: Vec<_> = run.events().into_iter().filter(|event| event["event"] == "failed").collect();
    assert_eq!(failed.len(), 2, "{}", run.account());
    assert_eq!((&run.summary()["failed"], &run.summary()["differences"]), (&2.into(), &0.into()));
    assert!(failed.iter().any(|event| event["path"].as_str().unwrap().contains("target/")), "{}", run.account());
    run.says(["input/output error"]);
}

#[test]
fn a_file_called_verify_can_still_be_copied() {
    let sandbox = Sandbox::new();
    sandbox.file("verify", "a file");
    sandbox.file("other", "a file");
    sandbox.haul(["./verify", "copy"]).run().succeeds();
    sandbox.haul(["verify", "copy", "other"]).run().succeeds().says(["identical"]);
    assert_eq!(fs::read(sandbox.path("copy")).unwrap(), b"a file");
}

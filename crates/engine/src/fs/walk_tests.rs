//! Tests of the walk, with helpers and without: what it finds, leaves out, reports and survives.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use haul_base::copy::spec::Symlinks;
use haul_base::sys::cancel::Cancel;
use proptest::prelude::*;

use super::testing::{KEEP, both, eager, in_time, make_dir, name, rename, without_capabilities, write_file};
use super::*;
use crate::fs::lookup_waits::LookupWaits;

const FOLLOW: WalkOptions = WalkOptions {
    recursive: true,
    symlinks: Symlinks::Follow,
    skip: None,
    one_file_system: false,
    is_filtered: false,
    nodes: SpecialFiles { devices: false, specials: false },
    only_counts_files: false,
};

/// Everything a walk found, by path; directories by a `/` at the end. Both kinds of walk find the same, in the same
/// order.
fn walk(root: &Dir, options: WalkOptions) -> BTreeMap<String, String> {
    let root = root.clone();
    let both = move || both(&root, &eager(options)).map(|walker| walker.map(tell).collect::<Vec<_>>());
    let [alone, prefetched] = in_time(both);
    assert_eq!(alone, prefetched);
    let mut found = BTreeMap::new();
    for (path, what) in alone {
        let path = haul_proto::path::escape(&path);
        assert_eq!(found.insert(path.clone(), what), None, "{path} was found twice");
    }
    found
}

fn tell(item: WalkEntry) -> (Vec<u8>, String) {
    match item {
        WalkEntry::EnterDir { dir, .. } => (dir.path_of(b""), "enter".into()),
        WalkEntry::LeaveDir { dir, complete: true, .. } => (dir.path_of(b"."), "complete".into()),
        WalkEntry::LeaveDir { dir, complete: false, .. } => (dir.path_of(b"."), "incomplete".into()),
        WalkEntry::File { parent, name, stat, links } => {
            (parent.path_of(name.as_bytes()), format!("{} {links:?}", stat.size))
        }
        WalkEntry::Symlink { parent, name, points_to, .. } => {
            (parent.path_of(name.as_bytes()), format!("-> {}", haul_proto::path::escape(&points_to)))
        }
        WalkEntry::Node { parent, name, node, .. } => (parent.path_of(name.as_bytes()), format!("{node:?}")),
        WalkEntry::Filtered { name, .. } => (name.as_bytes().to_vec(), "filtered".into()),
        WalkEntry::FilteredFiles { count } => (Vec::new(), format!("{count} filtered")),
        WalkEntry::Vanished { parent, name } => (parent.path_of(name.as_bytes()), "vanished".into()),
        WalkEntry::VanishedDir { dir } => (dir.path_of(b"."), "vanished".into()),
        WalkEntry::LeftOut { parent, name, reason } => (parent.path_of(name.as_bytes()), reason.into()),
        WalkEntry::Failed { path, error } => (path, format!("failed: {error}")),
    }
}

fn expect(found: &BTreeMap<String, String>, expected: &[(&str, &str)]) {
    let expected: BTreeMap<String, String> = expected.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect();
    assert_eq!(*found, expected);
}

fn sandbox() -> (tempfile::TempDir, Dir) {
    let temp = tempfile::tempdir().unwrap();
    let root = Dir::open_root(temp.path()).unwrap();
    (temp, root)
}

fn make_fifo(dir: &Path, name: &str) {
    let fifo = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, dir.join(name), fifo, rustix::fs::Mode::RWXU, 0).unwrap();
}

#[test]
fn finds_everything_once() {
    let (temp, root) = sandbox();
    write_file(&make_dir(&make_dir(&root, "a"), "b"), "deep", b"12");
    make_dir(&root, "empty");
    write_file(&root, "file", b"");
    symlink("nowhere/at all", temp.path().join("link")).unwrap();
    make_fifo(temp.path(), "fifo");
    let _socket = std::os::unix::net::UnixListener::bind(temp.path().join("socket")).unwrap();
    let found = walk(&root, KEEP);
    expect(
        &found,
        &[
            ("", "enter"),
            (".", "complete"),
            ("a/", "enter"),
            ("a/.", "complete"),
            ("a/b/", "enter"),
            ("a/b/.", "complete"),
            ("a/b/deep", "2 Itself"),
            ("empty/", "enter"),
            ("empty/.", "complete"),
            ("file", "0 Itself"),
            ("link", "-> nowhere/at all"),
            ("fifo", "is a FIFO"),
            ("socket", "is a socket"),
        ],
    );
    assert!(!found.contains_key("a"));
}

#[test]
fn brackets_the_contents_of_a_directory() {
    let (_temp, root) = sandbox();
    for child in ["x", "y", "z"] {
        write_file(&make_dir(&make_dir(&root, child), "inner"), "file", b"");
    }
    for walker in both(&root, &eager(KEEP)) {
        let mut stack: Vec<FileIdentity> = Vec::new();
        for item in walker {
            match item {
                WalkEntry::EnterDir { dir, .. } => {
                    assert_eq!(dir.parent().map(Dir::identity), stack.last().copied());
                    stack.push(dir.identity());
                }
                WalkEntry::LeaveDir { dir, .. } => assert_eq!(stack.pop(), Some(dir.identity())),
                WalkEntry::File { parent, .. } => assert_eq!(stack.last(), Some(&parent.identity())),
                other => panic!("{other:?}"),
            }
        }
        assert!(stack.is_empty());
    }
}

#[test]
fn takes_names_as_bytes() {
    let (_temp, root) = sandbox();
    let long = [b'n'; 255];
    let names: [&[u8]; 4] = [b"\xff\xfe", b"new\nline", &long, b"..."];
    for each in names {
        write_file(&make_dir(&root, each), each, b"");
    }
    for walker in both(&root, &eager(KEEP)) {
        let name_of = |item| match item {
            WalkEntry::File { parent, name, .. } => {
                assert_eq!(parent.name(), Some(&name));
                Some(name.as_bytes().to_vec())
            }
            _ => None,
        };
        let found: Vec<Vec<u8>> = walker.filter_map(name_of).collect();
        assert_eq!(found.len(), names.len());
        assert!(names.iter().all(|each| found.iter().any(|f| f == each)));
    }
}

#[test]
fn skips_excluded_entries() {
    let (temp, root) = sandbox();
    write_file(&make_dir(&root, "target"), "file", b"");
    symlink("target", temp.path().join("link")).unwrap();
    let target = root.child(&name("target")).unwrap().identity();
    let options = WalkOptions {
        one_file_system: false,
        recursive: true,
        symlinks: Symlinks::Ignore,
        skip: Some(target),
        is_filtered: false,
        nodes: SpecialFiles { devices: false, specials: false },
        only_counts_files: false,
    };
    expect(
        &walk(&root, options),
        &[("", "enter"), (".", "complete"), ("link", "is a symbolic link"), ("target", "is the target of this copy")],
    );
    let flat = WalkOptions { recursive: false, ..KEEP };
    expect(
        &walk(&root, flat),
        &[
            ("", "enter"),
            (".", "complete"),
            ("link", "-> target"),
            ("target", "is a directory (-r copies directories)"),
        ],
    );
}

#[test]
fn lists_as_many_levels_as_asked_for() {
    let (_temp, root) = sandbox();
    write_file(&make_dir(&root, "dir"), "file", b"1");
    for (levels, expected) in
        [(0, &["", "."][..]), (1, &["", "dir/", "dir/.", "."]), (2, &["", "dir/", "dir/file", "dir/.", "."])]
    {
        let found = Walker::new(root.clone(), KEEP).limited_to(levels).map(|found| tell(found).0);
        assert_eq!(found.collect::<Vec<_>>(), expected.iter().map(|path| path.as_bytes()).collect::<Vec<_>>());
    }
}

#[test]
fn follows_links_when_asked_to() {
    let (temp, root) = sandbox();
    let (outside, _keep) = sandbox();
    std::fs::write(outside.path().join("file"), "123").unwrap();
    write_file(&make_dir(&root, "dir"), "inner", b"1");
    for (target, link) in [("dir/inner", "to_file"), ("gone", "dangling"), ("self", "self")] {
        symlink(target, temp.path().join(link)).unwrap();
    }
    symlink(outside.path(), temp.path().join("to_dir")).unwrap();
    symlink("..", temp.path().join("dir/up")).unwrap();
    let found = walk(&root, FOLLOW);
    expect(
        &found,
        &[
            ("", "enter"),
            (".", "incomplete"),
            ("dir/", "enter"),
            ("dir/.", "incomplete"),
            ("dir/inner", "1 Itself"),
            ("dir/up", "failed: symbolic link loop: the directory contains itself"),
            ("dangling", "failed: dangling symbolic link"),
            ("self", "failed: Too many levels of symbolic links (os error 40)"),
            ("to_dir/", "enter"),
            ("to_dir/.", "complete"),
            ("to_dir/file", "3 Itself"),
            ("to_file", "1 Followed"),
        ],
    );
}

#[test]
fn reopens_directories_reached_through_a_link() {
    let (temp, root) = sandbox();
    let (outside, _keep) = sandbox();
    std::fs::create_dir_all(outside.path().join("a/b/c/d")).unwrap();
    std::fs::write(outside.path().join("a/b/c/d/file"), "").unwrap();
    symlink(outside.path().join("a"), temp.path().join("link")).unwrap();
    let root_of_two = Dir::open_root_in(temp.path(), FdCache::new(2)).unwrap();
    for each in [root_of_two, root] {
        let found = walk(&each, FOLLOW);
        assert_eq!(found["link/b/c/d/file"], "0 Itself");
        assert_eq!(found["link/."], "complete");
    }
}

#[test]
fn reports_an_unreadable_directory_and_continues() {
    let (temp, root) = sandbox();
    for child in ["a", "locked", "z"] {
        write_file(&make_dir(&root, child), "file", b"");
    }
    let locked = temp.path().join("locked");
    let mode = |mode| std::os::unix::fs::PermissionsExt::from_mode(mode);
    std::fs::set_permissions(&locked, mode(0)).unwrap();
    let found = without_capabilities(move || walk(&root, KEEP));
    std::fs::set_permissions(&locked, mode(0o700)).unwrap();
    assert_eq!(found["locked"], "failed: Permission denied (os error 13)");
    assert_eq!(found["."], "incomplete");
    assert_eq!((&*found["a/file"], &*found["z/file"]), ("0 Itself", "0 Itself"));
}

#[test]
fn names_a_directory_removed_during_its_listing() {
    let (temp, root) = sandbox();
    make_dir(&root, "gone");
    write_file(&root, "file", b"");
    let mut rest = Vec::new();
    let mut walker = Walker::new(root, KEEP);
    while let Some(item) = walker.next() {
        if matches!(&item, WalkEntry::EnterDir { dir, .. } if dir.name().is_some()) {
            std::fs::remove_dir(temp.path().join("gone")).unwrap();
            rest.extend(walker.by_ref().map(tell));
        }
    }
    let told: Vec<_> = rest.iter().map(|(path, what)| (String::from_utf8_lossy(path), what.as_str())).collect();
    assert_eq!(told, [("gone/.".into(), "vanished"), ("gone/.".into(), "complete"), (".".into(), "complete")]);
}

#[test]
fn names_vanished_entries() {
    let (temp, root) = sandbox();
    for i in 0..10 {
        write_file(&root, format!("file{i}"), b"");
        make_dir(&root, format!("dir{i}"));
    }
    let mut walker = Walker::new(root, KEEP);
    assert!(matches!(walker.next(), Some(WalkEntry::EnterDir { .. })));
    assert!(matches!(walker.next(), Some(WalkEntry::File { .. })));
    for i in 0..10 {
        std::fs::remove_file(temp.path().join(format!("file{i}"))).unwrap();
        std::fs::remove_dir(temp.path().join(format!("dir{i}"))).unwrap();
    }
    let vanished = walker.by_ref().take_while(|found| matches!(found, WalkEntry::Vanished { .. })).count();
    assert_eq!(vanished, 19, "and the walk of the source argument is complete");
    assert!(walker.next().is_none());
    assert!(walker.next().is_none());
}

#[test]
fn a_directory_removed_during_its_listing_has_vanished_and_a_source_argument_has_failed() {
    let (temp, root) = sandbox();
    make_dir(&root, "dir");
    let mut walker = Walker::new(root, KEEP);
    walker.by_ref().find(|found| matches!(found, WalkEntry::EnterDir { dir, .. } if dir.name().is_some())).unwrap();
    std::fs::remove_dir(temp.path().join("dir")).unwrap();
    assert!(matches!(walker.next(), Some(WalkEntry::VanishedDir { .. })));
    assert!(matches!(walker.next(), Some(WalkEntry::LeaveDir { complete: true, .. })));
    std::fs::remove_dir(temp.path()).unwrap();
    assert!(matches!(walker.next(), Some(WalkEntry::Failed { .. })));
    assert!(matches!(walker.next(), Some(WalkEntry::LeaveDir { complete: false, .. })));
    assert!(walker.next().is_none());
}

/// `rm -r` may have removed names before the listing, which then lacks them.
#[test]
fn a_directory_removed_after_its_listing_has_vanished() {
    for (cache, files) in [(8, 0), (8, 3), (2, 3)] {
        let temp = tempfile::tempdir().unwrap();
        let root = Dir::open_root_in(temp.path(), FdCache::new(cache)).unwrap();
        let dir = make_dir(&root, "dir");
        (0..files).for_each(|i| write_file(&dir, format!("file{i}"), b""));
        make_dir(&dir, "inner");
        let mut walker = Walker::new(root, KEEP);
        walker.by_ref().find(|found| matches!(found, WalkEntry::EnterDir { dir, .. } if dir.name().is_some())).unwrap();
        let inner = walker.by_ref().find(|found| !matches!(found, WalkEntry::File { .. })).unwrap();
        assert!(matches!(inner, WalkEntry::EnterDir { .. }));
        assert!(matches!(walker.next(), Some(WalkEntry::LeaveDir { complete: true, .. })));
        std::fs::remove_dir_all(temp.path().join("dir")).unwrap();
        let told: Vec<_> = walker.map(tell).map(|(path, what)| (String::from_utf8(path).unwrap(), what)).collect();
        let ends = [("dir/.", "vanished"), ("dir/.", "complete"), (".", "complete")];
        assert_eq!(told, ends.map(|(path, what)| (path.to_owned(), what.to_owned())), "{cache} {files}");
    }
}

/// What was looked up ahead may be told although it is gone; what is told of must have been there.
#[test]
fn survives_vanishing_entries_with_prefetch() {
    let (temp, root) = sandbox();
    for i in 0..10 {
        write_file(&root, format!("file{i}"), b"");
        write_file(&make_dir(&root, format!("dir{i}")), "inner", b"");
    }
    let ahead = eager(KEEP);
    let mut walker = Walker::prefetched(root, &ahead);
    assert!(matches!(walker.next(), Some(WalkEntry::EnterDir { .. })));
    for i in 0..10 {
        std::fs::remove_file(temp.path().join(format!("file{i}"))).unwrap();
        std::fs::remove_dir_all(temp.path().join(format!("dir{i}"))).unwrap();
    }
    let mut depth = 1;
    for item in walker {
        match item {
            WalkEntry::EnterDir { .. } => depth += 1,
            WalkEntry::LeaveDir { .. } => depth -= 1,
            WalkEntry::File { .. } => {}
            WalkEntry::Vanished { .. } | WalkEntry::VanishedDir { .. } => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(depth, 0);
}

#[test]
fn never_follows_a_directory_replaced_by_a_link() {
    for prefetched in [false, true] {
        let (temp, root) = sandbox();
        make_dir(&root, "dir");
        write_file(&make_dir(&root, "secret"), "file", b"");
        write_file(&root, "first", b"");
        let ahead = eager(KEEP);
        let [alone, with_help] = both(&root, &ahead);
        let mut walker = if prefetched { with_help } else { alone };
        while !matches!(walker.next(), Some(WalkEntry::File { .. })) {}
        rename(temp.path(), "dir", "old");
        symlink("secret", temp.path().join("dir")).unwrap();
        let told: BTreeMap<_, _> = walker.map(tell).collect();
        // With helpers it may have been opened before, and is what it was then; or looked at when nothing had its name.
        match told.get(&b"dir"[..]) {
            Some(failed) if failed == "vanished" => assert!(prefetched),
            Some(failed) => assert_eq!(failed, "failed: Not a directory (os error 20)"),
            None => assert!(prefetched && told.get(&b"dir/."[..]).is_none_or(|end| end == "complete"), "{told:?}"),
        }
        assert_eq!(told[&b"secret/file"[..]], "0 Itself");
        assert!(!told.contains_key(&b"dir/file"[..]));
    }
}

#[test]
fn ends_at_once_when_it_is_stopped_and_leaves_no_thread() {
    in_time(|| {
        let (_temp, root) = sandbox();
        for i in 0..40 {
            let dir = make_dir(&root, format!("dir{i}"));
            (0..200).for_each(|j| write_file(&dir, format!("file{j}"), b""));
        }
        for taken in [0, 1, 100, 3_000] {
            let stop = Cancel::new();
            let ahead = Prefetcher::always(KEEP, stop.clone());
            let mut walker = Walker::prefetched(root.clone(), &ahead);
            assert_eq!(walker.by_ref().take(taken).count(), taken);
            stop.cancel();
            assert!(walker.take(2).count() <= usize::from(taken == 0), "the root at most");
            let shared = ahead.watch();
            drop(ahead);
            assert_eq!(shared.strong_count(), 0, "each thread holds on to it");
        }
    });
}

#[test]
fn fast_lookups_start_no_prefetch() {
    let (_temp, root) = sandbox();
    (0..300).for_each(|i| write_file(&root, format!("file{i}"), b""));
    let ahead = Prefetcher::new(KEEP, Cancel::new());
    assert_eq!(Walker::prefetched(root, &ahead).count(), 302);
    assert_eq!(ahead.threads(), 0);
}

#[test]
fn slow_lookups_start_prefetch_and_fast_ones_pause_it() {
    in_time(|| {
        let ahead = Prefetcher::new(KEEP, Cancel::new());
        let mut waits = LookupWaits::default();
        waits.waited = Duration::from_millis(9);
        assert!(!ahead.judge(&mut waits) && !ahead.is_of_use());
        waits.lookups = 1024;
        assert!(!ahead.judge(&mut waits));
        assert_eq!(waits.drain(), (0, Duration::ZERO), "waits that lie far apart are not added up");
        waits.waited = Duration::from_millis(10);
        assert!(ahead.judge(&mut waits) && ahead.is_of_use());
        assert!(ahead.threads() > 0);

        let (_temp, root) = sandbox();
        (0..3_000).for_each(|i| write_file(&root, format!("file{i}"), b""));
        while ahead.is_of_use() {
            assert_eq!(Walker::prefetched(root.clone(), &ahead).count(), 3_002);
        }
    });
}

#[test]
fn gives_the_reason_for_an_unopenable_root() {
    let (temp, root) = sandbox();
    write_file(&root, "file", b"");
    assert_eq!(Dir::open_root(&temp.path().join("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
    assert_eq!(Dir::open_root(&temp.path().join("file")).unwrap_err().kind(), io::ErrorKind::NotADirectory);
}

/// A tree for tests: what is in a directory.
#[derive(Debug, Clone)]
enum Node {
    File(u8),
    Link(usize),
    Tree(Vec<Node>),
}

fn node() -> impl Strategy<Value = Node> {
    let leaf = prop_oneof![12 => any::<u8>().prop_map(Node::File), 1 => (0..LINKS.len()).prop_map(Node::Link)];
    leaf.prop_recursive(6, 200, 20, |inner| prop::collection::vec(inner, 0..20).prop_map(Node::Tree))
}

/// Where links lead: nowhere, to themselves, up (which is a loop), and aside.
const LINKS: [&str; 5] = ["nowhere", "n0", "..", ".", "../n1"];

fn grow(dir: &Dir, nodes: &[Node]) {
    for (number, node) in nodes.iter().enumerate() {
        let name = format!("n{number}");
        match node {
            Node::File(size) => write_file(dir, &name, &vec![0; usize::from(*size)]),
            Node::Link(to) => rustix::fs::symlinkat(LINKS[*to], &*dir.fd().unwrap(), &*name).unwrap(),
            Node::Tree(nodes) => grow(&make_dir(dir, &name), nodes),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn finds_the_same_with_helpers_and_without(nodes in prop::collection::vec(node(), 0..40), follow in any::<bool>(), cache in 2usize..40) {
        let temp = tempfile::tempdir().unwrap();
        let open = FdCache::new(cache);
        // One level down, so that no link leads out of the temporary directory.
        let root = make_dir(&Dir::open_root_in(temp.path(), Arc::clone(&open)).unwrap(), "root");
        grow(&root, &nodes);
        walk(&root, if follow { FOLLOW } else { KEEP });
        prop_assert!(open.open_now() <= cache);
    }
}

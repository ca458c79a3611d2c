//! Confinement of both ends: they touch only the requested files, even while their paths change.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use haul_e2e::{
    HostPair, NOBODY, ProgramRun, Remote, Sandbox, cases, contents, count, give_to_user, hidden_or_partial,
    is_root_or_skip, listing, mode, shell, within,
};
use rustix::fs::{CWD, FlockOperation, RenameFlags, flock, renameat_with};

/// Content that must never arrive.
const SECRET: &str = "the outside's";

/// Whether both ends said that they are confined. Where this kernel cannot do all of it, that is said, too.
#[track_caller]
fn is_confined(summary: &serde_json::Value) -> bool {
    let ends = ["source_sandbox", "target_sandbox"].map(|end| &summary[end]);
    let full = ends.iter().all(|sandbox| sandbox["confinement"] == "full");
    if !full {
        let lacks = |reason: &str| reason.contains("kernel");
        assert!(ends.iter().any(|sandbox| sandbox["reason"].as_str().is_some_and(lacks)), "{summary}");
        println!("SKIPPED: {}, {}", ends[0], ends[1]);
    }
    full
}

#[test]
fn both_ends_are_confined_in_every_direction() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    sandbox.tree("source");
    let (from, to) = (remote.at(sandbox.path("source")), remote.at(sandbox.path("pushed")));
    let here = sandbox.haul(["--json", "-r", "source", "here"]).run().succeeds().summary();
    if !is_confined(&here) {
        return;
    }
    let pushed = remote.haul(&sandbox).args(["--json", "-r", "source"]).arg(to).run().succeeds().summary();
    let pulled = remote.haul(&sandbox).args(["--json", "-r"]).arg(from).arg("pulled").run().succeeds().summary();
    assert!(is_confined(&pushed) && is_confined(&pulled), "{pushed}\n{pulled}");
    let shown = sandbox.haul(["-vv", "-r", "source", "shown"]).run().succeeds();
    shown.says(["sandbox     full at both ends"]);
    for mode in ["follow", "follow-unsafe", "follow-dirs"] {
        let run = sandbox.haul(["-vv", "-r", "--symlinks", mode, "source", mode]).run().succeeds();
        run.says(["sandbox     partial (symbolic links"]);
    }
    let safe = sandbox.haul(["-vv", "-r", "--symlinks", "safe", "source", "safe"]).run().succeeds();
    safe.says(["sandbox     full at both ends"]);
    assert_eq!(sandbox.haul(["-r", "source", "quiet"]).run().succeeds().stderr.matches("sandbox").count(), 0);
}

#[test]
fn a_file_replaced_by_a_link_during_the_copy_is_not_read() {
    if !is_root_or_skip("a slow cable") {
        return;
    }
    let sandbox = Sandbox::new();
    let pair = HostPair::slow(&sandbox, 100);
    if !is_confined(&sandbox.haul(["--json", "null:1", "null:"]).run().succeeds().summary()) {
        return;
    }
    sandbox.big_file("big", 16_000_000);
    // Not small: it is opened only when it is its turn.
    let (second, secret) = (sandbox.big_file("second", 3_000_000), sandbox.big_file("outside/secret", 3_000_000));
    let target = sandbox.dir("target");
    let operands = [sandbox.path("big"), second.clone()];
    let running = pair.haul(&sandbox).args(["-s", "1"]).args(operands).arg(pair.at(&target)).start();
    let begun = within(Duration::from_secs(20), || hidden_or_partial(&target, &["big"], 500_000).is_some());
    assert!(begun, "nothing arrived\n{}", running.stderr_so_far());
    // A file of the same size and time takes its place: only the kernel can tell them apart.
    let modified = second.metadata().and_then(|meta| meta.modified()).expect("a time");
    fs::File::options().write(true).open(&secret).and_then(|file| file.set_modified(modified)).expect("it can be set");
    fs::remove_file(&second).expect("it is ours");
    symlink(&secret, &second).expect("a link");
    let run = ProgramRun::of(running).ends(1).says(["second", "permission"]);
    assert_eq!(listing(&target), ["big"], "{}", run.account());
}

/// Exchanges directories for links that lead outside, as fast as that goes, while `work` is done.
fn raced<T>(pairs: &[(PathBuf, PathBuf)], work: impl FnOnce() -> T) -> T {
    let over = AtomicBool::new(false);
    let exchange = || {
        while !over.load(Ordering::Relaxed) {
            for (directory, link) in pairs {
                let _ = renameat_with(CWD, directory, CWD, link, RenameFlags::EXCHANGE);
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(exchange);
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        over.store(true, Ordering::Relaxed);
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Directories `d0` to `d15`, each with a file, and beside each a link that leads outside.
fn racing_tree(sandbox: &Sandbox, root: &str) -> Vec<(PathBuf, PathBuf)> {
    let root = sandbox.dir(root);
    let outside = sandbox.path("outside");
    let directories = (0..16).map(|i| {
        let (directory, link) = (root.join(format!("d{i}")), root.join(format!("l{i}")));
        fs::create_dir_all(directory.join("sub")).expect("directories");
        for file in ["file", "sub/file"] {
            fs::write(directory.join(file), "inside").expect("a file");
        }
        symlink(&outside, &link).expect("a link");
        (directory, link)
    });
    directories.collect()
}

/// All there is below a directory: names, inodes, modes, sizes and times.
fn snapshot(directory: &Path) -> Vec<String> {
    let mut seen = Vec::new();
    let mut waiting = vec![directory.to_owned()];
    while let Some(path) = waiting.pop() {
        let meta = fs::symlink_metadata(&path).expect("it is there");
        seen.push(format!(
            "{path:?} {} {:o} {} {}.{}",
            meta.ino(),
            meta.mode(),
            meta.size(),
            meta.ctime(),
            meta.ctime_nsec()
        ));
        if meta.is_dir() {
            waiting.extend(fs::read_dir(&path).expect("readable").flatten().map(|entry| entry.path()));
        }
    }
    seen.sort_unstable();
    seen
}

/// Files below a directory with forbidden content. Does not follow symbolic links.
fn leaked(directory: &Path) -> Vec<PathBuf> {
    let mut leaked = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let (path, kind) = (entry.path(), entry.file_type().expect("a kind"));
        if kind.is_dir() {
            leaked.extend(self::leaked(&path));
        } else if kind.is_file() && fs::read_to_string(&path).is_ok_and(|text| text.contains(SECRET)) {
            leaked.push(path);
        }
    }
    leaked
}

/// Gives the next run something to do: the source is new, the target is empty.
fn undo(source: &[(PathBuf, PathBuf)], target: &[(PathBuf, PathBuf)]) {
    let files = |(directory, link): &(PathBuf, PathBuf)| {
        let directory = if directory.is_symlink() { link } else { directory };
        ["file", "sub/file"].map(|file| directory.join(file))
    };
    source.iter().flat_map(files).for_each(|file| fs::write(file, "inside").expect("it is ours"));
    target.iter().flat_map(files).for_each(|file| drop(fs::remove_file(file)));
}

#[test]
fn copies_stay_inside_while_their_paths_are_exchanged_at_both_ends() {
    let sandbox = Sandbox::new();
    for file in ["outside/file", "outside/sub/file", "outside/secret"] {
        sandbox.file(file, SECRET);
    }
    let (source, target) = (racing_tree(&sandbox, "source"), racing_tree(&sandbox, "target/source"));
    let pairs = [&source[..], &target[..]].concat();
    let before = snapshot(&sandbox.path("outside"));
    let seconds = cases("HAUL_RACE_SECONDS", 3);
    let (mut runs, mut copied, begun) = (0, 0, Instant::now());
    while begun.elapsed() < Duration::from_secs(seconds) {
        undo(&source, &target);
        let run = raced(&pairs, || sandbox.haul(["--json", "-r", "-f", "--preserve", "source", "target"]).run());
        assert!(matches!(run.status, Some(0 | 1)), "{}", run.account());
        copied += run.summary()["files_copied"].as_u64().unwrap_or(0);
        runs += 1;
        assert_eq!(leaked(&sandbox.path("target")), Vec::<PathBuf>::new(), "{}", run.account());
        assert_eq!(snapshot(&sandbox.path("outside")), before, "{}", run.account());
    }
    count("path-race-whole-copies", runs);
    println!("  {copied} files copied, none from outside and none to there");
    assert!(copied > 0, "no file was copied in {runs} runs");
    // The same race, and a program that goes by paths.
    let lost = (0..1000).any(|_| {
        undo(&source, &target);
        raced(&pairs, || {
            shell(&sandbox, "cd source && find . -name file -type f -exec cp {} ../target/source/{} ';'").run()
        });
        !leaked(&sandbox.path("target")).is_empty() || snapshot(&sandbox.path("outside")) != before
    });
    assert!(lost, "the race is too slow to show anything");
}

#[test]
fn somebody_elses_file_of_the_same_size_and_time_gets_no_set_id_bits() {
    if !is_root_or_skip("files of another user") {
        return;
    }
    let sandbox = Sandbox::new();
    let (tool, planted) = (sandbox.file("source/tool", "tool"), sandbox.file("target/tool", "evil"));
    let modified = tool.metadata().and_then(|meta| meta.modified()).expect("a time");
    fs::File::options().write(true).open(&planted).and_then(|file| file.set_modified(modified)).expect("it can be set");
    fs::set_permissions(&tool, fs::Permissions::from_mode(0o4755)).expect("it is ours");
    chown(&planted, Some(NOBODY), Some(NOBODY)).expect("root may");
    sandbox.haul(["--preserve", "source/tool", "target/tool"]).run().ends(1).says(["target/tool", "another user"]);
    let meta = fs::metadata(&planted).expect("it is there");
    assert_eq!((meta.uid(), meta.mode() & 0o7777), (NOBODY, 0o644));
    // A file of this user's may have come from another one, unless its contents are compared.
    chown(&planted, Some(0), Some(0)).expect("root may");
    sandbox.haul(["--preserve", "source/tool", "target/tool"]).run().ends(1).says(["target/tool", "were not compared"]);
    for options in [&["-f", "--preserve"][..], &["sync"]] {
        fs::write(&planted, "evil")
            .and_then(|()| fs::set_permissions(&planted, fs::Permissions::from_mode(0o644)))
            .expect("it is ours");
        fs::File::options()
            .write(true)
            .open(&planted)
            .and_then(|file| file.set_modified(modified))
            .expect("it can be set");
        let mut held = fs::File::options().write(true).open(&planted).expect("it is there");
        sandbox.haul(options).args(["source/tool", "target/tool"]).run().succeeds();
        held.write_all(b"EVIL").expect("it is open");
        assert_eq!((mode(&planted), contents(&planted)), (0o4755, b"tool".to_vec()), "{options:?}");
    }
    fs::set_permissions(&planted, fs::Permissions::from_mode(0o755)).expect("it is ours");
    let inode = || fs::metadata(&planted).expect("it is there").ino();
    let before = inode();
    sandbox.haul(["sync", "--compare", "digest", "source/tool", "target/tool"]).run().succeeds();
    assert_eq!((mode(&planted), inode()), (0o4755, before));
    // Under another name, another user may have it open.
    fs::hard_link(&planted, sandbox.path("other name")).expect("a name");
    fs::set_permissions(&planted, fs::Permissions::from_mode(0o755)).expect("it is ours");
    sandbox.haul(["sync", "--compare", "digest", "source/tool", "target/tool"]).run().succeeds();
    assert_eq!((mode(&planted), mode(&sandbox.path("other name"))), (0o4755, 0o755));
}

/// A file of another user's, who has it open.
fn planted(sandbox: &Sandbox, name: &str, content: &str) -> fs::File {
    let path = sandbox.file(name, content);
    chown(&path, Some(4242), Some(4242)).expect("root may");
    fs::File::options().read(true).write(true).open(path).expect("it is there")
}

#[test]
fn in_place_nothing_is_written_into_another_users_file() {
    if !is_root_or_skip("files of another user") {
        return;
    }
    for options in [&["-f"][..], &["-f", "--preserve"], &["sync", "-aHAX"], &["-f", "--delta", "blocks"]] {
        for size in [9, 2_000_000] {
            let sandbox = Sandbox::new();
            let source = sandbox.big_file("tool", size);
            fs::set_permissions(&source, fs::Permissions::from_mode(0o4755)).expect("it is ours");
            let mut held = planted(&sandbox, "target/tool", "evil");
            let run = sandbox.haul(options).args(["--inplace", "tool", "target/tool"]).run().succeeds();
            run.says(["replaced instead of updated in place (--inplace): existing files of other users (1)"]);
            let mut seen = String::new();
            held.read_to_string(&mut seen).expect("it is open");
            held.write_all(b"more evil").expect("it is open");
            assert_eq!(seen, "evil", "{options:?}");
            let target = sandbox.path("target/tool");
            assert_eq!((fs::metadata(&target).expect("it is there").uid(), contents(&target)), (0, contents(&source)));
        }
    }
}

#[test]
fn in_place_the_final_owners_file_is_written_and_gets_no_set_id_bits() {
    if !is_root_or_skip("files of another user") {
        return;
    }
    for (mode, is_in_place) in [(0o755, true), (0o4755, false)] {
        let sandbox = Sandbox::new();
        let source = sandbox.file("tool", "new");
        chown(&source, Some(4242), Some(4242)).expect("root may");
        fs::set_permissions(&source, fs::Permissions::from_mode(mode)).expect("root may");
        let held = planted(&sandbox, "target/tool", "old and longer");
        sandbox.haul(["-f", "--preserve", "--inplace", "tool", "target/tool"]).run().succeeds();
        let there = fs::metadata(sandbox.path("target/tool")).expect("it is there");
        let before = held.metadata().expect("it is open");
        assert_eq!((there.ino() == before.ino(), there.mode() & 0o7777), (is_in_place, mode));
        assert_eq!(before.mode() & 0o7000, 0);
    }
}

#[test]
fn another_users_file_is_copied_anew_instead_of_changing_its_owner() {
    if !is_root_or_skip("files of another user") {
        return;
    }
    let all = [
        &["sync"][..],
        &["sync", "-aHAX"],
        &["sync", "--chown", "7:7"],
        &["-r", "-f", "--preserve"],
        &["sync", "--compare", "digest"],
    ];
    for options in all {
        let sandbox = Sandbox::new();
        let content = if options.contains(&"digest") { "same" } else { "evil" };
        let source = sandbox.file("source/a", "same");
        sandbox.dir("source/private");
        fs::hard_link(&source, sandbox.path("source/private/b")).expect("a name");
        let mut held = planted(&sandbox, "target/a", content);
        held.set_modified(source.metadata().and_then(|meta| meta.modified()).expect("a time")).expect("it can be set");
        let from = if options[0] == "sync" { "source/" } else { "source/." };
        sandbox.haul(options).args([from, "target"]).run().succeeds();
        held.write_all(b"EVIL").expect("it is open");
        let owner = if options.contains(&"--chown") { 7 } else { 0 };
        for name in ["target/a", "target/private/b"] {
            let path = sandbox.path(name);
            let uid = fs::metadata(&path).expect("it is there").uid();
            assert_eq!((uid, contents(&path)), (owner, b"same".to_vec()), "{options:?} {name}");
        }
        assert_eq!(held.metadata().expect("it is open").uid(), 4242, "{options:?}");
    }
    // Without -f, it stays as it is.
    let sandbox = Sandbox::new();
    let source = sandbox.file("source/a", "same");
    let held = planted(&sandbox, "target/a", "evil");
    held.set_modified(source.metadata().and_then(|meta| meta.modified()).expect("a time")).expect("it can be set");
    sandbox.haul(["--preserve", "source/a", "target/a"]).run().ends(1).says(["belongs to another user", "use -f"]);
    assert_eq!(held.metadata().expect("it is open").uid(), 4242);
}

#[test]
fn where_no_owner_can_be_set_files_are_up_to_date_and_none_is_sent_twice() {
    if !is_root_or_skip("files of other users") {
        return;
    }
    let sandbox = Sandbox::new();
    for (name, mode) in [("plain", 0o644), ("tool", 0o4755)] {
        let source = sandbox.file(format!("source/{name}"), "same");
        chown(&source, Some(4242), Some(4242)).expect("root may");
        fs::set_permissions(&source, fs::Permissions::from_mode(mode)).expect("root may");
    }
    let haul = haul_e2e::haul_binary().display().to_string();
    let sync = |options: &str| {
        let run =
            shell(&sandbox, &format!("setpriv --bounding-set=-chown {haul} sync --json {options} source/ target"));
        run.run().succeeds()
    };
    sync("");
    // As where a file system gives files an owner of its own.
    chown(sandbox.path("target/plain"), Some(65_534), Some(65_534)).expect("root may");
    for options in ["", "-aHAX", "--inplace"] {
        let run = sync(options);
        let summary = run.summary();
        assert_eq!((&summary["files_copied"], &summary["files_skipped"]), (&0.into(), &2.into()), "{}", run.account());
        assert_eq!(run.account().matches("stay with user 0 instead of 4242").count(), 1, "{}", run.account());
    }
    let tool = fs::metadata(sandbox.path("target/tool")).expect("it is there");
    assert_eq!((tool.uid(), tool.mode() & 0o7777), (0, 0o755));
}

#[test]
fn an_obstructing_directory_of_another_user_is_not_adopted() {
    if !is_root_or_skip("directories of another user") {
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.file("source/file", "content");
    let place = sandbox.dir("place");
    fs::set_permissions(&place, fs::Permissions::from_mode(0o777)).expect("it is ours");
    // The name that haul gives to it until it is remembered.
    let digest = shell(&sandbox, r"printf 'directory\0target' | b3sum --no-names").run().succeeds().stdout;
    let planted = sandbox.dir(format!("place/.haul-{}.part", &digest[..24]));
    fs::write(planted.join("planted"), "planted").expect("it can be written");
    chown(&planted, Some(NOBODY), Some(NOBODY)).expect("root may");
    sandbox.haul(["-r", "source", "place/target"]).run().succeeds();
    assert_eq!(
        (listing(&place.join("target")), listing(&planted)),
        (vec!["file".to_owned()], vec!["planted".to_owned()])
    );
    // A directory of this user's counts as the remains of a killed run.
    fs::remove_dir_all(place.join("target")).expect("it is ours");
    chown(&planted, Some(0), Some(0)).expect("root may");
    sandbox.haul(["-r", "source", "place/target"]).run().succeeds();
    assert_eq!(listing(&place), ["target"]);
}

#[test]
fn a_user_copies_into_a_world_writable_directory_without_touching_others_files() {
    if !is_root_or_skip("becoming another user") {
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.tree("source");
    let shared = sandbox.dir("shared");
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o1777)).expect("it is ours");
    let theirs = sandbox.file("shared/theirs", "root's");
    let run = sandbox.haul_of_user(["--json", "-r", "source", "shared"]).run().succeeds();
    is_confined(&run.summary());
    haul_e2e::compare(&sandbox.path("source"), &sandbox.path("shared/source")).expect("the same");
    assert_eq!(fs::metadata(shared.join("source/big")).expect("it is there").uid(), NOBODY);

    sandbox.file("mine/theirs", "nobody's");
    sandbox.haul_of_user(["-f", "mine/theirs", "shared"]).run().ends(1).says(["shared/theirs"]);
    assert_eq!(contents(&theirs), b"root's");
    assert_eq!(listing(&shared), ["source", "theirs"], "nothing is left behind");
}

#[test]
fn unreadable_and_unwritable_files_are_reported_to_a_user() {
    let sandbox = Sandbox::new();
    sandbox.file("source/open", "open");
    let closed = sandbox.file("source/closed", "closed");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).expect("it is ours");
    let place = sandbox.dir("place");
    give_to_user(&place);
    sandbox.haul_of_user(["-r", "source", "place"]).run().ends(1).says(["source/closed", "permission"]);
    assert_eq!(listing(&place.join("source")), ["open"]);

    let locked = sandbox.dir("not ours");
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o555)).expect("it is ours");
    sandbox.haul_of_user(["source/open", "not ours"]).run().ends(1).says(["not ours/open", "permission"]);
    sandbox.haul_of_user(["-r", "source", "not ours"]).run().ends(1).says(["not ours/source", "permission"]);
    assert_eq!(listing(&locked), Vec::<String>::new());
}

#[test]
fn a_link_of_another_user_leads_to_no_output() {
    if !is_root_or_skip("links of another user") {
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.file("a", "content");
    let own = sandbox.file("own", "");
    let shared = sandbox.dir("shared");
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o1777)).expect("it is ours");
    for name in ["out", "out.html", "out.csv", "out.json"] {
        symlink(&own, shared.join(name)).expect("a link");
        std::os::unix::fs::lchown(shared.join(name), Some(NOBODY), Some(NOBODY)).expect("root may");
    }
    for words in [
        &["--report", "shared/out.html", "a", "b"][..],
        &["--checksums", "shared/out", "a", "b"],
        &["--metrics", "shared/out", "a", "b"],
        &["--logfile", "shared/out", "a", "b"],
        &["survey", "--html", "shared/out.html", "a"],
        &["sweep", "--out", "shared/out", "a", "null:"],
    ] {
        let run = sandbox.haul(words.iter().copied()).run();
        assert!(run.status != Some(0) && run.stderr.contains("is a link of another user"), "{}", run.account());
        assert_eq!((contents(&own), listing(&shared).len()), (Vec::new(), 4), "{words:?}");
    }
}

#[test]
fn a_reader_of_the_target_directory_who_locks_it_stops_no_copy() {
    let sandbox = Sandbox::new();
    sandbox.tree("source");
    let reader = fs::File::open(sandbox.dir("target")).expect("it is readable");
    flock(&reader, FlockOperation::NonBlockingLockExclusive).expect("it is free");
    for words in [&["-r", "-f"][..], &["-r", "-f", "--inplace"], &["sync", "-aHAX", "--delete"]] {
        let run = sandbox.haul(words).args(["source", "target"]).run().succeeds();
        assert!(!format!("{}{}", run.stdout, run.stderr).contains("another haul"), "{}", run.account());
    }
}

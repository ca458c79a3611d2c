//! `haul sync`: each of its promises. `sync_pairs` has random pairs of trees.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use haul_e2e::{
    Attributes, ProgramRun, Remote, Rng, Sandbox, compare, compare_with, contents, eventually, fifo, give_to_user,
    hidden_or_partial, is_root_or_skip, listing, mtime, pid, set_mtime, stamp, user, within,
};
use haul_lab::descendants;
use rustix::process::{Signal, kill_process};

const OLD: (i64, u32) = (1_000_000_000, 1);
const NEW: (i64, u32) = (1_700_000_000, 2);

/// A file with a time.
fn file(sandbox: &Sandbox, path: &str, content: &str, time: (i64, u32)) -> PathBuf {
    let path = sandbox.file(path, content);
    set_mtime(&path, time.0, time.1);
    path
}

fn text(path: impl AsRef<Path>) -> String {
    String::from_utf8(contents(path.as_ref())).expect("these tests write text")
}

/// `haul sync OPTIONS s/ t/` in the sandbox.
#[track_caller]
fn sync(sandbox: &Sandbox, options: &[&str]) -> ProgramRun {
    sandbox.haul(["sync"]).args(options).args(["s/", "t/"]).run()
}

/// Reports of single entries: `change path`, below `t`, in alphabetical order.
#[track_caller]
fn items(run: &ProgramRun) -> Vec<String> {
    let events = run.events();
    let told = events.iter().filter(|event| event["event"] == "item").map(|event| {
        let path = event["path"].as_str().expect("a path");
        let below = path.rsplit_once("t/").map_or(path, |(_, below)| below);
        format!("{} {below}", event["change"].as_str().expect("a word"))
    });
    let mut told: Vec<_> = told.collect();
    told.sort();
    told
}

/// All entries of a tree, with stamps that reveal changes.
fn stamps(root: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::from([format!("{} {:?}", root.display(), stamp(root))]);
    if fs::symlink_metadata(root).is_ok_and(|meta| meta.is_dir()) {
        fs::read_dir(root).unwrap().for_each(|entry| found.extend(stamps(&entry.unwrap().path())));
    }
    found
}

#[test]
fn a_slash_decides_the_destination_whether_the_target_exists_or_not() {
    let sandbox = Sandbox::new();
    file(&sandbox, "s/a", "a", NEW);
    sandbox.haul(["sync", "s", "neither/is there"]).run().ends(2).says(["neither", "--mkdir"]);
    for (target, options) in [("missing", &[][..]), ("neither/is there", &["--mkdir"]), ("there", &[])] {
        sandbox.dir("there");
        sandbox.haul(["sync"]).args(options).args(["s", target]).run().succeeds();
        assert_eq!(text(sandbox.path(target).join("s/a")), "a");
        assert_eq!(listing(&sandbox.path(target)).iter().filter(|name| *name == "a").count(), 0);
    }
    for (source, target) in [("s/", "its contents"), ("s/.", "its contents too"), ("s/", "there too")] {
        sandbox.dir("there too");
        sandbox.haul(["sync", source, target]).run().succeeds();
        assert_eq!(listing(&sandbox.path(target)), ["a"]);
    }
    // With --delete, entries beside the source's own name stay.
    file(&sandbox, "there/beside", "stays", OLD);
    file(&sandbox, "there/s/alone", "goes", OLD);
    sandbox.haul(["sync", "--delete", "s", "there"]).run().succeeds();
    assert_eq!(
        (listing(&sandbox.path("there")), listing(&sandbox.path("there/s"))),
        (vec!["beside".into(), "s".into()], vec!["a".into()])
    );
}

#[test]
fn the_chosen_criterion_decides_equality() {
    let cases: [(&[&str], [&str; 4]); 6] = [
        (&[], ["new", "same", "equal", "longer"]),
        (&["--compare", "time"], ["new", "same", "equal", "longer"]),
        (&["--compare", "size"], ["old", "same", "equal", "longer"]),
        (&["--compare", "digest"], ["new", "SAME", "equal", "longer"]),
        (&["--compare", "exists"], ["old", "same", "equal", "long"]),
        (&["--compare", "never"], ["new", "SAME", "equal", "longer"]),
    ];
    for (options, expected) in cases {
        let sandbox = Sandbox::new();
        // Of one size and another time; of one size and time; equal but for its time; of another size.
        for (name, there, here, time) in [
            ("1", "old", "new", OLD),
            ("2", "same", "SAME", NEW),
            ("3", "equal", "equal", OLD),
            ("4", "long", "longer", OLD),
        ] {
            file(&sandbox, &format!("s/{name}"), here, NEW);
            file(&sandbox, &format!("t/{name}"), there, time);
        }
        let before = stamp(&sandbox.path("t/3"));
        sync(&sandbox, options).succeeds();
        assert_eq!(["1", "2", "3", "4"].map(|name| text(sandbox.path("t").join(name))), expected, "{options:?}");
        if options == ["--compare", "digest"] {
            assert_eq!(stamp(&sandbox.path("t/3")).0, before.0, "what has the same contents is not copied");
            assert_eq!(mtime(&sandbox.path("t/3")), (NEW.0, NEW.1.into()), "and gets its time");
        }
    }
}

#[test]
fn newer_missing_and_existing_files_may_stay_unchanged() {
    let later = (1_800_000_000, 0);
    let cases: [(&[&str], &str, &str, bool); 4] = [
        (&["--update"], "theirs", "source", true),
        (&["--existing"], "source", "source", false),
        (&["--ignore-existing"], "theirs", "older", true),
        (&["--update", "--existing"], "theirs", "source", false),
    ];
    for (options, newer, older, made) in cases {
        let sandbox = Sandbox::new();
        for name in ["newer", "older", "missing", "dir/missing"] {
            file(&sandbox, &format!("s/{name}"), "source", NEW);
        }
        file(&sandbox, "t/newer", "theirs", later);
        file(&sandbox, "t/older", "older", OLD);
        sync(&sandbox, options).succeeds();
        let target = sandbox.path("t");
        assert_eq!([text(target.join("newer")), text(target.join("older"))], [newer, older], "{options:?}");
        assert_eq!([target.join("missing").exists(), target.join("dir/missing").exists()], [made; 2], "{options:?}");
    }
}

/// A source with two files, and a target with those of them that are old and much besides.
fn with_more_at_the_target(sandbox: &Sandbox) -> PathBuf {
    file(sandbox, "s/a", "a", NEW);
    file(sandbox, "s/sub/b", "b", NEW);
    file(sandbox, "t/a", "old", OLD);
    ["t/x", "t/sub/y", "t/alone/deep/z", "t/alone/\\n"].iter().for_each(|name| drop(file(sandbox, name, "x", OLD)));
    symlink("a", sandbox.path("t/link")).unwrap();
    fifo(&sandbox.path("t/sub/pipe"));
    sandbox.path("t")
}

#[test]
fn extraneous_entries_are_deleted_on_request() {
    for when in ["--delete", "--delete=after", "--delete=during", "--delete=before"] {
        let sandbox = Sandbox::new();
        let target = with_more_at_the_target(&sandbox);
        sync(&sandbox, &[]).succeeds();
        assert!(target.join("alone/deep/z").exists(), "nothing goes by itself");
        let summary = sync(&sandbox, &["--json", when]).succeeds().summary();
        compare_with(&sandbox.path("s"), &target, Attributes { mtimes: true, ..Attributes::default() }).unwrap();
        assert_eq!(summary["deleted"], 8, "{when}: {summary}");
    }
}

#[test]
fn filters_protect_files_in_a_directory_that_is_a_file_or_link_at_the_source() {
    let set_up = |place: &str| {
        let sandbox = Sandbox::new();
        sandbox.file(format!("s/{place}n"), "a file");
        sandbox.dir(format!("s/{place}"));
        symlink("elsewhere", sandbox.path(format!("s/{place}l"))).unwrap();
        for name in ["n", "l"] {
            sandbox.file(format!("t/{place}{name}/in/keep.o"), "kept");
            sandbox.file(format!("t/{place}{name}/other"), "kept, too");
        }
        sandbox
    };
    let rules: [&[&str]; 4] =
        [&["--exclude", "*.o"], &["--exclude", "in/"], &["--filter-files", ".rules"], &["--exclude", "/sub/*/in/*.o"]];
    for when in ["--delete=before", "--delete=during", "--delete=after"] {
        for (at, rule) in rules.iter().enumerate() {
            let place = if at == 3 { "sub/" } else { "" };
            let sandbox = set_up(place);
            sandbox.file("s/.rules", "*.o\n");
            let dry = sync(&sandbox, &[*rule, &[when, "--dry-run"]].concat()).ends(1).says(["--delete-excluded"]);
            let run = sync(&sandbox, &[*rule, &[when]].concat()).ends(1).says(["--delete-excluded"]);
            for name in ["n", "l"] {
                let kept = sandbox.path(format!("t/{place}{name}"));
                assert_eq!(text(kept.join("in/keep.o")), "kept", "{when} {rule:?}\n{}", run.account());
                assert_eq!(text(kept.join("other")), "kept, too", "{when} {rule:?}\n{}", dry.account());
            }
            sync(&sandbox, &[*rule, &[when, "--delete-excluded"]].concat()).succeeds();
            assert_eq!(text(sandbox.path(format!("s/{place}n"))), text(sandbox.path(format!("t/{place}n"))));
        }
        // The name itself matches as a directory only.
        let sandbox = set_up("");
        sync(&sandbox, &[when, "--exclude", "n/"]).ends(1).says(["--delete-excluded"]);
        assert_eq!(text(sandbox.path("t/n/other")), "kept, too");
        // Unprotected entries are removed.
        let sandbox = set_up("");
        sync(&sandbox, &[when, "--exclude", "*.c"]).succeeds();
        compare(&sandbox.path("s"), &sandbox.path("t")).unwrap();
    }
}

#[test]
fn fifos_without_specials_protect_a_directory_that_is_a_file_at_the_source() {
    for when in ["--delete=before", "--delete=during", "--delete=after"] {
        let sandbox = Sandbox::new();
        sandbox.file("s/n", "a file");
        sandbox.dir("t/n");
        fifo(&sandbox.path("t/n/pipe"));
        sync(&sandbox, &[when]).ends(1).says(["protect"]);
        assert!(sandbox.path("t/n/pipe").symlink_metadata().is_ok());
        sync(&sandbox, &[when, "--specials"]).succeeds();
        assert_eq!(text(sandbox.path("t/n")), "a file");
    }
}

#[test]
fn rsyncs_letter_for_links_appends_no_log_to_a_source() {
    for (letters, status) in [("-l", 2), ("-rl", 0), ("-vl", 0)] {
        let sandbox = Sandbox::new();
        sandbox.file("f1", "one");
        sandbox.file("f2", "two");
        sandbox.dir("t");
        let run = sandbox.haul(["sync", letters, "f1", "f2", "t"]).run().ends(status);
        if status == 2 {
            run.says(["rsync's -l: omit it"]);
        }
        assert_eq!(text(sandbox.path("f1")), "one");
    }
}

#[test]
fn moved_files_are_never_extraneous() {
    for when in ["--delete", "--delete=before", "--delete=during"] {
        for more in [&[][..], &["--dry-run"]] {
            let sandbox = Sandbox::new();
            sandbox.file("s/new", "new");
            sandbox.file("t/moved", "moved by an attempt that was lost");
            let options = [&[when, "--remove-source-files"], more].concat();
            sync(&sandbox, &options).ends(2).says(["--remove-source-files cannot be used with --delete"]);
            assert_eq!(
                (listing(&sandbox.path("s")), listing(&sandbox.path("t"))),
                (vec!["new".into()], vec!["moved".into()])
            );
        }
    }
}

#[test]
fn an_empty_source_empties_the_target_only_on_request() {
    for when in ["--delete", "--delete=before", "--delete=during"] {
        for (sources, target) in [(["s/"], "t"), (["s"], "t/s")] {
            let sandbox = Sandbox::new();
            sandbox.dir("s");
            sandbox.file(format!("{target}/sub/file"), "the only copy");
            let run = |options: &[&str]| sandbox.haul(["sync", when]).args(options).args(sources).arg("t").run();
            for options in [&[][..], &["--dry-run"], &["--ignore-errors"]] {
                run(options).ends(1).says(["the source is empty", "--allow-empty-source"]);
                assert_eq!(text(sandbox.path(format!("{target}/sub/file"))), "the only copy", "{when} {options:?}");
            }
            run(&["--max-delete", "1"]).ends(1).says(["--max-delete"]);
            run(&["--allow-empty-source"]).succeeds();
            assert_eq!(listing(&sandbox.path(target)), Vec::<PathBuf>::new(), "{when}");
            // There is nothing left to lose.
            run(&[]).succeeds();
        }
    }
    // An empty directory below the source's is no sign of anything.
    let sandbox = Sandbox::new();
    sandbox.file("s/file", "x");
    sandbox.dir("s/sub");
    sandbox.file("t/sub/extraneous", "x");
    sync(&sandbox, &["--delete"]).succeeds();
    assert!(!sandbox.path("t/sub/extraneous").exists());
}

#[test]
fn delete_before_during_and_after_happen_in_time() {
    // Over an end that is slow by order, the first file of the source is at the target before the last one is begun.
    for (when, is_there_before, is_there_during) in [("before", false, false), ("after", true, true)] {
        let sandbox = Sandbox::new();
        sandbox.big_file("s/big", 4 << 20);
        file(&sandbox, "t/alone", "x", OLD);
        let mut running = sandbox.haul(["sync", &format!("--delete={when}"), "--xfrrate", "2m", "s/", "t/"]).start();
        let begun = || fs::read_dir(sandbox.path("t")).unwrap().flatten().any(|entry| entry.file_name() != "alone");
        eventually("the copy begins", begun);
        if !is_there_before {
            assert!(!sandbox.path("t/alone").exists(), "{when}");
        }
        assert_eq!(sandbox.path("t/alone").exists(), is_there_during, "{when}");
        running.wait_up_to(Duration::from_secs(30));
        ProgramRun::of(running).succeeds();
        assert!(!sandbox.path("t/alone").exists(), "{when}");
    }
}

#[test]
fn more_than_was_allowed_is_not_removed() {
    for when in ["--delete=after", "--delete=before", "--delete=during"] {
        let sandbox = Sandbox::new();
        let target = with_more_at_the_target(&sandbox);
        let run = sync(&sandbox, &[when, "--max-delete", "3"]).ends(1).says(["max-delete"]);
        let left = ["x", "sub/y", "alone/deep/z", "alone/\\n", "alone/deep", "alone", "link", "sub/pipe"];
        let left = left.iter().filter(|name| target.join(name).symlink_metadata().is_ok()).count();
        assert_eq!(left, if when == "--delete=during" { 5 } else { 8 }, "{when}\n{}", run.account());
        assert_eq!(text(target.join("a")), "a", "and all else is done");
        sync(&sandbox, &[when, "--max-delete", "8"]).succeeds();
        compare(&sandbox.path("s"), &target).unwrap();
    }
}

#[test]
fn max_delete_counts_entries_in_replaced_directories() {
    let sandbox = Sandbox::new();
    sandbox.file("s/a", "a");
    ["t/a/1", "t/a/2", "t/a/3", "t/a/4", "t/x", "t/y"].iter().for_each(|name| drop(sandbox.file(name, "old")));
    let run = sync(&sandbox, &["--delete=after", "--max-delete", "5"]).ends(1);
    run.says(["6 extraneous entries with 4 in replaced directories, but --max-delete permits 5: the others are kept"]);
    assert_eq!(listing(&sandbox.path("t")), ["a", "x", "y"]);
    sync(&sandbox, &["--delete=after", "--max-delete", "2"]).succeeds();
    assert_eq!(listing(&sandbox.path("t")), ["a"]);
}

#[test]
fn max_delete_is_independent_of_a_linked_files_arrival() {
    // A directory of two entries is in the place of the file's second name, and another directory has two more:
    // together more than the limit. The first in the source's order use it up.
    for [first, second, beside] in [["a", "b", "c"], ["a", "c", "b"], ["b", "c", "a"], ["c", "a", "b"]] {
        let sandbox = Sandbox::new();
        let big = sandbox.big_file(format!("s/{first}/1"), 2_000_000);
        sandbox.dir(format!("s/{second}"));
        fs::hard_link(&big, sandbox.path(format!("s/{second}/1"))).unwrap();
        sandbox.file(format!("s/{beside}/kept"), "kept");
        ["x", "y"].iter().for_each(|name| drop(sandbox.file(format!("t/{second}/1/{name}"), "old")));
        ["p", "q"].iter().for_each(|name| drop(sandbox.file(format!("t/{beside}/{name}"), "old")));
        // It arrives after everything else.
        let options =
            ["--json", "--hard-links", "--delete=during", "--max-delete", "3", "--ignore-errors", "--xfrrate", "1m"];
        let planned = sync(&sandbox, &[&options[..], &["--dry-run"]].concat()).ends(1);
        let done = sync(&sandbox, &[&options[..], &["--items"]].concat()).ends(1);
        assert_eq!(items(&planned), items(&done), "{}\n{}", planned.account(), done.account());
    }
}

#[test]
fn replaced_and_removed_files_are_backed_up_on_request() {
    let sandbox = Sandbox::new();
    let target = with_more_at_the_target(&sandbox);
    let old = stamp(&target.join("a")).0;
    let summary = sync(&sandbox, &["--json", "--delete", "--backup-dir", "kept"]).succeeds().summary();
    let kept = target.join("kept");
    assert_eq!([text(kept.join("a")), text(kept.join("sub/y")), text(kept.join("alone/deep/z"))], ["old", "x", "x"]);
    assert_eq!(stamp(&kept.join("a")).0, old, "it is the old file itself");
    assert_eq!(fs::read_link(kept.join("link")).unwrap(), Path::new("a"));
    assert!(summary["backed_up"].as_u64().unwrap() >= 6, "{summary}");
    // Backups are neither removed nor backed up again.
    sync(&sandbox, &["--delete", "--backup-dir", "kept"]).succeeds();
    assert_eq!(text(kept.join("a")), "old");
    assert_eq!(text(target.join("a")), "a");
    // Elsewhere on the same file system.
    file(&sandbox, "s/a", "newest", (1_800_000_000, 0));
    let elsewhere = sandbox.path("elsewhere/today");
    sync(&sandbox, &["--backup-dir", elsewhere.to_str().unwrap()]).succeeds();
    assert_eq!([text(elsewhere.join("a")), text(target.join("a"))], ["a", "newest"]);
}

#[test]
fn the_target_always_has_a_file_that_is_backed_up() {
    let sandbox = Sandbox::new();
    let name = sandbox.path("t/f");
    for round in 0..30 {
        file(&sandbox, "s/f", &format!("round {round}"), (1_000_000_000 + round, 0));
        let running = sandbox.haul(["sync", "--backup-dir", "kept", "s/", "t/"]).start();
        let mut missed = false;
        let is_new = || {
            round == 0 || {
                missed |= !name.exists();
                text(&name) == format!("round {round}")
            }
        };
        assert!(within(Duration::from_secs(20), is_new));
        assert!(!missed, "there was a moment without the file");
        ProgramRun::of(running).succeeds();
    }
    assert_eq!([text(&name), text(sandbox.path("t/kept/f"))], ["round 29", "round 28"]);
}

#[test]
fn a_file_of_an_earlier_copy_becomes_a_hard_link() {
    let sandbox = Sandbox::new();
    let names = ["same", "sub/same too", "changed", "new"];
    names.iter().for_each(|name| drop(file(&sandbox, &format!("s/{name}"), "today", NEW)));
    sandbox.haul(["sync", "s/", "monday/"]).run().succeeds();
    fs::remove_file(sandbox.path("monday/new")).unwrap();
    file(&sandbox, "s/changed", "changed", (1_800_000_000, 0));
    let run = sandbox.haul(["sync", "--json", "--items", "--link-dest", "../monday", "s/", "t/"]).run().succeeds();
    compare_with(&sandbox.path("s"), &sandbox.path("t"), Attributes { mtimes: true, ..Attributes::default() }).unwrap();
    let is_linked = |name: &str| {
        let [here, there] =
            ["t", "monday"].map(|tree| fs::metadata(sandbox.path(tree).join(name)).map(|meta| meta.ino()).ok());
        here == there
    };
    assert_eq!(names.map(is_linked), [true, true, false, false]);
    assert_eq!(run.summary()["linked"], 2, "{}", run.account());
    let told = items(&run);
    assert!(told.contains(&"linked same".to_owned()) && told.contains(&"created new".to_owned()), "{told:?}");
    // Writing to a hard link of an earlier copy's file would change the past: a later sync creates a separate file.
    file(&sandbox, "s/same", "TODAY", (1_900_000_000, 0));
    sync(&sandbox, &[]).succeeds();
    assert_eq!([text(sandbox.path("t/same")), text(sandbox.path("monday/same"))], ["TODAY", "today"]);
}

#[test]
fn metadata_changes_leave_an_earlier_copy_unchanged() {
    let sandbox = Sandbox::new();
    let source = file(&sandbox, "s/f", "today", NEW);
    sandbox.haul(["sync", "s/", "monday/"]).run().succeeds();
    fs::set_permissions(&source, fs::Permissions::from_mode(0o600)).unwrap();
    let before = stamp(&sandbox.path("monday/f")).0;
    sandbox.haul(["sync", "--link-dest", "../monday", "s/", "t/"]).run().succeeds();
    let mode = |tree: &str| fs::metadata(sandbox.path(tree).join("f")).unwrap().mode() & 0o777;
    assert_eq!((mode("t"), mode("monday")), (0o600, 0o644));
    assert_ne!(stamp(&sandbox.path("t/f")).0, before);
}

#[test]
fn only_sent_files_are_removed_at_the_source() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    for (round, to) in ["t/".into(), remote.at(sandbox.path("far/"))].into_iter().enumerate() {
        for name in ["small", "sub/deep/small", "there already"] {
            file(&sandbox, &format!("s/{name}"), "content", NEW);
        }
        sandbox.big_file("s/large", 3_000_000);
        fs::hard_link(sandbox.path("s/small"), sandbox.path("s/its other name")).unwrap();
        let _ = symlink("small", sandbox.path("s/link"));
        let target = sandbox.path(["t", "far"][round]);
        file(&sandbox, &format!("{}/there already", ["t", "far"][round]), "content", NEW);
        let options = ["--json", "--hard-links", "--remove-source-files"];
        let login = if round == 1 { remote.sshd().haul_args() } else { Vec::new() };
        let haul = || sandbox.haul(["sync"]).args(&login).args(options);
        let dry = haul().args(["--dry-run", "s/"]).arg(&to).run().succeeds();
        assert_eq!(dry.summary()["deleted_at_source"], 0, "a dry run removes nothing");
        assert!(sandbox.path("s/large").exists());
        let run = haul().args(["s/"]).arg(&to).run().succeeds();
        assert_eq!(run.summary()["deleted_at_source"], 5, "{}", run.account());
        assert_eq!(run.summary()["left_at_source"], 1, "{}", run.account());
        assert_eq!(listing(&sandbox.path("s")), ["sub", "there already"]);
        assert!(sandbox.path("s/sub/deep").is_dir());
        let names = ["its other name", "large", "link", "small", "sub", "there already"];
        assert_eq!(listing(&target), names);
        assert_eq!(fs::metadata(target.join("large")).unwrap().len(), 3_000_000);
        // A different existing file of the same size and time; a link to something else.
        file(&sandbox, "s/other", "contenT", NEW);
        file(&sandbox, &format!("{}/other", ["t", "far"][round]), "content", NEW);
        symlink("elsewhere", sandbox.path("s/small")).unwrap();
        symlink("small", sandbox.path("s/link")).unwrap();
        let words = sandbox.haul(["sync"]).args(&login).args(["--remove-source-files", "s/"]).arg(&to).run().succeeds();
        words.says(["2 files at the source: growing, or not sent in this run and so not verified"]);
        assert_eq!(listing(&sandbox.path("s")), ["other", "sub", "there already"]);
        let run = haul().args(["--compare", "digest", "s/"]).arg(&to).run().succeeds();
        assert_eq!((&run.summary()["deleted_at_source"], &run.summary()["left_at_source"]), (&2.into(), &0.into()));
        assert_eq!(listing(&sandbox.path("s")), ["sub"]);
        assert_eq!(fs::read(target.join("other")).unwrap(), b"contenT", "it was another one, and was replaced");
        assert_eq!(fs::read_link(target.join("small")).unwrap(), Path::new("elsewhere"));
    }
}

#[test]
fn among_several_sources_the_first_one_counts_in_every_run() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    for (path, text) in [
        ("b/x", "b"),
        ("b/d/y", "b"),
        ("b/d/only b", "b"),
        ("b/turned/z", "b"),
        ("b/turned too", "b"),
        ("c/x", "longer"),
        ("c/d/y", "longer"),
        ("c/d/only c", "c"),
        ("c/turned", "c"),
        ("c/turned too/z", "c"),
        ("x", "typed"),
    ] {
        file(&sandbox, path, text, NEW);
    }
    set_mtime(&sandbox.path("b/d"), OLD.0, OLD.1);
    fs::set_permissions(sandbox.path("b/d"), fs::Permissions::from_mode(0o750)).unwrap();
    for (target, to) in [("t", "t/".into()), ("far", remote.at(sandbox.path("far/")))] {
        let there = sandbox.path(target);
        for run in 0..3 {
            let login = if target == "far" { remote.sshd().haul_args() } else { Vec::new() };
            let haul = sandbox.haul(["sync", "--json"]).args(login).args(["b/", "c/", "x"]);
            let run = haul.args(if run == 0 { &["--dry-run"][..] } else { &[] }).arg(&to).run().succeeds();
            let told: Vec<_> = run.events().into_iter().filter(|event| event["event"] == "left_out").collect();
            assert_eq!((told.len(), &run.summary()["left_out"]), (5, &5.into()), "{}", run.account());
            let is_x = |path: &str| path.ends_with("/x") || path == "x";
            assert_eq!(told.iter().filter(|event| is_x(event["path"].as_str().unwrap())).count(), 2);
        }
        assert_eq!(
            ["x", "d/y", "d/only c", "turned/z", "turned too"].map(|path| text(there.join(path))),
            ["b", "b", "c", "b", "b"]
        );
        assert_eq!(fs::metadata(there.join("d")).unwrap().mode() & 0o777, 0o750);
        assert_eq!(mtime(&there.join("d")), (OLD.0, OLD.1.into()));
        let verify = |sources: &[&str]| {
            let haul = sandbox.haul(["verify", "-r", "-p"]).args(remote.sshd().haul_args()).args(sources);
            haul.arg(remote.at(&there)).run()
        };
        verify(&["b/.", "c/.", "x"]).succeeds();
        verify(&["c/.", "b/."]).ends(1);
    }
}

#[test]
fn removals_before_a_lost_connection_count_after_the_restart() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    sandbox.big_file("s/big", 8_000_000);
    file(&sandbox, "s/a/same", "same", NEW);
    // It exists already: the directory completes at once.
    file(&sandbox, "t/a/same", "same", NEW);
    let there = sandbox.path("t");
    for extra in ["a/1", "a/2", "a/3", "4", "5"] {
        sandbox.file(format!("t/{extra}"), extra);
    }
    let haul = sandbox.haul([
        "sync",
        "--json",
        "--delete=during",
        "--max-delete",
        "3",
        "--xfrrate",
        "2m",
        "--compress",
        "off",
    ]);
    let mut running = haul.args(remote.sshd().haul_args()).arg("s/").arg(remote.at(&there)).start();
    let limit = Duration::from_secs(60);
    let is_removed = || ["1", "2", "3"].iter().all(|extra| !there.join("a").join(extra).exists());
    assert!(within(limit, is_removed), "nothing is removed\n{}", running.stderr_so_far());
    // Removals are reported twice a second, and this many take two seconds.
    let arrived = within(limit, || hidden_or_partial(&there, &["a", "4", "5"], 4_000_000).is_some());
    assert!(arrived, "nothing arrived\n{}", running.stderr_so_far());
    let workers = remote.workers();
    assert!(!workers.is_empty());
    for worker in workers {
        let pid = rustix::process::Pid::from_raw(i32::try_from(worker).unwrap()).unwrap();
        kill_process(pid, Signal::KILL).unwrap();
    }
    assert!(running.wait_up_to(limit), "still running");
    let run = ProgramRun::of(running).ends(1).says(["--max-delete"]);
    assert_eq!((&run.summary()["deleted"], &run.summary()["restarts"]), (&3.into(), &1.into()), "{}", run.account());
    assert_eq!(listing(&there), ["4", "5", "a", "big"]);
}

#[test]
fn files_that_did_not_arrive_are_not_removed_at_the_source() {
    let sandbox = Sandbox::new();
    sandbox.file("s/good", "good");
    // Without --delete, it cannot be replaced.
    sandbox.file("s/bad", "bad");
    sandbox.file("t/bad/in the way", "x");
    sync(&sandbox, &["--remove-source-files"]).ends(1).says(["bad"]);
    assert_eq!(listing(&sandbox.path("s")), ["bad"]);
}

#[test]
fn a_dry_run_reports_all_changes_and_touches_nothing() {
    let sandbox = Sandbox::new();
    with_more_at_the_target(&sandbox);
    file(&sandbox, "s/turned/into a directory", "x", NEW);
    file(&sandbox, "t/turned", "a file", OLD);
    file(&sandbox, "t/mode", "same", NEW);
    let changed = file(&sandbox, "s/mode", "same", NEW);
    fs::set_permissions(changed, fs::Permissions::from_mode(0o600)).unwrap();
    for options in [
        &["--json", "--delete"][..],
        &["--json", "--delete=during", "--backup-dir", "kept"],
        &["--json", "--delete", "--link-dest", "sub"],
    ] {
        let before = [stamps(&sandbox.path("s")), stamps(&sandbox.path("t"))];
        let dry = sync(&sandbox, &[options, &["--dry-run"]].concat()).succeeds();
        assert_eq!([stamps(&sandbox.path("s")), stamps(&sandbox.path("t"))], before, "{options:?}");
        let told = items(&dry);
        for expected in [
            "deleted x",
            "replaced a",
            "created sub/b",
            "adjusted mode",
            "replaced turned",
            "created turned/into a directory",
        ] {
            assert!(told.contains(&expected.to_owned()), "{expected} is not among {told:?}");
        }
        let summary = dry.summary();
        let planned: Vec<_> = (dry.events().into_iter())
            .filter(|event| event["what"] == "file" && (event["change"] == "created" || event["change"] == "replaced"))
            .collect();
        let bytes: u64 = planned.iter().filter_map(|event| event["bytes"].as_u64()).sum();
        assert_eq!(summary["dry_run"], true);
        assert!(
            bytes > 0 && summary["files_planned"] == planned.len() && summary["bytes_planned"] == bytes,
            "{summary}"
        );
    }
    let told = items(&sync(&sandbox, &["--json", "--delete", "--dry-run"]).succeeds());
    assert_eq!(items(&sync(&sandbox, &["--json", "--delete", "--items"]).succeeds()), told);
    assert_eq!(items(&sync(&sandbox, &["--json", "--delete", "--items"]).succeeds()), [""; 0], "all is done");
}

#[test]
fn a_dry_run_makes_no_target() {
    let sandbox = Sandbox::new();
    file(&sandbox, "s/a", "a", NEW);
    let dry = sync(&sandbox, &["--dry-run", "--json", "--delete"]).succeeds();
    assert!(!sandbox.path("t").exists(), "{}", dry.account());
    assert!(items(&dry).contains(&"created a".to_owned()), "{}", dry.account());
}

#[test]
fn after_an_incomplete_listing_nothing_is_removed() {
    for when in ["--delete=after", "--delete=before", "--delete=during"] {
        let sandbox = Sandbox::new();
        file(&sandbox, "s/a", "a", NEW);
        file(&sandbox, "s/closed/b", "b", NEW);
        file(&sandbox, "t/alone", "x", OLD);
        file(&sandbox, "t/closed/b", "b", NEW);
        for path in ["s", "s/a", "s/closed", "s/closed/b", "t", "t/alone", "t/closed", "t/closed/b"] {
            give_to_user(&sandbox.path(path));
        }
        let closed = |mode| fs::set_permissions(sandbox.path("s/closed"), fs::Permissions::from_mode(mode)).unwrap();
        closed(0);
        let run = |options: &[&'static str]| {
            sandbox.haul_of_user(["sync", when].into_iter().chain(options.iter().copied()).chain(["s/", "t/"])).run()
        };
        let said = run(&[]).ends(1).says(["closed", "--ignore-errors"]);
        assert!(sandbox.path("t/closed/b").exists(), "{}", said.account());
        // With --delete=during, entries found earlier may be gone.
        assert!(sandbox.path("t/alone").exists() || when == "--delete=during", "{}", said.account());
        run(&["--ignore-errors"]).ends(1);
        assert!(!sandbox.path("t/alone").exists());
        closed(0o755);
        run(&[]).succeeds();
        compare(&sandbox.path("s"), &sandbox.path("t")).unwrap();
        assert_eq!(fs::metadata(sandbox.path("t/a")).unwrap().uid(), user());
    }
}

#[test]
fn for_an_unreadable_file_possible_old_names_are_kept() {
    for when in ["--delete=after", "--delete=during", "--delete=before"] {
        let sandbox = Sandbox::new();
        let renamed = file(&sandbox, "s/new name", "content", NEW);
        file(&sandbox, "s/sub/other", "content", NEW);
        file(&sandbox, "t/old name", "content", NEW);
        file(&sandbox, "t/alone/too", "x", OLD);
        for path in ["s", "s/new name", "s/sub", "s/sub/other", "t", "t/old name", "t/alone", "t/alone/too"] {
            give_to_user(&sandbox.path(path));
        }
        let allow = |mode| fs::set_permissions(&renamed, fs::Permissions::from_mode(mode)).unwrap();
        let run = |options: &[&'static str]| {
            sandbox.haul_of_user(["sync", when].into_iter().chain(options.iter().copied()).chain(["s/", "t/"])).run()
        };
        allow(0);
        let said = run(&[]).ends(1).says(["new name"]);
        assert_eq!(text(sandbox.path("t/sub/other")), "content");
        // As in rsync: before the copy, nobody knows that a file cannot be read.
        if when != "--delete=before" {
            said.says(["extraneous entries kept: 3", "--ignore-errors"]);
            assert_eq!(listing(&sandbox.path("t")), ["alone", "old name", "sub"], "{when}");
            run(&["--ignore-errors"]).ends(1);
        }
        assert_eq!(listing(&sandbox.path("t")), ["sub"], "{when}");
        allow(0o644);
        file(&sandbox, "t/old name", "content", NEW);
        give_to_user(&sandbox.path("t/old name"));
        run(&[]).succeeds();
        compare(&sandbox.path("s"), &sandbox.path("t")).unwrap();
    }
}

#[test]
fn on_a_full_target_possible_old_names_are_kept() {
    if !is_root_or_skip("mounting a small file system") {
        return;
    }
    for when in ["--delete=after", "--delete=during"] {
        let sandbox = Sandbox::new();
        let small = sandbox.tmpfs("t", "size=8m");
        sandbox.big_file("s/new name", 6_000_000);
        sandbox.big_file("t/old name", 4_000_000);
        sync(&sandbox, &[when]).ends(1).says(["no space", "extraneous entries kept: 1"]);
        assert_eq!(fs::metadata(small.path().join("old name")).unwrap().len(), 4_000_000);
        sync(&sandbox, &[when, "--ignore-errors"]).ends(1).says(["no space"]);
        sync(&sandbox, &[when]).succeeds();
        assert_eq!(listing(small.path()), ["new name"], "{when}");
    }
}

#[test]
fn for_a_missing_source_nothing_is_removed() {
    let sandbox = Sandbox::new();
    file(&sandbox, "s/a", "a", NEW);
    for target in ["t/gone/b", "t/s/alone", "t/alone"] {
        file(&sandbox, target, "x", OLD);
    }
    sandbox.haul(["sync", "--delete", "s", "gone", "t"]).run().ends(1).says(["gone"]);
    for name in ["t/gone/b", "t/s/alone", "t/alone"] {
        assert!(sandbox.path(name).exists(), "{name}");
    }
    sandbox.haul(["sync", "--delete", "gone/", "t/"]).run().ends(1).says(["gone"]);
    assert!(sandbox.path("t/alone").exists());
}

#[test]
fn excluded_entries_stay_unless_deletion_is_requested() {
    for when in ["--delete", "--delete=during", "--delete=before"] {
        let sandbox = Sandbox::new();
        for name in ["a", "a.o", "sub/b.o"] {
            file(&sandbox, &format!("s/{name}"), "x", NEW);
        }
        for name in ["there.o", "there", "alone/kept.o", "alone/goes", "sub/b.o"] {
            file(&sandbox, &format!("t/{name}"), "theirs", OLD);
        }
        sync(&sandbox, &[when, "--exclude", "*.o"]).succeeds();
        assert_eq!(listing(&sandbox.path("t")), ["a", "alone", "sub", "there.o"], "{when}");
        assert_eq!(
            (listing(&sandbox.path("t/alone")), listing(&sandbox.path("t/sub"))),
            (vec!["kept.o".into()], vec!["b.o".into()])
        );
        sync(&sandbox, &[when, "--exclude", "*.o", "--delete-excluded"]).succeeds();
        assert_eq!(
            (listing(&sandbox.path("t")), listing(&sandbox.path("t/sub")).len()),
            (vec!["a".into(), "sub".into()], 0),
            "{when}"
        );
    }
}

#[test]
fn an_end_inside_the_other_does_no_harm() {
    let sandbox = Sandbox::new();
    file(&sandbox, "s/a", "a", NEW);
    file(&sandbox, "s/in/b", "b", NEW);
    let before = stamps(&sandbox.path("s/in"));
    for options in [&["sync"][..], &["sync", "--delete"]] {
        let run = sandbox.haul(options).args(["s/", "s/in/"]).run();
        assert_ne!(run.status, Some(0), "{}", run.account());
        assert_eq!(stamps(&sandbox.path("s/in")), before, "{}", run.account());
    }
    // Left out of the source, the target may lie there, whether it is there yet or not.
    symlink("s", sandbox.path("link")).unwrap();
    for (target, pattern) in [("s/in/deep/", "deep/"), ("s/in/", "/in/"), ("s/new/", "new"), ("link/far/", "/far")] {
        let run = sandbox
            .haul(["sync", "--delete", "--exclude", pattern, "--exclude", "/in/", "s/", target])
            .run()
            .succeeds();
        assert_eq!(listing(&sandbox.path(target)), ["a"], "{}", run.account());
        let again = sandbox.haul(["sync", "--delete", "--exclude", "elsewhere", "s/", target]).run();
        assert_ne!(again.status, Some(0), "{}", again.account());
        again.says(["--exclude"]);
        fs::remove_dir_all(sandbox.path(target)).unwrap();
    }
    // The source within the target: it is at the target alone, and it is the source.
    file(&sandbox, "t/source/a", "a", NEW);
    file(&sandbox, "t/alone", "x", OLD);
    for when in ["--delete", "--delete=during", "--delete=before"] {
        let run = sandbox.haul(["sync", when, "t/source/", "t/"]).run();
        assert_eq!(text(sandbox.path("t/source/a")), "a", "{}", run.account());
    }
    let run = sandbox.haul(["sync", "--delete", "t/", "t/"]).run();
    assert!(sandbox.path("t/source/a").exists() && run.status != Some(0), "{}", run.account());
}

#[test]
fn a_named_link_stays_a_link_unless_a_slash_or_an_option_says_otherwise() {
    let sandbox = Sandbox::new();
    file(&sandbox, "tree/a", "a", NEW);
    file(&sandbox, "file", "f", NEW);
    for (link, to) in [("to-tree", "tree"), ("to-file", "file"), ("to-nothing", "nowhere")] {
        symlink(to, sandbox.path(link)).unwrap();
    }
    let points_to = |path: &str| fs::read_link(sandbox.path(path)).ok();
    sandbox.haul(["sync", "to-tree", "to-file", "to-nothing", "t"]).run().succeeds();
    for (link, to) in [("to-tree", "tree"), ("to-file", "file"), ("to-nothing", "nowhere")] {
        assert_eq!(points_to(&format!("t/{link}")), Some(to.into()));
    }
    let again = sandbox.haul(["sync", "--json", "--items", "to-tree", "to-file", "to-nothing", "t"]).run().succeeds();
    assert_eq!(items(&again), [""; 0]);
    sandbox.file("list", "to-tree\nto-file\n");
    sandbox.haul(["sync", "--infiles", "list", "listed/"]).run().succeeds();
    assert_eq!(points_to("listed/to-file"), Some("file".into()));
    sandbox.haul(["sync", "to-tree/", "slash/"]).run().succeeds();
    assert_eq!(text(sandbox.path("slash/a")), "a");
    sandbox.haul(["sync", "--symlinks", "follow", "to-tree", "to-file", "followed"]).run().succeeds();
    assert_eq!(
        (text(sandbox.path("followed/to-tree/a")), text(sandbox.path("followed/to-file"))),
        ("a".into(), "f".into())
    );
    // A copy follows symbolic links among its arguments, like cp -r and scp.
    sandbox.haul(["-r", "--mkdir", "to-tree", "to-file", "copied"]).run().succeeds();
    assert_eq!(
        (text(sandbox.path("copied/to-tree/a")), text(sandbox.path("copied/to-file"))),
        ("a".into(), "f".into())
    );
}

#[test]
fn over_ssh_it_is_the_same_in_both_directions() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    let source = sandbox.tree("s");
    set_mtime(&source.join("big"), NEW.0, NEW.1);
    file(&sandbox, "far/alone/x", "x", OLD);
    file(&sandbox, "far/big", "old", OLD);
    file(&sandbox, "back/small", "a file where a directory is to be", OLD);
    let far = remote.at(sandbox.path("far/"));
    let all = Attributes { modes: true, mtimes: true, ..Attributes::default() };
    for (from, to, place) in [("s/".into(), far.clone(), "far"), (far, "back/".into(), "back")] {
        let run = |options: &[&str]| {
            let haul =
                sandbox.haul(["sync"]).args(remote.sshd().haul_args()).args(["--json", "--delete"]).args(options);
            haul.arg(&from).arg(&to).run().succeeds()
        };
        let dry = items(&run(&["--dry-run"]));
        assert_eq!(items(&run(&["--items"])).len(), dry.len());
        compare_with(&source, &sandbox.path(place), all).unwrap();
        assert_eq!(items(&run(&["--items"])), [""; 0]);
        // A comparison of contents finds no work either.
        set_mtime(&sandbox.path(place).join("big"), OLD.0, OLD.1);
        let digests = run(&["--compare", "digest", "--items"]);
        assert_eq!(digests.summary()["files_copied"], 0, "{}", digests.account());
        compare_with(&source, &sandbox.path(place), all).unwrap();
    }
    remote.is_left_clean();
}

#[test]
fn a_target_without_attributes_is_no_obstacle() {
    if !is_root_or_skip("a mount") {
        return;
    }
    let sandbox = Sandbox::new();
    let plain = sandbox.mount("ramfs", "plain", "mode=755");
    file(&sandbox, "s/a", "a", (1_700_000_000, 0));
    file(&sandbox, "s/sub/b", "b", (1_700_000_000, 0));
    rustix::fs::lsetxattr(sandbox.path("s/a"), "user.color", b"red", rustix::fs::XattrFlags::empty()).unwrap();
    fs::create_dir(plain.path().join("alone")).unwrap();
    let run = || {
        sandbox
            .haul(["sync", "--json", "--items", "--delete", "--xattrs", "s/"])
            .arg(format!("{}/", plain.path().display()))
            .run()
    };
    let first = run().ends(1);
    compare(&sandbox.path("s"), plain.path()).unwrap();
    assert!(first.stdout.contains("not all extended attributes can be set: user.color"), "{}", first.account());
    let again = run().ends(1);
    assert_eq!(again.summary()["files_copied"], 0, "{}", again.account());
}

/// Made of `version`; all of one size.
fn version(sandbox: &Sandbox, tree: &str, version: u32) -> Vec<Vec<u8>> {
    let mut rng = Rng::new(version.into());
    let sizes = [700_000, 10, 300_000, 4_000, 0, 2_000_000];
    (0..60usize)
        .map(|i| {
            let content = rng.bytes(sizes[i % sizes.len()]);
            let path = sandbox.file(format!("{tree}/d{}/f{i}", i % 7), &content);
            set_mtime(&path, 1_000_000_000 + i64::from(version), 0);
            content
        })
        .collect()
}

#[test]
fn killed_at_any_moment_each_file_is_its_old_or_its_new_self_and_the_next_run_completes() {
    let sandbox = Sandbox::new();
    let mut rng = Rng::new(7);
    let mut old = version(&sandbox, "s", 0);
    sync(&sandbox, &[]).succeeds();
    let whole = sync(&sandbox, &["--delete"]).elapsed.max(Duration::from_millis(50));
    for round in 1..=12 {
        let new = version(&sandbox, "s", round);
        file(&sandbox, "t/alone/x", "x", OLD);
        let when = rng.pick(&["--delete=during", "--delete=after", "--delete=before"]);
        let mut running = sandbox.haul(["sync", when, "s/", "t/"]).start();
        // Anything from the beginning to a bit after the end.
        let moment = whole * u32::try_from(rng.below(2000)).expect("it is small") / 1000;
        within(moment, || false);
        running.signal(Signal::KILL);
        running.wait_up_to(Duration::from_secs(20));
        drop(running);
        for (i, (old, new)) in old.iter().zip(&new).enumerate() {
            let now = contents(&sandbox.path(format!("t/d{}/f{i}", i % 7)));
            assert!(now == *old || now == *new, "round {round}: file {i} is neither");
        }
        // Its workers may need a moment to notice.
        let completes = || sandbox.haul(["sync", "--delete", "s/", "t/"]).run().status == Some(0);
        assert!(within(Duration::from_secs(30), completes), "round {round}");
        compare_with(&sandbox.path("s"), &sandbox.path("t"), Attributes { mtimes: true, ..Attributes::default() })
            .unwrap_or_else(|wrong| panic!("round {round}: {wrong}"));
        old = new;
    }
}

#[test]
fn moved_files_are_made_from_existing_ones() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    let mut rng = Rng::new(77);
    for (name, bytes) in [("one", 3 << 20), ("two", 40_000), ("three", 900_000), ("tiny", 100)] {
        fs::create_dir_all(sandbox.path("s/before")).unwrap();
        fs::write(sandbox.path("s/before").join(name), rng.bytes(bytes)).unwrap();
    }
    let far = remote.at(sandbox.path("t/"));
    let run = |options: &[&str]| {
        let haul =
            sandbox.haul(["sync"]).args(remote.sshd().haul_args()).args(["--json", "--compress", "off"]).args(options);
        let run = haul.arg("s/").arg(&far).run().succeeds();
        let summary = run.summary();
        (summary["bytes_on_wire"].as_u64().unwrap(), summary["delta"].clone())
    };
    let (whole, _) = run(&[]);
    assert!(whole > 3_900_000, "{whole}");
    fs::rename(sandbox.path("s/before"), sandbox.path("s/after")).unwrap();
    // Another name with the same time; and another content with the same size and name, at the cost of its difference.
    fs::rename(sandbox.path("s/after/two"), sandbox.path("s/after/second")).unwrap();
    let mut changed = contents(&sandbox.path("s/after/three"));
    changed[500_000..500_100].fill(0);
    fs::write(sandbox.path("s/after/three"), changed).unwrap();
    let (moved, delta) = run(&["--detect-renames", "--delete"]);
    assert!(moved < 100_000, "{moved} bytes for what is there already: {delta}");
    assert_eq!(delta["files"], 3, "{delta}");
    compare(&sandbox.path("s"), &sandbox.path("t")).unwrap();
    // Without the option, all of it travels.
    fs::rename(sandbox.path("s/after"), sandbox.path("s/again")).unwrap();
    assert!(run(&["--delete"]).0 > 3_900_000);
    compare(&sandbox.path("s"), &sandbox.path("t")).unwrap();
    remote.is_left_clean();
}

#[test]
fn a_new_first_name_of_a_file_does_not_send_it_again() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    fs::create_dir_all(sandbox.path("s")).unwrap();
    fs::write(sandbox.path("s/b"), Rng::new(9).bytes(3 << 20)).unwrap();
    let run = |options: &[&str], to: &str| {
        let haul =
            sandbox.haul(["sync"]).args(remote.sshd().haul_args()).args(["--json", "--compress", "off"]).args(options);
        let run = haul.arg("s/").arg(remote.at(sandbox.path(to))).run().succeeds();
        run.summary()["bytes_on_wire"].as_u64().unwrap()
    };
    run(&["--hard-links"], "t/");
    for first in ["a", "0/a"] {
        if let Some((dir, _)) = first.split_once('/') {
            sandbox.dir(format!("s/{dir}"));
        }
        fs::hard_link(sandbox.path("s/b"), sandbox.path("s").join(first)).unwrap();
        let bytes = run(&["--hard-links"], "t/");
        assert!(bytes < 100_000, "{first}: {bytes} bytes on the wire");
        let inode = |path: &str| fs::metadata(sandbox.path("t").join(path)).unwrap().ino();
        assert_eq!(inode(first), inode("b"));
        assert_eq!(contents(&sandbox.path("t").join(first)), contents(&sandbox.path("s/b")));
    }
    // The same where an earlier copy has the other name.
    run(&["--hard-links"], "day1/");
    fs::hard_link(sandbox.path("s/b"), sandbox.path("s/0/0")).unwrap();
    let bytes = run(&["--hard-links", "--link-dest", "../day1"], "day2/");
    assert!(bytes < 100_000, "{bytes} bytes on the wire");
    let inode = |path: &str| fs::metadata(sandbox.path("day2").join(path)).unwrap().ino();
    assert!(["0/a", "a", "b"].iter().all(|name| inode(name) == inode("0/0")), "names of one file");
}

#[test]
fn owners_have_the_same_names_or_follow_the_users_rules() {
    if !is_root_or_skip("files of others") {
        return;
    }
    let sandbox = Sandbox::new();
    let owner = |path: &Path| fs::symlink_metadata(path).map(|meta| (meta.uid(), meta.gid())).unwrap();
    for (name, uid, gid) in [("root", 0, 0), ("named", 1, 1), ("nameless", 123_456, 234_567)] {
        let path = file(&sandbox, &format!("s/{name}"), name, NEW);
        std::os::unix::fs::chown(path, Some(uid), Some(gid)).unwrap();
    }
    let of = |options: &[&str]| {
        sync(&sandbox, options).succeeds();
        ["root", "named", "nameless"].map(|name| owner(&sandbox.path("t").join(name)))
    };
    let same = [(0, 0), (1, 1), (123_456, 234_567)];
    assert_eq!(of(&[]), same);
    assert_eq!(of(&["--numeric-ids"]), same);
    assert_eq!(of(&["--usermap", "0-99:7,:8", "--groupmap", "*:9"]), [(7, 9), (7, 9), (8, 9)]);
    // root has this name everywhere, and the first rule decides.
    assert_eq!(of(&["--usermap", "root:5,*:root"]), [(5, 0), (0, 1), (0, 234_567)]);
    assert_eq!(of(&["--chown", ":11"]), [(0, 11), (1, 11), (123_456, 11)]);
    assert_eq!(of(&["--dry-run", "--chown", "12:12"]), [(0, 11), (1, 11), (123_456, 11)]);
    sync(&sandbox, &["--chown", "nobody-of-this-name"]).ends(2).says(["nobody-of-this-name", "target"]);
}

/// Whichever of a file's names comes first: the target's remaining file is no hard link to it.
#[test]
fn no_hard_link_is_made_to_another_file_that_stays() {
    for (rule, stays) in [("--ignore-existing", "a"), ("--ignore-existing", "b"), ("--update", "a"), ("--update", "b")]
    {
        let sandbox = Sandbox::new();
        let first = file(&sandbox, "s/a", "content", OLD);
        fs::hard_link(first, sandbox.path("s/b")).unwrap();
        file(&sandbox, &format!("t/{stays}"), "another file", NEW);
        let other = if stays == "a" { "b" } else { "a" };
        let options = [rule, "--hard-links", "--remove-source-files"];
        let dry = sync(&sandbox, &["--dry-run", rule, "--hard-links"]);
        let run = sync(&sandbox, &options);
        assert_eq!(text(sandbox.path(format!("t/{stays}"))), "another file");
        assert_eq!(dry.status, run.status, "{rule} {stays}\n{}", run.account());
        let left = listing(&sandbox.path("s"));
        if sandbox.path(format!("t/{other}")).exists() {
            assert_eq!((text(sandbox.path(format!("t/{other}"))), left), ("content".into(), vec![stays.to_owned()]));
            run.succeeds();
        } else {
            assert_eq!(left, ["a", "b"], "{rule} {stays}");
            run.ends(1).says(["the place of its file is taken by another entry"]);
        }
        // If every name has a remaining entry, there is no message.
        file(&sandbox, &format!("t/{other}"), "another, too", NEW);
        file(&sandbox, &format!("s/{other}"), "content", OLD);
        sync(&sandbox, &options).succeeds();
        assert_eq!(text(sandbox.path(format!("t/{other}"))), "another, too");
    }
}

/// All of it belongs to the user as whom [`Sandbox::haul_of_user`] runs.
fn give_tree(root: &Path) {
    if let Ok(entries) = fs::read_dir(root) {
        entries.for_each(|entry| {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.is_symlink() { give_tree(&path) } else { give_to_user(&path) }
        });
    }
    give_to_user(root);
}

fn close(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn mode_of(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

/// A source like Go's module cache, and a target that is different everywhere and that its owner may not write to.
fn read_only_pair(sandbox: &Sandbox) {
    for (tree, time) in [("s", NEW), ("t", OLD)] {
        for name in ["changed", "mod/changed", "mod/deep/changed"] {
            file(sandbox, &format!("{tree}/{name}"), tree, time);
        }
    }
    file(sandbox, "s/mod/deep/new", "new", NEW);
    fs::create_dir(sandbox.path("s/mod/new directory")).unwrap();
    symlink("deep", sandbox.path("s/mod/link")).unwrap();
    file(sandbox, "t/mod/alone", "alone", OLD);
    file(sandbox, "t/mod/extraneous/deep/file", "alone", OLD);
    file(sandbox, "t/mod/unreadable/changed", "t", OLD);
    file(sandbox, "s/mod/unreadable/changed", "s", NEW);
    file(sandbox, "s/mod/closed file", "same", NEW);
    file(sandbox, "t/mod/closed file", "same", NEW);
    ["s", "t"].into_iter().for_each(|tree| give_tree(&sandbox.path(tree)));
    close(&sandbox.path("t/mod/closed file"), 0o000);
    for name in ["t/mod/extraneous/deep", "t/mod/extraneous", "t/mod/deep", "t/mod", "t", "s/mod/deep", "s/mod", "s"] {
        close(&sandbox.path(name), 0o555);
    }
    close(&sandbox.path("s/mod/unreadable"), 0o750);
}

#[test]
fn a_user_updates_directories_that_are_read_only_to_their_owner() {
    if !is_root_or_skip("running as another user") {
        return;
    }
    for (round, delete) in ["--delete", "--delete=during", "--delete=before"].into_iter().enumerate() {
        let sandbox = Sandbox::new();
        read_only_pair(&sandbox);
        // Neither listed, nor entered, nor written to.
        close(&sandbox.path("t/mod/unreadable"), [0o000, 0o300, 0o600][round]);
        let run = || sandbox.haul_of_user(["sync", "--json", "--items", delete, "s/", "t/"]).run().succeeds();
        run();
        compare(&sandbox.path("s"), &sandbox.path("t")).unwrap();
        for (name, mode) in [("", 0o555), ("mod", 0o555), ("mod/deep", 0o555), ("mod/unreadable", 0o750)] {
            assert_eq!(mode_of(&sandbox.path("t").join(name)), mode, "{name} with {delete}");
        }
        let before = stamps(&sandbox.path("t"));
        let again = run();
        assert_eq!(items(&again), [""; 0], "{}", again.account());
        assert_eq!(stamps(&sandbox.path("t")), before, "what is the same is not opened for the moment");
    }
}

#[test]
fn widened_modes_are_restored_by_an_interrupted_run_or_by_the_next_one() {
    if !is_root_or_skip("running as another user") {
        return;
    }
    for signal in [Signal::KILL, Signal::INT] {
        let sandbox = Sandbox::new();
        read_only_pair(&sandbox);
        close(&sandbox.path("s/mod"), 0o755);
        let large = sandbox.big_file("s/mod/large", 40_000_000);
        give_to_user(&large);
        close(&sandbox.path("s/mod"), 0o555);
        close(&sandbox.path("t/mod/unreadable"), 0o300);
        let slow = ["sync", "--delete", "--fsync=none", "--xfrrate", "4m", "s/", "t/"];
        let mut running = sandbox.haul_of_user(slow).start();
        let opened = || {
            mode_of(&sandbox.path("t/mod")) == 0o755
                && hidden_or_partial(&sandbox.path("t/mod"), &[], 1 << 20).is_some()
        };
        eventually("it is at work", opened);
        let workers = descendants(running.id());
        running.signal(signal);
        if signal == Signal::KILL {
            workers.into_iter().for_each(|worker| {
                let _ = kill_process(pid(worker), signal);
            });
        }
        assert!(running.wait_up_to(Duration::from_secs(20)), "still running: {}", running.stderr_so_far());
        drop(running);
        let mode = mode_of(&sandbox.path("t/mod"));
        assert_eq!(mode & 0o022, 0, "never for others");
        if signal == Signal::INT {
            eventually("it is closed again", || mode_of(&sandbox.path("t/mod")) == 0o555);
        }
        sandbox.haul_of_user(["sync", "--delete", "s/", "t/"]).run().succeeds();
        compare(&sandbox.path("s"), &sandbox.path("t")).unwrap();
        for (name, mode) in [("", 0o555), ("mod", 0o555), ("mod/deep", 0o555), ("mod/unreadable", 0o750)] {
            assert_eq!(mode_of(&sandbox.path("t").join(name)), mode, "{name}");
        }
    }
}

#[test]
fn without_modes_a_read_only_directory_stays_closed() {
    if !is_root_or_skip("running as another user") {
        return;
    }
    let sandbox = Sandbox::new();
    read_only_pair(&sandbox);
    close(&sandbox.path("t/mod/unreadable"), 0o750);
    let run = sandbox.haul_of_user(["-r", "-f", "s/mod/deep/new", "t/mod/deep"]).run();
    run.ends(1).says(["permission denied"]);
    assert_eq!(mode_of(&sandbox.path("t/mod/deep")), 0o555);
    // The directory that sources go into is not one of theirs.
    sandbox.haul_of_user(["sync", "s/changed", "t"]).run().ends(1);
    assert_eq!(mode_of(&sandbox.path("t")), 0o555);
}

#[test]
fn a_directory_is_removed_only_after_its_complete_replacement() {
    for signal in [Signal::KILL, Signal::INT] {
        let sandbox = Sandbox::new();
        sandbox.big_file("s/x", 30_000_000);
        file(&sandbox, "t/x/deep/file", "kept until then", OLD);
        let mut running = sandbox.haul(["sync", "--delete", "--fsync=none", "--xfrrate", "4m", "s/", "t/"]).start();
        eventually("it is at work", || hidden_or_partial(&sandbox.path("t"), &["x"], 1 << 20).is_some());
        assert_eq!(text(sandbox.path("t/x/deep/file")), "kept until then");
        let workers = descendants(running.id());
        running.signal(signal);
        if signal == Signal::KILL {
            workers.into_iter().for_each(|worker| {
                let _ = kill_process(pid(worker), signal);
            });
        }
        assert!(running.wait_up_to(Duration::from_secs(20)), "still running: {}", running.stderr_so_far());
        drop(running);
        assert_eq!(text(sandbox.path("t/x/deep/file")), "kept until then");
        let run = sync(&sandbox, &["--json", "--items", "--delete"]).succeeds();
        assert_eq!(items(&run), ["deleted x/deep", "deleted x/deep/file", "replaced x"], "{}", run.account());
        compare(&sandbox.path("s"), &sandbox.path("t")).unwrap();
        assert_eq!(listing(&sandbox.path("t")), ["x"], "nothing is left beside it");
    }
}

#[test]
fn replacements_of_a_directory_exist_in_every_form_and_the_backup_has_the_rest() {
    let sandbox = Sandbox::new();
    file(&sandbox, "s/file", "file", NEW);
    symlink("file", sandbox.path("s/link")).unwrap();
    fs::hard_link(sandbox.path("s/file"), sandbox.path("s/name")).unwrap();
    sandbox.file("s/file", "x");
    fifo(&sandbox.path("s/fifo"));
    let options = ["--delete", "--hard-links", "--specials"];
    for backup in [&[][..], &["--backup-dir", "../kept"]] {
        let _ = fs::remove_dir_all(sandbox.path("t"));
        for name in ["file", "link", "name", "fifo"] {
            file(&sandbox, &format!("t/{name}/deep/old"), name, OLD);
        }
        sync(&sandbox, &[&options[..], backup].concat()).succeeds();
        compare(&sandbox.path("s"), &sandbox.path("t")).unwrap();
        assert_eq!(listing(&sandbox.path("t")), ["fifo", "file", "link", "name"]);
        if !backup.is_empty() {
            for name in ["file", "link", "name", "fifo"] {
                assert_eq!(text(sandbox.path(format!("kept/{name}/deep/old"))), name);
            }
        }
    }
}

#[test]
fn failed_changes_are_not_reported() {
    if !is_root_or_skip("running as another user") {
        return;
    }
    let sandbox = Sandbox::new();
    file(&sandbox, "s/a", "unreadable", NEW);
    file(&sandbox, "s/b", "b", NEW);
    file(&sandbox, "t/a", "old", OLD);
    give_to_user(&sandbox.path("t"));
    give_to_user(&sandbox.path("t/a"));
    fs::set_permissions(sandbox.path("s/a"), fs::Permissions::from_mode(0o600)).unwrap();
    let run = sandbox.haul_of_user(["sync", "--json", "--items", "s/", "t/"]).run().ends(1);
    assert!(items(&run).contains(&"created b".to_owned()), "{}", run.account());
    assert!(!items(&run).contains(&"replaced a".to_owned()), "{}", run.account());
    assert_eq!(text(sandbox.path("t/a")), "old");
}

#[test]
fn lists_of_entries_are_on_standard_output() {
    let sandbox = Sandbox::new();
    file(&sandbox, "s/a", "a", NEW);
    for option in ["--dry-run", "--items"] {
        let run = sync(&sandbox, &[option]).succeeds();
        assert!(
            run.stdout.lines().any(|line| line.starts_with("created ") && line.ends_with("t/a")),
            "{}",
            run.account()
        );
        assert!(!run.stderr.contains("created    "), "{}", run.account());
    }
    assert_eq!(sync(&sandbox, &["--items"]).succeeds().stdout, "");
}

#[test]
fn directories_of_a_backup_have_owner_mode_and_attributes() {
    let is_root = is_root_or_skip("giving directories away");
    let sandbox = Sandbox::new();
    file(&sandbox, "s/dir/sub/a", "new", NEW);
    file(&sandbox, "t/dir/sub/a", "old", OLD);
    let attribute = |path: &Path| {
        let mut value = [0; 8];
        let len = rustix::fs::lgetxattr(path, "user.color", &mut value[..]).unwrap_or(0);
        value[..len].to_vec()
    };
    let old = sandbox.path("t/dir/sub");
    rustix::fs::lsetxattr(&old, "user.color", b"red", rustix::fs::XattrFlags::empty()).unwrap();
    close(&old, 0o2710);
    if is_root {
        give_to_user(&old);
        close(&old, 0o2710);
    }
    let owner = fs::metadata(&old).unwrap().uid();
    sync(&sandbox, &["--backup-dir", "../kept"]).succeeds();
    let kept = sandbox.path("kept/dir/sub");
    assert_eq!(text(kept.join("a")), "old");
    assert_eq!((mode_of(&kept), attribute(&kept)), (0o2710, b"red".to_vec()));
    assert_eq!(fs::metadata(&kept).unwrap().uid(), owner);
}

#[test]
fn a_changing_link_leaves_its_hard_links_alone() {
    let sandbox = Sandbox::new();
    sandbox.dir("s");
    sandbox.dir("t");
    for name in ["s/kept", "t/kept"] {
        symlink("x", sandbox.path(name)).unwrap();
    }
    let dated = Command::new("touch").args(["-h", "-d", "@1000"]).arg(sandbox.path("s/kept")).status().unwrap();
    assert!(dated.success());
    fs::hard_link(sandbox.path("t/kept"), sandbox.path("t/own")).unwrap();
    let before = fs::symlink_metadata(sandbox.path("t/own")).unwrap();
    sandbox.haul(["sync", "s/", "t"]).run().succeeds();
    let [source, kept, own] =
        ["s/kept", "t/kept", "t/own"].map(|name| fs::symlink_metadata(sandbox.path(name)).unwrap());
    let time = |meta: &fs::Metadata| (meta.mtime(), meta.mtime_nsec());
    assert_eq!((time(&kept), time(&own)), (time(&source), time(&before)));
    assert!(kept.ino() != own.ino() && own.ino() == before.ino());
}

#[test]
fn ignore_existing_leaves_fifos_alone_for_any_offer() {
    let sandbox = Sandbox::new();
    sandbox.dir("t");
    for name in ["fifo", "file"] {
        fifo(&sandbox.path("t").join(name));
    }
    sandbox.file("s/file", "x");
    fifo(&sandbox.path("s/fifo"));
    fs::set_permissions(sandbox.path("t/fifo"), fs::Permissions::from_mode(0o640)).unwrap();
    sandbox.haul(["sync", "--specials", "--ignore-existing", "s/", "t"]).run().succeeds();
    let [fifo, file] = ["t/fifo", "t/file"].map(|name| fs::symlink_metadata(sandbox.path(name)).unwrap().mode());
    assert_eq!((fifo & 0o170_777, file & 0o170_000), (0o010_640, 0o010_000));
}

#[test]
fn what_a_directory_replaced_in_a_killed_run_is_removed_by_the_next_one() {
    let sandbox = Sandbox::new();
    sandbox.file("s/sub/file", "new");
    sync(&sandbox, &[]).succeeds();
    // The state between the exchange of the two and the removal.
    let digest = blake3::hash(b"directory\0sub").to_hex();
    let left = sandbox.file(format!("t/.haul-{}.part", &digest[..24]), "old");
    sync(&sandbox, &["--dry-run"]).succeeds();
    assert!(left.exists());
    sync(&sandbox, &[]).succeeds();
    assert_eq!(listing(&sandbox.path("t")), ["sub"]);
}

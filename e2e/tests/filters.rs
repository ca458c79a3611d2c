//! Filters: excluded entries do not travel, are not read, are counted, and are no difference in a comparison.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use haul_e2e::{Haul, ProgramRun, Remote, Sandbox, set_mtime};

const FILES: [&str; 11] = [
    "a.c",
    "a.o",
    "keep.o",
    "build/x.c",
    "src/.rules",
    "src/b.c",
    "src/b.o",
    "src/deep/build",
    "src/deep/c.c",
    "src/deep/c.tmp",
    "docs/large.pdf",
];

/// A tree that filters find something in.
fn tree(sandbox: &Sandbox) -> PathBuf {
    for file in FILES {
        sandbox.file(format!("tree/{file}"), file);
    }
    sandbox.file("tree/docs/large.pdf", [7; 5000]);
    sandbox.file("tree/src/.rules", "*.tmp\n/deep/build\n");
    sandbox.path("tree")
}

/// The files below a directory.
fn files(root: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).unwrap().map(Result::unwrap) {
            match entry.file_type().unwrap().is_dir() {
                true => directories.push(entry.path()),
                false => {
                    let path = entry.path().strip_prefix(root).unwrap().to_str().unwrap().to_owned();
                    found.insert(path);
                }
            }
        }
    }
    found
}

/// All but these.
fn without(left_out: &[&str]) -> BTreeSet<String> {
    FILES.iter().filter(|file| !left_out.contains(file)).map(|file| (*file).to_owned()).collect()
}

fn copy<'a>(sandbox: &'a Sandbox, options: &[&str], to: impl AsRef<std::ffi::OsStr>) -> Haul<'a> {
    sandbox.haul(["-r"]).args(options).arg(tree(sandbox)).arg(to)
}

#[test]
fn each_option_excludes_its_entries() {
    let sandbox = Sandbox::new();
    sandbox.file("rules", "# objects\n*.o\n!keep.o\nbuild/\n");
    sandbox.file("wanted", "*/\n*.c\n!b.*\n");
    let objects = ["a.o", "keep.o", "src/b.o"];
    let rules = ["a.o", "src/b.o", "build/x.c"];
    let but_c = ["a.o", "keep.o", "src/.rules", "src/b.o", "src/deep/build", "src/deep/c.tmp", "docs/large.pdf"];
    for (number, (options, left_out)) in [
        (&["--exclude", "*.o"][..], &objects[..]),
        (
            &["--exclude", "/src/"],
            &["src/.rules", "src/b.c", "src/b.o", "src/deep/build", "src/deep/c.c", "src/deep/c.tmp"],
        ),
        (&["--exclude", "build/"], &["build/x.c"]),
        (&["--exclude", "src/**/*.c"], &["src/b.c", "src/deep/c.c"]),
        (&["--include", "keep.*", "--exclude", "*.o"], &["a.o", "src/b.o"]),
        (&["--exclude", "*.o", "--include", "keep.*"], &objects),
        (&["--include", "*/", "--include", "*.c", "--exclude", "*"], &but_c),
        (&["--exclude-from", "rules"], &rules),
        (&["--include-from", "wanted", "--exclude", "*"], &[&but_c[..], &["src/b.c"]].concat()),
        (&["--filter-files", ".rules"], &["src/deep/c.tmp", "src/deep/build"]),
        (&["--filter-files", ".rules", "--include", "*.tmp"], &["src/deep/build"]),
        (&["--max-size", "4k"], &["docs/large.pdf"]),
        (&["--min-size", "4k"], &FILES[..10]),
    ]
    .into_iter()
    .enumerate()
    {
        let to = sandbox.path(format!("to{number}"));
        let run = copy(&sandbox, &[&["--json"], options].concat(), &to).run().succeeds();
        assert_eq!(files(&to), without(left_out), "{options:?}");
        assert!(run.summary()["filtered"].as_u64().unwrap() > 0, "{options:?}\n{}", run.account());
    }
}

#[test]
fn the_summary_counts_excluded_entries() {
    let sandbox = Sandbox::new();
    let run = copy(&sandbox, &["--exclude", "*.o", "--exclude", "docs"], sandbox.path("to")).run().succeeds();
    run.says(["excluded", "4 entries by filters"]);
}

#[test]
fn ages_are_by_the_sources_clock() {
    let sandbox = Sandbox::new();
    let tree = tree(&sandbox);
    set_mtime(&tree.join("a.c"), 1_577_836_800, 0);
    let taken = |options: &[&str]| {
        let to = sandbox.path("to");
        let _ = fs::remove_dir_all(&to);
        sandbox.haul(["-r"]).args(options).arg(&tree).arg(&to).run().succeeds();
        files(&to)
    };
    assert_eq!(taken(&["--newer", "2020-01-02"]), without(&["a.c"]));
    assert_eq!(taken(&["--newer", "1d"]), without(&["a.c"]));
    assert_eq!(taken(&["--newer", "2020-01-01"]), without(&[]));
    assert_eq!(taken(&["--older", "2020-01-02"]), BTreeSet::from(["a.c".to_owned()]));
}

#[test]
fn pushes_and_pulls_exclude_the_same() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    let tree = tree(&sandbox);
    let options = ["--exclude", "*.o", "--filter-files", ".rules"];
    let expected = without(&["a.o", "keep.o", "src/b.o", "src/deep/c.tmp", "src/deep/build"]);
    let haul = || remote.haul(&sandbox).arg("-r").args(options);
    haul().arg(&tree).arg(remote.at(sandbox.path("pushed"))).run().succeeds();
    assert_eq!(files(&sandbox.path("pushed")), expected);
    haul().arg(remote.at(&tree)).arg(sandbox.path("pulled")).run().succeeds();
    assert_eq!(files(&sandbox.path("pulled")), expected);
}

#[test]
fn excluded_entries_are_no_difference() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    let tree = tree(&sandbox);
    let to = sandbox.path("to");
    let options = ["--exclude", "*.o", "--filter-files", ".rules", "--max-size", "4k"];
    copy(&sandbox, &options, &to).run().succeeds();
    // Of the same names, at the target alone, or other than at the source.
    for file in ["a.o", "other.o", "src/deep/build", "src/other.tmp", "src/new/other.tmp", "docs/large.pdf"] {
        fs::create_dir_all(to.join(file).parent().unwrap()).unwrap();
        fs::write(to.join(file), "target").unwrap();
    }
    let named = |run: &ProgramRun| -> Vec<String> {
        let differs = run.events().into_iter().filter(|event| event["event"] == "differs");
        differs.map(|event| event["path"].as_str().unwrap().to_owned()).collect()
    };
    let new = to.join("src/new").to_str().unwrap().to_owned();
    for target in [to.clone().into_os_string(), remote.at(&to)] {
        let verify = || sandbox.haul(["verify", "--json", "-r"]).args(remote.sshd().haul_args());
        let contents = tree.join(".");
        let filtered = verify().args(options).arg(&contents).arg(&target).run().ends(1);
        assert_eq!(named(&filtered), [new.as_str()], "{}", filtered.account());
        assert!(named(&verify().arg(&contents).arg(&target).run().ends(1)).len() > 5);
    }
}

#[test]
fn an_excluded_directory_is_not_read() {
    let sandbox = Sandbox::new();
    let tree = tree(&sandbox);
    let run = |options: &[&str]| {
        let strace = sandbox.path("trace");
        let haul = sandbox.haul(["-r"]).args(options).arg(&tree).arg(sandbox.path("to")).into_command();
        let mut command = std::process::Command::new("strace");
        command.args(["-f", "-qq", "-e", "trace=openat,openat2", "-o"]).arg(&strace);
        command.arg(haul.get_program()).args(haul.get_args()).env("HOME", sandbox.home());
        assert!(command.status().unwrap().success());
        fs::read_to_string(strace).unwrap().contains("\"docs\"")
    };
    assert!(!run(&["--exclude", "docs/"]) && run(&[]));
}

#[test]
fn an_invalid_rule_file_excludes_its_directory_with_a_message() {
    let sandbox = Sandbox::new();
    let tree = tree(&sandbox);
    fs::write(tree.join("src/.rules"), "x\n".repeat(40_000)).unwrap();
    let run = sandbox.haul(["-r", "--filter-files", ".rules"]).arg(&tree).arg(sandbox.path("to")).run().ends(1);
    run.says(["src: cannot read its filter file: .rules", "larger than 64 KiB"]);
    assert!(!sandbox.path("to/src").exists() && sandbox.path("to/a.c").exists());
}

#[test]
fn filters_that_exclude_everything_are_reported() {
    let sandbox = Sandbox::new();
    copy(&sandbox, &["--exclude", "*"], sandbox.path("to"))
        .run()
        .ends(2)
        .says(["excludes everything", "--include before it"]);
    assert!(!sandbox.path("to").exists());
    let options = ["--include", "*/", "--include", "*.h", "--exclude", "*"];
    copy(&sandbox, &options, sandbox.path("to")).run().succeeds().says(["exclude every file", "--explain"]);
}

#[test]
fn a_rule_is_explained_by_option_or_file_and_line() {
    let sandbox = Sandbox::new();
    sandbox.file("rules", "# objects\n*.o\n!keep.o\n");
    for (path, said) in [
        ("tree/src/b.o", "tree/src/b.o is excluded\n  rules, line 2: *.o\n"),
        ("tree/keep.o", "tree/keep.o is included\n  rules, line 3: !keep.o\n"),
        ("src/deep/c.tmp", "tree/src/deep/c.tmp is excluded\n  tree/src/.rules, line 1: *.tmp\n"),
        ("tree/docs/large.pdf", "tree/docs/large.pdf is excluded\n  --max-size 4k\n"),
        ("tree/build/x.c", "tree/build/x.c is excluded, with tree/build\n  --exclude: /build/\n"),
        ("tree/a.c", "tree/a.c is included\n  no rule matches\n"),
    ] {
        tree(&sandbox);
        let options =
            ["--exclude-from", "rules", "--exclude", "/build/", "--filter-files", ".rules", "--max-size", "4k"];
        let run = sandbox.haul(["-r"]).args(options).args(["--explain", path, "tree", "to"]).run().succeeds();
        assert_eq!(run.stdout, said);
        assert!(!sandbox.path("to").exists());
    }
    sandbox.haul(["-r", "--explain", "elsewhere", "tree", "to"]).run().ends(2).says(["below no source"]);
    sandbox.haul(["-r", "--explain", "tree/a.c", "db1:tree", "to"]).run().ends(2).says(["on db1"]);
}

#[test]
fn rsync_rules_are_refused_on_the_command_line_and_are_patterns_in_directory_files() {
    let sandbox = Sandbox::new();
    for name in ["source/P x", "source/+ a", "source/hide me", "source/x", "source/a"] {
        sandbox.file(name, "content");
    }
    sandbox.file("source/.gitignore", "P x\n+ a\nhide me\n");
    let copy = |options: &[&str], to: &str| sandbox.haul(["-r"]).args(options).args(["source/.", to]).run();
    for rule in ["P x", "protect x", "+ a", "hide,s me", "merge more", "dir-merge .rules", "clear"] {
        sandbox.file("rules", format!("# rules\n{rule}\n"));
        for option in ["--exclude-from", "--include-from"] {
            let run = copy(&[option, "rules"], "to").ends(2);
            run.says(["line 2: an rsync filter rule", &*format!("write \\{rule}")]);
        }
        copy(&["--exclude", rule], "to").ends(2).says(["an rsync filter rule", &*format!("'\\{rule}'")]);
    }
    assert!(!sandbox.path("to").exists());
    // Both ways to write such a name.
    sandbox.file("rules", "\\P x\n\\hide me\n");
    let left = |to: &str| files(&sandbox.path(to)).into_iter().collect::<Vec<_>>();
    copy(&["--exclude-from", "rules", "--exclude", "\\+ a", "--exclude", ".gitignore"], "named").succeeds();
    copy(&["--filter-files", ".gitignore", "--exclude", ".gitignore"], "found").succeeds();
    assert_eq!((left("named"), left("found")), (vec!["a".into(), "x".into()], vec!["a".into(), "x".into()]));
}

/// A shell's `*` names files.
#[test]
fn source_arguments_that_are_files_are_filtered_and_pipes_are_not() {
    let sandbox = Sandbox::new();
    let tree = tree(&sandbox);
    for (filter, copied) in [(["--exclude", "*.o"], false), (["--max-size", "2"], false), (["--max-size", "3"], true)] {
        let to = sandbox.dir(format!("to{}", filter[1]));
        let run = sandbox.haul(filter).arg(tree.join("a.o")).arg(&to).run().succeeds();
        assert_eq!(to.join("a.o").exists(), copied, "{}", run.account());
        assert_eq!(run.stderr.contains("excluded"), !copied, "{}", run.account());
    }
    sandbox.file("list", format!("{0}/a.o\n{0}/a.c\n{0}/src\n", tree.display()));
    sandbox.haul(["-r", "--exclude", "*.o", "--infiles", "list"]).arg(sandbox.dir("listed")).run().succeeds();
    let based = ["--exclude", "/b.c", "--exclude", "src/b.o", "--dirbase", "tree", "src/b.c", "src/b.o", "a.c"];
    sandbox.haul(based).arg(sandbox.dir("based")).run().succeeds();
    assert_eq!(files(&sandbox.path("based")), ["a.c", "src/b.c"].map(String::from).into());
    let listed = files(&sandbox.path("listed"));
    assert!(listed.contains("a.c") && listed.contains("src/b.c"), "{listed:?}");
    assert!(!listed.contains("a.o") && !listed.contains("src/b.o"), "{listed:?}");
    sandbox.haul(["--exclude", "*.o", "--pipe", "i", "echo", "to/x"]).run().ends(2).says(["cannot be filtered"]);
}

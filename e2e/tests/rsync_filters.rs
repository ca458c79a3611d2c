//! rsync's filter rules mean the same as in rsync: both copy and delete with the same rules, and leave the same names.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use haul_e2e::Sandbox;

/// Names of the source; those with a slash at their end are directories.
const TREE: [&str; 64] = [
    "a.c",
    "a.o",
    "b.o",
    "keep.o",
    "core",
    "foo",
    "bar/",
    "empty/",
    "[x]",
    "x",
    "back\\slash",
    "back\\slash*",
    "star*",
    "sp ace",
    " lead",
    "#hash",
    ";semi",
    "+ plus",
    "- minus",
    "!bang",
    ".hidden",
    "~tilde~",
    "a~",
    "old.bak",
    "x.old",
    "tags",
    "CVS/Entries",
    ".git/HEAD",
    ".svn",
    "bar/foo",
    "bar/bar/foo",
    "bar/bar/baz",
    "bar/down/to/foo/file1",
    "bar/down/to/foo/file1.bak",
    "bar/down/to/foo/file3",
    "bar/down/to/bar/baz/file5.deep",
    "bar/down/to/home-cvs-exclude",
    "src/a.c",
    "src/a.o",
    "src/foo/bar/a.c",
    "src/foo/bar/b.o",
    "src/foo/x/bar",
    "src/foo/x/y/bar",
    "src/core/core",
    "src/deep/src/foo/bar/q",
    "deep/x/y/z/a.c",
    "deep/x/y/z/w.o",
    "deep/foo/bar",
    "deep/foo/baz",
    "deep/bar/foo",
    "mid/for/foo/extra",
    "mid/for/foo/keep",
    "mid/one-for-all",
    "new/lose/this",
    "new/keep/this",
    "dir/sub/a.c",
    "dir/sub/a.o",
    "dir/sub/inner/a.o",
    "dir/a.o",
    "dir/only",
    "ab/abc/abcd",
    "a1/b2",
    "a1/bB",
    "aa/a\u{e9}",
];

/// Sets of rules: options of rsync. Those of one line are one run each.
const RULES: &str = r"
- *.o
- /a.o
- a.o
- src
- src/
- foo
- foo/
- /foo
- foo/bar
- /foo/bar
- bar/foo
- src/foo/bar
- /src/foo/bar
- foo/*/bar
- foo/**/bar
- /src/**/bar
- /src/**bar
- **/bar
- **bar
- bar**
- bar/**
- bar/***
- foo/***
- /deep/***
- ***
- a***
- bar**foo
- b*/f*
- /b*/f*
- */foo
- */*/foo
- /*/foo
- /*/*/foo
- **/foo/**
- **o
- d**p
- /**
- /*
- /*/
- */
- *
- **
- ?
- ??
- a?c
- [x]
- \[x]
- \[x\]
- [[]x]
- [!a]*
- [^a]*
- [a-c]*
- [a-
- [
- [[:upper:]]*
- [[:digit:]]*
- *[[:digit:]]
- [[:nothing:]]*
- a[1/]b*
- a1[/]b2
- [/]foo
- src[/]a.c
- back\slash
- back\\slash
- back\slash*
- back\\slash*
- back\\slash\*
- star\*
- star*
- star[*]
- sp ace
-  lead
- _lead
-_ lead
-_*.o
- #hash
- ;semi
- + plus
- - minus
- !bang
- .hidden
- .*
- *~
- foo//
- //foo
- /
- //
- ./foo
- src/./a.c
- ../foo
- a\
- *\
-! */
-! *.c
-,! *.c
-!s *.o
-!r *.o
-s *.o
-r *.o
-p *.o
-sr *.o
-ps *.o
-rp *.o
H *.o
hide *.o
hide,! */
S *.o | - *
show *.o | - *
P *.o
P *.o | - b.o
protect,p *.o
R *.o | - *.o
R *.o | P *
risk a.o | protect *.o
+ *.c | - *
+ */ | + *.c | - *
+ */ | - *
+ src/ | + src/a.c | - *
+ /src/*** | - *
+ src/** | - *
+ /bar/ | + /bar/** | - *
+ foo | + */ | - *
+ foo/ | - foo
- foo | + foo
- foo/ | + foo
+ keep.o | - *.o
- *.o | + keep.o
- *.o | ! | - *.c
- *.o | clear | - *.c
- *.o | !
include a.o | exclude *.o
exclude,s *.o | include,r *.c
+ deep/ | + deep/x/ | + deep/x/y/*** | - *
+ **/z/ | - w.o
- deep/**/z
- x/**/z
- /x/**/z
- deep/**z
- /deep/**/**/a.c
- y/z/a.c
- x/*/z/a.c
- x/y/z/***
- y/z/*
- ab*
- ab*/abc
- a*b*c*d
- ab**abcd
- *a
- a*a*
- a?
- */b?
- a1/b[A-Z]
- a1/b[[:upper:]2]
-C
-Cp
-Cs
-Cr
+ core | -C
-C | + core
: .filt
:n .filt
:e .filt
:s .filt
:r .filt
:p .filt
:- .excl
:-n .excl
:+ .excl | - *
:+e .excl | - *.o
:w .words
:w- .excl
:C
:C | -C
:C .excl
:sC
:eC
dir-merge .filt
dir-merge,- .excl
dir-merge_.filt
dir-merge,e .filt | - *.bak
: .filt | : .filt2
: .filt2 | : .filt
+ file1 | : .filt
- foo | : .filt
: .filt | - foo
: .filt | !
: .filt | ! | :n .filt
: .none
: .merging
:e .merging | - *.o
: sub/.filt
. rules
.s rules
.- excludes
.+ excludes | - *
.w words
.e rules
merge rules
merge,- excludes
merge_rules
.C excludes
. nested
";

/// Files of rules in the source and, other ones, in the target.
const FILES: [(&str, &str, &str); 15] = [
    (".filt", "# first\n: .filt-temp\nclear\n- .filt\n- *.bak\n- *.old\n", "- extra\n"),
    ("bar/.filt", "- home-cvs-exclude\ndir-merge .filt2\n+ to\n", "- *.o\n"),
    ("bar/down/to/.filt2", "- .filt2\n", ""),
    ("bar/down/to/foo/.filt2", "+ *.junk\n- /file1\n", ""),
    ("bar/down/to/bar/.filt2", "- *.deep\n", ""),
    ("dir/.filt", "! \n- /sub/*.o\n+ only\n- sub/inner/\n", "P keep\n"),
    ("dir/sub/.filt", "- /a.o\r\n- dir/sub/a.c\r\n;- *\n", ""),
    ("mid/.filt", ":C\n- one-*\n", ""),
    ("mid/.merging", "- x\n. ./.more\n", ""),
    ("mid/.more", "- one-*\n", ""),
    ("mid/for/foo/.cvsignore", "extra  nothing\n\tthat\n", ""),
    (".cvsignore", "*.junk x\n", "a~\n"),
    (".excl", "*.o\n/core\n# comment\n+ plus\n", "tags\n"),
    ("src/.excl", "foo/bar\n/core\n!\n", ""),
    (".words", "-_*.o +_x\n-_/src/core\n-_bar\n", ""),
];
/// Names that only the target has.
const EXTRA: [&str; 12] = [
    "extra",
    "extra.o",
    "bar/extra.c",
    "bar/extra.o",
    "bar/down/to/extra.bak",
    "gone/a.o",
    "gone/a.c",
    "gone/deep/core",
    "dir/keep",
    "dir/sub/keep",
    "src/foo/extra/bar",
    "mid/for/foo/more",
];

fn make(sandbox: &Sandbox, root: &str, names: &[&str]) {
    for name in names {
        match name.strip_suffix('/') {
            Some(directory) => drop(sandbox.dir(format!("{root}/{directory}"))),
            None => drop(sandbox.file(format!("{root}/{name}"), *name)),
        }
    }
}

fn sources(sandbox: &Sandbox) {
    make(sandbox, "tree", &TREE);
    for (name, text, _) in FILES {
        sandbox.file(format!("tree/{name}"), text.replace("! \n", "!\n"));
    }
    sandbox.file("rules", "# rules\n- *.o\n; more\n\n+ foo\n- b*\n");
    sandbox.file("excludes", "*.o\n/core\nsrc/a.c\n");
    sandbox.file("words", "-_*.o\n-_foo +_x\t-_deep\n");
    sandbox.file("nested", ". rules\n- x\nmerge,- excludes\n");
    sandbox.file("home/.cvsignore", "*.hidden only\n");
}

/// A target with extraneous names, and its own files of rules.
fn target(sandbox: &Sandbox, root: &str, has_rules: bool) {
    make(sandbox, root, &TREE);
    make(sandbox, root, &EXTRA);
    for (name, _, text) in FILES.iter().filter(|(.., text)| has_rules && !text.is_empty()) {
        sandbox.file(format!("{root}/{name}"), *text);
    }
}

fn names(root: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten().map(Result::unwrap) {
            let path = entry.path();
            let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            if path.is_dir() {
                found.insert(name + "/");
                directories.push(path);
            } else {
                found.insert(name);
            }
        }
    }
    found
}

fn rule_sets() -> impl Iterator<Item = Vec<String>> {
    let sets = RULES.lines().filter(|line| !line.is_empty());
    sets.map(|set| set.split(" | ").map(|rule| format!("--filter={rule}")).collect())
}

/// What rsync leaves at `to`.
fn by_rsync(sandbox: &Sandbox, options: &[&str], rules: &[String], from: &str, to: &str) -> BTreeSet<String> {
    let mut rsync = Command::new("rsync");
    rsync.current_dir(sandbox.path("")).env("HOME", sandbox.path("home")).env("CVSIGNORE", "mid");
    let output = rsync.args(options).args(rules).args([from, to]).output().expect("rsync is there");
    assert!(output.status.success(), "{rules:?} {output:?}");
    names(&sandbox.path(to))
}

fn by_haul(sandbox: &Sandbox, options: &[&str], rules: &[String], from: &str, to: &str) -> BTreeSet<String> {
    let haul = sandbox.haul(options.iter().copied()).args(rules).args([from, to]);
    haul.env("HOME", sandbox.path("home")).env("CVSIGNORE", "mid").run().succeeds();
    names(&sandbox.path(to))
}

/// Compares what both leave, for each set of rules in turn.
fn compare(
    sandbox: &Sandbox,
    sets: impl IntoIterator<Item = Vec<String>>,
    has_target: Option<bool>,
    [rsync, haul]: [(&[&str], &str); 2],
) {
    let mut differences = Vec::new();
    for (number, rules) in sets.into_iter().enumerate() {
        let [theirs, own] = ["theirs", "own"].map(|root| format!("{root}{number}"));
        for root in [&theirs, &own] {
            sandbox.dir(root);
            has_target.into_iter().for_each(|has_rules| target(sandbox, root, has_rules));
        }
        let theirs = by_rsync(sandbox, rsync.0, &rules, rsync.1, &format!("{theirs}/"));
        let own = by_haul(sandbox, haul.0, &rules, haul.1, &own);
        if theirs != own {
            let only = |one: &BTreeSet<String>, other| one.difference(other).cloned().collect::<Vec<_>>();
            differences.push(format!("{rules:?}: rsync {:?}, haul {:?}", only(&theirs, &own), only(&own, &theirs)));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn the_same_names_are_copied_as_by_rsync() {
    let sandbox = Sandbox::new();
    sources(&sandbox);
    compare(&sandbox, rule_sets(), None, [(&["-rl"], "tree/"), (&["-r"], "tree/.")]);
}

#[test]
fn the_root_of_the_transfer_contains_a_named_source() {
    let sandbox = Sandbox::new();
    sources(&sandbox);
    let more = ["- /tree/src", "- tree/src/foo", "- tree", "- /tree/*/foo", "- tree/", "+ tree | - *"];
    let more = more.map(|set| set.split(" | ").map(|rule| format!("--filter={rule}")).collect());
    let sets = rule_sets().step_by(5).chain(more);
    compare(&sandbox, sets, None, [(&["-rl"], "tree"), (&["-r"], "tree")]);
}

#[test]
fn the_same_extraneous_names_are_deleted_as_by_rsync() {
    let sandbox = Sandbox::new();
    sources(&sandbox);
    for when in ["--delete=during", "--delete=after"] {
        let haul = ["sync", "--allow-empty-source", when];
        let sets = rule_sets().step_by(if when == "--delete=after" { 4 } else { 1 });
        compare(&sandbox, sets, Some(false), [(&["-rl", "--delete-after"], "tree/"), (&haul, "tree/")]);
    }
}

#[test]
fn filter_files_of_the_target_protect_where_the_source_does_not_copy_its_own() {
    let sandbox = Sandbox::new();
    sources(&sandbox);
    let sets =
        ["- .filt | : .filt", ": .filt | - .filt", ":e .filt", ":C | - .cvsignore", ":-e .excl", "H .filt | : .filt"];
    let sets = sets.map(|set| set.split(" | ").map(|rule| format!("--filter={rule}")).collect());
    compare(
        &sandbox,
        sets,
        Some(true),
        [(&["-rl", "--delete-after"], "tree/"), (&["sync", "--allow-empty-source", "--delete"], "tree/")],
    );
}

#[test]
fn what_no_rule_of_the_target_protects_is_deleted_with_delete_excluded() {
    let sandbox = Sandbox::new();
    sources(&sandbox);
    let rsync = ["-rl", "--delete-after", "--delete-excluded"];
    let haul = ["sync", "--delete", "--delete-excluded", "--allow-empty-source"];
    // rsync 3.5.0 forgets the side of rules that a file in a directory merges.
    let sets = rule_sets().filter(|set| !set.iter().any(|rule| rule.contains(".merging"))).step_by(2);
    compare(&sandbox, sets, Some(false), [(&rsync, "tree/"), (&haul, "tree/")]);
}

#[test]
fn wrong_rules_are_refused_with_their_place() {
    let sandbox = Sandbox::new();
    sandbox.file("tree/a", "a");
    sandbox.file("rules", "- a\n\nx b\n");
    for (rule, said) in [
        ("x", "not an rsync filter rule"),
        ("-n a", "modifier 'n' is not valid"),
        ("- ", "without a pattern"),
        ("! a", "takes no pattern"),
        (". none", "cannot read none"),
        (". rules", "rules, line 3: not an rsync filter rule"),
        (":x .f", "not supported"),
        (": ..", "not the name of a file"),
    ] {
        sandbox.haul(["-r", &format!("--filter={rule}"), "tree", "to"]).run().ends(2).says([said]);
    }
    sandbox.haul(["-r", "--filter=- a", "--exclude=b", "tree", "to"]).run().ends(2).says(["cannot be combined"]);
    sandbox.file("tree/.f", ". /etc/hostname\n");
    sandbox
        .haul(["-r", "--filter=: .f", "tree", "to"])
        .run()
        .ends(1)
        .says(["line 1: the file is outside its directory"]);
    sandbox.file("tree/.f", "oops\n");
    sandbox.haul(["-r", "--filter=: .f", "tree", "to"]).run().ends(1).says(["line 1: not an rsync filter rule"]);
}

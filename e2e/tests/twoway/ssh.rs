//! The same over ssh, with either or both of the replicas remote.

use std::fs;

use haul_e2e::{Attributes, Remote, Terminal, compare_with, contents, listing};

use super::{Pair, UNION, actions};

#[test]
fn a_local_and_a_remote_replica_agree() {
    let pair = Pair::new();
    let remote = Remote::new(&pair.sandbox);
    let run = |options: &[&str]| {
        let haul = remote.haul(&pair.sandbox).env("XDG_STATE_HOME", pair.path("state"));
        haul.args(["twoway", "--batch"]).args(options).arg("a").arg(remote.at(pair.path("b"))).run()
    };
    agrees(&pair, run);
    // The remote end keeps its archive there.
    assert_eq!(listing(&remote.home().join(".local/state/haul/twoway")).len(), 2);
    remote.is_left_clean();
}

#[test]
fn two_remote_replicas_agree() {
    let pair = Pair::new();
    let remote = Remote::new(&pair.sandbox);
    let run = |options: &[&str]| {
        let haul = remote.haul(&pair.sandbox).env("XDG_STATE_HOME", pair.path("state"));
        let roots = ["a", "b"].map(|side| remote.at(pair.path(side)));
        haul.args(["twoway", "--batch"]).args(options).args(roots).run()
    };
    agrees(&pair, run);
    let one = remote.at(pair.path("a"));
    let same = remote.haul(&pair.sandbox).args(["twoway", "--batch"]).arg(&one).arg(&one).run();
    same.ends(2).says(["same directory"]);
    remote.is_left_clean();
}

#[test]
fn the_difference_to_a_remote_file_is_shown() {
    let pair = Pair::new();
    let remote = Remote::new(&pair.sandbox);
    pair.put("a/f", "of A\n");
    pair.put("b/f", "of B!\n");
    pair.put("a/d", "a file");
    fs::create_dir(pair.path("b/d")).unwrap();
    let haul = remote.haul(&pair.sandbox).env("XDG_STATE_HOME", pair.path("state"));
    let haul = haul.args(["twoway", "--interactive", "a"]).arg(remote.at(pair.path("b")));
    let terminal = Terminal::start(haul, 100, 40);
    terminal.shows("1 of 2");
    for (key, shown) in [("d\n", "only files have a difference"), ("s\n", "2 of 2"), ("d\n", "+of B!")] {
        terminal.types(key);
        terminal.shows(shown);
    }
    terminal.types("q\n");
    terminal.end().ends(4);
    remote.is_left_clean();
}

#[test]
fn a_remote_root_that_is_missing_is_named_with_its_host() {
    let pair = Pair::new();
    let remote = Remote::new(&pair.sandbox);
    let missing = remote.at(pair.path("missing"));
    let run = remote.haul(&pair.sandbox).args(["twoway", "a"]).arg(missing).run();
    run.ends(1).says(["127.0.0.1", "missing: no such file"]);
    remote.is_left_clean();
}

fn agrees(pair: &Pair, run: impl Fn(&[&str]) -> haul_e2e::ProgramRun) {
    let settled = || {
        let attributes = Attributes { modes: true, ..Attributes::default() };
        compare_with(&pair.path("a"), &pair.path("b"), attributes).unwrap();
        assert!(actions(&run(&["--json"]).succeeds().events()).is_empty());
    };
    pair.sandbox.tree("a/tree");
    pair.put("a/both", "first");
    pair.put("b/of-b", "of B");
    run(&[]).succeeds().says([UNION]);
    settled();
    pair.sandbox.big_file("a/tree/big", 5_000_000);
    pair.sandbox.big_file("b/another", 4_000_000);
    fs::rename(pair.path("b/tree/x"), pair.path("b/moved")).unwrap();
    pair.remove("a/of-b");
    pair.set_mode("b/tree/a frame", 0o600);
    run(&[]).succeeds();
    settled();
    assert!(!pair.path("b/of-b").exists() && pair.path("a/moved/y/z/deep").exists());
    pair.put("a/both", "of A");
    pair.put("b/both", "of B!");
    pair.put("b/tree/of-b", "goes on");
    run(&[]).ends(6);
    assert_eq!(
        (pair.both("both"), pair.both("tree/of-b")),
        (["of A", "of B!"].map(Into::into), ["goes on"; 2].map(Into::into))
    );
    run(&["--keep-both", "--prefer", "b"]).succeeds();
    assert_eq!(contents(&pair.path("a/both")), b"of B!");
    assert_eq!(pair.names()[0].iter().filter(|name| name.starts_with("both.conflict-")).count(), 1);
    settled();
}

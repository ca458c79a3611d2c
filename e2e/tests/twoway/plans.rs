//! Plans that are shown, reviewed and applied, and pairs of the configuration file.

use std::fs;

use haul_e2e::{Terminal, eventually, fifo};

use super::{Pair, actions, event};

#[test]
fn a_plan_changes_nothing() {
    let pair = Pair::with(&["f", "both"]);
    pair.put("a/new", "new");
    pair.remove("b/f");
    pair.put("a/both", "A");
    pair.put("b/both", "B!");
    for _ in 0..2 {
        let run = pair.run(&["--plan"]).ends(6);
        for line in ["-> new", "<- deleted", "?? conflict"] {
            assert!(run.stdout.contains(line), "{line}\n{}", run.account());
        }
    }
    let lines = pair.json(&["--plan"]);
    assert_eq!(actions(&lines), ["copy b new", "delete a f"]);
    assert_eq!(pair.names(), [vec!["both", "f", "new"], vec!["both"]]);
}

#[test]
fn a_reviewed_plan_is_applied_only_if_nothing_changed() {
    let pair = Pair::with(&["f"]);
    pair.put("a/new", "new");
    let plan = || pair.sandbox.file("plan", pair.run(&["--plan", "--json"]).stdout);
    plan();
    pair.run(&["--plan-file", "plan"]).succeeds();
    assert_eq!(pair.text("b/new"), "new");
    for change in ["a/new", "b/later"] {
        pair.put("a/f", change);
        plan();
        pair.put(change, "changed after the review");
        pair.run(&["--plan-file", "plan"]).ends(1).says(["something has changed", "hint"]);
        assert_ne!(pair.text("b/f"), change);
        pair.run(&[]).succeeds();
    }
    pair.sandbox.file("plan", "no plan");
    pair.run(&["--plan-file", "plan"]).ends(2).says(["is not what haul twoway --plan --json printed"]);
    pair.run(&["--plan-file", "missing"]).ends(2).says(["missing"]);
}

#[test]
fn a_pair_of_the_configuration_file_has_roots_and_options() {
    let pair = Pair::new();
    let (a, b) = (pair.path("a"), pair.path("b"));
    let text = format!(
        "[pair.photos]\nroots = [\"{}\", \"{}\"]\nexclude = [\"*.tmp\"]\nprefer = \"a\"\nbatch = true\n",
        a.display(),
        b.display()
    );
    pair.sandbox.secret_file("config.toml", text);
    for (path, content) in [("a/f", "of A"), ("b/f", "of B!"), ("a/x.tmp", "excluded")] {
        pair.put(path, content);
    }
    let of_pair = |more: &[&str]| pair.command(&["--config", "config.toml", "photos"]).args(more).run();
    of_pair(&["--plan"]).succeeds();
    assert_eq!(pair.both("f"), ["of A", "of B!"]);
    // What is typed prevails.
    of_pair(&["--prefer", "b:f"]).succeeds();
    assert_eq!(pair.both("f"), ["of B!", "of B!"]);
    assert_eq!(pair.names()[1], ["f"]);
    pair.command(&["--config", "config.toml", "films"]).run().ends(2).says(["no pair films"]);
}

/// An option's argument may be the name of the pair.
#[test]
fn a_pair_may_be_called_like_an_argument() {
    let pair = Pair::new();
    let text = format!("[pair.b]\nroots = [\"{}\", \"{}\"]\n", pair.path("a").display(), pair.path("b").display());
    pair.sandbox.secret_file("config.toml", text);
    pair.put("a/f", "of A");
    pair.put("b/f", "of B!");
    pair.command(&["--config", "config.toml", "--prefer", "b", "b", "--batch"]).run().succeeds();
    assert_eq!(pair.both("f"), ["of B!", "of B!"]);
}

#[test]
fn the_difference_of_a_file_that_was_exchanged_for_a_fifo_is_no_wait() {
    let pair = Pair::with(&["one"]);
    pair.put("a/one", "of A");
    pair.put("b/one", "of B!");
    let terminal = Terminal::start(pair.command(&["--interactive", "a", "b"]), 100, 40);
    terminal.shows("1 of 1");
    fs::remove_file(pair.path("a/one")).unwrap();
    fifo(&pair.path("a/one"));
    terminal.types("d\n");
    terminal.shows("no difference of text");
    terminal.types("q\n");
    terminal.end().ends(4);
}

#[test]
fn conflicts_are_decided_at_a_terminal_and_a_second_run_meanwhile_is_refused_by_name() {
    let pair = Pair::with(&["one", "three", "two"]);
    for path in ["one", "three", "two"] {
        pair.put(format!("a/{path}"), "of A");
        pair.put(format!("b/{path}"), "of B!");
    }
    let terminal = Terminal::start(pair.command(&["--interactive", "a", "b"]), 100, 40);
    terminal.shows("1 of 3");
    pair.run(&[]).ends(1).says(["another haul (process", "works in this replica"]);
    for (key, shown) in [("a\n", "2 of 3"), ("u\n", "1 of 3"), ("b\n", "2 of 3"), ("s\n", "3 of 3"), ("d\n", "+of B!")]
    {
        terminal.types(key);
        terminal.shows(shown);
    }
    terminal.types("a\n");
    terminal.shows("all 3 answered");
    terminal.types("g\n");
    terminal.end().ends(6);
    eventually("the end of the run", || pair.both("two") == ["of A", "of A"]);
    assert_eq!(
        (pair.both("one"), pair.both("three")),
        (["of B!", "of B!"].map(Into::into), ["of A", "of B!"].map(Into::into))
    );
    pair.command(&["--interactive", "a", "b"]).run().ends(2).says(["needs a terminal"]);
    let terminal = Terminal::start(pair.command(&["--interactive", "a", "b"]), 100, 40);
    terminal.shows("1 of 1");
    terminal.types("q\n");
    terminal.end().ends(4);
    assert_eq!(event(&pair.json(&[]), "ended")["conflicts"], 1);
}

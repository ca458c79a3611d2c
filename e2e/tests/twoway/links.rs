//! Hard links: each name is a path, and groups are made again where both ends agree.

use std::fs;
use std::os::unix::fs::MetadataExt;

use super::{Pair, actions};

/// Gives a file a further name.
fn link(pair: &Pair, from: &str, to: &str) {
    fs::hard_link(pair.path(from), pair.path(to)).unwrap();
}

fn inodes<const N: usize>(pair: &Pair, paths: [&str; N]) -> [u64; N] {
    paths.map(|path| fs::metadata(pair.path(path)).unwrap().ino())
}

/// A pair with three names of one file at both sides.
fn linked_pair() -> Pair {
    let pair = Pair::new();
    pair.put("a/d/one", "content");
    link(&pair, "a/d/one", "a/d/two");
    link(&pair, "a/d/one", "a/three");
    pair.put("a/other", "content");
    pair.run(&[]).succeeds();
    pair
}

#[test]
fn names_of_one_file_are_one_file_at_the_other_side() {
    let pair = linked_pair();
    let [one, two, three, other] = inodes(&pair, ["b/d/one", "b/d/two", "b/three", "b/other"]);
    assert!(one == two && one == three && one != other, "{one} {two} {three} {other}");
    pair.is_equal();
    let settled = pair.json(&[]);
    assert!(actions(&settled).is_empty(), "{settled:?}");
}

#[test]
fn a_changed_group_stays_one_and_is_not_written_in_place() {
    let pair = linked_pair();
    link(&pair, "b/d/one", "outside");
    pair.put("a/d/one", "changed");
    pair.run(&[]).succeeds();
    let [one, two, three] = inodes(&pair, ["b/d/one", "b/d/two", "b/three"]);
    assert!(one == two && one == three, "{one} {two} {three}");
    assert_eq!((pair.text("b/three"), pair.text("outside")), ("changed".into(), "content".into()));
    pair.is_settled();
}

#[test]
fn a_new_mode_and_a_removal_reach_every_name() {
    let pair = linked_pair();
    pair.set_mode("a/three", 0o600);
    pair.run(&[]).succeeds();
    pair.is_equal();
    ["a/d/one", "a/d/two", "a/three"].iter().for_each(|path| pair.remove(path));
    pair.run(&[]).succeeds();
    pair.is_equal();
    pair.is_settled();
}

#[test]
fn separate_files_of_the_other_side_stay_separate() {
    let pair = Pair::with(&["one", "two"]);
    pair.remove("a/two");
    link(&pair, "a/one", "a/two");
    pair.put("a/one", "changed");
    pair.run(&[]).succeeds();
    let [one, two] = inodes(&pair, ["b/one", "b/two"]);
    assert!(one != two);
    assert_eq!(pair.both("two"), ["changed", "changed"]);
    pair.is_settled();
}

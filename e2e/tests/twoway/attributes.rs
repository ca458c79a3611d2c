//! Extended attributes and access control lists (`-X`, `-A`): an update of them is one of metadata.

use std::fs;
use std::os::unix::fs::MetadataExt;

use rustix::fs::{XattrFlags, lgetxattr, lremovexattr, lsetxattr};

use super::{Pair, actions, event};
use crate::attributes::acl;

const ACL: &str = "system.posix_acl_access";
const DEFAULT_ACL: &str = "system.posix_acl_default";

impl Pair {
    #[track_caller]
    fn set_attribute(&self, path: &str, name: &str, value: &[u8]) {
        lsetxattr(self.path(path), name, value, XattrFlags::empty()).unwrap_or_else(|error| panic!("{name}: {error}"));
    }

    fn attribute(&self, path: &str, name: &str) -> Option<Vec<u8>> {
        let mut value = [0; 100];
        let len = lgetxattr(self.path(path), name, &mut value[..]).ok()?;
        Some(value[..len].to_vec())
    }

    fn color(&self, path: &str) -> Option<String> {
        Some(String::from_utf8_lossy(&self.attribute(path, "user.color")?).into_owned())
    }

    #[track_caller]
    fn is_settled_with(&self, option: &str) {
        let lines = self.json(&[option]);
        assert_eq!(event(&lines, "planned")["actions"], 0, "{lines:?}");
    }
}

#[test]
fn attributes_of_files_and_directories_go_to_the_other_side() {
    let pair = Pair::with(&["d/f", "g", "gone"]);
    pair.set_attribute("b/gone", "user.color", b"none");
    pair.run(&["-X"]).succeeds();
    let inode = fs::metadata(pair.path("b/g")).unwrap().ino();
    for path in ["a/d", "a/g"] {
        pair.set_attribute(path, "user.color", b"red");
    }
    pair.put("a/new/file", "new");
    pair.set_attribute("a/new", "user.color", b"green");
    pair.set_attribute("a/new/file", "user.color", b"blue");
    lremovexattr(pair.path("a/gone"), "user.color").unwrap();
    let lines = pair.json(&["-X"]);
    let mut planned = actions(&lines);
    planned.sort();
    let expected =
        ["copy b new/file", "make_directory b new", "set_metadata b d", "set_metadata b g", "set_metadata b gone"];
    assert_eq!(planned, expected);
    // Contents stay where they are.
    assert_eq!(
        (&event(&lines, "ended")["bytes_to_b"], fs::metadata(pair.path("b/g")).unwrap().ino()),
        (&3.into(), inode)
    );
    let found = ["b/d", "b/g", "b/new", "b/new/file"].map(|path| pair.color(path).unwrap_or_default());
    assert_eq!((found, pair.color("b/gone")), (["red", "red", "green", "blue"].map(Into::into), None));
    pair.is_settled_with("-X");
}

#[test]
fn attributes_of_one_side_are_merged_with_contents_and_mode_of_the_other() {
    let pair = Pair::with(&["contents", "mode", "moved"]);
    pair.put("a/contents", "changed at A");
    pair.set_mode("a/mode", 0o600);
    fs::rename(pair.path("a/moved"), pair.path("a/to")).unwrap();
    pair.set_attribute("a/to", "user.color", b"red");
    for path in ["b/contents", "b/mode"] {
        pair.set_attribute(path, "user.color", b"red");
    }
    pair.run(&["-X"]).succeeds();
    pair.is_equal();
    assert_eq!(pair.both("contents"), ["changed at A"; 2]);
    for path in ["a/contents", "b/contents", "a/mode", "b/mode", "b/to"] {
        assert_eq!(pair.color(path).as_deref(), Some("red"), "{path}");
    }
    pair.is_settled_with("-X");
}

#[test]
fn different_attributes_of_both_sides_are_a_conflict_of_metadata() {
    let pair = Pair::with(&["f"]);
    pair.set_attribute("a/f", "user.color", b"red");
    pair.set_attribute("b/f", "user.color", b"blue");
    let lines = pair.run(&["-X", "--json"]).ends(6).events();
    assert_eq!(event(&lines, "conflict")["about"], "metadata");
    assert_eq!(["a/f", "b/f"].map(|path| pair.color(path).unwrap()), ["red", "blue"]);
    pair.run(&["-X", "--prefer", "b"]).succeeds();
    assert_eq!(["a/f", "b/f"].map(|path| pair.color(path).unwrap()), ["blue", "blue"]);
    pair.is_settled_with("-X");
}

/// Their archive says nothing of attributes.
#[test]
fn runs_without_the_option_leave_attributes_and_later_ones_find_them() {
    let pair = Pair::with(&["f", "g"]);
    pair.set_attribute("a/f", "user.color", b"red");
    pair.put("b/f", "changed at B");
    pair.run(&[]).succeeds();
    assert_eq!((pair.color("b/f"), pair.both("f")), (None, ["changed at B"; 2].map(Into::into)));
    pair.set_attribute("a/g", "user.color", b"red");
    pair.is_settled();
    pair.run(&["-X"]).succeeds();
    assert_eq!(pair.color("b/g").as_deref(), Some("red"));
    pair.is_settled_with("-X");
}

#[test]
fn access_control_lists_are_synchronised_without_other_attributes() {
    let pair = Pair::with(&["d/f", "g"]);
    if lsetxattr(pair.path("a/d"), DEFAULT_ACL, &acl(), XattrFlags::empty()).is_err() {
        println!("SKIPPED: no access control lists here");
        return;
    }
    pair.set_attribute("a/g", ACL, &acl());
    pair.set_attribute("a/g", "user.color", b"red");
    pair.put("a/d/new", "inherits");
    pair.run(&["-A"]).succeeds();
    pair.is_equal();
    for (path, name) in [("b/d", DEFAULT_ACL), ("b/g", ACL)] {
        assert_eq!(pair.attribute(path, name).as_deref(), Some(&acl()[..]), "{path}");
    }
    assert_eq!((pair.color("b/g"), pair.attribute("b/d/new", ACL)), (None, pair.attribute("a/d/new", ACL)));
    pair.is_settled_with("-A");
    lremovexattr(pair.path("b/d"), DEFAULT_ACL).unwrap();
    pair.set_mode("b/g", 0o600);
    pair.run(&["-A"]).succeeds();
    pair.is_equal();
    assert_eq!((pair.attribute("a/d", DEFAULT_ACL), pair.attribute("a/g", ACL)), (None, pair.attribute("b/g", ACL)));
    pair.is_settled_with("-A");
}

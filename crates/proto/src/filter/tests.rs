use std::sync::Arc;

use super::*;
use crate::filter::{ListSyntax, PatternList};
use crate::path::Name;

/// Builds a matcher from words as typed: `+ PATTERN`, `- PATTERN`; a word of several lines is a file.
fn matcher(words: &[&str]) -> Matcher {
    let list = |word: &&str| {
        let (sign, text) = word.split_once(' ').unwrap();
        let syntax = if text.contains('\n') { ListSyntax::File } else { ListSyntax::Pattern };
        PatternList { text: text.into(), syntax, includes: sign == "+" }
    };
    Matcher::new(&FilterOptions { lists: words.iter().map(list).collect(), ..FilterOptions::default() }).unwrap()
}

fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).unwrap()
}

/// Returns a chain of directories, some with a filter file.
fn scope(directories: &[(&str, &str)]) -> Arc<FilterScope> {
    let rules = |text: &str| match text {
        "" => Vec::new(),
        text => vec![(0, PatternRules::of_file(text.as_bytes(), false).unwrap())],
    };
    let mut directories = directories.iter();
    let (_, text) = directories.next().unwrap();
    directories.fold(Arc::new(FilterScope::operand(rules(text))), |above, (directory, text)| {
        Arc::new(FilterScope::below(above, name(directory), rules(text)))
    })
}

#[test]
fn among_command_line_rules_the_first_match_decides() {
    let root = scope(&[("", "")]);
    for (words, file, left_out) in [
        (&["+ *.c", "- *"][..], "a.c", false),
        (&["+ *.c", "- *"], "a.o", true),
        (&["- *", "+ *.c"], "a.c", true),
        (&["- *.o"], "a.c", false),
        (&[], "a.c", false),
        (&["- *.o\n!a.o\n", "- a.*"], "a.o", false),
        (&["- b\n", "- a.*"], "a.o", true),
        (&["+ a.o\n!*.o\n"], "a.o", true),
    ] {
        assert_eq!(matcher(words).leaves_out(&root, file.as_bytes(), false), left_out, "{words:?} {file}");
    }
}

#[test]
fn directory_files_come_after_them_innermost_first() {
    let inner = scope(&[("", "*.o\n/top\n"), ("a", ""), ("b", "!x.o\n")]);
    let nothing = matcher(&[]);
    let decided = |matcher: &Matcher, scope: &FilterScope, name: &str| matcher.decide(scope, name.as_bytes(), false);
    let by = |above, line, includes| Some(FilterDecision { by: RuleOrigin::File { above, number: 0 }, line, includes });
    assert_eq!(decided(&nothing, &inner, "x.o"), by(0, 1, true));
    assert_eq!(decided(&nothing, &inner, "y.o"), by(2, 1, false));
    assert_eq!(decided(&nothing, &inner, "top"), None);
    assert_eq!(decided(&nothing, &scope(&[("", "/top\n")]), "top"), by(0, 1, false));
    let typed = matcher(&["- x.*"]);
    assert_eq!(
        decided(&typed, &inner, "x.o"),
        Some(FilterDecision { by: RuleOrigin::List(0), line: 1, includes: false })
    );
}

#[test]
fn a_pattern_with_a_slash_is_relative_to_its_files_directory() {
    let inner = scope(&[("", "a/b/x\n"), ("a", "b/y\n/z\n"), ("b", "")]);
    let nothing = matcher(&[]);
    for (file, left_out) in [("x", true), ("y", true), ("z", false)] {
        assert_eq!(nothing.leaves_out(&inner, file.as_bytes(), false), left_out, "{file}");
    }
    let typed = matcher(&["- a/b/w", "- b/v"]);
    assert!(typed.leaves_out(&inner, b"w", false) && !typed.leaves_out(&inner, b"v", false));
}

#[test]
fn a_chain_of_many_directories_is_given_up_without_a_deep_stack() {
    let mut scope = Arc::new(FilterScope::default());
    for _ in 0..200_000 {
        scope = Arc::new(FilterScope::below(scope, name("d"), Vec::new()));
    }
    assert!(matcher(&["- d/d/**/x"]).leaves_out(&scope, b"x", false));
    drop(scope);
}

#[test]
fn limits_are_kept_to_at_their_ends() {
    let limits = FileLimits { min_size: Some(10), max_size: Some(20), newer_s: Some(100), older_s: Some(200) };
    let matcher = Matcher::new(&FilterOptions { limits, ..FilterOptions::default() }).unwrap();
    let at = |seconds| Timestamp { seconds, nanoseconds: 5 };
    for (size, seconds, broken) in [
        (10, 100, None),
        (20, 199, None),
        (9, 150, Some(ExceededLimit::MinSize)),
        (21, 150, Some(ExceededLimit::MaxSize)),
        (15, 99, Some(ExceededLimit::Newer)),
        (15, 200, Some(ExceededLimit::Older)),
    ] {
        assert_eq!(matcher.limit(size, at(seconds)), broken, "{size} {seconds}");
    }
    assert_eq!(Matcher::new(&FilterOptions::default()).unwrap().limit(0, at(0)), None);
}

#[test]
fn lists_that_exclude_all_files_are_recognised() {
    for (words, leaves_out_all) in [
        (&["+ */", "- *"][..], true),
        (&["- *.o", "+ */", "- *"], true),
        (&["- *"], true),
        (&["- *\n!*/\n"], true),
        (&["+ *.c", "- *"], false),
        (&["- *\n!*/\n!*.c\n"], false),
        (&["+ */", "- *.o"], false),
        (&["+ /foo/", "- /*"], false),
        (&["- /*\n!/foo/\n"], false),
        (&["- /**"], true),
        (&["+ */", "- **/*"], true),
        (&["- */"], false),
        (&[], false),
    ] {
        assert_eq!(matcher(words).leaves_out_all_files(), leaves_out_all, "{words:?}");
    }
}

#[test]
fn the_list_that_excludes_everything_is_named() {
    for (words, list) in [
        (&["- *"][..], Some(0)),
        (&["- *.o", "- *"], Some(1)),
        (&["- *", "+ *.c"], Some(0)),
        (&["+ *.c", "- *"], None),
        (&["- *.o"], None),
        (&["- *\n!*/\n!*.c\n"], None),
    ] {
        assert_eq!(matcher(words).leaves_out_everything(), list, "{words:?}");
    }
}

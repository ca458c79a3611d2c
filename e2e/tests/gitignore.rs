//! Patterns mean the same as in git: random files of patterns in random trees, judged by both.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use haul_proto::filter::definition::FilterOptions;
use haul_proto::filter::{FilterScope, Matcher, PatternRules};
use haul_proto::path::Name;
use proptest::prelude::*;
use proptest::sample::select;

/// A directory's contents.
#[derive(Debug, Clone)]
struct Directory {
    patterns: String,
    files: BTreeSet<&'static str>,
    directories: Vec<(&'static str, Directory)>,
}

const NAMES: [&str; 14] = ["a", "b", "ab", "a.o", "b.o", ".a", "a b", "a ", "#a", "!a", "[a]", "a*", "a\\b", "build"];

/// Parts that patterns are put together from; some of them make no sense.
const PARTS: [&str; 31] = [
    "a",
    "b",
    "ab",
    ".o",
    "*",
    "**",
    "/",
    "/",
    "?",
    "[ab]",
    "[!a]",
    "[^b]",
    "[a-z]",
    "[]a]",
    "[[:alpha:]]",
    "[[:nothing:]]",
    "[a",
    "\\",
    "\\*",
    "\\ ",
    " ",
    "!",
    "#",
    "\\#",
    "\\!",
    "**/",
    "/**",
    "/**/",
    ".",
    "build",
    "a\\",
];

fn line() -> impl Strategy<Value = String> {
    let parts = prop::collection::vec(select(&PARTS[..]), 1..6);
    let starts = select(&["", "", "", "!", "/", "**/"][..]);
    let ends = select(&["", "", "", "/", " ", "\r"][..]);
    (starts, parts, ends)
        .prop_map(|(start, parts, end)| format!("{start}{}{end}", parts.concat()))
        // git passes its matcher only the part after the literal prefix, and so reads x**/y as x and then **/y.
        .prop_filter("git sees a ** that is none", |line| !is_misread_by_git(line))
}

/// Whether a `**` stands between a literal character and a slash or the end.
fn is_misread_by_git(line: &str) -> bool {
    let bytes = line.trim_end_matches([' ', '\r', '/']).as_bytes();
    bytes.windows(3).any(|three| three[0] != b'/' && three[0] != b'*' && &three[1..] == b"**")
}

fn directory() -> impl Strategy<Value = Directory> {
    let patterns = || prop::collection::vec(line(), 0..5).prop_map(|lines| lines.join("\n"));
    let files = || prop::collection::btree_set(select(&NAMES[..]), 0..6);
    let leaf =
        (patterns(), files()).prop_map(|(patterns, files)| Directory { patterns, files, directories: Vec::new() });
    leaf.prop_recursive(3, 12, 3, move |inner| {
        let directories = prop::collection::btree_map(select(&NAMES[..]), inner, 0..3);
        (patterns(), files(), directories).prop_map(|(patterns, mut files, directories)| {
            files.retain(|name| !directories.contains_key(name));
            Directory { patterns, files, directories: directories.into_iter().collect() }
        })
    })
}

fn make(at: &Path, Directory { patterns, files, directories }: &Directory) {
    fs::create_dir_all(at).unwrap();
    if !patterns.is_empty() {
        fs::write(at.join(".gitignore"), patterns).unwrap();
    }
    files.iter().for_each(|name| fs::write(at.join(name), "").unwrap());
    directories.iter().for_each(|(name, directory)| make(&at.join(name), directory));
}

/// Entries that haul includes, and those to ask git about: nothing below an excluded directory.
fn judge(
    matcher: &Matcher,
    scope: &Arc<FilterScope>,
    at: &str,
    directory: &Directory,
    verdicts: &mut Vec<(String, bool)>,
) {
    for name in &directory.files {
        verdicts.push((format!("{at}{name}"), matcher.leaves_out(scope, name.as_bytes(), false)));
    }
    for (name, directory) in &directory.directories {
        let is_left_out = matcher.leaves_out(scope, name.as_bytes(), true);
        verdicts.push((format!("{at}{name}"), is_left_out));
        if !is_left_out {
            let rules = vec![(0, PatternRules::of_file(directory.patterns.as_bytes(), false).unwrap())];
            let below = FilterScope::below(Arc::clone(scope), Name::new(name.as_bytes()).unwrap(), rules);
            judge(matcher, &Arc::new(below), &format!("{at}{name}/"), directory, verdicts);
        }
    }
}

/// Those of `paths` that git ignores.
fn ignored_by_git(root: &Path, paths: &[(String, bool)]) -> BTreeSet<String> {
    let mut git = Command::new("git");
    // Nobody's configuration has a say.
    git.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1").env_remove("GIT_DIR").current_dir(root);
    git.args(["check-ignore", "--no-index", "--stdin", "-z"]);
    let mut child =
        git.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("git is there (apt-get install git)");
    let mut input = child.stdin.take().unwrap();
    let asked: Vec<u8> = paths.iter().flat_map(|(path, _)| format!("./{path}\0").into_bytes()).collect();
    let writer = std::thread::spawn(move || input.write_all(&asked));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.status.code().is_some_and(|code| code < 2), "{output:?}");
    let said = output.stdout.split(|byte| *byte == 0).filter(|path| !path.is_empty());
    said.map(|path| String::from_utf8(path.to_vec()).unwrap().trim_start_matches("./").to_owned()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn exactly_the_entries_ignored_by_git_are_excluded(tree in directory()) {
        let temp = tempfile::tempdir().unwrap();
        make(temp.path(), &tree);
        fs::create_dir_all(temp.path().join(".git/objects")).unwrap();
        fs::create_dir_all(temp.path().join(".git/refs")).unwrap();
        fs::write(temp.path().join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
        let matcher = Matcher::new(&FilterOptions::default()).unwrap();
        let rules = vec![(0, PatternRules::of_file(tree.patterns.as_bytes(), false).unwrap())];
        let mut verdicts = Vec::new();
        judge(&matcher, &Arc::new(FilterScope::operand(rules)), "", &tree, &mut verdicts);
        let ignored = ignored_by_git(temp.path(), &verdicts);
        for (path, is_left_out) in &verdicts {
            prop_assert_eq!(*is_left_out, ignored.contains(path), "{}", path);
        }
    }
}

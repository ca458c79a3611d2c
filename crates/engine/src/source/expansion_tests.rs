use std::fs;
use std::os::unix::fs::symlink;

use super::*;

fn tree() -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    for dir in ["a", "b", "b/sub", ".hidden"] {
        fs::create_dir(place.path().join(dir)).unwrap();
    }
    for file in ["x.txt", "y.txt", ".z.txt", "a/1.gz", "b/2.gz", "b/1.gz", "b/sub/3.gz", "[x].txt", "{p,q}", "p"] {
        fs::write(place.path().join(file), file).unwrap();
    }
    symlink("b", place.path().join("link")).unwrap();
    symlink("nowhere", place.path().join("dangling.txt")).unwrap();
    place
}

fn expanded(place: &Path, patterns: &[&str]) -> Vec<(u16, u16, String)> {
    let patterns = patterns.iter().map(|text| text.as_bytes().to_vec()).collect();
    let base = Some(place.as_os_str().as_bytes().to_vec());
    let expansion = expand(&ExpandRequest { base, patterns }).unwrap();
    assert_eq!(expansion.notes, [""; 0]);
    let text = |found: PatternMatch| (found.pattern, found.alternative, String::from_utf8(found.path).unwrap());
    expansion.matches.into_iter().map(text).collect()
}

#[test]
fn matches_are_existing_paths_in_order() {
    let place = tree();
    for (pattern, expected) in [
        ("*.txt", &["[x].txt", "dangling.txt", "x.txt", "y.txt"][..]),
        ("{b,a}/*.gz", &["b/1.gz", "b/2.gz", "a/1.gz"]),
        ("*/*.gz", &["a/1.gz", "b/1.gz", "b/2.gz", "link/1.gz", "link/2.gz"]),
        ("*/*/*", &["b/sub/3.gz", "link/sub/3.gz"]),
        ("*/", &["a/", "b/", "link/"]),
        ("*/.", &["a/.", "b/.", "link/."]),
        (".[h-z]*", &[".hidden", ".z.txt"]),
        ("?/1.gz", &["a/1.gz", "b/1.gz"]),
        ("./x*", &["./x.txt"]),
        ("a/../[xy].txt", &["a/../x.txt", "a/../y.txt"]),
        ("x.txt/*", &[]),
        ("nothing*", &[]),
        ("{x,n}.txt", &["x.txt"]),
    ] {
        let found: Vec<_> = expanded(place.path(), &[pattern]).into_iter().map(|(_, _, path)| path).collect();
        assert_eq!(found, expected, "{pattern}");
    }
}

#[test]
fn a_literal_name_is_meant() {
    let place = tree();
    let found = expanded(place.path(), &["[x].txt", "[x]*", "{p,q}"]);
    let expected = [(0, 0, "[x].txt"), (1, 0, "x.txt"), (2, 0, "{p,q}")];
    assert_eq!(found, expected.map(|(pattern, alternative, path)| (pattern, alternative, path.to_owned())));
}

#[test]
fn an_absolute_pattern_has_no_base() {
    let place = tree();
    let pattern = format!("{}/a/*", place.path().display());
    let found = expanded(Path::new("/nonexistent"), &[&pattern]);
    assert_eq!(found, [(0, 0, format!("{}/a/1.gz", place.path().display()))]);
}

#[test]
fn work_and_matches_are_limited() {
    let place = tempfile::tempdir().unwrap();
    let base = place.path().as_os_str().as_bytes();
    (0..10).for_each(|number| fs::write(place.path().join(format!("{number}")), "").unwrap());
    let pattern = &SourcePattern::parse_all([&b"*"[..]]).unwrap()[0].alternatives[0];
    let of = |steps_left| Expander { base, steps_left, links: 0, notes: Vec::new() }.expand(pattern);
    assert_eq!(of(LOOKUP_STEPS + 10 * 4 + 1).unwrap().len(), 10);
    for few in [0, LOOKUP_STEPS, LOOKUP_STEPS + 9 * 4] {
        assert!(matches!(of(few), Err(ExpansionError::Steps)), "{few}");
    }
    let mut found = FoundPaths { count: PATTERN_MATCHES_MAX - 1, ..FoundPaths::default() };
    assert!(found.add(b"a", b"b").is_ok());
    assert!(matches!(found.add(b"a", b"b"), Err(ExpansionError::Matches)));
    assert!(matches!(FoundPaths::default().count(PATTERN_MATCHES_BYTES + 1), Err(ExpansionError::Matches)));
}

use super::*;

fn parsed(text: &str) -> Result<Vec<PathPattern>, SourcePatternError> {
    Ok(SourcePattern::parse_all([text.as_bytes()])?.remove(0).alternatives)
}

fn matches(pattern: &str, path: &str) -> bool {
    parsed(pattern).unwrap().iter().any(|pattern| pattern.matches(path.as_bytes()))
}

#[test]
fn braces_stand_for_alternatives_in_order() {
    for (text, expected) in [
        ("a", &["a"][..]),
        ("{a,b}", &["a", "b"]),
        ("x{a,b}y{1,2}", &["xay1", "xay2", "xby1", "xby2"]),
        ("{a,{b,c}d}", &["a", "bd", "cd"]),
        ("{a{b,c}}", &["{ab}", "{ac}"]),
        ("{a,{b,c}", &["{a,b", "{a,c"]),
        ("{a,b}}", &["a}", "b}"]),
        ("{{a,b}", &["{a", "{b"]),
        ("x{,y}", &["x", "xy"]),
        ("{a}{}{", &["{a}{}{"]),
        ("{a\\,b,c}", &["a,b", "c"]),
        ("\\{a,b}", &["{a,b}"]),
        ("\\\\{a,b}", &["\\a", "\\b"]),
        ("{a,b\\}", &["{a,b}"]),
        ("{a/x,b}/*", &["a/x/*", "b/*"]),
    ] {
        let paths: Vec<_> = parsed(text).unwrap().iter().map(PathPattern::unmatched).collect();
        assert_eq!(paths, expected.iter().map(|text| text.as_bytes().to_vec()).collect::<Vec<_>>(), "{text}");
    }
}

#[test]
fn components_match_within_slashes_and_without_leading_dots() {
    for (pattern, yes, no) in [
        ("*", &["a", "a b", "\u{e9}"][..], &[".a", "a/b", "", "a/", "/a", "..", "."][..]),
        (".*", &[".a"], &[".", "..", "a"]),
        ("\\.*", &[".a"], &["a", ".."]),
        ("[.]a", &[], &[".a"]),
        ("?a", &["aa"], &[".a", "a"]),
        ("a/*/c", &["a/b/c"], &["a/c", "a/b/b/c", "a//c", "a/./c", "a/../c", "b/b/c"]),
        ("/x/*", &["/x/a"], &["x/a", "/x/a/"]),
        ("d*/", &["d1/"], &["d1", "d1//", "/d1/"]),
        ("d*/.", &["d1/."], &["d1", "d1/", "d1/.."]),
        ("../*", &["../a"], &["a", "./a", "../.."]),
        ("**", &["a"], &["a/b"]),
        ("[a", &["[a"], &["a"]),
        ("[a*", &["[ab"], &["a", "ab"]),
        ("a\\*b?", &["a*bc"], &["axbc"]),
        ("a\\/b*", &["a/bc"], &["a\\/bc"]),
        ("[!a]*", &["b"], &["a", ".b"]),
        ("{a,b}*.{c,d}", &["ax.c", "b.d"], &["c.c", "a.e"]),
    ] {
        yes.iter().for_each(|path| assert!(matches(pattern, path), "{pattern} {path}"));
        no.iter().for_each(|path| assert!(!matches(pattern, path), "{pattern} {path}"));
        assert!(!matches(pattern, "a\0"));
    }
}

#[test]
fn hostile_patterns_are_refused_or_cost_little() {
    let nested = "{a,".repeat(600) + &"}".repeat(600);
    assert_eq!(parsed(&nested).map(|all| all.len()), Ok(601));
    assert_eq!(parsed(&"{a,b}".repeat(10)), Err(SourcePatternError::Alternatives));
    assert_eq!(parsed(&"{a,b}".repeat(800)), Err(SourcePatternError::Alternatives));
    assert_eq!(parsed(&"{a,".repeat(1365)).map(|all| all.len()), Ok(1), "unclosed");
    assert_eq!(parsed(&"{".repeat(PATTERN_MAX)).map(|all| all.len()), Ok(1));
    assert_eq!(parsed(&"a".repeat(PATTERN_MAX + 1)), Err(SourcePatternError::Length));
    assert_eq!(parsed(&("[".repeat(PATTERN_MAX - 1) + "*")), Err(SourcePatternError::Length), "each takes an escape");
    let many = vec![&b"{a,b}"[..]; PATTERN_ALTERNATIVES_MAX / 2 + 1];
    assert_eq!(SourcePattern::parse_all(many[1..].to_vec()).map(|all| all.len()), Ok(PATTERN_ALTERNATIVES_MAX / 2));
    assert_eq!(SourcePattern::parse_all(many), Err(SourcePatternError::Alternatives));
    assert!(!matches(&("a*".repeat(120) + "b"), &"a".repeat(255)));
}

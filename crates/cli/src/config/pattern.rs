//! Patterns of host names: matching, and precedence by specificity.

/// Whether `host` matches `pattern`: `*` for any characters, `?` for one, case-insensitive.
pub fn matches(pattern: &str, host: &str) -> bool {
    let (pattern, host) = (pattern.as_bytes(), host.as_bytes());
    let (mut in_pattern, mut in_host) = (0, 0);
    // Position of the last star, and the length of the host matched against the letters behind it.
    let mut star: Option<(usize, usize)> = None;
    while let Some(letter) = host.get(in_host) {
        match (pattern.get(in_pattern), star) {
            (Some(b'*'), _) => {
                star = Some((in_pattern, in_host));
                in_pattern += 1;
            }
            (Some(wanted), _) if *wanted == b'?' || wanted.eq_ignore_ascii_case(letter) => {
                in_pattern += 1;
                in_host += 1;
            }
            (_, Some((at, begun))) => {
                star = Some((at, begun + 1));
                in_pattern = at + 1;
                in_host = begun + 1;
            }
            (_, None) => return false,
        }
    }
    pattern[in_pattern..].iter().all(|letter| *letter == b'*')
}

/// The more specific of two patterns of one host has the higher rank: a name is above all patterns, then the one with
/// more literal letters.
pub fn rank(pattern: &str) -> (bool, usize) {
    let letters = pattern.bytes().filter(|letter| !b"*?".contains(letter)).count();
    (letters == pattern.len(), letters)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_are_any_letters_and_question_marks_one() {
        for (pattern, host) in [
            ("db1", "db1"),
            ("db1", "DB1"),
            ("db*", "db"),
            ("db*", "db1.example.org"),
            ("*.example.org", "a.b.example.org"),
            ("d?1", "db1"),
            ("*", "anything"),
            ("*b*b?", "abbbx"),
            ("fe80::*%eth0", "fe80::1%eth0"),
            ("**", ""),
        ] {
            assert!(matches(pattern, host), "{pattern} {host}");
        }
        for (pattern, host) in
            [("db1", "db12"), ("db?", "db"), ("db?", "db12"), ("*.org", "org"), ("", "a"), ("a*b", "acbd"), ("a", "")]
        {
            assert!(!matches(pattern, host), "{pattern} {host}");
        }
    }

    #[test]
    fn many_stars_take_no_longer() {
        let host = "a".repeat(4000);
        assert!(!matches(&format!("{}b", "*a".repeat(2000)), &host));
    }

    #[test]
    fn a_name_is_more_particular_than_a_pattern_and_letters_count() {
        assert!(rank("db1") > rank("db1*"));
        assert!(rank("db1") > rank("*.example.org"));
        assert!(rank("db1*") > rank("db*"));
        assert!(rank("db*") > rank("*"));
        assert_eq!(rank("db?"), rank("db*"));
    }
}

//! A pattern of gitignore(5), over bytes. `*` and `?` match anything but a slash, `[...]` one byte of a set, and `**`
//! between slashes any directories. A backslash makes the next byte literal.
//!
//! The time of a match is bounded by the product of the pattern's length and the name's. All possible positions in the
//! pattern are followed in parallel, without backtracking.

use super::class::{self, ByteClass};

/// Longest pattern, in bytes.
pub const PATTERN_MAX: usize = 4096;
/// Words of a bit set of positions: one more than the longest pattern has bytes.
const WORDS: usize = PATTERN_MAX / 64 + 1;

/// A parsed pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pattern {
    /// Exactly these bytes.
    Exactly(Box<[u8]>),
    /// These bytes as a suffix, without a slash before them.
    EndsWith(Box<[u8]>),
    /// Any other pattern.
    Tokens(Box<[PatternToken]>),
    /// A pattern that cannot match: an unterminated set, or a trailing backslash.
    Nothing,
}

/// A token of a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PatternToken {
    /// This byte.
    Byte(u8),
    /// Any byte but a slash.
    One,
    /// Any byte of the set.
    Of(Box<ByteClass>),
    /// Any number of bytes without a slash.
    Run,
    /// Any number of bytes.
    Rest,
    /// Nothing, or any number of bytes and a slash.
    Directories,
}

impl Pattern {
    /// Parses a pattern of at most [`PATTERN_MAX`] bytes, without the syntax of a line around it.
    ///
    /// # Panics
    /// If it is longer: a programmer's error.
    pub fn new(text: &[u8]) -> Self {
        assert!(text.len() <= PATTERN_MAX, "a pattern of {} bytes", text.len());
        tokens(text, Stars::Git).map_or(Self::Nothing, Self::of_tokens)
    }

    /// Parses a pattern of rsync(1) of at most [`PATTERN_MAX`] bytes, without the slash that anchors it and the one of
    /// directories. Without wildcards, its bytes are literal; `**` matches anything.
    ///
    /// # Panics
    /// If it is longer: a programmer's error.
    pub fn rsync(text: &[u8], is_anchored: bool) -> Self {
        assert!(text.len() <= PATTERN_MAX, "a pattern of {} bytes", text.len());
        let is_wild = text.iter().any(|byte| b"*?[".contains(byte));
        let literal = || Some(text.iter().map(|byte| PatternToken::Byte(*byte)).collect());
        let Some(mut tokens) = (if is_wild { tokens(text, Stars::Rsync) } else { literal() }) else {
            return Self::Nothing;
        };
        let slashes = tokens.iter().filter(|token| **token == PatternToken::Byte(b'/')).count();
        let crosses = crosses_directories(text);
        match &tokens[..] {
            _ if is_anchored => {}
            // A slash in a set counts as a level, and matches none.
            _ if !crosses && slashes < text.iter().filter(|byte| **byte == b'/').count() => return Self::Nothing,
            [PatternToken::Rest, PatternToken::Byte(b'/'), ..] => {
                tokens.splice(..2, [PatternToken::Directories]);
            }
            [PatternToken::Rest, ..] => {}
            _ if slashes > 0 || crosses => tokens.insert(0, PatternToken::Directories),
            _ => {}
        }
        Self::of_tokens(tokens)
    }

    fn of_tokens(tokens: Vec<PatternToken>) -> Self {
        match tokens.split_first() {
            Some((PatternToken::Run, rest)) if let Some(bytes) = ordinary(rest) => Self::EndsWith(bytes),
            _ => ordinary(&tokens).map_or_else(|| Self::Tokens(tokens.into()), Self::Exactly),
        }
    }

    /// Whether the pattern matches all of `text`.
    pub fn matches(&self, text: &[u8]) -> bool {
        match self {
            Self::Nothing => false,
            Self::Exactly(bytes) => **bytes == *text,
            Self::EndsWith(bytes) => text.strip_suffix(&**bytes).is_some_and(|before| !before.contains(&b'/')),
            Self::Tokens(tokens) if tokens.len() < 64 => run::<1>(tokens, text),
            Self::Tokens(tokens) => run::<WORDS>(tokens, text),
        }
    }

    /// Whether the pattern matches any path, with or without slashes.
    pub fn matches_every_path(&self) -> bool {
        let crosses = |token: &PatternToken| matches!(token, PatternToken::Rest | PatternToken::Directories);
        self.matches_everything() && matches!(self, Self::Tokens(tokens) if tokens.iter().any(crosses))
    }

    /// Whether the pattern matches any name.
    pub fn matches_everything(&self) -> bool {
        match self {
            Self::Nothing | Self::Exactly(_) => false,
            Self::EndsWith(bytes) => bytes.is_empty(),
            Self::Tokens(tokens) => tokens
                .iter()
                .all(|token| matches!(token, PatternToken::Run | PatternToken::Rest | PatternToken::Directories)),
        }
    }
}

/// Returns the bytes of tokens that are all literal.
fn ordinary(tokens: &[PatternToken]) -> Option<Box<[u8]>> {
    tokens.iter().map(|token| if let PatternToken::Byte(byte) = token { Some(*byte) } else { None }).collect()
}

/// Whether a pattern of rsync may match a slash.
pub(super) fn crosses_directories(text: &[u8]) -> bool {
    text.windows(2).any(|two| two == b"**")
}

/// The meaning of `**`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stars {
    /// Directories, between slashes.
    Git,
    /// Anything.
    Rsync,
}

/// Parses the tokens of a pattern; `None` where it matches nothing.
fn tokens(text: &[u8], meaning: Stars) -> Option<Vec<PatternToken>> {
    let (mut tokens, mut rest) = (Vec::new(), text);
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        tokens.push(match byte {
            b'?' => PatternToken::One,
            b'\\' => {
                let (&escaped, after) = rest.split_first()?;
                rest = after;
                PatternToken::Byte(escaped)
            }
            b'[' => {
                let (set, after) = class::read(rest)?;
                rest = after;
                PatternToken::Of(Box::new(set))
            }
            b'*' => {
                let stars = rest.iter().take_while(|byte| **byte == b'*').count();
                rest = &rest[stars..];
                let begins_a_name =
                    matches!(tokens.last(), None | Some(PatternToken::Byte(b'/') | PatternToken::Directories));
                match rest {
                    _ if meaning == Stars::Rsync => {
                        if stars > 0 {
                            PatternToken::Rest
                        } else {
                            PatternToken::Run
                        }
                    }
                    [b'/', after @ ..] if stars > 0 && begins_a_name => {
                        rest = after;
                        PatternToken::Directories
                    }
                    [] | [b'\\', b'/', ..] if stars > 0 && begins_a_name => PatternToken::Rest,
                    _ => PatternToken::Run,
                }
            }
            byte => PatternToken::Byte(byte),
        });
    }
    Some(tokens)
}

/// Reached positions in a pattern: before each of its tokens, and after the last.
struct MatchPositions<const WORDS: usize>([u64; WORDS]);

impl<const WORDS: usize> MatchPositions<WORDS> {
    fn none() -> Self {
        Self([0; WORDS])
    }

    fn has(&self, place: usize) -> bool {
        self.0[place / 64] >> (place % 64) & 1 == 1
    }

    fn add(&mut self, place: usize) {
        self.0[place / 64] |= 1 << (place % 64);
    }

    /// Adds a position, and the following ones reachable without input.
    fn enter(&mut self, tokens: &[PatternToken], mut place: usize) {
        self.add(place);
        while let Some(PatternToken::Run | PatternToken::Rest | PatternToken::Directories) = tokens.get(place) {
            place += 1;
            self.add(place);
        }
    }

    /// Returns all positions in ascending order.
    fn each(&self) -> impl Iterator<Item = usize> {
        self.0.iter().enumerate().flat_map(|(at, &word)| {
            let next = |bits: &u64| Some(bits & (bits - 1)).filter(|bits| *bits != 0);
            let bits = std::iter::successors(Some(word).filter(|word| *word != 0), next);
            bits.map(move |bits| at * 64 + bits.trailing_zeros() as usize)
        })
    }
}

fn run<const WORDS: usize>(tokens: &[PatternToken], text: &[u8]) -> bool {
    let mut places = MatchPositions::<WORDS>::none();
    places.enter(tokens, 0);
    for &byte in text {
        let mut next = MatchPositions::none();
        let mut is_anywhere = false;
        for place in places.each() {
            let Some(token) = tokens.get(place) else { continue };
            let (stays, goes_on) = match token {
                PatternToken::Byte(wanted) => (false, *wanted == byte),
                PatternToken::One => (false, byte != b'/'),
                PatternToken::Of(set) => (false, set.has(byte)),
                PatternToken::Run => (byte != b'/', false),
                PatternToken::Rest => (true, false),
                PatternToken::Directories => (true, byte == b'/'),
            };
            match token {
                // The next token starts only after the end of a directory.
                PatternToken::Directories => next.add(place),
                _ if stays => next.enter(tokens, place),
                _ => {}
            }
            if goes_on {
                next.enter(tokens, place + 1);
            }
            is_anywhere |= stays || goes_on;
        }
        if !is_anywhere {
            return false;
        }
        places = next;
    }
    places.has(tokens.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_the_same_as_gits() {
        for (pattern, yes, no) in [
            ("", &[""][..], &["a"][..]),
            ("a", &["a"], &["b", "aa", "", "A"]),
            ("*", &["a", "abc", "", ".a"], &["a/b", "/"]),
            ("*.o", &["x.o", ".o", "a.b.o"], &["x.oo", "x/y.o", "o"]),
            ("a*b", &["ab", "axxb", "abb"], &["axx", "a/b", "xab"]),
            ("?", &["a", "/"][..1], &["", "/", "ab"]),
            ("a?c", &["abc"], &["a/c", "ac"]),
            ("[a-c]x", &["ax", "cx"], &["dx", "x", "axx"]),
            ("[!a]x", &["bx"], &["ax", "/x"]),
            ("a/b", &["a/b"], &["a", "b", "a/b/c", "x/a/b"]),
            ("**/b", &["b", "a/b", "x/y/b"], &["ab", "x/ab", "b/c"]),
            ("a/**", &["a/b", "a/b/c"], &["a", "b/a/c"]),
            ("a/**/b", &["a/b", "a/x/b", "a/x/y/b"], &["ab", "a/xb", "a/b/c"]),
            ("**", &["a", "a/b"], &[]),
            ("***/b", &["b", "x/y/b"], &["ab"]),
            ("**/**/b", &["b", "x/b", "x/y/z/b"], &["xb"]),
            ("a**b", &["ab", "axb"], &["a/b"]),
            ("a/**b", &["a/b", "a/xb"], &["a/x/b"]),
            ("**a", &["a", "xa"], &["x/a"]),
            ("*/b", &["a/b"], &["b", "a/x/b"]),
            ("\\*", &["*"], &["a"]),
            ("a\\?", &["a?"], &["ab"]),
            ("\\[a]", &["[a]"], &["a"]),
            ("a\\\\b", &["a\\b"], &["ab"]),
        ] {
            let compiled = Pattern::new(pattern.as_bytes());
            for (texts, is_match) in [(yes, true), (no, false)] {
                for text in texts {
                    assert_eq!(compiled.matches(text.as_bytes()), is_match, "{pattern:?} {text:?} {compiled:?}");
                }
            }
        }
    }

    #[test]
    fn patterns_of_rsync_cross_directories_with_two_stars_alone() {
        for (pattern, is_anchored, yes, no) in [
            ("a\\b", false, &["a\\b"][..], &["ab"][..]),
            ("a\\b*", false, &["ab", "abc"], &["a\\b"]),
            ("a/b", false, &["a/b", "x/a/b"], &["xa/b", "a/b/c"]),
            ("a/b", true, &["a/b"], &["x/a/b"]),
            ("a/*/b", false, &["a/x/b", "y/a/x/b"], &["a/b", "a/x/x/b"]),
            ("a**b", false, &["ab", "a/b", "x/axx/yb"], &["xab", "a/bc"]),
            ("a**b", true, &["ab", "a/x/b"], &["x/ab"]),
            ("**/b", false, &["b", "x/y/b"], &["ab"]),
            ("**/b", true, &["x/b", "x/y/b"], &["b", "ab"]),
            ("**b", false, &["b", "x/ab"], &["bc"]),
            ("a/***", false, &["a/", "a/b/c", "x/a/b"], &["a", "xa/b"]),
            ("a[/]b/c", false, &[], &["a/b/c", "b/c"]),
            ("[x/]/c", false, &[], &["x/c"]),
        ] {
            let compiled = Pattern::rsync(pattern.as_bytes(), is_anchored);
            yes.iter().for_each(|text| assert!(compiled.matches(text.as_bytes()), "{pattern} {text}"));
            no.iter().for_each(|text| assert!(!compiled.matches(text.as_bytes()), "{pattern} {text}"));
        }
        let hostile = Pattern::rsync(&b"**a*".repeat(PATTERN_MAX / 4), false);
        assert!(!hostile.matches(&b"a/".repeat(500)));
    }

    #[test]
    fn bytes_need_not_be_text() {
        assert!(Pattern::new(b"\xff*\xfe").matches(b"\xff\x80\xfe"));
        assert!(Pattern::new(b"[\x80-\xff]").matches(b"\xc3") && !Pattern::new(b"?").matches("\u{e4}".as_bytes()));
    }

    #[test]
    fn an_invalid_pattern_matches_nothing() {
        for pattern in ["[", "[a", "a\\", "x[[:nothing:]]"] {
            let compiled = Pattern::new(pattern.as_bytes());
            assert_eq!(compiled, Pattern::Nothing, "{pattern}");
            assert!(!compiled.matches(pattern.as_bytes()));
        }
    }

    #[test]
    fn patterns_that_match_everything_are_recognised() {
        for (pattern, is_all) in [
            ("*", true),
            ("**", true),
            ("**/*", true),
            ("***", true),
            ("*a", false),
            ("?*", false),
            ("[", false),
            ("", false),
        ] {
            assert_eq!(Pattern::new(pattern.as_bytes()).matches_everything(), is_all, "{pattern}");
        }
    }

    #[test]
    fn a_pattern_made_to_take_long_does_not() {
        let (pattern, text) = ("*a".repeat(PATTERN_MAX / 2), "a".repeat(PATTERN_MAX / 2 - 1));
        let compiled = Pattern::new(pattern.as_bytes());
        assert!(!compiled.matches(text.as_bytes()));
        assert!(compiled.matches(format!("{text}a").as_bytes()));
        let wide = Pattern::new("**/a*/".repeat(PATTERN_MAX / 6).as_bytes());
        assert!(!wide.matches("a/".repeat(600).as_bytes()));
    }
}

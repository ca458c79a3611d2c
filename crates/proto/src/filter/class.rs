//! Sets of bytes: the `[...]` of a pattern.

/// A set of bytes.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct ByteClass([u64; 4]);

impl ByteClass {
    /// Whether the set contains a byte.
    pub fn has(&self, byte: u8) -> bool {
        self.0[usize::from(byte >> 6)] >> (byte & 63) & 1 == 1
    }

    fn insert(&mut self, byte: u8) {
        self.0[usize::from(byte >> 6)] |= 1 << (byte & 63);
    }

    fn insert_all(&mut self, bytes: impl IntoIterator<Item = u8>) {
        bytes.into_iter().for_each(|byte| self.insert(byte));
    }

    /// Returns the complement.
    fn inverted(self) -> Self {
        Self(self.0.map(|word| !word))
    }

    fn without_slash(mut self) -> Self {
        self.0[usize::from(b'/' >> 6)] &= !(1 << (b'/' & 63));
        self
    }
}

impl std::fmt::Debug for ByteClass {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let has: Vec<u8> = (0..=u8::MAX).filter(|byte| self.has(*byte)).collect();
        write!(f, "[{}]", crate::path::escape(&has))
    }
}

/// Parses a set after its `[`; returns the set and the text after its `]`. Returns `None` for an unterminated set or an
/// unknown named class; the pattern then matches nothing.
pub fn read(text: &[u8]) -> Option<(ByteClass, &[u8])> {
    let (is_inverted, mut rest) = match text {
        [b'!' | b'^', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    let mut set = ByteClass::default();
    // Possible start of a range.
    let mut last: Option<u8> = None;
    let mut is_first = true;
    loop {
        let (&byte, after) = rest.split_first()?;
        match (byte, after) {
            (b']', _) if !is_first => {
                let set = if is_inverted { set.inverted() } else { set };
                return Some((set.without_slash(), after));
            }
            (b'\\', _) => {
                let (&escaped, after) = after.split_first()?;
                set.insert(escaped);
                (last, rest) = (Some(escaped), after);
            }
            (b'-', [end, ..]) if *end != b']' && last.is_some() => {
                let (end, after) = match after {
                    [b'\\', escaped, after @ ..] => (*escaped, after),
                    [b'\\'] => return None,
                    [end, after @ ..] => (*end, after),
                    [] => return None,
                };
                set.insert_all(last?..=end);
                (last, rest) = (None, after);
            }
            (b'[', [b':', named @ ..]) => {
                let close = named.iter().position(|byte| *byte == b']')?;
                match named[..close].split_last() {
                    Some((b':', name)) => {
                        set.insert_all((0..=u8::MAX).filter(class(name)?));
                        (last, rest) = (None, &named[close + 1..]);
                    }
                    // It only looks like a named class.
                    _ => {
                        set.insert(b'[');
                        (last, rest) = (Some(b'['), after);
                    }
                }
            }
            _ => {
                set.insert(byte);
                (last, rest) = (Some(byte), after);
            }
        }
        is_first = false;
    }
}

/// Returns the membership test of a named class in the C locale.
fn class(name: &[u8]) -> Option<fn(&u8) -> bool> {
    Some(match name {
        b"alnum" => u8::is_ascii_alphanumeric,
        b"alpha" => u8::is_ascii_alphabetic,
        b"blank" => |byte| matches!(byte, b' ' | b'\t'),
        b"cntrl" => u8::is_ascii_control,
        b"digit" => u8::is_ascii_digit,
        b"graph" => u8::is_ascii_graphic,
        b"lower" => u8::is_ascii_lowercase,
        b"print" => |byte| matches!(byte, b' '..=b'~'),
        b"punct" => u8::is_ascii_punctuation,
        b"space" => |byte| matches!(byte, b' ' | b'\t'..=b'\r'),
        b"upper" => u8::is_ascii_uppercase,
        b"xdigit" => u8::is_ascii_hexdigit,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the printable bytes of a set and the rest of the text.
    fn read_as_text(text: &str) -> Option<(String, &str)> {
        let (set, rest) = read(text.as_bytes())?;
        let has = (b' '..=b'~').filter(|byte| set.has(*byte)).map(char::from).collect();
        Some((has, std::str::from_utf8(rest).unwrap()))
    }

    #[test]
    fn a_set_has_its_named_characters() {
        for (text, has, rest) in [
            ("abc]d", "abc", "d"),
            ("a-e]", "abcde", ""),
            ("]a]", "]a", ""),
            ("a-]", "-a", ""),
            ("-a]", "-a", ""),
            ("a-c-e]", "-abce", ""),
            ("\\]x]y", "]x", "y"),
            ("\\a-c]", "abc", ""),
            ("a-\\c]", "abc", ""),
            ("e-a]", "e", ""),
            ("[:digit:]x]", "0123456789x", ""),
            ("[:x]", ":[x", ""),
            ("/a]", "a", ""),
        ] {
            let sorted = |text: &str| {
                let mut bytes = text.as_bytes().to_vec();
                bytes.sort_unstable();
                String::from_utf8(bytes).unwrap()
            };
            assert_eq!(read_as_text(text), Some((sorted(has), rest)), "[{text}");
        }
    }

    #[test]
    fn an_inverted_one_has_the_others_and_no_slash() {
        for text in ["!a]", "^a]"] {
            let (set, _) = read(text.as_bytes()).unwrap();
            assert!(!set.has(b'a') && !set.has(b'/') && set.has(b'b') && set.has(0xff), "[{text}");
        }
    }

    #[test]
    fn unclosed_and_unknown_classes_are_rejected() {
        for text in ["", "a", "]", "!", "!]", "a-", "\\", "a\\", "[:digit:", "[:nothing:]]", "a-\\"] {
            assert_eq!(read_as_text(text), None, "[{text}");
        }
    }
}

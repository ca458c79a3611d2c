//! Decodes a terminal's keys.

/// A key with a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// A character.
    Char(char),
    /// An arrow.
    Up,
    /// An arrow.
    Down,
    /// A screenful back.
    PageUp,
    /// A screenful forward.
    PageDown,
    /// The escape key itself.
    Escape,
}

/// Decodes the keys of one read, and drops unknown escape sequences. A terminal sends each key's sequence in one piece.
pub fn keys(mut bytes: &[u8]) -> Vec<Key> {
    let mut keys = Vec::new();
    while let Some((first, rest)) = bytes.split_first() {
        bytes = rest;
        match (first, rest.first()) {
            (0x1b, Some(b'[' | b'O')) => {
                let end = rest.iter().skip(1).position(|byte| (0x40..0x7f).contains(byte));
                let sequence = &rest[1..end.map_or(rest.len(), |end| end + 2)];
                keys.extend(named(sequence));
                bytes = &rest[1 + sequence.len()..];
            }
            (0x1b, None) => keys.push(Key::Escape),
            // A character with Alt is ignored.
            (0x1b, Some(_)) => bytes = &rest[1..],
            _ => keys.push(Key::Char(char::from(*first))),
        }
    }
    keys
}

/// Decodes a sequence after its introducer.
fn named(sequence: &[u8]) -> Option<Key> {
    match sequence {
        b"A" => Some(Key::Up),
        b"B" => Some(Key::Down),
        b"5~" => Some(Key::PageUp),
        b"6~" => Some(Key::PageDown),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_keys_in_one_read_are_separated() {
        let typed = keys(b"+\x1b[A\x1bOB-\x1b[6~\x1b[1;5C\x1bx\x1b[5~q");
        let chars = [Key::Char('+'), Key::Up, Key::Down, Key::Char('-'), Key::PageDown, Key::PageUp, Key::Char('q')];
        assert_eq!(typed, chars);
        assert_eq!((keys(b"\x1b"), keys(b"\t")), (vec![Key::Escape], vec![Key::Char('\t')]));
    }

    #[test]
    fn no_input_confuses_the_parser() {
        for bytes in [&b"\x1b["[..], b"\x1bO", b"\x1b[5", b"\x1b[;;;", b"\xff\x1b\x1b[", b""] {
            assert!(keys(bytes).len() <= bytes.len());
        }
    }
}

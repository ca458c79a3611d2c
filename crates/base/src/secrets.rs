//! One-time secrets in words and messages, which no output shows.

use std::borrow::Cow;
use std::ops::Range;

use crate::copy::credentials::OPEN;
use crate::copy::spec::PublicKey;

/// Fewest hexadecimal digits behind a `#` that may be a secret anywhere.
const DIGITS_MIN: usize = 16;
/// What stands for a secret in messages.
const PLACEHOLDER: &[u8] = b"SECRET";

/// The first possible secret in a word: the part behind `#` of anything like an address, however mistyped, and digits
/// behind any other `#`. A public key is none.
pub fn secret_in(word: &[u8]) -> Option<Range<usize>> {
    (0..word.len()).filter(|at| word[*at] == b'#').map(|hash| hash + 1).find_map(|start| {
        let ends = |byte: &u8| b":'\"`,;)".contains(byte);
        let end = word[start..].iter().position(ends).map_or(word.len(), |len| start + len);
        let text = &word[start..end];
        let is_secret = word[..start].windows(3).any(|part| part == b"://")
            || text.len() >= DIGITS_MIN && text.iter().all(u8::is_ascii_hexdigit);
        let is_public = std::str::from_utf8(text).is_ok_and(|text| text == OPEN || PublicKey::parse(text).is_some());
        (is_secret && !is_public && !text.is_empty() && text != PLACEHOLDER).then_some(start..end)
    })
}

/// A text for people without secrets.
pub fn without_secrets(text: &str) -> Cow<'_, str> {
    if !text.contains('#') {
        return text.into();
    }
    let hide = |word: &str| match secret_in(word.as_bytes()) {
        Some(secret) => [word.get(..secret.start), Some("***"), word.get(secret.end..)].into_iter().flatten().collect(),
        None => word.to_owned(),
    };
    text.split_inclusive(char::is_whitespace).map(hide).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_found_in_any_position() {
        let secret = |word: &str| secret_in(word.as_bytes()).map(|range| word[range].to_owned());
        assert_eq!(secret("haul://h:1/#0123").as_deref(), Some("0123"));
        assert_eq!(secret("haul://h:1/d#nearly a secret:a#b:c").as_deref(), Some("nearly a secret"));
        assert_eq!(secret("--target=haul://h/#ab:x").as_deref(), Some("ab"));
        let digits = "0123456789abcdef";
        for word in ["HAUL://h/#", "xhaul://h/in#", "a#b://h/#", "haul:/h/#", "#"] {
            assert_eq!(secret(&format!("{word}{digits}:x")).as_deref(), Some(digits), "{word}");
        }
        for word in ["haul://h/", "haul://h/#", "haul://h/#:x", "a#b", "#0123haul://h/", "haul://h/#open", ""] {
            assert_eq!(secret(word), None, "{word}");
        }
    }

    #[test]
    fn messages_hide_secrets_alone() {
        for (text, shown) in [
            ("unknown 'HAUL://h/#0123456789abcdef:a b'", "unknown 'HAUL://h/#***:a b'"),
            ("a/#b#: no space\nnote: #1", "a/#b#: no space\nnote: #1"),
            ("write haul://HOST:PORT/#SECRET:PATH", "write haul://HOST:PORT/#SECRET:PATH"),
        ] {
            assert_eq!(without_secrets(text), shown);
        }
    }
}

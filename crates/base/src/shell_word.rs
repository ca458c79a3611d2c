//! Words for a POSIX shell.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// Quotes any bytes but NUL.
pub fn quote_bytes(word: &OsStr) -> OsString {
    let pieces: Vec<_> = word.as_bytes().split(|byte| *byte == b'\'').collect();
    OsString::from_vec([b"'", pieces.join(&b"'\\''"[..]).as_slice(), b"'"].concat())
}

/// Quotes a word of a command that a user can paste, where that is needed.
pub fn quote(word: &str) -> String {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"%+,-./:=@_".contains(&b);
    if !word.is_empty() && word.bytes().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted() {
        assert_eq!(quote_bytes(OsStr::from_bytes(b"it's \xff")).as_bytes(), b"'it'\\''s \xff'");
        assert_eq!([quote("a/b"), quote("a b"), quote("it's")], ["a/b", "'a b'", r"'it'\''s'"]);
    }
}

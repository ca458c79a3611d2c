//! Words of a command that a user can paste.

/// Quotes a word for a POSIX shell, where that is needed.
pub fn quote(word: &str) -> String {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"%+,-./:=@_".contains(&b);
    if !word.is_empty() && word.bytes().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

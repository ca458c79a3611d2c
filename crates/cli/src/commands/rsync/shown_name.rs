//! Names in rsync's lines.

use std::sync::LazyLock;

use haul_show::terminal::takes_unicode;

/// A name as rsync prints it: `\\#ooo` for control characters other than a tab, and for bytes that the locale lacks.
pub(super) fn shown(name: &[u8]) -> String {
    shown_in(name, *HAS_UNICODE)
}

/// Whether the locale has characters beyond ASCII.
static HAS_UNICODE: LazyLock<bool> = LazyLock::new(takes_unicode);

fn is_escape(text: &str) -> bool {
    let digits = text.strip_prefix("\\#").and_then(|rest| rest.as_bytes().get(..3));
    digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_digit))
}

/// A line with the bytes that its names escape (`-8`); control characters stay escaped.
pub(super) fn with_bytes(line: &str) -> Vec<u8> {
    let mut rest = line.as_bytes();
    let mut bytes = Vec::with_capacity(rest.len());
    while let Some((first, after)) = rest.split_first() {
        let escaped = rest.strip_prefix(b"\\#").and_then(|digits| digits.get(..3));
        let byte = escaped.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        let (byte, left) = byte.filter(|byte| *byte >= 128).map_or((*first, after), |byte| (byte, &rest[5..]));
        bytes.push(byte);
        rest = left;
    }
    bytes
}

fn shown_in(name: &[u8], has_unicode: bool) -> String {
    let mut text = String::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        for (at, c) in chunk.valid().char_indices() {
            // What looks like an escape is none.
            let is_literal = c == '\\' && is_escape(&chunk.valid()[at..]);
            match (c.is_control() && c != '\t' || is_literal, c.is_ascii() || has_unicode) {
                (false, true) => text.push(c),
                _ => c.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| text.push_str(&format!("\\#{byte:03o}"))),
            }
        }
        chunk.invalid().iter().for_each(|byte| text.push_str(&format!("\\#{byte:03o}")));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_bit_output_has_the_bytes_of_names() {
        let line = format!(">f {}", shown_in(b"hi\xf9\n\\#371 \xc3\xa4", false));
        assert_eq!(line, ">f hi\\#371\\#012\\#134#371 \\#303\\#244");
        assert_eq!(with_bytes(&line), b">f hi\xf9\\#012\\#134#371 \xc3\xa4");
    }
}

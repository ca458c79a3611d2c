//! Words of any bytes in JSON: text where they are UTF-8, else their hexadecimal digits.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use serde_json::{Value, json};

/// The key of a word that is not UTF-8.
const HEX: &str = "hex";

/// A word as a JSON value.
pub fn to_json(word: &OsStr) -> Value {
    match word.to_str() {
        Some(text) => Value::from(text),
        None => json!({ HEX: word.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect::<String>() }),
    }
}

/// The word of a JSON value; `None` where it is no word.
pub fn from_json(value: &Value) -> Option<OsString> {
    if let Some(text) = value.as_str() {
        return Some(text.into());
    }
    let digits = value.get(HEX)?.as_str()?.as_bytes();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    (digits.len() % 2 == 0).then(|| digits.chunks(2).map(byte).collect::<Option<Vec<u8>>>())?.map(OsString::from_vec)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_word_survives() {
        for word in [&b"plain"[..], b"", b"with\nnewline", b"\xff\x00\x80", "d\u{e9}j\u{e0}".as_bytes()] {
            let word = OsStr::from_bytes(word);
            assert_eq!(from_json(&to_json(word)).as_deref(), Some(word));
        }
        for wrong in [json!(7), json!({ "hex": "f" }), json!({ "hex": "zz" }), json!({})] {
            assert_eq!(from_json(&wrong), None, "{wrong}");
        }
    }
}

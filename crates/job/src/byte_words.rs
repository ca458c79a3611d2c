//! Words of any bytes in JSON: as text if they are UTF-8, otherwise as hexadecimal digits.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use haul_proto::checksum::{from_hex, hex};
use serde_json::{Value, json};

/// The key of a word that is not UTF-8.
const HEX: &str = "hex";

/// A word as a JSON value.
pub fn to_json(word: &OsStr) -> Value {
    match word.to_str() {
        Some(text) => Value::from(text),
        None => json!({ HEX: hex(word.as_bytes()) }),
    }
}

/// The word of a JSON value; `None` if it is not a word.
pub fn from_json(value: &Value) -> Option<OsString> {
    if let Some(text) = value.as_str() {
        return Some(text.into());
    }
    from_hex(value.get(HEX)?.as_str()?.as_bytes()).map(OsString::from_vec)
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

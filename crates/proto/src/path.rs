//! Names: what a file may be called, as one component of a path.
//!
//! A path never travels whole. An entry says its parent and its [`Name`], so
//! no depth is too deep and nothing a peer sends can climb out of a directory.

use std::fmt;
use std::sync::Arc;

/// Longest name that Linux file systems take, in bytes.
pub const MAX_NAME: usize = 255;

/// One component of a path: 1 to 255 bytes, no `/`, no NUL, neither `.` nor `..`.
///
/// Names are bytes, not text: they need not be UTF-8. [`fmt::Display`] escapes
/// whatever could disturb a terminal or a line-based reader. Cheap to clone: whoever deals with an entry keeps its name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Arc<[u8]>);

/// Why some bytes are not a [`Name`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// No bytes, or more than [`MAX_NAME`].
    #[error("a name has 1 to 255 bytes")]
    Length,
    /// `/` or NUL.
    #[error("a name contains no '/' and no NUL")]
    Separator,
    /// `.` or `..`.
    #[error("'.' and '..' are not names")]
    Dots,
}

impl Name {
    /// Checks `bytes` and keeps a copy.
    pub fn new(bytes: &[u8]) -> Result<Self, NameError> {
        if bytes.is_empty() || bytes.len() > MAX_NAME {
            return Err(NameError::Length);
        }
        if bytes.iter().any(|&b| b == b'/' || b == 0) {
            return Err(NameError::Separator);
        }
        if bytes == b"." || bytes == b".." {
            return Err(NameError::Dots);
        }
        Ok(Self(bytes.into()))
    }

    /// The name of something that is not whole yet, or belongs to it: see [`Self::is_reserved`].
    ///
    /// # Panics
    /// If that is no name of this form: a programmer's error.
    pub fn reserved(digits: &str, what: &str) -> Self {
        let name = Self(format!(".haul-{digits}.{what}").into_bytes().into());
        assert!(name.is_reserved(), "{name} is no reserved name");
        name
    }

    /// A name of the form that targets give to files that are not whole yet and to what is known of them: `.haul-`, 24
    /// hexadecimal digits, `.part`, `.journal` or `.patch`. Such names are never copied.
    pub fn is_reserved(&self) -> bool {
        self.reserved_parts().is_some()
    }

    /// The digits of a reserved name, and what stands behind them: `part`, `journal` or `patch`.
    pub fn reserved_parts(&self) -> Option<(&str, &str)> {
        let rest = std::str::from_utf8(self.0.strip_prefix(b".haul-")?).ok()?;
        let (digits, what) = rest.split_once('.')?;
        let is_one = digits.len() == 24 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        (is_one && matches!(what, "part" | "journal" | "patch")).then_some((digits, what))
    }

    /// The bytes as they stand in the directory.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        escape(&self.0).fmt(f)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", escape(&self.0))
    }
}

/// Bytes of a path as a person may see them: text as it is; control characters,
/// line breaks, bidirectional overrides, backslashes and bytes that are not
/// UTF-8 as `\n`, `\t`, `\\`, `\u{202e}` or `\xff`.
pub fn escape(bytes: &[u8]) -> String {
    let mut shown = String::with_capacity(bytes.len());
    for piece in bytes.utf8_chunks() {
        for c in piece.valid().chars() {
            match c {
                '\\' => shown.push_str("\\\\"),
                c if disturbs(c) => shown.extend(c.escape_default()),
                c => shown.push(c),
            }
        }
        for byte in piece.invalid() {
            shown.push_str(&format!("\\x{byte:02x}"));
        }
    }
    shown
}

/// Whether a character could disturb a terminal: a control character, or one that changes the direction of the text
/// after it (Unicode UAX #9).
pub fn disturbs(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_what_is_not_one_component() {
        assert_eq!(Name::new(b""), Err(NameError::Length));
        assert_eq!(Name::new(&[b'a'; 256]), Err(NameError::Length));
        assert_eq!(Name::new(b"a/b"), Err(NameError::Separator));
        assert_eq!(Name::new(b"a\0"), Err(NameError::Separator));
        assert_eq!(Name::new(b"."), Err(NameError::Dots));
        assert_eq!(Name::new(b".."), Err(NameError::Dots));
        assert!(Name::new(b"...").is_ok());
        assert!(Name::new(&[0xff; 255]).is_ok());
    }

    #[test]
    fn reserved_names_come_apart_again() {
        let digits = "0123456789abcdef01234567";
        assert_eq!(Name::reserved(digits, "journal").reserved_parts(), Some((digits, "journal")));
        for other in [
            "0123456789abcdef01234567.part",
            ".haul-0123456789abcdef0123456.part",
            ".haul-0123456789abcdef0123456g.part",
            ".haul-0123456789abcdef01234567.parts",
            ".haul-0123456789abcdef01234567.",
            ".haul-0123456789abcdef01234567",
        ] {
            assert!(!Name::new(other.as_bytes()).unwrap().is_reserved(), "{other}");
        }
    }

    #[test]
    fn shows_hostile_names_harmlessly() {
        assert_eq!(escape(b"a\nb\x1b[2J\xff\\"), "a\\nb\\u{1b}[2J\\xff\\\\");
        assert_eq!(escape("\u{202e}gpj".as_bytes()), "\\u{202e}gpj");
        assert_eq!(escape("caf\u{e9}".as_bytes()), "caf\u{e9}");
    }
}

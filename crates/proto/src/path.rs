//! Names: single components of a path.
//!
//! No message carries a whole path. An entry has a parent and a [`Name`], so depth is unlimited and no peer can escape
//! from a directory.

use std::fmt;
use std::sync::Arc;

/// Longest name on Linux file systems, in bytes.
pub const MAX_NAME: usize = 255;

/// One component of a path: 1 to 255 bytes, no `/`, no NUL, neither `.` nor `..`.
///
/// Names are bytes and need not be UTF-8. [`fmt::Display`] escapes everything that could disturb a terminal or a
/// line-based reader. A clone is cheap, since many owners keep an entry's name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "Vec<u8>", into = "Vec<u8>")]
pub struct Name(Arc<[u8]>);

impl TryFrom<Vec<u8>> for Name {
    type Error = NameError;

    fn try_from(bytes: Vec<u8>) -> Result<Self, NameError> {
        Self::new(&bytes)
    }
}

impl From<Name> for Vec<u8> {
    fn from(name: Name) -> Self {
        name.as_bytes().to_vec()
    }
}

/// Reason why bytes are not a [`Name`].
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
    /// Checks `bytes` and copies them.
    pub fn new(bytes: &[u8]) -> Result<Self, NameError> {
        Self::check(bytes)?;
        Ok(Self(bytes.into()))
    }

    /// Checks that `bytes` are a name.
    pub(crate) fn check(bytes: &[u8]) -> Result<(), NameError> {
        if bytes.is_empty() || bytes.len() > MAX_NAME {
            return Err(NameError::Length);
        }
        if bytes.iter().any(|&b| b == b'/' || b == 0) {
            return Err(NameError::Separator);
        }
        if bytes == b"." || bytes == b".." {
            return Err(NameError::Dots);
        }
        Ok(())
    }

    /// Creates the name of an unfinished file or of a file that belongs to it: see [`Self::is_reserved`].
    ///
    /// # Panics
    /// If the name does not have this form: a programmer's error.
    pub fn reserved(digits: &str, what: &str) -> Self {
        let name = Self(format!(".haul-{digits}.{what}").into_bytes().into());
        assert!(name.is_reserved(), "{name} is no reserved name");
        name
    }

    /// Whether the name has the form that targets reserve for unfinished files and their state. The form is `.haul-`,
    /// 24 hexadecimal digits, then `.part`, `.journal`, `.patch` or `.lock`. Such names are never copied.
    pub fn is_reserved(&self) -> bool {
        self.reserved_parts().is_some()
    }

    /// Returns the digits of a reserved name and its suffix: `part`, `journal`, `patch` or `lock`.
    pub fn reserved_parts(&self) -> Option<(&str, &str)> {
        let rest = std::str::from_utf8(self.0.strip_prefix(b".haul-")?).ok()?;
        let (digits, what) = rest.split_once('.')?;
        let is_one = digits.len() == 24 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        (is_one && matches!(what, "part" | "journal" | "patch" | "lock")).then_some((digits, what))
    }

    /// Returns the bytes of the directory entry.
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

/// Escapes the bytes of a path for display.
///
/// These become `\n`, `\t`, `\\`, `\u{202e}` or `\xff`: control characters, line breaks, invisible characters,
/// bidirectional overrides, backslashes and invalid UTF-8. Other text is unchanged.
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

/// Characters that are invisible or change the display of others, from Unicode 16.0. They are the general categories
/// Cc, Cf, Zl and Zp (DerivedGeneralCategory.txt) and the property Default_Ignorable_Code_Point
/// (DerivedCoreProperties.txt). They include bidirectional controls, tags and variation selectors.
const DISTURBING: [(char, char); 27] = [
    ('\0', '\u{1f}'),
    ('\u{7f}', '\u{9f}'),
    ('\u{ad}', '\u{ad}'),
    ('\u{34f}', '\u{34f}'),
    ('\u{600}', '\u{605}'),
    ('\u{61c}', '\u{61c}'),
    ('\u{6dd}', '\u{6dd}'),
    ('\u{70f}', '\u{70f}'),
    ('\u{890}', '\u{891}'),
    ('\u{8e2}', '\u{8e2}'),
    ('\u{115f}', '\u{1160}'),
    ('\u{17b4}', '\u{17b5}'),
    ('\u{180b}', '\u{180f}'),
    ('\u{200b}', '\u{200f}'),
    ('\u{2028}', '\u{202e}'),
    ('\u{2060}', '\u{206f}'),
    ('\u{3164}', '\u{3164}'),
    ('\u{fe00}', '\u{fe0f}'),
    ('\u{feff}', '\u{feff}'),
    ('\u{ffa0}', '\u{ffa0}'),
    ('\u{fff0}', '\u{fffb}'),
    ('\u{110bd}', '\u{110bd}'),
    ('\u{110cd}', '\u{110cd}'),
    ('\u{13430}', '\u{1343f}'),
    ('\u{1bca0}', '\u{1bca3}'),
    ('\u{1d173}', '\u{1d17a}'),
    ('\u{e0000}', '\u{e0fff}'),
];

/// Whether a character could disturb a terminal or mislead a reader: see `DISTURBING`. All display of text from another
/// host or a file system uses this one test.
pub fn disturbs(c: char) -> bool {
    match c {
        ' '..='~' => false,
        _ => {
            let behind = DISTURBING.partition_point(|(first, _)| *first <= c);
            behind.checked_sub(1).is_some_and(|at| c <= DISTURBING[at].1)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_all_but_one_component() {
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
    fn reserved_names_can_be_parsed() {
        let digits = "0123456789abcdef01234567";
        for what in ["journal", "lock"] {
            assert_eq!(Name::reserved(digits, what).reserved_parts(), Some((digits, what)));
        }
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
        assert_eq!(escape("a\u{2028}b\u{200b}\u{feff}\u{e0041}".as_bytes()), "a\\u{2028}b\\u{200b}\\u{feff}\\u{e0041}");
    }

    /// Compares the table with an independent implementation, for every character.
    #[test]
    fn all_of_unicode_is_shown_harmlessly() {
        let class = regex_syntax::parse(r"[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]").unwrap();
        let regex_syntax::hir::HirKind::Class(regex_syntax::hir::Class::Unicode(class)) = class.into_kind() else {
            panic!("a class of characters")
        };
        let listed: Vec<_> = class.iter().map(|range| (range.start(), range.end())).collect();
        assert_eq!(listed, DISTURBING);
        for c in '\0'..=char::MAX {
            assert_eq!(disturbs(c), listed.iter().any(|(first, last)| (*first..=*last).contains(&c)), "{c:?}");
            let shown = escape(c.encode_utf8(&mut [0; 4]).as_bytes());
            assert!(!shown.chars().any(disturbs), "{c:?} is shown as {shown:?}");
        }
    }
}

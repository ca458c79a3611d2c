//! Paths as typed, and paths below them.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::copy::null;

/// Joins `base` and `path`; either may be empty. A `.` at the end of `base` means its contents, and is left out before
/// them.
pub fn below(base: &[u8], path: &[u8]) -> Vec<u8> {
    let base = if path.is_empty() { base } else { before_contents(base) };
    let mut whole = Vec::with_capacity(base.len() + 1 + path.len());
    whole.extend_from_slice(base);
    if !whole.is_empty() && !whole.ends_with(b"/") && !path.is_empty() {
        whole.push(b'/');
    }
    whole.extend_from_slice(path);
    whole
}

/// The base that a path marks by its first `/./`, and the path below it. Without the mark, there is no base.
pub fn marked_base(path: &[u8]) -> Option<(&[u8], &[u8])> {
    let slash = path.windows(3).position(|bytes| bytes == b"/./")?;
    Some((&path[..=slash], &path[slash + 3..]))
}

/// What stands before the contents of `base` in paths: `a/` for `a/.` and `a//.`.
pub fn before_contents(base: &[u8]) -> &[u8] {
    let Some(directory) = base.strip_suffix(b"/.") else { return base };
    let name_len = directory.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
    &base[..=name_len]
}

/// The name of an operand at the target; `None` for `.`, `..`, `/` and paths ending in `/.` or `/..`: these mean a
/// directory's contents, as in cp(1). The name of zeros ([`null`]) is `null`.
pub fn own_name(path: &Path) -> Option<&OsStr> {
    if null::null_size(path).is_some() {
        return Some(OsStr::new(null::NAME));
    }
    let bytes = path.as_os_str().as_bytes();
    let last = bytes.rsplit(|&b| b == b'/').find(|part| !part.is_empty())?;
    if last == b"." || last == b".." { None } else { Some(OsStr::from_bytes(last)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_joined_by_exactly_one_slash() {
        assert_eq!(below(b"a", b"b/c"), b"a/b/c");
        assert_eq!(below(b"/", b"b"), b"/b");
        assert_eq!(below(b"a/", b""), b"a/");
        assert_eq!(below(b"", b"b"), b"b");
        assert_eq!((below(b"a//.", b"b"), below(b"//.", b"b")), (b"a/b".to_vec(), b"/b".to_vec()));
        assert_eq!((below(b"a/.", b"b"), below(b"/.", b"b")), (b"a/b".to_vec(), b"/b".to_vec()));
        assert_eq!((below(b"a/.", b""), below(b".", b"b")), (b"a/.".to_vec(), b"./b".to_vec()));
    }

    #[test]
    fn the_first_mark_ends_the_base() {
        assert_eq!(marked_base(b"a/b/./c/./d"), Some((&b"a/b/"[..], &b"c/./d"[..])));
        assert_eq!(
            (marked_base(b"/./x"), marked_base(b"././x")),
            (Some((&b"/"[..], &b"x"[..])), Some((&b"./"[..], &b"x"[..])))
        );
        assert_eq!((marked_base(b"./x"), marked_base(b"x/.")), (None, None));
    }

    #[test]
    fn names_follow_cps_rules() {
        let own = |path: &str| own_name(Path::new(path)).map(|name| name.to_str().unwrap().to_owned());
        assert_eq!(own("/data/run7"), Some("run7".into()));
        assert_eq!(own("/data/run7///"), Some("run7".into()));
        assert_eq!((own("null:1g"), own("./null:1g")), (Some("null".into()), Some("null:1g".into())));
        for contents in ["/", ".", "..", "a/.", "a/..", "./", ""] {
            assert_eq!(own(contents), None, "{contents}");
        }
    }
}

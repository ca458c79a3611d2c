//! Paths as they are shown: what the user typed, and what is below it.

/// `path` below `base`; `base` alone where `path` is empty, and the reverse.
pub fn below(base: &[u8], path: &[u8]) -> Vec<u8> {
    let mut whole = base.to_vec();
    if !whole.is_empty() && !whole.ends_with(b"/") && !path.is_empty() {
        whole.push(b'/');
    }
    whole.extend_from_slice(path);
    whole
}

#[cfg(test)]
mod tests {
    use super::below;

    #[test]
    fn exactly_one_slash_stands_between() {
        assert_eq!(below(b"a", b"b/c"), b"a/b/c");
        assert_eq!(below(b"/", b"b"), b"/b");
        assert_eq!(below(b"a/", b""), b"a/");
        assert_eq!(below(b"", b"b"), b"b");
    }
}

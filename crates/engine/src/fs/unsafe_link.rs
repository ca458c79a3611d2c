//! Unsafe symbolic links: those whose text may lead out of the copied tree (rsync(1), "SYMBOLIC LINKS").

/// Whether a link with the text `points_to`, this many directories below the root of the transfer, is unsafe: it is
/// empty or absolute, climbs above the root, or climbs behind another name or at its end. What it leads to does not
/// count: that can be exchanged.
pub fn is_unsafe_link(points_to: &[u8], depth: usize) -> bool {
    if points_to.is_empty() || points_to.starts_with(b"/") {
        return true;
    }
    let names = || points_to.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
    let climbs_later = names().skip_while(|name| *name == b"..").any(|name| name == b"..");
    climbs_later || points_to.ends_with(b"/..") || names().take_while(|name| *name == b"..").count() > depth
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_unsafe_by_their_texts_as_in_rsync() {
        for (points_to, depth, is_unsafe) in [
            ("", 5, true),
            ("/", 5, true),
            ("/tree/file", 5, true),
            ("file", 0, false),
            ("./file", 0, false),
            ("a/b", 0, false),
            ("..", 0, true),
            ("..", 1, false),
            ("../", 1, false),
            ("../file", 0, true),
            ("../file", 1, false),
            ("../../file", 1, true),
            ("..//..///file", 2, false),
            ("../..", 9, true),
            ("../../", 2, false),
            ("./..", 9, true),
            ("./../file", 9, true),
            (".././file", 1, false),
            (".././../file", 9, true),
            ("../.", 1, false),
            (".", 0, false),
            ("a/", 0, false),
            ("a/../b", 9, true),
            ("a/..", 9, true),
            ("../a/../b", 9, true),
            ("...", 0, false),
            ("a/..b", 0, false),
        ] {
            assert_eq!(is_unsafe_link(points_to.as_bytes(), depth), is_unsafe, "{points_to} {depth}");
        }
    }
}

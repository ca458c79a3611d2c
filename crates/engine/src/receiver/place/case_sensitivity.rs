//! Whether a directory distinguishes names that differ by case alone.

use haul_proto::path::Name;

use crate::fs::{Dir, FileStat, FollowLinks};
/// Whether an existing name also exists with the other case; `None` if it has no letters.
pub fn folds(dir: &Dir, name: &Name) -> Option<bool> {
    let other = otherwise(name)?;
    let fd = dir.fd().ok()?;
    let this = FileStat::at_name(&*fd, name, FollowLinks::Itself).ok()?;
    match FileStat::at_name(&*fd, &other, FollowLinks::Itself) {
        // It may be a hard link.
        Ok(there) if there.identity == this.identity && this.names > 1 && !this.kind.is_dir() => None,
        Ok(there) => Some(there.identity == this.identity),
        Err(_) => Some(false),
    }
}

/// The name with the case of its letters swapped.
fn otherwise(name: &Name) -> Option<Name> {
    let text = std::str::from_utf8(name.as_bytes()).ok()?;
    let swapped = |letter: char| -> String {
        if letter.is_uppercase() { letter.to_lowercase().collect() } else { letter.to_uppercase().collect() }
    };
    let other: String = text.chars().map(swapped).collect();
    Name::new(other.as_bytes()).ok().filter(|other| other != name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::testing::{name, write_file};

    #[test]
    fn names_are_spelled_otherwise_if_they_have_letters() {
        assert_eq!(otherwise(&name("aB1")), Some(name("Ab1")));
        assert_eq!(otherwise(&name("\u{e4}")), Some(name("\u{c4}")));
        assert_eq!(otherwise(&name("123")), None);
    }

    #[test]
    fn case_sensitive_directories_fold_nothing() {
        let temp = tempfile::tempdir().unwrap();
        let dir = Dir::open_root(temp.path()).unwrap();
        write_file(&dir, "a", b"x");
        assert_eq!((folds(&dir, &name("a")), folds(&dir, &name("1"))), (Some(false), None));
        std::fs::hard_link(temp.path().join("a"), temp.path().join("A")).unwrap();
        assert_eq!(folds(&dir, &name("a")), None, "that is another name");
    }
}

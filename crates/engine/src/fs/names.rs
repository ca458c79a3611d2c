//! The names in a directory, without stat(2) where the listing has the types.

use std::io;

use haul_proto::path::Name;
use rustix::fs::FileType;

use super::{Dir, DirectoryPages};

/// Calls `tell` with each name in a directory and its type. No other reader may use the listing of this [`Dir`]
/// meanwhile. Vanished entries are skipped.
pub fn each_name(dir: &Dir, tell: impl FnMut(&Name, FileType)) -> io::Result<()> {
    each_name_unless(dir, |_| false, tell)
}

/// As [`each_name`], without the names that `skips` recognises by their bytes. Those cost no allocation and no stat(2).
pub fn each_name_unless(
    dir: &Dir,
    mut skips: impl FnMut(&[u8]) -> bool,
    mut tell: impl FnMut(&Name, FileType),
) -> io::Result<()> {
    let mut pages = DirectoryPages::new(dir.clone());
    while pages.next_page(&mut skips, &mut tell)? {}
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{make_dir, write_file};
    use super::*;

    #[test]
    fn all_names_are_listed_with_their_kinds() {
        let temp = tempfile::tempdir().unwrap();
        let dir = Dir::open_root(temp.path()).unwrap();
        (0..1_000).for_each(|i| write_file(&dir, format!("file{i}"), b""));
        make_dir(&dir, "dir");
        std::os::unix::fs::symlink("file1", temp.path().join("link")).unwrap();
        let mut found = Vec::new();
        each_name(&dir, |name, kind| found.push((name.clone(), kind))).unwrap();
        assert_eq!(found.len(), 1_002);
        let kind_of = |wanted: &str| found.iter().find(|(name, _)| name.as_bytes() == wanted.as_bytes()).unwrap().1;
        let kinds = [kind_of("file7"), kind_of("dir"), kind_of("link")];
        assert_eq!(kinds, [FileType::RegularFile, FileType::Directory, FileType::Symlink]);
    }
}

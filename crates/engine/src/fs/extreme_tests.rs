//! Tests of the sizes that break other tools: depth beyond PATH_MAX, many
//! files, few descriptors. Each tree is made and removed through held directories.

use std::collections::HashSet;
use std::os::unix::fs::symlink;

use super::listing::MAX_NAMES;
use super::testing::{DeepTemp, KEEP, both, eager, in_time, make_dir, name, write_file};
use super::*;
use crate::fs::listing::ListedName;
use crate::fs::prefetch::WORKERS_MAX;
use crate::fs::prefetch::budget::AHEAD_BYTES_MAX;

/// Most bytes that are held where names are short.
const BYTES_HELD_MAX: usize = AHEAD_BYTES_MAX + 2 * WORKERS_MAX * MAX_NAMES * size_of::<ListedName>();
#[test]
fn walks_deeper_than_any_path() {
    in_time(|| {
        for (temp, divisor) in DeepTemp::both() {
            let depth = 5_000 / divisor;
            let cache = FdCache::new(16);
            let root = Dir::open_root_in(temp.path(), cache.clone()).unwrap();
            let mut at = root.clone();
            for level in 0..depth {
                write_file(&at, "file", b"");
                if level % 100 == 0 {
                    make_dir(&at, "aside");
                }
                at = make_dir(&at, "deeper than PATH_MAX allows");
                assert!(cache.open_now() <= 16);
            }
            assert_eq!(at.path_bytes().len(), depth * 28 - 1);
            for walker in both(&root, &eager(KEEP)) {
                let (mut files, mut entered, mut left, mut deepest) = (0, 0, 0, 0);
                for item in walker {
                    match item {
                        WalkEntry::File { .. } => files += 1,
                        WalkEntry::EnterDir { .. } => entered += 1,
                        WalkEntry::LeaveDir { complete, .. } => left += usize::from(complete),
                        other => panic!("{other:?}"),
                    }
                    deepest = deepest.max(entered - left);
                }
                assert_eq!(
                    (files, entered, left, deepest),
                    (depth, depth + depth / 100 + 1, depth + depth / 100 + 1, depth + 1)
                );
                assert!(cache.open_now() <= 16);
            }
            drop(root);
            // The innermost directory is the last that holds the chain; it was closed long ago.
            assert_eq!(FileStat::at_fd(&*at.fd().unwrap()).unwrap().identity, at.identity());
            let path = temp.path().to_owned();
            drop(temp);
            assert!(!path.exists(), "removed by climbing out of it, level by level");
        }
    });
}

#[test]
fn drops_a_chain_of_any_length() {
    in_time(|| {
        let temp = tempfile::tempdir().unwrap();
        let root = Dir::open_root(temp.path()).unwrap();
        // A link back to the root makes a chain of any length out of one directory.
        symlink(".", temp.path().join("again")).unwrap();
        let again = name("again");
        let mut at = root;
        for _ in 0..200_000 {
            at = at.child_with_stat(&again, FollowLinks::Followed).unwrap().0;
        }
        // A thread's small stack would not survive a recursive drop.
        std::thread::Builder::new().stack_size(64 * 1024).spawn(move || drop(at)).unwrap().join().unwrap();
    });
}

#[test]
fn holds_one_piece_of_names_and_no_more() {
    in_time(|| {
        for (temp, divisor) in DeepTemp::both() {
            let (file_count, directory_count) = (20_000 / divisor, 5_000 / divisor);
            let root = Dir::open_root(temp.path()).unwrap();
            for i in 0..file_count {
                write_file(&root, format!("{i}"), b"");
            }
            for i in 0..directory_count {
                make_dir(&root, format!("d{i}"));
            }
            let ahead = eager(KEEP);
            let mut ahead_held = 0;
            for mut walker in both(&root, &ahead) {
                let (mut files, mut directories, mut held) = (HashSet::new(), 0, 0);
                while let Some(item) = walker.next() {
                    held = held.max(walker.names_held());
                    ahead_held = ahead_held.max(ahead.bytes_held());
                    match item {
                        WalkEntry::File { name, .. } => assert!(files.insert(name)),
                        WalkEntry::LeaveDir { complete: true, .. } => directories += 1,
                        WalkEntry::EnterDir { .. } => {}
                        other => panic!("{other:?}"),
                    }
                }
                assert_eq!((files.len(), directories), (file_count, directory_count + 1));
                assert!(held > 100 && held <= MAX_NAMES, "{held} names were held");
            }
            assert!(ahead_held > 1_000 && ahead_held <= BYTES_HELD_MAX, "{ahead_held} bytes were held");
        }
    });
}

#[test]
fn continues_a_listing_after_the_directory_was_closed() {
    in_time(|| {
        for (temp, _) in DeepTemp::both() {
            // More than one buffer of names on the disk, too.
            let (file_count, directory_count) = (3_000, 300);
            let root = Dir::open_root_in(temp.path(), FdCache::new(2)).unwrap();
            let wide = make_dir(&root, "wide");
            for i in 0..file_count {
                write_file(&wide, format!("file{i}"), b"");
            }
            // Deep enough to push `wide` out of the cache, whichever buffer of names they are in.
            for i in 0..directory_count {
                let mut at = make_dir(&wide, format!("dir{i}"));
                for _ in 0..4 {
                    at = make_dir(&at, "x");
                }
            }
            for walker in both(&root, &eager(KEEP)) {
                let mut names = HashSet::new();
                let mut failed = 0;
                for item in walker {
                    match item {
                        WalkEntry::File { name, .. } => assert!(names.insert(name)),
                        WalkEntry::EnterDir { dir, .. }
                            if dir.name().is_some_and(|name| name.as_bytes().starts_with(b"dir")) =>
                        {
                            assert!(names.insert(dir.name().unwrap().clone()));
                        }
                        WalkEntry::Failed { .. } => failed += 1,
                        _ => {}
                    }
                }
                assert_eq!((names.len(), failed), (file_count + directory_count, 0));
            }
        }
    });
}

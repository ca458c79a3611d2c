use super::super::testing::{in_time, make_dir, name, rename, write_file};
use super::*;

fn tiny_cache(root: &Path) -> Dir {
    Dir::open_root_in(root, FdCache::new(2)).expect("a root")
}

/// Opens enough other directories for `dir` and its ancestors to be closed.
fn evict(root: &Dir, dir: &Dir) {
    for i in 0..8 {
        let spare = name(format!("spare{i}"));
        if rustix::fs::mkdirat(&*root.fd().unwrap(), spare.as_bytes(), Mode::RWXU).is_ok() {
            root.child(&spare).unwrap();
        }
        let again = root.child(&spare).unwrap();
        again.fd().unwrap();
    }
    assert!(!dir.0.slot.is_open(), "the cache is smaller than what was opened");
}

#[test]
fn reopens_evicted_directories() {
    let temp = tempfile::tempdir().unwrap();
    let root = tiny_cache(temp.path());
    let deep = make_dir(&make_dir(&make_dir(&root, "a"), "b"), "c");
    write_file(&deep, "f", b"1");
    evict(&root, &deep);
    assert_eq!(deep.open_file(&name("f"), FollowLinks::Itself).unwrap().1.size, 1);
    assert_eq!(FileStat::at_fd(&*deep.fd().unwrap()).unwrap().identity, deep.identity());
    assert!(root.0.cache.open_now() <= 2);
    assert_eq!(deep.path_bytes(), b"a/b/c");
    assert_eq!(deep.path_of(b"f"), b"a/b/c/f");
    assert_eq!(root.path_of(b"f"), b"f");
}

#[test]
fn never_follows_a_directory_replaced_by_a_link() {
    let temp = tempfile::tempdir().unwrap();
    let root = tiny_cache(temp.path());
    let middle = make_dir(&root, "middle");
    let deep = make_dir(&middle, "deep");
    let elsewhere = make_dir(&root, "elsewhere");
    make_dir(&elsewhere, "deep");
    evict(&root, &middle);
    evict(&root, &deep);
    rename(temp.path(), "middle", "moved");
    std::os::unix::fs::symlink("elsewhere", temp.path().join("middle")).unwrap();
    for dir in [&middle, &deep] {
        assert_eq!(dir.fd().unwrap_err().to_string(), REPLACED);
    }
    assert_eq!(root.child(&name("middle")).unwrap_err().raw_os_error(), Some(Errno::NOTDIR.raw_os_error()));
}

#[test]
fn notices_another_directory_under_the_same_name() {
    let temp = tempfile::tempdir().unwrap();
    let root = tiny_cache(temp.path());
    let deep = make_dir(&make_dir(&root, "middle"), "deep");
    make_dir(&make_dir(&root, "other"), "deep");
    evict(&root, &deep);
    rename(temp.path(), "middle", "moved");
    rename(temp.path(), "other", "middle");
    assert_eq!(deep.fd().unwrap_err().to_string(), REPLACED);
    rename(temp.path(), "middle", "other");
    rename(temp.path(), "moved", "middle");
    assert!(deep.fd().is_ok(), "the first one is back");
}

#[test]
fn an_argument_is_closed_and_reopened_in_its_place() {
    let temp = tempfile::tempdir().unwrap();
    let cache = FdCache::new(2);
    let operands: Vec<Dir> = (0..20)
        .map(|i| {
            let path = temp.path().join(format!("d{i}"));
            std::fs::create_dir_all(path.join("deep")).unwrap();
            Dir::open_operand(&path, DirAccess::List, Arc::clone(&cache)).unwrap()
        })
        .collect();
    assert!(cache.open_now() <= 2 && !operands[0].0.slot.is_open());
    let deep = operands[0].child(&name("deep")).unwrap();
    operands.iter().for_each(|dir| assert!(dir.fd().is_ok()));
    assert!(!deep.0.slot.is_open() && !operands[0].0.slot.is_open());
    assert_eq!(FileStat::at_fd(&*deep.fd().unwrap()).unwrap().identity, deep.identity());

    operands.iter().for_each(|dir| assert!(dir.fd().is_ok()));
    rename(temp.path(), "d0", "gone");
    rename(temp.path(), "d1", "d0");
    for dir in [&operands[0], &deep] {
        assert_eq!(dir.fd().unwrap_err().to_string(), REPLACED);
    }
    assert!(cache.open_now() <= 2);
}

#[test]
fn a_search_only_directory_suffices_to_open_its_contents() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("search");
    std::fs::create_dir(&path).unwrap();
    write_file(&Dir::open_root(&path).unwrap(), "file", b"12");
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o100)).unwrap();
    let (listed, searched, operand) = super::super::testing::without_capabilities(move || {
        let size = |dir: io::Result<Dir>| Ok(dir?.open_file(&name("file"), FollowLinks::Itself)?.1.size);
        let operand = Dir::open_operand(&path, DirAccess::Search, FdCache::new(2));
        let listed: io::Result<u64> = size(Dir::open_root(&path));
        let searched: io::Result<u64> = size(Dir::open_root_path(&path));
        let operand: io::Result<u64> = size(operand);
        (listed, searched, operand)
    });
    assert_eq!(listed.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    assert_eq!((searched.unwrap(), operand.unwrap()), (2, 2));
}

#[test]
fn climbs_through_dot_dot_only_to_its_own_parent() {
    let temp = tempfile::tempdir().unwrap();
    let root = tiny_cache(temp.path());
    let parent = make_dir(&make_dir(&root, "a"), "b");
    let child = make_dir(&parent, "c");
    evict(&root, &parent);
    let fd = child.fd().unwrap();
    assert!(parent.0.slot.is_open() || child.0.slot.is_open());
    parent.0.cache.close_half();
    parent.0.cache.close_half();
    child.0.cache.insert(&child.0.slot, fd.try_clone().unwrap());
    child.keep_parent_open();
    assert!(parent.0.slot.is_open());

    evict(&root, &parent);
    child.0.cache.insert(&child.0.slot, fd.try_clone().unwrap());
    rename(temp.path(), "a/b/c", "a/c");
    child.keep_parent_open();
    assert!(!parent.0.slot.is_open(), "its .. is another directory now");
}

#[test]
fn opens_only_regular_files_as_files() {
    in_time(|| {
        let temp = tempfile::tempdir().unwrap();
        let root = Dir::open_root(temp.path()).unwrap();
        write_file(&root, "file", b"12");
        std::os::unix::fs::symlink("file", temp.path().join("link")).unwrap();
        let fifo = FileType::Fifo;
        rustix::fs::mknodat(&*root.fd().unwrap(), "fifo", fifo, Mode::RWXU, 0).unwrap();
        assert_eq!(root.open_file(&name("link"), FollowLinks::Followed).unwrap().1.size, 2);
        assert!(root.open_file(&name("link"), FollowLinks::Itself).is_err());
        assert!(root.open_file(&name("fifo"), FollowLinks::Itself).is_err());
        assert!(Dir::from_fd(root.open_file(&name("file"), FollowLinks::Itself).unwrap().0).is_err());
    });
}

#[test]
fn is_shared_between_threads() {
    in_time(|| {
        let temp = tempfile::tempdir().unwrap();
        let root = tiny_cache(temp.path());
        let dirs: Vec<Dir> = (0..6).map(|i| make_dir(&root, format!("d{i}"))).collect();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for round in 0..2_000 {
                        let dir = &dirs[round % dirs.len()];
                        let stat = FileStat::at_fd(&*dir.fd().unwrap()).unwrap();
                        assert_eq!(stat.identity, dir.identity());
                    }
                });
            }
        });
        assert!(root.0.cache.open_now() <= 2);
    });
}

use std::fs;
use std::io::Write;

use haul_proto::filter::{ListSyntax, PatternList};
use haul_proto::twoway::OWN_DIRECTORY;
use tempfile::TempDir;

use super::*;

fn watch(root: &Path, excluded: &str) -> TreeWatch {
    let list = PatternList { text: excluded.into(), syntax: ListSyntax::Pattern, includes: false };
    let lists = if excluded.is_empty() { Vec::new() } else { vec![list] };
    TreeWatch::start(root, &FilterOptions { lists, ..FilterOptions::default() }).unwrap()
}

/// The next settled changes; a slash follows a path whose contents may have changed.
fn next(watch: &mut TreeWatch) -> String {
    match watch.next_changes().unwrap() {
        ChangedPart::Everything => "everything".to_owned(),
        ChangedPart::Paths(paths) => {
            let shown = |path: &[u8], all| format!("{}{}", String::from_utf8_lossy(path), if all { "/" } else { "" });
            paths.iter().map(|one| shown(&one.path, one.has_contents)).collect::<Vec<_>>().join(" ")
        }
    }
}

#[test]
fn changes_are_reported_by_path_at_any_depth() {
    let temp = TempDir::new().unwrap();
    let root = temp.path();
    fs::create_dir_all(root.join("a/b")).unwrap();
    let mut watch = watch(root, "");
    assert_eq!(watch.coverage().directories, 3);
    fs::write(root.join("a/b/f"), b"x").unwrap();
    assert_eq!(next(&mut watch), "a/b/f/");
    // All below a new directory belongs to it, and is watched.
    fs::create_dir_all(root.join("new/deep")).unwrap();
    fs::write(root.join("new/deep/f"), b"x").unwrap();
    assert_eq!(next(&mut watch), "new/");
    fs::write(root.join("new/deep/f"), b"y").unwrap();
    assert_eq!(next(&mut watch), "new/deep/f");
    // A moved directory is watched under its new name.
    fs::rename(root.join("new"), root.join("a/moved")).unwrap();
    assert_eq!(next(&mut watch), "a/moved/ new/");
    fs::remove_file(root.join("a/moved/deep/f")).unwrap();
    assert_eq!(next(&mut watch), "a/moved/deep/f/");
    assert_eq!(watch.coverage().directories, 5);
    // What was moved away is not.
    let elsewhere = TempDir::new().unwrap();
    fs::rename(root.join("a/moved"), elsewhere.path().join("moved")).unwrap();
    assert_eq!(next(&mut watch), "a/moved/");
    fs::write(elsewhere.path().join("moved/f"), b"x").unwrap();
    fs::write(root.join("last"), b"x").unwrap();
    assert_eq!(next(&mut watch), "last/");
}

#[test]
fn an_open_file_waits_until_it_is_closed() {
    let temp = TempDir::new().unwrap();
    fs::write(temp.path().join("log"), b"x").unwrap();
    let mut watch = watch(temp.path(), "");
    let mut log = fs::OpenOptions::new().append(true).open(temp.path().join("log")).unwrap();
    log.write_all(b"y").unwrap();
    fs::write(temp.path().join("other"), b"x").unwrap();
    assert_eq!(next(&mut watch), "other/");
    drop(log);
    assert_eq!(next(&mut watch), "log");
}

#[test]
fn excluded_paths_and_those_of_haul_do_not_count() {
    let temp = TempDir::new().unwrap();
    let root = temp.path();
    fs::create_dir_all(root.join("cache/deep")).unwrap();
    fs::create_dir(root.join(OWN_DIRECTORY)).unwrap();
    let mut watch = watch(root, "cache");
    assert_eq!(watch.coverage().directories, 1);
    fs::write(root.join("cache/deep/f"), b"x").unwrap();
    fs::write(root.join(OWN_DIRECTORY).join("id"), b"x").unwrap();
    fs::write(root.join(".haul-0123456789abcdef01234567.part"), b"x").unwrap();
    fs::write(root.join("f"), b"x").unwrap();
    assert_eq!(next(&mut watch), "f/");
}

#[test]
fn a_root_that_was_replaced_is_watched_anew() {
    let temp = TempDir::new().unwrap();
    let root = temp.path().join("root");
    fs::create_dir(&root).unwrap();
    let mut watch = watch(&root, "");
    fs::rename(&root, temp.path().join("old")).unwrap();
    fs::create_dir_all(root.join("a")).unwrap();
    assert_eq!(next(&mut watch), "everything");
    fs::write(root.join("a/f"), b"x").unwrap();
    assert_eq!(next(&mut watch), "a/f/");
}

#[test]
fn a_lost_event_means_everything() {
    let temp = TempDir::new().unwrap();
    let root = temp.path();
    fs::create_dir(root.join("a")).unwrap();
    let mut watch = watch(root, "");
    let most: usize = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap().trim().parse().unwrap();
    // Each file is an event or more.
    for number in 0..=most {
        fs::write(root.join(if number % 2 == 0 { "f" } else { "g" }), number.to_string()).unwrap();
    }
    fs::create_dir(root.join("a/late")).unwrap();
    assert_eq!(next(&mut watch), "everything");
    fs::write(root.join("a/late/f"), b"x").unwrap();
    assert_eq!(next(&mut watch), "a/late/f/");
}

//! Tests of the walk with filters: what it leaves out, with helpers and without, and what it does not open for that.

use std::os::unix::fs::symlink;

use haul_base::copy::spec::Symlinks;
use haul_base::sys::cancel::Cancel;
use haul_proto::filter::definition::{FileLimits, FilterOptions};
use haul_proto::filter::{ListSyntax, PatternList};
use haul_proto::limits::DIRECTORY_FILTER_MAX;
use haul_proto::path::Name;

use super::testing::{KEEP, in_time, make_dir, write_file};
use super::{Dir, Prefetcher, WalkEntry, WalkFilter, WalkOptions, Walker};

const OPTIONS: WalkOptions = WalkOptions { is_filtered: true, ..KEEP };

fn excluding(patterns: &[&str]) -> FilterOptions {
    let list = |pattern: &&str| PatternList {
        text: pattern.as_bytes().to_vec(),
        syntax: ListSyntax::Pattern,
        includes: false,
    };
    FilterOptions { lists: patterns.iter().map(list).collect(), ..FilterOptions::default() }
}

/// What a walk finds, in its order: `+` is taken, `-` left out by filters, `!` failed; an incomplete directory has a
/// `?`.
fn walked(root: &Dir, options: WalkOptions, filters: &FilterOptions) -> Vec<String> {
    let (root, filter) = (root.clone(), WalkFilter::new(filters).unwrap());
    in_time(move || {
        let alone = told(Walker::new(root.clone(), options).filtered(filter.as_ref()));
        let ahead = Prefetcher::always(options, Cancel::new());
        let prefetched = told(Walker::prefetched(root.clone(), &ahead).filtered(filter.as_ref()));
        assert_eq!(alone, prefetched);
        alone
    })
}

fn told(walker: Walker<'_>) -> Vec<String> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut within = Vec::new();
    let mut all = Vec::new();
    for found in walker {
        let line = match &found {
            WalkEntry::EnterDir { dir, .. } => {
                within.push(dir.path_bytes());
                continue;
            }
            WalkEntry::LeaveDir { dir, complete, .. } => {
                within.pop();
                if *complete {
                    continue;
                }
                format!("?{}", text(&dir.path_bytes()))
            }
            WalkEntry::File { parent, name, .. }
            | WalkEntry::Symlink { parent, name, .. }
            | WalkEntry::Node { parent, name, .. } => {
                format!("+{}", text(&parent.path_of(name.as_bytes())))
            }
            WalkEntry::Filtered { name, .. } => {
                let parent = text(within.last().unwrap());
                format!("-{}{name}", if parent.is_empty() { parent } else { parent + "/" })
            }
            WalkEntry::FilteredFiles { count } => format!("-{count} files in {}", text(within.last().unwrap())),
            WalkEntry::LeftOut { name, reason, .. } => format!("{name} {reason}"),
            WalkEntry::Vanished { name, .. } => format!("{name} vanished"),
            WalkEntry::VanishedDir { dir } => format!("{} vanished", text(&dir.path_bytes())),
            WalkEntry::Failed { path, error } => format!("!{} {error}", text(path)),
        };
        all.push(line);
    }
    all.sort();
    all
}

fn tree() -> (tempfile::TempDir, Dir) {
    let temp = tempfile::tempdir().unwrap();
    let root = Dir::open_root(temp.path()).unwrap();
    let src = make_dir(&root, "src");
    for (dir, names) in [(&root, ["a.c", "a.o"]), (&src, ["b.c", "b.o"]), (&make_dir(&src, "build"), ["x", "y"])] {
        names.iter().for_each(|name| write_file(dir, name, name.as_bytes()));
    }
    (temp, root)
}

#[test]
fn files_that_are_only_counted_are_neither_named_nor_looked_up() {
    let (_temp, root) = tree();
    symlink("src", _temp.path().join("link")).unwrap();
    let include = PatternList { text: b"*/".to_vec(), syntax: ListSyntax::Pattern, includes: true };
    let mut filters = excluding(&["build", "*"]);
    filters.lists.insert(1, include);
    assert!(WalkFilter::new(&filters).unwrap().unwrap().leaves_out_all_files());
    let options = WalkOptions { only_counts_files: true, ..OPTIONS };
    assert_eq!(walked(&root, options, &filters), ["-2 files in src", "-3 files in ", "-src/build"]);
    // A link may lead to a directory.
    let follow = WalkOptions { symlinks: Symlinks::Follow, ..options };
    assert!(walked(&root, follow, &filters).contains(&"-2 files in link".to_owned()));
}

#[test]
fn excluded_entries_are_reported_once_and_not_entered() {
    let (_temp, root) = tree();
    let found = walked(&root, OPTIONS, &excluding(&["*.o", "/src/build/"]));
    assert_eq!(found, ["+a.c", "+src/b.c", "-a.o", "-src/b.o", "-src/build"]);
    assert_eq!(walked(&root, OPTIONS, &excluding(&["src"])), ["+a.c", "+a.o", "-src"]);
}

#[test]
fn pattern_files_apply_to_their_directory_and_below() {
    let (temp, root) = tree();
    std::fs::write(temp.path().join("src/.f"), "/x\n*.c\nbuild/y\n").unwrap();
    let files = vec![Name::new(b".f").unwrap()];
    let found = walked(&root, OPTIONS, &FilterOptions { files, ..FilterOptions::default() });
    assert_eq!(found, ["+a.c", "+a.o", "+src/.f", "+src/b.o", "+src/build/x", "-src/b.c", "-src/build/y"]);
}

#[test]
fn limits_apply_only_to_files() {
    let (temp, root) = tree();
    symlink("a long target of a link", temp.path().join("link")).unwrap();
    std::fs::write(temp.path().join("large"), [0; 100]).unwrap();
    let limits = FileLimits { max_size: Some(10), ..FileLimits::default() };
    let found = walked(&root, OPTIONS, &FilterOptions { limits, ..FilterOptions::default() });
    let left_out: Vec<_> = found.iter().filter(|line| line.starts_with('-')).collect();
    assert_eq!(left_out, ["-large"]);
    assert!(found.contains(&"+link".to_owned()));
}

#[test]
fn a_followed_link_counts_as_its_target() {
    let (temp, root) = tree();
    symlink("src/build", temp.path().join("link")).unwrap();
    let directories = excluding(&["link/", "/src"]);
    assert!(walked(&root, OPTIONS, &directories).contains(&"+link".to_owned()));
    let follow = WalkOptions { symlinks: Symlinks::Follow, ..OPTIONS };
    assert_eq!(walked(&root, follow, &directories), ["+a.c", "+a.o", "-link", "-src"]);
}

#[test]
fn a_directory_with_invalid_patterns_is_not_walked() {
    let files = || FilterOptions { files: vec![Name::new(b".f").unwrap()], ..FilterOptions::default() };
    for (make, why) in [
        (Box::new(|at: &std::path::Path| symlink("a", at).unwrap()) as Box<dyn Fn(&std::path::Path)>, ".f: "),
        (Box::new(|at: &std::path::Path| std::fs::create_dir(at).unwrap()), ".f: "),
        (Box::new(|at: &std::path::Path| std::fs::write(at, vec![b'\n'; DIRECTORY_FILTER_MAX + 1]).unwrap()), "64 KiB"),
        (Box::new(|at: &std::path::Path| std::fs::write(at, vec![b'a'; 5000]).unwrap()), "line 1"),
    ] {
        let (temp, root) = tree();
        make(&temp.path().join("src/.f"));
        let found = walked(&root, OPTIONS, &files());
        assert!(found.contains(&"?".to_owned()), "{found:?}");
        assert!(found.iter().any(|line| line.starts_with("!src cannot ") && line.contains(why)), "{found:?}");
        assert!(!found.iter().any(|line| line.contains("b.c")), "{found:?}");
    }
}

#[test]
fn many_names_in_one_directory_are_all_judged() {
    let temp = tempfile::tempdir().unwrap();
    let root = Dir::open_root(temp.path()).unwrap();
    (0..2000)
        .for_each(|number| write_file(&root, format!("{number}.{}", if number % 2 == 0 { "o" } else { "c" }), b""));
    let found = walked(&root, OPTIONS, &excluding(&["*.o"]));
    let count = |sign| found.iter().filter(|line| line.starts_with(sign)).count();
    assert_eq!((found.len(), count('+'), count('-')), (2000, 1000, 1000));
}

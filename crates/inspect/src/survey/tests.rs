//! A whole survey of small trees.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use haul_base::copy::spec::{ListSyntax, PatternList};

use super::*;

fn ask(paths: &[PathBuf]) -> Ask {
    Ask {
        one_file_system: false,
        paths: paths.to_vec(),
        symlinks: Symlinks::Keep,
        filters: FilterOptions::default(),
        target: None,
        state_dir: None,
        duplicates: true,
        sample: true,
        time: Duration::from_secs(60),
    }
}

fn survey(ask: &Ask) -> Survey {
    run(ask, &Cancel::new(), &mut |_| {}).unwrap()
}

fn write(path: PathBuf, content: impl AsRef<[u8]>) -> PathBuf {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, content).unwrap();
    path
}

/// `top` with three directories, a link, a FIFO, a second name, and what an interrupted copy has left.
fn tree(at: &Path) -> PathBuf {
    let top = at.join("top");
    write(top.join("a/one.txt"), [1; 100]);
    write(top.join("a/b/two.TXT"), [2; 1000]);
    write(top.join("a/b/empty"), []);
    write(top.join("c.bin"), [3; 10]);
    write(top.join(".haul-0123456789abcdef01234567.part"), "left");
    fs::hard_link(top.join("c.bin"), top.join("a/again.bin")).unwrap();
    symlink("one.txt", top.join("a/link")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        top.join("fifo"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    top
}

#[test]
fn everything_is_counted_once() {
    let temp = tempfile::tempdir().unwrap();
    let top = tree(temp.path());
    let found = survey(&ask(std::slice::from_ref(&top)));
    let expected = SurveyTotals {
        files: FileTotals { files: 5, bytes: 1120 },
        directories: 3,
        links: 1,
        others: 1,
        data_bytes: 1120,
        linked: FileTotals { files: 1, bytes: 10 },
        filtered: 0,
        left_out: 1,
    };
    assert_eq!(found.totals, expected);
    let all = |survey: &Survey| survey.directories.iter().map(|big| (big.own.bytes, big.all.bytes)).collect::<Vec<_>>();
    assert_eq!(all(&found), [(10, 1120), (110, 1110), (1000, 1000)]);
    assert_eq!(found.directories[2].path, top.join("a/b").into_os_string().into_encoded_bytes());
    assert_eq!(found.files[0].bytes, 1000);
    let kinds: Vec<_> = found.kinds.iter().map(|kind| (&kind.ending[..], kind.sum.files, kind.sum.bytes)).collect();
    assert_eq!(kinds, [(&b"txt"[..], 2, 1100), (b"bin", 2, 20), (b"", 1, 0)]);
    assert_eq!(found.sizes.iter().map(|class| class.sum.files).sum::<u64>(), 5);
    assert_eq!(found.tree.all, found.totals.files);
    assert_eq!(found.tree.children[0].children[0].name, b"a");
    assert_eq!(found.unreadable.count, 0);
    assert_eq!(found.duplicates.unwrap().sets, 0, "names of one file are no duplicates");
    assert!(found.sample.is_some() && found.there.is_none());
}

#[test]
fn named_files_count_like_those_in_directories() {
    let temp = tempfile::tempdir().unwrap();
    let top = tree(temp.path());
    let same = write(temp.path().join("same"), [1; 100]);
    let absent = temp.path().join("absent");
    let found = survey(&ask(&[top.join("a/one.txt"), same, top.join("a/b"), absent.clone()]));
    assert_eq!((found.totals.files, found.totals.directories), (FileTotals { files: 4, bytes: 1200 }, 1));
    assert_eq!(found.unreadable.count, 1);
    assert_eq!(found.unreadable.first[0].0, absent.into_os_string().into_encoded_bytes());
    let duplicates = found.duplicates.unwrap();
    assert_eq!((duplicates.sets, duplicates.spare.bytes, duplicates.biggest[0].paths.len()), (1, 100, 2));
}

#[test]
fn holes_are_no_data() {
    let temp = tempfile::tempdir().unwrap();
    let file = temp.path().join("sparse");
    fs::File::create(&file).unwrap().set_len(64 << 20).unwrap();
    write(temp.path().join("full"), [1; 8192]);
    let found = survey(&ask(&[temp.path().to_owned()]));
    assert_eq!((found.totals.files.bytes, found.totals.data_bytes), ((64 << 20) + 8192, 8192));
}

#[test]
fn filters_exclude_the_same_as_in_a_copy() {
    let temp = tempfile::tempdir().unwrap();
    let top = tree(temp.path());
    let lists = vec![PatternList { text: b"*.txt".to_vec(), syntax: ListSyntax::Pattern, includes: false }];
    let filters = FilterOptions { lists, ..FilterOptions::default() };
    let found = survey(&Ask { filters, ..ask(&[top]) });
    assert_eq!((found.totals.files.files, found.totals.filtered), (4, 1));
}

#[test]
fn files_at_the_target_are_distinguished_from_missing_ones() {
    let temp = tempfile::tempdir().unwrap();
    let top = tree(temp.path());
    let target = temp.path().join("target");
    let asked = Ask { target: Some(target.clone()), ..ask(std::slice::from_ref(&top)) };
    let there = |ask: &Ask| survey(ask).there.unwrap();
    assert_eq!(there(&asked).missing, FileTotals { files: 5, bytes: 1120 }, "it does not exist");
    fs::create_dir_all(target.join("top/a/b")).unwrap();
    for name in ["a/one.txt", "a/b/two.TXT", "c.bin"] {
        let copied = write(target.join("top").join(name), fs::read(top.join(name)).unwrap());
        let time = fs::metadata(top.join(name)).unwrap().modified().unwrap();
        fs::File::options().write(true).open(copied).unwrap().set_modified(time).unwrap();
    }
    write(target.join("top/c.bin"), "changed");
    let found = there(&asked);
    assert_eq!(found.same, FileTotals { files: 2, bytes: 1100 });
    assert_eq!(
        (found.differs, found.missing),
        (FileTotals { files: 1, bytes: 10 }, FileTotals { files: 2, bytes: 10 })
    );
    assert_eq!(found.send_bytes, 20);
    // What is in it, and nothing of its name.
    let contents = Ask { paths: vec![top.join(".")], target: Some(target.join("top")), ..asked.clone() };
    assert_eq!(there(&contents).same.files, 2);
    // One file: in the directory, or under the name that is there.
    let file = Ask { paths: vec![top.join("a/one.txt")], target: Some(target.join("top/a")), ..asked.clone() };
    assert_eq!(there(&file).same.files, 1);
    let named = Ask { target: Some(target.join("top/a/one.txt")), ..file };
    assert_eq!(there(&named).same.files, 1);
    let wrong = run(&Ask { target: Some(target.join("top/c.bin")), ..asked }, &Cancel::new(), &mut |_| {});
    assert!(wrong.unwrap_err().to_string().contains("is not a directory"));
}

#[test]
fn a_stopped_survey_says_so() {
    let temp = tempfile::tempdir().unwrap();
    let cancel = Cancel::new();
    cancel.cancel();
    let stopped = run(&ask(&[tree(temp.path())]), &cancel, &mut |_| {});
    assert!(matches!(stopped, Err(Error::Interrupted)));
}

#[test]
fn files_are_read_only_on_request() {
    let temp = tempfile::tempdir().unwrap();
    let found = survey(&Ask { duplicates: false, sample: false, ..ask(&[tree(temp.path())]) });
    assert!(found.duplicates.is_none() && found.sample.is_none());
}

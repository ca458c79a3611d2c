//! Names that are hard on programs: no UTF-8, line breaks, as long as they can be.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use haul_e2e::{Remote, Sandbox, chain, chain_file, compare, contents};
use haul_lab::run_with_timeout;

/// Names that some program somewhere has taken for something else.
const NAMES: &[&[u8]] = &[
    b"new\nline",
    b"\xff\xfe not utf-8 \x80",
    b"-rf",
    b"--help",
    b" ",
    b"a:b",
    b"host:path",
    b"back\\slash",
    b"\\",
    b"quote'd \"twice\" `id` $(id) ${HOME}",
    b"*?[a-z]{1,2}~!#&;|<>",
    b"tab\tbell\x07escape\x1b[31m",
    b"\r",
    b"...",
    b".hidden",
    b"%s%n%d",
    "caf\u{e9} \u{1f600} \u{202e}gnp".as_bytes(),
    b"~",
];

fn odd_tree(sandbox: &Sandbox) -> PathBuf {
    let root = sandbox.dir("source");
    for name in NAMES {
        let name = OsStr::from_bytes(name);
        fs::write(root.join(name), name.as_bytes()).unwrap();
        let directory = root.join("dirs").join(name);
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join(name), b"inside").unwrap();
        std::os::unix::fs::symlink(name, directory.join("link")).unwrap();
    }
    for byte in [b'x', 0xff] {
        let longest = [byte; 255];
        fs::write(root.join(OsStr::from_bytes(&longest)), b"long").unwrap();
    }
    root
}

#[test]
fn odd_names_are_kept_here() {
    let sandbox = Sandbox::new();
    let source = odd_tree(&sandbox);
    sandbox.haul(["-r", "source", "target"]).run().succeeds();
    compare(&source, &sandbox.path("target")).unwrap();
    // And once more, as a rerun that finds everything there.
    let summary = sandbox.haul(["--json", "-r", "source", "target"]).run().succeeds().summary();
    assert_eq!(summary["files_copied"], 0, "{summary}");
}

#[test]
fn odd_names_are_kept_over_ssh() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    let source = odd_tree(&sandbox);
    remote.haul(&sandbox).args(["-r", "source"]).arg(remote.at(sandbox.path("pushed"))).run().succeeds();
    compare(&source, &sandbox.path("pushed")).unwrap();
    remote.haul(&sandbox).arg("-r").arg(remote.at(&source)).arg("pulled").run().succeeds();
    compare(&source, &sandbox.path("pulled")).unwrap();
}

#[test]
fn odd_names_can_be_operands() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    let source = odd_tree(&sandbox);
    let here = sandbox.dir("here");
    let there = sandbox.dir("there");
    let paths: Vec<_> = NAMES.iter().map(|name| source.join(OsStr::from_bytes(name))).collect();
    sandbox.haul(&paths).arg(&here).run().succeeds();
    remote.haul(&sandbox).args(paths.iter().map(|path| remote.at(path))).arg(&there).run().succeeds();
    for name in NAMES {
        let name = OsStr::from_bytes(name);
        assert_eq!(contents(&here.join(name)), name.as_bytes(), "{name:?}");
        assert_eq!(contents(&there.join(name)), name.as_bytes(), "{name:?}");
    }
}

#[test]
fn an_error_shows_odd_names_harmlessly() {
    let sandbox = Sandbox::new();
    let source = odd_tree(&sandbox);
    for name in NAMES {
        sandbox.file(Path::new("target/source").join(OsStr::from_bytes(name)), "in the way");
    }
    sandbox.haul(["-r", "--logfile", "log"]).arg(&source).arg("target").run().ends(1);
    let log = fs::read_to_string(sandbox.path("log")).unwrap();
    assert!(!log.contains(['\x1b', '\x07', '\u{202e}']) && log.contains("new\\nline"), "{log}");
}

#[test]
fn depth_is_no_matter_over_ssh() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    chain(&sandbox.dir("source"), 3000, b"at the bottom");
    remote.haul(&sandbox).args(["-r", "source"]).arg(remote.at(sandbox.path("target"))).run().succeeds();
    assert_eq!(chain_file(&sandbox.path("target")), (3000, b"at the bottom".to_vec()));
}

/// `b3sum --check`'s result for a list, run in `directory`.
fn b3sum_check(directory: &Path, list: &Path) -> Result<(), String> {
    let mut command = Command::new("b3sum");
    command.arg("--check").arg(list).current_dir(directory);
    let finished = run_with_timeout(command, Duration::from_secs(20)).expect("b3sum: apt-get install b3sum");
    if finished.success() { Ok(()) } else { Err(finished.stdout_text() + &finished.stderr_text()) }
}

/// How many files a list names.
fn lines(list: &Path) -> usize {
    String::from_utf8(contents(list)).expect("UTF-8").lines().count()
}

#[test]
fn checksum_lists_pass_b3sum() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    sandbox.tree("source");
    sandbox.file("source/odd\nna\\me", "odd");
    sandbox.dir("existing");
    let files = 120 + 3 + 3 + 1 + 1;

    // The target became the tree: paths from the target down.
    sandbox.haul(["-r", "--checksums", "sums", "source", "fresh"]).run().succeeds();
    b3sum_check(&sandbox.path("fresh"), &sandbox.path("sums")).unwrap();
    assert_eq!(lines(&sandbox.path("sums")), files);

    // The tree landed inside the target: paths begin with its name.
    let target = remote.at(sandbox.path("existing"));
    remote.haul(&sandbox).args(["-r", "--checksums", "sums", "source"]).arg(target).run().succeeds();
    b3sum_check(&sandbox.path("existing"), &sandbox.path("sums")).unwrap();
    assert_eq!(lines(&sandbox.path("sums")), files);

    // One file.
    sandbox.haul(["--checksums", "sums", "source/big", "existing"]).run().succeeds();
    b3sum_check(&sandbox.path("existing"), &sandbox.path("sums")).unwrap();
    assert_eq!(lines(&sandbox.path("sums")), 1);

    // A list that is wrong is refused, so the check above means something.
    sandbox.file("existing/big", "not what was copied");
    b3sum_check(&sandbox.path("existing"), &sandbox.path("sums")).unwrap_err();
}

#[test]
fn a_name_that_does_not_fit_a_list_is_named() {
    let sandbox = Sandbox::new();
    sandbox.file("source/good", "good");
    sandbox.file(Path::new("source").join(OsStr::from_bytes(b"bad\xff")), "bad");
    sandbox.haul(["-r", "--checksums", "sums", "source", "target"]).run().ends(1).says(["bad\\xff"]);
    compare(&sandbox.path("source"), &sandbox.path("target")).unwrap();
    b3sum_check(&sandbox.path("target"), &sandbox.path("sums")).unwrap();
    assert_eq!(lines(&sandbox.path("sums")), 1);
}

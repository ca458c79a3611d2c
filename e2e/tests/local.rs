//! Copies within one machine: destinations and refusals.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::symlink;

use haul_e2e::{
    Sandbox, TestTree, chain, chain_file, compare, contents, copy_haul_binary, is_root_or_skip, listing, shell,
};

#[test]
fn a_file_gets_a_new_name() {
    let sandbox = Sandbox::new();
    let source = sandbox.big_file("source", 5_000_003);
    sandbox.haul(["source", "target"]).run().succeeds();
    compare(&source, &sandbox.path("target")).unwrap();
    assert_eq!(listing(&sandbox.path("")), ["home", "source", "target"], "something else was left");
}

#[test]
fn a_file_is_copied_into_a_directory() {
    let sandbox = Sandbox::new();
    let source = sandbox.big_file("a/source", 100_000);
    sandbox.dir("into");
    sandbox.dir("into too");
    sandbox.haul(["a/source", "into"]).run().succeeds();
    sandbox.haul(["a/source", "into too/"]).run().succeeds();
    compare(&source, &sandbox.path("into/source")).unwrap();
    compare(&source, &sandbox.path("into too/source")).unwrap();
}

#[test]
fn a_directory_gets_a_new_name() {
    let sandbox = Sandbox::new();
    let source = sandbox.tree("source");
    sandbox.haul(["-r", "source", "target"]).run().succeeds();
    compare(&source, &sandbox.path("target")).unwrap();
}

#[test]
fn a_directory_nests_in_an_existing_one() {
    let sandbox = Sandbox::new();
    let source = sandbox.tree("source");
    sandbox.file("target/other", "was here");
    sandbox.haul(["-r", "source", "target"]).run().succeeds();
    compare(&source, &sandbox.path("target/source")).unwrap();
    assert_eq!(contents(&sandbox.path("target/other")), b"was here");
    assert_eq!(listing(&sandbox.path("target")), ["other", "source"]);
}

#[test]
fn a_rerun_neither_nests_nor_copies() {
    let sandbox = Sandbox::new();
    let source = sandbox.tree("source");
    for target in ["fresh", "existing"] {
        if target == "existing" {
            sandbox.dir("existing");
        }
        let first = sandbox.haul(["--json", "-r", "source", target]).run().succeeds().summary();
        let second = sandbox.haul(["--json", "-r", "source", target]).run().succeeds().summary();
        assert!(first["files_copied"].as_u64() > Some(100), "{first}");
        assert_eq!(second["files_copied"], 0, "{second}");
        assert_eq!(second["files_skipped"], first["files_copied"], "{second}");
        assert_eq!(second["bytes"], 0, "{second}");
    }
    compare(&source, &sandbox.path("fresh")).unwrap();
    compare(&source, &sandbox.path("existing/source")).unwrap();
    assert_eq!(listing(&sandbox.path("existing")), ["source"]);
}

#[test]
fn several_sources_are_copied_into_a_directory() {
    let sandbox = Sandbox::new();
    sandbox.file("one", "1");
    sandbox.file("two", "22");
    let tree = sandbox.tree("three");
    sandbox.dir("target");
    sandbox.haul(["-r", "one", "two", "three", "target"]).run().succeeds();
    assert_eq!(listing(&sandbox.path("target")), ["one", "three", "two"]);
    assert_eq!(contents(&sandbox.path("target/two")), b"22");
    compare(&tree, &sandbox.path("target/three")).unwrap();
}

#[test]
fn several_sources_need_a_directory() {
    let sandbox = Sandbox::new();
    sandbox.file("one", "1");
    sandbox.file("two", "22");
    sandbox.file("a file", "old");
    sandbox.haul(["one", "two", "a file"]).run().ends(2).says(["a file", "directory"]);
    sandbox.haul(["one", "two", "missing"]).run().ends(2).says(["missing", "directory"]);
    assert_eq!(contents(&sandbox.path("a file")), b"old");
    assert!(!sandbox.path("missing").exists());
}

#[test]
fn the_target_directory_is_made_on_request() {
    let sandbox = Sandbox::new();
    let one = sandbox.file("one", "1");
    sandbox.file("two", "22");
    sandbox.haul(["--mkdir", "one", "two", "made"]).run().succeeds();
    compare(&one, &sandbox.path("made/one")).unwrap();
    assert_eq!(listing(&sandbox.path("made")), ["one", "two"]);
}

#[test]
fn one_file_gets_its_new_name_in_directories_made_on_request() {
    let sandbox = Sandbox::new();
    let one = sandbox.file("one", "1");
    sandbox.haul(["--mkdir", "one", "made/deep/name"]).run().succeeds();
    compare(&one, &sandbox.path("made/deep/name")).unwrap();
    for (words, copied) in [
        (&["one", "slash/"][..], "slash/one"),
        (&["-r", "made", "tree/new"], "tree/new/made/deep/name"),
        (&["--dirbase", ".", "one", "based"], "based/one"),
        (&["--infiles", "list", "listed/new"], "listed/new/one"),
    ] {
        sandbox.file("list", "one\n");
        sandbox.haul(["--mkdir"]).args(words).run().succeeds();
        compare(&one, &sandbox.path(copied)).unwrap();
    }
}

#[test]
fn a_target_without_a_parent_is_an_error_that_names_it() {
    let sandbox = Sandbox::new();
    sandbox.file("one", "1");
    let run = sandbox.haul(["one", "no/such/place"]).run().says(["no/such"]);
    assert!(matches!(run.status, Some(1 | 2)), "{}", run.account());
    assert!(!sandbox.path("no").exists());
}

#[test]
fn a_colon_after_a_slash_is_part_of_the_name() {
    let sandbox = Sandbox::new();
    let source = sandbox.file("a:b", "colon");
    sandbox.haul(["./a:b", "./c:d"]).run().succeeds();
    compare(&source, &sandbox.path("c:d")).unwrap();
    sandbox.haul([sandbox.path("a:b"), sandbox.path("e:f")]).run().succeeds();
    compare(&source, &sandbox.path("e:f")).unwrap();
}

#[test]
fn a_directory_needs_the_option() {
    let sandbox = Sandbox::new();
    sandbox.tree("source");
    let run = sandbox.haul(["source", "target"]).run().says(["source", "-r"]);
    assert!(matches!(run.status, Some(1 | 2)), "{}", run.account());
    assert!(!sandbox.path("target").exists());
}

#[test]
fn empty_things_are_things() {
    let sandbox = Sandbox::new();
    sandbox.file("source/empty", "");
    sandbox.dir("source/nothing/in/here");
    sandbox.haul(["-r", "source", "target"]).run().succeeds();
    compare(&sandbox.path("source"), &sandbox.path("target")).unwrap();
    sandbox.haul(["source/empty", "alone"]).run().succeeds();
    assert_eq!(contents(&sandbox.path("alone")), b"");
    sandbox.dir("only");
    sandbox.haul(["-r", "only", "only too"]).run().succeeds();
    assert!(sandbox.path("only too").is_dir());
}

#[test]
fn sizes_around_a_frames_boundaries_arrive_completely() {
    let sandbox = Sandbox::new();
    let source = sandbox.dir("source");
    let mut tree = TestTree::new(&source, 5);
    for power in [256 * 1024, 512 * 1024, 1024 * 1024, 2 * 1024 * 1024_u64] {
        for bytes in [power - 1, power, power + 1] {
            tree.incompressible_file(format!("{bytes}"), bytes).expect("a file");
        }
    }
    for bytes in [1, 1023, 1024, 1025, 65_535, 65_536, 65_537] {
        tree.incompressible_file(format!("{bytes}"), bytes).expect("a file");
    }
    for frame in ["256k", "512k", "1m"] {
        sandbox.haul(["-r", "--frame", frame, "source", frame]).run().succeeds();
        compare(&source, &sandbox.path(frame)).unwrap();
    }
}

#[test]
fn many_small_files_arrive() {
    let sandbox = Sandbox::new();
    let source = sandbox.dir("source");
    TestTree::new(&source, 6).small_files("", 5000, 50, 0..=9000).expect("files");
    let summary = sandbox.haul(["--json", "-r", "source", "target"]).run().succeeds().summary();
    assert_eq!(summary["files_copied"], 5000, "{summary}");
    compare(&source, &sandbox.path("target")).unwrap();
}

#[test]
fn no_depth_is_too_deep() {
    let sandbox = Sandbox::new();
    chain(&sandbox.dir("source"), 3000, b"at the bottom");
    sandbox.haul(["-r", "source", "target"]).run().succeeds();
    assert_eq!(chain_file(&sandbox.path("target")), (3000, b"at the bottom".to_vec()));
}

#[test]
fn a_missing_source_is_named_and_the_others_are_copied() {
    let sandbox = Sandbox::new();
    sandbox.file("there", "yes");
    sandbox.dir("target");
    let run = sandbox.haul(["not there", "target"]).run().says(["not there"]);
    assert!(matches!(run.status, Some(1 | 2)), "{}", run.account());
    sandbox.haul(["not there", "there", "target"]).run().ends(1).says(["not there"]);
    assert_eq!(listing(&sandbox.path("target")), ["there"]);
}

#[test]
fn a_file_onto_itself_is_refused() {
    let sandbox = Sandbox::new();
    let file = sandbox.file("file", "precious");
    symlink("file", sandbox.path("link")).unwrap();
    fs::hard_link(&file, sandbox.path("hard")).unwrap();
    for target in ["file", "./file", ".", "link", "hard"] {
        let run = sandbox.haul(["-f", "file", target]).run().says(["itself"]);
        assert!(matches!(run.status, Some(1 | 2)), "onto {target}: {}", run.account());
        assert_eq!(contents(&file), b"precious", "onto {target}");
    }
}

#[test]
fn a_directory_into_itself_is_refused_or_skipped() {
    let sandbox = Sandbox::new();
    let source = sandbox.tree("source");
    sandbox.tree("reference");
    for target in ["source", "source/copy", "source/x/y"] {
        let run = sandbox.haul(["-r", "source", target]).run();
        assert!(matches!(run.status, Some(1 | 2)), "into {target}: {}", run.account());
        run.says(["itself"]);
    }
    compare(&sandbox.path("reference"), &source).unwrap();
}

#[test]
fn a_directory_does_not_replace_a_file_nor_a_file_a_directory() {
    let sandbox = Sandbox::new();
    sandbox.file("source/name", "a file");
    sandbox.file("target/source/name/inner", "in a directory");
    let run = sandbox.haul(["-r", "-f", "source", "target"]).run().ends(1).says(["name"]);
    assert!(run.stderr.contains("director"), "{}", run.account());
    assert_eq!(contents(&sandbox.path("target/source/name/inner")), b"in a directory");

    sandbox.file("tree/name/inner", "in a directory");
    sandbox.file("place/tree/name", "a file");
    sandbox.haul(["-r", "tree", "place"]).run().ends(1).says(["name"]);
    assert_eq!(contents(&sandbox.path("place/tree/name")), b"a file");
}

#[test]
fn a_copy_needs_no_proc() {
    if !is_root_or_skip("chroot") {
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.tree("root/source");
    sandbox.dir("root/bin");
    copy_haul_binary(&sandbox.path("root/bin/haul"));
    for (number, name) in ["/bin/haul", "bin/haul", "./bin/haul", "haul"].into_iter().enumerate() {
        let target = format!("target{number}");
        shell(&sandbox, &format!("PATH=/bin exec /usr/sbin/chroot root {name} -r source /{target}")).run().succeeds();
        compare(&sandbox.path("root/source"), &sandbox.path("root").join(target)).unwrap();
    }
}

#[test]
fn each_cause_has_one_exit_status() {
    let sandbox = Sandbox::new();
    sandbox.file("tree/a", "1");
    sandbox.file("file", "2");
    sandbox.file("other", "3");
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    let (taken, closed) = (listener.local_addr().unwrap().port().to_string(), unused_port().to_string());
    let table: [(i32, &[&str]); 19] = [
        (0, &["file", "copy"]),
        (1, &["file", "absent", "tree"]),
        (1, &["serve", "--port", &taken, "tree"]),
        (2, &["--no-such-option", "file", "copy"]),
        (2, &["-r", "tree", "file"]),
        (2, &["sync", "tree/", "file"]),
        (2, &["verify", "-r", "tree", "file"]),
        (2, &["file", "other", "file"]),
        (2, &["--dirbase", ".", "other", "file"]),
        (2, &["file", "absent/"]),
        (2, &["file", "absent/copy"]),
        (2, &["file", "other/"]),
        (2, &["file", "other", "absent"]),
        (2, &["--infiles", "absent", "tree"]),
        (2, &["--config", "absent", "file", "copy"]),
        (2, &["--expect", "absent", "file", "copy"]),
        (2, &["serve", "absent"]),
        (2, &["serve", "file"]),
        (3, &["--ssh-port", &closed, "file", "127.0.0.1:/x"]),
    ];
    for (status, words) in table {
        let run = sandbox.haul(words).run();
        assert_eq!(run.status, Some(status), "{words:?}: {}", run.account());
    }
}

#[test]
fn a_forgotten_colon_is_said_before_the_copy() {
    let sandbox = Sandbox::new();
    sandbox.file("home/.ssh/config", "Host gate peer\n");
    sandbox.file("home/.ssh/known_hosts", "[store]:2222,10.0.0.7 ssh-ed25519 AAAA\n");
    sandbox.file("other.config", "Host elsewhere\n");
    sandbox.file("file", "content");
    let warning = |words: &[&str]| {
        let run = sandbox.haul(words).run().succeeds();
        run.stderr.lines().find(|line| line.contains("local path")).map(str::to_owned)
    };
    let says =
        |name: &str| Some(format!("haul: {name} is a local path here; for the host of that name, write {name}:"));
    assert_eq!(warning(&["file", "peer"]), says("peer"));
    assert_eq!(warning(&["-f", "file", "peer"]), None, "it exists");
    assert_eq!(warning(&["sync", "file", "ann@store"]), says("ann@store"));
    assert_eq!(warning(&["-F", "other.config", "file", "elsewhere"]), says("elsewhere"));
    for other in ["unknown", "./gate"] {
        assert_eq!(warning(&["file", other]), None, "{other}");
    }
    assert_eq!(warning(&["-q", "file", "10.0.0.7"]), None);
}

#[test]
fn the_bytes_between_the_ends_are_shown_on_request() {
    let sandbox = Sandbox::new();
    sandbox.file("tree/file", "content");
    let traffic = "traffic     sent 0 bytes, received 0 bytes of block hashes";
    sandbox.haul(["-r", "--stats", "tree", "copy"]).run().succeeds().says([traffic]);
    sandbox.haul(["sync", "-av", "--stats", "tree/", "copy/"]).run().succeeds().says([traffic]);
    let without = sandbox.haul(["-rv", "tree", "other"]).run().succeeds();
    assert!(!without.stderr.contains("traffic"), "{}", without.account());
}

/// A port without a listener.
fn unused_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

//! Sources from a list (`-I`): the meaning of its lines, their destinations, messages about failed lines, and the cost
//! of a long list.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use haul_e2e::{
    Haul, HostPair, MEGABIT_PER_S, ProgramRun, Remote, Sandbox, cases, compare, contents, count, eventually, fifo,
    group_or_skip, hidden_or_partial, listing,
};
use haul_lab::{Running, start};
use rustix::process::{Pid, Signal, kill_process};

/// Memory limit of each process, for a list of any length.
const MEMORY_MAX: u64 = 64 << 20;

/// Starts haul with the file at `path` as its standard input.
#[track_caller]
fn fed_from(haul: Haul<'_>, path: &Path) -> Running {
    let command = haul.into_command();
    let mut shell = Command::new("sh");
    shell.args(["-c", "exec \"$@\" <\"$0\""]).arg(path).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    command.get_current_dir().map(|directory| shell.current_dir(directory));
    start(shell).unwrap()
}

/// Starts haul with `list` as its standard input.
#[track_caller]
fn fed(sandbox: &Sandbox, haul: Haul<'_>, list: &[u8]) -> Running {
    fed_from(haul, &sandbox.file("fed", list))
}

fn three_files(sandbox: &Sandbox) {
    for path in ["s/a/one", "s/a/b/two", "s/three"] {
        sandbox.file(path, path);
    }
}

#[test]
fn a_list_names_sources_in_a_file_or_on_standard_input() {
    let sandbox = Sandbox::new();
    three_files(&sandbox);
    sandbox.file("s/ odd\n", "odd");
    let lists: [(&[u8], &[&str]); 3] = [
        (b"s/a/one\ns/a/b/two\ns/three", &[]),
        (b"s/a/one\r\n\r\n\ns/a/b/two\r\ns/three\r\n", &[]),
        (b"s/a/one\0s/a/b/two\0s/three\0s/ odd\n", &["-0"]),
    ];
    for (number, (list, options)) in lists.into_iter().enumerate() {
        let names: &[&str] =
            if options.is_empty() { &["one", "three", "two"] } else { &[" odd\n", "one", "three", "two"] };
        let (file, input) = (format!("file{number}"), format!("input{number}"));
        sandbox.file("list", list);
        sandbox.dir(&file);
        sandbox.haul(["--infiles", "list"]).args(options).arg(&file).run().succeeds();
        let piped = sandbox.haul(["--mkdir", "--infiles", "-"]).args(options).arg(&input);
        ProgramRun::of(fed(&sandbox, piped, list)).succeeds();
        assert_eq!((listing(&sandbox.path(&file)), listing(&sandbox.path(&input))), (strings(names), strings(names)));
    }
    assert_eq!(contents(&sandbox.path("file0/two")), b"s/a/b/two");
    // Command-line sources come first, with the same destination as the lines.
    sandbox.file("list", "s/three\n");
    sandbox.haul(["--mkdir", "--infiles", "list", "s/a/one", "both"]).run().succeeds();
    assert_eq!(listing(&sandbox.path("both")), ["one", "three"]);
    // A target that is a new name is for one source that was typed.
    sandbox.haul(["--infiles", "list", "new"]).run().ends(2).says(["new does not exist"]);
}

fn strings(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn a_list_is_pushed_and_pulled() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    three_files(&sandbox);
    sandbox.dir("pushed");
    sandbox.file("list", "a/one\na/b/two\nthree\n");
    let pushed = remote.haul(&sandbox).args(["--json", "--infiles", "list", "--dirbase"]).arg(sandbox.path("s"));
    pushed.arg(remote.at(sandbox.path("pushed"))).run().succeeds();
    compare(&sandbox.path("s"), &sandbox.path("pushed")).unwrap();

    let there = |path: &str| remote.at(sandbox.path(path)).into_string().unwrap();
    sandbox.file("list", format!("{}\n{}\n", there("s/a/one"), there("s/a/b/two")));
    remote.haul(&sandbox).args(["--mkdir", "--infiles", "list", "pulled"]).run().succeeds();
    assert_eq!(listing(&sandbox.path("pulled")), ["one", "two"]);
    let based =
        remote.haul(&sandbox).args(["--mkdir", "-r", "--infiles", "-", "--dirbase"]).arg(there("s")).arg("based");
    ProgramRun::of(fed(&sandbox, based, b"a\nthree\n")).succeeds();
    compare(&sandbox.path("s"), &sandbox.path("based")).unwrap();
    remote.is_left_clean();
}

#[test]
fn uncopyable_lines_are_named_and_the_others_are_copied() {
    let sandbox = Sandbox::new();
    three_files(&sandbox);
    sandbox.file("other/three", "another");
    sandbox.file("list", "s/a/one\ns/gone\nh:there\ns/three\nother/three\ns/a\nno\0path\ns/a/b/two");
    let run = sandbox.haul(["--json", "--mkdir", "--infiles", "list", "target"]).run().ends(1);
    assert_eq!((run.summary()["files_copied"].as_u64(), run.summary()["failed"].as_u64()), (Some(3), Some(5)));
    let run = run.says([
        "h:there: line 3 of list: it is on h, but the source is on this machine",
        "other/three: line 5 of list: an earlier line has the same name",
        "line 7 of list: a path cannot contain NUL",
        "s/gone: No such file or directory",
        "s/a: is a directory",
    ]);
    assert_eq!(contents(&sandbox.path("target/three")), b"s/three", "{}", run.account());
    // Nor does one line's file replace another's, even with overwriting on.
    sandbox.haul(["-f", "--infiles", "list", "target"]).run().ends(1).says(["line 5 of list: an earlier line has"]);
    assert_eq!(contents(&sandbox.path("target/three")), b"s/three");
    // An empty list copies nothing.
    sandbox.file("list", "\n\n");
    sandbox.haul(["--infiles", "list", "target"]).run().succeeds();
    sandbox.haul(["--infiles", "missing", "target"]).run().ends(2).says(["--infiles missing: No such file"]);
}

#[test]
fn with_a_base_paths_are_recreated_and_only_files_below_are_readable() {
    let sandbox = Sandbox::new();
    three_files(&sandbox);
    sandbox.file("s/other/three", "another");
    sandbox.file("outside/file", "outside");
    symlink("../outside/file", sandbox.path("s/out")).unwrap();
    symlink("../outside", sandbox.path("s/outdir")).unwrap();
    symlink("a/one", sandbox.path("s/in")).unwrap();
    sandbox.dir("target");
    let list = format!(
        "a/one\nthree\nother/three\nout\noutdir/file\nin\n../outside/file\n{}\n",
        sandbox.path("s/three").display()
    );
    sandbox.file("list", list);
    let run = sandbox.haul(["--json", "--infiles", "list", "--dirbase", "s", "target"]).run().ends(1).says([
        "s/out: a symbolic link leads out of the base",
        "s/outdir/file: a symbolic link leads out of the base",
        "../outside/file: line 7 of list: ../outside/file leads out of the base",
        "line 8 of list: absolute path in a list with a base (--dirbase)",
    ]);
    let summary = run.summary();
    let full = |summary: &serde_json::Value| summary["source_sandbox"]["confinement"] == "full";
    if !full(&summary) {
        println!("SKIPPED: {}", summary["source_sandbox"]);
    }
    assert_eq!(summary["files_copied"], 4, "{summary}");
    assert_eq!(contents(&sandbox.path("target/other/three")), b"another");
    assert_eq!(contents(&sandbox.path("target/in")), b"s/a/one");
    let followed =
        sandbox.haul(["--json", "--infiles", "list", "--dirbase", "s", "--symlinks", "follow", "target"]).run().ends(1);
    assert_eq!(followed.summary()["files_copied"], 2, "{}", followed.account());
    assert!(!full(&followed.summary()));
    assert_eq!(contents(&sandbox.path("target/out")), b"outside");
    // Without a base, a list may name anything, and that is said.
    sandbox.file("list", "s/a/one\n");
    sandbox
        .haul(["-vv", "--infiles", "list", "target"])
        .run()
        .succeeds()
        .says(["a list may name any file, so all can be read"]);
}

#[test]
fn directories_are_copied_with_r_and_never_into_themselves() {
    let sandbox = Sandbox::new();
    let tree = sandbox.tree("s/tree");
    sandbox.file("s/inner/file", "inner");
    sandbox.dir("s/target");
    sandbox.file("list", "tree\ninner/.\n./target\n");
    let run =
        sandbox.haul(["--json", "-r", "--infiles", "../list", "target"]).current_dir(sandbox.path("s")).run().ends(1);
    run.says(["./target: is the target of this copy"]);
    compare(&tree, &sandbox.path("s/target/tree")).unwrap();
    assert_eq!(listing(&sandbox.path("s/target")), ["file", "tree"]);
    let again =
        sandbox.haul(["--json", "-r", "--infiles", "../list", "target"]).current_dir(sandbox.path("s")).run().ends(1);
    assert_eq!((again.summary()["files_copied"].as_u64(), again.summary()["failed"].as_u64()), (Some(0), Some(1)));
}

#[test]
fn data_flows_while_the_list_is_being_written() {
    let sandbox = Sandbox::new();
    three_files(&sandbox);
    sandbox.dir("target");
    fifo(&sandbox.path("lines"));
    let running = fed_from(sandbox.haul(["--infiles", "-", "target"]), &sandbox.path("lines"));
    let mut writing = File::options().write(true).open(sandbox.path("lines")).unwrap();
    for (line, name) in [("s/three\n", "three"), ("s/a/one\ns/a/", "one"), ("b/two", "")] {
        writing.write_all(line.as_bytes()).unwrap();
        let arrived = || name.is_empty() || sandbox.path("target").join(name).exists();
        eventually("it arrives before the list goes on", arrived);
    }
    drop(writing);
    ProgramRun::of(running).succeeds();
    assert_eq!(listing(&sandbox.path("target")), ["one", "three", "two"]);
}

#[test]
fn a_list_from_a_pipe_is_kept_for_the_next_attempt() {
    if group_or_skip().is_none() {
        return;
    }
    let sandbox = Sandbox::new();
    let pair = HostPair::slow(&sandbox, MEGABIT_PER_S);
    sandbox.big_file("s/big", 32_000_000);
    sandbox.file("s/little", "little");
    sandbox.dir("target");
    let haul =
        pair.haul(&sandbox).args(["--json", "--infiles", "-", "--dirbase", "s"]).arg(pair.at(sandbox.path("target")));
    let running = fed(&sandbox, haul, b"little\nbig\n");
    let target = sandbox.path("target");
    eventually("some has arrived", || hidden_or_partial(&target, &["big", "little"], 1_000_000).is_some());
    for worker in pair.remote.workers() {
        let worker = Pid::from_raw(i32::try_from(worker).unwrap()).unwrap();
        kill_process(worker, Signal::KILL).unwrap();
    }
    let run = ProgramRun::of(running).succeeds();
    assert!(run.summary()["restarts"].as_u64() >= Some(1), "{}", run.account());
    compare(&sandbox.path("s"), &target).unwrap();
}

#[test]
fn a_copy_of_a_list_can_be_verified_and_has_checksums() {
    let sandbox = Sandbox::new();
    three_files(&sandbox);
    sandbox.file("list", "a/one\na/b/two\nthree\n");
    sandbox.haul(["--mkdir", "--infiles", "list", "--dirbase", "s", "--checksums", "sums", "target"]).run().succeeds();
    let mut sums: Vec<_> =
        fs::read_to_string(sandbox.path("sums")).unwrap().lines().map(|line| line[66..].to_owned()).collect();
    sums.sort_unstable();
    assert_eq!(sums, ["a/b/two", "a/one", "three"]);
    sandbox.haul(["verify", "--infiles", "list", "--dirbase", "s", "target"]).run().succeeds();
    sandbox.file("target/a/one", "S/a/one");
    fs::remove_file(sandbox.path("target/three")).unwrap();
    let run = sandbox.haul(["verify", "--infiles", "list", "--dirbase", "s", "target"]).run();
    run.ends(1).says(["target/a/one", "target/three: is missing"]).does_not_say("two");
}

fn make_files(root: &Path, lines: u64) {
    for number in 0..lines {
        let directory = root.join(format!("d{}", number / 1000));
        if number % 1000 == 0 {
            fs::create_dir_all(&directory).unwrap();
        }
        File::create(directory.join(format!("file-{number}"))).unwrap();
    }
}

/// Half of the lines name a file, the others a missing one: neither may use memory.
#[test]
fn a_long_list_takes_little_memory() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    let lines = cases("HAUL_LISTED", 20_000);
    make_files(&sandbox.path("s"), lines / 2);
    let mut list = std::io::BufWriter::new(File::create(sandbox.path("list")).unwrap());
    for number in 0..lines / 2 {
        writeln!(list, "d{0}/file-{number}\nd{0}/none-{number}", number / 1000).unwrap();
    }
    drop(list);
    sandbox.dir("target");
    let haul = remote.haul(&sandbox).args(["--json", "--fsync", "none", "--infiles", "list", "--dirbase", "s"]);
    let haul = haul.arg(remote.at(sandbox.path("target"))).limit(Duration::from_secs(1200));
    let run = haul.run().ends(1);
    let summary = run.summary();
    let number = |name: &str| summary[name].as_u64().unwrap_or_else(|| panic!("no {name} in {summary}"));
    assert_eq!((number("files_copied"), number("failed")), (lines / 2, lines / 2), "{summary}");
    let peaks = [run.peak_memory_bytes, number("source_peak_bytes"), number("target_peak_bytes")];
    println!("{lines} lines: at most {peaks:?} bytes in the largest process, the source, the target");
    assert!(run.peak_memory_bytes > 0 && peaks.iter().all(|peak| *peak < MEMORY_MAX), "{peaks:?}");
    count("listed-lines", lines);
}

#[test]
fn directories_above_a_source_with_a_base_have_its_modes() {
    use std::os::unix::fs::PermissionsExt;
    let sandbox = Sandbox::new();
    let dirs = [("private", 0o700), ("private/deep", 0o2775), ("closed", 0o555)];
    for (name, _) in dirs {
        sandbox.file(format!("s/{name}/key"), name);
    }
    let set_mode = |name: &str, mode| {
        fs::set_permissions(sandbox.path("s").join(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    dirs.into_iter().for_each(|(name, mode)| set_mode(name, mode));
    sandbox.file("list", "private/deep/key\nclosed/key\n");
    let modes = |target: &str| {
        let mode = |name: &str| fs::metadata(sandbox.path(target).join(name)).unwrap().permissions().mode() & 0o7777;
        dirs.map(|(name, _)| mode(name))
    };
    for (target, options, expected) in [
        ("listed", &["--infiles", "list"][..], [0o700, 0o755, 0o755]),
        ("preserved", &["--preserve", "--infiles", "list"], [0o700, 0o775, 0o755]),
        ("operands", &["private/deep/key", "closed/key"], [0o700, 0o755, 0o755]),
        ("asked", &["--mode", "0750/", "--infiles", "list"], [0o750, 0o750, 0o750]),
    ] {
        sandbox.haul([&["--mkdir", "--dirbase", "s"], options, &[target]].concat()).run().succeeds();
        assert_eq!(modes(target), expected, "{target}");
    }
    set_mode("private", 0o755);
    sandbox.haul(["--mkdir", "-f", "--dirbase", "s", "--infiles", "list", "listed"]).run().succeeds();
    assert_eq!(modes("listed")[0], 0o700, "a directory that exists keeps its mode");
    set_mode("closed", 0o755);
}

#[test]
fn a_list_of_pairs_names_each_source_and_its_target() {
    let sandbox = Sandbox::new();
    for name in ["a", "b", "with blank"] {
        sandbox.file(format!("from/{name}"), name);
    }
    sandbox.dir("to/deep");
    let list = "# run 7\nfrom/a to/a\nfrom/b to/b\nfrom/a to/deep/other\n\"from/with blank\" 'to/with blank'\n";
    sandbox.file("list", list);
    sandbox.haul(["--pairs", "list"]).run().succeeds();
    let contents = |path: &str| fs::read_to_string(sandbox.path(path)).unwrap();
    let copied = ["to/a", "to/b", "to/deep/other", "to/with blank"].map(contents);
    assert_eq!(copied, ["a", "b", "a", "with blank"]);
    // The others are copied in spite of a failure.
    sandbox.file("list", "from/nobody to/x\nfrom/b to/deep/b\n");
    let run = sandbox.haul(["--pairs", "list"]).run().ends(1);
    run.says(["from/nobody: No such file or directory", "1 of 2 copies failed, for 2 pairs"]);
    assert_eq!(contents("to/deep/b"), "b");
    sandbox.file("list", "from/a to/a\nfrom/b\n");
    sandbox.haul(["--pairs", "list"]).run().ends(2).says(["--pairs list: line 2: no target"]);
    sandbox.haul(["--pairs", "list", "from/a"]).run().ends(2).says(["--pairs names all sources and targets"]);
    sandbox.haul(["sync", "--pairs", "list", "a", "b"]).run().ends(2).says(["--pairs is for copies alone"]);
}

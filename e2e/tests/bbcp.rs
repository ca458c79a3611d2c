//! haul under the name of bbcp: its command line, its defaults, its output. Command lines written for bbcp run
//! unchanged, except for the program's name, hosts and paths.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::time::Duration;

use haul_e2e::{
    Haul, ProgramRun, Remote, Running, Sandbox, compare, contents, eventually, haul_binary, hidden_or_partial, listing,
    mode, mtime, set_mtime, shell, within,
};
use rustix::process::Signal;

/// A link to haul that is called bbcp, and an `ssh` that knows the hosts of these tests, first in PATH.
struct Bbcp<'a> {
    sandbox: &'a Sandbox,
    remote: Remote,
}

impl<'a> Bbcp<'a> {
    fn new(sandbox: &'a Sandbox) -> Self {
        let remote = Remote::new(sandbox);
        let bin = sandbox.dir("bin");
        symlink(haul_binary(), bin.join("bbcp")).unwrap();
        let config = remote.sshd().ssh_config();
        sandbox.script("bin/ssh", &format!("#!/bin/sh\nexec /usr/bin/ssh -F {} \"$@\"\n", config.display()));
        Self { sandbox, remote }
    }

    /// A line as it is typed, with `HOST` and `KEY` filled in.
    fn line(&self, line: &str) -> Haul<'a> {
        let key = self.remote.sshd().identity();
        let line = line.replace("HOST", &self.remote.sshd().host()).replace("KEY", &key.to_string_lossy());
        let path = std::env::var("PATH").unwrap_or_default();
        shell(self.sandbox, &format!("exec {line}"))
            .env("PATH", format!("{}:{path}", self.sandbox.path("bin").display()))
    }
}

/// `bbcp: 140304 06:46:12  1% done; 6.9 MB/s, avg 7.5 MB/s`
fn is_progress(line: &str, with_average: bool) -> bool {
    let rate = |text: &str| {
        let (number, unit) = text.split_once(' ').unwrap_or_default();
        number.split_once('.').is_some_and(|(_, digits)| digits.len() == 1)
            && ["B/s", "KB/s", "MB/s", "GB/s"].contains(&unit)
    };
    let Some((stamp, rest)) = line.strip_prefix("bbcp: ").and_then(|rest| rest.split_once("  ")) else { return false };
    let Some((percent, rates)) = rest.split_once("% done; ") else { return false };
    let shape: String = stamp.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    let rates = match rates.split_once(", avg ") {
        Some((current, average)) => with_average && rate(current) && rate(average),
        None => !with_average && rate(rates),
    };
    shape == "000000 00:00:00" && percent.parse::<u8>().is_ok_and(|percent| percent <= 100) && rates
}

#[test]
fn without_v_there_is_no_output_and_with_it_bbcps_lines() {
    let sandbox = Sandbox::new();
    let bbcp = Bbcp::new(&sandbox);
    let there = sandbox.dir("there");
    sandbox.big_file("source", 3_000_000);
    let run = bbcp.line(&format!("bbcp source HOST:{}", there.display())).run().succeeds();
    assert_eq!((run.stdout.as_str(), run.stderr.as_str()), ("", ""), "{}", run.account());
    for letter in ["-v", "-V"] {
        let run =
            bbcp.line(&format!("bbcp {letter} -f source HOST:{}/again{letter}", there.display())).run().succeeds();
        let lines: Vec<_> = run.stderr.lines().collect();
        let file = format!("File {}/again{letter} created; 3000000 bytes at ", there.display());
        assert!(lines.iter().any(|line| line.starts_with(&file) && line.ends_with("B/s")), "{}", run.account());
        assert!(
            lines.last().is_some_and(|line| line.starts_with("1 file copied at effectively ")),
            "{}",
            run.account()
        );
        assert!(!run.stderr.contains("every byte verified"), "{}", run.account());
    }
}

#[test]
fn progress_has_an_average_only_before_the_last_line() {
    let sandbox = Sandbox::new();
    let bbcp = Bbcp::new(&sandbox);
    sandbox.big_file("source", 8_000_000);
    for (letters, with_average) in [("-P 1", false), ("-P 1 -V", true)] {
        let run = bbcp.line(&format!("bbcp {letters} -f -x 3m source HOST:/dev/null")).run().succeeds();
        let lines: Vec<_> = run.stderr.lines().filter(|line| line.contains("% done; ")).collect();
        // One a second, however long it takes.
        assert!(!lines.is_empty() && lines.len() as u64 <= run.elapsed.as_secs() + 1, "{}", run.account());
        assert!(lines.iter().all(|line| is_progress(line, with_average)), "{}", run.account());
    }
}

#[test]
fn an_existing_file_is_an_error_without_f() {
    let sandbox = Sandbox::new();
    let bbcp = Bbcp::new(&sandbox);
    sandbox.file("source", "same");
    bbcp.line("bbcp source target").run().succeeds();
    let run = bbcp.line("bbcp source target").run().ends(22).says(["target", "already exists", "-f", "-O"]);
    assert!(run.stderr.starts_with("bbcp: "), "{}", run.account());
    for letter in ["-f", "-O", "-a"] {
        bbcp.line(&format!("bbcp {letter} -- source target")).run().succeeds();
    }
    sandbox.file("source", "other");
    bbcp.line("bbcp -O source target").run().succeeds();
    assert_eq!(contents(&sandbox.path("target")), b"same");
    bbcp.line("bbcp -f source target").run().succeeds();
    assert_eq!(contents(&sandbox.path("target")), b"other");
}

#[test]
fn links_are_ignored_and_modes_are_644_and_755_under_any_umask() {
    let sandbox = Sandbox::new();
    let bbcp = Bbcp::new(&sandbox);
    let file = sandbox.file("source/dir/file", "content");
    set_mtime(&file, 1_500_000_000, 7);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    fs::set_permissions(sandbox.path("source/dir"), fs::Permissions::from_mode(0o700)).unwrap();
    symlink("dir/file", sandbox.path("source/link")).unwrap();
    for umask in ["022", "027"] {
        let line = format!("sh -c 'umask {umask}; exec bbcp -r source/. target{umask}'");
        let missing = bbcp.line(&line).run().ends(2).says(["target directory", "does not exist"]);
        assert!(!sandbox.path(format!("target{umask}")).exists(), "{}", missing.account());
        let target = sandbox.dir(format!("target{umask}"));
        bbcp.line(&line).run().succeeds();
        assert_eq!((mode(&target.join("dir")), mode(&target.join("dir/file"))), (0o755, 0o644));
        assert_eq!(listing(&target), ["dir"], "links are left out");
        assert_eq!(mtime(&target.join("dir/file")), (1_500_000_000, 7));
    }
    sandbox.dir("preserved");
    bbcp.line("bbcp -r -p -m 777 -@ keep source/. preserved").run().succeeds();
    assert_eq!((mode(&sandbox.path("preserved/dir")), mode(&sandbox.path("preserved/dir/file"))), (0o700, 0o600));
    assert_eq!(listing(&sandbox.path("preserved")), ["dir", "link"]);
}

#[test]
fn words_are_bbcps() {
    let sandbox = Sandbox::new();
    let bbcp = Bbcp::new(&sandbox);
    sandbox.file("status", "a file of this name is a source");
    sandbox.file("b", "b");
    sandbox.dir("there");
    bbcp.line("bbcp -sP 2 1 status b there").run().succeeds();
    assert_eq!(listing(&sandbox.path("there")), ["b", "status"]);
    bbcp.line("bbcp --str 2 --f status there").run().succeeds();
    // The value of a source comes before the name of its target is known.
    for side in ["%", ""] {
        let run = bbcp.line(&format!("bbcp -f -E {side}md5= b there/renamed")).run().succeeds();
        assert!(
            run.stderr.starts_with("Checksum: md5 ") && run.stderr.ends_with("there/renamed\n"),
            "{}",
            run.account()
        );
    }
    bbcp.line("bbcp status there -f").run().ends(1).says(["bbcp: -f", "before sources"]);
    bbcp.line("bbcp --json status there").run().ends(1).says(["unknown option --json"]);
    let help = bbcp.line("bbcp -h").run().succeeds();
    assert!(help.stdout.contains("-s, --streams N") && help.stdout.contains("-~"), "{}", help.account());
    assert!(bbcp.line("bbcp '-#'").run().succeeds().stdout.starts_with("haul "));
}

#[test]
fn a_file_with_one_name_keeps_its_inode_and_others_are_replaced() {
    let sandbox = Sandbox::new();
    let bbcp = Bbcp::new(&sandbox);
    sandbox.dir("there");
    let identity = |path: &Path| (fs::metadata(path).unwrap().ino(), fs::metadata(path).unwrap().nlink());
    for (old, new) in [(30, 2_000_000), (2_000_000, 30), (300_000, 300_000), (0, 300_000), (300_000, 0), (0, 1), (1, 0)]
    {
        let source = sandbox.big_file("source", new);
        for there in ["", "HOST:"] {
            let target = sandbox.file("there/target", vec![7; old]);
            let other = sandbox.path("there/other");
            fs::hard_link(&target, &other).unwrap();
            // Else it could have the source's time, and be the same file.
            set_mtime(&target, 5, 0);
            let before = identity(&target);
            let line = format!("source {there}{}", target.display());
            bbcp.line(&format!("bbcp -f -K -E md5=00000000000000000000000000000000 {line}")).run().ends(172);
            assert_eq!((identity(&target), contents(&other)), (before, vec![7; old]));
            bbcp.line(&format!("bbcp -f -K {line}")).run().succeeds();
            assert_eq!((identity(&other), identity(&target).1), ((before.0, 1), 1));
            compare(&source, &target).unwrap();
            assert_eq!(contents(&other), vec![7; old]);
            let before = identity(&target);
            fs::write(&target, vec![7; old]).unwrap();
            set_mtime(&target, 5, 0);
            bbcp.line(&format!("bbcp -f -K {line}")).run().succeeds();
            assert_eq!(identity(&target), before, "{old} to {new} bytes");
            compare(&source, &target).unwrap();
            assert_eq!(listing(&sandbox.path("there")), ["other", "target"]);
            [target, other].iter().for_each(|path| fs::remove_file(path).unwrap());
        }
    }
}

#[test]
fn with_r_the_target_directory_must_exist() {
    let sandbox = Sandbox::new();
    let bbcp = Bbcp::new(&sandbox);
    sandbox.file("tree/a", "a");
    let place = sandbox.dir("place").display().to_string();
    for there in ["", "HOST:"] {
        for source in ["tree", "tree/"] {
            for slash in ["", "/"] {
                let line = format!("bbcp -r {source} {there}{place}/new{slash}");
                bbcp.line(&line).run().ends(2).says(["the target directory", "place/new does not exist"]);
            }
        }
        bbcp.line(&format!("bbcp -r tree/a {there}{place}/a")).run().succeeds();
        bbcp.line(&format!("bbcp -r -A tree {there}{place}/made")).run().succeeds();
        assert_eq!(listing(&sandbox.path("place")), ["a", "made"]);
        fs::remove_file(sandbox.path("place/a")).unwrap();
        fs::remove_dir_all(sandbox.path("place/made")).unwrap();
    }
}

#[test]
fn a_kept_part_of_a_small_file_is_resumed() {
    let sandbox = Sandbox::new();
    let bbcp = Bbcp::new(&sandbox);
    let there = sandbox.dir("there");
    let source = sandbox.big_file("source", 12_000_001);
    let line = format!("source HOST:{}", there.display());
    broken(&bbcp, &format!("bbcp -k -s 1 -x 8m {line}"), &there, 9_000_000);
    let run = bbcp.line(&format!("bbcp -a -V {line}")).run().succeeds();
    let offset = run.stderr.lines().find_map(|line| line.split_once(" at offset ")).map(|(_, offset)| offset);
    let offset: u64 = offset.unwrap_or_else(|| panic!("{}", run.account())).parse().unwrap();
    assert!(offset >= 6_000_000, "{}", run.account());
    compare(&source, &there.join("source")).unwrap();
    assert_eq!(listing(&there), ["source"]);
}

/// Starts a command line, and kills it after `some` bytes have arrived in `there`.
fn broken(bbcp: &Bbcp<'_>, line: &str, there: &Path, some: u64) {
    let mut running: Running = bbcp.line(line).start();
    let arrived = within(Duration::from_secs(30), || hidden_or_partial(there, &[], some).is_some());
    assert!(arrived, "nothing arrived\n{}", running.stderr_so_far());
    running.signal(Signal::KILL);
    running.wait_up_to(Duration::from_secs(10));
    eventually("the workers have ended", || bbcp.remote.workers().is_empty());
}

#[test]
fn statuses_are_bbcps() {
    let sandbox = Sandbox::new();
    let bbcp = Bbcp::new(&sandbox);
    let long = "b".repeat(300);
    let none = "0".repeat(32);
    for (line, status) in [
        ("f1 ''", 255),
        ("-l '' f1 tgt", 255),
        ("-T '' f1 HOST:tgt", 255),
        ("-x -1 f1 tgt", 255),
        ("-I /dev/null tgt", 1),
        ("-I tree tgt", 1),
        ("-I list tgt", 0),
        ("-I nolist tgt", 2),
        ("-vP1 f1 tgt", 1),
        ("-w1m f1 tgt", 1),
        ("--nosuch f1 tgt", 1),
        ("/dev/null tgt/n", 2),
        ("-E md5=nodir/s f1 tgt", 2),
        (&format!("f1 tgt/{long}"), 36),
        (&format!("-E %md5={none} f1 tgt"), 84),
        (&format!("-E md5={none} f1 tgt"), 172),
        ("-N o f1 f2 'tee tgt/z'", 20),
        ("-O -a f1 old/f1", 22),
        ("-O f1 old/f1", 0),
        ("-u st -o f2 tgt", 0),
        ("-N oi 'cat f1' md5sum", 0),
        ("f1 old/way", 22),
    ] {
        for name in ["f1", "f2", "tree/a"] {
            sandbox.file(name, name);
        }
        sandbox.file("list", "f1\nf2\n");
        sandbox.file("old/f1", "other");
        sandbox.dir("old/way/f1");
        let _ = fs::remove_dir_all(sandbox.path("tgt"));
        sandbox.dir("tgt");
        let run = bbcp.line(&format!("bbcp {line}")).limit(Duration::from_secs(20)).run().ends(status);
        assert!(!run.stderr.contains("haul --help") && !run.stderr.contains("-command"), "{}", run.account());
    }
}

#[test]
fn digests_reach_pipes_and_only_of_copied_files() {
    let sandbox = Sandbox::new();
    let bbcp = Bbcp::new(&sandbox);
    sandbox.file("f1", "new");
    sandbox.file("f2", "new");
    for (file, rest) in [("/dev/stdout", "| cat"), ("/dev/stderr", "2>&1 | cat"), ("fifo", "& cat fifo")] {
        sandbox.dir("tgt");
        let line = format!("sh -c 'test -p fifo || mkfifo fifo; bbcp -E a32={file} f1 tgt {rest}'");
        let run = bbcp.line(&line).limit(Duration::from_secs(20)).run().succeeds();
        // Eight bytes, of which bbcp uses four.
        let digest = run.stdout.split(' ').nth(2).unwrap_or_default();
        assert!(digest.len() == 16 && digest.ends_with("00000000"), "{}", run.account());
        assert!(run.stdout.starts_with("Checksum: a32 ") && run.stdout.ends_with("/f1\n"), "{}", run.account());
        eventually("the file has arrived", || sandbox.path("tgt/f1").exists());
        fs::remove_dir_all(sandbox.path("tgt")).unwrap();
    }
    sandbox.file("old/f1", "old");
    bbcp.line("bbcp -O -E md5=sums f1 f2 old").run().succeeds();
    let sums = String::from_utf8(contents(&sandbox.path("sums"))).unwrap();
    assert!(sums.lines().count() == 1 && sums.ends_with("/f2\n"), "{sums}");
}

#[test]
fn names_and_precedence_are_bbcps() {
    let sandbox = Sandbox::new();
    let bbcp = Bbcp::new(&sandbox);
    sandbox.file("f1", "new");
    sandbox.file("old/f1", "older");
    sandbox.dir("tgt");
    let run = bbcp.line("bbcp -O -f -V f1 old/f1").run().succeeds();
    assert!(run.stderr.starts_with("bbcp: Creating ./old/f1\nFile ./old/f1 created; "), "{}", run.account());
    assert_eq!(contents(&sandbox.path("old/f1")), b"new");
    let run = bbcp.line("bbcp -V f1 -").run().succeeds();
    assert!(run.stderr.starts_with("bbcp: Creating ./-\nFile ./- created; "), "{}", run.account());
    assert_eq!((run.stdout.as_str(), contents(&sandbox.path("-"))), ("", b"new".to_vec()));
    bbcp.line("bbcp -N i 'cat f1' tgt").run().succeeds();
    assert_eq!(contents(&sandbox.path("tgt/cat")), b"new");
    let run = bbcp.line("bbcp -v -N io 'cat f1' md5sum").run().succeeds();
    assert!(run.stderr.starts_with("File ./md5sum created; "), "{}", run.account());
}

#[test]
fn seed_lines_run_unchanged() {
    let sandbox = Sandbox::new();
    let bbcp = Bbcp::new(&sandbox);
    let place = sandbox.path("").display().to_string();
    let there = sandbox.dir("there");
    let big = sandbox.big_file("file.256m", 64_000_001);
    fs::create_dir_all(sandbox.path("src/bbcp/bin/amd64_linux")).unwrap();
    symlink(haul_binary(), sandbox.path("src/bbcp/bin/amd64_linux/bbcp")).unwrap();
    sandbox.big_file("nfs/F", 5_000_000);
    sandbox.dir("here");

    // One stream, an address for the data, a remote program of one's own; the same past the page cache.
    for unbuffered in ["", "-u st "] {
        let own = format!("'ssh -x -a %4 %I -l %U %H {place}/src/bbcp/bin/amd64_linux/bbcp'");
        let line = format!("bbcp -f -s 1 -H 127.0.0.1 {unbuffered}-P 2 -S {own} -w 32M HOST:{place}/nfs/F here");
        bbcp.line(&line).run().succeeds();
        compare(&sandbox.path("nfs/F"), &sandbox.path("here/F")).unwrap();
        fs::remove_file(sandbox.path("here/F")).unwrap();
    }

    // After an interruption, the same command resumes.
    let resumable = format!("-a {place}/there/ -r -P 2 -V -f -w 9m -s 16 -i KEY file.256m HOST:{place}/there/");
    broken(&bbcp, &format!("bbcp -k -x 20m {resumable}"), &there, 12_000_000);
    let run: ProgramRun = bbcp.line(&format!("bbcp -k {resumable}")).run().succeeds();
    let created = format!("File {place}/there/file.256m created; 64000001 bytes at ").replace("//", "/");
    let said = run.stderr.replace("//", "/");
    assert!(said.contains("bbcp: Appending to ") && said.contains(&created), "{}", run.account());
    compare(&big, &there.join("file.256m")).unwrap();
    assert_eq!(listing(&there), ["file.256m"], "nothing is left beside it");

    let target = sandbox.dir("more");
    let run = bbcp.line(&format!("bbcp -r -P 2 -V -w 8m -s 16 file.256m HOST:{}/", target.display())).run().succeeds();
    assert!(run.stderr.lines().last().is_some_and(|line| line.starts_with("1 file copied at effectively ")));
    compare(&big, &target.join("file.256m")).unwrap();

    bbcp.line("bbcp -P 2 -w 2M -s 10 file.256m $(id -un)@HOST:~/test.file").run().succeeds();
    compare(&big, &bbcp.remote.home().join("test.file")).unwrap();
    bbcp.line("bbcp -h").run().succeeds();
    bbcp.remote.is_left_clean();
}

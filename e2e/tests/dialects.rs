//! Command lines of rsync and scp under haul: the same trees, lines and statuses as the programs themselves.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt, lchown, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use haul_e2e::{
    Attributes, ProgramRun, Remote, Sandbox, compare_with, contents, haul_binary, listing, set_mtime, shell, within,
};

/// Lines of rsync, with its exit status. The source is `s`, the target `t`, which holds an older copy and an extra file.
const LINES: &[(&str, i32)] = &[
    ("-a s/ t", 0),
    ("-a s t", 0),
    ("-av s/ t", 0),
    ("-avz --stats s/ t", 0),
    ("-ai --delete s/ t", 0),
    ("-rlptgoD --del s/ t", 0),
    ("-rt s/ t", 0),
    ("-r s/ t", 0),
    ("-avn --delete s/ t", 0),
    ("-ac s/ t", 0),
    ("-a --size-only s/ t", 0),
    ("-aI --no-times s/ t", 0),
    ("-au s/ t", 0),
    ("-a --existing s/ t", 0),
    ("-a --ignore-existing s/ t", 0),
    ("-aL s/ t", 0),
    ("-aH --no-perms --no-owner s/ t", 0),
    ("-aW --info=progress2 --no-i-r -h s/ t", 0),
    ("-a --remove-source-files s/ t", 0),
    ("-aR ./s/dir t", 0),
    ("-a --safe-links s/ t", 0),
    ("-av --safe-links s t", 0),
    ("-a --copy-unsafe-links s/ t", 0),
    ("-a --copy-unsafe-links --safe-links s t", 0),
    ("-a --safe-links s/out s/link s/dir/up t", 0),
    ("-a --copy-unsafe-links s/out s/link s/to-dir t", 0),
    ("-ak s/ t", 0),
    ("-rlk s t", 0),
    ("-ak s/to-dir s/link t", 0),
    ("-aR --safe-links s/./dir t", 0),
    ("-rk s/ t", 1),
    ("-d s/ t", 0),
    ("-dv s/ t", 0),
    ("-dlt s t", 0),
    ("-ptgoDl -dv --delete s/ t", 0),
    ("-a --files-from=list s t", 0),
    ("-ar --files-from=list s t", 0),
    ("-a --no-dirs --files-from=list s t", 0),
    ("-rtE s/ t", 0),
    ("-rtEi s/ t", 0),
    ("-ai --existing --delete s/ t", 0),
    ("-a --ignore-missing-args --delete s/missing s/dir t", 0),
    ("-a --ignore-missing-args s/missing t", 0),
    ("-a --delete-missing-args s/missing s/a t", 0),
    ("-aiR --delete-missing-args s/./dir/extra s/./dir/c t", 0),
    ("-av --delete-missing-args s/p s/real k", 0),
    ("-ain --delete-missing-args s/./dir/extra t/dir", 0),
    ("-ai --delete-missing-args s/parts s/gone p", 0),
    ("-ai --delete-missing-args s/k .", 0),
    ("-ai --delete-missing-args --force s/t s/a .", 0),
    ("-aR --delete s/./dir t", 0),
    ("-aiR --del ./s/./dir/ t", 0),
    ("-aiR --del s/./dir o/./dir/own t", 0),
    ("-aR s/./dir o/./dir/own t", 0),
    ("-aiR --del s/./dir o/./b t", 0),
    ("-aHi s/ t", 0),
    ("-aiHc s/ t", 0),
    ("-aHii s/ t", 0),
    ("-a s/ x/y/z", 11),
    ("-a s/none x/", 23),
    ("", 1),
    ("-a s/ t/a/", 3),
    ("-a s/ /proc/none/t", 11),
    ("-a --exclude-from=missing s/ t", 11),
    ("-a --filter='. missing' s/ t", 11),
    ("-a --filter='. list' s/ t", 1),
    ("-a --stop-after=60 s/ t", 0),
    ("-a --stop-at=2999-12-31T23:59 s/ t", 0),
    ("-a --stop-at=2000-01-01T00:00 s/ t", 1),
    ("-a --stop-after=0 s/ t", 1),
    ("--list-only -r s/ t", 0),
    ("-v s t", 0),
    ("-t s/a t", 0),
    ("-t s/a t/new", 0),
    ("s/a s/b t", 0),
    ("-ab s/ t", 0),
    ("-ab --suffix=.old --info=backup s/ t", 0),
    ("-ab --delete s/ t", 0),
    ("-ab --delete-excluded s/ t", 0),
    ("-a --backup-dir=../o --delete s/ t", 0),
    ("-a --backup-dir ../o --suffix=.x s/ t", 0),
    ("-b --suffix=x/y s/ t", 1),
    ("-a --append-verify s/ t", 0),
    ("-a --append --existing s/ k", 0),
    ("-a --append -W s/ t", 1),
    ("-aO --temp-dir=. s/ t", 0),
    ("-a --temp-dir=../missing s/ t", 1),
    ("-aO --temp-dir=dir s/ t", 0),
    ("-aiR ./s/dir k", 0),
    ("-aiR ./s/dir s/a k", 0),
    ("-aX -f-x_system.* --filter='-x security.*' s/ t", 0),
    ("-aX --filter='-x user.*' s/ t", 1),
    ("-a --partial-dir=.parts s/ t", 0),
    ("-aKO s/ k", 0),
    ("-a s/ k", 0),
    ("-aKR ./s/./dir/c k", 0),
    ("-a --compare-dest=../o s/ new", 0),
    ("-a --compare-dest=../o s/ t", 0),
    ("-a --copy-dest ../o --copy-dest=../t s/ new", 0),
    ("-a --copy-dest=../o --inplace s/ t", 0),
    ("-rp --copy-dest=../o --size-only s/ new", 0),
    ("-a --compare-dest=../o --copy-dest=../o s/ t", 1),
    ("-ai --mkpath s/a t/x/y/new", 0),
    ("-ai --mkpath s/a t/x/y/", 0),
    ("-ain --mkpath s/a t/x/y/new", 0),
    ("-a --files-from=dots . t", 0),
    ("-aR --no-implied-dirs ./s/./dir/c k", 0),
    ("-aR ./s/./dir/c k", 0),
    ("-aR --no-implied-dirs ./s/./closed/in new", 0),
    ("-aR ./s/./closed/in new", 0),
    ("-aiiO s/ t", 0),
    ("-aiuO --info=skip t/ s", 0),
    ("-ai --ignore-existing --info=skip s/ t", 0),
    ("-a --progress s/ t", 0),
    ("-a --delay-updates s/ p", 0),
    ("-a --partial-dir=.parts --delete s/ p", 0),
    ("-ab --safe-links --delete s/ p", 0),
    ("-ab --delete s/ p", 0),
    ("-a --del --remove-source-files s/ t", 0),
    ("-a --out-format='%C %n' --checksum-choice=md5 s/ t", 0),
    ("-ac --out-format='%C %n' --checksum-choice=md5 s/a t/new", 0),
    ("-a --numeric-ids --groupmap=:7 s/ t", 0),
    ("-ai p/fifo t", 0),
    ("-a --old-args s/a s/b t", 0),
    ("-a s/missing s/a t", 23),
    ("--delete s/ t", 1),
    ("--no-such-option s/ t", 1),
    ("-a s/ host::module", 1),
    ("--read-batch=x t", 1),
];

fn has_rsync() -> bool {
    let has =
        Command::new("rsync").arg("--version").stdout(Stdio::null()).status().is_ok_and(|status| status.success());
    if !has {
        println!("SKIPPED: a comparison with rsync needs rsync");
    }
    has
}

/// A source, and an older copy of it with an extra file.
fn pair(sandbox: &Sandbox, place: &str) {
    for (path, text, time) in [
        ("s/a", "new and longer", 1_700_000_000),
        ("s/b", "same", 1_600_000_000),
        ("s/dir/c", "fresh", 1_700_000_000),
        ("t/a", "old", 1_500_000_000),
        ("t/b", "same", 1_600_000_000),
        ("t/dir/extra", "extra", 1_500_000_000),
        ("o/a", "new and longer", 1_700_000_000),
        ("o/b", "same, changed", 1_600_000_000),
        ("o/dir/c", "fresh", 1_700_000_000),
        ("o/dir/own", "own", 1_700_000_000),
        ("t/dir/own", "own", 1_700_000_000),
    ] {
        set_mtime(&sandbox.file(format!("{place}/{path}"), text), time, 0);
    }
    set_mtime(&sandbox.file(format!("{place}/outside"), "outside"), 1_600_000_000, 0);
    sandbox.file(format!("{place}/list"), "# a comment\n/dir/\na\nlink\nto-dir\n");
    sandbox.file(format!("{place}/dots"), "s/./dir/\n/s/./a\n");
    for partial in ["p/.~tmp~/a", "p/.parts/a", "p/.parts/other"] {
        set_mtime(&sandbox.file(format!("{place}/{partial}"), "partial"), 1_600_000_000, 0);
    }
    symlink("../outside", sandbox.path(format!("{place}/p/a"))).unwrap();
    symlink("c", sandbox.path(format!("{place}/p/b"))).unwrap();
    symlink("/outside", sandbox.path(format!("{place}/p/gone"))).unwrap();
    let fifo = sandbox.path(format!("{place}/p/fifo"));
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o640.into(), 0).unwrap();
    set_mtime(&fifo, 1_600_000_000, 0);
    set_mtime(&sandbox.file(format!("{place}/s/closed/in"), "in"), 1_700_000_000, 0);
    fs::set_permissions(sandbox.path(format!("{place}/s/closed")), fs::Permissions::from_mode(0o750)).unwrap();
    for (link, points_to) in
        [("link", "a"), ("to-dir", "dir"), ("out", "../outside"), ("absolute", "/etc/passwd"), ("dir/up", "../a")]
    {
        symlink(points_to, sandbox.path(format!("{place}/s/{link}"))).unwrap();
    }
    for (path, mode) in [("s/b", 0o711), ("t/b", 0o640)] {
        fs::set_permissions(sandbox.path(format!("{place}/{path}")), fs::Permissions::from_mode(mode)).unwrap();
    }
    fs::set_permissions(sandbox.path(format!("{place}/o/dir/c")), fs::Permissions::from_mode(0o600)).unwrap();
    sandbox.dir(format!("{place}/k/real"));
    symlink("real", sandbox.path(format!("{place}/k/dir"))).unwrap();
    symlink("real", sandbox.path(format!("{place}/k/a"))).unwrap();
    fs::hard_link(sandbox.path(format!("{place}/s/b")), sandbox.path(format!("{place}/s/dir/linked"))).unwrap();
    for directory in ["s/dir", "s/closed", "s", "t/dir", "t"] {
        set_mtime(&sandbox.path(format!("{place}/{directory}")), 1_650_000_000, 0);
    }
}

/// Names on standard output, without figures.
fn names(run: &ProgramRun) -> BTreeSet<String> {
    let is_figure = |line: &str| line.contains(':') || line.contains("bytes") || line.starts_with("total size");
    run.stdout.lines().filter(|line| !line.is_empty() && !is_figure(line)).map(str::to_owned).collect()
}

/// Sets the time of a directory that was changed in this test.
fn settle(directory: &Path) {
    let is_recent =
        |meta: fs::Metadata| meta.modified().is_ok_and(|time| time.elapsed().is_ok_and(|age| age.as_secs() < 3600));
    if fs::metadata(directory).is_ok_and(is_recent) {
        set_mtime(directory, 0, 0);
    }
}

#[test]
fn lines_of_rsync_do_what_they_do_in_rsync() {
    if !has_rsync() {
        return;
    }
    let sandbox = Sandbox::new();
    let all = Attributes { modes: true, owners: true, mtimes: true, ..Attributes::default() };
    let mut wrong = Vec::new();
    for (number, (line, status)) in LINES.iter().enumerate() {
        let [theirs, ours] = ["rsync", "haul"].map(|program| format!("{number}-{program}"));
        let run = |place: &str, program: &str| {
            pair(&sandbox, place);
            shell(&sandbox, &format!("umask 022; cd {place} && exec {program} {line}")).run()
        };
        let of_rsync = run(&theirs, "rsync");
        let of_haul = run(&ours, "\"$0\" rsync");
        let mut say = |what: String| wrong.push(format!("rsync {line}: {what}"));
        if of_haul.status != Some(*status) {
            say(format!("status {:?}, not {status}: {}", of_haul.status, of_haul.stderr));
        }
        // An unsupported daemon or batch is refused with rsync's status of a bad line.
        if of_rsync.status != of_haul.status && *status != 1 {
            say(format!("rsync ends with {:?}: {}", of_rsync.status, of_rsync.stderr));
        }
        if *status == 1 {
            continue;
        }
        let letters = match line.split(' ').next() {
            Some(word) if word.starts_with("--") => "-t",
            Some(word) if word.starts_with('-') => word,
            _ => "",
        };
        let lacks_times = !letters.contains(['a', 't']) || line.contains("--no-times");
        let attributes = Attributes { mtimes: !lacks_times, ..all };
        for end in ["s", "t", "k", "o", "p", "new"].into_iter().filter(|end| sandbox.path(&theirs).join(end).exists()) {
            let [a, b] = [&theirs, &ours].map(|place| sandbox.path(place).join(end));
            // A directory that lost or got entries has the time of that.
            let directories = ["", "dir", "real", "closed", "x", "x/y", ".parts", ".~tmp~"]
                .map(|directory| [a.join(directory), b.join(directory)]);
            directories.iter().flatten().for_each(|directory| settle(directory));
            if let Err(difference) = compare_with(&a, &b, attributes) {
                say(format!("{end}: {difference}"));
            }
        }
        if names(&of_rsync) != names(&of_haul) {
            say(format!("printed {:?}, not {:?}", names(&of_haul), names(&of_rsync)));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), LINES.len(), wrong.join("\n"));
}

#[test]
fn lists_are_rsyncs_byte_for_byte() {
    if !has_rsync() {
        return;
    }
    let sandbox = Sandbox::new();
    pair(&sandbox, "p");
    sandbox.file("p/s/a name\twith \u{e4}", "x");
    for line in [
        "s",
        "s/",
        "s/a",
        "-r s",
        "-rl s/",
        "-a s/",
        "-aL s/",
        "-a --copy-unsafe-links s/",
        "-rl --list-only s t",
        "-a s/a s/dir t --list-only",
        "-a --exclude a s/",
    ] {
        let run =
            |program: &str| shell(&sandbox, &format!("umask 022; cd p && exec {program} {line}")).run().succeeds();
        let (theirs, ours) = (run("rsync"), run("\"$0\" rsync"));
        assert_eq!(ours.stdout, theirs.stdout, "rsync {line}");
    }
}

#[test]
fn a_dry_run_has_the_total_size_of_all_files() {
    if !has_rsync() {
        return;
    }
    let sandbox = Sandbox::new();
    pair(&sandbox, "here");
    for line in ["-rtvn o/ t", "-rtvn o new", "-avn o/dir t"] {
        let total = |program: &str| {
            let run = shell(&sandbox, &format!("cd here && exec {program} {line}")).run();
            let last = run.stdout.lines().last().unwrap_or_default().to_owned();
            let (size, _) = last.split_once("  speedup").unwrap_or_else(|| panic!("{}", run.account()));
            size.to_owned()
        };
        assert_eq!(total("\"$0\" rsync"), total("rsync"), "{line}");
    }
}

#[test]
fn another_host_lacks_a_source_or_a_directory() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    sandbox.file("s/a", "content");
    let sshd = remote.sshd();
    let ssh = format!("ssh -p {} -i {} {}", sshd.port(), sshd.identity().display(), {
        let options = sshd.ssh_options();
        options.iter().map(|option| format!("-o {option}")).collect::<Vec<_>>().join(" ")
    });
    let rsync = |source: &str, to: &str| {
        sandbox.haul(["rsync", "-a", "-e", &ssh, source]).arg(remote.at(sandbox.path(to))).run()
    };
    rsync("none", "x/").ends(23);
    let deep = rsync("s/", "no/such/deep/").ends(11).says(["--mkpath creates it"]);
    assert!(!deep.stderr.contains("--mkdir"), "{}", deep.account());
}

#[test]
fn links_of_other_users_lead_to_no_list_rules_or_target() {
    if !rustix::process::geteuid().is_root() || !has_rsync() {
        println!("SKIPPED: links of other users need root");
        return;
    }
    let plant = |sandbox: &Sandbox, place: &str| {
        sandbox.file(format!("{place}/s/a"), "a");
        sandbox.file(format!("{place}/s/sub/canary"), "canary");
        sandbox.file(format!("{place}/o/rules"), "canary\n");
        sandbox.file(format!("{place}/o/list"), "a\n");
        sandbox.dir(format!("{place}/o/dir"));
        for (link, points_to) in
            [("rules", "o/rules"), ("list", "o/list"), ("there", "o/dir"), ("s/sub/.cvsignore", "../../o/rules")]
        {
            let link = sandbox.path(place).join(link);
            symlink(points_to, &link).unwrap();
            lchown(&link, Some(65534), None).unwrap();
        }
    };
    let sandbox = Sandbox::new();
    for (number, line) in [
        "-a --files-from=list s t",
        "-a --files-from=list --insecure-links s t/",
        "-a --exclude-from=rules s/ t",
        "-a --insecure-links --exclude-from=rules s/ t",
        "-a s/ there",
        "-a --insecure-links s/ there",
        "-aC s/ t",
    ]
    .iter()
    .enumerate()
    {
        let [theirs, ours] = [("rsync", "rsync"), ("haul", "\"$0\" rsync")].map(|(name, program)| {
            let place = format!("{number}-{name}");
            plant(&sandbox, &place);
            let run = shell(&sandbox, &format!("cd {place} && exec {program} {line}")).run();
            let ends = ["t", "o", "o/dir"].map(|end| sandbox.path(&place).join(end));
            (run.status, ends.map(|end| end.is_dir().then(|| listing(&end))))
        });
        assert_eq!(ours, theirs, "rsync {line}");
    }
}

#[test]
fn links_of_other_users_lead_nowhere_below_a_target() {
    if !rustix::process::geteuid().is_root() {
        println!("SKIPPED: links of other users need root");
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.file("s/dir/a", "new");
    sandbox.file("t/outside/dir/a", "old");
    let before = listing(&sandbox.path("t/outside"));
    for (line, link, status) in [
        ("-aK s/ t", "dir", 0),
        ("-aI --backup-dir=kept s/ t", "kept", 3),
        ("-aI --temp-dir=unfinished s/ t", "unfinished", 3),
    ] {
        let link = sandbox.path("t").join(link);
        symlink("outside/dir", &link).unwrap();
        lchown(&link, Some(65534), None).unwrap();
        shell(&sandbox, &format!("exec \"$0\" rsync {line}")).run().ends(status);
        assert_eq!(contents(&sandbox.path("t/outside/dir/a")), b"old", "{line}");
        assert_eq!(listing(&sandbox.path("t/outside")), before, "{line}");
    }
    assert_eq!(contents(&sandbox.path("t/dir/a")), b"new");
}

#[test]
fn files_are_completed_in_the_directory_of_an_option() {
    let sandbox = Sandbox::new();
    sandbox.file("s/dir/a", "in a directory");
    sandbox.file("s/a", "new");
    sandbox.file("unfinished/other", "other");
    sandbox.dir("real");
    symlink("real", sandbox.path("link")).unwrap();
    let parts = sandbox.path("parts/deep").into_os_string().into_string().unwrap();
    for (options, directory, kept) in [
        ("--temp-dir=../unfinished", "unfinished", &["other"][..]),
        ("--temp-dir=../link", "real", &[]),
        (&format!("--delay-updates --partial-dir={parts}"), "parts/deep", &[]),
    ] {
        sandbox.file("t/a", "old");
        let directory = sandbox.path(directory);
        if directory.exists() {
            set_mtime(&directory, 1_000_000_000, 0);
        }
        shell(&sandbox, &format!("exec \"$0\" rsync -aI {options} s/ t")).run().succeeds();
        assert_eq!(contents(&sandbox.path("t/a")), b"new", "{options}");
        assert_eq!(contents(&sandbox.path("t/dir/a")), b"in a directory", "{options}");
        assert_eq!(listing(&sandbox.path("t")), ["a", "dir"], "{options}");
        assert_eq!(listing(&directory), kept, "{options}");
        let age = fs::metadata(&directory).unwrap().modified().unwrap().elapsed().unwrap();
        assert!(age.as_secs() < 3600, "{options}: unused");
    }
}

#[test]
fn a_small_file_that_grows_before_its_turn_is_copied_whole() {
    let sandbox = Sandbox::new();
    sandbox.big_file("s/a", 3_000_000);
    let log = sandbox.file("s/b", "begins");
    let running = shell(&sandbox, "exec \"$0\" rsync -a --bwlimit=1500 s/ t").start();
    assert!(within(Duration::from_secs(60), || {
        fs::read_dir(sandbox.path("t")).is_ok_and(|entries| entries.count() > 0)
    }));
    fs::write(&log, "begins and ends").unwrap();
    ProgramRun::of(running).succeeds();
    assert_eq!(contents(&sandbox.path("t/b")), b"begins and ends");
}

#[test]
fn a_link_called_rsync_or_scp_speaks_for_it_and_hands_other_calls_over() {
    let sandbox = Sandbox::new();
    let bin = sandbox.dir("bin");
    for name in ["rsync", "scp"] {
        symlink(haul_binary(), bin.join(name)).unwrap();
    }
    sandbox.file("s/a", "content");
    let others = sandbox.dir("others");
    let run = |line: &str, path: &Path| {
        let path = format!("{}:{}:/usr/bin:/bin", bin.display(), path.display());
        shell(&sandbox, line).env("PATH", path).run()
    };
    run("rsync -a s/ t && cmp s/a t/a", &others).succeeds();
    run("scp -r s u && cmp s/a u/a", &others).succeeds();
    for name in ["rsync", "scp"] {
        sandbox.script(format!("others/{name}"), "#!/bin/sh\necho real \"$@\"\n");
    }
    assert_eq!(
        run("rsync --server -vlogDtpre.iLsfxC . x", &others).succeeds().stdout,
        "real --server -vlogDtpre.iLsfxC . x\n"
    );
    assert_eq!(run("scp -r -t x", &others).succeeds().stdout, "real -r -t x\n");
    run("PATH=$(dirname \"$(command -v scp)\") scp -f x", &others).ends(1).says(["no other scp in PATH"]);
    run("rsync --version | grep -q '^rsync  version 3'", &others).succeeds();
}

#[test]
fn lines_of_scp_do_what_they_do_in_scp() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    let sshd = remote.sshd();
    let words =
        ["scp".to_owned(), "-P".into(), sshd.port().to_string(), "-i".into(), sshd.identity().display().to_string()];
    let options = sshd.ssh_options();
    let scp = || sandbox.haul(words.clone()).args(options.iter().flat_map(|option| ["-o".to_owned(), option.clone()]));
    let file = sandbox.file("file", "content");
    set_mtime(&file, 1_500_000_000, 0);
    symlink("file", sandbox.path("link")).unwrap();
    sandbox.file("there/file", "something else");
    scp().arg("-p").arg("file").arg(remote.at(sandbox.path("there"))).run().succeeds();
    assert_eq!(contents(&sandbox.path("there/file")), b"content");
    let other = scp().arg("-p").arg("file").arg(remote.at(sandbox.path("there"))).run().succeeds();
    assert_eq!((other.stdout.as_str(), other.stderr.as_str()), ("", ""), "scp prints nothing without a terminal");
    let missing = scp().arg("file").arg(remote.at(sandbox.path("none/f"))).run().ends(1).says(["does not exist"]);
    assert!(!missing.stderr.contains("--mkdir"), "{}", missing.account());
    scp().arg("link").arg(remote.at(sandbox.path("there/from-link"))).run().succeeds();
    assert!(!sandbox.path("there/from-link").is_symlink(), "scp copies what a link points to");
    scp().arg("-r").arg(remote.at(sandbox.path("there"))).arg("back").run().succeeds();
    assert_eq!(listing(&sandbox.path("back")), ["file", "from-link"]);
    scp().arg(remote.at(sandbox.path("there/f*e"))).arg("back").run().succeeds();
    scp().arg(remote.at(sandbox.path("missing"))).arg(".").run().ends(1);
    sandbox.haul(["scp", "-P", "1", "-o", "BatchMode=yes", "file", "127.0.0.1:"]).run().ends(255);
    sandbox.haul(["scp", "file"]).run().ends(1).says(["usage: scp"]);
}

#[test]
fn every_option_in_rsyncs_help_is_known_and_means_the_same_or_is_refused_by_name() {
    if !has_rsync() {
        return;
    }
    let help = Command::new("rsync").arg("--help").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let rows = help.lines().filter(|line| line.starts_with('-'));
    let words = rows.flat_map(|line| line.split("  ").next().unwrap_or_default().split(", "));
    let sandbox = Sandbox::new();
    sandbox.file("s/a", "content");
    let (mut count, mut refused, mut unknown) = (0, Vec::new(), Vec::new());
    for word in words.map(|word| word.trim_end_matches(" (*)").trim()).filter(|word| word.starts_with('-')) {
        let (name, argument) = word.split_once('=').map_or((word, None), |(name, argument)| (name, Some(argument)));
        let argument = match (name, argument) {
            ("--no-OPTION", _) => continue,
            (name, None) if name.len() == 2 => None,
            (_, argument) => argument.map(|_| "1"),
        };
        count += 1;
        let typed = argument.map_or(name.to_owned(), |argument| format!("{name}={argument}"));
        let run = sandbox.haul(["rsync", "-n", &typed, "s/", "t"]).run();
        let said = run.stderr.lines().next().unwrap_or_default().to_owned();
        match said {
            said if said.contains("unknown option") => unknown.push(typed),
            said if said.contains("is not supported") => {
                assert!(run.status == Some(1), "{said}");
                refused.push(typed);
            }
            _ => {}
        }
    }
    println!("{count} options, refused: {}", refused.join(" "));
    assert!(count >= 154 && unknown.is_empty(), "{count} options, unknown: {unknown:?}");
    assert!(refused.len() < count / 3, "{refused:?}");
}

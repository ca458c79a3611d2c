//! Patterns as sources on another host: what matches, compared with bash, and hosts that answer otherwise.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use haul_e2e::{FakeWorker, ProgramRun, Remote, Sandbox, ServedShare, WorkerProgramProcess, hello, listing};
use haul_proto::feature::Features;
use haul_proto::filter::source_pattern::SourcePattern;
use haul_proto::wire::expansion::{ExpandRequest, ExpandedPatterns, PatternMatch};
use haul_proto::wire::report::{WorkerHello, WorkerMessage};
use haul_proto::wire::request::ControllerMessage;

const LIMIT: Duration = Duration::from_secs(20);

/// Names with everything that patterns treat specially.
const NAMES: [&str; 24] = [
    "a.txt",
    "b.txt",
    ".c.txt",
    "a b.txt",
    "-d",
    "[x].txt",
    "x.txt",
    "a*b",
    "axb",
    "a\\b",
    "{p}",
    "p,q",
    "]",
    "!",
    "A",
    "run1/one.gz",
    "run1/two.gz",
    "run1/.three.gz",
    "run2/one.gz",
    "run2/sub/deep.gz",
    "run2/sub/a",
    ".run/one.gz",
    "c^d",
    "z-z",
];

fn tree(sandbox: &Sandbox, place: &str) {
    for name in NAMES {
        sandbox.file(format!("{place}/{name}"), name);
    }
    symlink("run2", sandbox.path(place).join("link")).unwrap();
    symlink("nowhere", sandbox.path(place).join("dangling")).unwrap();
}

/// The existing paths that a pattern stands for, by the shell's rules.
fn of_bash(place: &Path, pattern: &str) -> Vec<String> {
    let script = format!("shopt -u dotglob; shopt -s nullglob; printf '%s\\0' {pattern}");
    let output = Command::new("bash").args(["-c", &script]).current_dir(place).env("LC_ALL", "C").output().unwrap();
    assert!(output.status.success(), "{pattern}: {output:?}");
    let said = String::from_utf8(output.stdout).unwrap();
    let exists = |path: &&str| !path.is_empty() && place.join(path).symlink_metadata().is_ok();
    said.split('\0').filter(exists).map(str::to_owned).collect()
}

fn of_worker(worker: &mut WorkerProgramProcess, place: &Path, pattern: &str) -> Vec<String> {
    let base = Some(place.to_str().unwrap().as_bytes().to_vec());
    worker.tell(&ControllerMessage::Expand(ExpandRequest { base, patterns: vec![pattern.as_bytes().to_vec()] }));
    let expanded = worker.wait_for(|message| match message {
        WorkerMessage::Expanded(expanded) => Some(expanded.matches),
        _ => None,
    });
    let matches = expanded.unwrap_or_else(|| panic!("{pattern}"));
    let alternatives = &SourcePattern::parse_all([pattern.as_bytes()]).unwrap()[0].alternatives;
    let path = |found: PatternMatch| {
        assert!(alternatives[usize::from(found.alternative)].matches(&found.path), "{pattern} {found:?}");
        String::from_utf8(found.path).unwrap()
    };
    matches.into_iter().map(path).collect()
}

#[test]
fn patterns_match_what_they_match_in_bash() {
    let sandbox = Sandbox::new();
    tree(&sandbox, "tree");
    let place = sandbox.path("tree");
    let mut worker = WorkerProgramProcess::start(&sandbox);
    let patterns = [
        "*",
        "*.txt",
        "?.txt",
        ".*",
        ".c*",
        "*/",
        "*/*",
        "*/*/*",
        "run[12]/*.gz",
        "run[!1]/*",
        "run[^1]/*",
        "{a,b}.txt",
        "{b,a}*.txt",
        "run{1,2}/{one,two}.gz",
        "{run{1,2},.run}/*.gz",
        "{a*,x*}",
        "x{.txt,}*",
        "{run1,no}/{t,o}*",
        "\\[x\\].*",
        "[[]x*",
        "a\\**",
        "a[*]b",
        "a[x*]b",
        "a\\\\?",
        "a\\\\*",
        "[a-c].txt",
        "[c-a]*.txt",
        "[]]*",
        "[]a]*",
        "[!]a]*",
        "[a*",
        "*[",
        "*]",
        "\\{*",
        "[{]*",
        "{p*,q}",
        "*{,}",
        "\\{{p,q}*",
        "{p\\,*,a.txt}",
        "*\\,*",
        "-*",
        "[!-]",
        "[--z]",
        "[[:upper:]]",
        "[[:digit:][:upper:]]*",
        "run*/sub/*",
        "link/*",
        "*/../a.txt",
        "./*.txt",
        "run*/.",
        "run*/./one*",
        "run1/*/",
        "run1/.*.gz",
        "dang*",
        "dangling/*",
        "a\\ b*",
        "**",
        "**/*.gz",
        "*.t[x]t",
        "c[\\^]d",
        "[z\\-]-z",
        "z[a-]z",
        "a*b*",
        "*a*b*",
        "?????*",
        "run1\\/*",
        "nothing*",
        "*/nothing",
        "{*.no,*.txt}",
        "run1/{o,t}*.{gz,xz}",
        "{{a,b},x}.t*",
        "{a,b}{.txt,}*",
        "a.txt{,}*",
        "{}*",
        "x{}*",
        "{a.txt*",
    ];
    for pattern in patterns {
        assert_eq!(of_worker(&mut worker, &place, pattern), of_bash(&place, pattern), "{pattern}");
    }
    let absolute = format!("{}/run?/o*", place.display());
    assert_eq!(of_worker(&mut worker, Path::new("/"), &absolute), of_bash(Path::new("/"), &absolute));
}

#[test]
fn each_command_copies_matches_of_another_host() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    tree(&sandbox, "remote-home/tree");
    let run = |words: &[&str]| {
        let word = |word: &&str| word.strip_prefix('@').map_or_else(|| (*word).into(), |path| remote.at(path));
        remote_command(&sandbox, &remote, words[0]).args(words[1..].iter().map(word)).run()
    };
    sandbox.dir("txt");
    run(&["", "@tree/*.txt", "txt"]).succeeds();
    assert_eq!(listing(&sandbox.path("txt")), ["[x].txt", "a b.txt", "a.txt", "b.txt", "x.txt"]);
    run(&["verify", "@tree/*.txt", "txt"]).succeeds().says(["5 files"]);
    fs::write(sandbox.path("txt/a.txt"), "other").unwrap();
    run(&["verify", "@tree/{a,b}.txt", "txt"]).ends(1).says(["a.txt"]);

    sandbox.dir("base");
    run(&["", "--dirbase", "@tree", "run{1,2}/*.gz", "base"]).succeeds();
    assert_eq!(listing(&sandbox.path("base/run1")), ["one.gz", "two.gz"]);
    assert_eq!(listing(&sandbox.path("base/run2")), ["one.gz"]);

    let planned = run(&["sync", "--dry-run", "@tree/run*/", "merged"]);
    assert!(!sandbox.path("merged").exists(), "{}", planned.account());
    sandbox.dir("trees");
    run(&["sync", "@tree/run*", "trees"]).succeeds();
    assert_eq!(listing(&sandbox.path("trees")), ["run1", "run2"]);
    assert_eq!(listing(&sandbox.path("trees/run2/sub")), ["a", "deep.gz"]);
    run(&["sync", "@tree/[r]un2/sub/", "trees/run1"]).succeeds();
    assert!(sandbox.path("trees/run1/deep.gz").exists());

    assert_eq!(run(&["read", "@tree/run2/*/d*"]).succeeds().stdout, "run2/sub/deep.gz");
    run(&["read", "@tree/*.txt"]).ends(2).says(["matches 5 files", "one"]);
    run(&["read", "@tree/*.none"]).ends(1).says(["*.none"]);

    let there = sandbox.dir("remote-home/there");
    run(&["", "@tree/run1/*.gz", "@there"]).succeeds();
    assert_eq!(listing(&there), ["one.gz", "two.gz"]);
}

fn remote_command<'a>(sandbox: &'a Sandbox, remote: &'a Remote, command: &str) -> haul_e2e::Haul<'a> {
    let words = Some(command).filter(|command| !command.is_empty());
    sandbox.haul(words).args(remote.sshd().haul_args())
}

#[test]
fn literal_names_missing_matches_and_several_are_told_apart() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    tree(&sandbox, "remote-home/tree");
    let copy = |sources: &[&str], target: &str| -> ProgramRun {
        remote.haul(&sandbox).args(sources.iter().map(|path| remote.at(path))).arg(target).run()
    };
    // The name as typed is meant.
    copy(&["tree/[x].txt"], "one").succeeds();
    assert_eq!(fs::read_to_string(sandbox.path("one")).unwrap(), "[x].txt");
    copy(&["tree/a*b"], "two").succeeds();
    assert_eq!(fs::read_to_string(sandbox.path("two")).unwrap(), "a*b");
    // One match becomes the name; of several, the target has to be a directory.
    copy(&["tree/b.t?t"], "renamed").succeeds();
    assert_eq!(fs::read_to_string(sandbox.path("renamed")).unwrap(), "b.txt");
    copy(&["tree/*.txt"], "missing").ends(2).says(["missing"]);
    copy(&["tree/*.txt"], "one").ends(2).says(["one"]);
    assert!(!sandbox.path("missing").exists());
    // Nothing matches.
    let none = copy(&["tree/*.none"], "none").ends(1).says(["127.0.0.1", "tree/*.none", "no name matches"]);
    assert!(!sandbox.path("none").exists(), "{}", none.account());
    sandbox.dir("some");
    copy(&["tree/*.none", "tree/{b,missing}.txt"], "some").ends(1).says(["tree/*.none", "tree/missing.txt"]);
    assert_eq!(listing(&sandbox.path("some")), ["b.txt"]);
    // Two matches of one name.
    sandbox.dir("twins");
    copy(&["tree/run*/one.gz"], "twins").ends(2).says(["two sources have the same name"]);
    assert_eq!(listing(&sandbox.path("twins")), [""; 0]);
    // A file's name never means zeros.
    sandbox.file("remote-home/tree/null:9", "no zeros");
    copy(&["tree/../tree/null*"], "null").succeeds();
    assert_eq!(fs::read_to_string(sandbox.path("null")).unwrap(), "no zeros");
    // Local sources and lists hold no patterns.
    sandbox.file("local.txt", "local");
    remote.haul(&sandbox).args(["loc*.txt"]).arg(remote.at("there")).run().ends(1).says(["loc*.txt"]);
    fs::write(sandbox.path("list"), format!("{}\n", remote.at("tree/*.txt").to_str().unwrap())).unwrap();
    remote.haul(&sandbox).args(["--infiles", "list", "some"]).run().ends(1).says(["tree/*.txt", "list"]);
    copy(&[&"{a,b}".repeat(10)], "some").ends(2).says(["more than 1000 patterns"]);
}

#[test]
fn a_server_expands_patterns_below_its_directory_alone() {
    let sandbox = Sandbox::new();
    tree(&sandbox, "shared");
    sandbox.file("outside.txt", "secret");
    symlink(sandbox.path("outside.txt"), sandbox.path("shared/out.txt")).unwrap();
    symlink(sandbox.path(""), sandbox.path("shared/up")).unwrap();
    let server = ServedShare::start(&sandbox, &[]);
    let place = sandbox.dir("back");
    let copied = sandbox.haul([&server.at("*.txt"), "back"]).run().succeeds();
    assert_eq!(listing(&place), ["[x].txt", "a b.txt", "a.txt", "b.txt", "x.txt"]);
    copied.says(["1 matching symbolic links are skipped"]);
    sandbox.haul([&server.at("run?/t*"), "back"]).run().succeeds();
    assert!(place.join("two.gz").exists());
    for outside in ["../*.txt", "up/*.txt", "run1/../../*.txt", "/*"] {
        sandbox.haul([&server.at(outside), "back"]).run().ends(2);
    }
    assert!(!place.join("outside.txt").exists());
    assert_eq!(sandbox.haul(["read", &server.at("run2/sub/d*")]).run().succeeds().stdout, "run2/sub/deep.gz");
    server.end();
    let incoming = ServedShare::start(&sandbox, &["--write-only"]);
    sandbox.haul([&incoming.at("*.txt"), "back"]).run().ends(2).says(["reading is forbidden"]);
}

#[test]
fn a_directory_that_cannot_be_listed_is_named() {
    let sandbox = Sandbox::new();
    let mut worker = WorkerProgramProcess::start(&sandbox);
    sandbox.file("closed/a.txt", "a");
    fs::set_permissions(sandbox.path("closed"), fs::Permissions::from_mode(0o100)).unwrap();
    let is_listed = fs::read_dir(sandbox.path("closed")).is_ok();
    let patterns = vec![sandbox.path("closed/*").to_str().unwrap().as_bytes().to_vec()];
    worker.tell(&ControllerMessage::Expand(ExpandRequest { base: None, patterns }));
    let said = worker.wait_for(|message| match message {
        WorkerMessage::Warning { text } => Some(text),
        WorkerMessage::Expanded(expanded) => Some(format!("{} matches", expanded.matches.len())),
        _ => None,
    });
    let said = said.unwrap();
    let expected = if is_listed { "1 matches" } else { "closed: Permission denied" };
    assert!(said.ends_with(expected), "{said}");
}

/// Runs a copy of `*.txt` whose source answers with this path.
fn copy_with_answer(path: &str, features: Features) -> (Sandbox, ProgramRun) {
    let sandbox = Sandbox::new();
    sandbox.dir("landing");
    let fake = FakeWorker::new(&sandbox);
    let command = fake.command(env!("CARGO_BIN_EXE_haul-fake-worker"));
    let words = ["--source-command", &command, "--retries", "0", "far:*.txt", "landing"];
    let running = sandbox.haul(words).start();
    let mut link = fake.accept(LIMIT).expect("the controller starts its worker");
    link.greet_with(&WorkerHello { features, ..hello() }).unwrap();
    let request = link.wait_for(|message| match message {
        ControllerMessage::Expand(request) => Some(request),
        _ => None,
    });
    if let Ok(request) = request {
        assert_eq!(request, ExpandRequest { base: None, patterns: vec![b"*.txt".to_vec()] });
        let matches = vec![PatternMatch { pattern: 0, alternative: 0, path: path.as_bytes().to_vec() }];
        link.report(&WorkerMessage::Expanded(ExpandedPatterns { matches })).unwrap();
        // Only an accepted answer is followed by a Request.
        let source = link.wait_for(|message| match message {
            ControllerMessage::Source(request) => Some(request.operands),
            _ => None,
        });
        assert_eq!(source.ok(), (path == "good.txt").then(|| vec![b"good.txt".to_vec()]), "{path}");
    }
    drop(link);
    (sandbox, ProgramRun::of(running))
}

#[test]
fn a_source_that_answers_with_other_names_is_not_believed() {
    for other in
        [".bashrc", ".evil.txt", "../evil.txt", "/etc/evil.txt", "x/evil.txt", "evil.txt/", "a.txt/../b.txt", ""]
    {
        let (sandbox, run) = copy_with_answer(other, Features::ALL);
        run.ends(1).says(["far: protocol error: the paths do not match the patterns of the sources"]);
        assert_eq!(listing(&sandbox.path("landing")), [""; 0], "{other}");
    }
    copy_with_answer("good.txt", Features::ALL);
    let without = Features(Features::ALL.0 & !Features::PATTERNS.0);
    copy_with_answer("good.txt", without).1.ends(3).says(["patterns"]);
}

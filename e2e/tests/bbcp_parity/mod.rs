//! Command lines side by side: haul under the name bbcp, and a real bbcp (`HAUL_BBCP`, or the one in PATH).
//!
//! Each line of `lines.txt` runs with both in fresh directories. The trees afterwards, the exit statuses and, of lines that
//! succeed, the output must agree. A line that differs names its reason behind `##`, with `?` where it depends on the
//! time; docs/BBCP.md explains each.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use haul_e2e::{ProgramRun, Remote, Sandbox, contents, haul_binary, shell};
use haul_lab::find_program;

const LINES: &str = include_str!("lines.txt");
const DOCUMENT: &str = include_str!("../../../docs/BBCP.md");
const LIMIT: Duration = Duration::from_secs(60);
const AT_ONCE: usize = 4;
const LINES_MIN: usize = 435;
/// Kinds of lines, by a part of them.
const KINDS: &[&str] = &["Indexing files", "bbcp: Copying ", "Creating ", " created; ", " copied at effectively "];
/// `kept FILE SOURCE`: whether an interrupted copy of SOURCE to FILE left a beginning of it, under any name.
const KEPT: &str = r#"#!/bin/sh
for part in "$1" "$(dirname "$1")"/.haul-*.part; do
    test -s "$part" || continue
    same=$(cmp "$part" "$2" 2>&1 | sed -n 's/.* byte \([0-9]*\).*/\1/p')
    test "${same:-0}" -gt 500000 && echo 'a part is kept' && exit
done
echo 'no part is kept'
"#;

/// The effect of a command line.
#[derive(Debug, PartialEq)]
struct Effect {
    status: Option<i32>,
    tree: Vec<String>,
    output: Vec<String>,
    /// Kinds of lines on standard error, in order.
    order: Vec<&'static str>,
}

/// A program that is called as bbcp.
struct Program<'a> {
    path: PathBuf,
    remote: &'a Remote,
    sandbox: &'a Sandbox,
    label: &'static str,
}

impl Program<'_> {
    /// Runs a line in a directory of its own.
    fn effect(&self, number: usize, line: &str) -> Effect {
        let work = format!("{}-{number}", self.label);
        make_fixture(self.sandbox, Path::new(&work));
        let place = self.sandbox.path(&work);
        let before = Inodes::of(&place);
        let run = self.run(&place, line);
        let outputs = [("out", &run.stdout), ("err", &run.stderr)];
        let effect = Effect {
            status: run.status,
            tree: tree(&place, &before),
            order: order(&run.stderr),
            output: outputs.iter().flat_map(|(name, text)| normalised(name, text, &place, &self.path)).collect(),
        };
        fs::remove_dir_all(&place).unwrap();
        effect
    }

    fn run(&self, place: &Path, line: &str) -> ProgramRun {
        let sshd = self.remote.sshd();
        let start = format!("'ssh -x -a %I -l %U %H {}'", self.path.display());
        let words = [
            ("$B", self.path.display().to_string()),
            ("@T", format!("-T {start}")),
            ("@S", format!("-S {start}")),
            ("W/", format!("{}/", place.display())),
            ("KEY", sshd.identity().display().to_string()),
            ("MD5", md5(&place.join("f1"))),
            ("A32", "A32".to_owned()),
            ("USER", "root".to_owned()),
        ];
        let line = words.iter().fold(line.to_owned(), |line, (word, value)| line.replace(word, value));
        let line = line.replace("HOST", &sshd.host());
        let path = std::env::var("PATH").unwrap_or_default();
        shell(self.sandbox, &format!("cd {} && {{ {line}; }}", place.display()))
            .env("PATH", format!("{}:{path}", self.sandbox.path("bin").display()))
            .env("HOME", place.join("home"))
            .limit(LIMIT)
            .run()
    }
}

/// Sources, targets and lists of all lines.
fn make_fixture(sandbox: &Sandbox, work: &Path) {
    let at = |name: &str| work.join(name);
    let byte = |number: usize| u8::try_from(number % 251).expect("it is below 251");
    let bytes = |len: usize, seed: usize| -> Vec<u8> { (0..len).map(|at| byte(at * 31 + at / 241 + seed)).collect() };
    sandbox.file(at("f1"), bytes(1_000_001, 1));
    sandbox.file(at("big"), bytes(12_000_000, 2));
    sandbox.file(at("f2"), bytes(90_000, 3));
    for name in ["a:b", "sp ace", "é", "tree/a", "tree/b/c", "tree/b/d/e"] {
        sandbox.file(at(name), name);
    }
    sandbox.file(at("empty"), "");
    for (name, mode) in [("x.sh", 0o755), ("ro", 0o444)] {
        let file = sandbox.file(at(name), name);
        fs::set_permissions(file, fs::Permissions::from_mode(mode)).unwrap();
    }
    for name in ["tgt", "emptyd", "ck", "home"] {
        sandbox.dir(at(name));
    }
    sandbox.file(at("old/f1"), "another f1");
    sandbox.file(at("old/empty"), "");
    sandbox.file(at("part/f1"), bytes(500_000, 1));
    sandbox.file(at("bad/f1"), bytes(500_000, 9));
    let place = sandbox.path(work);
    symlink("f1", place.join("l1")).unwrap();
    for (name, text) in [
        ("list", "f1\nf2\n".to_owned()),
        ("list2", "f1\nnosuch\nf2\n".to_owned()),
        ("listc", "# f1\nf1\n".to_owned()),
        ("listr", format!("127.0.0.1:{}\n127.0.0.1:{}\n", place.join("f1").display(), place.join("f2").display())),
        ("cfg", "-f\n-P 1\n".to_owned()),
        ("cfg2", "-v\n".to_owned()),
        ("cfgbad", "-j\n".to_owned()),
    ] {
        sandbox.file(at(name), text);
    }
}

fn md5(path: &Path) -> String {
    let output = Command::new("md5sum").arg(path).output().unwrap().stdout;
    String::from_utf8_lossy(&output).split(' ').next().unwrap_or_default().to_owned()
}

/// A fixture's files, kept open: no new file gets the inode of a deleted one.
struct Inodes {
    names: BTreeMap<u64, String>,
    _open: Vec<File>,
}

impl Inodes {
    fn of(place: &Path) -> Self {
        let files = entries(place).into_iter().filter(|(_, path)| path.symlink_metadata().unwrap().is_file());
        let (names, open) =
            files.map(|(name, path)| ((path.metadata().unwrap().ino(), name), File::open(path).unwrap())).unzip();
        Self { names, _open: open }
    }
}

/// All names below a directory, in order, with their paths.
fn entries(place: &Path) -> BTreeMap<String, PathBuf> {
    let mut found = BTreeMap::new();
    let mut below = vec![place.to_owned()];
    while let Some(directory) = below.pop() {
        for entry in fs::read_dir(&directory).unwrap().flatten() {
            let path = entry.path();
            if entry.file_type().unwrap().is_dir() {
                below.push(path.clone());
            }
            found.insert(path.strip_prefix(place).unwrap().display().to_string(), path);
        }
    }
    found
}

/// Every entry: type, mode, size, number of names, the first name of its inode (before the line, if it existed), and a
/// digest.
fn tree(place: &Path, before: &Inodes) -> Vec<String> {
    let mut inodes = before.names.clone();
    let mut found = Vec::new();
    for (name, path) in entries(place) {
        let is_of_haul = name.split('/').any(|part| part.starts_with(".haul-") || part.starts_with(".cache"));
        if is_of_haul || ["log", "listr"].contains(&name.as_str()) || name.starts_with("home/") {
            continue;
        }
        let stat = path.symlink_metadata().unwrap();
        let kind = match stat.file_type() {
            kind if kind.is_dir() => "dir".to_owned(),
            kind if kind.is_symlink() => format!("link to {}", fs::read_link(&path).unwrap().display()),
            kind if kind.is_file() && name != "sums" => {
                let inode = inodes.entry(stat.ino()).or_insert_with(|| name.clone());
                let digest = blake3::hash(&contents(&path)).to_hex();
                format!("{} {} inode {inode} {digest}", stat.len(), stat.nlink())
            }
            _ => "other".to_owned(),
        };
        found.push(format!("{name} {:o} {kind}", stat.mode() & 0o7777));
    }
    found
}

/// The kinds of lines, each at its first place. Progress may come before or after small files.
fn order(text: &str) -> Vec<&'static str> {
    let mut kinds = Vec::new();
    for line in text.lines() {
        let kind = KINDS.iter().find(|kind| line.contains(**kind)).filter(|kind| !kinds.contains(*kind));
        kinds.extend(kind);
    }
    kinds
}

/// A word with the length of a digest instead of its digits.
fn without_digest(word: &str) -> String {
    let is_digest = word.len() >= 8 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    match is_digest && !word.bytes().all(|byte| byte.is_ascii_digit()) {
        true => format!("digest-of-{}", "x".repeat(word.len())),
        false => word.to_owned(),
    }
}

/// Lines without variable parts: places, dates, rates, digests and numbers; repeated lines once.
fn normalised(stream: &str, output: &str, place: &Path, program: &Path) -> Vec<String> {
    let text = output.replace(&place.display().to_string(), "W").replace(&program.display().to_string(), "bbcp");
    let mut lines: Vec<String> = text
        .lines()
        .map(|line| {
            let line = line.split(' ').map(without_digest).collect::<Vec<_>>().join(" ");
            let mut shape = String::new();
            for letter in line.chars() {
                match letter {
                    '0'..='9' if shape.ends_with('N') => {}
                    '0'..='9' => shape.push('N'),
                    letter => shape.push(letter),
                }
            }
            let shape = shape.replace("N.N", "N");
            ["K", "M", "G"].iter().fold(shape, |shape, unit| shape.replace(&format!("N {unit}B/s"), "N B/s"))
        })
        .filter(|line| !line.trim().is_empty())
        .map(|line| format!("{stream}: {line}"))
        .collect();
    lines.sort();
    lines.dedup();
    lines
}

/// Differences between two programs. The words of errors always differ.
fn differences(haul: &Effect, real: &Effect) -> Vec<&'static str> {
    let are_done = haul.status == Some(0) && real.status == Some(0);
    let output = are_done && haul.output != real.output;
    let order = are_done && haul.order != real.order;
    let all = [
        ("status", haul.status != real.status),
        ("tree", haul.tree != real.tree),
        ("output", output),
        ("order", order),
    ];
    all.into_iter().filter(|(_, differs)| *differs).map(|(what, _)| what).collect()
}

/// A real bbcp.
fn real_bbcp() -> Option<PathBuf> {
    let named = std::env::var_os("HAUL_BBCP").map(PathBuf::from);
    named.or_else(|| find_program("bbcp")).filter(|path| {
        let version = Command::new(path).arg("-#").output();
        version.is_ok_and(|output| !output.stdout.starts_with(b"haul "))
    })
}

/// Why a line may differ.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Reason<'l> {
    None,
    Always(&'l str),
    Sometimes(&'l str),
}

fn parse(line: &str) -> (&str, Reason<'_>) {
    match line.split_once(" ## ") {
        None => (line, Reason::None),
        Some((line, reason)) => (line, reason.strip_prefix('?').map_or(Reason::Always(reason), Reason::Sometimes)),
    }
}

#[test]
fn order_and_digests_are_compared() {
    let text = "bbcp: Creating a\nFile a created; 1\nbbcp: Creating b\n1 file copied at effectively 1\n";
    assert_eq!(order(text), ["Creating ", " created; ", " copied at effectively "]);
    let shape = |text: &str| normalised("err", text, Path::new("/w"), Path::new("/bbcp"));
    assert_ne!(shape("a32 f3255342 a"), shape("a32 f325534200000000 a"));
    assert_eq!(shape("a32 f3255342 12345678"), shape("a32 abcdef01 87654321"));
}

#[test]
fn each_named_reason_is_explained() {
    let lines: Vec<_> = LINES.lines().collect();
    assert!(lines.len() >= LINES_MIN, "{} lines", lines.len());
    let used: BTreeSet<_> = lines
        .iter()
        .filter_map(|line| match parse(line).1 {
            Reason::None => None,
            Reason::Always(reason) | Reason::Sometimes(reason) => Some(reason),
        })
        .collect();
    let unexplained: Vec<_> = used.iter().filter(|reason| !DOCUMENT.contains(&format!("| `{reason}` |"))).collect();
    assert!(unexplained.is_empty(), "docs/BBCP.md does not explain {unexplained:?}");
}

#[test]
fn each_line_has_a_real_bbcps_effect_or_a_reason() {
    let Some(real) = real_bbcp() else {
        println!("SKIPPED: no real bbcp: name one in HAUL_BBCP");
        return;
    };
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    let link = sandbox.dir("haul-bin").join("bbcp");
    symlink(haul_binary(), &link).unwrap();
    sandbox.script("bin/kept", KEPT);
    let config = remote.sshd().ssh_config();
    sandbox.script("bin/ssh", &format!("#!/bin/sh\nexec /usr/bin/ssh -F {} \"$@\"\n", config.display()));
    let program = |path: PathBuf, label| Program { path, remote: &remote, sandbox: &sandbox, label };
    let (haul, real) = (program(link, "haul"), program(real, "real"));
    let chosen = std::env::var("HAUL_BBCP_LINES").unwrap_or_default();
    let waiting = Mutex::new(LINES.lines().enumerate().filter(|(_, line)| line.contains(&chosen)));
    let faults = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let next = waiting.lock().unwrap().next();
                    let Some((number, line)) = next else { return };
                    let (typed, reason) = parse(line);
                    let effects = [&haul, &real].map(|program| program.effect(number, typed));
                    let differ = differences(&effects[0], &effects[1]);
                    let is_explained = match reason {
                        Reason::None => differ.is_empty(),
                        Reason::Always(_) => !differ.is_empty(),
                        Reason::Sometimes(_) => true,
                    };
                    if !is_explained {
                        faults.lock().unwrap().push((number, fault(line, &differ, &effects)));
                    }
                }
            });
        }
    });
    let mut faults = faults.into_inner().unwrap();
    faults.sort();
    let texts: Vec<_> = faults.iter().map(|(_, text)| text.as_str()).collect();
    assert!(texts.is_empty(), "{} of {} lines:\n{}", texts.len(), LINES.lines().count(), texts.join("\n"));
}

/// The differences, with the lines of only one of them.
fn fault(line: &str, differ: &[&str], [haul, real]: &[Effect; 2]) -> String {
    if differ.is_empty() {
        return format!("{line}\n    differs no more");
    }
    let mut text = format!("{line}\n    {}: haul {:?}, bbcp {:?}", differ.join(", "), haul.status, real.status);
    for (what, mine, theirs) in [("tree", &haul.tree, &real.tree), ("output", &haul.output, &real.output)] {
        if what == "output" && !differ.contains(&"output") && !differ.contains(&"status") {
            continue;
        }
        let only = |sign: char, some: &[String], others: &[String]| -> String {
            let own = some.iter().filter(|entry| !others.contains(entry)).take(6);
            own.map(|entry| format!("\n      {sign} {}", entry.chars().take(150).collect::<String>())).collect()
        };
        text.push_str(&only('+', mine, theirs));
        text.push_str(&only('-', theirs, mine));
    }
    text
}

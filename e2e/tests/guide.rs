//! The pages for users match haul's behaviour: `console` blocks are run, and the commands of `sh` blocks, which need
//! another machine, are parsed.
//!
//! The blocks of a page share a directory. In expected output, `[..]` matches any text; a line `...` matches any lines.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use haul_e2e::{Options, ProgramRun, Remote, Sandbox, haul_binary, shell};

/// The directories with such pages, below `docs`.
const PARTS: [&str; 3] = ["start", "guide", "operating"];
/// How long a command of a page may take.
const LIMIT: Duration = Duration::from_secs(20);
/// Time limit of a command with an unreachable host. It finishes parsing long before.
const PARSE_LIMIT: Duration = Duration::from_secs(4);
/// The page with tables of another program's options.
const OF_A_CHORE: &str = "packaging.md";
/// Commands to try a table's option with.
const OPTION_COMMANDS: &[&str] =
    &["haul ", "haul sync ", "haul twoway ", "haul verify ", "haul net ", "haul serve ", "bbcp "];
/// Words of the shell before a command.
const KEYWORDS: [&str; 6] = ["do", "then", "if", "until", "while", "!"];

/// A fenced block of a page.
struct Block {
    /// The line of its first line in the page.
    line: usize,
    lines: Vec<String>,
}

/// A page's command, and its output.
struct Step<'a> {
    line: usize,
    command: &'a str,
    expected: Vec<&'a str>,
}

fn pages() -> Vec<PathBuf> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    let list = |part: &str| fs::read_dir(docs.join(part)).unwrap_or_else(|error| panic!("docs/{part}: {error}"));
    let mut pages: Vec<_> = PARTS.iter().flat_map(|part| list(part)).map(|entry| entry.unwrap().path()).collect();
    pages.push(docs.join("../README.md"));
    pages.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    pages.push(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(WITH_PEER));
    pages.sort();
    pages
}

/// The blocks of a page that are marked so.
fn blocks(text: &str, mark: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        let Some(marked) = line.strip_prefix("```") else { continue };
        let inner = lines.by_ref().map(|(_, line)| line.to_owned()).take_while(|line| line != "```").collect();
        if marked == mark {
            blocks.push(Block { line: at + 2, lines: inner });
        }
    }
    blocks
}

fn steps(block: &Block) -> Vec<Step<'_>> {
    let mut steps: Vec<Step<'_>> = Vec::new();
    for (at, line) in block.lines.iter().enumerate() {
        match (line.strip_prefix("$ "), steps.last_mut()) {
            (Some(command), _) => steps.push(Step { line: block.line + at, command, expected: Vec::new() }),
            (None, Some(step)) => step.expected.push(line),
            (None, None) => panic!("line {}: a console block begins with a command", block.line),
        }
    }
    steps
}

/// The page with commands for a host, `peer`. It is beside this file, and no page of the book.
const WITH_PEER: &str = "first-minutes.md";

/// A sandbox with haul in its PATH, and with an ssh that reaches nobody, or `peer` alone.
struct Desk {
    sandbox: Sandbox,
    path: String,
    _peer: Option<Remote>,
}

impl Desk {
    fn new() -> Self {
        let sandbox = Sandbox::new();
        sandbox.script(
            "bin/ssh",
            "#!/bin/sh\necho 'ssh: connect to host db1 port 22: Connection refused' >&2\nexit 255\n",
        );
        for name in ["haul", "bbcp"] {
            symlink(haul_binary(), sandbox.path("bin").join(name)).unwrap();
        }
        sandbox.dir("desk");
        let path = format!("{}:/usr/local/bin:/usr/bin:/bin", sandbox.path("bin").display());
        Self { sandbox, path, _peer: None }
    }

    /// With a host `peer` without haul.
    fn with_peer() -> Self {
        let desk = Self::new();
        let remote = Remote::without_haul(&desk.sandbox, Options::default());
        let sshd = remote.sshd();
        let options = sshd.ssh_options().iter().fold(String::new(), |options, option| format!("{options} -o {option}"));
        let (port, key) = (sshd.port(), sshd.identity());
        let ssh =
            format!("exec /usr/bin/ssh -F /dev/null -p {port} -i {} -o HostName=127.0.0.1{options}", key.display());
        desk.sandbox.script("bin/ssh", &format!("#!/bin/sh\n{ssh} \"$@\"\n"));
        Self { _peer: Some(remote), ..desk }
    }

    fn of(page: &Path) -> Self {
        if page.ends_with(WITH_PEER) { Self::with_peer() } else { Self::new() }
    }

    fn run(&self, script: &str, limit: Duration) -> ProgramRun {
        let script = format!("exec 2>&1\n{script}");
        let haul = shell(&self.sandbox, &script).env("PATH", &self.path).current_dir(self.sandbox.path("desk"));
        haul.limit(limit).run()
    }
}

#[test]
fn commands_of_the_guide_print_the_shown_output() {
    let mut count = 0;
    let mut wrong = Vec::new();
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        let desk = Desk::of(&page);
        for block in blocks(&text, "console") {
            for step in steps(&block) {
                count += 1;
                let run = desk.run(step.command, LIMIT);
                let printed: Vec<_> = run.stdout.lines().collect();
                if run.timed_out || !lines_match(&step.expected, &printed) {
                    let place = format!("{}:{}", page.display(), step.line);
                    let expected = step.expected.join("\n");
                    wrong.push(format!("{place}: $ {}\nexpected:\n{expected}\nprinted:\n{}", step.command, run.stdout));
                }
            }
        }
    }
    assert!(count > 20, "{count} commands");
    assert!(wrong.is_empty(), "{} of {count} commands:\n\n{}", wrong.len(), wrong.join("\n\n"));
}

#[test]
fn commands_for_other_machines_are_understood() {
    let desk = Desk::new();
    let mut count = 0;
    let mut wrong = Vec::new();
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        for block in blocks(&text, "sh") {
            for command in block.lines.iter().flat_map(|line| hauls(line)) {
                count += 1;
                if let Some(said) = misunderstood(&desk, &command) {
                    wrong.push(format!("{}:{}: {command}\n{said}", page.display(), block.line));
                }
            }
        }
    }
    assert!(count > 10, "{count} commands");
    assert!(wrong.is_empty(), "{} of {count} commands:\n\n{}", wrong.len(), wrong.join("\n\n"));
}

#[test]
fn options_in_tables_are_understood() {
    let desk = Desk::new();
    let mut count = 0;
    let mut wrong = Vec::new();
    for page in pages().into_iter().filter(|page| !page.ends_with(OF_A_CHORE)) {
        let text = fs::read_to_string(&page).unwrap();
        for (number, line) in (1..).zip(text.lines()) {
            for words in typed_in_row(line) {
                count += 1;
                let commands = if words.starts_with('-') { OPTION_COMMANDS } else { &[""] };
                let answers = commands.iter().map(|command| misunderstood(&desk, &format!("{command}{words}")));
                let is_wrong = |said: &String| !said.contains("needs an argument");
                let answers = answers.map(|said| said.filter(is_wrong));
                if let Some(said) = answers.collect::<Option<Vec<_>>>() {
                    wrong.push(format!("{}:{number}: {words}\n{}", page.display(), said.join("\n")));
                }
            }
        }
    }
    assert!(count > 80, "{count} commands and options");
    assert!(wrong.is_empty(), "{} of {count}:\n\n{}", wrong.len(), wrong.join("\n\n"));
}

/// The commands, and the options with or without their arguments, in the cells of a table's row after the first, which
/// may have another program's.
fn typed_in_row(line: &str) -> Vec<String> {
    let Some(row) = line.strip_prefix("| ").and_then(|row| row.strip_suffix('|')) else { return Vec::new() };
    let cells = row.split(" | ").skip(1);
    let spans = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    spans.filter(|span| span.starts_with("haul ") || span.starts_with('-')).map(str::to_owned).collect()
}

/// haul's error about a command line, if any. Nothing is copied: `--help` ends the command after parsing its options,
/// or an unreachable host ends it after parsing the values.
fn misunderstood(desk: &Desk, command: &str) -> Option<String> {
    let asked = match command.strip_prefix("bbcp ") {
        Some(words) => format!("bbcp -h {words}"),
        None => format!("{command} --help"),
    };
    let help = desk.run(&asked, LIMIT);
    if help.status != Some(0) {
        return Some(help.stdout);
    }
    let is_host = |name: &str| name.starts_with(|first: char| first.is_ascii_alphabetic()) && !name.contains('/');
    let is_remote = command.split(' ').filter_map(|word| word.split_once(':')).any(|(name, _)| is_host(name));
    let tried = is_remote.then(|| desk.run(command, PARSE_LIMIT));
    tried.filter(|run| run.status == Some(2)).map(|run| run.stdout)
}

/// The commands of haul in a line of the shell, also those that ssh starts.
fn hauls(line: &str) -> Vec<String> {
    if line.starts_with('#') {
        return Vec::new();
    }
    let line = line.split_once(" # ").map_or(line, |(commands, _)| commands);
    let mut quote = None;
    let is_end = |c: char| {
        match (quote, c) {
            (None, '\'' | '"') => quote = Some(c),
            (Some(open), _) if open == c => quote = None,
            _ => {}
        }
        quote.is_none() && "|;&()".contains(c)
    };
    line.split(is_end).filter_map(haul_in).collect()
}

fn haul_in(command: &str) -> Option<String> {
    let mut words: Vec<_> = command.split_whitespace().skip_while(|word| KEYWORDS.contains(word)).collect();
    if words.first() == Some(&"ssh") {
        words.drain(..words.len().min(2));
    }
    matches!(words.first(), Some(&("haul" | "bbcp"))).then(|| words.join(" "))
}

fn lines_match(expected: &[&str], printed: &[&str]) -> bool {
    match expected.split_first() {
        None => printed.is_empty(),
        Some((&"...", rest)) => (0..=printed.len()).any(|skipped| lines_match(rest, &printed[skipped..])),
        Some((line, rest)) => {
            printed.split_first().is_some_and(|(first, others)| line_matches(line, first) && lines_match(rest, others))
        }
    }
}

fn line_matches(expected: &str, printed: &str) -> bool {
    let Some((start, mut rest)) = expected.split_once("[..]") else { return expected == printed };
    let Some(mut printed) = printed.strip_prefix(start) else { return false };
    while let Some((part, others)) = rest.split_once("[..]") {
        let Some(at) = printed.find(part) else { return false };
        printed = &printed[at + part.len()..];
        rest = others;
    }
    printed.ends_with(rest)
}

#[test]
fn any_text_and_any_lines_match() {
    for (expected, printed) in [
        ("a\nb", "a\nb"),
        ("1 file in [..] s: [..]B/s, durable", "1 file in 0.01 s: 5.1 MB/s, durable"),
        ("a[..]", "a"),
        ("a\n...", "a"),
        ("a\n...\nc", "a\nb\nb\nc"),
    ] {
        let lines = [expected, printed].map(|text| text.lines().collect::<Vec<_>>());
        assert!(lines_match(&lines[0], &lines[1]), "{expected:?}, {printed:?}");
    }
    for (expected, printed) in [
        ("a", "b"),
        ("a", "a\nb"),
        ("a\nb", "a"),
        ("1 file in [..] s", "1 file in 0.01 min"),
        ("x[..]y[..]z", "x z y"),
        ("[..]ab", "b"),
        ("a\n...\nc", "a\nb"),
    ] {
        let lines = [expected, printed].map(|text| text.lines().collect::<Vec<_>>());
        assert!(!lines_match(&lines[0], &lines[1]), "{expected:?}, {printed:?}");
    }
}

#[test]
fn commands_are_found_in_lines_of_the_shell() {
    assert_eq!(
        hauls("split -n r/1/8 files | haul --infiles - --dirbase a db1:/b"),
        ["haul --infiles - --dirbase a db1:/b"]
    );
    assert_eq!(hauls("until haul -r a db1:; do haul b c || break; sleep 60; done"), ["haul -r a db1:", "haul b c"]);
    assert_eq!(hauls("ssh db1 haul status /archive"), ["haul status /archive"]);
    assert_eq!(hauls("haul a haul://db1/#open    # haul b"), ["haul a haul://db1/#open"]);
    assert_eq!(hauls("haul --pipe i 'pg_dump app | gzip' db1:x"), ["haul --pipe i 'pg_dump app | gzip' db1:x"]);
    assert!(hauls("# haul a b").is_empty() && hauls("cargo xtask dist").is_empty());
}

#[test]
fn an_invalid_command_line_is_found() {
    let desk = Desk::new();
    for right in ["haul -r run7 db1:/archive/", "haul serve --json /srv", "bbcp -P 2 a db1:b", "haul sync -a a/ db1:b"]
    {
        assert_eq!(misunderstood(&desk, right), None, "{right}");
    }
    for wrong in
        ["haul --nonsense run7 db1:", "haul -s 0 run7 db1:", "haul serve --nonsense /srv", "bbcp --json a db1:b"]
    {
        assert!(misunderstood(&desk, wrong).is_some(), "{wrong}");
    }
}

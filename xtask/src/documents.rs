//! Checks of the documentation: links lead to files, the README is one page, and sentences are short.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const README_LINES_MAX: usize = 100;
/// Most words of a sentence.
const SENTENCE_WORDS_MAX: usize = 35;
/// Reference pages with short sentences on average.
const REFERENCE: [&str; 6] = [
    "docs/DELTA.md",
    "docs/DIAGNOSIS.md",
    "docs/METADATA.md",
    "docs/PERFORMANCE.md",
    "docs/PROTOCOL.md",
    "docs/TESTING.md",
];
const AVERAGE_WORDS_MAX: usize = 20;
/// Shorter ones are cells of tables, and would lower the average.
const AVERAGED_WORDS_MIN: usize = 4;
/// The parts of the documentation that users read first.
pub(crate) const GUIDE: [&str; 3] = ["docs/start", "docs/guide", "docs/operating"];
/// A contributor's first pages.
const ARCHITECTURE: &str = "docs/ARCHITECTURE.md";
const ARCHITECTURE_LINES_MAX: usize = 250;
const INTERNALS: &str = "docs/internals";
const WHERE: &str = "docs/internals/where.md";
const PROMISES: &str = "docs/internals/promises.md";
const CVES: &str = "docs/CVES.md";
const QUESTIONS_MIN: usize = 20;
/// Pages with paths of the sources, and how many each has at least.
const PAGES_WITH_PATHS: [(&str, usize); 7] = [
    (ARCHITECTURE, 40),
    (WHERE, QUESTIONS_MIN),
    (PROMISES, 150),
    (CVES, 2),
    ("CONTRIBUTING.md", 20),
    ("docs/STYLE.md", 5),
    ("docs/TESTING.md", 20),
];
const PARAGRAPH_WORDS_MAX: usize = 120;
/// Pages to read from top to bottom. Other pages are reference: their paragraphs may be long.
const READ_FROM_THE_TOP: [&str; 4] = ["README.md", "docs/glossary.md", ARCHITECTURE, "CONTRIBUTING.md"];
const SUBJECT_CHARS_MAX: usize = 72;
/// Commits from then on are checked. To git, a bare date has the present time of day.
const SUBJECTS_SINCE: &str = "2026-11-24T12:00:00Z";

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// All Markdown files but those of builds.
pub(crate) fn documents(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut found = Vec::new();
    for path in entries.map(|entry| entry.expect("it can be listed").path()) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            found.extend(documents(&path));
        } else if name.ends_with(".md") {
            found.push(path);
        }
    }
    found
}

/// The lines of a document without inline code. Lines of code are empty.
pub(crate) fn prose(text: &str) -> Vec<String> {
    let mut is_code = false;
    let mut lines = Vec::new();
    for line in text.lines() {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        let is_prose = !is_code && !is_fence && !line.starts_with("    ");
        let prose = line.split('`').step_by(2).collect::<Vec<_>>().join("CODE");
        lines.push(if is_prose { prose } else { String::new() });
    }
    lines
}

/// Where the links of a line lead, without anchors.
pub(crate) fn links(line: &str) -> impl Iterator<Item = &str> {
    let targets = line.split("](").skip(1).filter_map(|rest| rest.split([')', '#', ' ']).next());
    targets.filter(|target| !target.is_empty() && !target.contains(':'))
}

fn words(text: &str) -> usize {
    text.split_whitespace().count()
}

/// The text of a list item, without its mark.
fn list_item(line: &str) -> Option<&str> {
    let after_number = line.trim_start_matches(|c: char| c.is_ascii_digit());
    if after_number.len() < line.len() { after_number.strip_prefix(". ") } else { line.strip_prefix("- ") }
}

/// The sentences of a document. Full stops, question and exclamation marks end them; so do paragraphs, headings, list
/// items and table cells. Colons, semicolons and line breaks do not.
fn sentences(text: &str) -> Vec<String> {
    let mut all = vec![String::new()];
    for line in prose(text) {
        let line = line.trim();
        let is_row = line.starts_with('|');
        if line.is_empty() || is_row || line.starts_with('#') || list_item(line).is_some() {
            all.push(String::new());
        }
        for cell in list_item(line).unwrap_or(line).split(|c| is_row && c == '|') {
            for word in cell.split_whitespace() {
                let last = all.last_mut().expect("it begins with one");
                last.push_str(if last.is_empty() { "" } else { " " });
                last.push_str(word);
                if word.trim_end_matches([')', '*', '"']).ends_with(['.', '?', '!']) {
                    all.push(String::new());
                }
            }
            if is_row {
                all.push(String::new());
            }
        }
        if line.starts_with('#') {
            all.push(String::new());
        }
    }
    all.retain(|sentence| !sentence.is_empty());
    all
}

#[test]
fn sentences_end_at_full_stops_and_not_at_colons() {
    let prose = "# A title\nOne: two;\nthree. **Four.** (Five?)\n- six\n1. seven\n\n| eight. nine | `a. b` |\n\n    code.\n\nten";
    let expected =
        ["# A title", "One: two; three.", "**Four.**", "(Five?)", "six", "seven", "eight.", "nine", "CODE", "ten"];
    assert_eq!(sentences(prose), expected);
}

#[test]
fn links_lead_to_files() {
    let mut broken = Vec::new();
    let mut count = 0;
    for document in documents(&root()) {
        let text = fs::read_to_string(&document).expect("it is UTF-8");
        for line in prose(&text) {
            for target in links(&line) {
                count += 1;
                if !document.with_file_name(target).exists() {
                    broken.push(format!("{}: {target}", document.display()));
                }
            }
        }
    }
    assert!(count > 50 && broken.is_empty(), "{count} links, of which lead nowhere:\n{}", broken.join("\n"));
}

#[test]
fn the_readme_is_one_page() {
    let lines = fs::read_to_string(root().join("README.md")).expect("it is there").lines().count();
    assert!(lines <= README_LINES_MAX, "README.md has {lines} lines");
}

#[test]
fn paragraphs_are_short() {
    let mut long = Vec::new();
    let mut count = 0;
    for document in documents(&root()) {
        count += 1;
        let text = fs::read_to_string(&document).expect("it is UTF-8");
        let lines = prose(&text);
        let folders = GUIDE.iter().chain([&INTERNALS]).map(|part| root().join(part));
        let pages = READ_FROM_THE_TOP.map(|page| root().join(page));
        let is_guide = folders.into_iter().any(|folder| document.starts_with(folder)) || pages.contains(&document);
        // Table rows, list items and headings are paragraphs of their own.
        let is_item = |first: char| first.is_ascii_digit() || "|-#!".contains(first);
        let is_apart = |line: &str| line.is_empty() || line.starts_with(is_item);
        for paragraph in lines.split(|line| line.is_empty()).filter(|_| is_guide) {
            let text: Vec<_> = paragraph.iter().filter(|line| !is_apart(line)).map(String::as_str).collect();
            if words(&text.join(" ")) > PARAGRAPH_WORDS_MAX {
                long.push(format!("{}: a paragraph of {} words", document.display(), words(&text.join(" "))));
            }
        }
    }
    assert!(count > 40 && long.is_empty(), "{count} documents:\n{}", long.join("\n"));
}

#[test]
fn sentences_are_short() {
    let mut long = Vec::new();
    let mut count = 0;
    for document in documents(&root()) {
        let text = fs::read_to_string(&document).expect("it is UTF-8");
        for sentence in sentences(&text) {
            count += 1;
            if words(&sentence) > SENTENCE_WORDS_MAX {
                long.push(format!("{}: {} words: {sentence}", document.display(), words(&sentence)));
            }
        }
    }
    assert!(count > 5000 && long.is_empty(), "{count} sentences:\n{}", long.join("\n"));
}

#[test]
fn sentences_of_reference_pages_are_short_on_average() {
    for page in REFERENCE {
        let text = fs::read_to_string(root().join(page)).unwrap_or_else(|error| panic!("{page}: {error}"));
        let all: Vec<_> = sentences(&text).iter().map(|one| words(one)).filter(|n| *n >= AVERAGED_WORDS_MIN).collect();
        let sum: usize = all.iter().sum();
        assert!(sum <= AVERAGE_WORDS_MAX * all.len(), "{page}: {sum} words in {} sentences", all.len());
    }
}

/// Text in backticks, outside code blocks.
pub(crate) fn inline_code(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.lines().filter(|line| !line.starts_with("    "));
    lines.flat_map(|line| line.split('`').skip(1).step_by(2))
}

/// Whether code is a path from the root of the sources, and neither a host's, nor a command, nor a build's, nor a pattern.
fn is_path_of_ours(code: &str) -> bool {
    let Some((folder, rest)) = code.split_once('/') else { return false };
    let is_pattern = rest.contains(['*', '<', ' ']) || rest.contains("NAME") || rest.contains("TARGET");
    let is_folder =
        !folder.is_empty() && !folder.starts_with('.') && folder != "target" && root().join(folder).is_dir();
    is_folder && !is_pattern
}

#[test]
fn paths_in_pages_about_the_code_exist() {
    for (page, at_least) in PAGES_WITH_PATHS {
        let text = fs::read_to_string(root().join(page)).expect("it is there");
        let is_ours = |code: &&str| is_path_of_ours(code);
        let paths: Vec<_> = inline_code(&text).filter(is_ours).collect();
        let missing: Vec<_> = paths.iter().filter(|path| !root().join(path).exists()).collect();
        assert!(paths.len() >= at_least && missing.is_empty(), "{page}: {} paths, missing {missing:?}", paths.len());
    }
    let questions = fs::read_to_string(root().join(WHERE)).expect("it is there");
    let count = questions.lines().filter(|line| line.starts_with("- **Where ") && line.contains("?** `")).count();
    assert!(count >= QUESTIONS_MIN, "{WHERE} answers {count} questions");
    let lines = fs::read_to_string(root().join(ARCHITECTURE)).expect("it is there").lines().count();
    assert!(lines <= ARCHITECTURE_LINES_MAX, "{ARCHITECTURE} has {lines} lines");
}

#[test]
fn functions_in_the_architecture_exist() {
    let (mut missing, mut count) = (Vec::new(), 0);
    for page in [ARCHITECTURE, WHERE] {
        let text = fs::read_to_string(root().join(page)).expect("it is there");
        for line in text.lines() {
            // `path`: `function`, or `path` (`function`)
            let code: Vec<_> = line.split('`').collect();
            for named in code.windows(3).skip(1).step_by(2).filter(|named| [": ", " ("].contains(&named[1])) {
                let [path, _, function] = named else { continue };
                if !path.ends_with(".rs") || function.chars().any(char::is_uppercase) {
                    continue;
                }
                count += 1;
                let source = fs::read_to_string(root().join(path)).unwrap_or_default();
                let is_there =
                    [format!("fn {function}("), format!("fn {function}<")].iter().any(|one| source.contains(one));
                if !is_there {
                    missing.push(format!("{page}: {path}: {function}"));
                }
            }
        }
    }
    assert!(count > 50 && missing.is_empty(), "{count} functions, missing:\n{}", missing.join("\n"));
}

/// A port of the range that the kernel takes for outgoing connections may be taken when the guide's commands are tried:
/// a closed connection keeps it for a minute.
#[test]
fn ports_of_tried_commands_are_none_of_outgoing_connections() {
    const EPHEMERAL_MIN: u16 = 32_768;
    let (mut ports, mut bad) = (0, Vec::new());
    for document in documents(&root()) {
        let text = fs::read_to_string(&document).expect("it is there");
        for line in text.lines().filter(|line| line.starts_with("$ ")) {
            let words: Vec<_> = line.split_whitespace().collect();
            for pair in words.windows(2).filter(|pair| pair[0] == "--port") {
                ports += 1;
                if pair[1].parse().is_ok_and(|port: u16| port >= EPHEMERAL_MIN) {
                    bad.push(format!("{}: {line}", document.display()));
                }
            }
        }
    }
    assert!(ports > 2 && bad.is_empty(), "{ports} ports, bad:\n{}", bad.join("\n"));
}

#[test]
fn commit_subjects_name_an_area_and_fit_a_line() {
    let mut git = Command::new("git");
    git.current_dir(root()).args(["log", "--no-merges", "--format=%s", &format!("--since={SUBJECTS_SINCE}")]);
    let Ok(output) = git.output().map(|output| output.status.success().then_some(output.stdout)) else {
        println!("SKIPPED: git is not installed");
        return;
    };
    let Some(output) = output else {
        println!("SKIPPED: this is no checkout of git's");
        return;
    };
    let bad: Vec<String> =
        String::from_utf8_lossy(&output).lines().filter(|line| !is_good(line)).map(str::to_owned).collect();
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

fn is_good(subject: &str) -> bool {
    let area = subject.split_once(": ").map_or("", |(area, _)| area);
    let is_area =
        !area.is_empty() && area.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || ",-/ ".contains(c));
    is_area && subject.chars().count() <= SUBJECT_CHARS_MAX
}

#[test]
fn subjects_are_distinguished() {
    assert!(is_good("sync: replace files whose metadata cannot be fixed in place"));
    for bad in ["no area", ": nothing", "Sync: upper case", &format!("docs: {}", "x".repeat(70))] {
        assert!(!is_good(bad), "{bad}");
    }
}

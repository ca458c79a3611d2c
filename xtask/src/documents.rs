//! Checks of the documentation: links lead to files, the README is one page, and the guide's sentences are short.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const README_LINES_MAX: usize = 150;
const SENTENCE_WORDS_MAX: usize = 40;
/// The parts of the documentation that users read first.
pub(crate) const GUIDE: [&str; 3] = ["docs/start", "docs/guide", "docs/operating"];
/// What a contributor reads first.
const ARCHITECTURE: &str = "docs/ARCHITECTURE.md";
const ARCHITECTURE_LINES_MAX: usize = 250;
const INTERNALS: &str = "docs/internals";
const WHERE: &str = "docs/internals/where.md";
const QUESTIONS_MIN: usize = 20;
const PARAGRAPH_WORDS_MAX: usize = 120;
/// What users and contributors read from the top. Other pages are reference: their paragraphs may be long, and a colon
/// ends a sentence.
const READ_FROM_THE_TOP: [&str; 4] = ["README.md", "docs/glossary.md", ARCHITECTURE, "CONTRIBUTING.md"];
const SUBJECT_CHARS_MAX: usize = 72;
/// Commits from this day on are checked.
const SUBJECTS_SINCE: &str = "2026-11-24";

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

/// The lines of a document that are no code, without inline code.
pub(crate) fn prose(text: &str) -> Vec<String> {
    let mut is_code = false;
    let mut lines = Vec::new();
    for line in text.lines() {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        if !is_code && !is_fence && !line.starts_with("    ") {
            lines.push(line.split('`').step_by(2).collect::<Vec<_>>().join("CODE"));
        }
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
fn sentences_and_paragraphs_are_short() {
    let mut long = Vec::new();
    let mut count = 0;
    for document in documents(&root()) {
        count += 1;
        let text = fs::read_to_string(&document).expect("it is UTF-8");
        let lines = prose(&text);
        let folders = GUIDE.iter().chain([&INTERNALS]).map(|part| root().join(part));
        let pages = READ_FROM_THE_TOP.map(|page| root().join(page));
        let is_guide = folders.into_iter().any(|folder| document.starts_with(folder)) || pages.contains(&document);
        // Rows of tables, list items and headings stand alone.
        let is_item = |first: char| first.is_ascii_digit() || "|-#!".contains(first);
        let is_apart = |line: &str| line.is_empty() || line.starts_with(is_item);
        for paragraph in lines.split(|line| line.is_empty()).filter(|_| is_guide) {
            let text: Vec<_> = paragraph.iter().filter(|line| !is_apart(line)).map(String::as_str).collect();
            if words(&text.join(" ")) > PARAGRAPH_WORDS_MAX {
                long.push(format!("{}: a paragraph of {} words", document.display(), words(&text.join(" "))));
            }
        }
        let parts = lines.iter().flat_map(|line| line.split([';', '|'])).flat_map(|part| part.split(". "));
        for sentence in parts.flat_map(|part| part.split(if is_guide { "\n" } else { ": " })) {
            if words(sentence) > SENTENCE_WORDS_MAX {
                long.push(format!("{}: {sentence}", document.display()));
            }
        }
    }
    assert!(count > 40 && long.is_empty(), "{count} documents:\n{}", long.join("\n"));
}

/// What stands in backticks in a document, outside of blocks of code.
fn inline_code(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.lines().filter(|line| !line.starts_with("    "));
    lines.flat_map(|line| line.split('`').skip(1).step_by(2))
}

#[test]
fn paths_in_the_architecture_exist() {
    for (page, at_least) in [(ARCHITECTURE, 40), (WHERE, QUESTIONS_MIN)] {
        let text = fs::read_to_string(root().join(page)).expect("it is there");
        let paths: Vec<_> = inline_code(&text).filter(|code| code.contains('/')).collect();
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
fn subjects_are_told_apart() {
    assert!(is_good("sync: replace files whose metadata cannot be fixed in place"));
    for bad in ["no area", ": nothing", "Sync: upper case", &format!("docs: {}", "x".repeat(70))] {
        assert!(!is_good(bad), "{bad}");
    }
}

//! Checks of the documentation: links lead to files, the README is one page, and the guide's sentences are short.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const README_LINES_MAX: usize = 150;
const SENTENCE_WORDS_MAX: usize = 40;
/// The parts of the documentation that users read first.
pub(crate) const GUIDE: [&str; 3] = ["docs/start", "docs/guide", "docs/operating"];
const PARAGRAPH_WORDS_MAX: usize = 120;
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
fn sentences_and_paragraphs_of_the_guide_are_short() {
    let mut guide: Vec<_> = GUIDE.iter().flat_map(|part| documents(&root().join(part))).collect();
    guide.extend(["README.md", "docs/glossary.md"].map(|page| root().join(page)));
    assert!(guide.len() > 5);
    let mut long = Vec::new();
    for document in guide {
        let text = fs::read_to_string(&document).expect("it is UTF-8");
        let lines = prose(&text);
        // Rows of tables, list items and headings stand alone.
        let is_apart = |line: &str| line.is_empty() || line.starts_with(['|', '-', '#', '!', '1', '2', '3']);
        for paragraph in lines.split(|line| line.is_empty()) {
            let text: Vec<_> = paragraph.iter().filter(|line| !is_apart(line)).map(String::as_str).collect();
            if words(&text.join(" ")) > PARAGRAPH_WORDS_MAX {
                long.push(format!("{}: a paragraph of {} words", document.display(), words(&text.join(" "))));
            }
        }
        for sentence in lines.iter().flat_map(|line| line.split([';', '|'])).flat_map(|part| part.split(". ")) {
            if words(sentence) > SENTENCE_WORDS_MAX {
                long.push(format!("{}: {sentence}", document.display()));
            }
        }
    }
    assert!(long.is_empty(), "{}", long.join("\n"));
}

/// Rows of a table that name a file and, behind a colon, something in it: "| ... | `FILE`: `NAME` | ... |".
fn named_places(text: &str) -> Vec<(String, Option<String>)> {
    let mut places = Vec::new();
    for line in text.lines().filter(|line| line.starts_with('|')) {
        for cell in line.split('|') {
            let Some((file, rest)) = cell.trim().strip_prefix('`').and_then(|cell| cell.split_once('`')) else {
                continue;
            };
            if file.ends_with(".rs") {
                let name = rest.strip_prefix(": `").and_then(|rest| rest.split('`').next());
                places.push((file.to_owned(), name.map(str::to_owned)));
            }
        }
    }
    places
}

#[test]
fn tables_of_places_name_files_and_what_is_in_them() {
    for (page, rows_min) in [("internals/where.md", 20), ("ARCHITECTURE.md", 20)] {
        let text = fs::read_to_string(root().join("docs").join(page)).expect("it is UTF-8");
        let places = named_places(&text);
        assert!(places.len() >= rows_min, "{page} names {} files", places.len());
        for (file, name) in places {
            let candidates = [root().join(&file), root().join("crates/engine/src").join(&file)];
            let source = candidates.iter().find_map(|path| fs::read_to_string(path).ok());
            let source = source.unwrap_or_else(|| panic!("{page}: there is no {file}"));
            let Some(name) = name else { continue };
            let is_defined = ["fn", "struct", "enum", "const", "trait"].iter().any(|kind| {
                source.match_indices(&format!("{kind} {name}")).any(|(at, found)| {
                    !source[at + found.len()..].starts_with(|c: char| c.is_alphanumeric() || c == '_')
                })
            });
            assert!(is_defined, "{page}: {file} defines no {name}");
        }
    }
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

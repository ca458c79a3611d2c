//! Checks of the book: its table of contents, its glossary, the options that it names, and links of included pages.

use std::collections::BTreeSet;
use std::fs;

use crate::documents::{GUIDE, documents, links, prose, root};

const SUMMARY: &str = "SUMMARY.md";
/// Pages of the repository's root that pages of the book include.
const INCLUDED: [&str; 4] = ["README.md", "SECURITY.md", "CHANGELOG.md", "CONTRIBUTING.md"];
/// Options of other programs, and those that haul lacks, in these pages.
const FOREIGN: [&str; 13] = [
    "--checksum-choice",
    "--delay-updates",
    "--no-implied-dirs",
    "--rsync-path",
    "--temp-dir",
    "--partial-dir",
    "--server",
    "--from",
    "--no-default-features",
    "--release",
    "--recipe",
    "--user",
    "--ignore-times",
];
/// An entry with more words than this is no line.
const ENTRY_WORDS_MAX: usize = 30;

fn read(relative: &str) -> String {
    fs::read_to_string(root().join(relative)).unwrap_or_else(|error| panic!("{relative}: {error}"))
}

/// The pages below `docs`, relative to it.
fn pages() -> BTreeSet<String> {
    let docs = root().join("docs");
    let relative =
        |path: &std::path::Path| path.strip_prefix(&docs).expect("below docs").to_string_lossy().into_owned();
    documents(&docs).iter().map(|path| relative(path)).filter(|page| page != SUMMARY).collect()
}

/// Mistakes in a table of contents of `pages`.
fn faults(summary: &str, pages: &BTreeSet<String>) -> Vec<String> {
    let mut listed = BTreeSet::new();
    let mut faults = Vec::new();
    for page in summary.lines().flat_map(links) {
        if !pages.contains(page) {
            faults.push(format!("{page} is no file"));
        } else if !listed.insert(page.to_owned()) {
            faults.push(format!("{page} is listed twice"));
        }
    }
    faults.extend(pages.difference(&listed).map(|page| format!("{page} is not listed")));
    faults
}

#[test]
fn the_summary_lists_each_page_once() {
    let pages = pages();
    assert!(pages.len() > 20, "{pages:?}");
    let faults = faults(&read("docs/SUMMARY.md"), &pages);
    assert!(faults.is_empty(), "docs/SUMMARY.md:\n{}", faults.join("\n"));
}

#[test]
fn faults_of_a_summary_are_found() {
    let pages = BTreeSet::from(["a.md".to_owned(), "b/c.md".to_owned()]);
    let check = |summary| faults(summary, &pages);
    assert!(check("# S\n\n- [A](a.md)\n  - [C](b/c.md)\n").is_empty());
    assert_eq!(check("- [A](a.md)\n- [A](a.md)\n- [C](b/c.md)\n"), ["a.md is listed twice"]);
    assert_eq!(check("- [A](a.md)\n- [D](d.md)\n"), ["d.md is no file", "b/c.md is not listed"]);
}

#[test]
fn links_of_included_pages_lead_to_pages_of_the_book() {
    let book = read("book.toml");
    let mut missing = Vec::new();
    for document in INCLUDED {
        let text = read(document);
        for target in prose(&text).iter().flat_map(|line| links(line)) {
            let Some(page) = target.strip_suffix(".md").filter(|page| page.starts_with("docs/")) else { continue };
            if !book.contains(&format!("\"/{page}.html\" = ")) {
                missing.push(format!("{document}: book.toml redirects no /{page}.html"));
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

/// The page with a table of rsync's options.
const RSYNCS: &str = "docs/guide/sync.md";

/// Long options in a line's code spans. The first column of a `foreign` table has another program's.
fn options(line: &str, foreign: bool) -> impl Iterator<Item = &str> {
    let own = line.strip_prefix("| ").filter(|_| foreign).and_then(|row| row.split_once(" | ")).map(|(_, own)| own);
    let spans = own.unwrap_or(line).split('`').skip(1).step_by(2);
    let words = spans.flat_map(|span| span.split([' ', '=', ',']));
    words.filter(|word| word.starts_with("--") && word.len() > 2)
}

#[test]
fn options_named_by_pages_are_in_the_reference() {
    let reference = read("docs/OPTIONS.md");
    let words = reference.split([' ', '`', ',', '[']).filter(|word| word.starts_with("--")).map(str::to_owned);
    let known: BTreeSet<_> = words.chain(crate::chore_options("dist")).collect();
    let mut count = 0;
    let mut unknown = Vec::new();
    for page in GUIDE.iter().flat_map(|part| documents(&root().join(part))) {
        let text = fs::read_to_string(&page).expect("it is UTF-8");
        let foreign = page.parent().is_some_and(|part| part.ends_with("start")) || page.ends_with(RSYNCS);
        for option in text.lines().flat_map(|line| options(line, foreign)) {
            count += 1;
            if !known.contains(option) && !FOREIGN.contains(&option) {
                unknown.push(format!("{}: {option}", page.display()));
            }
        }
    }
    assert!(count > 100 && unknown.is_empty(), "{count} options, of which haul lacks:\n{}", unknown.join("\n"));
}

#[test]
fn options_are_found_in_code_spans() {
    let found = |line, is_start| options(line, is_start).collect::<Vec<_>>();
    assert_eq!(found("`--retry-for 2h` and `haul --fsync=none`, not --this", false), ["--retry-for", "--fsync"]);
    assert_eq!(found("| `scp --theirs` | `--ours` | |", true), ["--ours"]);
}

/// The entries of a glossary: a term in bold type, a colon, and its meaning.
fn entry(line: &str) -> Option<(&str, &str)> {
    line.strip_prefix("- **")?.split_once("**: ").filter(|(term, meaning)| !term.is_empty() && meaning.ends_with('.'))
}

#[test]
fn the_glossary_is_sorted_and_has_a_line_for_each_term() {
    let text = read("docs/glossary.md");
    let lines: Vec<_> = text.lines().filter(|line| line.starts_with(['-', ' ', '*'])).collect();
    let bad: Vec<_> = lines.iter().filter(|line| entry(line).is_none()).collect();
    assert!(bad.is_empty(), "no entries: {bad:#?}");
    let terms: Vec<_> = lines.iter().filter_map(|line| entry(line)).map(|(term, _)| term.to_lowercase()).collect();
    assert!(terms.len() > 20, "{terms:?}");
    let unsorted: Vec<_> = terms.windows(2).filter(|pair| pair[0] >= pair[1]).collect();
    assert!(unsorted.is_empty(), "not sorted, or twice: {unsorted:?}");
    let long: Vec<_> = lines.iter().filter(|line| line.split_whitespace().count() > ENTRY_WORDS_MAX).collect();
    assert!(long.is_empty(), "more than {ENTRY_WORDS_MAX} words: {long:#?}");
}

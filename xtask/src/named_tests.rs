//! The tests that documents name as `FILE::TEST` are there.

use std::collections::HashMap;
use std::fs;

use crate::documents::{inline_code, root};

/// Documents, and how many tests each names at least.
const DOCUMENTS: [(&str, usize); 3] = [("docs/BBCP.md", 50), ("docs/CVES.md", 40), ("docs/internals/promises.md", 200)];
/// Where tests are.
const SOURCES: [&str; 3] = ["crates", "e2e/tests", "fuzz/tests"];

/// The sources of tests, by the name of their module without `_tests`.
fn sources() -> HashMap<String, String> {
    let mut found = HashMap::new();
    let mut directories = SOURCES.map(|at| root().join(at)).to_vec();
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).expect("it can be listed") {
            let path = entry.expect("it can be listed").path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let is_folder = path.ends_with("mod.rs");
                let module =
                    if is_folder { path.parent().and_then(|folder| folder.file_name()) } else { path.file_stem() };
                let name = module.unwrap_or_default().to_string_lossy().trim_end_matches("_tests").to_owned();
                let text: &mut String = found.entry(name).or_default();
                text.push_str(&fs::read_to_string(path).expect("it is UTF-8"));
            }
        }
    }
    found
}

/// The tests that a text names and `sources` lack, and how many it names. Commands have spaces.
fn missing(text: &str, sources: &HashMap<String, String>) -> (Vec<String>, usize) {
    let words = inline_code(text).filter(|word| !word.contains(' ') && *word != "FILE::TEST");
    let named: Vec<_> = words.filter_map(|word| word.split_once("::")).collect();
    let is_there =
        |file: &str, test: &str| sources.get(file).is_some_and(|text| text.contains(&format!("fn {test}()")));
    let missing =
        named.iter().filter(|(file, test)| !is_there(file, test)).map(|(file, test)| format!("{file}::{test}"));
    (missing.collect(), named.len())
}

#[test]
fn every_named_test_exists() {
    let sources = sources();
    for (document, at_least) in DOCUMENTS {
        let text = fs::read_to_string(root().join(document)).expect("it is there");
        let (missing, count) = missing(&text, &sources);
        assert!(count >= at_least && missing.is_empty(), "{document}: {count} tests, missing {missing:?}");
    }
}

#[test]
fn a_missing_test_is_found() {
    let sources = HashMap::from([("a".to_owned(), "#[test]\nfn b() {}".to_owned())]);
    let text = "- one `crates/a.rs`: `a::b` `a::c`\n- two `d::b`, and `cargo test a::e`";
    assert_eq!(missing(text, &sources), (vec!["a::c".to_owned(), "d::b".to_owned()], 3));
}

//! `cargo xtask notices`: writes the notices of everything that the executable is linked with, for packages and
//! `haul --license all`. A test compares them with the sources of the crates.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use serde_json::Value;

use crate::run::{Output, run};
use crate::workspace::{cargo, root};

/// The text, for packages.
pub const TEXT: &str = "packaging/notices.txt";
const METADATA_LIMIT: Duration = Duration::from_secs(120);
const TARGETS: [&str; 2] = ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"];
/// Licences of which one is enough: the one taken, and a phrase of its text.
const PREFERRED: [(&str, &str); 2] =
    [("Apache-2.0", "Apache License"), ("MIT", "Permission is hereby granted, free of charge")];
const RULE: &str = "\n--------------------------------------------------------------------------------\n\n";

const INTRODUCTION: &str = "\
haul is licensed under the MIT License or the Apache License 2.0, at your option. Its executable is linked with the
works of others that are listed here, with their licences.
";
const GLIBC: &str = "\
The GNU C Library (glibc), linked statically
Copyright the Free Software Foundation, Inc., and others

haul uses this library, which is covered by the GNU Lesser General Public License, version 2.1 or later. The sources of
haul are available to everyone who has its executable, to link it with a modified glibc: see docs/operating/packaging.md
there. The sources of glibc are those of the release or distribution that haul was built with:
https://www.gnu.org/software/libc/. The licence is printed here, then the notices of parts of glibc.
";
const RUST: &str = "\
The Rust standard library
Copyright The Rust Project contributors

It is taken under the Apache License 2.0, which is printed below. Parts have licences of their own:
";
const APACHE: &str = "The Apache License 2.0 covers:\n";

/// A crate that is linked into the executable.
struct LinkedCrate {
    name: String,
    version: String,
    licence: String,
    /// Its authors, who hold the copyright where no text names others.
    holders: String,
    folder: PathBuf,
}

/// Runs the chore.
pub fn main() -> ExitCode {
    match write() {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("cargo xtask notices: {why}");
            ExitCode::FAILURE
        }
    }
}

fn write() -> Result<(), String> {
    let text = render(&linked_crates()?)?;
    fs::write(root().join(TEXT), text).map_err(|error| format!("{TEXT}: {error}"))
}

/// The crates of others in the executable for any of [`TARGETS`], by name.
fn linked_crates() -> Result<Vec<LinkedCrate>, String> {
    let mut command = cargo(&["metadata", "--format-version=1", "--locked"]);
    command.args(TARGETS.iter().flat_map(|target| ["--filter-platform", target]));
    let ended = run(&mut command, METADATA_LIMIT, Output::Kept);
    if let Some(why) = ended.failure {
        return Err(format!("cargo metadata: {why}"));
    }
    let metadata: Value = serde_json::from_str(&ended.stdout).map_err(|error| format!("cargo metadata: {error}"))?;
    let packages: BTreeMap<&str, &Value> = by_id(&metadata["packages"]);
    let nodes = by_id(&metadata["resolve"]["nodes"]);
    let haul = packages.iter().find(|(_, package)| package["name"] == "haul").ok_or("cargo metadata: no haul")?;
    let mut reached = BTreeSet::new();
    let mut open = vec![*haul.0];
    while let Some(id) = open.pop() {
        if is_macro(packages[id]) || !reached.insert(id) {
            continue;
        }
        let dependencies = elements(&nodes[id]["deps"]).filter(|dependency| is_linked(dependency));
        open.extend(dependencies.filter_map(|dependency| dependency["pkg"].as_str()));
    }
    let others = reached.into_iter().map(|id| packages[id]).filter(|package| package["source"].is_string());
    let mut crates: Vec<_> = others.filter_map(linked_crate).collect();
    crates.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
    Ok(crates)
}

fn elements(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

fn by_id(list: &Value) -> BTreeMap<&str, &Value> {
    elements(list).filter_map(|one| Some((one["id"].as_str()?, one))).collect()
}

fn is_macro(package: &Value) -> bool {
    elements(&package["targets"]).any(|target| elements(&target["kind"]).any(|kind| kind == "proc-macro"))
}

/// Whether a dependency is more than one of tests or of the build script.
fn is_linked(dependency: &Value) -> bool {
    elements(&dependency["dep_kinds"]).any(|kind| kind["kind"].is_null())
}

fn linked_crate(package: &Value) -> Option<LinkedCrate> {
    let text = |key: &str| package[key].as_str().map(str::to_owned);
    let folder = Path::new(package["manifest_path"].as_str()?).parent()?.to_owned();
    let authors: Vec<_> = elements(&package["authors"]).filter_map(Value::as_str).collect();
    let holders = if authors.is_empty() { format!("the authors of {}", text("name")?) } else { authors.join(", ") };
    Some(LinkedCrate { name: text("name")?, version: text("version")?, licence: text("license")?, holders, folder })
}

impl LinkedCrate {
    /// The licence that is taken where one of several is enough, with a phrase of its text.
    fn choice(&self) -> Option<(&'static str, &'static str)> {
        let alternatives: Vec<_> = self.licence.split(" OR ").collect();
        let is_choice = !self.licence.contains(" AND ");
        PREFERRED.into_iter().find(|(licence, _)| is_choice && alternatives.contains(licence))
    }

    /// Texts of its licences; only notices if it is taken under the Apache License, which is printed once.
    fn texts(&self, mit: &str) -> Result<Vec<String>, String> {
        let mut texts = Vec::new();
        let choice = self.choice();
        for file in licence_files(&self.folder)? {
            let text = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
            let is_notice = file.file_name().is_some_and(|name| name.to_string_lossy().starts_with("NOTICE"));
            let is_taken =
                choice.is_none_or(|(licence, phrase)| licence != PREFERRED[0].0 && words(&text).contains(phrase));
            if is_notice || is_taken {
                texts.push(text);
            }
        }
        match choice {
            Some((licence, _)) if licence == PREFERRED[0].0 => {}
            // Where the crate's archive lacks the text.
            Some(_) if texts.is_empty() => texts.push(format!("Copyright (c) {}\n{}", self.holders, split(mit).1)),
            None if texts.is_empty() => {
                return Err(format!("{} {}: no text of its licence, {}", self.name, self.version, self.licence));
            }
            _ => {}
        }
        Ok(texts)
    }

    fn line(&self) -> String {
        format!("  {} {} ({})\n", self.name, self.version, self.licence)
    }
}

/// Licences and notices of a crate, and of sources of others in it.
fn licence_files(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let mut files = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        let entries = fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        for entry in entries {
            let path = entry.map_err(|error| format!("{}: {error}", folder.display()))?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let is_licence = ["LICENSE", "LICENCE", "NOTICE"].iter().any(|start| name.starts_with(start));
            match path.is_dir() {
                true => open.push(path),
                false if is_licence => files.push(path),
                false => {}
            }
        }
    }
    files.sort_unstable();
    Ok(files)
}

/// A text's copyright lines, and the rest, which is the same in many crates.
fn split(text: &str) -> (String, String) {
    let is_copyright = |line: &&str| {
        let line = line.trim_start().to_lowercase();
        line.starts_with("copyright (") || line.starts_with("copyright ©") || line.starts_with("copyright 2")
    };
    let (copyrights, rest): (Vec<_>, Vec<_>) = text.lines().map(str::trim_end).partition(is_copyright);
    (copyrights.iter().map(|line| format!("      {}\n", line.trim_start())).collect(), rest.join("\n"))
}

/// Words of a text: lines may be broken elsewhere.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn render(crates: &[LinkedCrate]) -> Result<String, String> {
    let own = |name: &str| fs::read_to_string(root().join(name)).map_err(|error| format!("{name}: {error}"));
    let mit = own("LICENSE-MIT")?;
    let mut apache = APACHE.to_owned();
    let mut others: BTreeMap<String, (String, String)> = BTreeMap::new();
    for one in crates {
        if one.choice() == Some(PREFERRED[0]) {
            apache += &one.line();
        }
        for text in one.texts(&mit)? {
            let (copyrights, rest) = split(&text);
            let (holders, _) = others.entry(words(&rest)).or_insert_with(|| (String::new(), rest));
            *holders += &(one.line() + &copyrights);
        }
    }
    let mut parts = vec![
        INTRODUCTION.to_owned(),
        GLIBC.to_owned(),
        own("packaging/licences/LGPL-2.1.txt")?,
        own("packaging/licences/glibc.txt")?,
        RUST.to_owned() + "\n" + &own("packaging/licences/rust.txt")?,
        apache,
        own("LICENSE-APACHE")?,
    ];
    parts.extend(others.into_values().map(|(holders, text)| format!("{holders}\n{}\n", text.trim_matches('\n'))));
    Ok(parts.join(RULE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_notices_name_every_linked_crate() {
        let crates = linked_crates().unwrap();
        assert!(crates.iter().any(|one| one.name == "aws-lc-sys") && crates.iter().all(|one| one.name != "proptest"));
        let text = fs::read_to_string(root().join(TEXT)).unwrap();
        for one in &crates {
            assert!(text.contains(&one.line()), "{} {}: cargo xtask notices", one.name, one.version);
        }
        assert!(text == render(&crates).unwrap(), "{TEXT} is not current: cargo xtask notices");
    }

    #[test]
    fn one_licence_is_taken_where_one_is_enough() {
        let choice = |licence: &str| {
            let [name, version, holders] = [const { String::new() }; 3];
            let one = LinkedCrate { name, version, licence: licence.to_owned(), holders, folder: PathBuf::new() };
            one.choice().map(|(licence, _)| licence)
        };
        assert_eq!(choice("MIT OR Apache-2.0"), Some("Apache-2.0"));
        assert_eq!(choice("Unlicense OR MIT"), Some("MIT"));
        assert_eq!(choice("ISC AND (Apache-2.0 OR ISC)"), None);
        assert_eq!(choice("Zlib"), None);
    }

    #[test]
    fn texts_differ_in_copyright_lines_alone() {
        let texts =
            ["MIT\n\nCopyright (c) 2020 A\n\nPermission is\ngranted", "MIT\nCopyright 2021 B\nPermission is granted\n"];
        let [first, second] = texts.map(split);
        assert_eq!(words(&first.1), words(&second.1));
        assert_eq!(first.0, "      Copyright (c) 2020 A\n");
    }
}

//! Finds the rule that decides about a local path: walks to it like a source.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use haul_base::copy::display_path::own_name;
use haul_base::copy::spec::FilterOptions;
use haul_engine::fs::{Dir, FileStat, FollowLinks, PatternFile, WalkFilter};
use haul_proto::filter::{ExceededLimit, FilterDecision, FilterScope, RuleOrigin};
use haul_proto::path::Name;
use rustix::fs::FileType;

/// The decision about a path, and its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explained {
    /// The path, or an excluded directory above it, relative to the operand.
    pub path: PathBuf,
    /// Whether it is excluded.
    pub is_left_out: bool,
    /// Why.
    pub reason: Reason,
    /// Whether it does not exist, and counts as a file.
    pub is_missing: bool,
}

/// The reason for an exclusion or inclusion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// No rule matches.
    Unspoken,
    /// The rule in this line of the list with that number.
    List(usize, u32),
    /// A rule in a file with patterns.
    File {
        /// Its path, relative to the operand.
        path: PathBuf,
        /// The line, from 1.
        line: u32,
        /// The text of the rule.
        text: Vec<u8>,
    },
    /// A limit is exceeded.
    Limit(ExceededLimit),
}

/// Explains `below`, a path of names relative to the directory `operand`.
pub fn explain(filters: &FilterOptions, operand: &Path, below: &Path) -> io::Result<Explained> {
    let none = Explained { path: below.into(), is_left_out: false, reason: Reason::Unspoken, is_missing: false };
    let Some(filter) = WalkFilter::new(filters).map_err(io::Error::other)? else { return Ok(none) };
    let names = names(below)?;
    let mut dir = Dir::open_root(operand)?;
    let mut found: Vec<Vec<PatternFile>> = Vec::new();
    let own_name = own_name(operand).and_then(|name| Name::new(name.as_bytes()).ok());
    let mut place = FilterScope::place_of(own_name).filter(|_| filter.matcher().is_rsync());
    let mut path = PathBuf::new();
    for (at, name) in names.iter().enumerate() {
        let patterns = filter.patterns_in(&dir, place.as_ref().map(|(above, _)| &**above))?;
        let scope = filter.scope(place, &patterns, 0)?;
        found.push(patterns);
        let stat = match dir.fd().and_then(|fd| FileStat::at_name(&*fd, name, FollowLinks::Itself)) {
            Ok(stat) => Some(stat),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let is_last = at + 1 == names.len();
        let is_directory = stat.as_ref().map_or(!is_last, |stat| stat.kind == FileType::Directory);
        let decision = filter.matcher().decide(&scope, name.as_bytes(), is_directory);
        let merged = filter.matcher().merged_files(Some(&scope));
        let names: Vec<_> = filters.files.iter().chain(merged.iter().map(|file| &file.name)).collect();
        let reason = decision.map_or(Reason::Unspoken, |decision| reason(decision, &names, &path, &found));
        path.push(std::ffi::OsStr::from_bytes(name.as_bytes()));
        let is_missing = stat.is_none();
        let explained = Explained { path: path.clone(), is_left_out: false, reason, is_missing };
        if decision.is_some_and(|decision| !decision.includes) {
            return Ok(Explained { is_left_out: true, ..explained });
        }
        let file = stat.filter(|stat| stat.kind == FileType::RegularFile);
        if let Some(limit) = file.and_then(|stat| filter.matcher().limit(stat.size, stat.meta.modified)) {
            return Ok(Explained { is_left_out: true, reason: Reason::Limit(limit), ..explained });
        }
        if is_last || !is_directory || is_missing {
            return Ok(explained);
        }
        dir = dir.child(name)?;
        place = Some((scope, name.clone()));
    }
    Ok(none)
}

fn names(below: &Path) -> io::Result<Vec<Name>> {
    let name = |component| match component {
        Component::Normal(name) => Name::new(name.as_bytes()).map_err(io::Error::other),
        _ => Err(io::Error::other("not below the source")),
    };
    below.components().map(name).collect()
}

/// `parent` is the directory of the name, and `found` has the files with patterns from the operand down to it.
fn reason(decision: FilterDecision, files: &[&Name], parent: &Path, found: &[Vec<PatternFile>]) -> Reason {
    let (above, number) = match decision.by {
        RuleOrigin::List(list) => return Reason::List(list, decision.line),
        RuleOrigin::File { above, number } => (above, number),
    };
    let patterns = found.iter().rev().nth(above).into_iter().flatten();
    let text = patterns.clone().find(|(file, _)| usize::from(*file) == number).map(|(_, text)| text);
    let line = (decision.line as usize).saturating_sub(1);
    let line_text = text.and_then(|text| text.split(|byte| matches!(byte, b'\n' | 0)).nth(line)).unwrap_or_default();
    let directory = parent.ancestors().nth(above).unwrap_or(Path::new(""));
    let name = files.get(number).map_or(&[][..], |name| name.as_bytes());
    Reason::File {
        path: directory.join(std::ffi::OsStr::from_bytes(name)),
        line: decision.line,
        text: line_text.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use haul_base::copy::spec::{FileLimits, ListSyntax, PatternList};

    use super::*;

    #[test]
    fn the_deciding_rule_is_named_with_its_place() {
        let temp = tempfile::tempdir().unwrap();
        let at = |path: &str| temp.path().join(path);
        std::fs::create_dir_all(at("a/b/c")).unwrap();
        std::fs::write(at(".f"), "# first\n*.o\n").unwrap();
        std::fs::write(at("a/b/.f"), "!keep.o\nc/\n").unwrap();
        for file in ["a/x.o", "a/b/keep.o", "a/b/c/y", "a/large"] {
            std::fs::write(at(file), [0; 100]).unwrap();
        }
        std::fs::write(at("a/large"), [0; 5000]).unwrap();
        let list = PatternList { text: b"*.tmp".to_vec(), syntax: ListSyntax::Pattern, includes: false };
        let limits = FileLimits { max_size: Some(4096), ..FileLimits::default() };
        let filters =
            FilterOptions { lists: vec![list], files: vec![Name::new(b".f").unwrap()], limits, changed: None };
        let file = |path: &str, line, text: &str| Reason::File { path: path.into(), line, text: text.into() };
        for (path, decided, is_left_out, reason) in [
            ("a/x.o", "a/x.o", true, file(".f", 2, "*.o")),
            ("a/b/keep.o", "a/b/keep.o", false, file("a/b/.f", 1, "!keep.o")),
            ("a/b/c/y", "a/b/c", true, file("a/b/.f", 2, "c/")),
            ("a/large", "a/large", true, Reason::Limit(ExceededLimit::MaxSize)),
            ("a/z.tmp", "a/z.tmp", true, Reason::List(0, 1)),
            ("a/b", "a/b", false, Reason::Unspoken),
        ] {
            let explained = explain(&filters, temp.path(), Path::new(path)).unwrap();
            let expected = Explained { path: decided.into(), is_left_out, reason, is_missing: path == "a/z.tmp" };
            assert_eq!(explained, expected, "{path}");
        }
        assert!(explain(&filters, temp.path(), Path::new("../x")).is_err());
    }
}

//! Patterns of sources: their host expands them, and its answers are compared with what the user typed.

use std::collections::HashSet;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use haul_base::copy::error::Error;
use haul_base::copy::event::{Event, Observer};
use haul_base::copy::location::{Host, Location};
use haul_base::copy::spec::{CopySpec, PipeEnd, names_null};
use haul_base::sys::cancel::Cancel;
use haul_proto::feature::Features;
use haul_proto::filter::source_pattern::{SourcePattern, has_wildcards};
use haul_proto::wire::expansion::{ExpandRequest, PatternMatch};
use haul_proto::wire::report::WorkerMessage;
use haul_proto::wire::request::ControllerMessage;

use super::worker_role::WorkerRole;
use super::workers::Workers;

/// Replaces patterns among the sources of `copy`, if they may be some, by what they match. A pattern without matches
/// stays, and is then a missing source.
pub fn expand_sources(
    copy: &mut CopySpec,
    workers: &mut Workers,
    cancel: &Cancel,
    observer: &mut dyn Observer,
) -> Result<(), Error> {
    let is_pipe = matches!(copy.options.pipes.source, Some(PipeEnd::Standard(_) | PipeEnd::Named));
    let has_patterns = copy.options.source.patterns && !is_pipe && *copy.source_host() != Host::Local;
    let is_pattern = |source: &Location| has_patterns && has_wildcards(source.path.as_os_str().as_bytes());
    let typed: Vec<_> = copy.sources.iter().filter(|source| is_pattern(source)).collect();
    if typed.is_empty() {
        return Ok(());
    }
    workers.require_of(WorkerRole::Source, Features::PATTERNS)?;
    let typed = typed.into_iter().map(|source| source.path.as_os_str().as_bytes());
    let patterns = SourcePattern::parse_all(typed).map_err(|error| Error::Usage(error.to_string()))?;
    let request = ExpandRequest {
        base: copy.options.source.base.as_ref().map(|base| base.as_os_str().as_bytes().to_vec()),
        patterns: patterns.iter().map(|pattern| pattern.typed.clone()).collect(),
    };
    workers.send(WorkerRole::Source, &ControllerMessage::Expand(request))?;
    let matches = receive_matches(workers, cancel, observer)?;
    let Some(expanded) = expansions(&patterns, matches) else {
        let fault = "protocol error: the paths do not match the patterns of the sources";
        return Err(Error::Failed(workers.with_host(WorkerRole::Source, fault)));
    };
    let mut expanded = expanded.into_iter();
    let expand = |source: Location| match is_pattern(&source).then(|| expanded.next()).flatten() {
        Some(paths) => paths.into_iter().map(|path| located(path, &source.host)).collect(),
        None => vec![source],
    };
    copy.sources = std::mem::take(&mut copy.sources).into_iter().flat_map(expand).collect();
    // A later attempt copies the same.
    copy.options.source.patterns = false;
    Ok(())
}

fn receive_matches(
    workers: &mut Workers,
    cancel: &Cancel,
    observer: &mut dyn Observer,
) -> Result<Vec<PatternMatch>, Error> {
    loop {
        let (role, message) = workers.receive(cancel, None, false)?;
        match (role, message) {
            (WorkerRole::Source, WorkerMessage::Expanded(expanded)) => return Ok(expanded.matches),
            (_, WorkerMessage::Warning { text }) => {
                observer.event(&Event::Warning(workers.with_host(role, &text)));
            }
            (_, WorkerMessage::Refused { text, usage: true }) => {
                return Err(Error::Usage(workers.with_host(role, &text)));
            }
            (_, WorkerMessage::Refused { text, .. } | WorkerMessage::Fatal { text, .. }) => {
                return Err(Error::Failed(workers.with_host(role, &text)));
            }
            _ => return Err(Error::Failed(workers.with_host(role, "protocol error: answer out of order"))),
        }
    }
}

/// Returns the paths that each pattern stands for; `None` if a path does not match its pattern.
fn expansions(patterns: &[SourcePattern], matches: Vec<PatternMatch>) -> Option<Vec<Vec<Vec<u8>>>> {
    let none = |pattern: &SourcePattern| vec![Vec::new(); pattern.alternatives.len()];
    let mut found: Vec<Vec<Vec<Vec<u8>>>> = patterns.iter().map(none).collect();
    for PatternMatch { pattern, alternative, path } in matches {
        let (pattern, alternative) = (usize::from(pattern), usize::from(alternative));
        let asked = patterns.get(pattern)?;
        let is_match = asked.alternatives.get(alternative)?.matches(&path) || path == asked.typed;
        is_match.then(|| found[pattern][alternative].push(path))?;
    }
    Some(patterns.iter().zip(found).map(|(pattern, found)| paths_of(pattern, found)).collect())
}

/// Returns the paths that a pattern stands for: itself, where an entry has its name.
fn paths_of(pattern: &SourcePattern, found: Vec<Vec<Vec<u8>>>) -> Vec<Vec<u8>> {
    if found.iter().flatten().any(|path| *path == pattern.typed) {
        return vec![pattern.typed.clone()];
    }
    let mut seen = HashSet::new();
    let of_alternatives = pattern.alternatives.iter().zip(found);
    let paths = of_alternatives.flat_map(|(own, found)| if found.is_empty() { vec![own.unmatched()] } else { found });
    paths.filter(|path| seen.insert(path.clone())).collect()
}

/// A file's name never means zeros.
fn located(path: Vec<u8>, host: &Host) -> Location {
    let path = OsString::from_vec(path);
    let path = if names_null(&path) { OsString::from_vec([b"./", path.as_bytes()].concat()) } else { path };
    Location { host: host.clone(), path: path.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(patterns: &[&str], matches: &[(u16, u16, &str)]) -> Option<Vec<Vec<String>>> {
        let patterns = SourcePattern::parse_all(patterns.iter().map(|text| text.as_bytes())).unwrap();
        let found = |(pattern, alternative, path): &(u16, u16, &str)| PatternMatch {
            pattern: *pattern,
            alternative: *alternative,
            path: path.as_bytes().to_vec(),
        };
        let paths = expansions(&patterns, matches.iter().map(found).collect())?;
        let text = |path: Vec<u8>| String::from_utf8(path).unwrap();
        Some(paths.into_iter().map(|paths| paths.into_iter().map(text).collect()).collect())
    }

    #[test]
    fn patterns_stand_for_their_matches_and_stay_without() {
        let found = expanded(&["{b*,c,d*}", "x?"], &[(0, 0, "b1"), (0, 0, "b2"), (1, 0, "xy")]).unwrap();
        assert_eq!(found, [vec!["b1", "b2", "c", "d*"], vec!["xy"]]);
        let twice = expanded(&["{a*,ab}"], &[(0, 0, "ab"), (0, 1, "ab")]).unwrap();
        assert_eq!(twice, [["ab"]]);
        let literal = expanded(&["{a,b}*"], &[(0, 0, "{a,b}*")]).unwrap();
        assert_eq!(literal, [["{a,b}*"]]);
    }

    #[test]
    fn a_host_answers_only_with_matches() {
        assert!(expanded(&["*.txt"], &[(0, 0, "a.txt")]).is_some());
        for other in [
            (0, 0, ".bashrc"),
            (0, 0, ".a.txt"),
            (0, 0, "../a.txt"),
            (0, 0, "x/a.txt"),
            (0, 0, "/a.txt"),
            (0, 0, "a.txt/"),
            (0, 0, ""),
            (0, 1, "a.txt"),
            (1, 0, "a.txt"),
        ] {
            assert_eq!(expanded(&["*.txt"], &[other]), None, "{other:?}");
        }
        assert_eq!(expanded(&["{a,b}*"], &[(0, 1, "a1")]), None, "another alternative");
    }

    #[test]
    fn zeros_are_never_matched() {
        assert_eq!(located(b"null:1g".to_vec(), &Host::Local).path, std::path::Path::new("./null:1g"));
        assert_eq!(located(b"a".to_vec(), &Host::Local).path, std::path::Path::new("a"));
    }
}

//! Expansion of patterns of source paths. It lists directories, and opens no file for reading.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use haul_base::sys::describe::describe;
use haul_proto::filter::source_pattern::{PathPattern, PatternComponent, SourcePattern, SourcePatternError};
use haul_proto::limits::{PATTERN_MATCHES_BYTES, PATTERN_MATCHES_MAX};
use haul_proto::path::escape;
use haul_proto::wire::expansion::{ExpandRequest, PatternMatch};
use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;

use crate::fs::{Dir, each_name_unless, lookup};

/// Most steps of comparing names with patterns: some seconds of computation.
const STEPS_MAX: u64 = 1 << 33;
/// Steps that count for a lookup.
const LOOKUP_STEPS: u64 = 4096;
/// Most reported directories that cannot be listed.
const NOTES_MAX: usize = 10;

/// Why patterns are not expanded.
#[derive(Debug, thiserror::Error)]
pub enum ExpansionError {
    /// They are no patterns of a copy.
    #[error("{0}")]
    Pattern(#[from] SourcePatternError),
    /// They match too much.
    #[error(
        "the patterns match too many paths (more than {PATTERN_MATCHES_MAX})\ncopy the directory with -r and --include"
    )]
    Matches,
    /// Too many names were compared with them.
    #[error("the patterns take too long to match\nuse simpler ones, or copy the directory with -r and --include")]
    Steps,
}

/// Existing paths that match patterns.
pub struct Expansion {
    /// The matches, sorted within each alternative.
    pub matches: Vec<PatternMatch>,
    /// Directories that cannot be listed, and links that a server does not follow.
    pub notes: Vec<String>,
}

/// Returns the existing paths that match.
pub fn expand(request: &ExpandRequest) -> Result<Expansion, ExpansionError> {
    let base = request.base.as_deref().unwrap_or_default();
    let mut expander = Expander { base, steps_left: STEPS_MAX, links: 0, notes: Vec::new() };
    let mut matches = Vec::new();
    let mut found = FoundPaths::default();
    for (pattern, number) in SourcePattern::parse_all(request.patterns.iter().map(Vec::as_slice))?.iter().zip(0..) {
        let mut add = |alternative, path: Vec<u8>| {
            found.count(base.len() + path.len())?;
            matches.push(PatternMatch { pattern: number, alternative, path });
            Ok::<_, ExpansionError>(())
        };
        if expander.exists(&pattern.typed)? {
            add(0, pattern.typed.clone())?;
            continue;
        }
        for (alternative, number) in pattern.alternatives.iter().zip(0..) {
            expander.expand(alternative)?.into_iter().try_for_each(|path| add(number, path))?;
        }
    }
    let links = expander.links;
    let mut notes = expander.notes;
    if links > 0 {
        notes.push(format!("{links} matching symbolic links are skipped: a server follows none"));
    }
    Ok(Expansion { matches, notes })
}

/// Paths within their limits.
#[derive(Default)]
struct FoundPaths {
    paths: Vec<Vec<u8>>,
    count: usize,
    bytes: usize,
}

impl FoundPaths {
    fn count(&mut self, bytes: usize) -> Result<(), ExpansionError> {
        (self.count, self.bytes) = (self.count + 1, self.bytes + bytes);
        match self.count > PATTERN_MATCHES_MAX || self.bytes > PATTERN_MATCHES_BYTES {
            true => Err(ExpansionError::Matches),
            false => Ok(()),
        }
    }

    fn add(&mut self, above: &[u8], name: &[u8]) -> Result<(), ExpansionError> {
        let separator = if above.is_empty() || above.ends_with(b"/") { &b""[..] } else { b"/" };
        self.count(above.len() + separator.len() + name.len())?;
        self.paths.push([above, separator, name].concat());
        Ok(())
    }
}

struct Expander<'a> {
    base: &'a [u8],
    steps_left: u64,
    links: u64,
    notes: Vec<String>,
}

impl Expander<'_> {
    fn expand(&mut self, pattern: &PathPattern) -> Result<Vec<Vec<u8>>, ExpansionError> {
        let mut found = vec![pattern.root().to_vec()];
        for component in pattern.components() {
            let mut below = FoundPaths::default();
            for above in &found {
                match component {
                    PatternComponent::Name(name) => below.add(above, name)?,
                    PatternComponent::Wildcard { len, .. } => self.list(above, component, *len, &mut below)?,
                }
            }
            found = below.paths;
        }
        let has_slash = pattern.has_final_slash();
        if has_slash || matches!(pattern.components().last(), Some(PatternComponent::Name(_)) | None) {
            let mut existing = Vec::new();
            for mut path in found {
                if has_slash && !path.ends_with(b"/") {
                    path.push(b'/');
                }
                if self.exists(&path)? {
                    existing.push(path);
                }
            }
            found = existing;
        }
        found.sort_unstable();
        Ok(found)
    }

    fn spend(&mut self, steps: u64) -> Result<(), ExpansionError> {
        self.steps_left = self.steps_left.checked_sub(steps).ok_or(ExpansionError::Steps)?;
        Ok(())
    }

    /// Whether there is an entry at `path`. A final slash requires a directory.
    fn exists(&mut self, path: &[u8]) -> Result<bool, ExpansionError> {
        self.spend(LOOKUP_STEPS)?;
        let path = self.full_path(path);
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(lookup::open(Path::new(OsStr::from_bytes(&path)), flags).is_ok())
    }

    /// Adds the matching names in the directory `above`, if there is one.
    fn list(
        &mut self,
        above: &[u8],
        component: &PatternComponent,
        len: usize,
        found: &mut FoundPaths,
    ) -> Result<(), ExpansionError> {
        self.spend(LOOKUP_STEPS)?;
        let path = self.full_path(above);
        let mut outcome = Ok(());
        let listed = Dir::open_root(Path::new(OsStr::from_bytes(&path))).and_then(|dir| {
            let mut steps_left = self.steps_left;
            let skips = |name: &[u8]| {
                let steps = (len as u64 + 1) * (name.len() as u64 + 1);
                steps_left = steps_left.saturating_sub(steps);
                steps_left == 0 || !component.matches(name)
            };
            let tell = |name: &haul_proto::path::Name, kind| match kind {
                FileType::Symlink if lookup::is_confined() => self.links += 1,
                _ if outcome.is_ok() => outcome = found.add(above, name.as_bytes()),
                _ => {}
            };
            let listed = each_name_unless(&dir, skips, tell);
            self.steps_left = steps_left;
            listed
        });
        if let Err(error) = listed {
            self.note(&path, &error);
        }
        outcome?;
        self.spend(1)
    }

    fn note(&mut self, path: &[u8], error: &io::Error) {
        let is_no_directory =
            |error| matches!(error, Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV | Errno::NAMETOOLONG);
        if !Errno::from_io_error(error).is_some_and(is_no_directory) && self.notes.len() < NOTES_MAX {
            self.notes.push(format!("{}: {}", escape(path), describe(error)));
        }
    }

    fn full_path(&self, path: &[u8]) -> Vec<u8> {
        match (path, self.base) {
            ([b'/', ..], _) => path.to_vec(),
            (b"", b"") => b".".to_vec(),
            (_, base) => haul_base::copy::display_path::below(base, path),
        }
    }
}

#[cfg(test)]
#[path = "expansion_tests.rs"]
mod tests;

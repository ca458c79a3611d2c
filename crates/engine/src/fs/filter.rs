//! Filters of a walk: applies the rules, and reads filter files in directories.

use std::io;
use std::sync::Arc;

use haul_base::copy::spec::Symlinks;
use haul_proto::filter::definition::FilterOptions;
use haul_proto::filter::{FilterScope, Matcher, PatternListError, PatternRules};
use haul_proto::limits::{DIRECTORY_FILTER_MAX, OPEN_RULES_MAX};
use haul_proto::path::Name;
use rustix::fs::FileType;

use super::Dir;
use super::listing::ListingChunk;
use super::meta::{FileStat, FollowLinks};

/// The filters of a walk.
#[derive(Debug)]
pub struct WalkFilter {
    matcher: Matcher,
    files: Vec<Name>,
}

/// A filter file in a directory: its name's index, and its contents.
pub type PatternFile = (u8, Vec<u8>);

impl WalkFilter {
    /// The filters; `None` without any.
    pub fn new(filters: &FilterOptions) -> Result<Option<Self>, PatternListError> {
        if filters.is_empty() {
            return Ok(None);
        }
        Ok(Some(Self { matcher: Matcher::new(filters)?, files: filters.files.clone() }))
    }

    /// The matcher for names in directories.
    pub fn matcher(&self) -> &Matcher {
        &self.matcher
    }

    /// Whether everything except directories is excluded.
    pub fn leaves_out_all_files(&self) -> bool {
        self.matcher.leaves_out_all_files()
    }

    /// The filter files in `dir`.
    pub fn patterns_in(&self, dir: &Dir) -> io::Result<Vec<PatternFile>> {
        let mut found = Vec::new();
        for (name, number) in self.files.iter().zip(0..) {
            let text = read(dir, name).map_err(|error| {
                io::Error::new(
                    error.kind(),
                    format!("cannot read its filter file: {name}: {}", haul_base::sys::describe::describe(&error)),
                )
            })?;
            found.extend(text.map(|text| (number, text)));
        }
        Ok(found)
    }

    /// The scope of a directory in `above` with these filter files; `open_rules` counts the rules of all open
    /// directories.
    pub fn scope(
        &self,
        dir: &Dir,
        above: Option<&Arc<FilterScope>>,
        patterns: &[PatternFile],
        open_rules: usize,
    ) -> io::Result<Arc<FilterScope>> {
        let files =
            rules_of(patterns).map_err(|error| io::Error::other(format!("cannot use its filter file: {error}")))?;
        let scope = match (above, dir.name()) {
            (Some(above), Some(name)) => FilterScope::below(Arc::clone(above), name.clone(), files),
            _ => FilterScope::operand(files),
        };
        if scope.own_rules() + open_rules > OPEN_RULES_MAX {
            let text = format!("cannot use its filter file: more than {OPEN_RULES_MAX} rules with those above");
            return Err(io::Error::other(text));
        }
        Ok(Arc::new(scope))
    }

    /// Removes excluded names of known type from a chunk of a listing, and returns them.
    pub(super) fn exclude(&self, scope: &FilterScope, chunk: &mut ListingChunk, symlinks: Symlinks) -> Vec<Name> {
        let mut left_out = Vec::new();
        chunk.retain(|name, kind| {
            let leads_elsewhere = kind == FileType::Symlink && symlinks == Symlinks::Follow;
            if kind == FileType::Unknown || leads_elsewhere {
                return true;
            }
            let is_left_out = self.matcher.leaves_out(scope, name, kind == FileType::Directory);
            // An invalid name is reported later.
            match Name::new(name) {
                Ok(name) if is_left_out => left_out.push(name),
                _ => return true,
            }
            false
        });
        left_out.reverse();
        left_out
    }

    /// Whether a checked entry is excluded: entries of unknown type, and files by size or age.
    pub(super) fn leaves_out(&self, scope: &FilterScope, name: &Name, stat: &FileStat) -> bool {
        let is_directory = stat.kind == FileType::Directory;
        let is_over =
            || stat.kind == FileType::RegularFile && self.matcher.limit(stat.size, stat.meta.modified).is_some();
        self.matcher.leaves_out(scope, name.as_bytes(), is_directory) || is_over()
    }
}

/// The rules of filter files, by the numbers of their names.
pub fn rules_of(patterns: &[PatternFile]) -> Result<Vec<(usize, PatternRules)>, PatternListError> {
    patterns.iter().map(|(number, text)| Ok((usize::from(*number), PatternRules::of_file(text, false)?))).collect()
}

/// Reads a filter file; `None` if it does not exist.
fn read(dir: &Dir, name: &Name) -> io::Result<Option<Vec<u8>>> {
    use std::io::Read;
    let file = match dir.open_file(name, FollowLinks::Itself) {
        Ok((file, _)) => std::fs::File::from(file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut text = Vec::new();
    file.take(DIRECTORY_FILTER_MAX as u64 + 1).read_to_end(&mut text)?;
    if text.len() > DIRECTORY_FILTER_MAX {
        return Err(io::Error::other(format!("larger than {} KiB", DIRECTORY_FILTER_MAX >> 10)));
    }
    Ok(Some(text))
}

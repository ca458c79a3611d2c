//! Filters of a walk: applies the rules, and reads filter files in directories.

use std::io;
use std::sync::Arc;

use haul_base::copy::spec::Symlinks;
use haul_proto::filter::definition::FilterOptions;
use haul_proto::filter::{FilterScope, FilterSide, Matcher, MergedFile, PatternListError, PatternRules, RsyncRules};
use haul_proto::limits::{DIRECTORY_FILTER_MAX, OPEN_RULES_MAX};
use haul_proto::path::Name;
use rustix::fs::FileType;

use super::Dir;
use super::listing::ListingChunk;
use super::meta::{FileStat, FollowLinks};
use super::trusted_links::is_trusted;

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

    /// Whether rsync's rules exclude a source argument with this path in the transfer.
    pub fn hides_operand(&self, path: &[Name], is_directory: bool) -> bool {
        let place = FilterScope::place_of(path.iter().cloned()).filter(|_| self.matcher.is_rsync());
        place.is_some_and(|(above, name)| self.matcher.leaves_out(&above, name.as_bytes(), is_directory))
    }

    /// Whether a source argument with this path in the transfer is excluded, which is no directory: a `file` by its size
    /// and time, too. Filter files do not apply.
    pub fn excludes_operand(&self, path: &[Name], file: Option<&FileStat>) -> bool {
        let exceeds = file.is_some_and(|stat| self.matcher.limit(stat.size, stat.meta.modified).is_some());
        let place = FilterScope::place_of(path.iter().cloned()).filter(|_| !self.matcher.is_rsync());
        exceeds || place.is_some_and(|(above, name)| self.matcher.excludes(&above, name.as_bytes(), false))
    }

    /// Whether an entry with this path below the root, or a directory above it, is excluded. Filter files do not apply.
    pub fn leaves_out_path(&self, path: Vec<Name>, is_directory: bool) -> bool {
        let last = path.len().saturating_sub(1);
        let mut scope = Arc::new(FilterScope::operand(Vec::new()));
        path.into_iter().enumerate().any(|(at, name)| {
            let is_left_out = self.matcher.leaves_out(&scope, name.as_bytes(), is_directory || at < last);
            scope = Arc::new(FilterScope::below(Arc::clone(&scope), name, Vec::new()));
            is_left_out
        })
    }

    /// The filter files in `dir`, below `above`.
    pub fn patterns_in(&self, dir: &Dir, above: Option<&FilterScope>) -> io::Result<Vec<PatternFile>> {
        let mut found = Vec::new();
        if self.matcher.is_rsync() {
            add_merged_files(&self.matcher, dir, above, &mut found)?;
        }
        for (name, number) in self.files.iter().zip(0..) {
            let text = read(dir, name).map_err(|error| unread(name, &error))?;
            found.extend(text.map(|text| (number, text)));
        }
        Ok(found)
    }

    /// The scope of a directory at `place` with these filter files; `open_rules` counts the rules of all open
    /// directories.
    pub fn scope(
        &self,
        place: Option<(Arc<FilterScope>, Name)>,
        patterns: &[PatternFile],
        open_rules: usize,
    ) -> io::Result<Arc<FilterScope>> {
        let files = self
            .matcher
            .rules_of(place.as_ref().map(|(above, _)| &**above), patterns)
            .map_err(|error| io::Error::other(format!("cannot use its filter file: {error}")))?;
        let scope = match place {
            Some((above, name)) => FilterScope::below(above, name, files),
            None => FilterScope::operand(files),
        };
        if scope.own_rules() + open_rules > OPEN_RULES_MAX {
            let text = format!("cannot use its filter file: more than {OPEN_RULES_MAX} rules with those above");
            return Err(io::Error::other(text));
        }
        Ok(Arc::new(scope))
    }

    /// Removes files of rsync's rules that are not copied: the target has its own.
    pub(super) fn withdraw_hidden(&self, scope: &FilterScope, patterns: &mut Vec<PatternFile>) {
        if self.matcher.is_rsync() {
            let merged = self.matcher.merged_files(Some(scope));
            let name = |number: u8| merged.get(usize::from(number)).map_or(&b""[..], |file| file.name.as_bytes());
            patterns.retain(|(number, _)| !self.matcher.leaves_out(scope, name(*number), false));
        }
    }

    /// Removes excluded names of known type from a chunk of a listing, and returns them.
    pub(super) fn exclude(&self, scope: &FilterScope, chunk: &mut ListingChunk, symlinks: Symlinks) -> Vec<Name> {
        let mut left_out = Vec::new();
        chunk.retain(|name, kind| {
            // The target knows them as well.
            if !self.matcher.covers(scope, name) {
                return false;
            }
            let leads_elsewhere = kind == FileType::Symlink && symlinks.follows();
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
        self.matcher.leaves_out(scope, name.as_bytes(), is_directory) || self.is_beyond_limits(stat)
    }

    /// Whether this is a file excluded by size or age.
    pub(super) fn is_beyond_limits(&self, stat: &FileStat) -> bool {
        stat.kind == FileType::RegularFile && self.matcher.limit(stat.size, stat.meta.modified).is_some()
    }
}

/// Adds the files of rsync's rules in `dir`, expanded. One may name others that are read here and below.
pub fn add_merged_files(
    matcher: &Matcher,
    dir: &Dir,
    above: Option<&FilterScope>,
    found: &mut Vec<PatternFile>,
) -> io::Result<()> {
    let mut merged = matcher.merged_files(above);
    let mut number = 0;
    while let Some(MergedFile { name, modifiers }) = merged.get(usize::from(number)).cloned() {
        if let Some(text) = read(dir, &name).map_err(|error| unread(&name, &error))? {
            let mut read_other = |other: &[u8]| {
                let other = other.strip_prefix(b"./").unwrap_or(other);
                let other = Name::new(other).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
                read(dir, &other)?.ok_or_else(|| io::ErrorKind::NotFound.into())
            };
            let expanded = RsyncRules::of_directory(&text, modifiers, &mut read_other).map(|rules| rules.text());
            let expanded = expanded.map_err(|error| unread(&name, &io::Error::other(error.to_string())))?;
            check_size(&expanded).map_err(|error| unread(&name, &error))?;
            let rules = PatternRules::of_rsync(&expanded, &merged, FilterSide::Source).map_err(io::Error::other)?;
            merged.extend(rules.merged_files().iter().cloned());
            found.push((number, expanded));
        }
        number += 1;
    }
    Ok(())
}

fn unread(name: &Name, error: &io::Error) -> io::Error {
    let what = haul_base::sys::describe::describe(error);
    io::Error::new(error.kind(), format!("cannot read its filter file: {name}: {what}"))
}

fn check_size(text: &[u8]) -> io::Result<()> {
    let is_small = text.len() <= DIRECTORY_FILTER_MAX;
    is_small.then_some(()).ok_or_else(|| io::Error::other(format!("larger than {} KiB", DIRECTORY_FILTER_MAX >> 10)))
}

/// Reads a filter file; `None` if it does not exist, or is a link of another user, which may lead anywhere.
fn read(dir: &Dir, name: &Name) -> io::Result<Option<Vec<u8>>> {
    use std::io::Read;
    let file = match dir.open_file(name, FollowLinks::Itself) {
        Ok((file, _)) => std::fs::File::from(file),
        Err(error) if error.kind() == io::ErrorKind::NotFound || is_planted(dir, name)? => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut text = Vec::new();
    file.take(DIRECTORY_FILTER_MAX as u64 + 1).read_to_end(&mut text)?;
    check_size(&text)?;
    Ok(Some(text))
}

fn is_planted(dir: &Dir, name: &Name) -> io::Result<bool> {
    let stat = FileStat::at_name(&*dir.fd()?, name, FollowLinks::Itself)?;
    Ok(stat.kind == FileType::Symlink && !is_trusted(stat.meta.uid))
}

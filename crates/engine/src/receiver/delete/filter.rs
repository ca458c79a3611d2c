//! The filters, as the target applies them to extraneous entries: entries that the source would exclude are kept.
//!
//! The source names its excluded entries. For other names the target decides, by the user's rules and by the filter
//! files from the source's directories.
//!
//! With rsync's rules, the target decides about all names, since rules may apply to one side. A filter file that the
//! source lacks or does not copy is the target's own.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex};

use haul_base::sys::sync::lock;
use haul_proto::entry::{Entry, EntryContent, EntryLocation};
use haul_proto::error::ProtocolError;
use haul_proto::filter::{FilterScope, FilterSide, Matcher, PatternListError};
use haul_proto::ids::EntryId;
use haul_proto::limits::OPEN_RULES_MAX;
use haul_proto::path::Name;
use haul_proto::wire::request::{TargetOperand, TargetRequest};

use crate::fs::{Dir, PatternFile, add_merged_files};

/// The filters of a copy, and the open directories.
pub struct TargetFilter(Option<FilterJudge>);

struct FilterJudge {
    matcher: Matcher,
    /// Number of filter file names.
    files: usize,
    /// Whether the target's own filter files count.
    reads_own: bool,
    /// Paths of source arguments in the transfer.
    operands: Vec<Vec<Name>>,
    open: Mutex<FilteredDirectories>,
}

#[derive(Default)]
struct FilteredDirectories {
    entered: HashMap<EntryId, FilteredDirectory>,
    rules: usize,
}

struct FilteredDirectory {
    scope: Arc<FilterScope>,
    files: Vec<PatternFile>,
}

impl TargetFilter {
    /// Filters from the controller.
    pub fn new(request: &TargetRequest) -> Self {
        let filters = &request.filters;
        if filters.lists.is_empty() && filters.files.is_empty() && filters.changed.is_none() {
            return Self(None);
        }
        let side = FilterSide::Target { deletes_excluded: request.sync.delete_filtered };
        // The decoder has bounded the length of patterns.
        let matcher = Matcher::at(side, filters).unwrap_or_else(|error| panic!("{error}"));
        let operand = |(number, operand): (usize, &TargetOperand)| {
            let below = request.below.get(number).into_iter().flatten();
            below.chain(&operand.name).cloned().collect()
        };
        let operands = request.operands.iter().enumerate().map(operand).collect();
        let reads_own = matcher.is_rsync() && request.sync.deletes();
        Self(Some(FilterJudge { matcher, files: filters.files.len(), reads_own, operands, open: Mutex::default() }))
    }

    /// Whether the rules are rsync's.
    pub fn is_rsync(&self) -> bool {
        self.0.as_ref().is_some_and(|judge| judge.matcher.is_rsync())
    }

    /// Enters an offered directory whose contents will follow; `dir` is the target's.
    ///
    /// # Errors
    /// If a filter file of the target is not valid.
    pub fn enter(&self, id: EntryId, entry: &Entry, dir: Option<&Dir>) -> io::Result<()> {
        let Some(judge) = self.0.as_ref().filter(|_| entry.kind == EntryContent::Directory) else { return Ok(()) };
        let place = judge.place(&entry.place);
        let (scope, files) = judge.own_scope(place, dir)?;
        let mut open = lock(&judge.open);
        open.rules += scope.own_rules();
        open.entered.insert(id, FilteredDirectory { scope, files });
        Ok(())
    }

    /// Adds a filter file to an entered directory, before its contents.
    pub fn add(&self, id: EntryId, file: u8, text: Vec<u8>) -> Result<(), ProtocolError> {
        let unasked = ProtocolError::Unasked("patterns");
        let judge = self.0.as_ref().filter(|judge| judge.matcher.is_rsync() || usize::from(file) < judge.files);
        let judge = judge.ok_or(unasked)?;
        let mut open = lock(&judge.open);
        let FilteredDirectories { entered, rules: count } = &mut *open;
        let late = ProtocolError::OutOfTurn("patterns");
        let is_unused = |directory: &&mut FilteredDirectory| Arc::strong_count(&directory.scope) == 1;
        let FilteredDirectory { scope, files } = entered.get_mut(&id).filter(is_unused).ok_or(late)?;
        *count -= scope.own_rules();
        files.retain(|(own, _)| *own != file);
        files.push((file, text));
        files.sort_by_key(|(number, _)| *number);
        *scope = judge.scope(scope.place(), files).map_err(|_| ProtocolError::OverLimit("a pattern"))?;
        *count += scope.own_rules();
        if *count > OPEN_RULES_MAX { Err(ProtocolError::OverLimit("rules")) } else { Ok(()) }
    }

    /// Leaves a complete directory. Returns its scope, which finds the excluded names in it.
    pub fn leave(&self, id: EntryId) -> Option<Arc<FilterScope>> {
        let mut open = lock(&self.0.as_ref()?.open);
        let scope = open.entered.remove(&id)?.scope;
        open.rules -= scope.own_rules();
        Some(scope)
    }

    /// The scope of an open directory.
    pub fn scope_in(&self, id: EntryId) -> Option<Arc<FilterScope>> {
        self.0.as_ref()?.scope_in(id)
    }

    /// The scope of an entry as a directory; its parent must be open.
    pub fn scope_of(&self, place: &EntryLocation) -> Option<Arc<FilterScope>> {
        let judge = self.0.as_ref()?;
        let is_known = |id: &EntryId| judge.scope_in(*id).is_some();
        let is_open = !matches!(place, EntryLocation::Child { parent, .. } if !is_known(parent));
        is_open.then(|| judge.scope(judge.place(place), &[]).ok()).flatten()
    }

    /// The scope of an extraneous directory, with the filter files in it.
    ///
    /// # Errors
    /// If one of them is not valid.
    pub fn scope_within(&self, scope: Arc<FilterScope>, dir: &Dir) -> io::Result<Arc<FilterScope>> {
        match self.0.as_ref().filter(|judge| judge.reads_own) {
            Some(judge) => Ok(judge.own_scope(scope.place(), Some(dir))?.0),
            None => Ok(scope),
        }
    }

    /// Whether a name in the directory of `scope` is excluded.
    pub fn leaves_out(&self, scope: Option<&Arc<FilterScope>>, name: &Name, is_directory: bool) -> bool {
        let Some((judge, scope)) = self.0.as_ref().zip(scope) else { return false };
        judge.matcher.leaves_out(scope, name.as_bytes(), is_directory)
    }

    /// The same for a name in a directory that is removed.
    pub fn leaves_out_of_removed(&self, scope: Option<&Arc<FilterScope>>, name: &Name, is_directory: bool) -> bool {
        let Some((judge, scope)) = self.0.as_ref().zip(scope) else { return false };
        judge.matcher.leaves_out_of_removed(scope, name.as_bytes(), is_directory)
    }
}

impl FilterJudge {
    fn scope_in(&self, id: EntryId) -> Option<Arc<FilterScope>> {
        lock(&self.open).entered.get(&id).map(|directory| Arc::clone(&directory.scope))
    }

    /// The directory above an entry, and its name there.
    fn place(&self, place: &EntryLocation) -> Option<(Arc<FilterScope>, Name)> {
        match place {
            EntryLocation::Child { parent, name } => Some((self.scope_in(*parent)?, name.clone())),
            EntryLocation::Operand(number) if self.matcher.is_rsync() => {
                FilterScope::place_of(self.operands.get(*number as usize)?.iter().cloned())
            }
            EntryLocation::Operand(_) | EntryLocation::Again(_) => None,
        }
    }

    fn scope(
        &self,
        place: Option<(Arc<FilterScope>, Name)>,
        files: &[PatternFile],
    ) -> Result<Arc<FilterScope>, PatternListError> {
        let rules = self.matcher.rules_of(place.as_ref().map(|(above, _)| &**above), files)?;
        Ok(Arc::new(match place {
            Some((above, name)) => FilterScope::below(above, name, rules),
            None => FilterScope::operand(rules),
        }))
    }

    /// The scope of a directory of the target with the filter files in it, where they count.
    fn own_scope(
        &self,
        place: Option<(Arc<FilterScope>, Name)>,
        dir: Option<&Dir>,
    ) -> io::Result<(Arc<FilterScope>, Vec<PatternFile>)> {
        let mut files = Vec::new();
        if let Some(dir) = dir.filter(|_| self.reads_own) {
            add_merged_files(&self.matcher, dir, place.as_ref().map(|(above, _)| &**above), &mut files)?;
        }
        let scope = self.scope(place, &files).map_err(io::Error::other)?;
        let all = std::iter::successors(Some(&scope), |scope| scope.above());
        match files.is_empty() || all.map(|scope| scope.own_rules()).sum::<usize>() <= OPEN_RULES_MAX {
            true => Ok((scope, files)),
            false => Err(io::Error::other(format!("more than {OPEN_RULES_MAX} filter rules with those above"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use haul_proto::entry::EntryMetadata;
    use haul_proto::filter::definition::FilterOptions;
    use haul_proto::filter::{ListSyntax, PatternList};
    use haul_proto::wire::samples;

    use super::*;

    fn name(text: &str) -> Name {
        Name::new(text.as_bytes()).unwrap()
    }

    fn directory(place: EntryLocation) -> Entry {
        Entry { place, kind: EntryContent::Directory, meta: EntryMetadata::default(), version: None, more: None }
    }

    fn filtered() -> TargetFilter {
        let list = PatternList { text: b"/a/x".to_vec(), syntax: ListSyntax::Pattern, includes: false };
        let filters = FilterOptions { lists: vec![list], files: vec![name(".f")], ..FilterOptions::default() };
        let filtered = TargetFilter::new(&TargetRequest { filters, ..samples::target_request() });
        filtered.enter(EntryId(0), &directory(EntryLocation::Operand(0)), None).unwrap();
        filtered
    }

    fn enter_a(filtered: &TargetFilter) {
        filtered
            .enter(EntryId(1), &directory(EntryLocation::Child { parent: EntryId(0), name: name("a") }), None)
            .unwrap();
    }

    #[test]
    fn command_line_and_directory_patterns_exclude() {
        let filtered = filtered();
        filtered.add(EntryId(0), 0, b"*.o\n".to_vec()).unwrap();
        enter_a(&filtered);
        let inner = filtered.leave(EntryId(1));
        let inner = |text, is_directory| filtered.leaves_out(inner.as_ref(), &name(text), is_directory);
        assert!(inner("x", false) && inner("y.o", false) && !inner("y", false));
        let outer = filtered.leave(EntryId(0));
        let outer = |text, is_directory| filtered.leaves_out(outer.as_ref(), &name(text), is_directory);
        assert!(!outer("x", false) && outer("y.o", true));
        assert_eq!(lock(&filtered.0.as_ref().unwrap().open).rules, 0);
    }

    #[test]
    fn late_and_unwanted_patterns_are_faults() {
        let filtered = filtered();
        let add = |id, file: u8, text: &str| filtered.add(EntryId(id), file, text.into());
        assert!(add(0, 1, "a").is_err() && add(7, 0, "a").is_err());
        assert!(add(0, 0, "a").is_ok());
        enter_a(&filtered);
        assert!(add(0, 0, "a").is_err());
        assert!(TargetFilter::new(&samples::target_request()).add(EntryId(0), 0, Vec::new()).is_err());
    }

    #[test]
    fn a_source_cannot_fill_the_memory_with_rules() {
        let filtered = filtered();
        let lines = "a\n".repeat(32 << 10);
        let add = |at: u64| {
            let parent = EntryId(at);
            let place = EntryLocation::Child { parent, name: name("a") };
            filtered.enter(EntryId(at + 1), &directory(place), None).unwrap();
            filtered.add(EntryId(at + 1), 0, lines.clone().into())
        };
        assert_eq!((0..).find(|at| add(*at).is_err()), Some(OPEN_RULES_MAX as u64 / (32 << 10)));
    }
}

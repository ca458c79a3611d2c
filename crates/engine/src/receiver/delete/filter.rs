//! The filters, as the target applies them to extraneous entries: entries that the source would exclude are kept.
//!
//! The source names its excluded entries. For other names the target decides, by the user's rules and by the filter
//! files from the source's directories.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use haul_base::sys::sync::lock;
use haul_proto::entry::{Entry, EntryContent, EntryLocation};
use haul_proto::error::ProtocolError;
use haul_proto::filter::definition::FilterOptions;
use haul_proto::filter::{FilterScope, Matcher};
use haul_proto::ids::EntryId;
use haul_proto::limits::OPEN_RULES_MAX;
use haul_proto::path::Name;

use crate::fs::rules_of;

/// The filters of a copy, and the open directories.
pub struct TargetFilter(Option<FilterJudge>);

struct FilterJudge {
    matcher: Matcher,
    /// Number of filter file names.
    files: usize,
    open: Mutex<FilteredDirectory>,
}

#[derive(Default)]
struct FilteredDirectory {
    scopes: HashMap<EntryId, Arc<FilterScope>>,
    rules: usize,
}

impl TargetFilter {
    /// Filters from the controller.
    pub fn new(filters: &FilterOptions) -> Self {
        // The decoder has bounded the length of patterns.
        let matcher = || Matcher::new(filters).unwrap_or_else(|error| panic!("{error}"));
        let is_wanted = !(filters.lists.is_empty() && filters.files.is_empty());
        Self(is_wanted.then(|| FilterJudge { matcher: matcher(), files: filters.files.len(), open: Mutex::default() }))
    }

    /// Enters an offered directory whose contents will follow.
    pub fn enter(&self, id: EntryId, entry: &Entry) {
        let Some(judge) = self.0.as_ref().filter(|_| entry.kind == EntryContent::Directory) else { return };
        let mut open = lock(&judge.open);
        let above = match &entry.place {
            EntryLocation::Child { parent, name } => {
                open.scopes.get(parent).map(|above| (Arc::clone(above), name.clone()))
            }
            EntryLocation::Operand(_) | EntryLocation::Again(_) => None,
        };
        let scope =
            above.map_or_else(FilterScope::default, |(above, name)| FilterScope::below(above, name, Vec::new()));
        open.scopes.insert(id, Arc::new(scope));
    }

    /// Adds a filter file to an entered directory, before its contents.
    pub fn add(&self, id: EntryId, file: u8, text: Vec<u8>) -> Result<(), ProtocolError> {
        let unasked = ProtocolError::Unasked("patterns");
        let judge = self.0.as_ref().filter(|judge| usize::from(file) < judge.files).ok_or(unasked)?;
        let rules = rules_of(&[(file, text)]).map_err(|_| ProtocolError::OverLimit("a pattern"))?;
        let mut open = lock(&judge.open);
        let FilteredDirectory { scopes, rules: count } = &mut *open;
        let late = ProtocolError::OutOfTurn("patterns");
        let scope = scopes.get_mut(&id).and_then(Arc::get_mut).ok_or(late)?;
        for (number, rules) in rules {
            *count += rules.count();
            if *count > OPEN_RULES_MAX {
                return Err(ProtocolError::OverLimit("rules"));
            }
            scope.add(number, rules);
        }
        Ok(())
    }

    /// Leaves a complete directory. Returns its scope, which finds the excluded names in it.
    pub fn leave(&self, id: EntryId) -> Option<Arc<FilterScope>> {
        let mut open = lock(&self.0.as_ref()?.open);
        let scope = open.scopes.remove(&id)?;
        open.rules -= scope.own_rules();
        Some(scope)
    }

    /// The scope of an open directory.
    pub fn scope_in(&self, id: EntryId) -> Option<Arc<FilterScope>> {
        lock(&self.0.as_ref()?.open).scopes.get(&id).map(Arc::clone)
    }

    /// The scope of an entry as a directory; its parent must be open.
    pub fn scope_of(&self, place: &EntryLocation) -> Option<Arc<FilterScope>> {
        let judge = self.0.as_ref()?;
        match place {
            EntryLocation::Child { parent, name } => {
                let above = Arc::clone(lock(&judge.open).scopes.get(parent)?);
                Some(Arc::new(FilterScope::below(above, name.clone(), Vec::new())))
            }
            EntryLocation::Operand(_) | EntryLocation::Again(_) => Some(Arc::default()),
        }
    }

    /// Whether a name in the directory of `scope` is excluded.
    pub fn leaves_out(&self, scope: Option<&Arc<FilterScope>>, name: &Name, is_directory: bool) -> bool {
        let Some((judge, scope)) = self.0.as_ref().zip(scope) else { return false };
        judge.matcher.leaves_out(scope, name.as_bytes(), is_directory)
    }
}

#[cfg(test)]
mod tests {
    use haul_proto::entry::EntryMetadata;
    use haul_proto::filter::PatternList;

    use super::*;

    fn name(text: &str) -> Name {
        Name::new(text.as_bytes()).unwrap()
    }

    fn directory(place: EntryLocation) -> Entry {
        Entry { place, kind: EntryContent::Directory, meta: EntryMetadata::default(), version: None, more: None }
    }

    fn filtered() -> TargetFilter {
        let list = PatternList { text: b"/a/x".to_vec(), is_file: false, includes: false };
        let filtered = TargetFilter::new(&FilterOptions {
            lists: vec![list],
            files: vec![name(".f")],
            ..FilterOptions::default()
        });
        filtered.enter(EntryId(0), &directory(EntryLocation::Operand(0)));
        filtered
    }

    fn enter_a(filtered: &TargetFilter) {
        filtered.enter(EntryId(1), &directory(EntryLocation::Child { parent: EntryId(0), name: name("a") }));
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
        assert!(TargetFilter::new(&FilterOptions::default()).add(EntryId(0), 0, Vec::new()).is_err());
    }

    #[test]
    fn a_source_cannot_fill_the_memory_with_rules() {
        let filtered = filtered();
        let lines = "a\n".repeat(32 << 10);
        let until = (0..).find(|_| filtered.add(EntryId(0), 0, lines.clone().into()).is_err()).unwrap();
        assert_eq!(until, OPEN_RULES_MAX / (32 << 10));
    }
}

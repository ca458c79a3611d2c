//! A directory as seen by filters: its path below a source argument, and the filter files that apply in it.

use std::cell::OnceCell;
use std::sync::Arc;

use super::RuleOrigin;
use super::rules::{AskedName, MergedFile, PatternRule, PatternRules};
use crate::path::Name;

/// A directory of a walk, with those above it up to the source argument.
#[derive(Debug, Default)]
pub struct FilterScope {
    above: Option<ParentScope>,
    /// Rules of its own filter files, by the index of the file's name.
    files: Vec<(usize, PatternRules)>,
}

#[derive(Debug)]
struct ParentScope {
    scope: Arc<FilterScope>,
    name: Name,
}

impl FilterScope {
    /// Creates the scope of a source argument.
    pub fn operand(files: Vec<(usize, PatternRules)>) -> Self {
        Self { above: None, files }
    }

    /// Creates the scope of the directory `name` in that of `above`.
    pub fn below(above: Arc<Self>, name: Name, files: Vec<(usize, PatternRules)>) -> Self {
        Self { above: Some(ParentScope { scope: above, name }), files }
    }

    /// Returns the directory above and the name of what has this path; `None` for the root.
    pub fn place_of(path: impl IntoIterator<Item = Name>) -> Option<(Arc<Self>, Name)> {
        path.into_iter().fold(None, |above, name| {
            let scope = above.map_or_else(Self::default, |(above, name)| Self::below(above, name, Vec::new()));
            Some((Arc::new(scope), name))
        })
    }

    /// Returns the directory above, and the name there; `None` for the root.
    pub fn place(&self) -> Option<(Arc<Self>, Name)> {
        self.above.as_ref().map(|above| (Arc::clone(&above.scope), above.name.clone()))
    }

    /// Returns the number of rules in its own filter files.
    pub fn own_rules(&self) -> usize {
        self.files.iter().map(|(_, rules)| rules.count()).sum()
    }

    /// Returns the parent directory; `None` for a source argument.
    pub fn above(&self) -> Option<&Arc<Self>> {
        self.above.as_ref().map(|above| &above.scope)
    }

    /// Returns the path of a name in it, built on demand.
    pub(super) fn lazy_path<'s>(&'s self, name: &'s [u8]) -> LazyPath<'s> {
        LazyPath { scope: self, name, whole: OnceCell::new() }
    }

    /// Adds the files of rsync's rules that are read in this directory and below, in the order of their numbers.
    pub(super) fn add_merged(&self, all: &mut Vec<MergedFile>) {
        let above = std::iter::successors(Some(self), |scope| scope.above().map(|above| &**above));
        let mut own: Vec<_> =
            above.map(|scope| scope.files.iter().flat_map(|(_, rules)| rules.merged_files())).collect();
        own.reverse();
        all.extend(own.into_iter().flatten().cloned());
    }

    /// Returns the deciding one of rsync's rules. `place` is what they come from, and their directory's `len`, as
    /// [`PatternRules::first`] has it.
    pub(super) fn decide_rsync<'r>(
        &'r self,
        rules: &'r PatternRules,
        (origin, len): (RuleOrigin, Option<usize>),
        asked: &AskedName<'_>,
    ) -> Option<(RuleOrigin, &'r PatternRule)> {
        rules.first(
            asked,
            len,
            |rule| (origin, rule),
            |number, is_inherited| self.decide_merged(number, is_inherited, asked),
        )
    }

    /// Returns the deciding rule of the files with this number, the innermost first.
    fn decide_merged(
        &self,
        number: usize,
        is_inherited: bool,
        asked: &AskedName<'_>,
    ) -> Option<(RuleOrigin, &PatternRule)> {
        let (mut scope, mut above, mut len) = (self, 0, asked.name.len());
        loop {
            for (_, rules) in scope.files.iter().filter(|(file, _)| *file == number) {
                let place = (RuleOrigin::File { above, number }, Some(len));
                let found = self.decide_rsync(rules, place, asked);
                if found.is_some() || rules.is_cleared {
                    return found;
                }
            }
            let ParentScope { scope: next, name } = scope.above.as_ref().filter(|_| is_inherited)?;
            (scope, above, len) = (next, above + 1, len + 1 + name.as_bytes().len());
        }
    }

    /// Returns the deciding rule of the filter files, the innermost first.
    pub(super) fn decide(
        &self,
        path: &LazyPath<'_>,
        name: &[u8],
        is_directory: bool,
    ) -> Option<(RuleOrigin, &PatternRule)> {
        let (mut scope, mut above, mut len) = (self, 0, name.len());
        loop {
            for (number, rules) in &scope.files {
                if let Some(rule) = rules.decide(|| path.last(len), name, is_directory) {
                    return Some((RuleOrigin::File { above, number: *number }, rule));
                }
            }
            let ParentScope { scope: next, name } = scope.above.as_ref()?;
            (scope, above, len) = (next, above + 1, len + 1 + name.as_bytes().len());
        }
    }
}

impl Drop for FilterScope {
    /// Drops iteratively: a chain of directories may be deeper than the stack permits.
    fn drop(&mut self) {
        let mut above = self.above.take();
        while let Some(ParentScope { scope, .. }) = above {
            above = Arc::into_inner(scope).and_then(|mut scope| scope.above.take());
        }
    }
}

/// A path from the source argument down, built when the first rule needs it.
pub(super) struct LazyPath<'s> {
    scope: &'s FilterScope,
    name: &'s [u8],
    whole: OnceCell<Vec<u8>>,
}

impl LazyPath<'_> {
    /// Returns the whole path.
    pub fn whole(&self) -> &[u8] {
        self.whole.get_or_init(|| {
            let mut names = vec![self.name];
            let mut scope = self.scope;
            while let Some(ParentScope { scope: next, name }) = &scope.above {
                names.push(name.as_bytes());
                scope = next;
            }
            names.reverse();
            names.join(&b'/')
        })
    }

    /// Returns its last bytes.
    fn last(&self, len: usize) -> &[u8] {
        let whole = self.whole();
        &whole[whole.len().saturating_sub(len)..]
    }
}

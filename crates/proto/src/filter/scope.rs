//! A directory as seen by filters: its path below a source argument, and the filter files that apply in it.

use std::cell::OnceCell;
use std::sync::Arc;

use super::RuleOrigin;
use super::rules::{PatternRule, PatternRules};
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

    /// Adds a filter file of this directory.
    pub fn add(&mut self, file: usize, rules: PatternRules) {
        self.files.push((file, rules));
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

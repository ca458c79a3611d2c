//! A directory, as filters see it: where it is below an operand, and which files with patterns hold in it.

use std::cell::OnceCell;
use std::sync::Arc;

use super::RuleOrigin;
use super::rules::{PatternRule, PatternRules};
use crate::path::Name;

/// A directory that a walk is in, and those above it up to the operand.
#[derive(Debug, Default)]
pub struct FilterScope {
    above: Option<ParentScope>,
    /// The rules of its own files, by the number of the file's name.
    files: Vec<(usize, PatternRules)>,
}

#[derive(Debug)]
struct ParentScope {
    scope: Arc<FilterScope>,
    name: Name,
}

impl FilterScope {
    /// The directory that an operand is.
    pub fn operand(files: Vec<(usize, PatternRules)>) -> Self {
        Self { above: None, files }
    }

    /// The directory `name` in that of `above`.
    pub fn below(above: Arc<Self>, name: Name, files: Vec<(usize, PatternRules)>) -> Self {
        Self { above: Some(ParentScope { scope: above, name }), files }
    }

    /// One more file with patterns lies in it.
    pub fn add(&mut self, file: usize, rules: PatternRules) {
        self.files.push((file, rules));
    }

    /// How many rules its own files have.
    pub fn own_rules(&self) -> usize {
        self.files.iter().map(|(_, rules)| rules.count()).sum()
    }

    /// The directory that this one is in; `None` for an operand.
    pub fn above(&self) -> Option<&Arc<Self>> {
        self.above.as_ref().map(|above| &above.scope)
    }

    /// The way to a name in it, for whoever asks.
    pub(super) fn lazy_path<'s>(&'s self, name: &'s [u8]) -> LazyPath<'s> {
        LazyPath { scope: self, name, whole: OnceCell::new() }
    }

    /// What the files say, the innermost first.
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
    /// One after the other: a chain of directories may be longer than a stack is deep.
    fn drop(&mut self) {
        let mut above = self.above.take();
        while let Some(ParentScope { scope, .. }) = above {
            above = Arc::into_inner(scope).and_then(|mut scope| scope.above.take());
        }
    }
}

/// A path from the operand down, put together when the first rule wants it.
pub(super) struct LazyPath<'s> {
    scope: &'s FilterScope,
    name: &'s [u8],
    whole: OnceCell<Vec<u8>>,
}

impl LazyPath<'_> {
    /// All of it.
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

    /// Its last bytes.
    fn last(&self, len: usize) -> &[u8] {
        let whole = self.whole();
        &whole[whole.len().saturating_sub(len)..]
    }
}

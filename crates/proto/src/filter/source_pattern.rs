//! Patterns of source paths, by the shell's rules: braces make alternatives, and in each component `*`, `?` and `[...]`
//! match as in filters. They match neither a slash nor a leading dot. A backslash makes the next byte literal.
//!
//! The host of the sources expands patterns, and the controller compares its answers with the same patterns.

use super::class;
use super::pattern::{PATTERN_MAX, Pattern};
use crate::limits::PATTERN_ALTERNATIVES_MAX;
use crate::path::Name;

/// A source path that is a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourcePattern {
    /// As typed. An entry of this name is meant, where there is one.
    pub typed: Vec<u8>,
    /// The patterns that its braces stand for, in their order.
    pub alternatives: Vec<PathPattern>,
}

/// A pattern without braces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathPattern {
    text: Vec<u8>,
    components: Vec<PatternComponent>,
}

/// A component of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PatternComponent {
    /// This name; also `.` and `..`.
    Name(Vec<u8>),
    /// All names that match.
    Wildcard {
        /// The pattern.
        pattern: Pattern,
        /// Bytes of the pattern.
        len: usize,
        /// Whether it begins with a dot, and so matches names that do.
        is_hidden: bool,
    },
}

/// A pattern that cannot be expanded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SourcePatternError {
    /// The braces of all patterns stand for too many alternatives.
    #[error("the sources stand for more than {PATTERN_ALTERNATIVES_MAX} patterns\nname the paths in a list (-I)")]
    Alternatives,
    /// A pattern is too long.
    #[error("a pattern of a source is longer than {PATTERN_MAX} bytes\nname the paths in a list (-I)")]
    Length,
}

/// Whether a path may be a pattern.
pub fn has_wildcards(path: &[u8]) -> bool {
    path.iter().any(|byte| b"*?[{".contains(byte))
}

impl SourcePattern {
    /// Parses all patterns of a copy, which share the limit of alternatives.
    pub fn parse_all<'a>(typed: impl IntoIterator<Item = &'a [u8]>) -> Result<Vec<Self>, SourcePatternError> {
        let mut left = PATTERN_ALTERNATIVES_MAX;
        let parse = |typed: &[u8]| {
            if typed.len() > PATTERN_MAX {
                return Err(SourcePatternError::Length);
            }
            let texts = expand_braces(typed, left).ok_or(SourcePatternError::Alternatives)?;
            left -= texts.len();
            let alternatives = texts.into_iter().map(PathPattern::new).collect::<Result<_, _>>()?;
            Ok(Self { typed: typed.to_vec(), alternatives })
        };
        typed.into_iter().map(parse).collect()
    }
}

impl PathPattern {
    fn new(text: Vec<u8>) -> Result<Self, SourcePatternError> {
        let components = names(&text).map(PatternComponent::new).collect::<Result<_, _>>()?;
        Ok(Self { text, components })
    }

    /// The components.
    pub fn components(&self) -> &[PatternComponent] {
        &self.components
    }

    /// What stands before the components: a slash, or nothing.
    pub fn root(&self) -> &'static [u8] {
        if self.text.starts_with(b"/") { b"/" } else { b"" }
    }

    /// Whether it matches directories alone.
    pub fn has_final_slash(&self) -> bool {
        self.text.ends_with(b"/")
    }

    /// Whether it matches this path, whose names are separated by single slashes.
    pub fn matches(&self, path: &[u8]) -> bool {
        path.starts_with(b"/") == self.text.starts_with(b"/")
            && path.ends_with(b"/") == self.text.ends_with(b"/")
            && !path.windows(2).any(|pair| pair == b"//")
            && names(path).count() == self.components.len()
            && names(path).zip(&self.components).all(|(name, component)| component.matches(name))
    }

    /// The path that it stands for where nothing matches: without wildcards, the path; otherwise the pattern.
    pub fn unmatched(&self) -> Vec<u8> {
        let is_name = |component: &PatternComponent| matches!(component, PatternComponent::Name(_));
        if self.components.iter().all(is_name) { unescaped(&self.text) } else { self.text.clone() }
    }
}

impl PatternComponent {
    fn new(text: &[u8]) -> Result<Self, SourcePatternError> {
        let (mut pattern, mut is_wildcard, mut rest) = (Vec::with_capacity(text.len()), false, text);
        while let Some((&byte, after)) = rest.split_first() {
            let end = match (byte, after) {
                // It stood before a slash.
                (b'\\', []) => break,
                (b'\\', [_, after @ ..]) => after,
                (b'[', _) => match class::read(after) {
                    Some((_, after)) => {
                        is_wildcard = true;
                        after
                    }
                    // The shell takes an unterminated set literally.
                    None => {
                        pattern.push(b'\\');
                        after
                    }
                },
                _ => {
                    is_wildcard |= b"*?".contains(&byte);
                    after
                }
            };
            pattern.extend_from_slice(&rest[..rest.len() - end.len()]);
            rest = end;
        }
        match (is_wildcard, pattern.len()) {
            (false, _) => Ok(Self::Name(unescaped(text))),
            (true, len) if len > PATTERN_MAX => Err(SourcePatternError::Length),
            (true, len) => {
                let is_hidden = text.starts_with(b".") || text.starts_with(b"\\.");
                Ok(Self::Wildcard { pattern: Pattern::new(&pattern), len, is_hidden })
            }
        }
    }

    /// Whether it matches this name.
    pub fn matches(&self, name: &[u8]) -> bool {
        match self {
            Self::Name(own) => own == name,
            Self::Wildcard { pattern, is_hidden, .. } => {
                (*is_hidden || !name.starts_with(b".")) && Name::new(name).is_ok() && pattern.matches(name)
            }
        }
    }
}

fn names(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|byte| *byte == b'/').filter(|name| !name.is_empty())
}

/// Removes backslashes before other bytes.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut is_escaped = false;
    let mut is_kept = |byte: &u8| {
        is_escaped = *byte == b'\\' && !is_escaped;
        !is_escaped
    };
    text.iter().copied().filter(|byte| is_kept(byte)).collect()
}

/// Returns the alternatives of the shell's braces, in order; `None` if there are more than `most`.
fn expand_braces(text: &[u8], most: usize) -> Option<Vec<Vec<u8>>> {
    let opening = |at: &usize| text[*at] == b'{' && !is_escaped(text, *at);
    let found = (0..text.len()).filter(opening).find_map(|start| Some((start, brace_parts(text, start)?)));
    let Some((start, (parts, end))) = found else {
        return (most > 0).then(|| vec![text.to_vec()]);
    };
    let endings = expand_braces(&text[end..], most)?;
    let mut expanded = Vec::new();
    for part in parts {
        for middle in expand_braces(part, most)? {
            if expanded.len() + endings.len() > most {
                return None;
            }
            expanded.extend(endings.iter().map(|ending| [&text[..start], &middle, ending].concat()));
        }
    }
    Some(expanded)
}

fn is_escaped(text: &[u8], at: usize) -> bool {
    text[..at].iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 1
}

/// Returns the parts between the brace at `start` and its closing brace, and the end; `None` if it stands for itself.
fn brace_parts(text: &[u8], start: usize) -> Option<(Vec<&[u8]>, usize)> {
    let (mut parts, mut begin, mut depth, mut at) = (Vec::new(), start + 1, 0, start + 1);
    while let Some(byte) = text.get(at) {
        match byte {
            b'\\' => at += 1,
            b'{' => depth += 1,
            b'}' if depth > 0 => depth -= 1,
            b'}' if parts.is_empty() => return None,
            b'}' => {
                parts.push(&text[begin..at]);
                return Some((parts, at + 1));
            }
            b',' if depth == 0 => {
                parts.push(&text[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    None
}

#[cfg(test)]
#[path = "source_pattern_tests.rs"]
mod tests;

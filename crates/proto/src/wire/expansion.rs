//! Expansion of patterns by the host of the sources, before a Request.

use crate::codec::{OfType, wire_struct};
use crate::field_codecs::{BoundedBytes, DefaultIsNone, PATH, list};
use crate::filter::PATTERN_MAX;
use crate::limits::{PATTERN_ALTERNATIVES_MAX, PATTERN_MATCHES_MAX};

wire_struct! {
    /// Patterns of sources ([`crate::filter::source_pattern`]).
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ExpandRequest {
        /// Base directory of relative patterns. It is no pattern.
        pub base: Option<Vec<u8>> as DefaultIsNone(PATH),
        /// Patterns as typed.
        pub patterns: Vec<Vec<u8>> as list(
            BoundedBytes(PATTERN_MAX, "a pattern of a source"), PATTERN_ALTERNATIVES_MAX, "patterns of sources"
        ),
    }
}

wire_struct! {
    /// Existing paths that match.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ExpandedPatterns {
        /// The matches, in the order of patterns, alternatives and names.
        pub matches: Vec<PatternMatch> as list(OfType, PATTERN_MATCHES_MAX, "matches of patterns"),
    }
}

wire_struct! {
    /// A path that matches a pattern.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct PatternMatch {
        /// Number of the pattern in the request.
        pub pattern: u16,
        /// Number of the alternative that its braces stand for.
        pub alternative: u16,
        /// The path; the pattern itself, as typed, where an entry has this name.
        pub path: Vec<u8> as PATH,
    }
}

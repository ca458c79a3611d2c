//! Filter options, sent by the controller to both ends: patterns as typed, names of filter files, and limits.
//! [`crate::filter`] defines their meaning.

use crate::codec::{FieldCodec, OfType, wire_struct};
use crate::encoding::{Decoded, Reader, Writer};
use crate::error::ProtocolError;
use crate::field_codecs::list;
use crate::filter::{ListSyntax, PatternList, PatternRules};
use crate::limits::{FILTER_FILE_MAX, FILTER_LISTS_MAX, FILTER_NAMES_MAX, FILTERS_BYTES_MAX};
use crate::path::Name;
use crate::watch::ChangedPaths;

wire_struct! {
    /// Entries to exclude. None by default.
    #[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
    pub struct FilterOptions {
        /// Patterns in order of precedence: the first list with a match decides.
        pub lists: Vec<PatternList> as PatternLists,
        /// Names of per-directory filter files. Their patterns apply in their directory and below.
        pub files: Vec<Name> as list(OfType, FILTER_NAMES_MAX, "names of files with patterns"),
        /// Limits of files.
        pub limits: FileLimits,
        /// The only paths to look at. Everything else stays as it is, at both ends.
        pub changed: Option<ChangedPaths>,
    } checked by check_alone
}

fn check_alone(filters: &FilterOptions) -> Decoded<()> {
    let is_alone = filters.lists.len() == 1 && filters.files.is_empty() && filters.changed.is_none();
    let is_valid = is_alone || !filters.has_rsync_rules();
    if is_valid { Ok(()) } else { Err(ProtocolError::Invalid("rules of rsync with other patterns")) }
}

wire_struct! {
    /// Limits of files. They do not apply to directories and links.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
    pub struct FileLimits {
        /// Least size in bytes.
        pub min_size: Option<u64>,
        /// Largest size in bytes.
        pub max_size: Option<u64>,
        /// Earliest time of last modification, in seconds since 1970-01-01 UTC.
        pub newer_s: Option<i64>,
        /// End (exclusive) of the time of last modification.
        pub older_s: Option<i64>,
    }
}

impl FilterOptions {
    /// Whether nothing is excluded.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether the patterns are rsync's rules, which a worker without [`Features::RSYNC_RULES`] does not know.
    ///
    /// [`Features::RSYNC_RULES`]: crate::feature::Features::RSYNC_RULES
    pub fn has_rsync_rules(&self) -> bool {
        self.lists.iter().any(|list| list.syntax == ListSyntax::Rsync)
    }
}

/// Lists of limited total size, each of which can be parsed.
struct PatternLists;

impl FieldCodec<Vec<PatternList>> for PatternLists {
    fn encode(&self, lists: &Vec<PatternList>, out: &mut Writer) {
        out.count(lists.len());
        for PatternList { text, syntax, includes } in lists {
            let syntax = match syntax {
                ListSyntax::Pattern => 0,
                ListSyntax::File => 1,
                ListSyntax::Rsync => 2,
            };
            out.bytes(text).u8(syntax).bool(*includes);
        }
    }

    fn decode(&self, reader: &mut Reader<'_>) -> Decoded<Vec<PatternList>> {
        let (mut lists, mut bytes_left) = (Vec::new(), FILTERS_BYTES_MAX);
        for _ in 0..reader.count(FILTER_LISTS_MAX, "lists of patterns")? {
            let text = reader.bytes(FILTER_FILE_MAX.min(bytes_left), "patterns")?.to_vec();
            bytes_left -= text.len();
            let syntax = match reader.u8()? {
                0 => ListSyntax::Pattern,
                1 => ListSyntax::File,
                2 => ListSyntax::Rsync,
                _ => return Err(ProtocolError::Invalid("syntax of patterns")),
            };
            let list = PatternList { text, syntax, includes: reader.bool()? };
            PatternRules::of(&list).map_err(|_| ProtocolError::OverLimit("a pattern"))?;
            lists.push(list);
        }
        Ok(lists)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::tests::check_round_trip;
    use crate::codec::{from_bytes, to_bytes};
    use crate::filter::PATTERN_MAX;
    use crate::watch::ChangedPath;

    fn resent(filters: &FilterOptions) -> Decoded<FilterOptions> {
        from_bytes(&to_bytes(filters))
    }

    fn list(text: &[u8], is_file: bool) -> FilterOptions {
        let syntax = if is_file { ListSyntax::File } else { ListSyntax::Pattern };
        let lists = vec![PatternList { text: text.to_vec(), syntax, includes: false }];
        FilterOptions { lists, ..FilterOptions::default() }
    }

    #[test]
    fn definitions_round_trip() {
        let filters = FilterOptions {
            lists: vec![
                PatternList { text: b"*.o".to_vec(), syntax: ListSyntax::Pattern, includes: false },
                PatternList { text: b"# all\n!a\n".to_vec(), syntax: ListSyntax::File, includes: true },
            ],
            files: vec![Name::new(b".haulignore").unwrap()],
            limits: FileLimits { min_size: Some(1), max_size: None, newer_s: Some(-1), older_s: Some(7) },
            changed: ChangedPaths::new([ChangedPath { path: b"a/b".to_vec(), has_contents: true }]),
        };
        for filters in [filters, FilterOptions::default()] {
            check_round_trip(&filters);
        }
    }

    #[test]
    fn rules_of_rsync_stand_alone_and_are_expanded() {
        let ruled = |text: &[u8]| PatternList { text: text.to_vec(), syntax: ListSyntax::Rsync, includes: false };
        let alone = FilterOptions { lists: vec![ruled(b"- a\0:n .f\0")], ..FilterOptions::default() };
        check_round_trip(&alone);
        let files = vec![Name::new(b".f").unwrap()];
        let twice = FilterOptions { lists: vec![ruled(b"- a\0"); 2], ..FilterOptions::default() };
        let mut bad = vec![FilterOptions { files, ..alone }, twice];
        let numbered: Vec<u8> = (0..17).flat_map(|at| format!(": {at}\0").into_bytes()).collect();
        let long = [b"- ", &*vec![b'a'; PATTERN_MAX + 1]].concat();
        for text in [&b". a\0"[..], b"-/ a\0", b"-\0", b"- \0", b"a\0", b": a/b\0", &numbered, &long] {
            bad.push(FilterOptions { lists: vec![ruled(text)], ..FilterOptions::default() });
        }
        bad.iter().for_each(|filters| assert!(resent(filters).is_err(), "{filters:?}"));
    }

    #[test]
    fn excess_is_a_fault() {
        let long = vec![b'a'; PATTERN_MAX + 1];
        for bad in
            [list(&long, false), list(&[b"a\n", &*long].concat(), true), list(&vec![b'\n'; FILTER_FILE_MAX + 1], true)]
        {
            assert!(resent(&bad).is_err());
        }
        assert!(resent(&list(&long[1..], false)).is_ok());
        let large = PatternList { text: vec![b'\n'; FILTER_FILE_MAX], syntax: ListSyntax::File, includes: false };
        let count = FILTERS_BYTES_MAX / FILTER_FILE_MAX;
        for (count, is_good) in [(count, true), (count + 1, false)] {
            let filters = FilterOptions { lists: vec![large.clone(); count], ..FilterOptions::default() };
            assert_eq!(resent(&filters).is_ok(), is_good);
        }
    }
}

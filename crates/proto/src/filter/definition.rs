//! Filter options, sent by the controller to both ends: patterns as typed, names of filter files, and limits.
//! [`crate::filter`] defines their meaning.

use crate::codec::{FieldCodec, OfType, wire_struct};
use crate::encoding::{Decoded, Reader, Writer};
use crate::error::ProtocolError;
use crate::field_codecs::list;
use crate::filter::{PatternList, PatternRules};
use crate::limits::{FILTER_FILE_MAX, FILTER_LISTS_MAX, FILTER_NAMES_MAX, FILTERS_BYTES_MAX};
use crate::path::Name;

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
    }
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
}

/// Lists of limited total size, each of which can be parsed.
struct PatternLists;

impl FieldCodec<Vec<PatternList>> for PatternLists {
    fn encode(&self, lists: &Vec<PatternList>, out: &mut Writer) {
        out.count(lists.len());
        for PatternList { text, is_file, includes } in lists {
            out.bytes(text).bool(*is_file).bool(*includes);
        }
    }

    fn decode(&self, reader: &mut Reader<'_>) -> Decoded<Vec<PatternList>> {
        let (mut lists, mut bytes_left) = (Vec::new(), FILTERS_BYTES_MAX);
        for _ in 0..reader.count(FILTER_LISTS_MAX, "lists of patterns")? {
            let text = reader.bytes(FILTER_FILE_MAX.min(bytes_left), "patterns")?.to_vec();
            bytes_left -= text.len();
            let list = PatternList { text, is_file: reader.bool()?, includes: reader.bool()? };
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

    fn resent(filters: &FilterOptions) -> Decoded<FilterOptions> {
        from_bytes(&to_bytes(filters))
    }

    fn list(text: &[u8], is_file: bool) -> FilterOptions {
        let lists = vec![PatternList { text: text.to_vec(), is_file, includes: false }];
        FilterOptions { lists, ..FilterOptions::default() }
    }

    #[test]
    fn definitions_round_trip() {
        let filters = FilterOptions {
            lists: vec![
                PatternList { text: b"*.o".to_vec(), is_file: false, includes: false },
                PatternList { text: b"# all\n!a\n".to_vec(), is_file: true, includes: true },
            ],
            files: vec![Name::new(b".haulignore").unwrap()],
            limits: FileLimits { min_size: Some(1), max_size: None, newer_s: Some(-1), older_s: Some(7) },
        };
        for filters in [filters, FilterOptions::default()] {
            check_round_trip(&filters);
        }
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
        let large = PatternList { text: vec![b'\n'; FILTER_FILE_MAX], is_file: true, includes: false };
        let count = FILTERS_BYTES_MAX / FILTER_FILE_MAX;
        for (count, is_good) in [(count, true), (count + 1, false)] {
            let filters = FilterOptions { lists: vec![large.clone(); count], ..FilterOptions::default() };
            assert_eq!(resent(&filters).is_ok(), is_good);
        }
    }
}

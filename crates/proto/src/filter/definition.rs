//! Filter options, sent by the controller to both ends: patterns as typed, names of filter files, and limits.
//! [`crate::filter`] defines their meaning.

use crate::encoding::{Decoded, Reader, Writer};
use crate::error::ProtocolError;
use crate::filter::PatternList;
use crate::filter::PatternRules;
use crate::limits::{FILTER_FILE_MAX, FILTER_LISTS_MAX, FILTER_NAMES_MAX, FILTERS_BYTES_MAX};
use crate::path::{MAX_NAME, Name};

/// Entries to exclude. None by default.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FilterOptions {
    /// Patterns in order of precedence: the first list with a match decides.
    pub lists: Vec<PatternList>,
    /// Names of per-directory filter files. Their patterns apply in their directory and below.
    pub files: Vec<Name>,
    /// Limits of files.
    pub limits: FileLimits,
}

/// Limits of files. They do not apply to directories and links.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
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

impl FilterOptions {
    /// Whether nothing is excluded.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Writes the options.
    pub(crate) fn encode(&self, out: &mut Writer) {
        out.count(self.lists.len());
        for PatternList { text, is_file, includes } in &self.lists {
            out.bytes(text).bool(*is_file).bool(*includes);
        }
        out.count(self.files.len());
        self.files.iter().for_each(|name| {
            out.bytes(name.as_bytes());
        });
        self.limits.encode(out);
    }

    /// Reads the options, and checks that every list can be parsed.
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Decoded<Self> {
        let (mut lists, mut bytes_left) = (Vec::new(), FILTERS_BYTES_MAX);
        for _ in 0..reader.count(FILTER_LISTS_MAX, "lists of patterns")? {
            let text = reader.bytes(FILTER_FILE_MAX.min(bytes_left), "patterns")?.to_vec();
            bytes_left -= text.len();
            let list = PatternList { text, is_file: reader.bool()?, includes: reader.bool()? };
            PatternRules::of(&list).map_err(|_| ProtocolError::OverLimit("a pattern"))?;
            lists.push(list);
        }
        let count = reader.count(FILTER_NAMES_MAX, "names of files with patterns")?;
        let name = |bytes| Name::new(bytes).map_err(|_| ProtocolError::Invalid("an invalid name"));
        let files = (0..count).map(|_| name(reader.bytes(MAX_NAME, "a name")?)).collect::<Decoded<_>>()?;
        Ok(Self { lists, files, limits: FileLimits::decode(reader)? })
    }
}

impl FileLimits {
    fn encode(&self, out: &mut Writer) {
        for size in [self.min_size, self.max_size] {
            out.bool(size.is_some());
            size.iter().for_each(|size| {
                out.u64(*size);
            });
        }
        for time in [self.newer_s, self.older_s] {
            out.bool(time.is_some());
            time.iter().for_each(|time| {
                out.i64(*time);
            });
        }
    }

    fn decode(reader: &mut Reader<'_>) -> Decoded<Self> {
        let mut size = || Ok(if reader.bool()? { Some(reader.u64()?) } else { None });
        let (min_size, max_size) = (size()?, size()?);
        let mut time = || Ok(if reader.bool()? { Some(reader.i64()?) } else { None });
        Ok(Self { min_size, max_size, newer_s: time()?, older_s: time()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::PATTERN_MAX;

    fn encoded(filters: &FilterOptions) -> Vec<u8> {
        let mut out = Writer::new();
        filters.encode(&mut out);
        out.into_bytes()
    }

    fn list(text: &[u8], is_file: bool) -> FilterOptions {
        let lists = vec![PatternList { text: text.to_vec(), is_file, includes: false }];
        FilterOptions { lists, ..FilterOptions::default() }
    }

    #[test]
    fn all_of_it_comes_back() {
        let filters = FilterOptions {
            lists: vec![
                PatternList { text: b"*.o".to_vec(), is_file: false, includes: false },
                PatternList { text: b"# all\n!a\n".to_vec(), is_file: true, includes: true },
            ],
            files: vec![Name::new(b".haulignore").unwrap()],
            limits: FileLimits { min_size: Some(1), max_size: None, newer_s: Some(-1), older_s: Some(7) },
        };
        for filters in [filters, FilterOptions::default()] {
            let bytes = encoded(&filters);
            let mut reader = Reader::new(&bytes);
            assert_eq!(FilterOptions::decode(&mut reader), Ok(filters));
            assert_eq!(reader.remaining(), 0);
            for cut in 0..bytes.len() {
                assert!(FilterOptions::decode(&mut Reader::new(&bytes[..cut])).is_err());
            }
        }
    }

    #[test]
    fn what_is_too_much_is_a_fault() {
        let long = vec![b'a'; PATTERN_MAX + 1];
        for bad in
            [list(&long, false), list(&[b"a\n", &*long].concat(), true), list(&vec![b'\n'; FILTER_FILE_MAX + 1], true)]
        {
            assert!(FilterOptions::decode(&mut Reader::new(&encoded(&bad))).is_err());
        }
        assert!(FilterOptions::decode(&mut Reader::new(&encoded(&list(&long[1..], false)))).is_ok());
        let large = PatternList { text: vec![b'\n'; FILTER_FILE_MAX], is_file: true, includes: false };
        let count = FILTERS_BYTES_MAX / FILTER_FILE_MAX;
        for (count, is_good) in [(count, true), (count + 1, false)] {
            let filters = FilterOptions { lists: vec![large.clone(); count], ..FilterOptions::default() };
            assert_eq!(FilterOptions::decode(&mut Reader::new(&encoded(&filters))).is_ok(), is_good);
        }
    }
}

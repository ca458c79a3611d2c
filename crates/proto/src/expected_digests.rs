//! Expected digests of files by name. The memory per line is little more than the digest itself.

use std::ops::Range;

use crate::checksum::ChecksumAlgorithm;
use crate::limits::EXPECTED_LINES_MAX;

/// Length of a key: the first bytes of the BLAKE3 of a name. A collision of two names is as hard to find as one of MD5
/// was meant to be.
const KEY_BYTES: usize = 16;

/// Name and digest of each line, in input order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpectedDigests {
    algorithm: ChecksumAlgorithm,
    /// Keys and digests of all lines in one allocation.
    records: Vec<u8>,
    /// Line numbers in key order; empty until [`Self::sort`].
    order: Vec<u32>,
}

/// The list exceeds [`EXPECTED_LINES_MAX`], or its bytes are not whole lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidDigestList;

impl ExpectedDigests {
    /// Creates an empty list.
    pub fn new(algorithm: ChecksumAlgorithm) -> Self {
        Self { algorithm, records: Vec::new(), order: Vec::new() }
    }

    /// Returns the algorithm of all digests.
    pub fn algorithm(&self) -> ChecksumAlgorithm {
        self.algorithm
    }

    /// Returns the number of lines.
    pub fn len(&self) -> usize {
        self.records.len() / self.record_bytes()
    }

    /// Whether there are no lines.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Returns the length of a line on the wire, in bytes.
    pub fn record_bytes(&self) -> usize {
        KEY_BYTES + self.algorithm.bytes()
    }

    /// Adds a line.
    ///
    /// # Panics
    /// If the digest has the wrong length for the algorithm: a programmer's error.
    pub fn add(&mut self, path: &[u8], digest: &[u8]) -> Result<(), InvalidDigestList> {
        assert_eq!(digest.len(), self.algorithm.bytes(), "a digest of another length");
        self.add_records(&[&key_of(path)[..], digest].concat())
    }

    /// Adds encoded lines of another list.
    pub fn add_records(&mut self, records: &[u8]) -> Result<(), InvalidDigestList> {
        let lines = records.len() / self.record_bytes();
        if !records.len().is_multiple_of(self.record_bytes()) || self.len() + lines > EXPECTED_LINES_MAX {
            return Err(InvalidDigestList);
        }
        self.records.extend_from_slice(records);
        Ok(())
    }

    /// Returns all lines in batches of at most `lines`.
    pub fn batches(&self, lines: usize) -> impl Iterator<Item = &[u8]> {
        self.records.chunks(lines * self.record_bytes())
    }

    /// Sorts the lines by key; call it once, after the last line. Returns the second of two lines with the same name
    /// and different digests, if any.
    pub fn sort(&mut self) -> Option<usize> {
        let mut order: Vec<_> = (0..u32::try_from(self.len()).unwrap_or(u32::MAX)).collect();
        order.sort_unstable_by_key(|line| (self.key(*line), *line));
        let twins = order.windows(2).find(|pair| {
            self.key(pair[0]) == self.key(pair[1]) && self.digest(pair[0] as usize) != self.digest(pair[1] as usize)
        });
        let second = twins.map(|pair| pair[1] as usize);
        self.order = order;
        second
    }

    /// Returns the numbers of the lines with this name, in input order.
    pub fn lines_of(&self, path: &[u8]) -> impl Iterator<Item = usize> {
        let key = key_of(path);
        let start = self.order.partition_point(|line| *self.key(*line) < key[..]);
        self.order[start..].iter().take_while(move |line| *self.key(**line) == key[..]).map(|line| *line as usize)
    }

    /// Returns the digest of a line.
    pub fn digest(&self, line: usize) -> &[u8] {
        &self.records[self.place(line)][KEY_BYTES..]
    }

    /// Returns the expected digest of the file with this name.
    pub fn digest_of(&self, path: &[u8]) -> Option<&[u8]> {
        self.lines_of(path).next().map(|line| self.digest(line))
    }

    fn key(&self, line: u32) -> &[u8] {
        &self.records[self.place(line as usize)][..KEY_BYTES]
    }

    fn place(&self, line: usize) -> Range<usize> {
        line * self.record_bytes()..(line + 1) * self.record_bytes()
    }
}

fn key_of(path: &[u8]) -> [u8; KEY_BYTES] {
    let mut key = [0; KEY_BYTES];
    key.copy_from_slice(&blake3::hash(path).as_bytes()[..KEY_BYTES]);
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(lines: &[(&str, u8)]) -> ExpectedDigests {
        let mut table = ExpectedDigests::new(ChecksumAlgorithm::Md5);
        lines.iter().for_each(|(path, byte)| table.add(path.as_bytes(), &[*byte; 16]).unwrap());
        table
    }

    #[test]
    fn every_line_is_found_by_its_name_at_either_end() {
        let names: Vec<_> = (0..1000).map(|i| format!("run7/{i}")).collect();
        let lines: Vec<_> = names.iter().map(String::as_str).zip((0..=255).cycle()).collect();
        let mut here = table(&lines);
        let mut there = ExpectedDigests::new(ChecksumAlgorithm::Md5);
        here.batches(7).for_each(|piece| there.add_records(piece).unwrap());
        assert_eq!((here.sort(), there.sort()), (None, None));
        assert_eq!((there.len(), &here), (1000, &there));
        for (line, (path, byte)) in lines.iter().enumerate() {
            assert_eq!(there.digest_of(path.as_bytes()), Some(&[*byte; 16][..]));
            assert_eq!(there.lines_of(path.as_bytes()).collect::<Vec<_>>(), [line]);
        }
        assert_eq!(there.digest_of(b"run7/1000"), None);
    }

    #[test]
    fn different_digests_for_one_name_are_noticed_and_equal_ones_are_not() {
        assert_eq!(table(&[("a", 1), ("b", 1), ("a", 2)]).sort(), Some(2));
        let mut table = table(&[("a", 1), ("b", 1), ("a", 1)]);
        assert_eq!(table.sort(), None);
        assert_eq!(table.lines_of(b"a").collect::<Vec<_>>(), [0, 2]);
    }

    #[test]
    fn malformed_lines_are_rejected() {
        assert_eq!(table(&[]).add_records(&[0; 33]), Err(InvalidDigestList));
        let mut full = ExpectedDigests::new(ChecksumAlgorithm::Crc32);
        full.records = vec![0; full.record_bytes() * (EXPECTED_LINES_MAX - 1)];
        let two = vec![0; full.record_bytes() * 2];
        assert_eq!(full.add_records(&two), Err(InvalidDigestList), "one more than the limit");
        assert_eq!(full.add(b"a", &[0; 4]), Ok(()), "the last one");
        assert_eq!(full.add(b"b", &[0; 4]), Err(InvalidDigestList));
        assert!(!full.is_empty() && table(&[]).is_empty() && table(&[]).digest_of(b"a").is_none());
    }
}

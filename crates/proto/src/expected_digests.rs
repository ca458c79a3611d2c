//! The digests that files are expected to have, by their names: as many lines as a manifest has, in little more memory
//! than their digests take.

use std::ops::Range;

use crate::checksum::ChecksumAlgorithm;
use crate::limits::EXPECTED_LINES_MAX;

/// Stands for a name: the beginning of its BLAKE3. Two names with one key are as hard to make as two files with one MD5
/// should be.
const KEY_BYTES: usize = 16;

/// Name and digest of each line, in the order of lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpectedDigests {
    algorithm: ChecksumAlgorithm,
    /// Keys and digests of all lines, one behind the other: one allocation, whatever their number.
    records: Vec<u8>,
    /// The lines in the order of their keys; empty until [`Self::sort`].
    order: Vec<u32>,
}

/// There are more lines than [`EXPECTED_LINES_MAX`], or they are none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidDigestList;

impl ExpectedDigests {
    /// No lines yet.
    pub fn new(algorithm: ChecksumAlgorithm) -> Self {
        Self { algorithm, records: Vec::new(), order: Vec::new() }
    }

    /// The digest that all lines have.
    pub fn algorithm(&self) -> ChecksumAlgorithm {
        self.algorithm
    }

    /// Number of lines.
    pub fn len(&self) -> usize {
        self.records.len() / self.record_bytes()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Bytes of a line on the wire.
    pub fn record_bytes(&self) -> usize {
        KEY_BYTES + self.algorithm.bytes()
    }

    /// Adds a line.
    ///
    /// # Panics
    /// If the digest is not as long as the algorithm's are: a programmer's error.
    pub fn add(&mut self, path: &[u8], digest: &[u8]) -> Result<(), InvalidDigestList> {
        assert_eq!(digest.len(), self.algorithm.bytes(), "a digest of another length");
        self.add_records(&[&key_of(path)[..], digest].concat())
    }

    /// Adds lines as another table has them.
    pub fn add_records(&mut self, records: &[u8]) -> Result<(), InvalidDigestList> {
        let lines = records.len() / self.record_bytes();
        if !records.len().is_multiple_of(self.record_bytes()) || self.len() + lines > EXPECTED_LINES_MAX {
            return Err(InvalidDigestList);
        }
        self.records.extend_from_slice(records);
        Ok(())
    }

    /// All lines, at most so many at a time.
    pub fn pieces(&self, lines: usize) -> impl Iterator<Item = &[u8]> {
        self.records.chunks(lines * self.record_bytes())
    }

    /// To be called once, when all lines are there. The second of two lines that have one name and different digests, if
    /// there are any.
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

    /// The lines that have this name: places in their order.
    pub fn lines_of(&self, path: &[u8]) -> impl Iterator<Item = usize> {
        let key = key_of(path);
        let start = self.order.partition_point(|line| *self.key(*line) < key[..]);
        self.order[start..].iter().take_while(move |line| *self.key(**line) == key[..]).map(|line| *line as usize)
    }

    /// The digest of a line.
    pub fn digest(&self, line: usize) -> &[u8] {
        &self.records[self.place(line)][KEY_BYTES..]
    }

    /// The digest that a file of this name is to have.
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
        here.pieces(7).for_each(|piece| there.add_records(piece).unwrap());
        assert_eq!((here.sort(), there.sort()), (None, None));
        assert_eq!((there.len(), &here), (1000, &there));
        for (line, (path, byte)) in lines.iter().enumerate() {
            assert_eq!(there.digest_of(path.as_bytes()), Some(&[*byte; 16][..]));
            assert_eq!(there.lines_of(path.as_bytes()).collect::<Vec<_>>(), [line]);
        }
        assert_eq!(there.digest_of(b"run7/1000"), None);
    }

    #[test]
    fn two_digests_for_one_name_are_noticed_and_one_twice_is_not() {
        assert_eq!(table(&[("a", 1), ("b", 1), ("a", 2)]).sort(), Some(2));
        let mut table = table(&[("a", 1), ("b", 1), ("a", 1)]);
        assert_eq!(table.sort(), None);
        assert_eq!(table.lines_of(b"a").collect::<Vec<_>>(), [0, 2]);
    }

    #[test]
    fn what_is_no_line_is_not_taken() {
        assert_eq!(table(&[]).add_records(&[0; 33]), Err(InvalidDigestList));
        let mut full = ExpectedDigests::new(ChecksumAlgorithm::Crc32);
        full.records = vec![0; full.record_bytes() * EXPECTED_LINES_MAX];
        assert_eq!(full.add(b"a", &[0; 4]), Err(InvalidDigestList));
        assert!(table(&[]).is_empty() && table(&[]).digest_of(b"a").is_none());
    }
}

//! Files by name extension.

use std::collections::HashMap;

use super::tally::FileTotals;

/// Most extensions counted apart; later ones count as others.
const KINDS_MAX: usize = 4096;
/// Longest extension.
const ENDING_MAX: usize = 16;
/// Most listed extensions.
const NAMED: usize = 30;

/// Files with one name extension.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtensionTotals {
    /// The extension in lower case; empty without one.
    pub ending: Vec<u8>,
    /// Number and bytes of the files.
    pub sum: FileTotals,
}

/// Counts them.
#[derive(Default)]
pub struct ExtensionTable {
    known: HashMap<Box<[u8]>, FileTotals>,
    others: FileTotals,
}

impl ExtensionTable {
    /// Counts a file.
    pub fn add(&mut self, name: &[u8], size: u64) {
        let mut small = [0; ENDING_MAX];
        let ending = ending(name);
        let key = &mut small[..ending.len()];
        key.copy_from_slice(ending);
        key.make_ascii_lowercase();
        let has_room = self.known.len() < KINDS_MAX;
        match self.known.get_mut(&*key) {
            Some(sum) => sum.add(size),
            None if has_room => {
                self.known.insert((&*key).into(), FileTotals { files: 1, bytes: size });
            }
            None => self.others.add(size),
        }
    }

    /// The extensions with the most bytes, and the sum of the others.
    pub fn finish(self) -> (Vec<ExtensionTotals>, FileTotals) {
        let mut kinds: Vec<_> =
            self.known.into_iter().map(|(ending, sum)| ExtensionTotals { ending: ending.into_vec(), sum }).collect();
        kinds.sort_by(|a, b| (b.sum.bytes, b.sum.files, &a.ending).cmp(&(a.sum.bytes, a.sum.files, &b.ending)));
        let mut others = self.others;
        let rest = kinds.split_off(kinds.len().min(NAMED));
        rest.iter().for_each(|kind| others.add_all(&kind.sum));
        (kinds, others)
    }
}

/// Returns the part after the last dot, unless the name begins with that dot.
fn ending(name: &[u8]) -> &[u8] {
    let Some(dot) = name.iter().rposition(|byte| *byte == b'.') else { return b"" };
    let is_hidden = name[..dot].iter().all(|byte| *byte == b'.');
    match &name[dot + 1..] {
        ending if is_hidden || ending.len() > ENDING_MAX => b"",
        ending => ending,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_extension_follows_a_names_last_dot() {
        for (name, expected) in [
            ("a.txt", "txt"),
            ("a.tar.GZ", "GZ"),
            (".bashrc", ""),
            ("..rc", ""),
            (".conf.d", "d"),
            ("a.", ""),
            ("Makefile", ""),
            ("a.0123456789abcdef", "0123456789abcdef"),
            ("a.0123456789abcdefg", ""),
        ] {
            assert_eq!(ending(name.as_bytes()), expected.as_bytes(), "{name}");
        }
    }

    #[test]
    fn kinds_are_counted_in_any_case_biggest_first() {
        let mut kinds = ExtensionTable::default();
        for (name, size) in [("a.c", 10), ("b.C", 20), ("c.iso", 500), ("d", 3)] {
            kinds.add(name.as_bytes(), size);
        }
        let (kinds, others) = kinds.finish();
        let shown: Vec<_> = kinds.iter().map(|kind| (&kind.ending[..], kind.sum.files, kind.sum.bytes)).collect();
        assert_eq!(shown, [(&b"iso"[..], 1, 500), (b"c", 2, 30), (b"", 1, 3)]);
        assert_eq!(others, FileTotals::default());
    }

    #[test]
    fn any_number_of_kinds_is_counted() {
        let mut kinds = ExtensionTable::default();
        let number = KINDS_MAX + 1000;
        (0..number).for_each(|i| kinds.add(format!("f.{i}").as_bytes(), 2));
        assert_eq!(kinds.known.len(), KINDS_MAX);
        let (named, others) = kinds.finish();
        assert_eq!(named.len(), NAMED);
        let expected = (number - NAMED) as u64;
        assert_eq!(others, FileTotals { files: expected, bytes: 2 * expected });
    }
}

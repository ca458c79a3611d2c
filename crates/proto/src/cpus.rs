//! The CPUs that the user allows both ends to run on. Each end checks which of them it has.

use std::collections::BTreeSet;

use crate::codec::Wire;
use crate::encoding::{Decoded, Reader, Writer};
use crate::limits::CPUS_MAX;

/// A set of CPU numbers below [`CPUS_MAX`]; an empty set allows all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cpus(BTreeSet<u16>);

impl Cpus {
    /// Adds a CPU; returns `false` where the number is out of range.
    pub fn insert(&mut self, cpu: u16) -> bool {
        let is_one = usize::from(cpu) < CPUS_MAX;
        if is_one {
            self.0.insert(cpu);
        }
        is_one
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the numbers in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u16> + '_ {
        self.0.iter().copied()
    }
}

/// One bit for each CPU, up to the highest in the set.
impl Wire for Cpus {
    fn encode(&self, out: &mut Writer) {
        let mut bits = vec![0u8; self.0.last().map_or(0, |last| usize::from(*last) / 8 + 1)];
        for cpu in self.iter() {
            bits[usize::from(cpu) / 8] |= 1 << (cpu % 8);
        }
        out.bytes(&bits);
    }

    fn decode(reader: &mut Reader<'_>) -> Decoded<Self> {
        let bits = reader.bytes(CPUS_MAX / 8, "the CPUs")?;
        let has = |cpu: &u16| bits.get(usize::from(*cpu) / 8).is_some_and(|byte| byte >> (cpu % 8) & 1 == 1);
        Ok(Self((0..u16::try_from(8 * bits.len()).unwrap_or(u16::MAX)).filter(has).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_round_trip_and_too_many_are_a_fault() {
        for numbers in [&[][..], &[0], &[7, 8, 1023]] {
            let mut cpus = Cpus::default();
            assert!(numbers.iter().all(|cpu| cpus.insert(*cpu)));
            let mut out = Writer::new();
            cpus.encode(&mut out);
            let bytes = out.into_bytes();
            let decoded = Cpus::decode(&mut Reader::new(&bytes)).unwrap();
            assert_eq!((decoded.iter().collect::<Vec<_>>(), &decoded), (numbers.to_vec(), &cpus));
        }
        assert!(!Cpus::default().insert(1024));
        let mut out = Writer::new();
        out.bytes(&[1; CPUS_MAX / 8 + 1]);
        assert!(Cpus::decode(&mut Reader::new(&out.into_bytes())).is_err());
    }
}

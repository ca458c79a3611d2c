//! Numbers from a seed, the same on every machine: SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number
//! generators", 2014). Whatever is random in tests, test data and links comes from here.

/// A stream of numbers.
#[derive(Debug, Clone)]
pub struct Rng(u64);

impl Rng {
    /// The stream of this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`, a positive number.
    pub fn below(&mut self, end: u64) -> u64 {
        self.number() % end
    }

    /// An index of something that has `len` elements.
    pub fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).unwrap_or(0)
    }

    /// True this often in a thousand.
    pub fn chance(&mut self, per_mille: u64) -> bool {
        self.below(1000) < per_mille
    }

    /// One of these.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.index(from.len())]
    }

    /// Fills `bytes` with incompressible data.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        let mut words = bytes.chunks_exact_mut(8);
        for word in &mut words {
            word.copy_from_slice(&self.number().to_le_bytes());
        }
        let rest = words.into_remainder();
        let last = self.number().to_le_bytes();
        rest.copy_from_slice(&last[..rest.len()]);
    }

    /// So many bytes that cannot be compressed.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.fill(&mut bytes);
        bytes
    }

    /// From `low` to `high`, both included. Uniform enough: the modulus bias is below 2^-32 for spans under 4 GiB.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.number() % (high - low + 1)
    }

    /// Picks an octave, then a number in it: log-uniform by steps. Integers give the same result on every machine.
    pub fn log_between(&mut self, low: u64, high: u64) -> u64 {
        let octaves = (high / low.max(1)).max(1).ilog2();
        let floor = low << self.between(0, u64::from(octaves));
        self.between(floor, (2 * floor).min(high).max(floor))
    }
}

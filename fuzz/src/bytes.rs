//! Choices out of a fuzzer's bytes. Once they are used up, every choice is the first one.

/// A fuzzer's bytes.
pub struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    /// From the beginning.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Whether all are used up.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A byte.
    pub fn u8(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or(0)
    }

    /// A number, mostly small: a byte, or after 255 any eight of them.
    pub fn number(&mut self) -> u64 {
        match self.u8() {
            255 => {
                let mut wide = [0; 8];
                let bytes = self.take(8);
                wide[..bytes.len()].copy_from_slice(bytes);
                u64::from_le_bytes(wide)
            }
            small => small.into(),
        }
    }

    /// Up to as many bytes as the next one says.
    pub fn block(&mut self) -> &'a [u8] {
        let len = self.u8();
        self.take(len.into())
    }

    fn take(&mut self, most: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(most.min(self.0.len()));
        self.0 = rest;
        taken
    }
}

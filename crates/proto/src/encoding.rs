//! Readers and writers of the primitives in every message.
//!
//! Integers are little-endian; `varint` is unsigned LEB128 in at most ten bytes. A length sent by a peer never causes
//! an allocation beyond the bytes at hand.

use crate::error::ProtocolError;
use crate::limits::FIGURE_MAX;

/// Result of decoding a peer's bytes.
pub type Decoded<T> = Result<T, ProtocolError>;

/// Reads primitives from the front of a slice.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Starts at the beginning of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Returns the number of unread bytes.
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// Takes the next `n` bytes.
    pub fn take_bytes(&mut self, n: usize) -> Decoded<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(n).ok_or(ProtocolError::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    /// Takes the next `N` bytes as an array.
    pub fn array<const N: usize>(&mut self) -> Decoded<[u8; N]> {
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or(ProtocolError::Truncated)?;
        self.rest = rest;
        Ok(*taken)
    }

    /// Reads one byte.
    pub fn u8(&mut self) -> Decoded<u8> {
        Ok(self.array::<1>()?[0])
    }

    /// Reads two bytes.
    pub fn u16(&mut self) -> Decoded<u16> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    /// Reads four bytes.
    pub fn u32(&mut self) -> Decoded<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// Reads eight bytes.
    pub fn u64(&mut self) -> Decoded<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// Reads eight bytes, signed.
    pub fn i64(&mut self) -> Decoded<i64> {
        Ok(i64::from_le_bytes(self.array()?))
    }

    /// Reads a byte of 0 or 1.
    pub fn bool(&mut self) -> Decoded<bool> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(ProtocolError::Invalid("a flag that is neither 0 nor 1")),
        }
    }

    /// Reads an unsigned LEB128 number.
    pub fn varint(&mut self) -> Decoded<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(ProtocolError::Invalid("a number of more than 64 bits"))
    }

    /// Reads a varint of at most `most`; `what` names it in the error.
    pub fn count(&mut self, most: usize, what: &'static str) -> Decoded<usize> {
        match usize::try_from(self.varint()?) {
            Ok(n) if n <= most => Ok(n),
            _ => Err(ProtocolError::OverLimit(what)),
        }
    }

    /// Reads a length and that many bytes, at most `most`.
    pub fn bytes(&mut self, most: usize, what: &'static str) -> Decoded<&'a [u8]> {
        let n = self.count(most, what)?;
        self.take_bytes(n)
    }

    /// Reads a length and that many bytes of text, at most `most`. Invalid UTF-8 is replaced.
    pub fn text(&mut self, most: usize, what: &'static str) -> Decoded<String> {
        Ok(String::from_utf8_lossy(self.bytes(most, what)?).into_owned())
    }

    /// Ends a message; leftover bytes are an error.
    pub fn finish(self) -> Decoded<()> {
        if self.rest.is_empty() { Ok(()) } else { Err(ProtocolError::Invalid("bytes after the end of a message")) }
    }
}

/// Appends primitives to a buffer.
#[derive(Debug, Default, Clone)]
pub struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    /// Creates an empty buffer.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the written bytes.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Borrows the written bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Empties the buffer, and keeps its room.
    pub fn clear(&mut self) {
        self.bytes.clear();
    }

    /// Returns the number of written bytes.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether the buffer is empty.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Writes bytes without a length.
    pub fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(bytes);
        self
    }

    /// Writes one byte.
    pub fn u8(&mut self, value: u8) -> &mut Self {
        self.raw(&[value])
    }

    /// Writes two bytes.
    pub fn u16(&mut self, value: u16) -> &mut Self {
        self.raw(&value.to_le_bytes())
    }

    /// Writes four bytes.
    pub fn u32(&mut self, value: u32) -> &mut Self {
        self.raw(&value.to_le_bytes())
    }

    /// Writes eight bytes.
    pub fn u64(&mut self, value: u64) -> &mut Self {
        self.raw(&value.to_le_bytes())
    }

    /// Writes eight bytes, signed.
    pub fn i64(&mut self, value: i64) -> &mut Self {
        self.raw(&value.to_le_bytes())
    }

    /// Writes 0 or 1.
    pub fn bool(&mut self, value: bool) -> &mut Self {
        self.u8(u8::from(value))
    }

    /// Writes an unsigned LEB128 number.
    pub fn varint(&mut self, mut value: u64) -> &mut Self {
        while value >= 0x80 {
            self.bytes.push(value.to_le_bytes()[0] | 0x80);
            value >>= 7;
        }
        self.bytes.push(value.to_le_bytes()[0]);
        self
    }

    /// Writes a count as a varint.
    pub fn count(&mut self, value: usize) -> &mut Self {
        self.varint(value as u64)
    }

    /// Writes the length and then the bytes.
    pub fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.count(bytes.len()).raw(bytes)
    }

    /// Writes the length and then the text, truncated at a character boundary to at most `most` bytes.
    pub fn text(&mut self, text: &str, most: usize) -> &mut Self {
        self.bytes(&text.as_bytes()[..text.floor_char_boundary(most)])
    }
}

/// Writes a number of a report.
pub(crate) fn encode_figure(figure: u64, out: &mut Writer) {
    out.varint(figure.min(FIGURE_MAX));
}

/// Reads a number of a report.
pub(crate) fn decode_figure(reader: &mut Reader<'_>) -> Decoded<u64> {
    bounded_figure(reader.varint()?)
}

pub(crate) fn bounded_figure(figure: u64) -> Decoded<u64> {
    if figure <= FIGURE_MAX { Ok(figure) } else { Err(ProtocolError::OverLimit("values of a report")) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn varints_round_trip(value: u64) {
            let mut writer = Writer::new();
            writer.varint(value);
            let bytes = writer.into_bytes();
            prop_assert!(bytes.len() <= 10);
            let mut reader = Reader::new(&bytes);
            prop_assert_eq!(reader.varint(), Ok(value));
            prop_assert_eq!(reader.finish(), Ok(()));
        }
    }

    #[test]
    fn numbers_beyond_64_bits_are_faults() {
        let eleven = [0xff; 11];
        assert!(Reader::new(&eleven).varint().is_err());
        let too_high = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02];
        assert!(Reader::new(&too_high).varint().is_err());
    }

    #[test]
    fn lengths_beyond_the_available_bytes_are_rejected() {
        let mut writer = Writer::new();
        writer.varint(1000).raw(b"abc");
        let bytes = writer.into_bytes();
        assert_eq!(Reader::new(&bytes).bytes(2000, "x"), Err(ProtocolError::Truncated));
        assert_eq!(Reader::new(&bytes).bytes(999, "x"), Err(ProtocolError::OverLimit("x")));
    }

    #[test]
    fn text_is_cut_at_a_character() {
        let mut writer = Writer::new();
        writer.text("a\u{e9}", 2);
        assert_eq!(writer.into_bytes(), [1, b'a']);
    }
}

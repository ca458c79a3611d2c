//! Compression and decompression of one payload: LZ4 blocks and Zstandard frames, with reused contexts.
//!
//! The choice of method is in [`haul_proto::compression`]. A peer cannot cause allocations: a payload is decompressed
//! into a buffer of exactly the expected length.

use std::fmt;

use haul_proto::compression::{Codec, CompressionMethod};
use haul_proto::error::ProtocolError;
use zstd::bulk::{Compressor, Decompressor};

/// A payload stays uncompressed unless compression saves one part in this number.
const GAIN_PART: usize = 16;

/// Compresses payloads.
#[derive(Default)]
pub struct PayloadCompressor {
    /// The compressor and its level.
    zstd: Option<(u8, Compressor<'static>)>,
}

impl PayloadCompressor {
    /// Buffer size that [`PayloadCompressor::pack`] needs for `len` bytes; results are shorter.
    pub fn room(len: usize) -> usize {
        lz4_flex::block::get_maximum_output_size(len)
    }

    /// Compresses `plain` into the beginning of `out`, which has [`PayloadCompressor::room`]. Returns the length;
    /// `None` if it is hardly shorter, or memory is short.
    pub fn pack(&mut self, method: CompressionMethod, plain: &[u8], out: &mut [u8]) -> Option<usize> {
        let most = plain.len() - plain.len().div_ceil(GAIN_PART).min(plain.len());
        let len = match method {
            CompressionMethod::Lz4 => lz4_flex::block::compress_into(plain, out).ok()?,
            CompressionMethod::Zstd(level) => {
                let out = out.get_mut(..most)?;
                self.zstd(level)?.compress_to_buffer(plain, out).ok()?
            }
        };
        (len > 0 && len <= most).then_some(len)
    }

    fn zstd(&mut self, level: u8) -> Option<&mut Compressor<'static>> {
        match &mut self.zstd {
            Some((set, _)) if *set == level => {}
            Some((set, compressor)) => {
                compressor.set_compression_level(level.into()).ok()?;
                *set = level;
            }
            none => *none = Some((level, Compressor::new(level.into()).ok()?)),
        }
        self.zstd.as_mut().map(|(_, compressor)| compressor)
    }
}

/// Shows the level.
impl fmt::Debug for PayloadCompressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Packer({:?})", self.zstd.as_ref().map(|(level, _)| level))
    }
}

/// Decompresses payloads.
#[derive(Default)]
pub struct PayloadDecompressor {
    zstd: Option<Decompressor<'static>>,
}

impl PayloadDecompressor {
    /// Decompresses `packed` to exactly the length of `plain`. After an error, the contents of `plain` are undefined.
    pub fn unpack(&mut self, codec: Codec, packed: &[u8], plain: &mut [u8]) -> Result<(), ProtocolError> {
        let unpacked = match codec {
            Codec::Lz4 => lz4_flex::block::decompress_into(packed, plain).ok(),
            Codec::Zstd => self.zstd().and_then(|zstd| zstd.decompress_to_buffer(packed, plain).ok()),
        };
        if unpacked == Some(plain.len()) {
            Ok(())
        } else {
            Err(ProtocolError::Invalid("a payload that does not decompress to its length"))
        }
    }

    fn zstd(&mut self) -> Option<&mut Decompressor<'static>> {
        if self.zstd.is_none() {
            self.zstd = Decompressor::new().ok();
        }
        self.zstd.as_mut()
    }
}

impl fmt::Debug for PayloadDecompressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Unpacker")
    }
}

#[cfg(test)]
mod tests {
    use haul_proto::compression::LEVEL_MAX;
    use haul_proto::limits::FRAME_MAX;

    use super::*;

    fn methods() -> impl Iterator<Item = CompressionMethod> {
        (0..CompressionMethod::COUNT).map(CompressionMethod::from_index)
    }

    fn text(len: usize) -> Vec<u8> {
        let line = |i: usize| format!("{i} {:x} the quick brown fox {}\n", i * i, i % 13);
        (0usize..).flat_map(|i| line(i).into_bytes()).take(len).collect()
    }

    fn noise(len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        blake3::Hasher::new().update(b"noise").finalize_xof().fill(&mut bytes);
        bytes
    }

    fn pack(packer: &mut PayloadCompressor, method: CompressionMethod, plain: &[u8]) -> Option<Vec<u8>> {
        let mut out = vec![0; PayloadCompressor::room(plain.len())];
        let len = packer.pack(method, plain, &mut out)?;
        out.truncate(len);
        Some(out)
    }

    #[test]
    fn data_round_trips_at_every_level_and_length() {
        let (mut packer, mut unpacker) = (PayloadCompressor::default(), PayloadDecompressor::default());
        for method in methods() {
            let hard = matches!(method, CompressionMethod::Zstd(level) if level > 9);
            let lengths = [300, 511, 512, 4097, 256 << 10, (512 << 10) + 1, FRAME_MAX as usize];
            for len in lengths.into_iter().filter(|len| !hard || *len <= 256 << 10) {
                let plain = text(len);
                let packed = pack(&mut packer, method, &plain).unwrap_or_else(|| panic!("{method}, {len} bytes"));
                assert!(packed.len() < len);
                let mut back = vec![0; len];
                unpacker.unpack(method.codec(), &packed, &mut back).unwrap();
                assert!(back == plain, "{method}, {len} bytes");
            }
        }
    }

    #[test]
    fn nearly_incompressible_data_is_left_alone() {
        let mut packer = PayloadCompressor::default();
        for method in [CompressionMethod::Lz4, CompressionMethod::Zstd(1), CompressionMethod::Zstd(LEVEL_MAX)] {
            for len in [0, 1, 2, 16, 100, 100_000, FRAME_MAX as usize] {
                assert_eq!(pack(&mut packer, method, &noise(len)), None, "{method}, {len} bytes");
            }
            assert!(pack(&mut packer, method, &[0; 1000]).is_some(), "it goes on after that");
        }
    }

    #[test]
    fn another_length_is_a_fault_and_never_more_is_written() {
        let (mut packer, mut unpacker) = (PayloadCompressor::default(), PayloadDecompressor::default());
        let plain = text(100_000);
        for method in [CompressionMethod::Lz4, CompressionMethod::Zstd(3)] {
            let packed = pack(&mut packer, method, &plain).unwrap();
            for len in [1, 99_999, 100_001, 200_000] {
                let mut back = vec![0xaa; len];
                assert!(unpacker.unpack(method.codec(), &packed, &mut back).is_err(), "{method}, {len} bytes");
            }
            let cut = &packed[..packed.len() - 1];
            assert!(unpacker.unpack(method.codec(), cut, &mut vec![0; 100_000]).is_err());
        }
        // A bomb: a frame that would become far longer than any payload.
        let bomb = zstd::bulk::compress(&vec![0; 64 << 20], 1).unwrap();
        assert!(bomb.len() < 8192);
        assert!(unpacker.unpack(Codec::Zstd, &bomb, &mut vec![0; FRAME_MAX as usize]).is_err());
    }

    #[test]
    fn garbage_is_a_fault_or_bytes_but_no_panic() {
        let (mut packer, mut unpacker) = (PayloadCompressor::default(), PayloadDecompressor::default());
        for method in [CompressionMethod::Lz4, CompressionMethod::Zstd(1), CompressionMethod::Zstd(9)] {
            let plain = text(20_000);
            let packed = pack(&mut packer, method, &plain).unwrap();
            let mut back = vec![0; plain.len()];
            for (at, change) in (0..packed.len()).zip((1..=255).cycle()) {
                let mut damaged = packed.clone();
                damaged[at] ^= change;
                let _ = unpacker.unpack(method.codec(), &damaged, &mut back);
            }
            for len in [0, 1, 4, 5, 13, 1000] {
                assert!(unpacker.unpack(method.codec(), &noise(len), &mut back).is_err(), "{method}, {len} bytes");
            }
            unpacker.unpack(method.codec(), &packed, &mut back).unwrap();
            assert!(back == plain, "it goes on after that");
        }
    }
}

//! Storage options of a Request: methods of reading and writing, durability and verification.

use crate::encoding::{Decoded, Reader, Writer};
use crate::error::ProtocolError;
use crate::limits::UNDER_WAY_MAX;

/// Method of reading or writing files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StorageRequest {
    /// Use of O_DIRECT.
    pub direct: DirectIo,
    /// Use of the page cache.
    pub cache: CacheUse,
    /// Most frames of a stream in flight with O_DIRECT, at most [`UNDER_WAY_MAX`]; 0: the end's default.
    pub under_way: u8,
}

/// Use of O_DIRECT.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DirectIo {
    /// The cheaper method, by the end's choice.
    #[default]
    Auto,
    /// Through the page cache.
    Never,
    /// O_DIRECT, where possible.
    Always,
}

/// Pages that stay in the page cache after buffered I/O.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CacheUse {
    /// Those of files that are not large.
    #[default]
    Auto,
    /// All, at the kernel's discretion.
    Keep,
    /// As few as possible.
    Drop,
    /// The same. What the source's files have in the cache goes before they are read.
    Cold,
}

/// Durability that the target requires before a file counts as copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fsync {
    /// None: the kernel writes back at its discretion.
    None,
    /// Contents on disk before the rename to the final name.
    Data,
    /// As Data, and then the name on disk, too.
    #[default]
    Full,
}

/// Verification by the target beyond the check of each frame and the BLAKE3 of each file from its frames' values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Verify {
    /// None.
    #[default]
    Wire,
    /// BLAKE3 of each frame, over the buffer about to be written.
    Memory,
    /// BLAKE3 of each frame, over the data read back from disk.
    Disk,
}

impl StorageRequest {
    /// Writes the request.
    pub(super) fn encode(self, out: &mut Writer) {
        let direct = match self.direct {
            DirectIo::Auto => 0,
            DirectIo::Never => 1,
            DirectIo::Always => 2,
        };
        let cache = match self.cache {
            CacheUse::Auto => 0,
            CacheUse::Keep => 1,
            CacheUse::Drop => 2,
            CacheUse::Cold => 3,
        };
        out.u8(direct).u8(cache).u8(self.under_way);
    }

    /// Reads a request.
    pub(super) fn decode(reader: &mut Reader<'_>) -> Decoded<Self> {
        let direct = match reader.u8()? {
            0 => DirectIo::Auto,
            1 => DirectIo::Never,
            2 => DirectIo::Always,
            value => return Err(ProtocolError::Unknown { what: "use of direct I/O", value: value.into() }),
        };
        let cache = match reader.u8()? {
            0 => CacheUse::Auto,
            1 => CacheUse::Keep,
            2 => CacheUse::Drop,
            3 => CacheUse::Cold,
            value => return Err(ProtocolError::Unknown { what: "use of the page cache", value: value.into() }),
        };
        let under_way = reader.u8()?;
        if under_way > UNDER_WAY_MAX {
            return Err(ProtocolError::OverLimit("frames in flight"));
        }
        Ok(Self { direct, cache, under_way })
    }
}

impl Fsync {
    /// Writes the option.
    pub(super) fn encode(self, out: &mut Writer) {
        let number = match self {
            Self::None => 0,
            Self::Data => 1,
            Self::Full => 2,
        };
        out.u8(number);
    }

    /// Reads the option.
    pub(super) fn decode(reader: &mut Reader<'_>) -> Decoded<Self> {
        match reader.u8()? {
            0 => Ok(Self::None),
            1 => Ok(Self::Data),
            2 => Ok(Self::Full),
            value => Err(ProtocolError::Unknown { what: "use of fsync", value: value.into() }),
        }
    }
}

impl Verify {
    /// Writes the option.
    pub(super) fn encode(self, out: &mut Writer) {
        let number = match self {
            Self::Wire => 0,
            Self::Memory => 1,
            Self::Disk => 2,
        };
        out.u8(number);
    }

    /// Reads the option.
    pub(super) fn decode(reader: &mut Reader<'_>) -> Decoded<Self> {
        match reader.u8()? {
            0 => Ok(Self::Wire),
            1 => Ok(Self::Memory),
            2 => Ok(Self::Disk),
            value => Err(ProtocolError::Unknown { what: "mode of verification", value: value.into() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_choice_comes_back_and_others_are_faults() {
        for direct in [DirectIo::Auto, DirectIo::Never, DirectIo::Always] {
            for cache in [CacheUse::Auto, CacheUse::Keep, CacheUse::Drop, CacheUse::Cold] {
                let (request, mut out) = (StorageRequest { direct, cache, under_way: UNDER_WAY_MAX }, Writer::new());
                request.encode(&mut out);
                assert_eq!(StorageRequest::decode(&mut Reader::new(&out.into_bytes())), Ok(request));
            }
        }
        for fsync in [Fsync::None, Fsync::Data, Fsync::Full] {
            let mut out = Writer::new();
            fsync.encode(&mut out);
            assert_eq!(Fsync::decode(&mut Reader::new(&out.into_bytes())), Ok(fsync));
        }
        assert!(Fsync::decode(&mut Reader::new(&[3])).is_err());
        for verify in [Verify::Wire, Verify::Memory, Verify::Disk] {
            let mut out = Writer::new();
            verify.encode(&mut out);
            assert_eq!(Verify::decode(&mut Reader::new(&out.into_bytes())), Ok(verify));
        }
        assert!(Verify::decode(&mut Reader::new(&[3])).is_err());
        assert!(StorageRequest::decode(&mut Reader::new(&[3, 0, 0])).is_err());
        assert!(StorageRequest::decode(&mut Reader::new(&[0, 4, 0])).is_err());
        assert!(StorageRequest::decode(&mut Reader::new(&[0, 0, UNDER_WAY_MAX + 1])).is_err());
    }
}

//! How an end reads or writes its files, what it waits for and what it proves: what the controller asks for in a Request.

use crate::encoding::{Decoded, Reader, Writer};
use crate::error::ProtocolError;
use crate::limits::UNDER_WAY_MAX;

/// How files are read or written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StorageRequest {
    /// Past the page cache or through it.
    pub direct: DirectIo,
    /// What stays in the page cache.
    pub cache: CacheUse,
    /// Frames that a stream has under way past the page cache, at most [`UNDER_WAY_MAX`]; 0: what the end finds right.
    pub under_way: u8,
}

/// Past the page cache (O_DIRECT) or through it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DirectIo {
    /// What the end finds to be cheaper.
    #[default]
    Auto,
    /// Through it.
    Never,
    /// Past it, where it can be.
    Always,
}

/// What stays in the page cache of what went through it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CacheUse {
    /// Files that are not large.
    #[default]
    Auto,
    /// Everything, as far as the kernel likes.
    Keep,
    /// As little as can be.
    Drop,
}

/// What the target waits for before a file counts as copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fsync {
    /// Nothing: the kernel writes when it likes.
    None,
    /// Its contents are on the disk before it has its name.
    Data,
    /// And then the name is, too.
    #[default]
    Full,
}

/// What the target proves beyond the CRC of each frame, and the BLAKE3 of each file as its frames told it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Verify {
    /// Nothing.
    #[default]
    Wire,
    /// The BLAKE3 of each frame, over what it is about to write.
    Memory,
    /// The BLAKE3 of each frame, over what the disk returns after it was written.
    Disk,
}

impl StorageRequest {
    /// Writes it.
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
        };
        out.u8(direct).u8(cache).u8(self.under_way);
    }

    /// Reads it.
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
            value => return Err(ProtocolError::Unknown { what: "use of the page cache", value: value.into() }),
        };
        let under_way = reader.u8()?;
        if under_way > UNDER_WAY_MAX {
            return Err(ProtocolError::OverLimit("frames under way"));
        }
        Ok(Self { direct, cache, under_way })
    }
}

impl Fsync {
    /// Writes it.
    pub(super) fn encode(self, out: &mut Writer) {
        let number = match self {
            Self::None => 0,
            Self::Data => 1,
            Self::Full => 2,
        };
        out.u8(number);
    }

    /// Reads it.
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
    /// Writes it.
    pub(super) fn encode(self, out: &mut Writer) {
        let number = match self {
            Self::Wire => 0,
            Self::Memory => 1,
            Self::Disk => 2,
        };
        out.u8(number);
    }

    /// Reads it.
    pub(super) fn decode(reader: &mut Reader<'_>) -> Decoded<Self> {
        match reader.u8()? {
            0 => Ok(Self::Wire),
            1 => Ok(Self::Memory),
            2 => Ok(Self::Disk),
            value => Err(ProtocolError::Unknown { what: "way to verify", value: value.into() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_choice_comes_back_and_others_are_faults() {
        for direct in [DirectIo::Auto, DirectIo::Never, DirectIo::Always] {
            for cache in [CacheUse::Auto, CacheUse::Keep, CacheUse::Drop] {
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
        assert!(StorageRequest::decode(&mut Reader::new(&[0, 3, 0])).is_err());
        assert!(StorageRequest::decode(&mut Reader::new(&[0, 0, UNDER_WAY_MAX + 1])).is_err());
    }
}

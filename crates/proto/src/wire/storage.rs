//! How an end reads or writes its files: what the controller asks for in a Request.

use super::fault::ProtocolFault;
use crate::codec::{Decoded, Reader, Writer};

/// How files are read or written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StorageRequest {
    /// Past the page cache or through it.
    pub direct: DirectIo,
    /// What stays in the page cache.
    pub cache: CacheUse,
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
        out.u8(direct).u8(cache);
    }

    /// Reads it.
    pub(super) fn decode(reader: &mut Reader<'_>) -> Decoded<Self> {
        let direct = match reader.u8()? {
            0 => DirectIo::Auto,
            1 => DirectIo::Never,
            2 => DirectIo::Always,
            value => return Err(ProtocolFault::Unknown { what: "use of direct I/O", value: value.into() }),
        };
        let cache = match reader.u8()? {
            0 => CacheUse::Auto,
            1 => CacheUse::Keep,
            2 => CacheUse::Drop,
            value => return Err(ProtocolFault::Unknown { what: "use of the page cache", value: value.into() }),
        };
        Ok(Self { direct, cache })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_choice_comes_back_and_others_are_faults() {
        for direct in [DirectIo::Auto, DirectIo::Never, DirectIo::Always] {
            for cache in [CacheUse::Auto, CacheUse::Keep, CacheUse::Drop] {
                let (request, mut out) = (StorageRequest { direct, cache }, Writer::new());
                request.encode(&mut out);
                assert_eq!(StorageRequest::decode(&mut Reader::new(&out.into_bytes())), Ok(request));
            }
        }
        assert!(StorageRequest::decode(&mut Reader::new(&[3, 0])).is_err());
        assert!(StorageRequest::decode(&mut Reader::new(&[0, 3])).is_err());
    }
}

//! Storage options of a Request: methods of reading and writing, durability and verification.

use crate::codec::{wire_enum, wire_struct};
use crate::error::ProtocolError;
use crate::field_codecs::AtMost;
use crate::limits::UNDER_WAY_MAX;

wire_struct! {
    /// Method of reading or writing files.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
    pub struct StorageRequest {
        /// Use of O_DIRECT.
        pub direct: DirectIo,
        /// Use of the page cache.
        pub cache: CacheUse,
        /// Most frames of a stream in flight with O_DIRECT, at most [`UNDER_WAY_MAX`]; 0: the end's default.
        pub under_way: u8 as AtMost(UNDER_WAY_MAX, ProtocolError::OverLimit("frames in flight")),
    }
}

wire_enum! {
    /// Use of O_DIRECT.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
    pub enum DirectIo: "use of direct I/O" {
        /// The cheaper method, by the end's choice.
        #[default]
        Auto = 0,
        /// Through the page cache.
        Never = 1,
        /// O_DIRECT, where possible.
        Always = 2,
    }
}

wire_enum! {
    /// Pages that stay in the page cache after buffered I/O.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
    pub enum CacheUse: "use of the page cache" {
        /// Those of files that are not large.
        #[default]
        Auto = 0,
        /// All, at the kernel's discretion.
        Keep = 1,
        /// As few as possible.
        Drop = 2,
        /// The same. What the source's files have in the cache goes before they are read.
        Cold = 3,
    }
}

wire_enum! {
    /// Durability that the target requires before a file counts as copied.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
    pub enum Fsync: "use of fsync" {
        /// None: the kernel writes back at its discretion.
        None = 0,
        /// Contents on disk before the rename to the final name.
        Data = 1,
        /// As Data, and then the name on disk, too.
        #[default]
        Full = 2,
    }
}

wire_enum! {
    /// Verification by the target beyond the check of each frame and the BLAKE3 of each file from its frames' values.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
    pub enum Verify: "mode of verification" {
        /// None.
        #[default]
        Wire = 0,
        /// BLAKE3 of each frame, over the buffer about to be written.
        Memory = 1,
        /// BLAKE3 of each frame, over the data read back from disk.
        Disk = 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::tests::{check_round_trip, refuses};

    #[test]
    fn choices_round_trip_and_unknown_ones_are_faults() {
        for direct in [DirectIo::Auto, DirectIo::Never, DirectIo::Always] {
            for cache in [CacheUse::Auto, CacheUse::Keep, CacheUse::Drop, CacheUse::Cold] {
                let bytes = check_round_trip(&StorageRequest { direct, cache, under_way: UNDER_WAY_MAX });
                assert!(refuses::<StorageRequest>(&bytes, &[(0, 3), (1, 4), (2, UNDER_WAY_MAX + 1)]));
            }
        }
        for fsync in [Fsync::None, Fsync::Data, Fsync::Full] {
            assert!(refuses::<Fsync>(&check_round_trip(&fsync), &[(0, 3)]));
        }
        for verify in [Verify::Wire, Verify::Memory, Verify::Disk] {
            assert!(refuses::<Verify>(&check_round_trip(&verify), &[(0, 3)]));
        }
    }
}

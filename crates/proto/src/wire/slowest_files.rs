//! The slowest files of a target.

use crate::encoding::{Decoded, Reader, Writer};
use crate::encoding::{decode_figure, encode_figure};
use crate::limits::{PATH_MAX, SLOWEST_MAX};

/// A file and its duration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlowFile {
    /// Path from the source argument down.
    pub path: Vec<u8>,
    /// Size in bytes.
    pub size: u64,
    /// Time from its first write to its final name, in microseconds.
    pub took_us: u64,
}

impl SlowFile {
    pub(super) fn encode_all(files: &[Self], out: &mut Writer) {
        let files = &files[..files.len().min(SLOWEST_MAX)];
        out.count(files.len());
        for Self { path, size, took_us } in files {
            // Of a path longer than the limit, the end.
            out.bytes(&path[path.len().saturating_sub(PATH_MAX)..]);
            [size, took_us].iter().for_each(|figure| encode_figure(**figure, out));
        }
    }

    pub(super) fn decode_all(reader: &mut Reader<'_>) -> Decoded<Vec<Self>> {
        let count = reader.count(SLOWEST_MAX, "slow files")?;
        let file = |_| {
            let path = reader.bytes(PATH_MAX, "a path")?.to_vec();
            Ok(Self { path, size: decode_figure(reader)?, took_us: decode_figure(reader)? })
        };
        (0..count).map(file).collect()
    }
}

//! Deltas: the target builds a file from its base file, and only the missing parts are transferred.
//!
//! There are two methods. [`blocks`] compares blocks at the same offset, for files that change in place. It costs
//! nothing beyond the BLAKE3 of both ends. [`mod@rolling`] finds blocks at any offset, for files with insertions or
//! deletions.
//!
//! Either method turns a frame into [`instructions`] to build it. Both only find candidates: the BLAKE3 value of each
//! resulting frame verifies it.

pub mod base;
pub mod blocks;
pub mod instructions;
pub mod options;
pub mod patch;
pub mod rolling;

use crate::delta::options::DeltaMode;
use crate::limits::{ROLLING_BLOCK_MAX, ROLLING_BLOCK_MIN, ROLLING_BLOCKS_MAX};

/// Smaller files are sent whole, unless a delta is requested: the exchange would take as long as the files.
const OLD_FILE_MIN: u64 = 1 << 20;

/// Method of finding data of a base file in a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeltaMethod {
    /// Comparison of blocks at the same offset.
    Blocks,
    /// Search for blocks of this length at any offset.
    Rolling(u32),
}

/// Selects the method for a file of `new` bytes with a base file of `old` bytes; `None`: send it whole.
///
/// A file of unchanged size was probably changed in place; any other file was not.
pub fn method(rule: DeltaMode, in_place: bool, old: u64, new: u64) -> Option<DeltaMethod> {
    if old == 0 {
        return None;
    }
    match rule {
        DeltaMode::Off if in_place => Some(DeltaMethod::Blocks),
        DeltaMode::Off => None,
        _ if in_place => Some(DeltaMethod::Blocks),
        DeltaMode::Auto if old < OLD_FILE_MIN => None,
        DeltaMode::Auto if old == new => Some(DeltaMethod::Blocks),
        DeltaMode::Blocks => Some(DeltaMethod::Blocks),
        DeltaMode::Auto | DeltaMode::Rolling => Some(rolling(old)),
    }
}

/// Selects the block length. Larger blocks mean fewer signatures, but more data sent around each change. Both costs
/// grow alike where the block length is about the square root of the file size. A multiple of 64 is signed fastest.
fn rolling(old: u64) -> DeltaMethod {
    let len = old.isqrt() / 64 * 64;
    let len = len.clamp(ROLLING_BLOCK_MIN.into(), ROLLING_BLOCK_MAX.into());
    match u32::try_from(len) {
        Ok(len) if old / u64::from(len) <= ROLLING_BLOCKS_MAX => DeltaMethod::Rolling(len),
        _ => DeltaMethod::Blocks,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_equal_size_are_compared_in_place_and_others_are_searched() {
        const M: u64 = 1 << 20;
        let rolling = |bytes: u32| Some(DeltaMethod::Rolling(bytes));
        for (rule, in_place, old, new, expected) in [
            (DeltaMode::Off, false, 8 * M, 8 * M, None),
            (DeltaMode::Off, true, 8 * M, 8 * M, Some(DeltaMethod::Blocks)),
            (DeltaMode::Auto, false, 0, 8 * M, None),
            (DeltaMode::Auto, true, 0, 8 * M, None),
            (DeltaMode::Auto, false, M - 1, M - 1, None),
            (DeltaMode::Auto, false, M, M, Some(DeltaMethod::Blocks)),
            (DeltaMode::Auto, false, M, M + 1, rolling(1024)),
            (DeltaMode::Auto, true, M, M + 1, Some(DeltaMethod::Blocks)),
            (DeltaMode::Blocks, false, 1, M, Some(DeltaMethod::Blocks)),
            (DeltaMode::Rolling, false, 1, M, rolling(1024)),
            (DeltaMode::Rolling, false, 1024 * M, 1024 * M, rolling(32 << 10)),
            (DeltaMode::Rolling, false, M * M, M, Some(DeltaMethod::Blocks)),
            (DeltaMode::Rolling, false, u64::MAX, M, Some(DeltaMethod::Blocks)),
        ] {
            assert_eq!(method(rule, in_place, old, new), expected, "{rule:?} {in_place} {old} {new}");
        }
    }
}

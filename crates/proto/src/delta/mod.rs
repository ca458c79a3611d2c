//! Deltas: what a target can make of a file from the old one that it has, so that only the rest of it travels.
//!
//! Two ways to find that out. [`blocks`]: what stands at the same place in both, for files that change in place; costs
//! nothing beyond the BLAKE3 of both ends. [`mod@rolling`]: what stands anywhere, for files in which bytes were inserted or
//! removed. Either way a frame becomes [`instructions`] for making it. All of that only finds candidates: what a frame
//! becomes is proven by its BLAKE3 value, as ever.

pub mod base;
pub mod blocks;
pub mod instructions;
pub mod options;
pub mod patch;
pub mod rolling;

use crate::delta::options::DeltaMode;
use crate::limits::{ROLLING_BLOCK_MAX, ROLLING_BLOCK_MIN, ROLLING_BLOCKS_MAX};

/// Smaller files are sent as they are, unless a delta is asked for: the answer would take as long as they do.
const OLD_FILE_MIN: u64 = 1 << 20;

/// How it is found out what an old file has of a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeltaMethod {
    /// Block by block, each held against the one at the same place.
    Blocks,
    /// Blocks of so many bytes, wherever they are now.
    Rolling(u32),
}

/// What is done with a file of `new` bytes in whose place one of `old` bytes stands; `None`: it is sent whole.
///
/// A file that kept its size was changed in place, mostly; one that did not was not.
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

/// The larger the blocks, the fewer sums there are, and the more is sent around each change: both grow alike where a block
/// is about as long as the root of the file. Twice that is taken, since a change mostly costs one block.
fn rolling(old: u64) -> DeltaMethod {
    let len = (2 * old.isqrt()).next_multiple_of(1024);
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
    fn what_kept_its_size_is_compared_in_place_and_what_did_not_is_searched() {
        const M: u64 = 1 << 20;
        let rolling = |bytes: u32| Some(DeltaMethod::Rolling(bytes));
        for (rule, in_place, old, new, expected) in [
            (DeltaMode::Off, false, 8 * M, 8 * M, None),
            (DeltaMode::Off, true, 8 * M, 8 * M, Some(DeltaMethod::Blocks)),
            (DeltaMode::Auto, false, 0, 8 * M, None),
            (DeltaMode::Auto, true, 0, 8 * M, None),
            (DeltaMode::Auto, false, M - 1, M - 1, None),
            (DeltaMode::Auto, false, M, M, Some(DeltaMethod::Blocks)),
            (DeltaMode::Auto, false, M, M + 1, rolling(2048)),
            (DeltaMode::Auto, true, M, M + 1, Some(DeltaMethod::Blocks)),
            (DeltaMode::Blocks, false, 1, M, Some(DeltaMethod::Blocks)),
            (DeltaMode::Rolling, false, 1, M, rolling(2048)),
            (DeltaMode::Rolling, false, 1024 * M, 1024 * M, rolling(64 << 10)),
            (DeltaMode::Rolling, false, M * M, M, Some(DeltaMethod::Blocks)),
            (DeltaMode::Rolling, false, u64::MAX, M, Some(DeltaMethod::Blocks)),
        ] {
            assert_eq!(method(rule, in_place, old, new), expected, "{rule:?} {in_place} {old} {new}");
        }
    }
}

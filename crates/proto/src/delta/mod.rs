//! Deltas: what a target can make of a file from the old one that it has, so that only the rest of it travels.
//!
//! Two ways to find that out. [`blocks`]: what stands at the same place in both, for files that change in place; costs
//! nothing beyond the BLAKE3 of both ends. [`rolling`]: what stands anywhere, for files in which bytes were inserted or
//! removed. Either way a frame becomes [`instructions`] for making it. All of that only finds candidates: what a frame
//! becomes is proven by its BLAKE3 value, as ever.

pub mod base;
pub mod blocks;
pub mod instructions;
pub mod options;
pub mod patch;
pub mod rolling;

use crate::delta::options::Delta;
use crate::limits::{ROLLING_BLOCK_MAX, ROLLING_BLOCK_MIN, ROLLING_BLOCKS_MAX};

/// Smaller files are sent as they are, unless a delta is asked for: the answer would take as long as they do.
const OLD_FILE_MIN: u64 = 1 << 20;

/// How it is found out what an old file has of a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Block by block, each held against the one at the same place.
    Blocks,
    /// Blocks of so many bytes, wherever they are now.
    Rolling(u32),
}

/// What is done with a file of `new` bytes in whose place one of `old` bytes stands; `None`: it is sent whole.
///
/// A file that kept its size was changed in place, mostly; one that did not was not.
pub fn method(rule: Delta, in_place: bool, old: u64, new: u64) -> Option<Method> {
    if old == 0 {
        return None;
    }
    match rule {
        Delta::Off if in_place => Some(Method::Blocks),
        Delta::Off => None,
        _ if in_place => Some(Method::Blocks),
        Delta::Auto if old < OLD_FILE_MIN => None,
        Delta::Auto if old == new => Some(Method::Blocks),
        Delta::Blocks => Some(Method::Blocks),
        Delta::Auto | Delta::Rolling => Some(rolling(old)),
    }
}

/// The larger the blocks, the fewer sums there are, and the more is sent around each change: both grow alike where a block
/// is about as long as the root of the file. Twice that is taken, since a change mostly costs one block.
fn rolling(old: u64) -> Method {
    let len = (2 * old.isqrt()).next_multiple_of(1024);
    let len = len.clamp(ROLLING_BLOCK_MIN.into(), ROLLING_BLOCK_MAX.into());
    match u32::try_from(len) {
        Ok(len) if old / u64::from(len) <= ROLLING_BLOCKS_MAX => Method::Rolling(len),
        _ => Method::Blocks,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_kept_its_size_is_compared_in_place_and_what_did_not_is_searched() {
        const M: u64 = 1 << 20;
        let rolling = |bytes: u32| Some(Method::Rolling(bytes));
        for (rule, in_place, old, new, expected) in [
            (Delta::Off, false, 8 * M, 8 * M, None),
            (Delta::Off, true, 8 * M, 8 * M, Some(Method::Blocks)),
            (Delta::Auto, false, 0, 8 * M, None),
            (Delta::Auto, true, 0, 8 * M, None),
            (Delta::Auto, false, M - 1, M - 1, None),
            (Delta::Auto, false, M, M, Some(Method::Blocks)),
            (Delta::Auto, false, M, M + 1, rolling(2048)),
            (Delta::Auto, true, M, M + 1, Some(Method::Blocks)),
            (Delta::Blocks, false, 1, M, Some(Method::Blocks)),
            (Delta::Rolling, false, 1, M, rolling(2048)),
            (Delta::Rolling, false, 1024 * M, 1024 * M, rolling(64 << 10)),
            (Delta::Rolling, false, M * M, M, Some(Method::Blocks)),
            (Delta::Rolling, false, u64::MAX, M, Some(Method::Blocks)),
        ] {
            assert_eq!(method(rule, in_place, old, new), expected, "{rule:?} {in_place} {old} {new}");
        }
    }
}

//! Base files: their signatures, and frames rebuilt from them.

pub mod block_signatures;
pub mod delta_apply;
pub mod find_base;
pub mod in_place_update;

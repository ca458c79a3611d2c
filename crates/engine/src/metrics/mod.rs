//! What a worker counts and times, and how it reports that to its controller.

pub mod counter;
pub mod delta_tally;
pub mod reporter;
pub mod slowest_files;
pub mod stage_timer;
pub mod sync_tally;

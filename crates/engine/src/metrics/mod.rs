//! Counters and timers of a worker, and its reports to the controller.

pub mod counter;
pub mod delta_tally;
pub mod reporter;
pub mod slowest_files;
pub mod stage_timer;
pub mod sync_tally;

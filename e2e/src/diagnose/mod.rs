//! Is the verdict right? Makes each limit on purpose, copies through it, and compares what haul names with what it was.
//!
//! `scene` says what there is between two ends, `hosts` and `stage` build that and copy, `pick` chooses settings from ranges,
//! `limits` has the scene of each limit, `cases` is the table of them, `claim` names a limit,
//! `judge` tells right from wrong, `command` is what `cargo xtask lab diagnose` runs.

mod busy;
mod cases;
mod claim;
mod command;
mod hosts;
mod judge;
mod limits;
mod pick;
mod scene;
mod stage;

pub use command::{everyday, everyday_limits, main};
pub use judge::{CaseOutcome, Ruling};

//! Tests haul's verdict: makes each limit on purpose, copies through it, and compares haul's verdict with that limit.
//!
//! `scene` describes the setting between two ends, `hosts` and `stage` build it and copy, `pick` chooses settings from
//! ranges, `limits` has the scene of each limit, `cases` is their table, `claim` names a limit, `judge` judges
//! verdicts, `parts` holds the parts of the path against them, and `command` is `cargo xtask lab diagnose`.

mod busy;
mod cases;
mod claim;
mod command;
mod hosts;
mod judge;
mod limits;
mod parts;
mod pick;
mod scene;
mod stage;

pub use command::{everyday, everyday_limits, main};
pub use judge::{CaseOutcome, Ruling};

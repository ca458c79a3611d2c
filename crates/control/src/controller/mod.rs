//! The controller: starts a worker for each end, sends each its Request, finds a transport path, and reports events to
//! the caller. File data never passes through it.
//!
//! `attempt` starts the workers, and `retry_loop` repeats attempts. `transfer` holds what happens once both run.

mod advice;
mod attempt;
mod attempt_result;
mod base;
mod control_requests;
mod copy_check;
mod copy_progress;
mod duplicate_targets;
mod event_dedup;
mod expansion;
pub mod file_session;
mod held_events;
mod inbox;
mod list_feeder;
pub mod measurement;
mod notices;
mod planned_paths;
mod rate_limit;
mod reached_host;
pub mod replica_session;
mod report_checker;
mod report_scope;
mod requests;
mod retry_loop;
mod retry_policy;
mod routes;
mod settings;
mod totals;
mod transfer;
pub mod twoway;
mod worker_relay;
mod worker_role;
mod worker_start;
mod workers;

pub use crate::controller::retry_loop::run;

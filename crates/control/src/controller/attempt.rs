//! One attempt at a copy: starts the workers, and hands them to the transfer.

use std::time::Instant;

use haul_base::copy::event::Observer;
use haul_base::copy::spec::{CopySpec, WorkerProgram};
use haul_base::sys::cancel::Cancel;

use super::attempt_result::{CopyAttempt, EarlierAttempts, interrupted_first};
use super::control_requests::ControlRequests;
use super::expansion::expand_sources;
use super::settings::session_settings;
use super::transfer::TransferController;
use super::worker_role::WorkerRole;
use super::workers::Workers;

/// Runs one attempt of a copy. The first one replaces patterns among its sources.
pub fn attempt(
    copy: &mut CopySpec,
    program: &WorkerProgram,
    cancel: &Cancel,
    control_requests: &mut ControlRequests,
    observer: &mut dyn Observer,
    earlier: EarlierAttempts,
) -> CopyAttempt {
    let begun = Instant::now();
    let failed = |error| CopyAttempt::failed(interrupted_first(error, cancel), &earlier);
    let mut workers = match Workers::start(copy, program, cancel, observer) {
        Ok(workers) => workers,
        Err(error) => return failed(error),
    };
    let expanded = expand_sources(copy, &mut workers, cancel, observer);
    let settings = match expanded.and_then(|()| session_settings(copy, earlier.copy_id, &workers)) {
        Ok(settings) => settings,
        Err(error) => {
            workers.cancel();
            return failed(error);
        }
    };
    control_requests.limit.allow(WorkerRole::BOTH.map(|role| workers.hello(role).rate_bytes_per_s));
    TransferController::new(copy, settings, workers, cancel, observer, control_requests, earlier).run(begun)
}

//! One attempt at a job: starts the workers, and hands them to the transfer.

use std::time::Instant;

use haul_base::job::event::Observer;
use haul_base::job::spec::{Job, WorkerProgram};
use haul_base::sys::cancel::Cancel;

use super::attempt_result::{EarlierAttempts, JobAttempt, interrupted_first};
use super::control_requests::ControlRequests;
use super::settings::session_settings;
use super::transfer::TransferController;
use super::worker_role::WorkerRole;
use super::workers::Workers;

/// Runs one attempt of a job.
pub fn attempt(
    job: &Job,
    program: &WorkerProgram,
    cancel: &Cancel,
    control_requests: &mut ControlRequests,
    observer: &mut dyn Observer,
    earlier: EarlierAttempts,
) -> JobAttempt {
    let begun = Instant::now();
    let failed = |error| JobAttempt::failed(interrupted_first(error, cancel), &earlier);
    let mut workers = match Workers::start(job, program, cancel, observer) {
        Ok(workers) => workers,
        Err(error) => return failed(error),
    };
    let settings = match session_settings(job, earlier.job_id, &workers) {
        Ok(settings) => settings,
        Err(error) => {
            workers.cancel();
            return failed(error);
        }
    };
    control_requests.limit.allow(WorkerRole::BOTH.map(|role| workers.hello(role).rate_bytes_per_s));
    TransferController::new(job, settings, workers, cancel, observer, control_requests, earlier).run(begun)
}

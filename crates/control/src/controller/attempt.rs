//! One attempt at a job: it starts the workers, and leaves results for the next attempt.

use haul_base::job::error::{Error, Outcome};
use haul_base::job::event::Observer;
use haul_base::job::spec::{Job, WorkerProgram};
use haul_base::sys::cancel::Cancel;
use haul_proto::ids::JobId;
use haul_proto::sync::SyncCounters;
use haul_proto::wire::counters::Counters;
use std::time::{Duration, Instant};

use super::TransferController;
use super::control_requests::ControlRequests;
use super::held_events::HeldEvents;
use super::job_progress::JobProgress;
use super::notices::NoticeCounts;
use super::report_checker::ReportChecker;
use super::settings::{new_job_id, session_settings};
use super::transport_path::TransferConnection;
use super::worker_role::WorkerRole;
use super::workers::Workers;

/// Outcome of one attempt.
pub struct JobAttempt {
    pub outcome: Outcome,
    /// The last counters of source and target.
    pub ends: [Counters; 2],
    /// Counters of the sync options.
    pub sync: SyncCounters,
    /// Whether the only source argument is a directory, copied to a new directory.
    pub new_tree: bool,
    /// Deltas whose hash did not match the source's, including earlier attempts.
    pub wrong_deltas: u32,
    /// Warnings, including earlier attempts.
    pub notices: NoticeCounts,
}

impl JobAttempt {
    /// Returns the result of an attempt that failed to start.
    fn failed(error: Error, earlier: &EarlierAttempts) -> Self {
        let (ends, sync) = ([Counters::default(); 2], SyncCounters::default());
        Self { outcome: Err(error), ends, sync, new_tree: false, wrong_deltas: 0, notices: earlier.notices }
    }
}

/// Results of a job's earlier attempts.
#[derive(Debug, Clone, Copy)]
pub struct EarlierAttempts {
    /// The id that all attempts have.
    pub job_id: JobId,
    /// Whether an attempt had started before it broke.
    pub was_under_way: bool,
    /// Whether an attempt started the new directory of the only source argument.
    pub own_tree: bool,
    /// Deltas whose hash did not match the source's.
    pub wrong_deltas: u32,
    /// Warnings so far.
    pub notices: NoticeCounts,
}

impl EarlierAttempts {
    /// Of a job that begins.
    pub fn none() -> Result<Self, Error> {
        let (job_id, notices) = (new_job_id()?, NoticeCounts::default());
        Ok(Self { job_id, was_under_way: false, own_tree: false, wrong_deltas: 0, notices })
    }
}

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
    TransferController {
        job,
        settings,
        reports: ReportChecker::new(job, workers.is_one()),
        progress: JobProgress::new(&workers),
        workers,
        cancel,
        events: HeldEvents::new(observer),
        notices: earlier.notices,
        connection: TransferConnection::default(),
        control_requests,
        earlier,
        feeding: None,
    }
    .run(begun)
}

/// Ctrl-C at a terminal also ends ssh: a connection may be lost before its cancellation is known.
const CANCEL_DELAY: Duration = Duration::from_millis(200);

/// Returns [`Error::Interrupted`] in place of a connection that a cancellation ended.
pub fn interrupted_first(error: Error, cancel: &Cancel) -> Error {
    if matches!(error, Error::Broken(_) | Error::Connect(_)) && cancel.wait(CANCEL_DELAY) {
        Error::Interrupted
    } else {
        error
    }
}

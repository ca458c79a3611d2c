//! What an attempt leaves for its caller and for the next one.

use std::time::Duration;

use haul_base::copy::error::{Error, Outcome};
use haul_base::copy::summary::Summary;
use haul_base::sys::cancel::Cancel;
use haul_proto::ids::CopyId;
use haul_proto::sync::SyncCounters;
use haul_proto::wire::counters::Counters;

use super::notices::NoticeCounts;
use super::settings::new_copy_id;

/// Outcome of one attempt.
pub struct CopyAttempt {
    pub outcome: Outcome,
    /// What it had done before it failed.
    pub stopped: Option<Summary>,
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

impl CopyAttempt {
    /// Returns the result of an attempt that failed to start.
    pub fn failed(error: Error, earlier: &EarlierAttempts) -> Self {
        let (ends, sync) = ([Counters::default(); 2], SyncCounters::default());
        Self {
            outcome: Err(error),
            stopped: None,
            ends,
            sync,
            new_tree: false,
            wrong_deltas: 0,
            notices: earlier.notices,
        }
    }
}

/// Results of a copy's earlier attempts.
#[derive(Debug, Clone, Copy)]
pub struct EarlierAttempts {
    /// The id that all attempts have.
    pub copy_id: CopyId,
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
    /// Of a copy that begins.
    pub fn none() -> Result<Self, Error> {
        let (copy_id, notices) = (new_copy_id()?, NoticeCounts::default());
        Ok(Self { copy_id, was_under_way: false, own_tree: false, wrong_deltas: 0, notices })
    }
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

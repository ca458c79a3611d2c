//! What its Requests make of a worker: a source, a target, both, a file session, or the state of a measurement.

use std::sync::Arc;

use haul_proto::wire::request::SessionSettings;

use crate::receiver::TargetReceiver;
use crate::source::Source;
use crate::sys::confine::ConfineBounds;
use crate::worker::error::MessageOrderError;
use crate::worker::file_session::FileSessionRuntime;
use crate::worker::measure::MeasureBench;
use crate::worker::replica_runtime::ReplicaRuntime;
use crate::worker::runtime::CopyEnds;

/// The work of a worker, as far as Requests have come.
#[derive(Default)]
pub(super) struct AssignedWork {
    pub source: Option<Arc<Source>>,
    pub target: Option<Arc<TargetReceiver>>,
    /// The state of a measurement, for a worker that is neither source nor target.
    pub bench: Option<MeasureBench>,
    /// The file session, for a worker that is neither source nor target.
    pub files: Option<FileSessionRuntime>,
    /// The replica session, for a worker that is neither source nor target.
    pub replica: Option<ReplicaRuntime>,
}

impl AssignedWork {
    /// Whether a Request has made it an end of a copy.
    pub fn is_copy(&self) -> bool {
        self.source.is_some() || self.target.is_some()
    }

    /// Returns the settings of the session.
    pub fn settings(&self) -> Result<&SessionSettings, MessageOrderError> {
        let source = self.source.as_ref().map(|source| source.settings());
        let target = self.target.as_ref().map(|target| target.parts.copy.settings());
        source.or(target).ok_or(MessageOrderError::ConnectionBeforeRequest)
    }

    /// Returns the ends of the copy.
    pub fn ends(&self) -> Result<CopyEnds, MessageOrderError> {
        match (&self.source, &self.target) {
            (Some(source), None) => Ok(CopyEnds::Source(Arc::clone(source))),
            (None, Some(target)) => Ok(CopyEnds::Target(Arc::clone(target))),
            (Some(source), Some(target)) => Ok(CopyEnds::Both(Arc::clone(source), Arc::clone(target))),
            (None, None) => Err(MessageOrderError::StartBeforeRequest),
        }
    }

    /// Whether file data crosses a network: not within one process, and not where both ends only compare.
    pub fn needs_streams(&self) -> bool {
        let is_both = self.source.is_some() && self.target.is_some();
        let only_compares = self.source.as_ref().is_some_and(|source| source.compares())
            || self.target.as_ref().is_some_and(|target| target.parts.copy.compares());
        !is_both && !only_compares
    }

    /// Returns the devices that are read and written; 0 for none.
    pub fn devices(&self) -> [u64; 2] {
        let written_to = self.target.as_ref().and_then(|target| target.parts.copy.landing_identity());
        [self.source.as_ref().map_or(0, |source| source.device()), written_to.map_or(0, |landing| landing.device)]
    }

    /// Permits in the sandbox what source and target need.
    pub fn allow(&self, bounds: &mut ConfineBounds) {
        self.source.iter().for_each(|source| source.allow(bounds));
        self.target.iter().for_each(|target| target.allow(bounds));
    }
}

//! Authority of workers: which worker may send which report, and in which phase of a copy. Every other report is a
//! protocol error.
//!
//! The table is [`WorkerMessage::rule`]; the owner of each counter is in [`Counters::foreign`](super::counters::Counters::foreign) and its siblings.

use super::counters::{FinalReport, PathFigures, ReadBackBytes};
use super::report::WorkerMessage;
use super::worker_ends::WorkerEnds;
use crate::error::ProtocolError;
use crate::sync::SyncCounters;

/// Phase of a worker, by its own reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkerPhase {
    /// Before Hello. Next: [`Self::Preparing`].
    Starting,
    /// After Hello, before SourceReady or TargetReady. Next: [`Self::Working`].
    Preparing,
    /// Ready; it works after Start. Next: [`Self::Finished`].
    Working,
    /// After its Finished.
    Finished,
}

impl WorkerPhase {
    /// All phases in order.
    pub const ALL: [Self; 4] = [Self::Starting, Self::Preparing, Self::Working, Self::Finished];
}

/// Requirement of a report on the copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportRequirement {
    /// Nothing.
    None,
    /// A Listen, Connect or Tunnel without a reply so far.
    Connection,
    /// A Request for FileDone.
    Files,
    /// A Request for Item, or for a dry run.
    Items,
    /// A Request to this end for a digest besides BLAKE3.
    Checksum,
    /// A copy that compares.
    Comparison,
    /// A copy that resumes.
    Resumption,
    /// A copy with base files.
    Delta,
    /// A copy with a list.
    List,
    /// A Measure request.
    Measurement,
    /// A FileSession request.
    FileSession,
    /// A Replica request.
    Replica,
    /// An Expand without an answer.
    Expansion,
}

/// Senders and phases of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReportRule {
    /// Name of the report in docs/PROTOCOL.md.
    pub name: &'static str,
    /// Ends that may send it.
    pub ends: WorkerEnds,
    /// Phases in which they may.
    pub phases: &'static [WorkerPhase],
    /// Further requirement.
    pub requirement: ReportRequirement,
}

/// Periodic reports may be in flight when a worker finishes. They have no effect then.
const PERIODIC: &[WorkerPhase] = &[WorkerPhase::Working, WorkerPhase::Finished];
const WORKING: &[WorkerPhase] = &[WorkerPhase::Working];
const PREPARING: &[WorkerPhase] = &[WorkerPhase::Preparing];
const BEFORE_THE_END: &[WorkerPhase] = &[WorkerPhase::Preparing, WorkerPhase::Working];
const AFTER_HELLO: &[WorkerPhase] = &[WorkerPhase::Preparing, WorkerPhase::Working, WorkerPhase::Finished];

impl WorkerMessage {
    /// Returns the row of the table for this report.
    pub fn rule(&self) -> ReportRule {
        use ReportRequirement as R;
        let (name, ends, phases, requirement): (_, _, &'static [WorkerPhase], _) = match self {
            Self::Hello(_) => ("Hello", WorkerEnds::BOTH, &[WorkerPhase::Starting], R::None),
            Self::SourceReady { .. } => ("SourceReady", WorkerEnds::SOURCE, PREPARING, R::None),
            Self::TargetReady { .. } => ("TargetReady", WorkerEnds::TARGET, PREPARING, R::None),
            Self::Refused { .. } => ("Refused", WorkerEnds::BOTH, BEFORE_THE_END, R::None),
            Self::Listening { .. } => ("Listening", WorkerEnds::BOTH, PERIODIC, R::Connection),
            Self::Connected { .. } => ("Connected", WorkerEnds::BOTH, PERIODIC, R::Connection),
            Self::CannotConnect { .. } => ("CannotConnect", WorkerEnds::BOTH, PERIODIC, R::Connection),
            Self::Counters(_) => ("Counters", WorkerEnds::BOTH, PERIODIC, R::None),
            Self::Load(_) => ("Load", WorkerEnds::BOTH, PERIODIC, R::None),
            Self::Streams(_) => ("Streams", WorkerEnds::BOTH, PERIODIC, R::None),
            Self::Work(_) => ("Work", WorkerEnds::SOURCE, PERIODIC, R::None),
            Self::Slowest(_) => ("Slowest", WorkerEnds::TARGET, PERIODIC, R::None),
            Self::Delta(_) => ("Delta", WorkerEnds::TARGET, WORKING, R::Delta),
            Self::Item { .. } => ("Item", WorkerEnds::TARGET, BEFORE_THE_END, R::Items),
            Self::Synced(_) => ("Synced", WorkerEnds::BOTH, PERIODIC, R::None),
            Self::FileDone { .. } => ("FileDone", WorkerEnds::TARGET, WORKING, R::Files),
            Self::Resumed { .. } => ("Resumed", WorkerEnds::TARGET, WORKING, R::Resumption),
            Self::FileFailed { .. } => ("FileFailed", WorkerEnds::BOTH, BEFORE_THE_END, R::None),
            Self::Skipped { .. } => ("Skipped", WorkerEnds::BOTH, BEFORE_THE_END, R::None),
            Self::SourceChanged { .. } => ("SourceChanged", WorkerEnds::SOURCE, WORKING, R::None),
            Self::Differs { .. } => ("Differs", WorkerEnds::TARGET, WORKING, R::Comparison),
            Self::Checksum { .. } => ("Checksum", WorkerEnds::BOTH, WORKING, R::Checksum),
            Self::Paths { .. } => ("Paths", WorkerEnds::SOURCE, PERIODIC, R::None),
            Self::Warning { .. } => ("Warning", WorkerEnds::BOTH, AFTER_HELLO, R::None),
            Self::ListAck { .. } => ("ListAck", WorkerEnds::TARGET, WORKING, R::List),
            Self::Sandboxed(_) => ("Sandboxed", WorkerEnds::BOTH, WORKING, R::None),
            Self::Finished(_) => ("Finished", WorkerEnds::BOTH, WORKING, R::None),
            Self::Measured(_) => ("Measured", WorkerEnds::BOTH, PREPARING, R::Measurement),
            Self::FileAnswer(_) => ("FileAnswer", WorkerEnds::BOTH, PREPARING, R::FileSession),
            Self::ReplicaAnswer(_) => ("ReplicaAnswer", WorkerEnds::BOTH, PREPARING, R::Replica),
            Self::Expanded(_) => ("Expanded", WorkerEnds::SOURCE, PREPARING, R::Expansion),
            Self::Fatal { .. } => ("Fatal", WorkerEnds::BOTH, AFTER_HELLO, R::None),
        };
        ReportRule { name, ends, phases, requirement }
    }

    /// Whether a worker of these `ends` may send this report in `phase`. `fulfils` checks a requirement on the copy.
    pub fn is_permitted(
        &self,
        ends: WorkerEnds,
        phase: WorkerPhase,
        fulfils: impl FnOnce(ReportRequirement) -> bool,
    ) -> bool {
        let rule = self.rule();
        ends.meet(rule.ends)
            && rule.phases.contains(&phase)
            && (rule.requirement == ReportRequirement::None || fulfils(rule.requirement))
    }
}

/// Returns the name of the first non-zero number.
fn first_of(figures: &[(&'static str, u64)]) -> Option<&'static str> {
    figures.iter().find(|(_, value)| *value != 0).map(|(name, _)| *name)
}

fn foreign_of(
    ends: WorkerEnds,
    of_source: &[(&'static str, u64)],
    of_target: &[(&'static str, u64)],
) -> Option<&'static str> {
    let source = (!ends.source).then(|| first_of(of_source)).flatten();
    source.or_else(|| (!ends.target).then(|| first_of(of_target)).flatten())
}

impl SyncCounters {
    /// Returns the first non-zero counter that belongs to none of `ends`.
    pub fn foreign(&self, ends: WorkerEnds) -> Option<&'static str> {
        let Self { removed, backed_up, linked, adjusted, removed_at_source, left_at_source } = *self;
        let of_source = [("files removed at the source", removed_at_source), ("files left there", left_at_source)];
        let of_target = [
            ("entries removed", removed),
            ("entries backed up", backed_up),
            ("files linked", linked),
            ("entries adjusted", adjusted),
        ];
        foreign_of(ends, &of_source, &of_target)
    }
}

impl FinalReport {
    /// Returns the first non-zero number that belongs to none of `ends`.
    pub fn foreign(&self, ends: WorkerEnds) -> Option<&'static str> {
        let Self { ref counters, cloned_bytes, durable, read_back, path, compression, .. } = *self;
        let PathFigures { round_trip_us, segments, retransmitted, busy_us, receiver_limited_us, buffer_limited_us } =
            path;
        let of_path = [round_trip_us, segments, retransmitted, busy_us, receiver_limited_us, buffer_limited_us];
        let ReadBackBytes { disk_bytes, cache_bytes, memory_bytes } = read_back;
        let of_source = [
            ("values of the network path", of_path.into_iter().max().unwrap_or(0)),
            ("a compression", compression.is_some().into()),
        ];
        let of_target = [
            ("bytes cloned", cloned_bytes),
            ("durability", durable.into()),
            ("bytes read back", disk_bytes.max(cache_bytes).max(memory_bytes)),
        ];
        counters.foreign(ends).or_else(|| foreign_of(ends, &of_source, &of_target))
    }
}

impl WorkerMessage {
    /// Checks that a worker reports no number of the other end.
    ///
    /// # Errors
    /// The name of that number.
    pub fn check_owner(&self, ends: WorkerEnds) -> Result<(), ProtocolError> {
        let foreign = match self {
            Self::Counters(counters) => counters.foreign(ends),
            Self::Synced(figures) => figures.foreign(ends),
            Self::Finished(last) => last.foreign(ends),
            _ => None,
        };
        foreign.map_or(Ok(()), |name| Err(ProtocolError::Unasked(name)))
    }
}

#[cfg(test)]
#[path = "authority_tests.rs"]
mod tests;

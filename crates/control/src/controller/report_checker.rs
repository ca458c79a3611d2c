//! Checks workers' reports against their Requests: the sender, the phase, and the paths. An invalid report ends the copy
//! without a retry.

use std::net::SocketAddr;

use haul_base::copy::error::Error;
use haul_base::copy::location::Host;
use haul_base::copy::spec::{CopyOptions, CopySpec};
use haul_proto::delta::options::DeltaMode;
use haul_proto::error::ProtocolError;
use haul_proto::limits::{LINKS_MAX, STREAMS_MAX};
use haul_proto::path::Name;
use haul_proto::wire::authority::{ReportRequirement, WorkerPhase};
use haul_proto::wire::counters::Counters;
use haul_proto::wire::report::{FileReport, ItemReport, ResumeReport, SkipReport, WorkerMessage};
use haul_proto::wire::request::TargetOperand;
use haul_proto::wire::worker_ends::WorkerEnds;

use super::worker_role::WorkerRole;
use crate::controller::report_scope::ReportScope;

/// A violation of the protocol; the text follows the name of the message.
#[derive(Debug, thiserror::Error)]
enum ReportRuleError {
    /// A message that only the other end may send.
    #[error(", which only the {0} may send")]
    WrongSender(&'static str),
    /// A message that was not requested, or in the wrong phase.
    #[error(" unrequested or out of order")]
    OutOfTurn,
    /// A field that belongs to the other end.
    #[error(": {0}")]
    WrongOwner(#[source] ProtocolError),
    /// A new target directory without a request for one.
    #[error(" for a new directory that was not requested")]
    UnexpectedNewTree,
    /// A message that may occur only once.
    #[error(" twice")]
    Repeated,
    /// A digest with the length of another algorithm.
    #[error(" with a digest of the wrong length")]
    DigestLength,
    /// More resumed bytes than the size of the file.
    #[error(" with more bytes than the file has")]
    ResumedBytes,
    /// A port outside the permitted range.
    #[error(" for port {0}, which is outside the permitted range")]
    Port(u16),
    /// More streams than the limit.
    #[error(" with too many streams")]
    StreamCount,
    /// More failures than entries can have.
    #[error(" after {0} failures, more than the entries that it was offered can have")]
    Failures(u64),
    /// A path outside the scope of the copy.
    #[error(" for a path outside the copy")]
    Path,
    /// An invalid socket address.
    #[error(" with an invalid address")]
    Address,
}

/// Checks the reports of a copy's workers.
pub struct ReportChecker {
    is_one: bool,
    requests: RequestedReports,
    scope: ReportScope,
    workers: [WorkerState; 2],
    /// Whether a target's directory may be new.
    may_be_new: bool,
    /// First and last port allowed for data connections.
    ports: (u16, u16),
    /// Most failures of the target; known once the source has offered everything.
    failures_max: Option<u64>,
    /// Whether the target also examines or removes entries that the source does not have.
    has_extraneous: bool,
}

/// State of one worker.
struct WorkerState {
    phase: WorkerPhase,
    /// Number of Listen, Connect and Tunnel messages without an answer.
    answers_due: u32,
    is_confined: bool,
    finished: u32,
    files: FileReportCounts,
}

/// Number of reports of single files that a worker has sent.
#[derive(Debug, Clone, Copy, Default)]
struct FileReportCounts {
    done: u64,
    failed: u64,
    skipped: u64,
    source_changes: u64,
    differing: u64,
    resumed: u64,
    checksums: u64,
}

impl FileReportCounts {
    fn count(&mut self, message: &WorkerMessage) {
        let count = match message {
            WorkerMessage::FileDone(_) => &mut self.done,
            WorkerMessage::FileFailed { .. } => &mut self.failed,
            WorkerMessage::Skipped(_) => &mut self.skipped,
            WorkerMessage::SourceChanged { .. } => &mut self.source_changes,
            WorkerMessage::Differs { .. } => &mut self.differing,
            WorkerMessage::Resumed(_) => &mut self.resumed,
            WorkerMessage::Checksum { .. } => &mut self.checksums,
            _ => return,
        };
        *count = count.saturating_add(1);
    }
}

/// Reports enabled by the Requests.
struct RequestedReports {
    files: bool,
    items: bool,
    /// Length of a digest, and whether the source computes it.
    checksum: Option<(usize, bool)>,
    compares: bool,
    resumes: bool,
    deltas: bool,
    lists: bool,
    measures: bool,
    backups: bool,
    links: bool,
    source_removals: bool,
}

impl RequestedReports {
    fn of(copy: &CopySpec) -> Self {
        let options: &CopyOptions = &copy.options;
        let (delta, sync) = (options.target.delta, &options.target.sync);
        Self {
            files: options.reports.files,
            items: sync.tells_items,
            checksum: options.integrity.checksum.as_ref().map(|asked| (asked.algorithm.bytes(), asked.at_source)),
            compares: options.compare,
            resumes: options.target.partial.resume,
            deltas: delta.delta != DeltaMode::Off || delta.in_place || sync.detect_renames,
            lists: copy.list.is_some(),
            measures: false,
            backups: sync.backs_up(),
            links: !sync.link_dests.is_empty(),
            source_removals: sync.source_removes,
        }
    }

    /// Whether figures that are not zero are about what the copy does.
    fn ask_for_figures(&self, message: &WorkerMessage) -> bool {
        let counters = match message {
            WorkerMessage::Counters(counters) => counters,
            WorkerMessage::Finished(last) => &last.counters,
            WorkerMessage::Synced(figures) => {
                return (self.backups || figures.backed_up == 0)
                    && (self.links || figures.linked == 0)
                    && (self.source_removals || figures.removed_at_source == 0 && figures.left_at_source == 0);
            }
            _ => return true,
        };
        self.compares || counters.files_compared == 0 && counters.differences == 0
    }

    fn ask_for(&self, requirement: ReportRequirement, ends: WorkerEnds, answers_due: u32) -> bool {
        match requirement {
            ReportRequirement::None => true,
            ReportRequirement::Connection => answers_due > 0,
            ReportRequirement::Files => self.files,
            ReportRequirement::Items => self.items,
            ReportRequirement::Checksum => self.checksum.is_some_and(|(_, at_source)| {
                ends.meet(if at_source { WorkerEnds::SOURCE } else { WorkerEnds::TARGET })
            }),
            ReportRequirement::Comparison => self.compares,
            ReportRequirement::Resumption => self.resumes,
            ReportRequirement::Delta => self.deltas,
            ReportRequirement::List => self.lists,
            ReportRequirement::Measurement => self.measures,
            // A copy has none, or had its answer before.
            ReportRequirement::FileSession | ReportRequirement::Replica | ReportRequirement::Expansion => false,
        }
    }
}

impl ReportChecker {
    /// Creates a checker of workers after their Hello.
    pub fn new(copy: &CopySpec, is_one: bool) -> Self {
        let sync = &copy.options.target.sync;
        let state = || WorkerState {
            phase: WorkerPhase::Preparing,
            answers_due: 0,
            is_confined: false,
            finished: 0,
            files: FileReportCounts::default(),
        };
        Self {
            is_one,
            requests: RequestedReports::of(copy),
            scope: ReportScope::new(copy),
            workers: [state(), state()],
            may_be_new: false,
            ports: ports(copy),
            failures_max: None,
            has_extraneous: copy.options.compare || sync.deletes() || sync.replaces_trees,
        }
    }

    /// Creates a checker of workers that measure.
    pub fn of_measurements(copy: &CopySpec, is_one: bool) -> Self {
        let reports = Self::new(copy, is_one);
        Self { requests: RequestedReports { measures: true, ..reports.requests }, ..reports }
    }

    /// Records the source's arguments, and the directories below the target for each.
    pub fn set_operands(&mut self, operands: &[TargetOperand], parents: &[Vec<Name>]) {
        self.may_be_new = matches!(operands, [TargetOperand { directory: true, .. }]);
        self.scope.set_operands(operands, parents);
    }

    /// Records a Listen, Connect or Tunnel message sent to a worker.
    pub fn expect_answer(&mut self, role: WorkerRole) {
        let state = &mut self.workers[role.index()];
        state.answers_due = state.answers_due.saturating_add(1);
    }

    /// Checks a report. Returns `false` for one that is late and must be ignored. `host` is the worker's display name.
    ///
    /// # Errors
    /// The report violates the protocol.
    pub fn admit_report(
        &mut self,
        role: WorkerRole,
        message: &WorkerMessage,
        host: impl FnOnce() -> String,
    ) -> Result<bool, Error> {
        let checked = self.check(role, message);
        let name = message.rule().name;
        checked.map_err(|why| Error::Failed(format!("{}: protocol error: sent {name}{why}", host())))
    }

    /// Checks a report. The error follows the message's name in the text.
    fn check(&mut self, role: WorkerRole, message: &WorkerMessage) -> Result<bool, ReportRuleError> {
        let ends = match (self.is_one, role) {
            (true, _) => WorkerEnds::BOTH,
            (false, WorkerRole::Source) => WorkerEnds::SOURCE,
            (false, WorkerRole::Target) => WorkerEnds::TARGET,
        };
        let (requests, state) = (&self.requests, &mut self.workers[role.index()]);
        let phase = state.phase;
        if !ends.meet(message.rule().ends) {
            return Err(ReportRuleError::WrongSender(if ends.source { "target" } else { "source" }));
        }
        if !message.is_permitted(ends, phase, |requirement| requests.ask_for(requirement, ends, state.answers_due)) {
            return Err(ReportRuleError::OutOfTurn);
        }
        if !requests.ask_for_figures(message) {
            return Err(ReportRuleError::OutOfTurn);
        }
        message.check_owner(ends).map_err(ReportRuleError::WrongOwner)?;
        match message {
            WorkerMessage::SourceReady { .. } if !self.is_one => state.phase = WorkerPhase::Working,
            WorkerMessage::TargetReady { new_tree: true, .. } if !self.may_be_new => {
                return Err(ReportRuleError::UnexpectedNewTree);
            }
            WorkerMessage::TargetReady { .. } => state.phase = WorkerPhase::Working,
            WorkerMessage::Listening { .. } | WorkerMessage::Connected { .. } | WorkerMessage::CannotConnect { .. } => {
                state.answers_due -= 1;
            }
            WorkerMessage::Sandboxed(_) if std::mem::replace(&mut state.is_confined, true) => {
                return Err(ReportRuleError::Repeated);
            }
            WorkerMessage::Finished(_) => {
                state.finished += 1;
                if state.finished > u32::from(self.is_one) {
                    state.phase = WorkerPhase::Finished;
                }
            }
            _ => {}
        }
        state.files.count(message);
        self.check_contents(role, message)?;
        self.check_failures(role, message)?;
        // A connection made late is closed with the others.
        let is_late = phase == WorkerPhase::Finished;
        let is_answer = message.rule().requirement == ReportRequirement::Connection;
        Ok(!is_late || is_answer || matches!(message, WorkerMessage::Warning { .. } | WorkerMessage::Fatal { .. }))
    }

    fn check_contents(&self, role: WorkerRole, message: &WorkerMessage) -> Result<(), ReportRuleError> {
        let is_known = match message {
            WorkerMessage::FileDone(FileReport { path, .. }) => self.scope.has_landed(path),
            WorkerMessage::Slowest(files) => files.iter().all(|file| self.scope.has_landed(&file.path)),
            WorkerMessage::Checksum { path, digest } => {
                let (bytes, at_source) = self.requests.checksum.unwrap_or_default();
                if digest.len() != bytes {
                    return Err(ReportRuleError::DigestLength);
                }
                if at_source { self.scope.has_source(path) } else { self.scope.has_landed(path) }
            }
            WorkerMessage::Item(ItemReport { path, .. }) | WorkerMessage::Differs { path, .. } => {
                self.scope.has_target(path)
            }
            WorkerMessage::Resumed(ResumeReport { size, held, .. }) if held > size => {
                return Err(ReportRuleError::ResumedBytes);
            }
            WorkerMessage::Resumed(ResumeReport { path, .. }) => self.scope.has_target(path),
            WorkerMessage::SourceChanged { path, .. } => self.scope.has_source(path),
            WorkerMessage::FileFailed { path, .. } | WorkerMessage::Skipped(SkipReport { path, .. }) => {
                let is_source = role == WorkerRole::Source && self.scope.has_source(path);
                is_source || (self.is_one || role == WorkerRole::Target) && self.scope.has_target(path)
            }
            WorkerMessage::Listening { port } if !(self.ports.0..=self.ports.1).contains(port) => {
                return Err(ReportRuleError::Port(*port));
            }
            WorkerMessage::Connected { streams, .. } if *streams > STREAMS_MAX => {
                return Err(ReportRuleError::StreamCount);
            }
            WorkerMessage::Connected { from, to, .. } => return all_are_addresses([from, to]),
            WorkerMessage::Paths { in_use: paths, .. } => {
                return all_are_addresses(paths.iter().flat_map(|(from, to)| [from, to]));
            }
            WorkerMessage::Work(work) => {
                return all_are_addresses(work.paths.iter().flat_map(|(own, other)| [own, other]));
            }
            WorkerMessage::Counters(counters) if counters.streams > STREAMS_EVERYWHERE => {
                return Err(ReportRuleError::StreamCount);
            }
            _ => true,
        };
        if is_known { Ok(()) } else { Err(ReportRuleError::Path) }
    }

    /// Checks that the target reports no more failures than the source has offered entries, each of which may fail once
    /// more after its copy.
    fn check_failures(&mut self, role: WorkerRole, message: &WorkerMessage) -> Result<(), ReportRuleError> {
        let counters = match message {
            _ if self.is_one || self.has_extraneous => return Ok(()),
            WorkerMessage::Counters(counters) => **counters,
            WorkerMessage::Finished(last) => last.counters,
            _ => Counters::default(),
        };
        if role == WorkerRole::Source && counters.walk_complete {
            self.failures_max = Some(counters.entries_offered.saturating_mul(2).saturating_add(UNSET_KINDS));
        }
        match self.failures_max {
            Some(most) if role == WorkerRole::Target && self.workers[role.index()].files.failed > most => {
                Err(ReportRuleError::Failures(most))
            }
            _ => Ok(()),
        }
    }

    /// Checks the final counters of both ends: no more files completed than found, and no more reports than counted.
    /// `hosts` are the display names of source and target.
    pub fn check_end(&self, ends: &[Counters; 2], hosts: [String; 2]) -> Result<(), Error> {
        let [source, target] = ends;
        let found = source.files_found;
        let settled = [target.files_copied, target.files_skipped, target.files_compared];
        let settled = settled.into_iter().fold(0, u64::saturating_add);
        let [source_host, target_host] = hosts;
        if settled > found {
            let what = format!("counts {settled} files, but the source offered {found}");
            return Err(unbelievable(&target_host, &what));
        }
        // A single worker has counters for each end and mixed reports. A source that changed is offered twice.
        let twice = found.saturating_mul(2);
        let of_target = self.workers[WorkerRole::Target.index()].files;
        let of_source = self.workers[WorkerRole::Source.index()].files;
        let checks = [
            (&target_host, "files", of_target.done, settled),
            (&target_host, "failures", of_target.failed, target.failed.min(self.failures_max.unwrap_or(u64::MAX))),
            (&target_host, "differences", of_target.differing, target.differences),
            (&target_host, "resumed files", of_target.resumed, twice),
            (&target_host, "checksums", of_target.checksums, twice),
            (&target_host, "skipped entries", of_target.skipped, target.left_out),
            (&source_host, "skipped entries", of_source.skipped, source.left_out),
            (&source_host, "changed sources", of_source.source_changes, twice.saturating_add(source.vanished)),
            (&source_host, "checksums", of_source.checksums, twice),
        ];
        match checks.iter().find(|(_, _, reported, counted)| !self.is_one && reported > counted) {
            None => Ok(()),
            Some((host, what, reported, counted)) => {
                Err(unbelievable(host, &format!("reported {reported} {what}, but there are at most {counted}")))
            }
        }
    }
}

fn unbelievable(host: &str, what: &str) -> Error {
    Error::Failed(format!("{host}: haul there {what}\nthe summary cannot be believed: compare with `haul verify`"))
}

/// Failures of a target for kinds of metadata that it could not set.
const UNSET_KINDS: u64 = 3;
/// Most streams over all paths.
const STREAMS_EVERYWHERE: u64 = STREAMS_MAX as u64 * LINKS_MAX as u64;

/// Returns the ports allowed for data: those of the user or of the server's operator, else unprivileged ports. A
/// listener on a lower port is no worker.
fn ports(copy: &CopySpec) -> (u16, u16) {
    let is_served = |host: &Host| matches!(host, Host::Served { .. });
    let chosen = super::settings::ports(&copy.options.streams.network);
    chosen.unwrap_or(match [copy.source_host(), &copy.target.host].into_iter().any(is_served) {
        true => (1, u16::MAX),
        false => (UNPRIVILEGED_PORT, u16::MAX),
    })
}

/// The first unprivileged port.
const UNPRIVILEGED_PORT: u16 = 1024;

/// Checks socket addresses. A tunnel has none, and neither has a closed connection.
fn all_are_addresses<'a>(texts: impl IntoIterator<Item = &'a String>) -> Result<(), ReportRuleError> {
    let is_address = |text: &String| text.is_empty() || text.parse::<SocketAddr>().is_ok();
    if texts.into_iter().all(is_address) { Ok(()) } else { Err(ReportRuleError::Address) }
}

#[cfg(test)]
#[path = "report_checker_tests.rs"]
mod tests;

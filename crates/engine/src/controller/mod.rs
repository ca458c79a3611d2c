//! The controller: starts a worker for each end, sends each its Request, finds a transport path, and reports events to
//! the caller. File data never passes through it.
//!
//! This module holds one attempt; `retry_loop` repeats attempts.

mod advice;
mod base;
mod control_requests;
mod duplicate_targets;
mod event_dedup;
mod held_events;
mod inbox;
mod list_feeder;
pub mod measurement;
mod rate_limit;
mod reached_host;
mod report_checker;
mod report_scope;
mod retry_loop;
mod retry_policy;
mod routes;
mod settings;
mod totals;
mod transport_path;
mod workers;

use haul_proto::diagnose::pauses::Pauses;
use haul_proto::diagnose::watch::BottleneckWatch;
use haul_proto::diagnose::{JobMeasurements, Verdict, diagnose};
use haul_proto::feature::Features;
use haul_proto::ids::JobId;
use haul_proto::limits::EXPECTED_PIECE_MAX;
use haul_proto::overwrite_policy::OverwritePolicy;
use haul_proto::path::Name;
use haul_proto::sync::{DeleteMode, EqualityTest, SyncCounters, SyncOptions};
use haul_proto::wire::counters::{Counters, FinalReport, PathFigures};
use haul_proto::wire::list_batch::ListedKinds;
use haul_proto::wire::owners::OwnerOptions;
use haul_proto::wire::pipe::PipeKind;
use haul_proto::wire::ranges::TargetRange;
use haul_proto::wire::report::WorkerMessage;
use haul_proto::wire::request::{ControllerMessage, SourceRequest, TargetOperand, TargetRequest};
use haul_proto::wire::resource_metrics::{ResourceMetrics, StreamFigures};
use haul_proto::wire::sandbox::SandboxReport;
use haul_proto::wire::slowest_files::SlowFile;
use haul_proto::wire::source_activity::SourceActivity;
use haul_proto::wire::storage::StorageRequest;
use haul_proto::wire::write_options::WriteOptions;
use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};

use self::base::{refuse_twins, ways_below, whole_path};
use self::routes::{ConnectDirection, directions, shown};
use self::settings::{links, new_job_id, session_settings, suite_name};
use self::workers::{WorkerRole, Workers};
use crate::controller::control_requests::{ControlRequest, ControlRequests};
use crate::controller::held_events::HeldEvents;
use crate::controller::list_feeder::ListFeed;
use crate::controller::report_checker::ReportChecker;
use crate::controller::transport_path::PendingListen;
use crate::job::End;
use crate::job::display_path::own_name;
use crate::job::error::{Error, FIRST_FAILURE, GO_ON, Outcome};
use crate::job::event::{
    ComparisonResult, CompressionResult, Event, Observer, Progress, Recommendation, Summary, TransportPath,
};
use crate::job::location::Location;
use crate::job::spec::{
    ChecksumOptions, ChecksumReference, DeltaCounters, DeltaOptions, Fsync, Job, JobRange, PipeEnd, SourceRange,
    Verify, WorkerProgram,
};
use crate::sys::cancel::Cancel;

pub use crate::controller::retry_loop::run;

/// Outcome of one attempt.
struct JobAttempt {
    outcome: Outcome,
    /// The last counters of source and target.
    ends: [Counters; 2],
    /// Counters of the sync options.
    sync: SyncCounters,
    /// Whether the only source argument is a directory, copied to a new directory.
    new_tree: bool,
    /// Deltas whose hash did not match the source's, including earlier attempts.
    wrong_deltas: u32,
    /// Warnings of source and target, including earlier attempts.
    notices: [u64; 2],
}

impl JobAttempt {
    /// Returns the result of an attempt that failed to start.
    fn failed(error: Error) -> Self {
        let (ends, sync) = ([Counters::default(); 2], SyncCounters::default());
        Self { outcome: Err(error), ends, sync, new_tree: false, wrong_deltas: 0, notices: [0; 2] }
    }
}

/// Results of a job's earlier attempts.
#[derive(Debug, Clone, Copy)]
struct EarlierAttempts {
    /// The id that all attempts have.
    job_id: JobId,
    /// Whether an attempt had started before it broke.
    was_under_way: bool,
    /// Whether an attempt started the new directory of the only source argument.
    own_tree: bool,
    /// Deltas whose hash did not match the source's.
    wrong_deltas: u32,
    /// Warnings of source and target.
    notices: [u64; 2],
}

impl EarlierAttempts {
    /// Of a job that begins.
    fn none() -> Result<Self, Error> {
        let job_id = new_job_id()?;
        Ok(Self { job_id, was_under_way: false, own_tree: false, wrong_deltas: 0, notices: [0; 2] })
    }
}

/// Runs one attempt of a job.
fn attempt(
    job: &Job,
    program: &WorkerProgram,
    cancel: &Cancel,
    control_requests: &mut ControlRequests,
    observer: &mut dyn Observer,
    earlier: EarlierAttempts,
) -> JobAttempt {
    let begun = Instant::now();
    let workers = match Workers::start(job, program, cancel, observer) {
        Ok(workers) => workers,
        Err(error) => return JobAttempt::failed(interrupted_first(error, cancel)),
    };
    let mut copy = TransferController {
        job,
        reports: ReportChecker::new(job, workers.is_one()),
        workers,
        cancel,
        observer,
        failed: 0,
        left_out: 0,
        ends: [Counters::default(); 2],
        loads: EndMetrics::default(),
        slowest: Vec::new(),
        delta: None,
        sync: SyncCounters::default(),
        work: SourceActivity::default(),
        watch: BottleneckWatch::default(),
        pauses: Pauses::default(),
        streams_max: 0,
        blake3: false,
        finals: HashMap::new(),
        sandboxes: [None, None],
        listening: PendingListen::default(),
        directions: Vec::new(),
        connector: None,
        transport: TransportPath::None,
        held: HeldEvents::new(),
        notices: earlier.notices,
        streams: 0,
        control_requests,
        earlier,
        new_tree: false,
        feeding: None,
    };
    let outcome = copy.carry_out(begun).map_err(|error| interrupted_first(error, cancel));
    copy.held.release(copy.observer);
    copy.sum_up_notices();
    if matches!(outcome, Err(Error::Interrupted)) {
        let verdict = diagnose(&copy.case());
        copy.observer.event(&Event::Stopped(verdict));
    }
    match &outcome {
        Ok(summary) if !summary.is_timed => copy.workers.close(),
        Ok(_) | Err(_) => copy.workers.cancel(),
    }
    let wrong_deltas = copy.delta.map_or(0, |figures| u32::try_from(figures.wrong).unwrap_or(u32::MAX));
    let (new_tree, notices) = (copy.new_tree, copy.notices);
    JobAttempt { outcome, ends: copy.ends, sync: copy.sync, new_tree, wrong_deltas, notices }
}

/// Ctrl-C at a terminal also ends ssh: a connection may be lost before its cancellation is known.
const CANCEL_DELAY: Duration = Duration::from_millis(200);

/// Returns [`Error::Interrupted`] in place of a connection that a cancellation ended.
fn interrupted_first(error: Error, cancel: &Cancel) -> Error {
    if matches!(error, Error::Broken(_) | Error::Connect(_)) && cancel.wait(CANCEL_DELAY) {
        Error::Interrupted
    } else {
        error
    }
}

fn check(job: &Job) -> Result<(), Error> {
    if job.sources.is_empty() == job.list.is_none() {
        return Err(Error::Usage("sources are either arguments or a list (-I), not both".into()));
    }
    let sync = &job.options.sync;
    if job.options.remove_source_files && (sync.deletes() || sync.replaces_trees) {
        return Err(Error::Usage("--remove-source-files cannot be used with --delete".into()));
    }
    if job.sources.iter().any(|source| source.host != *job.source_host()) {
        return Err(Error::Usage("the sources are on different hosts\nrun one copy for each host".into()));
    }
    Ok(())
}

/// Resource metrics of both ends.
#[derive(Default)]
struct EndMetrics {
    /// The latest metrics of source and target.
    latest: [ResourceMetrics; 2],
    /// Stream figures of source and target, reported at the end.
    streams: [Vec<StreamFigures>; 2],
}

impl EndMetrics {
    /// Records a report; a worker that is both ends reports for both.
    fn emit(&mut self, role: WorkerRole, load: ResourceMetrics, is_one: bool) {
        self.latest[role.index()] = load;
        if is_one {
            self.latest[role.other().index()] = load;
        }
    }
}

struct TransferController<'a> {
    job: &'a Job,
    workers: Workers,
    /// Checks the workers' reports.
    reports: ReportChecker,
    cancel: &'a Cancel,
    observer: &'a mut dyn Observer,
    failed: u64,
    left_out: u64,
    /// The latest counters of source and target.
    ends: [Counters; 2],
    /// Resource metrics of both ends.
    loads: EndMetrics,
    /// The slowest files, as the target reports.
    slowest: Vec<SlowFile>,
    delta: Option<DeltaCounters>,
    sync: SyncCounters,
    /// Current activity of the source.
    work: SourceActivity,
    watch: BottleneckWatch,
    pauses: Pauses,
    /// Final reports of the finished ends.
    finals: HashMap<WorkerRole, FinalReport>,
    /// Sandbox state of source and target, once reported.
    sandboxes: [Option<SandboxReport>; 2],
    listening: PendingListen,
    /// Directions for data connections still to try.
    directions: Vec<ConnectDirection>,
    /// The end that made the data connections.
    connector: Option<WorkerRole>,
    /// Transport path of the data, once known.
    transport: TransportPath,
    /// Events held until the path is known.
    held: HeldEvents,
    /// Warnings of source and target, including earlier attempts.
    notices: [u64; 2],
    /// Initial number of streams.
    streams: u16,
    /// Most streams.
    streams_max: u16,
    /// Whether the session uses BLAKE3.
    blake3: bool,
    control_requests: &'a mut ControlRequests,
    earlier: EarlierAttempts,
    /// Whether this attempt starts the new directory.
    new_tree: bool,
    /// Sends the list's entries to the ends.
    feeding: Option<ListFeed>,
}

/// Warning for an incomplete source walk: extraneous files are unknown.
const NOTHING_REMOVED: &str =
    "a source cannot be read, so nothing is deleted at the target (--ignore-errors deletes anyway)";

/// Most warnings shown of a worker over all attempts. A change of the path counts as one.
const NOTICES_MAX: u64 = 1000;

impl TransferController<'_> {
    fn carry_out(&mut self, begun: Instant) -> Outcome {
        let settings = session_settings(self.job, self.earlier.job_id, &self.workers)?;
        self.control_requests
            .limit
            .allow([WorkerRole::Source, WorkerRole::Target].map(|role| self.workers.hello(role).rate_bytes_per_s));
        (self.streams, self.streams_max) = (settings.streams, settings.streams_max);
        self.blake3 = settings.blake3;
        if self.job.options.range.is_some() {
            self.workers.require(Features::RANGES)?;
        }
        if !self.workers.is_one() {
            self.directions = directions(self.job, &self.workers)?;
        }
        let base = self.job.options.base.as_deref();
        let source = SourceRequest {
            settings: settings.clone(),
            operands: self.job.sources.iter().map(|source| whole_path(base, source)).collect(),
            listed: self.job.list.is_some(),
            base: base.map(|base| base.as_os_str().as_bytes().to_vec()),
            recursive: self.job.options.recursive,
            links: links(self.job.options.symlinks, self.job.options.sync.into),
            skip: self.job.options.skip,
            kept: self.job.options.kept,
            filters: self.job.options.filters.clone(),
            tell_left_out: self.job.options.compare || self.job.options.sync.replaces_trees,
            storage: StorageRequest {
                direct: self.job.options.direct_source,
                cache: self.job.options.cache,
                under_way: self.job.options.source_under_way,
            },
            rate_bytes_per_s: self.control_requests.limit.bytes_per_s().unwrap_or(0),
            compression: self.job.options.compression,
            pipe: pipe(self.job.options.source_pipe.as_ref()),
            compare: self.job.options.compare,
            tell_digests: self.job.options.sync.equal == EqualityTest::Digest,
            tell_owners: self.job.options.preserve && self.job.options.owners != OwnerOptions::default(),
            remove_files: self.job.options.remove_source_files && !self.job.options.sync.is_dry,
            range: match self.job.options.range {
                Some(JobRange::One(range)) => Some(range),
                Some(JobRange::Finish(_)) | None => None,
            },
        };
        self.workers.send(WorkerRole::Source, &ControllerMessage::Source(source))?;
        transport_path::listen_early(self, WorkerRole::Source)?;
        let (operands, origin) = self.expect(|role, message| match (role, message) {
            (WorkerRole::Source, WorkerMessage::SourceReady { operands, origin }) => Ok((operands, origin)),
            (_, other) => Err(other),
        })?;
        self.check_operands(&operands)?;
        if self.job.list.is_none() && operands.iter().all(Option::is_none) {
            return Ok(self.nothing_to_do(begun));
        }
        let is_missing = operands.iter().any(Option::is_none);
        let operands = numbered(operands);
        let below = ways_below(self.job)?;
        refuse_twins(&operands, &below)?;
        self.reports.set_operands(&operands, &below);
        let options = &self.job.options;
        let target = TargetRequest {
            settings: settings.clone(),
            path: self.job.target.path.as_os_str().as_bytes().to_vec(),
            operands,
            listed: match (&self.job.list, options.recursive) {
                (None, _) => ListedKinds::No,
                (Some(_), false) => ListedKinds::Files,
                (Some(_), true) => ListedKinds::Trees,
            },
            source_boot: self.workers.hello(WorkerRole::Source).boot,
            origin,
            again: self.earlier.was_under_way,
            own_tree: self.earlier.own_tree,
            make_directory: options.make_directory,
            needs_directory: options.needs_directory,
            preserve: options.preserve,
            owners: options.owners.clone(),
            kept: options.kept,
            verify: options.verify,
            digest_existing: options.digest_existing,
            filters: options.filters.clone(),
            rules: WriteOptions {
                overwrite: self.rule_for_what_exists(),
                modes: options.modes,
                check_space: options.check_space,
                below,
            },
            storage: StorageRequest {
                direct: options.direct_target,
                cache: options.cache,
                under_way: options.target_under_way,
            },
            resume: options.resume,
            small_journals: options.small_journals,
            keep_partial: options.resume && options.keep_partial,
            journal_dir: options.journal_dir.iter().flat_map(|dir| dir.as_os_str().as_bytes().to_vec()).collect(),
            fsync: match (options.fsync, options.verify) {
                // Read-back verification needs the data on disk.
                (Fsync::None, Verify::Disk) => Fsync::Data,
                (fsync, _) => fsync,
            },
            delta: if options.compare || options.range.is_some() {
                DeltaOptions::default()
            } else {
                self.delta_rules()
            },
            sync: self.sync_rules(is_missing),
            pipe: pipe(options.target_pipe.as_ref()),
            compare: options.compare.then(|| links(options.symlinks, false)),
            range: options.range.map(|range| match range {
                JobRange::One(SourceRange { range, .. }) => TargetRange::One(range),
                JobRange::Finish(len) => TargetRange::Finish(len),
            }),
        };
        self.workers.send(WorkerRole::Target, &ControllerMessage::Target(target))?;
        self.send_expected()?;
        let one = self.workers.is_one();
        // The target starts first, so that it is ready for the source's first offer.
        if !one {
            self.workers.send(WorkerRole::Target, &ControllerMessage::Start { skip: None })?;
            transport_path::listen_early(self, WorkerRole::Target)?;
        }
        let (boot, landing, new_tree) = self.expect(|role, message| match message {
            WorkerMessage::TargetReady { boot, device, inode, new_tree } if one || role == WorkerRole::Target => {
                Ok((boot, (device, inode), new_tree))
            }
            other => Err(other),
        })?;
        self.new_tree = new_tree;
        let skip = (boot == self.workers.hello(WorkerRole::Source).boot).then_some(landing);
        // Offers and answers go through the control channels while data connections are made.
        self.workers.send(WorkerRole::Source, &ControllerMessage::Start { skip })?;
        self.steer();
        self.feeding = self.job.list.as_ref().map(|list| ListFeed::start(list, base, &self.workers)).transpose()?;
        let (transport, streams) = transport_path::find(self)?;
        self.transport = transport.clone();
        let cipher = suite_name(settings.suite);
        if transport != TransportPath::None {
            self.observer.event(&Event::Connected { transport, streams, cipher });
        }
        self.held.release(self.observer);
        let finals = self.await_ends()?;
        let transport = std::mem::take(&mut self.transport);
        let cipher = matches!(transport, TransportPath::Tcp { .. } | TransportPath::Ssh { .. }).then_some(cipher);
        Ok(self.summary(begun, finals, transport, cipher))
    }

    /// Sends the expected checksums to the target.
    fn send_expected(&mut self) -> Result<(), Error> {
        let Some(ChecksumOptions { against: ChecksumReference::Lines(lines), .. }) = &self.job.options.checksum else {
            return Ok(());
        };
        for piece in lines.pieces(EXPECTED_PIECE_MAX / lines.record_bytes()) {
            self.workers.send(WorkerRole::Target, &ControllerMessage::Expected(piece.to_vec()))?;
        }
        Ok(())
    }

    /// Returns the overwrite policy. Files from an earlier attempt of this job are complete and not reported.
    fn rule_for_what_exists(&self) -> OverwritePolicy {
        match self.job.options.overwrite {
            OverwritePolicy::ReportEqual if self.earlier.was_under_way => OverwritePolicy::Report,
            rule => rule,
        }
    }

    /// Returns the delta options; wrong deltas count over all attempts.
    fn delta_rules(&self) -> DeltaOptions {
        DeltaOptions { wrong_before: self.earlier.wrong_deltas, ..self.job.options.delta }
    }

    /// Returns the sync options. With a missing source, its files at the target would look extraneous.
    fn sync_rules(&mut self, is_missing: bool) -> SyncOptions {
        let mut rules = self.job.options.sync.clone();
        rules.source_removes = self.job.options.remove_source_files && !rules.is_dry;
        if is_missing && rules.deletes() && !rules.delete_despite_errors {
            rules.delete = DeleteMode::No;
            self.emit(Event::Warning(NOTHING_REMOVED.into()));
        }
        rules
    }

    /// Checks that the source offers only requested names, and directories only with `-r`. The controller derives names
    /// from the command line, so a host cannot choose the names at the target.
    fn check_operands(&self, operands: &[Option<TargetOperand>]) -> Result<(), Error> {
        let is_pipe = matches!(self.job.options.source_pipe, Some(PipeEnd::Standard(_) | PipeEnd::Named));
        let missing = operands.iter().filter(|operand| operand.is_none()).count() as u64;
        if missing > self.failed + self.left_out {
            let text = "protocol error: a source was refused without a reason";
            return Err(Error::Failed(self.workers.with_host(WorkerRole::Source, text)));
        }
        if are_as_asked(operands, &self.job.sources, self.job.options.recursive, is_pipe) {
            return Ok(());
        }
        let text = "protocol error: the offered sources are not those requested";
        Err(Error::Failed(self.workers.with_host(WorkerRole::Source, text)))
    }

    /// Waits for a message that `take` accepts; handles or refuses all others.
    fn expect<T>(&mut self, take: impl Fn(WorkerRole, WorkerMessage) -> Result<T, WorkerMessage>) -> Result<T, Error> {
        loop {
            let (role, message) = self.receive(false)?;
            match take(role, message) {
                Ok(taken) => return Ok(taken),
                Err(other) => self.observe(role, other, false)?,
            }
        }
    }

    fn receive(&mut self, begun: bool) -> Result<(WorkerRole, WorkerMessage), Error> {
        loop {
            let (role, message) = self.workers.receive(self.cancel, Some(&self.finals), begun)?;
            if self.reports.admit_report(role, &message, || self.workers.label(role))? {
                return Ok((role, message));
            }
        }
    }

    /// Whether both ends have finished.
    fn is_over(&self) -> bool {
        [WorkerRole::Source, WorkerRole::Target].iter().all(|role| self.finals.contains_key(role))
    }

    /// Runs the transfer: handles events until both ends have finished, or until the job's duration is over.
    fn await_ends(&mut self) -> Result<[FinalReport; 2], Error> {
        let every = self.job.options.progress_every.max(Duration::from_millis(10));
        let duration = self.job.options.duration.unwrap_or(Duration::MAX);
        let begun = Instant::now();
        let mut last_shown = begun;
        while !self.is_over() && begun.elapsed() < duration {
            let (role, message) = self.receive(true)?;
            self.observe(role, message, true)?;
            self.steer();
            // Before the source's first counters, progress would have no total.
            let known = self.ends[0].files_found > 0 || self.ends[0].walk_complete;
            if known && last_shown.elapsed() >= every {
                last_shown = Instant::now();
                self.show_progress();
            }
        }
        self.show_progress();
        Ok(WorkerRole::BOTH.map(|role| self.finals.get(&role).copied().unwrap_or_else(|| self.report_so_far(role))))
    }

    /// What an end has reported so far, as a final report.
    fn report_so_far(&self, role: WorkerRole) -> FinalReport {
        let ResourceMetrics { processors, sockets, .. } = self.loads.latest[role.index()];
        let path = PathFigures {
            round_trip_us: sockets.rtt_min_us / sockets.looks.max(1),
            segments: sockets.segments,
            retransmitted: sockets.retransmitted,
            busy_us: sockets.busy_us,
            receiver_limited_us: sockets.receiver_limited_us,
            buffer_limited_us: sockets.buffer_limited_us,
        };
        FinalReport { counters: self.ends[role.index()], cpu_us: processors.own_us, path, ..FinalReport::default() }
    }

    /// Records an end's final report. A worker that is both ends reports for the source first.
    fn finished(&mut self, role: WorkerRole, last: FinalReport) -> Result<(), Error> {
        let again = self.finals.contains_key(&role);
        let role = if again { WorkerRole::Target } else { role };
        if again && (!self.workers.is_one() || self.finals.contains_key(&role)) {
            return Err(Error::Failed(self.workers.with_host(role, "protocol error: finished twice")));
        }
        self.ends[role.index()] = last.counters;
        self.finals.insert(role, last);
        match self.is_over() {
            true => self.reports.check_end(&self.ends, WorkerRole::BOTH.map(|role| self.workers.label(role))),
            false => Ok(()),
        }
    }

    /// Reports an event, or holds it until the path is known and reported.
    fn emit(&mut self, event: Event) {
        self.held.forward(event, self.observer);
    }

    /// Counts a worker's warning; returns whether to show it.
    fn shows_notice(&mut self, role: WorkerRole) -> bool {
        let count = &mut self.notices[role.index()];
        *count = count.saturating_add(1);
        *count <= NOTICES_MAX
    }

    /// Reports the number of each worker's hidden warnings.
    fn sum_up_notices(&mut self) {
        for role in WorkerRole::BOTH {
            let earlier = self.earlier.notices[role.index()].max(NOTICES_MAX);
            let hidden = self.notices[role.index()].saturating_sub(earlier);
            if hidden > 0 {
                let text = format!("{}: {hidden} more notices not shown", self.workers.label(role));
                self.emit(Event::Warning(text));
            }
        }
    }

    /// Forwards the caller's requests to the source.
    fn steer(&mut self) {
        // The reader of the source's messages reports its loss.
        if let Some(bytes_per_s) = self.control_requests.limit.poll(self.ends[1].bytes_written) {
            let _ = self.workers.send(WorkerRole::Source, &ControllerMessage::Rate(bytes_per_s.unwrap_or(0)));
            self.emit(Event::RateLimit { bytes_per_s });
        }
        for request in self.control_requests.poll() {
            let _ = self.workers.send(WorkerRole::Source, &request.message());
            match request {
                ControlRequest::Pause(is_paused) => {
                    let case = self.whole_case();
                    self.pauses.set(is_paused, &case);
                    self.emit(Event::Pause { is_paused });
                }
                ControlRequest::Streams(wanted) => {
                    self.emit(Event::Streams { wanted: wanted.min(self.streams_max.max(1)) })
                }
            }
        }
    }

    /// Records the paths of the data that the source reports.
    fn takes(&mut self, in_use: Vec<(String, String)>, because: String) {
        let (Some(connector), TransportPath::Tcp { path, others, .. }) = (self.connector, &mut self.transport) else {
            return;
        };
        let mut paths = in_use.into_iter().map(|(from, to)| shown(&self.workers, connector, from, to));
        let Some(first) = paths.next() else { return };
        let now = (first, paths.collect());
        if (&*path, &*others) == (&now.0, &now.1) {
            return;
        }
        (*path, *others) = now;
        let transport = self.transport.clone();
        if !self.shows_notice(WorkerRole::Source) {
            return;
        }
        self.emit(Event::PathChanged { transport, because: Some(because).filter(|because| !because.is_empty()) });
    }

    fn observe(&mut self, role: WorkerRole, message: WorkerMessage, begun: bool) -> Result<(), Error> {
        let Err(message) = self.listening.answered(role, message) else { return Ok(()) };
        let host = || self.workers.label(role);
        match message {
            WorkerMessage::Counters(counters) => {
                // If one worker is both ends, source and target report separate counters.
                let role = if self.workers.is_one() && counters.files_found == 0 { WorkerRole::Target } else { role };
                self.ends[role.index()] = *counters;
            }
            WorkerMessage::ListAck { .. }
                if (role == WorkerRole::Target || self.workers.is_one())
                    && self.feeding.as_ref().is_some_and(ListFeed::acknowledge) => {}
            WorkerMessage::Load(load) => {
                let is_one = self.workers.is_one();
                self.loads.emit(role, *load, is_one);
                let ends = if is_one { vec![0, 1] } else { vec![role.index()] };
                let case = self.whole_case();
                self.pauses.record_reports(ends, &case);
                if !self.pauses.is_open() {
                    self.watch.sample(&self.case());
                }
            }
            WorkerMessage::Work(work) if role == WorkerRole::Source => self.work = *work,
            WorkerMessage::Streams(streams) => self.loads.streams[role.index()] = streams,
            WorkerMessage::Slowest(files) => self.slowest = files,
            WorkerMessage::Delta(figures) if role == WorkerRole::Target || self.workers.is_one() => {
                self.delta = Some(figures)
            }
            WorkerMessage::Synced(figures) => self.sync = self.sync.later(figures),
            WorkerMessage::Item { path, item } => self.emit(Event::Item { path, item }),
            WorkerMessage::Finished(last) => self.finished(role, *last)?,
            WorkerMessage::Sandboxed(sandbox) => {
                if self.workers.is_one() {
                    self.sandboxes[role.other().index()] = Some(sandbox.clone());
                }
                self.sandboxes[role.index()] = Some(sandbox);
            }
            WorkerMessage::Paths { in_use, because } if role == WorkerRole::Source => self.takes(in_use, because),
            WorkerMessage::FileDone { path, size, copied, digest } => {
                self.emit(Event::FileDone { path, size, copied, digest });
            }
            WorkerMessage::Checksum { path, digest } => {
                let asked = self.job.options.checksum.as_ref().map(|checksum| checksum.algorithm);
                if let Some(algorithm) = asked {
                    self.emit(Event::Checksum { path, algorithm, digest });
                }
            }
            WorkerMessage::Resumed { path, size, held, damaged, compared } => {
                self.emit(Event::Resumed { path, size, held, damaged, compared });
            }
            WorkerMessage::FileFailed { path, text } => {
                self.failed += 1;
                let host = host();
                self.emit(Event::FileFailed { path, host, message: text });
                if self.job.options.ends_at_failure {
                    return Err(Error::Failed(FIRST_FAILURE.into()));
                }
            }
            WorkerMessage::Skipped { path, text } => {
                self.left_out += 1;
                self.emit(Event::Skipped { path, reason: text });
            }
            WorkerMessage::Differs { path, differences } => {
                let host = host();
                self.emit(Event::Differs { path, host, differences });
            }
            WorkerMessage::Warning { text } => {
                let text = format!("{}: {text}", host());
                if self.shows_notice(role) {
                    self.emit(Event::Warning(text));
                }
            }
            WorkerMessage::Refused { usage, text } => {
                let text = self.workers.with_host(role, &text);
                return Err(if usage { Error::Usage(text) } else { Error::Failed(text) });
            }
            WorkerMessage::Fatal { fault: true, text } => {
                // No retry after a protocol violation.
                return Err(Error::Failed(self.workers.with_host(role, &text)));
            }
            WorkerMessage::Fatal { text, .. } | WorkerMessage::CannotConnect { text } => {
                let text = self.workers.explain(role, &text, begun);
                return Err(if begun { Error::Broken(format!("{text}\n{GO_ON}")) } else { Error::Connect(text) });
            }
            other => {
                let text = format!("protocol error: {} out of order", other.rule().name);
                return Err(Error::Failed(self.workers.with_host(role, &text)));
            }
        }
        Ok(())
    }

    fn show_progress(&mut self) {
        let [source, target] = &self.ends;
        let progress = Progress {
            files_found: source.files_found,
            bytes_found: source.bytes_found,
            directories: target.directories,
            walk_complete: source.walk_complete,
            files_settled: [
                target.files_copied,
                target.files_skipped,
                target.files_compared,
                target.failed,
                source.failed,
            ]
            .into_iter()
            .fold(0, u64::saturating_add),
            bytes_written: target.bytes_written,
            bytes_skipped: target.bytes_skipped,
            bytes_compared: source.bytes_compared,
            streams: streams(source),
            streams_max: self.streams_max,
            limited_by: self.watch.now().filter(|_| !self.control_requests.is_paused()),
            verdict: self.watch.verdict().cloned(),
            is_paused: self.control_requests.is_paused(),
            rate_limit_bytes_per_s: self.control_requests.limit.bytes_per_s(),
            work: self.work.clone(),
            slowest: self.slowest.clone(),
            sockets: self.loads.latest[WorkerRole::Source.index()].sockets,
            per_stream: self.loads.streams[WorkerRole::Source.index()].clone(),
        };
        self.observer.event(&Event::Progress(Box::new(progress)));
    }

    fn summary(
        &self,
        begun: Instant,
        [source, target]: [FinalReport; 2],
        transport: TransportPath,
        cipher: Option<crate::job::spec::Cipher>,
    ) -> Summary {
        let all = source.counters.plus(&target.counters);
        let [source_sandbox, target_sandbox] = self.sandboxes.clone();
        let is_copy = !self.job.options.compare && !matches!(transport, TransportPath::None);
        let is_up_to_date = all.files_copied == 0 && all.files_skipped > 0 && all.bytes_written == 0;
        let verdict = (is_copy && !is_up_to_date).then(|| diagnose(&self.case()));
        let advice = verdict.iter().flat_map(|verdict| self.advice(verdict, &source, &transport)).collect();
        Summary {
            files_copied: all.files_copied,
            files_skipped: all.files_skipped,
            failed: self.failed,
            left_out: self.left_out,
            counters: all,
            bytes: all.bytes_written,
            bytes_skipped: all.bytes_skipped,
            elapsed: begun.elapsed(),
            paused: self.control_requests.paused_for(),
            restarts: 0,
            transport,
            streams: streams(&source.counters),
            cipher,
            blake3: self.blake3,
            advice,
            verdict,
            loads: self.loads.latest,
            streams_at: self.loads.streams.clone(),
            slowest: self.slowest.clone(),
            delta: self.delta.filter(|figures| figures.files > 0),
            sync: self.sync,
            is_dry: self.job.options.sync.is_dry,
            is_timed: self.job.options.duration.is_some() && !self.is_over(),
            path: source.path,
            rate_limit_bytes_per_s: self.control_requests.limit.bytes_per_s(),
            compression: source.compression.map(|method| CompressionResult::new(method, &source.counters)),
            source_cpu: Duration::from_micros(source.cpu_us),
            target_cpu: Duration::from_micros(target.cpu_us),
            source_system: Duration::from_micros(source.system_us),
            target_system: Duration::from_micros(target.system_us),
            source_peak_bytes: source.peak_bytes,
            target_peak_bytes: target.peak_bytes,
            source_direct_bytes: source.direct_bytes,
            target_direct_bytes: target.direct_bytes,
            cloned_bytes: target.cloned_bytes,
            durable: target.durable,
            read_back: (self.job.options.verify == Verify::Disk).then_some(target.read_back),
            source_sandbox,
            target_sandbox,
            comparison: self.job.options.compare.then_some(ComparisonResult {
                files: all.files_compared,
                bytes: all.bytes_compared,
                differences: all.differences,
            }),
        }
    }

    /// Returns the measurements so far, without pauses.
    fn case(&self) -> JobMeasurements {
        self.pauses.without(&self.whole_case())
    }

    /// Returns the measurements so far.
    fn whole_case(&self) -> JobMeasurements {
        let [_, target] = &self.ends;
        JobMeasurements {
            source: self.loads.latest[0],
            target: self.loads.latest[1],
            is_one_worker: self.workers.is_one(),
            is_one_machine: self.workers.hello(WorkerRole::Source).boot == self.workers.hello(WorkerRole::Target).boot,
            is_within_host: self.transport.is_within_host(),
            bytes: target.bytes_written,
            files: target.files_copied,
            rate_limit_bytes_per_s: self.control_requests.limit.bytes_per_s(),
        }
    }

    fn advice(&self, verdict: &Verdict, source: &FinalReport, transport: &TransportPath) -> Vec<Recommendation> {
        advice::advice(self.job, &self.workers, verdict, &self.case(), source, transport)
    }

    fn nothing_to_do(&self, begun: Instant) -> Summary {
        self.summary(begun, [FinalReport::default(); 2], TransportPath::None, None)
    }
}

/// Returns the number of streams that the source reports.
fn streams(source: &Counters) -> u16 {
    u16::try_from(source.streams).unwrap_or(u16::MAX)
}

fn pipe(piped: Option<&PipeEnd>) -> PipeKind {
    match piped {
        None => PipeKind::No,
        Some(PipeEnd::Standard(_)) => PipeKind::Standard,
        Some(PipeEnd::Named) => PipeKind::Named,
        Some(PipeEnd::Growing(quiet)) => PipeKind::Growing(u32::try_from(quiet.as_secs()).unwrap_or(u32::MAX)),
    }
}

/// Whether the source's arguments match those typed. Piped data has no name.
fn are_as_asked(operands: &[Option<TargetOperand>], typed: &[Location], recursive: bool, is_pipe: bool) -> bool {
    let is_as_asked = |operand: &TargetOperand, typed: &Location| {
        let name = own_name(&typed.path).filter(|_| !is_pipe).map(OsStrExt::as_bytes);
        operand.name.as_ref().map(Name::as_bytes) == name && (recursive && !is_pipe || !operand.directory)
    };
    operands.len() == typed.len()
        && operands.iter().zip(typed).all(|(operand, typed)| operand.as_ref().is_none_or(|it| is_as_asked(it, typed)))
}

/// Keeps the numbers of source arguments; one that cannot be copied is never offered.
fn numbered(operands: Vec<Option<TargetOperand>>) -> Vec<TargetOperand> {
    let missing = || TargetOperand { name: None, directory: false, device: 0, inode: 0 };
    operands.into_iter().map(|operand| operand.unwrap_or_else(missing)).collect()
}

/// Returns the end for a role.
fn end_of(role: WorkerRole) -> End {
    match role {
        WorkerRole::Source => End::Source,
        WorkerRole::Target => End::Target,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operand(name: &str, directory: bool) -> Option<TargetOperand> {
        Some(TargetOperand { name: Name::new(name.as_bytes()).ok(), directory, device: 1, inode: 2 })
    }

    fn typed(paths: &[&str]) -> Vec<Location> {
        use crate::job::location::Host;
        paths.iter().map(|path| Location { host: Host::Local, path: path.into() }).collect()
    }

    #[test]
    fn a_source_does_not_choose_names() {
        let asked = |operands: &[Option<TargetOperand>], paths: &[&str], recursive| {
            are_as_asked(operands, &typed(paths), recursive, false)
        };
        assert!(asked(&[operand("f", false), None], &["d/f", "gone"], false));
        assert!(asked(&[operand("d", true)], &["/x/d/"], true));
        assert!(asked(&[operand("", true)], &["d/."], true));
        assert!(!asked(&[operand(".profile", false)], &["d/f"], false), "another name");
        assert!(!asked(&[operand("", true)], &["d/f"], true), "contents where a name was typed");
        assert!(!asked(&[operand("f", true)], &["d/f"], false), "a directory that was not asked for");
        assert!(!asked(&[operand("f", false), operand("f", false)], &["d/f"], false), "one more");
        assert!(!asked(&[], &["d/f"], false), "one fewer");
        let piped = |name| are_as_asked(&[operand(name, false)], &typed(&["-"]), true, true);
        assert!(piped("") && !piped("-"), "what comes out of a pipe has no name");
    }
}

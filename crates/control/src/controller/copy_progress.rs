//! Progress of an attempt, from the workers' reports: counters, metrics, pauses, and what they say of the bottleneck.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use haul_base::copy::event::{ChangeKind, EntryKind, ItemReport, Progress, TransportPath};
use haul_base::copy::spec::{CopyOptions, CopySpec, DeltaCounters, NULL_TARGET, Verify};
use haul_base::copy::summary::{
    ComparisonResult, CompressionResult, ConnectionSummary, CopyTimes, Diagnosis, EndSummary, IntegritySummary,
    PlannedTotals, Summary, TransferTotals,
};
use haul_proto::diagnose::pauses::Pauses;
use haul_proto::diagnose::watch::BottleneckWatch;
use haul_proto::diagnose::{CopyMeasurements, Verdict, diagnose};
use haul_proto::sync::SyncCounters;
use haul_proto::wire::counters::{Counters, FinalReport, PathFigures};
use haul_proto::wire::report::SlowFile;
use haul_proto::wire::resource_metrics::{ResourceMetrics, StreamFigures};
use haul_proto::wire::sandbox::SandboxReport;
use haul_proto::wire::source_activity::SourceActivity;

use super::control_requests::ControlRequests;
use super::worker_role::WorkerRole;
use super::workers::Workers;

/// Most reasons for entries left out that are counted. haul has fewer; another worker might invent them.
const REASONS_MAX: usize = 8;

/// Progress of an attempt.
#[derive(Default)]
pub struct CopyProgress {
    is_one_worker: bool,
    is_one_machine: bool,
    /// Files that failed.
    pub failed: u64,
    /// What a dry run would copy.
    planned: PlannedTotals,
    /// Entries left out on purpose.
    left_out: u64,
    /// Entries left out by reason.
    left_out_by: Vec<(String, u64)>,
    /// The latest reports of source and target.
    pub ends: [EndProgress; 2],
    /// Reports of the target: the slowest files, and results of base files.
    pub slowest: Vec<SlowFile>,
    pub delta: Option<DeltaCounters>,
    pub sync: SyncCounters,
    /// Activity of the source.
    pub work: SourceActivity,
    /// Final reports of the finished ends.
    pub finals: HashMap<WorkerRole, FinalReport>,
    watch: BottleneckWatch,
    pauses: Pauses,
}

/// The latest reports of one end.
#[derive(Default)]
pub struct EndProgress {
    pub counters: Counters,
    pub load: ResourceMetrics,
    /// Reported at the end.
    pub streams: Vec<StreamFigures>,
    pub sandbox: Option<SandboxReport>,
}

/// How the data travels, and how fast it may.
#[derive(Clone, Copy)]
pub struct TransferTerms<'a> {
    pub transport: &'a TransportPath,
    pub control: &'a ControlRequests,
}

impl CopyProgress {
    /// Before any report of these workers.
    pub fn new(workers: &Workers) -> Self {
        let [source, target] = WorkerRole::BOTH.map(|role| workers.hello(role).boot);
        Self { is_one_worker: workers.is_one(), is_one_machine: source == target, ..Self::default() }
    }

    /// The counters of source and target.
    pub fn counters(&self) -> [Counters; 2] {
        [self.ends[0].counters, self.ends[1].counters]
    }

    /// The ends that a worker reports for.
    fn reported(&self, role: WorkerRole) -> Vec<usize> {
        if self.is_one_worker { vec![0, 1] } else { vec![role.index()] }
    }

    /// Records counters. If one worker is both ends, source and target report separate ones.
    pub fn record_counters(&mut self, role: WorkerRole, counters: Counters) {
        let role = if self.is_one_worker && counters.files_found == 0 { WorkerRole::Target } else { role };
        self.ends[role.index()].counters = counters;
    }

    /// Records the resources used by an end.
    pub fn record_load(&mut self, role: WorkerRole, load: ResourceMetrics, terms: TransferTerms<'_>) {
        let ends = self.reported(role);
        ends.iter().for_each(|end| self.ends[*end].load = load);
        let case = self.measurements_with_pauses(terms);
        self.pauses.record_reports(ends, &case);
        if !self.pauses.is_open() {
            self.watch.sample(&self.pauses.without(&case));
        }
    }

    /// Records the restriction of an end's file access.
    pub fn record_sandbox(&mut self, role: WorkerRole, sandbox: &SandboxReport) {
        self.reported(role).into_iter().for_each(|end| self.ends[end].sandbox = Some(sandbox.clone()));
    }

    /// Records an end's final report. A worker that is both ends reports for the source first. `false` if the end has
    /// finished before.
    pub fn record_end(&mut self, role: WorkerRole, last: FinalReport) -> bool {
        let again = self.finals.contains_key(&role);
        let role = if again { WorkerRole::Target } else { role };
        if again && (!self.is_one_worker || self.finals.contains_key(&role)) {
            return false;
        }
        self.ends[role.index()].counters = last.counters;
        self.finals.insert(role, last);
        true
    }

    /// Records that the caller paused the copy, or resumed it.
    pub fn record_pause(&mut self, is_paused: bool, terms: TransferTerms<'_>) {
        let case = self.measurements_with_pauses(terms);
        self.pauses.set(is_paused, &case);
    }

    /// Records an entry that is left out, and its reason.
    pub fn record_left_out(&mut self, reason: &str) {
        self.left_out += 1;
        match self.left_out_by.iter().position(|(known, _)| known == reason) {
            Some(known) => self.left_out_by[known].1 += 1,
            None if self.left_out_by.len() < REASONS_MAX => self.left_out_by.push((reason.to_owned(), 1)),
            None => {}
        }
    }

    /// Counts a file that a dry run would copy.
    pub fn record_planned(&mut self, ItemReport { item, size, .. }: &ItemReport) {
        if item.what == EntryKind::File && matches!(item.change, ChangeKind::Made | ChangeKind::Replaced(_)) {
            self.planned.files += 1;
            self.planned.bytes = self.planned.bytes.saturating_add(size.unwrap_or(0));
        }
    }

    /// Entries left out on purpose.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Whether the source has found something, or all: before that, progress would have no total.
    pub fn has_total(&self) -> bool {
        let source = &self.ends[0].counters;
        source.files_found > 0 || source.walk_complete
    }

    /// Whether both ends have finished.
    pub fn is_over(&self) -> bool {
        WorkerRole::BOTH.iter().all(|role| self.finals.contains_key(role))
    }

    /// The final reports; of an end that has not finished, its reports so far.
    pub fn end_reports(&self) -> [FinalReport; 2] {
        WorkerRole::BOTH.map(|role| self.finals.get(&role).copied().unwrap_or_else(|| self.report_so_far(role)))
    }

    fn report_so_far(&self, role: WorkerRole) -> FinalReport {
        let EndProgress { counters, load, .. } = &self.ends[role.index()];
        let ResourceMetrics { processors, sockets, .. } = load;
        let path = PathFigures {
            round_trip_us: sockets.rtt_min_us / sockets.looks.max(1),
            segments: sockets.segments,
            retransmitted: sockets.retransmitted,
            busy_us: sockets.busy_us,
            receiver_limited_us: sockets.receiver_limited_us,
            buffer_limited_us: sockets.buffer_limited_us,
        };
        FinalReport { counters: *counters, cpu_us: processors.own_us, path, ..FinalReport::default() }
    }

    /// The measurements so far, without pauses.
    pub fn measurements(&self, terms: TransferTerms<'_>) -> CopyMeasurements {
        self.pauses.without(&self.measurements_with_pauses(terms))
    }

    fn measurements_with_pauses(&self, terms: TransferTerms<'_>) -> CopyMeasurements {
        let [source, target] = &self.ends;
        CopyMeasurements {
            source: source.load,
            target: target.load,
            is_one_worker: self.is_one_worker,
            is_one_machine: self.is_one_machine,
            is_within_host: terms.transport.is_within_host(),
            bytes: target.counters.bytes_written,
            files: target.counters.files_copied,
            rate_limit_bytes_per_s: terms.control.limit.bytes_per_s(),
        }
    }

    /// The bottleneck of a copy; `None` if nothing was copied.
    pub fn verdict(&self, copy: &CopySpec, all: &Counters, terms: TransferTerms<'_>) -> Option<Verdict> {
        let is_copy = !copy.options.compare && !matches!(terms.transport, TransportPath::None);
        let is_up_to_date = all.files_copied == 0 && all.files_skipped > 0 && all.bytes_written == 0;
        (is_copy && !is_up_to_date).then(|| diagnose(&self.measurements(terms)))
    }

    /// Figures for the observer.
    pub fn figures(&self, streams_max: u16, control: &ControlRequests) -> Progress {
        let [EndProgress { counters: source, load, streams: per_stream, .. }, target] = &self.ends;
        let target = &target.counters;
        let settled = [
            target.files_copied,
            target.files_skipped,
            target.files_compared,
            target.failed,
            source.failed,
            source.vanished,
        ];
        Progress {
            files_found: source.files_found,
            bytes_found: source.bytes_found,
            directories: target.directories,
            walk_complete: source.walk_complete,
            files_settled: settled.into_iter().fold(0, u64::saturating_add),
            bytes_written: target.bytes_written,
            bytes_stored: target.bytes_stored,
            bytes_skipped: target.bytes_skipped,
            bytes_compared: source.bytes_compared,
            streams: streams(source),
            streams_max,
            limited_by: self.watch.now().filter(|_| !control.is_paused()),
            verdict: self.watch.verdict().cloned(),
            is_paused: control.is_paused(),
            rate_limit_bytes_per_s: control.limit.bytes_per_s(),
            work: self.work.clone(),
            slowest: self.slowest.clone(),
            sockets: load.sockets,
            per_stream: per_stream.clone(),
        }
    }
}

/// The result of an attempt, apart from what its caller adds.
pub struct EndedAttempt<'a> {
    pub progress: &'a CopyProgress,
    pub copy: &'a CopySpec,
    pub reports: [FinalReport; 2],
    pub elapsed: Duration,
    pub blake3: bool,
    pub connection: ConnectionSummary,
}

impl EndedAttempt<'_> {
    /// Counters of both ends.
    pub fn counters(&self) -> Counters {
        self.reports[0].counters.plus(&self.reports[1].counters)
    }

    /// Makes the summary.
    pub fn summary(self, paused: Duration, diagnosis: Diagnosis) -> Summary {
        let (counters, progress, options) = (self.counters(), self.progress, &self.copy.options);
        let [source, target] = &self.reports;
        Summary {
            files: TransferTotals {
                copied: counters.files_copied,
                skipped: counters.files_skipped,
                failed: progress.failed,
                vanished: counters.vanished,
                left_out: progress.left_out,
                bytes: counters.bytes_written,
                bytes_skipped: counters.bytes_skipped,
                cloned_bytes: target.cloned_bytes,
            },
            left_out: progress.left_out_by.clone(),
            counters,
            times: CopyTimes { elapsed: self.elapsed, paused, restarts: 0 },
            integrity: IntegritySummary {
                blake3: self.blake3,
                durable: target.durable,
                read_back: (options.integrity.verify == Verify::Disk).then_some(target.read_back),
                comparison: options.compare.then_some(ComparisonResult {
                    files: counters.files_compared,
                    bytes: counters.bytes_compared,
                    differences: counters.differences,
                }),
            },
            diagnosis: Diagnosis { slowest: progress.slowest.clone(), ..diagnosis },
            delta: progress.delta.filter(|figures| figures.files > 0),
            sync: progress.sync,
            compression: source.compression.map(|method| CompressionResult::new(method, &source.counters)),
            is_dry: options.target.sync.is_dry,
            planned: progress.planned,
            is_timed: options.stop.after.is_some() && !progress.is_over(),
            is_resumable: is_resumable(self.copy, &counters),
            ends: [0, 1].map(|end| end_summary(&progress.ends[end], &self.reports[end])),
            connection: self.connection,
        }
    }
}

/// Whether the target has complete files, or a partial one that is large enough for a journal. Sizes of single files are
/// unknown here, so files count as large if they are on average.
fn is_resumable(copy: &CopySpec, counters: &Counters) -> bool {
    let CopyOptions { target, pipes, compare, .. } = &copy.options;
    let keeps = !is_null_target(copy) && pipes.target.is_none() && !compare && !target.sync.is_dry;
    let is_large = counters.bytes_found / counters.files_found.max(1) >= target.partial.journal_file_min();
    let has_partial = target.partial.keep && target.partial.resume && counters.bytes_written > 0 && is_large;
    keeps && (counters.files_copied > 0 || has_partial)
}

fn is_null_target(copy: &CopySpec) -> bool {
    copy.target.path == Path::new(NULL_TARGET)
}

fn end_summary(end: &EndProgress, last: &FinalReport) -> EndSummary {
    EndSummary {
        load: end.load,
        streams: end.streams.clone(),
        cpu: Duration::from_micros(last.cpu_us),
        system: Duration::from_micros(last.system_us),
        peak_bytes: last.peak_bytes,
        direct_bytes: last.direct_bytes,
        sandbox: end.sandbox.clone(),
    }
}

/// Returns the number of streams that the source reports.
pub fn streams(source: &Counters) -> u16 {
    u16::try_from(source.streams).unwrap_or(u16::MAX)
}

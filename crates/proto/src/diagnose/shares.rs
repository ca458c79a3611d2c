//! Division of the streams' time among the parts of a transfer.
//!
//! A call that reads, writes, sends or receives may compute or wait. Its waits count for the disk or network, and its
//! computation for the CPU. A copy from memory to memory has no slow disk, however long its reads take. Samples show
//! the computing part of a stage. It includes waits for a CPU in use by others.

use super::network::{NetworkShares, full_of_interrupts, path};
use super::{Bottleneck, BottleneckDetail, BottleneckShare, CopyMeasurements};
use crate::diagnose::part;
use crate::wire::resource_metrics::{Processors, ResourceMetrics, Stage};

/// Average file size below which files count as small: they travel in packs.
const SMALL_FILE_BYTES: f64 = 128.0 * 1024.0;
/// Fewest files for the time of each to matter.
const SMALL_FILES_MIN: u64 = 32;
/// Share from which on all CPUs count as busy: the kernel's clock misses the rest.
const MACHINE_BUSY: f64 = 0.9;
/// Least share of haul's own workers in a busy machine's time for them to lack CPUs.
const OWN_MIN: f64 = 0.6;
/// Least share of exhausted quota periods; fewer are a burst.
const QUOTA_SPENT_MIN: f64 = 0.3;

/// Share of each part, 0 to 1.
#[derive(Debug, Clone, Copy, Default)]
pub struct TimeShares {
    source: EndShares,
    target: EndShares,
    /// The rate limit.
    pace: f64,
    network: f64,
    /// Packet handling on one CPU for all streams.
    interrupts: f64,
    path: NetworkShares,
}

/// Share of each part of an end.
#[derive(Debug, Clone, Copy, Default)]
struct EndShares {
    /// Reading or writing.
    storage: f64,
    cpu: f64,
    /// The kind of CPU shortage, once known.
    cpu_detail: Option<BottleneckDetail>,
    /// Opening or creating small files.
    files: f64,
    pipe: f64,
}

impl EndShares {
    /// `busy`: the streams' time with work; `idle`: the most that a thread beside the streams can have held them up, as
    /// a share of it.
    fn of_source(source: &StreamTimes<'_>, busy: f64, elapsed: f64, idle: f64) -> Self {
        Self {
            storage: part(source.waiting(Stage::Read), busy),
            cpu: part(source.computing_in([Stage::Read, Stage::Prepare, Stage::Send]), busy),
            cpu_detail: None,
            files: part(source.wall(Stage::Open), busy) + source.beside(Stage::Walk, elapsed).min(idle),
            pipe: part(source.waiting(Stage::ReadPipe), elapsed),
        }
    }

    /// The same of a target. The fsync of small files counts for them, and not for the storage.
    fn of_target(target: &StreamTimes<'_>, busy: f64, elapsed: f64, idle: f64, has_small_files: bool) -> Self {
        let sync = target.beside(Stage::Sync, elapsed).min(idle) + part(target.wall(Stage::Room), busy);
        let create = part(target.wall(Stage::Create), busy) + target.beside(Stage::Examine, elapsed).min(idle);
        let (storage_sync, files_sync) = if has_small_files { (0.0, sync) } else { (sync, 0.0) };
        let turn = target.wall(Stage::Turn);
        // A wait for another stream counts for what that stream does.
        let writing = part(target.waiting(Stage::Write), target.wall(Stage::Write));
        let computing = target.computing_in([Stage::Receive, Stage::Check, Stage::Write]);
        Self {
            storage: part(target.waiting(Stage::Write) + turn * writing, busy) + storage_sync,
            cpu: part(computing + turn * (1.0 - writing), busy),
            cpu_detail: None,
            files: create + files_sync,
            pipe: part(target.waiting(Stage::WritePipe), elapsed),
        }
    }
}

impl TimeShares {
    pub fn of(case: &CopyMeasurements) -> Self {
        let (source, target) = (StreamTimes::new(&case.source), StreamTimes::new(&case.target));
        let elapsed = (case.seconds() * 1e6).max(1.0);
        let pipes = part(source.waiting(Stage::ReadPipe), elapsed).max(part(target.waiting(Stage::WritePipe), elapsed));
        let helpers = [
            source.beside(Stage::Walk, elapsed),
            target.beside(Stage::Examine, elapsed),
            target.beside(Stage::Sync, elapsed),
            pipes,
        ];
        // Streams without work wait for one of these. Otherwise no more work is left, and other streams finish it.
        let because = helpers.into_iter().fold(0.0, f64::max);
        let idle_all = source.wall(Stage::Idle);
        let idle_for_something = idle_all.min(because * source.all);
        let out = source.wall(Stage::Rest) + idle_all - idle_for_something;
        let of_source = (source.all - out).max(1.0);
        // A stream without work at the source waits at the target.
        let received = (target.waiting(Stage::Receive) - out).max(0.0);
        let of_target = if case.is_one_worker {
            of_source
        } else {
            (target.all - out.min(target.waiting(Stage::Receive))).max(1.0)
        };
        let idle = part(idle_for_something, of_source);
        let received = part(received, of_target);
        let mut shares = Self {
            source: EndShares::of_source(&source, of_source, elapsed, idle),
            target: EndShares::of_target(&target, of_target, elapsed, idle, has_small_files(case)),
            pace: part(source.wall(Stage::Pace), of_source),
            network: if case.is_one_worker { 0.0 } else { part(source.waiting(Stage::Send), of_source).min(received) },
            interrupts: match case.is_one_worker {
                true => 0.0,
                false => full_of_interrupts(&case.source).max(full_of_interrupts(&case.target)),
            },
            path: path(case),
        };
        shares.weaken(part(of_source, elapsed), part(of_target, elapsed));
        shares.assess_processors(case, elapsed);
        if case.is_one_worker {
            shares.join_processors();
        }
        shares
    }

    /// Scales the shares of an end by the time with work for at least one stream. A target may still process data from
    /// its socket buffers long after the source has sent all of it.
    fn weaken(&mut self, source: f64, target: f64) {
        for share in
            [&mut self.source.storage, &mut self.source.cpu, &mut self.source.files, &mut self.pace, &mut self.network]
        {
            *share *= source;
        }
        for share in [&mut self.target.storage, &mut self.target.cpu, &mut self.target.files] {
            *share *= target;
        }
        self.interrupts *= source.max(target);
    }

    /// Classifies a lack of CPUs, and detects those that threads do not notice: an exhausted quota, and a machine
    /// shared by both ends.
    fn assess_processors(&mut self, case: &CopyMeasurements, elapsed: f64) {
        for (load, end) in [(&case.source, &mut self.source), (&case.target, &mut self.target)] {
            let own = case.own_us(load);
            let busy = part(load.processors.busy_us as f64, load.processors.all_us as f64);
            let spent = quota_spent(load, elapsed);
            end.cpu_detail = Some(match () {
                () if spent > 0.0 => BottleneckDetail::Quota,
                () if busy >= MACHINE_BUSY => BottleneckDetail::Machine,
                () => BottleneckDetail::Thread,
            });
            end.cpu = end.cpu.max(spent);
            if case.is_one_worker {
                continue;
            }
            let is_own = own as f64 >= OWN_MIN * load.processors.busy_us as f64;
            let has_part = load.processors.own_us >= own / 2;
            if busy >= MACHINE_BUSY && is_own && has_part && spent == 0.0 {
                end.cpu = end.cpu.max(busy);
            }
        }
    }

    /// Joins both ends' CPU shares where each stream has one thread for both: computation for one end delays the other.
    fn join_processors(&mut self) {
        let (source, target) = (&mut self.source.cpu, &mut self.target.cpu);
        let all = (*source + *target).min(1.0);
        (*source, *target) = if source >= target { (all, 0.0) } else { (0.0, all) };
    }

    /// Returns all candidates.
    pub fn candidates(&self) -> Vec<BottleneckShare> {
        let candidate = |limit, detail, share: f64| BottleneckShare { limit, detail, share: share.clamp(0.0, 1.0) };
        let (source, target) = (&self.source, &self.target);
        let mut all = vec![
            candidate(Bottleneck::SourceDisk, None, source.storage),
            candidate(Bottleneck::SourceCpu, source.cpu_detail, source.cpu),
            candidate(Bottleneck::RateLimit, Some(BottleneckDetail::Own), self.pace),
            candidate(Bottleneck::SourceProgram, None, source.pipe),
            candidate(Bottleneck::TargetDisk, None, target.storage),
            candidate(Bottleneck::TargetCpu, target.cpu_detail, target.cpu),
            candidate(Bottleneck::TargetProgram, None, target.pipe),
            candidate(Bottleneck::Interrupts, None, self.interrupts),
            candidate(Bottleneck::SmallFiles, Some(BottleneckDetail::Source), source.files),
            candidate(Bottleneck::SmallFiles, Some(BottleneckDetail::Target), target.files),
        ];
        let NetworkShares { receiver, buffer, rest } = self.path;
        all.push(candidate(Bottleneck::ReceiverWindow, None, self.network * receiver));
        all.push(candidate(Bottleneck::SenderBuffer, None, self.network * buffer));
        if let Some((limit, detail)) = rest {
            all.push(candidate(limit, detail, self.network * (1.0 - receiver - buffer)));
        }
        all
    }
}

/// The streams of an end.
struct StreamTimes<'l> {
    load: &'l ResourceMetrics,
    /// Time of all its streams, in microseconds.
    all: f64,
}

impl<'l> StreamTimes<'l> {
    fn new(load: &'l ResourceMetrics) -> Self {
        let all = Stage::ALL.iter().filter(|stage| stage.is_of_stream()).map(|stage| load.spent(*stage).wall_us as f64);
        Self { load, all: all.sum() }
    }

    fn wall(&self, stage: Stage) -> f64 {
        self.load.spent(stage).wall_us as f64
    }

    /// Time of a stage beside the streams, as a share.
    fn beside(&self, stage: Stage, elapsed: f64) -> f64 {
        part(self.wall(stage), elapsed)
    }

    fn computing(&self, stage: Stage) -> f64 {
        let spent = self.load.spent(stage);
        self.wall(stage) * part(spent.computed_us as f64, spent.sampled_us as f64)
    }

    fn computing_in<const N: usize>(&self, stages: [Stage; N]) -> f64 {
        stages.iter().map(|stage| self.computing(*stage)).sum()
    }

    fn waiting(&self, stage: Stage) -> f64 {
        self.wall(stage) - self.computing(stage)
    }
}

/// Whether the copy's files are so many and small that their number matters more than their bytes.
fn has_small_files(case: &CopyMeasurements) -> bool {
    case.files >= SMALL_FILES_MIN && (case.bytes as f64) < SMALL_FILE_BYTES * case.files as f64
}

/// Returns the share of quota periods exhausted by this worker; 0 for a burst, or where others exhausted them.
fn quota_spent(load: &ResourceMetrics, elapsed: f64) -> f64 {
    let Processors { quota_periods, quota_spent, own_us, .. } = load.processors;
    let spent = part(quota_spent as f64, quota_periods as f64);
    let allowed = elapsed * f64::from(load.present.quota_permille) / 1000.0;
    if spent >= QUOTA_SPENT_MIN && own_us as f64 >= OWN_MIN * allowed { spent } else { 0.0 }
}

//! How the time of streams is divided among the parts of a transfer.
//!
//! A call that reads, writes, sends or receives may compute or wait. What it waits for is the disk's or the network's share, and
//! what it computes the processor's: whoever copies from memory to memory has no slow disk, however long reading takes. How much of a
//! stage was CPU time is known from samples. Where processors are scarce, computing takes longer on the clock than of the CPU, and by how
//! much is known from the stages that do nothing but compute.

use super::network::{Path, path};
use super::{Candidate, Case, Detail, Limit};
use crate::wire::load::{Load, Processors, Stage};

/// Files of less than this on average are small: they travel packed.
const SMALL_FILE_BYTES: f64 = 128.0 * 1024.0;
/// With fewer, what each of them takes is not worth a word.
const SMALL_FILES_MIN: u64 = 32;
/// From this share on, processors that are busy count as all busy: the rest is what a kernel's clock does not see.
const MACHINE_BUSY: f64 = 0.9;
/// Of a busy machine's time, what its own workers have to have for it to be they who lack processors.
const OWN_MIN: f64 = 0.6;
/// Where processors are scarce, computing takes at most so many times its CPU time: beyond that, something else is waited for.
const STRETCH_MAX: f64 = 16.0;
/// Of the periods of a quota, so many used up are more than a burst.
const QUOTA_SPENT_MIN: f64 = 0.3;

/// Each part's share, 0 to 1.
#[derive(Debug, Clone, Copy, Default)]
pub struct Shares {
    pub read: f64,
    pub source_cpu: f64,
    pub source_files: f64,
    pub pace: f64,
    pub source_pipe: f64,
    pub network: f64,
    pub write: f64,
    pub target_cpu: f64,
    pub target_files: f64,
    pub target_pipe: f64,
    source_detail: Option<Detail>,
    target_detail: Option<Detail>,
    path: Path,
}

impl Shares {
    pub fn of(case: &Case) -> Self {
        let (source, target) = (End::new(&case.source, case.is_one_worker), End::new(&case.target, case.is_one_worker));
        let rest = source.wall(Stage::Rest);
        let of_source = (source.all - rest).max(1.0);
        // A stream that is not in use rests at the source and waits at the target.
        let of_target = (target.all - if case.is_one_worker { rest } else { rest.min(target.waiting(Stage::Receive)) }).max(1.0);
        let elapsed = (case.seconds() * 1e6).max(1.0);
        let idle = part(source.wall(Stage::Idle), of_source);
        let beside = |end: &End<'_>, stage| part(end.wall(stage), elapsed).min(idle);
        let is_small = case.files >= SMALL_FILES_MIN && (case.bytes as f64) < SMALL_FILE_BYTES * case.files as f64;
        let sync = beside(&target, Stage::Sync) + part(target.wall(Stage::Room), of_target);
        let create = part(target.wall(Stage::Create), of_target) + beside(&target, Stage::Examine);
        let received = part(target.waiting(Stage::Receive) - rest, of_target);
        let mut shares = Self {
            read: part(source.waiting(Stage::Read), of_source),
            source_cpu: part(
                [Stage::Read, Stage::Prepare, Stage::Send].iter().map(|stage| source.computing(*stage)).sum(),
                of_source,
            ),
            source_files: part(source.wall(Stage::Open), of_source) + beside(&source, Stage::Walk),
            pace: part(source.wall(Stage::Pace), of_source),
            source_pipe: part(source.waiting(Stage::ReadPipe), elapsed),
            network: if case.is_one_worker { 0.0 } else { part(source.waiting(Stage::Send), of_source).min(received) },
            write: part(target.waiting(Stage::Write), of_target) + if is_small { 0.0 } else { sync },
            target_cpu: part(
                [Stage::Receive, Stage::Check, Stage::Write].iter().map(|stage| target.computing(*stage)).sum(),
                of_target,
            ),
            target_files: create + if is_small { sync } else { 0.0 },
            target_pipe: part(target.waiting(Stage::WritePipe), elapsed),
            source_detail: None,
            target_detail: None,
            path: path(case),
        };
        shares.look_at_processors(case, elapsed);
        if case.is_one_worker {
            shares.join_processors();
        }
        shares
    }

    /// Says what kind of lack of processors it is, and sees those that threads do not feel by themselves: of a quota that
    /// is used up, and of a machine that both ends share.
    fn look_at_processors(&mut self, case: &Case, elapsed: f64) {
        let own = |case: &Case| (case.source.processors.own_us, case.target.processors.own_us);
        let (source_own, target_own) = own(case);
        let all_own = if case.is_one_worker { source_own } else { source_own.saturating_add(target_own) };
        for (load, share, detail) in [
            (&case.source, &mut self.source_cpu, &mut self.source_detail),
            (&case.target, &mut self.target_cpu, &mut self.target_detail),
        ] {
            let own = if case.is_one_machine { all_own } else { load.processors.own_us };
            let busy = part(load.processors.busy_us as f64, load.processors.all_us as f64);
            let spent = quota_spent(load, elapsed);
            *detail = Some(match () {
                () if spent > 0.0 => Detail::Quota,
                () if busy >= MACHINE_BUSY => Detail::Machine,
                () => Detail::Thread,
            });
            *share = share.max(spent);
            if case.is_one_worker {
                continue;
            }
            let is_own = own as f64 >= OWN_MIN * load.processors.busy_us as f64;
            let has_part = 2 * load.processors.own_us >= all_own || !case.is_one_machine;
            if busy >= MACHINE_BUSY && is_own && has_part && spent == 0.0 {
                *share = share.max(busy);
            }
        }
    }

    /// Where each stream has one thread for both ends, what it computes for one keeps it from computing for the other.
    fn join_processors(&mut self) {
        let all = (self.source_cpu + self.target_cpu).min(1.0);
        (self.source_cpu, self.target_cpu) =
            if self.source_cpu >= self.target_cpu { (all, 0.0) } else { (0.0, all) };
    }

    /// All that could be the limit.
    pub fn candidates(&self) -> Vec<Candidate> {
        let candidate = |limit, detail, share: f64| Candidate { limit, detail, share: share.clamp(0.0, 1.0) };
        let mut all = vec![
            candidate(Limit::SourceDisk, None, self.read),
            candidate(Limit::SourceCpu, self.source_detail, self.source_cpu),
            candidate(Limit::RateLimit, Some(Detail::Own), self.pace),
            candidate(Limit::SourceProgram, None, self.source_pipe),
            candidate(Limit::TargetDisk, None, self.write),
            candidate(Limit::TargetCpu, self.target_detail, self.target_cpu),
            candidate(Limit::TargetProgram, None, self.target_pipe),
            candidate(Limit::SmallFiles, Some(Detail::Source), self.source_files),
            candidate(Limit::SmallFiles, Some(Detail::Target), self.target_files),
        ];
        let Path { receiver, buffer, rest } = self.path;
        all.push(candidate(Limit::ReceiverWindow, None, self.network * receiver));
        all.push(candidate(Limit::SenderBuffer, None, self.network * buffer));
        if let Some((limit, detail)) = rest {
            all.push(candidate(limit, detail, self.network * (1.0 - receiver - buffer)));
        }
        all
    }
}

/// The streams of an end.
struct End<'l> {
    load: &'l Load,
    /// Time of all its streams, in microseconds.
    all: f64,
    /// How much longer computing takes than its CPU time.
    stretch: f64,
}

impl<'l> End<'l> {
    fn new(load: &'l Load, _is_one_worker: bool) -> Self {
        let all = Stage::ALL.iter().filter(|stage| stage.is_of_stream()).map(|stage| load.spent(*stage).wall_us as f64);
        Self { load, all: all.sum(), stretch: stretch(load) }
    }

    fn wall(&self, stage: Stage) -> f64 {
        self.load.spent(stage).wall_us as f64
    }

    fn computing(&self, stage: Stage) -> f64 {
        let spent = self.load.spent(stage);
        self.wall(stage) * (part(spent.cpu_us as f64, spent.looked_us as f64) * self.stretch).min(1.0)
    }

    fn waiting(&self, stage: Stage) -> f64 {
        self.wall(stage) - self.computing(stage)
    }
}

/// How much longer computing takes than its CPU time, where processors are scarce.
fn stretch(load: &Load) -> f64 {
    if !are_scarce(load) {
        return 1.0;
    }
    let of = |stages: [Stage; 2]| {
        let spent = stages.map(|stage| *load.spent(stage));
        (spent.iter().map(|spent| spent.looked_us).sum::<u64>(), spent.iter().map(|spent| spent.cpu_us).sum::<u64>())
    };
    match of([Stage::Prepare, Stage::Check]) {
        (_, 0) => 1.0,
        (looked, cpu) => (looked as f64 / cpu as f64).clamp(1.0, STRETCH_MAX),
    }
}

fn are_scarce(load: &Load) -> bool {
    let Processors { busy_us, all_us, quota_periods, quota_spent, .. } = load.processors;
    part(busy_us as f64, all_us as f64) >= 0.8 || part(quota_spent as f64, quota_periods as f64) >= QUOTA_SPENT_MIN
}

/// Of the periods of a quota, how many were used up by this worker; 0 where that is no more than a burst, or others did
/// it.
fn quota_spent(load: &Load, elapsed: f64) -> f64 {
    let Processors { quota_periods, quota_spent, own_us, .. } = load.processors;
    let spent = part(quota_spent as f64, quota_periods as f64);
    let allowed = elapsed * f64::from(load.present.quota_permille) / 1000.0;
    if spent >= QUOTA_SPENT_MIN && own_us as f64 >= OWN_MIN * allowed { spent } else { 0.0 }
}

/// 0 of nothing.
pub fn part(part: f64, all: f64) -> f64 {
    if all > 0.0 { (part / all).clamp(0.0, 1.0) } else { 0.0 }
}

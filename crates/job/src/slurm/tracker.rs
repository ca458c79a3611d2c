//! The states of shards on Slurm: waiting, queued, done, failed. No I/O: the command line and a simulation drive it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::shard_progress::ShardProgress;
use crate::shard_result::{RecordedShard, ShardEnd};
use crate::slurm::queue::SlurmTask;
use crate::slurm::waves::{ActiveArray, SlurmWave, WaveLimits};

/// Time after which a task that left the queue without a result counts as lost: file systems show results late.
pub const LOST_AFTER: Duration = Duration::from_secs(30);
/// Most consecutive resubmissions of a shard after losses without progress.
const RETRIES_MAX: u32 = 3;

/// The state of a shard.
#[derive(Debug, Clone, PartialEq, Eq)]
enum TrackedShard {
    /// To be submitted.
    Waiting,
    /// In a task.
    Queued,
    /// Its task is gone without a result since then. It will be done, failed, cancelled, waiting or given up.
    Gone(Duration, TaskEnd),
    /// Each file was tried.
    Done,
    /// The whole copy failed.
    Failed,
    /// Lost too often without progress.
    GivenUp,
    /// Somebody cancelled its task, or nobody knows its end: not to be submitted without being asked.
    Withdrawn,
}

/// Why a task is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
enum TaskEnd {
    /// It failed, or its node or Slurm lost it; with its node, if known.
    Lost(String),
    /// scancel(1): whoever typed that wants it to stop. Or Slurm was not asked for longer than it remembers.
    Withdrawn,
}

struct TrackedArray {
    id: u64,
    /// The shard of task 0.
    offset: u32,
    throttle: u32,
    queued: BTreeSet<u32>,
}

impl TrackedArray {
    /// Its shards in the queue.
    fn seen(&self, tasks: &[SlurmTask]) -> BTreeSet<u32> {
        let of_array = tasks.iter().filter(|task| task.job == self.id && !task.is_over());
        of_array.filter_map(|task| Some(self.offset.saturating_add(task.index?))).collect()
    }

    fn record_of<'t>(&self, shard: u32, tasks: &'t [SlurmTask]) -> Option<&'t SlurmTask> {
        let index = shard.checked_sub(self.offset);
        tasks.iter().find(|task| task.job == self.id && task.index == index)
    }

    /// How the task of a shard ended. Slurm keeps a record of an ended task; of a cancelled one that never began, it
    /// keeps none, or one for all of the array.
    fn end_of(&self, shard: u32, tasks: &[SlurmTask], accounts: &[SlurmTask], forgets: bool) -> TaskEnd {
        let records = || tasks.iter().filter(|task| task.job == self.id);
        let record = self.record_of(shard, tasks).or_else(|| records().find(|task| task.index.is_none()));
        let record = record.or_else(|| self.record_of(shard, accounts));
        let is_withdrawn = match record {
            Some(task) => task.is_cancelled(),
            None => forgets || records().next().is_some(),
        };
        let node = || record.map_or_else(String::new, |task| task.nodes.clone());
        if is_withdrawn { TaskEnd::Withdrawn } else { TaskEnd::Lost(node()) }
    }
}

/// What happened to a shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ShardNews {
    /// Its run has ended with a result.
    Ended(u32),
    /// Its task ended without a result.
    Lost {
        /// The shard.
        shard: u32,
        /// The node of the task; empty if unknown.
        node: String,
        /// Whether it made no progress.
        is_fruitless: bool,
    },
}

/// Losses of a shard since its last progress.
#[derive(Default)]
struct ShardLosses {
    fruitless: u32,
    progress: ShardProgress,
}

impl ShardLosses {
    /// Counts a loss at this progress. Returns whether to run the shard again.
    fn add(&mut self, progress: ShardProgress) -> bool {
        self.fruitless = if progress.exceeds(self.progress) { 0 } else { self.fruitless + 1 };
        self.progress = self.progress.max(progress);
        self.fruitless <= RETRIES_MAX
    }
}

/// Shards of a job and their tasks. Times are relative to a common start.
pub struct ShardTracker {
    limits: WaveLimits,
    arrays: Vec<TrackedArray>,
    shards: BTreeMap<u32, TrackedShard>,
    losses: BTreeMap<u32, ShardLosses>,
    /// Tasks that haul itself cancelled: lost ones.
    own_cancels: BTreeSet<u32>,
    /// Ended tasks by the cluster's accounts, for the next update: used where the queue has no record.
    pub accounts: Vec<SlurmTask>,
    /// The time of the last update.
    updated: Option<Duration>,
}

impl ShardTracker {
    /// A tracker without shards.
    pub fn new(limits: WaveLimits) -> Self {
        Self {
            limits,
            arrays: Vec::new(),
            shards: BTreeMap::new(),
            losses: BTreeMap::new(),
            own_cancels: BTreeSet::new(),
            accounts: Vec::new(),
            updated: None,
        }
    }

    /// Adopts an array of an earlier run, with its tasks among `tasks`. A known array does not change.
    pub fn take_over(&mut self, id: u64, offset: u32, tasks: &[SlurmTask]) {
        if self.arrays.iter().any(|array| array.id == id) {
            return;
        }
        let mut array = TrackedArray { id, offset, throttle: u32::MAX, queued: BTreeSet::new() };
        array.queued = array.seen(tasks);
        self.shards.extend(array.queued.iter().map(|shard| (*shard, TrackedShard::Queued)));
        self.arrays.push(array);
    }

    /// Divides the concurrent shards among adopted arrays. Returns their ids and throttles.
    pub fn share_throttle(&mut self) -> Vec<(u64, u32)> {
        let count = u32::try_from(self.arrays.len()).unwrap_or(u32::MAX);
        let Some(share) = self.limits.at_once.and_then(|at_once| at_once.checked_div(count)) else { return Vec::new() };
        self.arrays.iter_mut().for_each(|array| array.throttle = share.max(1));
        self.arrays.iter().map(|array| (array.id, array.throttle)).collect()
    }

    /// Whether a shard was added or adopted.
    pub fn knows(&self, shard: u32) -> bool {
        self.shards.contains_key(&shard)
    }

    /// Adds a planned shard.
    pub fn add(&mut self, shard: u32, is_done: bool) {
        self.shards.insert(shard, if is_done { TrackedShard::Done } else { TrackedShard::Waiting });
    }

    /// Arrays with tasks that the queue has no record of any more.
    pub fn unrecorded(&self, tasks: &[SlurmTask]) -> Vec<u64> {
        let lacks = |array: &&TrackedArray| array.queued.iter().any(|shard| array.record_of(*shard, tasks).is_none());
        self.arrays.iter().filter(lacks).map(|array| array.id).collect()
    }

    /// Updates the states from the queue; `recorded` reads the records of a shard's runs.
    pub fn update<E>(
        &mut self,
        tasks: &[SlurmTask],
        now: Duration,
        recorded: &mut dyn FnMut(u32) -> Result<RecordedShard, E>,
    ) -> Result<Vec<ShardNews>, E> {
        let forgets = self.updated.replace(now).is_some_and(|last| now.saturating_sub(last) > self.limits.remembers);
        let accounts = std::mem::take(&mut self.accounts);
        for array in &mut self.arrays {
            let seen = array.seen(tasks);
            let gone = array.queued.difference(&seen).map(|shard| {
                let end = match self.own_cancels.remove(shard) {
                    true => TaskEnd::Lost(String::new()),
                    false => array.end_of(*shard, tasks, &accounts, forgets),
                };
                (*shard, TrackedShard::Gone(now, end))
            });
            self.shards.extend(gone);
            array.queued.retain(|shard| seen.contains(shard));
        }
        self.arrays.retain(|array| !array.queued.is_empty());
        let gone = self.shards.iter().filter_map(|(shard, state)| match state {
            TrackedShard::Gone(since, end) => Some((*shard, *since, end.clone())),
            _ => None,
        });
        let mut news = Vec::new();
        for (shard, since, task_end) in gone.collect::<Vec<_>>() {
            let RecordedShard { end, progress } = recorded(shard)?;
            let state = match (end, task_end) {
                (Some(ShardEnd::Done | ShardEnd::Incomplete), _) => TrackedShard::Done,
                (Some(ShardEnd::Failed), _) => TrackedShard::Failed,
                _ if now.saturating_sub(since) < LOST_AFTER => continue,
                (_, TaskEnd::Withdrawn) => TrackedShard::Withdrawn,
                (_, TaskEnd::Lost(node)) => {
                    let losses = self.losses.entry(shard).or_default();
                    let is_retried = losses.add(progress);
                    news.push(ShardNews::Lost { shard, node, is_fruitless: losses.fruitless > 0 });
                    if is_retried { TrackedShard::Waiting } else { TrackedShard::GivenUp }
                }
            };
            if matches!(state, TrackedShard::Done | TrackedShard::Failed) {
                news.push(ShardNews::Ended(shard));
            }
            self.shards.insert(shard, state);
        }
        Ok(news)
    }

    /// Whether arrays wait for each other, since nobody follows.
    pub fn is_chained(&self) -> bool {
        self.limits.is_chained
    }

    /// Whether a shard is done.
    pub fn is_done(&self, shard: u32) -> bool {
        self.shards.get(&shard) == Some(&TrackedShard::Done)
    }

    /// The next array to submit, if there is room.
    pub fn next_wave(&self) -> Option<SlurmWave> {
        let waiting: Vec<_> = self.of_state(|state| *state == TrackedShard::Waiting).collect();
        self.limits.next_wave(&waiting, &self.active())
    }

    /// Records that Slurm accepted an array.
    pub fn record(&mut self, id: u64, wave: &SlurmWave) {
        self.shards.extend(wave.shards.iter().map(|shard| (*shard, TrackedShard::Queued)));
        let queued = wave.shards.iter().copied().collect();
        self.arrays.push(TrackedArray { id, offset: wave.offset, throttle: wave.throttle.unwrap_or(u32::MAX), queued });
    }

    /// The array with a throttle to raise, and its new value.
    pub fn raised(&self) -> Option<(u64, u32)> {
        self.limits.raised(&self.active())
    }

    /// Records that Slurm accepted a throttle.
    pub fn set_throttle(&mut self, id: u64, throttle: u32) {
        self.arrays.iter_mut().filter(|array| array.id == id).for_each(|array| array.throttle = throttle);
    }

    fn active(&self) -> Vec<ActiveArray> {
        let active = |array: &TrackedArray| ActiveArray {
            id: array.id,
            throttle: array.throttle,
            remaining: u32::try_from(array.queued.len()).unwrap_or(u32::MAX),
        };
        self.arrays.iter().map(active).collect()
    }

    /// Ids of the arrays in the queue.
    pub fn arrays(&self) -> Vec<u64> {
        self.arrays.iter().map(|array| array.id).collect()
    }

    fn of_state(&self, is_it: fn(&TrackedShard) -> bool) -> impl Iterator<Item = u32> {
        self.shards.iter().filter(move |(_, state)| is_it(state)).map(|(shard, _)| *shard)
    }

    /// Number of completed shards.
    pub fn done(&self) -> usize {
        self.of_state(|state| *state == TrackedShard::Done).count()
    }

    /// Number of planned shards.
    pub fn planned(&self) -> usize {
        self.shards.len()
    }

    /// Whether a shard is to be submitted, or may have to be.
    pub fn has_waiting(&self) -> bool {
        self.of_state(|state| matches!(state, TrackedShard::Waiting | TrackedShard::Gone(..))).next().is_some()
    }

    /// Whether a shard is in a task.
    pub fn has_queued(&self) -> bool {
        !self.arrays.is_empty()
    }

    /// Whether a shard has failed permanently, or is withdrawn.
    pub fn has_failed(&self) -> bool {
        let is_out = |state: &TrackedShard| {
            matches!(state, TrackedShard::Failed | TrackedShard::GivenUp | TrackedShard::Withdrawn)
        };
        self.of_state(is_out).next().is_some()
    }

    /// Shards with a cancelled or unknown task.
    pub fn withdrawn(&self) -> Vec<u32> {
        self.of_state(|state| *state == TrackedShard::Withdrawn).collect()
    }

    /// Records that haul itself cancels a task, whose shard is to run again.
    pub fn record_own_cancel(&mut self, task: &SlurmTask) {
        let array = self.arrays.iter().find(|array| array.id == task.job);
        self.own_cancels.extend(array.zip(task.index).map(|(array, index)| array.offset.saturating_add(index)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: WaveLimits =
        WaveLimits { array_size: 100, at_once: None, is_chained: false, remembers: Duration::from_secs(200) };

    fn ended(job: u64, index: Option<u32>, state: &str) -> SlurmTask {
        SlurmTask { job, index, state: state.into(), reason: String::new(), nodes: String::new() }
    }

    fn task(job: u64, index: u32) -> SlurmTask {
        SlurmTask { job, index: Some(index), state: "RUNNING".into(), reason: String::new(), nodes: String::new() }
    }

    /// A tracker whose `shards` are all submitted as array 1.
    fn submitted(shards: u32) -> ShardTracker {
        let mut tracker = ShardTracker::new(LIMITS);
        (0..shards).for_each(|shard| tracker.add(shard, false));
        let wave = tracker.next_wave().unwrap();
        tracker.record(1, &wave);
        tracker
    }

    fn update(tracker: &mut ShardTracker, tasks: &[SlurmTask], second: u64, end: Option<ShardEnd>) {
        let recorded = RecordedShard { end, progress: ShardProgress::default() };
        tracker.update::<()>(tasks, Duration::from_secs(second), &mut |_| Ok(recorded)).unwrap();
    }

    /// Loses the task of a lone shard with the bytes that it had copied; whether it is submitted again.
    fn lose(tracker: &mut ShardTracker, round: u64, bytes: u64) -> bool {
        let recorded = RecordedShard { end: None, progress: ShardProgress { files: 0, bytes, moved: 0 } };
        for second in [100 * round, 100 * round + 30] {
            tracker.update::<()>(&[], Duration::from_secs(second), &mut |_| Ok(recorded)).unwrap();
        }
        let wave = tracker.next_wave();
        if let Some(wave) = &wave {
            tracker.record(round + 2, wave);
        }
        wave.is_some()
    }

    #[test]
    fn a_task_absent_from_the_queue_has_a_result_or_is_resubmitted() {
        let mut tracker = submitted(3);
        assert_eq!(tracker.next_wave(), None);
        update(&mut tracker, &[task(1, 1), task(1, 2)], 10, Some(ShardEnd::Done));
        assert_eq!((tracker.done(), tracker.has_waiting()), (1, false));
        let lost = [task(1, 2), ended(1, Some(1), "NODE_FAIL")];
        update(&mut tracker, &lost, 20, None);
        update(&mut tracker, &lost, 49, None);
        assert_eq!((tracker.next_wave(), tracker.has_waiting()), (None, true), "its result may be late");
        update(&mut tracker, &lost, 50, None);
        assert_eq!(tracker.next_wave().unwrap().shards, [1]);
        update(&mut tracker, &[], 60, Some(ShardEnd::Failed));
        assert!(tracker.has_failed() && !tracker.has_queued());
    }

    #[test]
    fn a_cancelled_task_is_withdrawn_and_a_lost_one_is_submitted_again() {
        for (records, ends, waits) in [
            (vec![ended(1, Some(0), "CANCELLED")], 1, false),
            (vec![ended(1, None, "CANCELLED")], 1, false),
            (vec![ended(1, Some(7), "COMPLETED")], 1, false),
            (vec![ended(1, Some(0), "NODE_FAIL")], 0, true),
            (vec![ended(1, Some(0), "FAILED"), ended(2, Some(0), "CANCELLED")], 0, true),
            (vec![ended(2, Some(0), "CANCELLED")], 0, true),
            (vec![], 0, true),
        ] {
            let mut tracker = submitted(1);
            update(&mut tracker, &records, 10, None);
            update(&mut tracker, &records, 40, Some(ShardEnd::Interrupted));
            assert_eq!((tracker.withdrawn().len(), tracker.has_waiting()), (ends, waits), "{records:?}");
            assert_eq!(tracker.has_failed(), ends > 0);
        }
        let mut own = submitted(1);
        own.record_own_cancel(&task(1, 0));
        update(&mut own, &[ended(1, Some(0), "CANCELLED")], 10, None);
        update(&mut own, &[], 40, None);
        assert!(own.has_waiting() && own.withdrawn().is_empty());
    }

    #[test]
    fn accounts_say_how_a_forgotten_task_ended() {
        for (account, withdrawn) in [
            (Some(ended(1, Some(0), "CANCELLED")), 1),
            (Some(ended(1, Some(0), "FAILED")), 0),
            (Some(ended(1, Some(7), "FAILED")), 1),
            (Some(ended(2, Some(0), "FAILED")), 1),
            (None, 1),
        ] {
            let mut tracker = submitted(1);
            update(&mut tracker, &[task(1, 0)], 10, None);
            assert_eq!((tracker.unrecorded(&[task(1, 0)]), tracker.unrecorded(&[task(2, 0)])), (vec![], vec![1]));
            tracker.accounts = account.clone().into_iter().collect();
            update(&mut tracker, &[], 1000, None);
            update(&mut tracker, &[], 1040, None);
            assert_eq!(tracker.withdrawn().len(), withdrawn, "{account:?}");
        }
    }

    #[test]
    fn a_task_that_ended_while_nobody_asked_is_not_submitted_by_itself() {
        for (asked_after, withdrawn) in [(200, 0), (201, 1)] {
            let mut tracker = submitted(1);
            update(&mut tracker, &[task(1, 0)], 10, None);
            update(&mut tracker, &[], 10 + asked_after, None);
            update(&mut tracker, &[], 50 + asked_after, None);
            assert_eq!(tracker.withdrawn().len(), withdrawn);
        }
    }

    #[test]
    fn a_shard_lost_repeatedly_at_one_place_is_given_up() {
        let mut tracker = submitted(1);
        let retries = (0..20).take_while(|round| lose(&mut tracker, *round, 500)).count();
        assert_eq!(retries, 1 + RETRIES_MAX as usize, "the first loss came further than nothing");
        assert!(tracker.has_failed() && !tracker.has_waiting());
    }

    #[test]
    fn a_shard_making_progress_is_never_given_up() {
        let mut tracker = submitted(1);
        assert!((0..100).all(|round| lose(&mut tracker, round, 1 + round / u64::from(RETRIES_MAX))));
        assert!(!tracker.has_failed());
    }

    #[test]
    fn arrays_of_an_earlier_run_keep_their_shards() {
        let mut tracker = ShardTracker::new(WaveLimits { at_once: Some(9), ..LIMITS });
        tracker.take_over(7, 100, &[task(7, 4), task(8, 5)]);
        tracker.take_over(8, 0, &[task(7, 4), task(8, 5)]);
        assert!(tracker.knows(104) && tracker.knows(5) && !tracker.knows(4));
        assert_eq!(tracker.share_throttle(), [(7, 4), (8, 4)]);
    }
}

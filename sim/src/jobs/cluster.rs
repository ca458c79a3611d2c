//! Slurm and its nodes: arrays with throttles, tasks with their shards' durations, and nodes that fail.
//!
//! The model: storage is never the limit, and the scheduler starts whatever fits. A failed node holds its task until
//! Slurm notices. Then the task waits again, or is lost without a result. Its copied data stays.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use haul_job::shard_progress::ShardProgress;
use haul_job::shard_result::{RecordedShard, ShardEnd};
use haul_job::slurm::queue::SlurmTask;
use haul_job::slurm::waves::SlurmWave;
use haul_lab::Rng;

use super::workload::SimulatedShard;

/// How often the scheduler starts tasks: Slurm's `sched_min_interval`.
const SCHEDULE_EVERY: Duration = Duration::from_secs(2);
/// From a task's start to its first byte: Slurm's prolog, the start of haul and a login.
const STARTS_IN: Duration = Duration::from_secs(3);
/// A node without a sign of life for this long has failed: Slurm's `SlurmdTimeout`.
const NOTICED_AFTER: Duration = Duration::from_secs(300);
/// A failed node is back after so long.
const REPAIRED_AFTER: Duration = Duration::from_secs(1800);
/// A shared file system shows a result after so long.
const RESULT_AFTER: Duration = Duration::from_secs(5);
/// Tasks of failed nodes that are not put into the queue again, of a thousand.
const LOST_PER_MILLE: u64 = 125;
/// To find a file that is at the target: bench/SCALING.md.
const SKIP_PER_FILE: Duration = Duration::from_micros(9);

/// A cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClusterScenario {
    /// Nodes.
    pub nodes: u32,
    /// MaxArraySize.
    pub array_size: u32,
    /// Shards at a time.
    pub at_once: Option<u32>,
    /// A node's rate. Not 0.
    pub bytes_per_s: u64,
    /// Small files that a node copies in a second. Not 0.
    pub files_per_s: u64,
    /// The first node takes so many times as long. Not 0.
    pub slowdown: u32,
    /// Mean time between failures of a node.
    pub fails_every: Duration,
}

/// Times of the nodes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NodeTimes {
    /// With a task.
    pub busy: Duration,
    /// Failed.
    pub down: Duration,
    /// The end of the last task.
    pub last_end: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NodeState {
    Idle,
    Busy {
        array: u64,
        shard: u32,
        began: Duration,
        ends: Duration,
    },
    /// `held`: its task, until Slurm notices.
    Down {
        since: Duration,
        held: Option<(u64, u32)>,
    },
}

struct Node {
    state: NodeState,
    slowdown: u32,
    fails: Duration,
    times: NodeTimes,
}

struct QueuedArray {
    id: u64,
    offset: u32,
    throttle: u32,
    after: Option<u64>,
    running: BTreeSet<u32>,
    pending: BTreeSet<u32>,
    /// Tasks that Slurm remembers: whether each was done, or lost with its node.
    over: BTreeMap<u32, bool>,
}

impl QueuedArray {
    fn len(&self) -> usize {
        self.running.len() + self.pending.len()
    }

    fn tasks(&self) -> impl Iterator<Item = SlurmTask> {
        let task = |shard: &u32, state: &str| SlurmTask {
            job: self.id,
            index: shard.checked_sub(self.offset),
            state: state.to_owned(),
            reason: String::new(),
            nodes: String::new(),
        };
        let running = self.running.iter().map(move |shard| task(shard, "RUNNING"));
        let pending = self.pending.iter().map(move |shard| task(shard, "PENDING"));
        let state = |is_done: &bool| if *is_done { "COMPLETED" } else { "NODE_FAIL" };
        running.chain(pending).chain(self.over.iter().map(move |(shard, is_done)| task(shard, state(is_done))))
    }
}

struct ShardWork {
    /// Time to copy the rest, on a node of full speed.
    left: Duration,
    /// Time copied by lost runs.
    copied: Duration,
    /// To find all files at the target, where an earlier run may have copied them.
    skip: Duration,
    has_run: bool,
    done: Option<Duration>,
}

impl ShardWork {
    /// A run to its end, on a node of full speed.
    fn run_time(&self) -> Duration {
        if self.has_run { self.skip + self.left } else { self.left }
    }

    /// Ends a run early, after so long on a node of full speed.
    fn lose(&mut self, ran: Duration) {
        let copied = ran.saturating_sub(self.run_time() - self.left).min(self.left);
        self.left -= copied;
        self.copied += copied;
        self.has_run = true;
    }
}

/// Slurm, its nodes, and the results of shards.
pub struct Cluster {
    scenario: ClusterScenario,
    rng: Rng,
    nodes: Vec<Node>,
    arrays: Vec<QueuedArray>,
    work: Vec<ShardWork>,
    next_id: u64,
    next_schedule: Duration,
    /// When the first and the last task started.
    pub starts: Option<(Duration, Duration)>,
    /// Tasks that nodes took with them.
    pub interrupted: u64,
}

impl Cluster {
    /// Idle nodes, and shards that nobody runs.
    pub fn new(scenario: ClusterScenario, shards: &[SimulatedShard], mut rng: Rng) -> Self {
        let mut node = |number| {
            let slowdown = if number == 0 { scenario.slowdown } else { 1 };
            let fails = failure_after(scenario.fails_every, &mut rng);
            Node { state: NodeState::Idle, slowdown, fails, times: NodeTimes::default() }
        };
        let nodes = (0..scenario.nodes).map(&mut node).collect();
        let work = |shard: &SimulatedShard| {
            let seconds = |count: u64, per_s: u64| Duration::from_secs_f64(count as f64 / per_s as f64);
            let left = seconds(shard.bytes, scenario.bytes_per_s) + seconds(shard.files, scenario.files_per_s);
            let skip = Duration::from_secs_f64(SKIP_PER_FILE.as_secs_f64() * shard.files as f64);
            ShardWork { left, copied: Duration::ZERO, skip, has_run: false, done: None }
        };
        let work = shards.iter().map(work).collect();
        let (next_id, next_schedule) = (1, Duration::ZERO);
        Self { scenario, rng, nodes, arrays: Vec::new(), work, next_id, next_schedule, starts: None, interrupted: 0 }
    }

    /// Takes an array, if it keeps to the limits and none of its shards is done or in the queue.
    pub fn submit(&mut self, wave: &SlurmWave) -> Result<u64, String> {
        let queued: usize = self.arrays.iter().map(QueuedArray::len).sum();
        if queued + wave.shards.len() > self.scenario.array_size as usize || wave.shards.is_empty() {
            return Err(format!("an array of {} tasks, with {queued} in the queue", wave.shards.len()));
        }
        for shard in &wave.shards {
            let index = shard.checked_sub(wave.offset);
            if index.is_none_or(|index| index >= self.scenario.array_size) {
                return Err(format!("shard {shard} in an array from {}", wave.offset));
            }
            let is_queued = |array: &QueuedArray| array.pending.contains(shard) || array.running.contains(shard);
            if self.work[*shard as usize].done.is_some() || self.arrays.iter().any(is_queued) {
                return Err(format!("shard {shard} is submitted, and it is done or in the queue"));
            }
        }
        let id = self.next_id;
        self.next_id += 1;
        let pending = wave.shards.iter().copied().collect();
        let throttle = wave.throttle.unwrap_or(u32::MAX);
        let (offset, after, running, over) = (wave.offset, wave.after, BTreeSet::new(), BTreeMap::new());
        self.arrays.push(QueuedArray { id, offset, throttle, after, running, pending, over });
        Ok(id)
    }

    /// Changes an array's tasks at a time.
    pub fn set_throttle(&mut self, id: u64, throttle: u32) {
        self.arrays.iter_mut().filter(|array| array.id == id).for_each(|array| array.throttle = throttle);
    }

    /// The queue as squeue shows it.
    pub fn tasks(&self) -> Vec<SlurmTask> {
        self.arrays.iter().flat_map(QueuedArray::tasks).collect()
    }

    /// A shard's visible state at `now`.
    pub fn recorded(&self, shard: u32, now: Duration) -> RecordedShard {
        let work = &self.work[shard as usize];
        let is_shown = work.done.is_some_and(|done| now >= done + RESULT_AFTER);
        let bytes = u128::from(self.scenario.bytes_per_s) * work.copied.as_millis() / 1000;
        let progress = ShardProgress { files: 0, bytes: u64::try_from(bytes).unwrap_or(u64::MAX), moved: 0 };
        RecordedShard { end: is_shown.then_some(ShardEnd::Done), progress }
    }

    /// Processes all events up to `now`; an error if more shards run at a time than requested.
    pub fn advance(&mut self, now: Duration) -> Result<(), String> {
        for at in 0..self.nodes.len() {
            self.advance_node(at, now);
        }
        self.arrays.retain(|array| array.len() > 0);
        if now >= self.next_schedule {
            self.next_schedule = now + SCHEDULE_EVERY;
            self.schedule(now);
        }
        let running: usize = self.arrays.iter().map(|array| array.running.len()).sum();
        match self.scenario.at_once {
            Some(at_once) if running > at_once as usize => Err(format!("{running} shards at a time, not {at_once}")),
            _ => Ok(()),
        }
    }

    fn advance_node(&mut self, at: usize, now: Duration) {
        let node = &mut self.nodes[at];
        match node.state {
            NodeState::Busy { array, shard, began, ends } if ends <= now && ends <= node.fails => {
                node.state = NodeState::Idle;
                node.times.busy += ends - began;
                node.times.last_end = ends;
                let work = &mut self.work[shard as usize];
                (work.left, work.done) = (Duration::ZERO, Some(ends));
                self.leave(array, shard).map(|array| array.over.insert(shard, true));
            }
            NodeState::Busy { array, shard, began, .. } if node.fails <= now => {
                let ran = node.fails - began;
                node.times.busy += ran;
                node.times.last_end = node.fails;
                let work = &mut self.work[shard as usize];
                work.lose(ran.saturating_sub(STARTS_IN) / node.slowdown);
                node.state = NodeState::Down { since: node.fails, held: Some((array, shard)) };
                self.interrupted += 1;
            }
            NodeState::Idle if node.fails <= now => {
                node.state = NodeState::Down { since: node.fails, held: None };
            }
            NodeState::Down { since, held: Some((array, shard)) } if now >= since + NOTICED_AFTER => {
                node.state = NodeState::Down { since, held: None };
                let is_lost = self.rng.chance(LOST_PER_MILLE);
                if let Some(array) = self.leave(array, shard) {
                    if is_lost {
                        array.over.insert(shard, false);
                    } else {
                        array.pending.insert(shard);
                    }
                }
            }
            NodeState::Down { since, held: None } if now >= since + REPAIRED_AFTER => {
                node.times.down += now - since;
                node.state = NodeState::Idle;
                node.fails = now + failure_after(self.scenario.fails_every, &mut self.rng);
            }
            NodeState::Idle | NodeState::Busy { .. } | NodeState::Down { .. } => {}
        }
    }

    /// Ends a task; gives its array.
    fn leave(&mut self, array: u64, shard: u32) -> Option<&mut QueuedArray> {
        let array = self.arrays.iter_mut().find(|queued| queued.id == array)?;
        array.running.remove(&shard);
        Some(array)
    }

    fn schedule(&mut self, now: Duration) {
        let ids: BTreeSet<_> = self.arrays.iter().map(|array| array.id).collect();
        let mut idle = self.nodes.iter_mut().filter(|node| node.state == NodeState::Idle);
        for array in &mut self.arrays {
            if array.after.is_some_and(|after| ids.contains(&after)) {
                continue;
            }
            while array.running.len() < array.throttle as usize {
                let Some(shard) = array.pending.first().copied() else { break };
                let Some(node) = idle.next() else { return };
                array.pending.remove(&shard);
                array.running.insert(shard);
                let work = &mut self.work[shard as usize];
                let ends = now + STARTS_IN + work.run_time() * node.slowdown;
                node.state = NodeState::Busy { array: array.id, shard, began: now, ends };
                self.starts = Some((self.starts.map_or(now, |(first, _)| first), now));
            }
        }
    }

    /// Shards that are not done.
    pub fn undone(&self) -> usize {
        self.work.iter().filter(|work| work.done.is_none()).count()
    }

    /// The work of all shards on nodes of full speed: before the first start.
    pub fn work(&self) -> Duration {
        self.work.iter().map(|work| work.left).sum()
    }

    /// Times of each node up to `now`.
    pub fn node_times(&self, now: Duration) -> Vec<NodeTimes> {
        let times = |node: &Node| match node.state {
            NodeState::Down { since, .. } => NodeTimes { down: node.times.down + (now - since.min(now)), ..node.times },
            NodeState::Idle | NodeState::Busy { .. } => node.times,
        };
        self.nodes.iter().map(times).collect()
    }
}

/// Evenly between now and twice the mean.
fn failure_after(mean: Duration, rng: &mut Rng) -> Duration {
    let most = u64::try_from(mean.as_millis()).unwrap_or(u64::MAX / 4).saturating_mul(2);
    Duration::from_millis(rng.between(1, most.max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(shards: usize) -> Cluster {
        let shard = SimulatedShard { files: 1, bytes: 1000, published: Duration::ZERO };
        let scenario = ClusterScenario {
            nodes: 4,
            array_size: 10,
            at_once: Some(3),
            bytes_per_s: 100,
            files_per_s: 100,
            slowdown: 1,
            fails_every: Duration::from_secs(1 << 40),
        };
        Cluster::new(scenario, &vec![shard; shards], Rng::new(1))
    }

    fn wave(offset: u32, shards: impl IntoIterator<Item = u32>, throttle: u32) -> SlurmWave {
        SlurmWave { offset, shards: shards.into_iter().collect(), throttle: Some(throttle), after: None }
    }

    #[test]
    fn a_wrong_wave_is_noticed() {
        for (wrong, why) in [
            (wave(0, 0..11, 1), "an array of 11 tasks"),
            (wave(0, 0..0, 1), "an array of 0 tasks"),
            (wave(0, 8..11, 1), "shard 10 in an array from 0"),
            (wave(10, 9..11, 1), "shard 9 in an array from 10"),
        ] {
            let error = cluster(20).submit(&wrong).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
        let mut cluster = cluster(20);
        assert_eq!(cluster.submit(&wave(0, 0..6, 3)), Ok(1));
        assert!(cluster.submit(&wave(0, 5..7, 3)).unwrap_err().contains("shard 5 is submitted"));
        assert!(cluster.submit(&wave(10, 10..15, 3)).unwrap_err().contains("6 in the queue"));
    }

    #[test]
    fn too_many_shards_at_a_time_are_noticed() {
        let mut cluster = cluster(8);
        cluster.submit(&wave(0, 0..4, 2)).unwrap();
        assert_eq!(cluster.advance(Duration::ZERO), Ok(()));
        cluster.submit(&wave(0, 4..8, 2)).unwrap();
        assert!(cluster.advance(SCHEDULE_EVERY).unwrap_err().contains("4 shards at a time, not 3"));
    }
}

//! A job at scale: the real packer, waves and tracker of `crates/job`, with a walk, a cluster and a clock that are not.

pub mod cluster;
pub mod figures;
pub mod workload;

use std::time::Duration;

use cluster::{Cluster, ClusterScenario};
use figures::{CallTimes, JobFigures, NodeFigures};
use haul_job::slurm::pace::{CHECK_EVERY, CallPace};
use haul_job::slurm::tracker::ShardTracker;
use haul_job::slurm::waves::WaveLimits;
use haul_lab::Rng;
use workload::{JobWorkload, SimulatedPlan};

/// A simulated job that takes longer is stuck.
const STUCK_AFTER: Duration = Duration::from_secs(30 * 24 * 3600);

/// A job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobScenario {
    /// The data to copy.
    pub workload: JobWorkload,
    /// The nodes.
    pub cluster: ClusterScenario,
}

/// Plans and copies; an error names the broken rule.
pub fn run_job(scenario: &JobScenario) -> Result<JobFigures, String> {
    let plan = scenario.workload.pack()?;
    let rng = Rng::new(scenario.workload.seed ^ u64::MAX);
    let cluster = Cluster::new(scenario.cluster, &plan.shards, rng);
    let ClusterScenario { array_size, at_once, .. } = scenario.cluster;
    let tracker = ShardTracker::new(WaveLimits { array_size, at_once, is_chained: false, remembers: Duration::MAX });
    let work = cluster.work();
    let mut follower = Follower { cluster, tracker, pace: CallPace::new(Duration::ZERO), calls: CallTimes::default() };
    let ended = follower.follow(&plan)?;
    let Follower { cluster, tracker, calls, .. } = follower;
    let given_up = cluster.undone();
    if (given_up > 0) != tracker.has_failed() || tracker.done() + given_up != plan.shards.len() {
        return Err(format!("{given_up} shards are not done, and the tracker says something else"));
    }
    let nodes = NodeFigures::new(&cluster);
    Ok(JobFigures { plan, ended, work, nodes, calls, interrupted: cluster.interrupted, given_up })
}

/// Submits and follows, as `haul job run --slurm` does.
struct Follower {
    cluster: Cluster,
    tracker: ShardTracker,
    pace: CallPace,
    calls: CallTimes,
}

impl Follower {
    /// Follows to the end; when that is.
    fn follow(&mut self, plan: &SimulatedPlan) -> Result<Duration, String> {
        let mut now = Duration::ZERO;
        let mut unpublished = plan.order.iter().copied().peekable();
        while now < STUCK_AFTER {
            self.cluster.advance(now)?;
            while let Some(shard) = unpublished.next_if(|shard| plan.shards[*shard as usize].published <= now) {
                self.tracker.add(shard, false);
            }
            let is_complete = now >= plan.walk_time;
            self.call(now, is_complete)?;
            if is_complete && !self.tracker.has_waiting() && !self.tracker.has_queued() {
                return Ok(now);
            }
            now += CHECK_EVERY;
        }
        Err("the job is stuck".to_owned())
    }

    fn call(&mut self, now: Duration, is_complete: bool) -> Result<(), String> {
        if self.pace.begins_poll(now) {
            self.calls.queries.push(now);
            let Self { cluster, tracker, .. } = self;
            tracker.update::<String>(&cluster.tasks(), now, &mut |shard| Ok(cluster.recorded(shard, now)))?;
            if let Some((id, throttle)) = tracker.raised() {
                self.calls.changes.push(now);
                cluster.set_throttle(id, throttle);
                tracker.set_throttle(id, throttle);
            }
        }
        if self.pace.may_submit(now)
            && let Some(wave) = self.tracker.next_wave()
        {
            self.calls.submissions.push(now);
            let id = self.cluster.submit(&wave)?;
            self.tracker.record(id, &wave);
            self.pace.record_submission(now, is_complete);
        }
        Ok(())
    }
}

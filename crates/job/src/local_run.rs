//! Copies all shards of a job on this host, during the plan.

use std::any::Any;
use std::collections::BTreeSet;
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use haul_show::exit::Exit;
use haul_show::{self as show, units};

use crate::begun_plan::BegunPlan;
use crate::error::{JobError, shown};
use crate::node::{PartDisplay, StepContext};
use crate::plan_index::{PlanIndex, PlanTotals};
use crate::shard_lock::{LockedWork, holder, locked_shards};
use crate::shard_result::{ShardEnd, ShardResult};
use crate::shard_run::{ShardRunEnd, run_shard, try_shard};
use crate::target_space::{TargetSpace, plan_within};

/// Interval at which an idle worker checks for shards: another process may plan.
const CHECK_EVERY: Duration = Duration::from_millis(200);

/// The run of a job on this host.
pub struct LocalRun<'a> {
    step: StepContext<'a>,
    /// Whether this process plans, and tries failed shards again.
    plans: bool,
    /// Shards that workers have claimed.
    taken: Mutex<BTreeSet<u32>>,
    news: Mutex<PlanNews>,
    changed: Condvar,
    /// The exit status of the worst shard.
    worst: Mutex<Exit>,
}

/// A shard to run.
enum NextShard {
    /// Nobody runs it.
    Free(u32),
    /// Another process runs it.
    Held(u32),
}

/// The state of the walk for workers.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct PlanNews {
    shards: u32,
    /// The walk has ended or failed.
    has_ended: bool,
}

impl<'a> LocalRun<'a> {
    /// Nothing is claimed.
    pub fn new(step: StepContext<'a>, plans: bool) -> Self {
        Self {
            step,
            plans,
            taken: Mutex::default(),
            news: Mutex::default(),
            changed: Condvar::new(),
            worst: Mutex::new(Exit::Done),
        }
    }

    /// Copies all shards, `workers` at a time. Returns the exit status of the worst one.
    pub fn carry_out(&self, workers: u32) -> Result<Exit, JobError> {
        let begun = BegunPlan::begin(&self.step)?;
        let space = TargetSpace::check(&self.step)?;
        thread::scope(|scope| {
            let planner = scope.spawn(|| {
                let on_shard = &mut |totals: &PlanTotals| self.report(|news| news.shards = totals.shards);
                let plan =
                    |begun: BegunPlan| plan_within(space.as_ref(), begun.limited_for_copies(), &self.step, on_shard);
                let planned = begun.map_or(Ok(()), plan);
                self.report(|news| news.has_ended = true);
                planned
            });
            let worked = self.take_shards(workers);
            planner.join().unwrap_or_else(|panic| Err(panicked("plan", &*panic)))?;
            worked
        })
    }

    /// Takes shards of a plan that another process makes or made, `workers` at a time, until none is left.
    pub fn take_shards(&self, workers: u32) -> Result<Exit, JobError> {
        thread::scope(|scope| {
            let workers: Vec<_> = (0..workers).map(|_| scope.spawn(|| self.work())).collect();
            let worked = workers
                .into_iter()
                .map(|worker| worker.join().unwrap_or_else(|panic| Err(panicked("copies", &*panic))));
            worked.collect::<Result<Vec<()>, _>>()?;
            Ok(*self.worst.lock().unwrap_or_else(PoisonError::into_inner))
        })
    }

    fn work(&self) -> Result<(), JobError> {
        let directory = &self.step.job.directory;
        while !self.step.cancel.is_cancelled() && !directory.held().exists() {
            // Both are read before the index: a plan that has ended by now adds no shard.
            let news = *self.news.lock().unwrap_or_else(PoisonError::into_inner);
            let is_abandoned = !self.plans && holder(directory, LockedWork::Plan).is_none();
            let index = PlanIndex::read(directory)?;
            let is_complete = index.complete.is_some();
            match self.next(index)? {
                Some(NextShard::Free(number)) => self.shard(number, try_shard)?,
                Some(NextShard::Held(number)) => {
                    self.shard(number, |step, number| run_shard(step, number).map(Some))?
                }
                None if news.has_ended || is_complete => return Ok(()),
                None if is_abandoned => {
                    let path = shown(directory.path());
                    let hint = format!("haul job run {path} completes it");
                    return Err(JobError::failed(format!("{path}: the plan is not complete"), hint));
                }
                None => self.wait_for_news(news),
            }
        }
        Ok(())
    }

    fn report(&self, change: impl FnOnce(&mut PlanNews)) {
        change(&mut self.news.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
    }

    /// Waits for a limited time until the walk is beyond `known`.
    fn wait_for_news(&self, known: PlanNews) {
        let news = self.news.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(news, CHECK_EVERY, |news| *news == known);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// The next shard for this process. One that another process runs comes last: it may die.
    fn next(&self, index: PlanIndex) -> Result<Option<NextShard>, JobError> {
        let directory = &self.step.job.directory;
        let held: BTreeSet<u32> = locked_shards(directory).into_iter().map(|(shard, _)| shard).collect();
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let mut first_held = None;
        for shard in index.shards {
            if taken.contains(&shard.number) {
                continue;
            }
            let end = ShardResult::read(directory, shard.number)?.map(|result| result.end);
            let is_left = match end {
                Some(ShardEnd::Done) => false,
                // Others that take shards would try it again, too.
                Some(ShardEnd::Incomplete | ShardEnd::Failed) => self.plans,
                Some(ShardEnd::Interrupted) | None => true,
            };
            if is_left && held.contains(&shard.number) {
                first_held = first_held.or(Some(shard.number));
                continue;
            }
            taken.insert(shard.number);
            if is_left {
                return Ok(Some(NextShard::Free(shard.number)));
            }
        }
        taken.extend(first_held);
        Ok(first_held.map(NextShard::Held))
    }

    fn shard(
        &self,
        number: u32,
        run: fn(&StepContext<'_>, u32) -> Result<Option<ShardRunEnd>, JobError>,
    ) -> Result<(), JobError> {
        let Some(ShardRunEnd { exit, result }) = run(&self.step.quiet(), number)? else {
            // Another process was faster.
            self.taken.lock().unwrap_or_else(PoisonError::into_inner).remove(&number);
            return Ok(());
        };
        let mut worst = self.worst.lock().unwrap_or_else(PoisonError::into_inner);
        if !result.end.has_tried_all() {
            *worst = exit;
        }
        if self.step.display != PartDisplay::Quiet {
            let (files, bytes) = (units::files(result.counts.files_copied), units::size(result.counts.bytes));
            let time = units::duration(Duration::from_secs_f64(result.seconds));
            let failed = match result.counts.failed {
                0 => String::new(),
                failed if self.step.job.description.verifies => format!(", {} different", units::count(failed)),
                failed => format!(", {} failed", units::files(failed)),
            };
            show::stderr().plain(&format!("shard {number}: {files}, {bytes} in {time}{failed}"));
        }
        Ok(())
    }
}

fn panicked(thread: &str, panic: &(dyn Any + Send)) -> JobError {
    JobError::of_text(&haul_base::sys::panic::panicked(thread, panic))
}

//! Copies all shards of a job on this host, during the plan.

use std::any::Any;
use std::collections::BTreeSet;
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use haul_show::exit::Exit;
use haul_show::{self as show, units};

use crate::begun_plan::BegunPlan;
use crate::error::JobError;
use crate::node::{PartDisplay, StepContext};
use crate::plan_index::{PlanIndex, PlanTotals};
use crate::shard_result::{ShardEnd, ShardResult};
use crate::shard_run::{ShardRunEnd, run_shard};

/// Interval at which an idle worker checks for shards: another process may plan.
const CHECK_EVERY: Duration = Duration::from_millis(200);

/// The run of a job on this host.
pub struct LocalRun<'a> {
    step: StepContext<'a>,
    /// Shards that workers have claimed.
    taken: Mutex<BTreeSet<u32>>,
    news: Mutex<PlanNews>,
    changed: Condvar,
    /// The exit status of the worst shard.
    worst: Mutex<Exit>,
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
    pub fn new(step: StepContext<'a>) -> Self {
        Self {
            step,
            taken: Mutex::default(),
            news: Mutex::default(),
            changed: Condvar::new(),
            worst: Mutex::new(Exit::Done),
        }
    }

    /// Copies all shards, `workers` at a time. Returns the exit status of the worst one.
    pub fn carry_out(&self, workers: u32) -> Result<Exit, JobError> {
        let begun = BegunPlan::begin(&self.step)?;
        thread::scope(|scope| {
            let planner = scope.spawn(|| {
                let on_shard = &mut |totals: &PlanTotals| self.report(|news| news.shards = totals.shards);
                let walked = begun.map(|begun| begun.limited_for_copies().carry_out(&self.step, on_shard)).transpose();
                self.report(|news| news.has_ended = true);
                walked.map(|_| ())
            });
            let workers: Vec<_> = (0..workers).map(|_| scope.spawn(|| self.work())).collect();
            let worked = workers
                .into_iter()
                .map(|worker| worker.join().unwrap_or_else(|panic| Err(panicked("copies", &*panic))));
            let worked: Result<Vec<()>, JobError> = worked.collect();
            planner.join().unwrap_or_else(|panic| Err(panicked("plan", &*panic)))?;
            worked?;
            Ok(*self.worst.lock().unwrap_or_else(PoisonError::into_inner))
        })
    }

    fn work(&self) -> Result<(), JobError> {
        while !self.step.cancel.is_cancelled() && !self.step.job.directory.held().exists() {
            // Read before the index: a plan that has ended by now adds no shard.
            let news = *self.news.lock().unwrap_or_else(PoisonError::into_inner);
            match self.next()? {
                Some(number) => self.shard(number)?,
                None if news.has_ended => return Ok(()),
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

    /// The next shard that is neither done nor claimed here.
    fn next(&self) -> Result<Option<u32>, JobError> {
        let index = PlanIndex::read(&self.step.job.directory)?;
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        for shard in index.shards {
            if taken.insert(shard.number) {
                let result = ShardResult::read(&self.step.job.directory, shard.number)?;
                if result.is_none_or(|result| result.end != ShardEnd::Done) {
                    return Ok(Some(shard.number));
                }
            }
        }
        Ok(None)
    }

    fn shard(&self, number: u32) -> Result<(), JobError> {
        let ShardRunEnd { exit, result } = run_shard(&self.step.quiet(), number)?;
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

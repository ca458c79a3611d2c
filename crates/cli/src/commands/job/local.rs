//! `haul job run`: plans, copies shards on this host during the plan, and finishes.

use std::any::Any;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use haul_base::copy::runtime_control::RuntimeControl;
use haul_base::sys::cancel::Cancel;
use haul_job::error::shown;
use haul_job::exclusive::continued;
use haul_job::opened::OpenedJob;
use haul_job::plan_index::{PlanIndex, PlanTotals};
use haul_job::shard_result::{ShardEnd, ShardResult};
use haul_show::exit::Exit;
use haul_show::{self as show, units};

use super::comparison::{begin, is_to_be_compared, worse};
use super::finish::JobFinish;
use super::part::PartDisplay;
use super::plan::{BegunPlan, create};
use super::shard::{ShardRun, ShardRunEnd};
use crate::args::job::copy_options;
use crate::args::row::OptionRow;
use crate::args::values::Values;
use crate::args::{UsageError, flags};
use crate::signals::Watch;
use crate::user_dirs::state_dir;

/// Interval at which an idle worker checks for shards: another process may plan.
const CHECK_EVERY: Duration = Duration::from_millis(200);

/// Runs the job that `operands` describe, or resumes the one that they name.
pub fn run(values: &Values, operands: &[OsString]) -> anyhow::Result<Exit> {
    run_job(values, &job_of(values, operands)?)
}

/// Runs `job`, and then the comparison of `--then-verify`.
pub fn run_job(values: &Values, job: &OpenedJob) -> anyhow::Result<Exit> {
    let exit = copy_and_finish(values, job)?;
    match values.is_set(&flags::job::THEN_VERIFY) && is_to_be_compared(job, exit) {
        true => Ok(worse(exit, copy_and_finish(values, &begin(job)?)?)),
        false => Ok(exit),
    }
}

fn copy_and_finish(values: &Values, job: &OpenedJob) -> anyhow::Result<Exit> {
    let workers = values.get(&flags::job::LOCAL)?.unwrap_or(1);
    let path = shown(job.directory.path());
    let is_quiet = values.is_set(&flags::QUIET);
    if !is_quiet {
        show::stderr().plain(&format!("job {path}"));
    }
    let (cancel, steering) = (Cancel::new(), RuntimeControl::new());
    let watch = Watch::start(cancel.clone(), steering.rate().clone(), None)?;
    let run = LocalRun {
        job,
        cancel: &cancel,
        steering: &steering,
        is_quiet,
        taken: Mutex::default(),
        news: Mutex::default(),
        changed: Condvar::new(),
        worst: Mutex::new(Exit::Done),
    };
    let copied = watch.during(|| run.carry_out(workers))?;
    if cancel.is_cancelled() {
        show::stderr().error(&format!("{path}: interrupted\nhint: haul job run {path} continues it"));
        return Ok(Exit::Interrupted);
    }
    if copied != Exit::Done {
        show::stderr().error(&format!("{path}: not all shards are done\nhint: haul job status {path} names them"));
        return Ok(copied);
    }
    let display = if is_quiet { PartDisplay::Quiet } else { PartDisplay::Usual };
    let finish = JobFinish { job, display, verifies: false, cancel: &cancel, steering: &steering };
    watch.during(|| finish.carry_out())
}

/// The job that `operands` describe, or the one that they name.
pub fn job_of(values: &Values, operands: &[OsString]) -> anyhow::Result<OpenedJob> {
    let is_existing = operands.len() == 1 && !values.is_set(&flags::job::TARGETS);
    if is_existing { reopened(values, &operands[0]) } else { new(values, operands) }
}

fn new(values: &Values, operands: &[OsString]) -> anyhow::Result<OpenedJob> {
    let own;
    let dir = match values.last(&flags::job::DIR) {
        Some(dir) => dir,
        None => {
            own = OsString::from(format!("haul-job-{}", haul_job::description::JobDescription::new_id()?));
            &own
        }
    };
    Ok(continued(create(values, operands, dir)?)?)
}

/// An existing job, which keeps its own options.
fn reopened(values: &Values, path: &OsString) -> anyhow::Result<OpenedJob> {
    let step = if values.is_set(&flags::job::SLURM) { "run --slurm JOB" } else { "run JOB" };
    let job = OpenedJob::open_for(step, path, values.get(&flags::job::CONFIRM)?, state_dir())?;
    refuse_other_options(values)?;
    Ok(continued(job)?)
}

/// Refuses options of a plan and of a copy for a job that exists.
pub fn refuse_other_options(values: &Values) -> Result<(), UsageError> {
    let own: [&OptionRow; 5] = [
        &flags::job::DIR,
        &flags::job::SYNC,
        &flags::job::SHARD_BYTES,
        &flags::job::SHARD_FILES,
        &flags::job::SHARD_RANGE,
    ];
    let own = own.into_iter().find(|row| values.is_typed(row)).map(|row| row.typed());
    let copies = copy_options(values)?.into_iter().find(|word| word != "--quiet");
    match own.or(copies.map(|word| word.to_string_lossy().into_owned())) {
        None => Ok(()),
        Some(word) => Err(UsageError::new(format!("{word}: a job keeps the options that it was planned with"))
            .remedy("haul job run JOB takes --local, --slurm with its options, --then-verify and --quiet")),
    }
}

struct LocalRun<'a> {
    job: &'a OpenedJob,
    cancel: &'a Cancel,
    steering: &'a RuntimeControl,
    is_quiet: bool,
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

impl LocalRun<'_> {
    /// Copies all shards, `workers` at a time.
    fn carry_out(&self, workers: u32) -> anyhow::Result<Exit> {
        let begun = BegunPlan::begin(self.job, self.cancel)?;
        thread::scope(|scope| {
            let planner = scope.spawn(|| {
                let on_shard = &mut |totals: &PlanTotals| self.report(|news| news.shards = totals.shards);
                let walked = begun
                    .map(|begun| begun.limited_for_copies().carry_out(self.job, self.cancel, on_shard))
                    .transpose();
                self.report(|news| news.has_ended = true);
                walked.map(|_| ())
            });
            let workers: Vec<_> = (0..workers).map(|_| scope.spawn(|| self.work())).collect();
            let worked = workers
                .into_iter()
                .map(|worker| worker.join().unwrap_or_else(|panic| Err(panicked("copies", &*panic))));
            let worked: anyhow::Result<Vec<()>> = worked.collect();
            planner.join().unwrap_or_else(|panic| Err(panicked("plan", &*panic)))?;
            worked?;
            Ok(*self.worst.lock().unwrap_or_else(PoisonError::into_inner))
        })
    }

    fn work(&self) -> anyhow::Result<()> {
        while !self.cancel.is_cancelled() {
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
    fn next(&self) -> anyhow::Result<Option<u32>> {
        let index = PlanIndex::read(&self.job.directory)?;
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        for shard in index.shards {
            if taken.insert(shard.number) {
                let result = ShardResult::read(&self.job.directory, shard.number)?;
                if result.is_none_or(|result| result.end != ShardEnd::Done) {
                    return Ok(Some(shard.number));
                }
            }
        }
        Ok(None)
    }

    fn shard(&self, number: u32) -> anyhow::Result<()> {
        let Self { job, cancel, steering, .. } = *self;
        let ShardRunEnd { exit, result } =
            ShardRun { job, number, display: PartDisplay::Quiet, cancel, steering }.carry_out()?;
        let mut worst = self.worst.lock().unwrap_or_else(PoisonError::into_inner);
        if result.end != ShardEnd::Done {
            *worst = exit;
        }
        if !self.is_quiet {
            let (files, bytes) = (units::files(result.counts.files_copied), units::size(result.counts.bytes));
            let time = units::duration(Duration::from_secs_f64(result.seconds));
            let failed = match result.counts.failed {
                0 => String::new(),
                failed if job.description.verifies => format!(", {} different", units::count(failed)),
                failed => format!(", {} failed", units::files(failed)),
            };
            show::stderr().plain(&format!("shard {number}: {files}, {bytes} in {time}{failed}"));
        }
        Ok(())
    }
}

fn panicked(thread: &str, panic: &(dyn Any + Send)) -> anyhow::Error {
    anyhow::anyhow!(haul_base::sys::panic::panicked(thread, panic))
}

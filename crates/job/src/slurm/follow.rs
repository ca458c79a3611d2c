//! Submits and follows a job: one thread plans, the other submits waves and reads Slurm's queue.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use haul_engine::sys::affinity::keep_to_some;
use haul_show::exit::Exit;
use haul_show::{self as show, units};

use super::client::{SlurmCallError, SlurmClient};
use super::pace::{CHECK_EVERY, CallPace, POLL_EVERY};
use super::queue::{SlurmConfig, SlurmTask, summary};
use super::settings::SlurmSettings;
use super::submissions::{SlurmSubmission, ranges};
use super::submit::{SlurmState, SubmittedFinish};
use super::view::ask;
use super::waves::WaveLimits;
use crate::begun_plan::BegunPlan;
use crate::error::{JobError, shown};
use crate::node::{PartDisplay, StepContext};
use crate::opened::OpenedJob;
use crate::overview::JobOverview;
use crate::part::check_ends;
use crate::plan_index::PlanIndex;
use crate::report::MergedReport;
use crate::report_text::print_report;
use crate::shard_lock::locked_shards;
use crate::target_space::{TargetSpace, plan_within};

/// CPUs of a plan: a login node is everybody's.
const PLAN_CPUS: usize = 4;
/// Interval of progress lines while neither shards nor the queue change.
const SHOW_EVERY: Duration = Duration::from_secs(60);

/// The end of following a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SlurmRunEnd {
    /// Everything is submitted, and the user does not wait.
    Submitted,
    /// The job is finished.
    Finished(Exit),
    /// Shards failed or were lost too often.
    Unfinished(Exit),
    /// The job is held.
    Held,
    /// Tasks were cancelled in Slurm, or ended unseen: of these shards, or of the last step.
    Withdrawn(Vec<u32>),
    /// All shards are done, but the last step failed.
    NotFinished(Exit),
    /// Ctrl-C, or the job was cancelled.
    Interrupted,
}

/// A job on Slurm.
pub struct SlurmRun<'a> {
    /// The step: its end ends following, not the tasks.
    pub step: StepContext<'a>,
    /// Settings of tasks.
    pub settings: &'a SlurmSettings,
    /// Calls Slurm.
    pub client: &'a SlurmClient<'a>,
    /// Whether the job is followed to its end.
    pub follows: bool,
}

impl SlurmRun<'_> {
    /// Plans, submits and follows.
    pub fn carry_out(&self) -> Result<SlurmRunEnd, JobError> {
        let directory = &self.step.job.directory;
        let ready = self.patiently(|| Ok((self.client.config()?, ask(self.step.job, self.client)?)))?;
        let Some((SlurmConfig { array_size, remembers }, mut tasks)) = ready else {
            return Ok(SlurmRunEnd::Interrupted);
        };
        let is_planned = PlanIndex::read(directory)?.complete.is_some();
        if !is_planned {
            // The next plan reuses the numbers of an interrupted one.
            let ids: Vec<_> = tasks.drain(..).filter(|task| !task.is_over()).map(|task| task.job).collect();
            self.patiently(|| self.client.cancel(&ids))?;
            forget_submissions(self.step.job)?;
        }
        if SlurmSubmission::read_all(directory)?.is_empty() {
            check_ends(&self.step)?;
        }
        let begun = BegunPlan::begin(&self.step)?;
        let space = TargetSpace::check(&self.step)?;
        let limits = WaveLimits { array_size, at_once: self.settings.at_once, is_chained: !self.follows, remembers };
        let mut state = SlurmState::new(self.step.job, self.settings, self.client, limits)?;
        if self.patiently(|| state.take_over(&tasks))?.is_none() {
            return Ok(SlurmRunEnd::Interrupted);
        }
        let planned = AtomicBool::new(false);
        thread::scope(|scope| {
            let planner = scope.spawn(|| {
                keep_to_some(PLAN_CPUS);
                let plan = |begun| plan_within(space.as_ref(), begun, &self.step, &mut |_| {});
                let ended = begun.map_or(Ok(()), plan);
                planned.store(true, Ordering::Release);
                ended
            });
            let followed = self.follow(&mut state, &planned);
            if followed.is_err() {
                self.step.cancel.cancel();
            }
            let walked = planner.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            match followed? {
                SlurmRunEnd::Interrupted if !self.step.cancel.is_cancelled() => {
                    walked.map(|()| SlurmRunEnd::Interrupted)
                }
                SlurmRunEnd::Held => walked.map(|()| SlurmRunEnd::Held),
                end => Ok(end),
            }
        })
    }

    /// Repeats a call until Slurm answers; `None` if interrupted.
    fn patiently<T>(&self, mut call: impl FnMut() -> Result<T, SlurmCallError>) -> Result<Option<T>, JobError> {
        let mut has_told = false;
        while !self.step.cancel.is_cancelled() {
            match call() {
                Ok(done) => return Ok(Some(done)),
                Err(SlurmCallError::Refused(error)) => return Err(error),
                Err(SlurmCallError::Later(why)) => {
                    if !std::mem::replace(&mut has_told, true) {
                        show::stderr().notice(&format!("{why}; trying again"));
                    }
                    self.step.cancel.wait(POLL_EVERY);
                }
            }
        }
        Ok(None)
    }

    fn follow(&self, state: &mut SlurmState<'_>, planned: &AtomicBool) -> Result<SlurmRunEnd, JobError> {
        let clock = Instant::now();
        let mut pace = CallPace::new(clock.elapsed());
        let (mut shown, mut last_trouble) = (ShownProgress::default(), String::new());
        loop {
            if self.step.cancel.is_cancelled() {
                return Ok(SlurmRunEnd::Interrupted);
            }
            // Read before the index: a plan that has ended by now adds no shard.
            let has_ended = planned.load(Ordering::Acquire);
            let index = PlanIndex::read(&self.step.job.directory)?;
            let is_complete = index.complete.is_some();
            if has_ended && !is_complete {
                return Ok(SlurmRunEnd::Interrupted);
            }
            state.add_planned(&index)?;
            let mut trouble = None;
            if pace.begins_poll(clock.elapsed()) {
                match ask(self.step.job, self.client) {
                    Ok(tasks) => {
                        let updated = later(state.update(&tasks))?;
                        self.show(state, &index, &tasks, &mut shown);
                        trouble = later(state.raise_throttle().and_then(|()| state.release_held(&tasks)))?.or(updated);
                    }
                    failed => trouble = later(failed.map(|_| ()))?,
                }
            }
            if pace.may_submit(clock.elapsed()) {
                let submitted = state.submit_wave();
                let was_submitted = matches!(submitted, Ok(true));
                trouble = later(submitted.map(|_| ()))?.or(trouble);
                if trouble.is_none() && is_complete && is_next_finish(state) {
                    trouble = later(state.submit_finish())?;
                }
                if was_submitted || trouble.is_some() {
                    pace.record_submission(clock.elapsed(), is_complete);
                }
            }
            if let Some(why) = trouble.filter(|why| *why != last_trouble) {
                show::stderr().notice(&format!("{why}; trying again"));
                last_trouble = why;
            }
            state.read_finish_status();
            if (is_complete || self.step.job.directory.held().exists())
                && let Some(end) = self.end(state)
            {
                return Ok(end);
            }
            self.step.cancel.wait(CHECK_EVERY);
        }
    }

    /// The end of following at this moment, if reached.
    fn end(&self, state: &mut SlurmState<'_>) -> Option<SlurmRunEnd> {
        let is_out = !state.tracker.has_waiting() && !state.tracker.has_queued();
        match state.finish {
            _ if self.step.job.directory.held().exists() && !state.tracker.has_queued() => Some(SlurmRunEnd::Held),
            SubmittedFinish::Queued(_) if !self.follows && !state.tracker.has_waiting() => Some(SlurmRunEnd::Submitted),
            SubmittedFinish::Ended(0) => Some(SlurmRunEnd::Finished(Exit::Done)),
            SubmittedFinish::Ended(status) if self.step.job.directory.report().exists() => {
                Some(SlurmRunEnd::Finished(exit_of(status)))
            }
            SubmittedFinish::Withdrawn if is_out => Some(SlurmRunEnd::Withdrawn(state.tracker.withdrawn())),
            SubmittedFinish::Waiting | SubmittedFinish::Ended(_) if is_out && !state.tracker.withdrawn().is_empty() => {
                Some(SlurmRunEnd::Withdrawn(state.tracker.withdrawn()))
            }
            SubmittedFinish::Ended(_) if is_out && state.tracker.has_failed() => {
                Some(SlurmRunEnd::Unfinished(Exit::Failed))
            }
            SubmittedFinish::Ended(status) if is_out => {
                let is_retried = state.retry_finish();
                (!is_retried).then(|| SlurmRunEnd::NotFinished(exit_of(status)))
            }
            SubmittedFinish::Waiting if is_out && state.tracker.has_failed() => {
                Some(SlurmRunEnd::Unfinished(Exit::Failed))
            }
            _ => None,
        }
    }

    fn show(&self, state: &SlurmState<'_>, index: &PlanIndex, tasks: &[SlurmTask], shown: &mut ShownProgress) {
        if self.step.display == PartDisplay::Quiet {
            return;
        }
        let more = if index.complete.is_some() { "" } else { " planned so far" };
        let shards = units::counted(state.tracker.planned() as u64, "shard", "shards");
        let counts = format!("{} of {shards}{more} done", state.tracker.done());
        let queue = summary(tasks);
        let now = Instant::now();
        let is_due = shown.at.is_none_or(|at| now - at >= SHOW_EVERY);
        if !is_due && shown.text == (counts.as_str().into(), queue.as_str().into()) {
            return;
        }
        let bytes = shown.bytes(state, index, self.step.job, now);
        let failed = match state.failed_files {
            0 => String::new(),
            failed => format!("; {} failed", units::files(failed)),
        };
        show::stderr().plain(&format!("{counts}, {bytes}{failed}; Slurm: {queue}"));
        (shown.at, shown.text) = (Some(now), (counts, queue));
    }
}

/// The last progress line.
#[derive(Default)]
struct ShownProgress {
    at: Option<Instant>,
    /// The counts, and the queue.
    text: (String, String),
    /// The first sight of the job's bytes.
    first: Option<(Instant, u64)>,
}

impl ShownProgress {
    /// `1.2 GB of 9.6 GB at 350 MB/s, 24 s left`
    fn bytes(&mut self, state: &SlurmState<'_>, index: &PlanIndex, job: &OpenedJob, now: Instant) -> String {
        let total = index.shards.iter().map(|shard| shard.bytes).fold(0, u64::saturating_add);
        let of_done = index.shards.iter().filter(|shard| state.tracker.is_done(shard.number)).map(|shard| shard.bytes);
        let of_running = locked_shards(&job.directory).into_iter().filter(|(shard, _)| !state.tracker.is_done(*shard));
        let of_running = of_running.map(|(_, holder)| holder.progress.bytes);
        let done = of_done.chain(of_running).fold(0, u64::saturating_add).min(total);
        let (began, at_first) = *self.first.get_or_insert((now, done));
        let seconds = (now - began).as_secs_f64();
        let rate = if seconds > 0.0 { done.saturating_sub(at_first) as f64 / seconds } else { 0.0 };
        let mut text = format!("{} of {}", units::size(done), units::size(total));
        if rate > 0.0 {
            text.push_str(&format!(" at {}", units::rate(rate)));
            let left =
                Duration::try_from_secs_f64((total - done) as f64 / rate).ok().filter(|_| index.complete.is_some());
            text.extend(left.map(|left| format!(", {} left", units::duration(left))));
        }
        text
    }
}

/// Prints how the run ended; returns its exit status.
pub fn report_end(job: &OpenedJob, ended: SlurmRunEnd, display: PartDisplay) -> Result<Exit, JobError> {
    let directory = &job.directory;
    let path = shown(directory.path());
    Ok(match ended {
        SlurmRunEnd::Submitted => {
            if display != PartDisplay::Quiet {
                show::stderr().plain(&format!("{path}: submitted; haul job status {path} shows the job"));
            }
            Exit::Done
        }
        SlurmRunEnd::Finished(exit) => {
            print_report(job, &MergedReport::of(&JobOverview::read(directory)?), display);
            exit
        }
        SlurmRunEnd::Unfinished(exit) => {
            let hint = format!("haul job status {path} names them, and {path}/slurm has the output of their tasks");
            show::stderr().error(&format!("{path}: not all shards are done\nhint: {hint}"));
            exit
        }
        SlurmRunEnd::Held => {
            let reason = directory.held_because().unwrap_or_default();
            let hint = format!("haul job run --slurm {path} continues it");
            show::stderr().error(&format!("{path}: the job is held: {reason}\nhint: {hint}"));
            Exit::Failed
        }
        SlurmRunEnd::Withdrawn(shards) => {
            let what = match shards.len() {
                0 => "the last step was cancelled in Slurm".to_owned(),
                _ => format!("cancelled in Slurm, or ended unseen: shards {}", ranges(&shards)),
            };
            let hint = format!("haul job run --slurm {path} submits what is left");
            show::stderr().error(&format!("{path}: {what}\nhint: {hint}"));
            Exit::Interrupted
        }
        SlurmRunEnd::NotFinished(exit) => {
            let hint = format!("its output is in {path}/slurm; haul job finish {path} repeats it here");
            show::stderr().error(&format!("{path}: the last step failed\nhint: {hint}"));
            exit
        }
        SlurmRunEnd::Interrupted if directory.cancelled().exists() => {
            return Err(JobError::cancelled(directory.path()));
        }
        SlurmRunEnd::Interrupted => {
            let hints = format!(
                "hint: haul job run --slurm {path} submits what is left and follows it\nhint: haul job cancel {path} stops it"
            );
            show::stderr().error(&format!("{path}: submitted shards keep running in Slurm\n{hints}"));
            Exit::Interrupted
        }
    })
}

/// Whether to submit the last step: everything else is submitted, and nothing has failed permanently.
fn is_next_finish(state: &SlurmState<'_>) -> bool {
    let is_due = state.finish == SubmittedFinish::Waiting && !state.tracker.has_waiting();
    is_due && (state.tracker.has_queued() || !state.tracker.has_failed())
}

/// Slurm's message, if the call is to be repeated.
fn later(done: Result<(), SlurmCallError>) -> Result<Option<String>, JobError> {
    match done {
        Ok(()) => Ok(None),
        Err(SlurmCallError::Later(why)) => Ok(Some(why)),
        Err(SlurmCallError::Refused(error)) => Err(error),
    }
}

fn exit_of(status: u8) -> Exit {
    [Exit::Done, Exit::Failed, Exit::Usage, Exit::Unreachable, Exit::Vanished]
        .into_iter()
        .find(|exit| exit.number() == status)
        .unwrap_or(Exit::Interrupted)
}

fn forget_submissions(job: &OpenedJob) -> Result<(), JobError> {
    SlurmSubmission::file(&job.directory).remove()
}

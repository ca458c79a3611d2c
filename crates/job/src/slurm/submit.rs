//! Submits waves by the shard tracker, records them, and follows the last step.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Instant;

use haul_base::copy::own_executable::own_executable;
use haul_show as show;
use haul_show::exit::Exit;
use haul_show::text::harmless;

use super::client::{SlurmCallError, SlurmClient, SubmittedScript};
use crate::error::JobError;
use crate::opened::OpenedJob;
use crate::plan_index::PlanIndex;
use crate::shard_result::{RecordedShard, ShardEnd, ShardResult};
use crate::slurm::held::{HeldRemedy, HeldTasks};
use crate::slurm::node_faults::{NodeFaults, NodeVerdict};
use crate::slurm::queue::SlurmTask;
use crate::slurm::script::{ArrayRules, SlurmScripts};
use crate::slurm::settings::SlurmSettings;
use crate::slurm::submissions::SlurmSubmission;
use crate::slurm::task_ends::FailedTask;
use crate::slurm::tracker::{LOST_AFTER, ShardNews, ShardTracker};
use crate::slurm::waves::{SlurmWave, WaveLimits};

/// Most reasons shown while following.
const REASONS_MAX: usize = 100;
/// Most resubmissions of the last step.
const FINISH_RETRIES_MAX: u32 = 2;

/// The state of the last step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SubmittedFinish {
    /// Not submitted.
    Waiting,
    /// Submitted as this job.
    Queued(u64),
    /// The job ended without a status, at this time.
    Gone(u64, Instant),
    /// Ended with this status.
    Ended(u8),
    /// Somebody cancelled it.
    Withdrawn,
}

/// Shards of a job and their tasks.
pub struct SlurmState<'a> {
    job: &'a OpenedJob,
    settings: &'a SlurmSettings,
    client: &'a SlurmClient<'a>,
    executable: PathBuf,
    /// `--confirm DIGEST`, if the job starts programs.
    confirming: String,
    /// Its shards.
    pub tracker: ShardTracker,
    clock: Instant,
    /// The state of the last step.
    pub finish: SubmittedFinish,
    finish_losses: u32,
    /// A submission whose answer was lost.
    doubtful: Option<SlurmWave>,
    held: HeldTasks,
    nodes: NodeFaults,
    /// The nodes on which each shard was lost.
    lost_on: BTreeMap<u32, BTreeSet<String>>,
    /// Reasons already shown.
    reasons: BTreeSet<String>,
    /// Failed files of ended shards.
    pub failed_files: u64,
    /// Whether a shard has begun on some node, so that the job's directory and haul are there.
    has_begun: bool,
    /// The array that goes ahead.
    trial: Option<u64>,
    has_cancelled_waiting: bool,
}

impl<'a> SlurmState<'a> {
    /// Nothing is submitted.
    pub fn new(
        job: &'a OpenedJob,
        settings: &'a SlurmSettings,
        client: &'a SlurmClient<'a>,
        limits: WaveLimits,
    ) -> Result<Self, JobError> {
        let executable = node_executable();
        let (tracker, clock) = (ShardTracker::new(limits), Instant::now());
        let finish = SubmittedFinish::Waiting;
        Ok(Self {
            job,
            settings,
            client,
            executable,
            confirming: job.confirming_words()?.join(" "),
            tracker,
            clock,
            finish,
            finish_losses: 0,
            doubtful: None,
            held: HeldTasks::default(),
            nodes: NodeFaults::default(),
            lost_on: BTreeMap::new(),
            reasons: BTreeSet::new(),
            failed_files: 0,
            has_begun: false,
            trial: None,
            has_cancelled_waiting: false,
        })
    }

    /// Adopts tasks of an earlier run. Cancels unrecorded jobs, whose shards are unknown.
    pub fn take_over(&mut self, tasks: &[SlurmTask]) -> Result<(), SlurmCallError> {
        let known = SlurmSubmission::read_all(&self.job.directory).map_err(SlurmCallError::Refused)?;
        let recorded: BTreeSet<_> = known.iter().map(SlurmSubmission::id).collect();
        let live = || tasks.iter().filter(|task| !task.is_over());
        let unknown: BTreeSet<_> = live().map(|task| task.job).filter(|id| !recorded.contains(id)).collect();
        self.client.cancel(&unknown.into_iter().collect::<Vec<_>>())?;
        for submission in known.iter().filter(|known| live().any(|task| task.job == known.id())) {
            match submission {
                SlurmSubmission::Finish { id } => self.finish = SubmittedFinish::Queued(*id),
                SlurmSubmission::Array { id, offset, .. } => self.tracker.take_over(*id, *offset, tasks),
            }
        }
        let shares = self.tracker.share_throttle();
        shares.into_iter().try_for_each(|(id, throttle)| self.set_throttle(id, throttle))
    }

    /// Adds new shards of the plan.
    pub fn add_planned(&mut self, index: &PlanIndex) -> Result<(), JobError> {
        for shard in &index.shards {
            if !self.tracker.knows(shard.number) {
                let recorded = RecordedShard::read(&self.job.directory, shard.number)?;
                self.tracker.add(shard.number, recorded.end == Some(ShardEnd::Done));
            }
        }
        Ok(())
    }

    /// Updates the tracker from the queue, and acts on lost shards.
    pub fn update(&mut self, tasks: &[SlurmTask]) -> Result<(), SlurmCallError> {
        self.adopt(tasks).map_err(SlurmCallError::Refused)?;
        tasks.iter().filter(|task| !task.is_pending()).for_each(|task| self.nodes.see(&task.nodes));
        let unrecorded = self.tracker.unrecorded(tasks);
        if !unrecorded.is_empty() {
            self.tracker.accounts = self.client.accounts(&unrecorded);
        }
        let directory = &self.job.directory;
        let recorded = &mut |shard| RecordedShard::read(directory, shard);
        let news = self.tracker.update(tasks, self.clock.elapsed(), recorded).map_err(SlurmCallError::Refused)?;
        self.update_finish(tasks);
        for news in news {
            match news {
                ShardNews::Ended(shard) => self.note_result(shard).map_err(SlurmCallError::Refused)?,
                ShardNews::Lost { shard, node, is_fruitless } => self.note_loss(shard, &node, is_fruitless)?,
            }
        }
        self.cancel_waiting_if_held()
    }

    fn note_result(&mut self, shard: u32) -> Result<(), JobError> {
        let Some(result) = ShardResult::read(&self.job.directory, shard)? else { return Ok(()) };
        self.failed_files = self.failed_files.saturating_add(result.counts.failed);
        if result.end == ShardEnd::Failed {
            let why = harmless(result.message.lines().next().unwrap_or_default());
            self.show_once(&format!("failed on {}: {why}", harmless(&result.host)), shard);
        }
        Ok(())
    }

    fn note_loss(&mut self, shard: u32, node: &str, is_fruitless: bool) -> Result<(), SlurmCallError> {
        let task = FailedTask::last(&self.job.directory, shard)
            .filter(|task| node.is_empty() || task.node == node)
            .unwrap_or_else(|| FailedTask { node: node.to_owned(), why: "its task ended without a result".to_owned() });
        self.show_once(&format!("lost {}", task.shown()), shard);
        self.lost_on.entry(shard).or_default().insert(task.node.clone());
        let verdict = if is_fruitless { self.nodes.lose(&task.node) } else { NodeVerdict::Keep };
        match verdict {
            NodeVerdict::Keep => Ok(()),
            NodeVerdict::LeaveOut => {
                show::stderr().notice(&format!(
                    "{} lost two shards without progress: it gets no more tasks",
                    harmless(&task.node)
                ));
                let (arrays, nodes) = (self.tracker.arrays(), self.nodes.left_out());
                arrays.into_iter().try_for_each(|id| self.client.exclude(id, &nodes))
            }
            NodeVerdict::Hold => {
                let reason = format!("shards are lost on most nodes, at last {}", task.shown());
                self.job.directory.hold(&reason).map_err(SlurmCallError::Refused)
            }
        }
    }

    /// Shows a reason once, with the first shard.
    fn show_once(&mut self, what: &str, shard: u32) {
        if self.reasons.len() < REASONS_MAX && self.reasons.insert(what.to_owned()) {
            show::stderr().notice(&format!("shard {shard} {what}"));
        }
    }

    /// No waiting task of a held job starts.
    fn cancel_waiting_if_held(&mut self) -> Result<(), SlurmCallError> {
        if self.has_cancelled_waiting || !self.job.directory.held().exists() {
            return Ok(());
        }
        let finish = match self.finish {
            SubmittedFinish::Queued(id) => Some(id),
            _ => None,
        };
        let ids: Vec<_> = self.tracker.arrays().into_iter().chain(finish).collect();
        self.client.cancel_waiting(&ids)?;
        self.has_cancelled_waiting = true;
        Ok(())
    }

    /// Whether a shard has reported from a node. Until then, one task finds out whether nodes have haul and the job.
    fn has_begun(&mut self) -> bool {
        self.has_begun = self.has_begun || self.job.directory.has_attempts();
        self.has_begun
    }

    /// Adopts a submission without an answer, if the queue has an unrecorded array.
    fn adopt(&mut self, tasks: &[SlurmTask]) -> Result<(), JobError> {
        let Some(wave) = self.doubtful.take() else { return Ok(()) };
        let known = SlurmSubmission::read_all(&self.job.directory)?;
        let is_known = |id: u64| known.iter().any(|submission| submission.id() == id);
        match tasks.iter().find(|task| task.index.is_some() && !task.is_over() && !is_known(task.job)) {
            Some(task) => self.record(task.job, wave),
            None => Ok(()),
        }
    }

    fn update_finish(&mut self, tasks: &[SlurmTask]) {
        self.read_finish_status();
        let (SubmittedFinish::Queued(id) | SubmittedFinish::Gone(id, _)) = self.finish else { return };
        let record = tasks.iter().find(|task| task.job == id);
        let is_queued = record.is_some_and(|task| !task.is_over());
        match self.finish {
            _ if is_queued => self.finish = SubmittedFinish::Queued(id),
            _ if record.is_some_and(SlurmTask::is_cancelled) => self.finish = SubmittedFinish::Withdrawn,
            SubmittedFinish::Gone(_, since) if since.elapsed() < LOST_AFTER => {}
            SubmittedFinish::Gone(..) => {
                if !self.retry_finish() {
                    self.finish = SubmittedFinish::Ended(Exit::Interrupted.number());
                }
            }
            _ => self.finish = SubmittedFinish::Gone(id, Instant::now()),
        }
    }

    /// Reads the exit status that the last step left.
    pub fn read_finish_status(&mut self) {
        let (SubmittedFinish::Queued(id) | SubmittedFinish::Gone(id, _)) = self.finish else { return };
        let status = self.job.directory.slurm().join(format!("finish-{id}.status")).read_text();
        if let Some(status) = status.ok().flatten().and_then(|status| status.trim().parse().ok()) {
            self.finish = SubmittedFinish::Ended(status);
        }
    }

    /// Permits another submission of the last step, up to a limit: results may have come late.
    pub fn retry_finish(&mut self) -> bool {
        self.finish_losses += 1;
        let is_retried = self.finish_losses <= FINISH_RETRIES_MAX;
        if is_retried {
            self.finish = SubmittedFinish::Waiting;
        }
        is_retried
    }

    /// Submits the next array, if there is room. Returns whether it did.
    pub fn submit_wave(&mut self) -> Result<bool, SlurmCallError> {
        if self.doubtful.is_some() || self.job.directory.held().exists() {
            return Ok(false);
        }
        let mut rules = ArrayRules { is_trial: !self.has_begun(), ..ArrayRules::default() };
        if let Some(trial) = self.trial.filter(|_| rules.is_trial && self.tracker.is_chained()) {
            // Nobody follows until it has begun.
            rules = ArrayRules { after_trial: Some(trial), ..ArrayRules::default() };
        }
        if rules.is_trial && self.tracker.has_queued() {
            return Ok(false);
        }
        let Some(mut wave) = self.tracker.next_wave() else { return Ok(false) };
        if rules.is_trial {
            wave.shards.truncate(1);
        }
        // The last step would run too early.
        if let SubmittedFinish::Queued(id) = self.finish {
            self.client.cancel(&[id])?;
        }
        self.finish = SubmittedFinish::Waiting;
        let lost_on = wave.shards.iter().filter_map(|shard| self.lost_on.get(shard)).flatten().cloned().collect();
        rules.avoided = self.nodes.avoided(&lost_on);
        let first = wave.shards.first().copied().unwrap_or_default();
        let script = self.script(&format!("array-{first}.sh"), self.scripts().array(&wave, &rules))?;
        match self.client.submit(&script) {
            Ok(id) => {
                self.trial = self.trial.or(rules.is_trial.then_some(id));
                self.record(id, wave).map_err(SlurmCallError::Refused)?;
            }
            Err(error) => {
                self.doubtful = Some(wave);
                return Err(error);
            }
        }
        Ok(true)
    }

    fn record(&mut self, id: u64, wave: SlurmWave) -> Result<(), JobError> {
        self.tracker.record(id, &wave);
        SlurmSubmission::Array { id, offset: wave.offset, shards: wave.shards }.append(&self.job.directory)
    }

    /// Submits the last step, which waits for all arrays.
    pub fn submit_finish(&mut self) -> Result<(), SlurmCallError> {
        let after = self.tracker.arrays();
        let script = self.script("finish.sh", self.scripts().finish(&after))?;
        let id = self.client.submit(&script)?;
        SlurmSubmission::Finish { id }.append(&self.job.directory).map_err(SlurmCallError::Refused)?;
        self.finish = SubmittedFinish::Queued(id);
        Ok(())
    }

    /// Passes the throttle of ended arrays on to a running one.
    pub fn raise_throttle(&mut self) -> Result<(), SlurmCallError> {
        let Some((id, throttle)) = self.tracker.raised() else { return Ok(()) };
        self.set_throttle(id, throttle)?;
        self.tracker.set_throttle(id, throttle);
        Ok(())
    }

    /// Sets the throttle of an array. A refusal ends nothing: the array keeps its throttle.
    fn set_throttle(&mut self, id: u64, throttle: u32) -> Result<(), SlurmCallError> {
        match self.client.set_throttle(id, throttle) {
            Err(SlurmCallError::Refused(why)) => {
                show::stderr().notice(&format!("array {id} keeps its number of tasks at a time: {why}"));
                Ok(())
            }
            done => done,
        }
    }

    /// Releases tasks that Slurm holds because they could not start, and cancels them after repeated holds. A refusal
    /// leaves them held; the status line shows the reason.
    pub fn release_held(&mut self, tasks: &[SlurmTask]) -> Result<(), SlurmCallError> {
        for (task, remedy) in self.held.due(tasks) {
            let called = match remedy {
                HeldRemedy::Release => self.client.release(task),
                HeldRemedy::Cancel => {
                    self.tracker.record_own_cancel(task);
                    self.client.cancel_task(task)
                }
            };
            match called {
                Ok(()) | Err(SlurmCallError::Refused(_)) => self.held.record(task),
                Err(later) => return Err(later),
            }
        }
        Ok(())
    }

    fn scripts(&self) -> SlurmScripts<'_> {
        SlurmScripts {
            job: self.job.directory.path(),
            id: &self.job.description.id,
            executable: &self.executable,
            confirming: &self.confirming,
            settings: self.settings,
        }
    }

    fn script(&self, name: &str, text: Vec<u8>) -> Result<SubmittedScript, SlurmCallError> {
        kept_script(self.job, name, text).map_err(SlurmCallError::Refused)
    }
}

/// Submits a job of Slurm that runs `job`.
pub fn submit_run(job: &OpenedJob, settings: &SlurmSettings, client: &SlurmClient<'_>) -> Result<u64, SlurmCallError> {
    let confirming = job.confirming_words().map_err(SlurmCallError::Refused)?.join(" ");
    let (job_path, id) = (job.directory.path(), job.description.id.as_str());
    let scripts = SlurmScripts { job: job_path, id, executable: &node_executable(), confirming: &confirming, settings };
    client.submit(&kept_script(job, "run.sh", scripts.follow()).map_err(SlurmCallError::Refused)?)
}

/// haul on the nodes. Those without this file need it on their PATH.
fn node_executable() -> PathBuf {
    own_executable().unwrap_or_else(|_| "haul".into())
}

/// The job keeps a script for people alone.
fn kept_script(job: &OpenedJob, name: &str, text: Vec<u8>) -> Result<SubmittedScript, JobError> {
    let file = job.directory.slurm().join(name);
    file.replace(&text)?;
    Ok(SubmittedScript { path: file.path().to_owned(), text })
}

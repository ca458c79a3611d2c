//! Which shards are in Slurm's hands, which wait, and what has come of the others.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use haul_engine::job::own_executable::own_executable;
use haul_job::directory::replace;
use haul_job::error::JobError;
use haul_job::plan_index::PlanIndex;
use haul_job::shard_result::{ShardEnd, ShardResult};
use haul_job::slurm::queue::SlurmTask;
use haul_job::slurm::script::SlurmScripts;
use haul_job::slurm::settings::SlurmSettings;
use haul_job::slurm::submissions::SlurmSubmission;
use haul_job::slurm::waves::{ActiveArray, SlurmWave, WaveLimits};

use super::client::{SlurmCallError, SlurmClient};
use crate::commands::job::opened::OpenedJob;
use crate::exit::Exit;

/// A task that is in the queue no more, without a result, has this long: file systems show results late.
const LOST_AFTER: Duration = Duration::from_secs(30);
/// So often a lost shard is submitted again.
const RETRIES_MAX: u32 = 3;
/// So often the last step is submitted again.
const FINISH_RETRIES_MAX: u32 = 2;

/// Where a shard is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SubmittedShard {
    /// It is to be submitted.
    Waiting,
    /// A task has it.
    Queued,
    /// Its task is gone without a result: it will be done, failed, waiting or given up.
    Gone(Instant),
    /// It is at the target.
    Done,
    /// Files failed.
    Failed,
    /// It was lost too often.
    GivenUp,
}

/// Where the last step is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SubmittedFinish {
    /// Not submitted.
    Waiting,
    /// This job has it.
    Queued(u64),
    /// The job is gone without a status.
    Gone(u64, Instant),
    /// It has ended with this status.
    Ended(u8),
}

struct SubmittedArray {
    id: u64,
    /// The shard of task 0.
    offset: u32,
    throttle: u32,
    queued: BTreeSet<u32>,
}

/// Shards of a job and their tasks.
pub struct SlurmState<'a> {
    job: &'a OpenedJob,
    settings: &'a SlurmSettings,
    client: &'a SlurmClient<'a>,
    limits: WaveLimits,
    executable: PathBuf,
    arrays: Vec<SubmittedArray>,
    shards: BTreeMap<u32, SubmittedShard>,
    losses: BTreeMap<u32, u32>,
    /// Where the last step is.
    pub finish: SubmittedFinish,
    finish_losses: u32,
    /// A submission whose answer was lost.
    doubtful: Option<SlurmWave>,
}

impl<'a> SlurmState<'a> {
    /// Nothing is submitted.
    pub fn new(
        job: &'a OpenedJob,
        settings: &'a SlurmSettings,
        client: &'a SlurmClient<'a>,
        limits: WaveLimits,
    ) -> Self {
        // Nodes without this file have haul on their PATH.
        let executable = own_executable().unwrap_or_else(|_| "haul".into());
        let (arrays, shards, losses) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
        let finish = SubmittedFinish::Waiting;
        Self {
            job,
            settings,
            client,
            limits,
            executable,
            arrays,
            shards,
            losses,
            finish,
            finish_losses: 0,
            doubtful: None,
        }
    }

    /// Takes over what an earlier run submitted. Jobs that it did not record are cancelled: nobody knows their shards.
    pub fn take_over(&mut self, tasks: &[SlurmTask]) -> Result<(), SlurmCallError> {
        let known = SlurmSubmission::read_all(&self.job.directory).map_err(SlurmCallError::Refused)?;
        let recorded: BTreeSet<_> = known.iter().map(SlurmSubmission::id).collect();
        let unknown: BTreeSet<_> = tasks.iter().map(|task| task.job).filter(|id| !recorded.contains(id)).collect();
        self.client.cancel(&unknown.into_iter().collect::<Vec<_>>())?;
        for submission in known.iter().filter(|known| tasks.iter().any(|task| task.job == known.id())) {
            match submission {
                SlurmSubmission::Finish { id } => self.finish = SubmittedFinish::Queued(*id),
                SlurmSubmission::Array { id, offset, .. } => {
                    let of_array = tasks.iter().filter(|task| task.job == *id);
                    let queued: BTreeSet<_> =
                        of_array.filter_map(|task| Some(offset.saturating_add(task.index?))).collect();
                    self.shards.extend(queued.iter().map(|shard| (*shard, SubmittedShard::Queued)));
                    self.arrays.push(SubmittedArray { id: *id, offset: *offset, throttle: u32::MAX, queued });
                }
            }
        }
        let count = u32::try_from(self.arrays.len()).unwrap_or(u32::MAX);
        if let Some(share) = self.limits.at_once.and_then(|at_once| at_once.checked_div(count)) {
            for array in &mut self.arrays {
                array.throttle = share.max(1);
                self.client.set_throttle(array.id, array.throttle)?;
            }
        }
        Ok(())
    }

    /// Adds the shards that are new in the plan.
    pub fn add_planned(&mut self, index: &PlanIndex) -> Result<(), JobError> {
        for shard in &index.shards {
            if !self.shards.contains_key(&shard.number) {
                let is_done = self.result(shard.number)? == Some(ShardEnd::Done);
                let state = if is_done { SubmittedShard::Done } else { SubmittedShard::Waiting };
                self.shards.insert(shard.number, state);
            }
        }
        Ok(())
    }

    fn result(&self, shard: u32) -> Result<Option<ShardEnd>, JobError> {
        Ok(ShardResult::read(&self.job.directory, shard)?.map(|result| result.end))
    }

    /// Learns from the queue, which was read just now.
    pub fn update(&mut self, tasks: &[SlurmTask]) -> Result<(), JobError> {
        self.adopt(tasks)?;
        let mut gone = Vec::new();
        for array in &mut self.arrays {
            let of_array = tasks.iter().filter(|task| task.job == array.id);
            let seen: BTreeSet<_> =
                of_array.filter_map(|task| Some(array.offset.saturating_add(task.index?))).collect();
            gone.extend(array.queued.difference(&seen).copied());
            array.queued.retain(|shard| seen.contains(shard));
        }
        self.arrays.retain(|array| !array.queued.is_empty());
        let now = Instant::now();
        self.shards.extend(gone.into_iter().map(|shard| (shard, SubmittedShard::Gone(now))));
        let waited = self.shards.iter().filter_map(|(shard, state)| match state {
            SubmittedShard::Gone(since) => Some((*shard, *since)),
            _ => None,
        });
        let waited: Vec<_> = waited.collect();
        for (shard, since) in waited {
            let state = match self.result(shard)? {
                Some(ShardEnd::Done) => SubmittedShard::Done,
                Some(ShardEnd::Failed) => SubmittedShard::Failed,
                Some(ShardEnd::Interrupted) | None if since.elapsed() < LOST_AFTER => continue,
                Some(ShardEnd::Interrupted) | None => {
                    let losses = self.losses.entry(shard).or_default();
                    *losses += 1;
                    if *losses <= RETRIES_MAX { SubmittedShard::Waiting } else { SubmittedShard::GivenUp }
                }
            };
            self.shards.insert(shard, state);
        }
        self.update_finish(tasks);
        Ok(())
    }

    /// A submission without an answer was accepted if the queue has an array that nobody recorded.
    fn adopt(&mut self, tasks: &[SlurmTask]) -> Result<(), JobError> {
        let Some(wave) = self.doubtful.take() else { return Ok(()) };
        let known = SlurmSubmission::read_all(&self.job.directory)?;
        let is_known = |id: u64| known.iter().any(|submission| submission.id() == id);
        match tasks.iter().find(|task| task.index.is_some() && !is_known(task.job)) {
            Some(task) => self.record(task.job, wave),
            None => Ok(()),
        }
    }

    fn update_finish(&mut self, tasks: &[SlurmTask]) {
        self.read_finish_status();
        let (SubmittedFinish::Queued(id) | SubmittedFinish::Gone(id, _)) = self.finish else { return };
        let is_queued = tasks.iter().any(|task| task.job == id);
        match self.finish {
            _ if is_queued => self.finish = SubmittedFinish::Queued(id),
            SubmittedFinish::Gone(_, since) if since.elapsed() < LOST_AFTER => {}
            SubmittedFinish::Gone(..) => {
                if !self.retry_finish() {
                    self.finish = SubmittedFinish::Ended(Exit::Interrupted.number());
                }
            }
            _ => self.finish = SubmittedFinish::Gone(id, Instant::now()),
        }
    }

    /// The job of the last step leaves its exit status.
    pub fn read_finish_status(&mut self) {
        let (SubmittedFinish::Queued(id) | SubmittedFinish::Gone(id, _)) = self.finish else { return };
        let status = fs::read_to_string(self.job.directory.slurm().join(format!("finish-{id}.status")));
        if let Some(status) = status.ok().and_then(|status| status.trim().parse().ok()) {
            self.finish = SubmittedFinish::Ended(status);
        }
    }

    /// Lets the last step be submitted once more, unless it was too often: results may have come late.
    pub fn retry_finish(&mut self) -> bool {
        self.finish_losses += 1;
        let is_retried = self.finish_losses <= FINISH_RETRIES_MAX;
        if is_retried {
            self.finish = SubmittedFinish::Waiting;
        }
        is_retried
    }

    /// Submits the next array, if there is room; whether it did.
    pub fn submit_wave(&mut self) -> Result<bool, SlurmCallError> {
        let waiting: Vec<_> = self.of_state(|state| state == SubmittedShard::Waiting).collect();
        if self.doubtful.is_some() {
            return Ok(false);
        }
        let Some(wave) = self.limits.next_wave(&waiting, &self.active()) else { return Ok(false) };
        // It would run too early.
        if let SubmittedFinish::Queued(id) = self.finish {
            self.client.cancel(&[id])?;
        }
        self.finish = SubmittedFinish::Waiting;
        let first = wave.shards.first().copied().unwrap_or_default();
        let script = self.script(&format!("array-{first}.sh"), &self.scripts().array(&wave))?;
        match self.client.submit(&script) {
            Ok(id) => self.record(id, wave).map_err(SlurmCallError::Refused)?,
            Err(error) => {
                self.doubtful = Some(wave);
                return Err(error);
            }
        }
        Ok(true)
    }

    fn record(&mut self, id: u64, wave: SlurmWave) -> Result<(), JobError> {
        let SlurmWave { offset, shards, throttle, .. } = wave;
        let queued = shards.iter().copied().collect();
        SlurmSubmission::Array { id, offset, shards }.append(&self.job.directory)?;
        let array = SubmittedArray { id, offset, throttle: throttle.unwrap_or(u32::MAX), queued };
        self.shards.extend(array.queued.iter().map(|shard| (*shard, SubmittedShard::Queued)));
        self.arrays.push(array);
        Ok(())
    }

    /// Submits the last step, which waits for all arrays.
    pub fn submit_finish(&mut self) -> Result<(), SlurmCallError> {
        let after: Vec<_> = self.arrays.iter().map(|array| array.id).collect();
        let script = self.script("finish.sh", &self.scripts().finish(&after))?;
        let id = self.client.submit(&script)?;
        SlurmSubmission::Finish { id }.append(&self.job.directory).map_err(SlurmCallError::Refused)?;
        self.finish = SubmittedFinish::Queued(id);
        Ok(())
    }

    /// Gives what ended arrays leave to one that can use it.
    pub fn raise_throttle(&mut self) -> Result<(), SlurmCallError> {
        let Some((id, throttle)) = self.limits.raised(&self.active()) else { return Ok(()) };
        self.client.set_throttle(id, throttle)?;
        self.arrays.iter_mut().filter(|array| array.id == id).for_each(|array| array.throttle = throttle);
        Ok(())
    }

    fn active(&self) -> Vec<ActiveArray> {
        let active = |array: &SubmittedArray| ActiveArray {
            id: array.id,
            throttle: array.throttle,
            remaining: u32::try_from(array.queued.len()).unwrap_or(u32::MAX),
        };
        self.arrays.iter().map(active).collect()
    }

    fn scripts(&self) -> SlurmScripts<'_> {
        SlurmScripts {
            job: self.job.directory.path(),
            id: &self.job.description.id,
            executable: &self.executable,
            settings: self.settings,
        }
    }

    fn script(&self, name: &str, text: &[u8]) -> Result<PathBuf, SlurmCallError> {
        let path = self.job.directory.slurm().join(name);
        replace(&path, text).map_err(SlurmCallError::Refused)?;
        Ok(path)
    }

    fn of_state(&self, is_it: fn(SubmittedShard) -> bool) -> impl Iterator<Item = u32> {
        self.shards.iter().filter(move |(_, state)| is_it(**state)).map(|(shard, _)| *shard)
    }

    /// Shards that are at the target.
    pub fn done(&self) -> usize {
        self.of_state(|state| state == SubmittedShard::Done).count()
    }

    /// Shards that are planned.
    pub fn planned(&self) -> usize {
        self.shards.len()
    }

    /// Whether a shard is to be submitted, or may turn out to be.
    pub fn has_waiting(&self) -> bool {
        self.of_state(|state| matches!(state, SubmittedShard::Waiting | SubmittedShard::Gone(_))).next().is_some()
    }

    /// Whether a task has a shard.
    pub fn has_queued(&self) -> bool {
        !self.arrays.is_empty()
    }

    /// Whether a shard will not be done.
    pub fn has_failed(&self) -> bool {
        self.of_state(|state| matches!(state, SubmittedShard::Failed | SubmittedShard::GivenUp)).next().is_some()
    }
}

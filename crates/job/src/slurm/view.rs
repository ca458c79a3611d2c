//! Slurm's view of a job for `haul job status` and `haul job cancel`.

use std::collections::BTreeMap;
use std::time::SystemTime;

use haul_base::sys::cancel::Cancel;
use haul_show as show;

use super::client::{SlurmCallError, SlurmClient};
use crate::directory::JobDirectory;
use crate::error::JobError;
use crate::job_file::JobFile;
use crate::opened::OpenedJob;
use crate::slurm::pace::POLL_EVERY;
use crate::slurm::queue::{SlurmTask, summary};
use crate::slurm::submissions::SlurmSubmission;

/// The tasks of shards on Slurm.
pub struct ShardTasks {
    tasks: Vec<SlurmTask>,
    by_shard: BTreeMap<u32, usize>,
    /// `None` if the job was not submitted to Slurm.
    line: Option<String>,
}

impl ShardTasks {
    /// Without a look at the queue.
    pub fn none() -> Self {
        Self { tasks: Vec::new(), by_shard: BTreeMap::new(), line: None }
    }

    /// Reads the queue.
    pub fn read(job: &OpenedJob) -> Result<Self, JobError> {
        let submissions = SlurmSubmission::read_all(&job.directory)?;
        if submissions.is_empty() {
            return Ok(Self::none());
        }
        let (tasks, line) = match seen(job) {
            Ok(tasks) => {
                let line = summary(&tasks);
                (tasks, line)
            }
            Err(SlurmCallError::Later(why)) => (Vec::new(), format!("no answer: {why}")),
            Err(SlurmCallError::Refused(error)) => {
                let error = error.to_string();
                (Vec::new(), error.lines().next().unwrap_or_default().to_owned())
            }
        };
        let mut by_shard = BTreeMap::new();
        for submission in &submissions {
            let SlurmSubmission::Array { id, offset, .. } = submission else { continue };
            let of_array = tasks.iter().enumerate().filter(|(_, task)| task.job == *id && !task.is_over());
            by_shard.extend(of_array.filter_map(|(at, task)| Some((offset.saturating_add(task.index?), at))));
        }
        Ok(Self { tasks, by_shard, line: Some(line) })
    }

    /// The task of a shard in the queue.
    pub fn of(&self, shard: u32) -> Option<&SlurmTask> {
        self.by_shard.get(&shard).and_then(|at| self.tasks.get(*at))
    }

    /// The summary line.
    pub fn line(&self) -> Option<&str> {
        self.line.as_deref()
    }
}

fn cache(directory: &JobDirectory) -> JobFile {
    directory.slurm().join("queue")
}

/// The queue, at most some seconds old, shared by all commands of this job.
fn seen(job: &OpenedJob) -> Result<Vec<SlurmTask>, SlurmCallError> {
    let cache = cache(&job.directory);
    let modified = cache.open().and_then(|file| file.metadata()?.modified());
    let age = modified.map(|seen| SystemTime::now().duration_since(seen));
    if matches!(age, Ok(Ok(age)) if age < POLL_EVERY)
        && let Ok(Some(text)) = cache.read_text()
    {
        return Ok(SlurmTask::parse_all(&text));
    }
    if !job.directory.is_own() {
        return Err(SlurmCallError::Later("squeue is asked about your own private jobs alone".to_owned()));
    }
    ask(job, &SlurmClient { cancel: &Cancel::new() })
}

/// Runs squeue, and stores the answer for other commands.
pub fn ask(job: &OpenedJob, client: &SlurmClient<'_>) -> Result<Vec<SlurmTask>, SlurmCallError> {
    let text = client.queue_text(&job.description.id)?;
    cache(&job.directory).replace(text.as_bytes()).map_err(SlurmCallError::Refused)?;
    Ok(SlurmTask::parse_all(&text))
}

/// Cancels all submitted tasks. Without this, their shards stop only after their start.
pub fn cancel_tasks(job: &OpenedJob) {
    let Ok(submissions) = SlurmSubmission::read_all(&job.directory) else { return };
    if submissions.is_empty() {
        return;
    }
    let client = SlurmClient { cancel: &Cancel::new() };
    let recorded = submissions.iter().map(SlurmSubmission::id).collect::<Vec<_>>();
    let ids = match ask(job, &client) {
        Ok(tasks) => {
            let mut ids: Vec<_> = tasks.iter().filter(|task| !task.is_over()).map(|task| task.job).collect();
            ids.dedup();
            ids
        }
        Err(_) => recorded.clone(),
    };
    if let Err(SlurmCallError::Later(why)) = client.cancel(&ids).map_err(later) {
        let ids: Vec<_> = recorded.iter().map(u64::to_string).collect();
        show::stderr().notice(&format!("{why}\nhint: scancel {} removes the tasks from the queue", ids.join(" ")));
    }
}

fn later(error: SlurmCallError) -> SlurmCallError {
    match error {
        SlurmCallError::Refused(error) => {
            SlurmCallError::Later(error.to_string().lines().next().unwrap_or_default().to_owned())
        }
        later => later,
    }
}

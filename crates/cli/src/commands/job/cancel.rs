//! `haul job cancel JOB`: running and new shards stop within seconds.

use std::ffi::OsString;

use haul_job::error::shown;
use haul_job::exclusive::release;
use haul_job::opened::OpenedJob;
use haul_job::slurm::view::cancel_tasks;
use haul_job::this_host::{host_name, unix_seconds};
use haul_show as show;
use haul_show::exit::Exit;
use serde_json::json;

use crate::user_dirs::state_dir;

/// Marks the job as cancelled.
pub fn run(operands: &[OsString]) -> anyhow::Result<Exit> {
    let job = OpenedJob::open(&operands[0], state_dir())?;
    let comparison = OpenedJob::open(job.directory.comparison().path().as_os_str(), state_dir()).ok();
    let mark = json!({ "host": host_name(), "time": unix_seconds() });
    for job in comparison.iter().chain([&job]) {
        job.directory.cancelled().replace(format!("{mark}\n").as_bytes())?;
        release(job);
        cancel_tasks(job);
    }
    let shown = shown(job.directory.path());
    show::stderr().plain(&format!("{shown}: cancelled; haul job run {shown} continues it"));
    Ok(Exit::Done)
}

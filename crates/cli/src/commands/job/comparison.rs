//! The comparison of a finished job.

use haul_job::comparison::create;
use haul_job::exclusive::continued;
use haul_job::opened::OpenedJob;
use haul_show::exit::Exit;

/// Begins the comparison of a finished job, or continues an interrupted one.
pub fn begin(job: &OpenedJob) -> anyhow::Result<OpenedJob> {
    let (directory, description) = create(&job.directory, &job.description)?;
    Ok(continued(OpenedJob { directory, description, ..job.clone() })?)
}

/// Whether a job with this exit status is to be compared.
pub fn is_to_be_compared(job: &OpenedJob, exit: Exit) -> bool {
    let is_finished = (exit.is_complete() || exit == Exit::Failed) && job.directory.report().exists();
    is_finished && !job.description.verifies
}

/// The exit status of a job and its comparison.
pub fn worse(copied: Exit, compared: Exit) -> Exit {
    if compared == Exit::Done { copied } else { compared }
}

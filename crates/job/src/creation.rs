//! The creation of a job.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use haul_base::copy::location::Host;
use haul_control::operand::parse_operand;

use crate::description::JobDescription;
use crate::directory::JobDirectory;
use crate::error::{JobError, shown};
use crate::exclusive::claim;
use crate::known_jobs::record;
use crate::opened::{OpenedJob, absolute};
use crate::planner::check_source;

/// Creates this job in `directory`, or opens the same job there.
pub fn create(description: JobDescription, directory: &OsStr, state: Option<PathBuf>) -> Result<OpenedJob, JobError> {
    let path = absolute(Path::new(directory));
    let earlier = OpenedJob::open(path.as_os_str(), state.clone()).ok();
    if let Some(earlier) = earlier.filter(|earlier| earlier.description.is_same_command(&description)) {
        return Ok(OpenedJob::typed(earlier.directory, earlier.description, earlier.state));
    }
    if !description.is_pulled() {
        check_source(&description.source)?;
    }
    refuse_overlap(&path, &description)?;
    let job = OpenedJob::typed(JobDirectory::vacant(&path)?, description, state);
    claim(&job)?;
    job.directory.make_folders()?;
    job.description.write(&job.directory)?;
    record(&job);
    Ok(job)
}

/// Refuses a job directory within the source: the job would copy itself without end.
fn refuse_overlap(job: &Path, description: &JobDescription) -> Result<(), JobError> {
    let real = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let parent = job.parent().map(real).unwrap_or_default();
    let job_path = parent.join(job.file_name().unwrap_or_default());
    let is_local = |target: &&OsString| parse_operand(target).is_ok_and(|at| at.host == Host::Local);
    let targets = description.targets.iter().filter(is_local).map(|target| ("target", real(Path::new(target))));
    let source = (!description.is_pulled()).then(|| ("source", real(&description.source)));
    let places = source.into_iter().chain(targets);
    match places.into_iter().find(|(_, place)| job_path.starts_with(place)) {
        None => Ok(()),
        Some((end, place)) => Err(JobError::usage(
            format!("{}: the job's directory is in the {end} {}", shown(job), shown(&place)),
            "choose another directory with --dir",
        )),
    }
}

//! Two jobs with one target: refused by name, if this user's state directory has a mark of the first one.
//!
//! A target may be on any host, so a mark there would need a copy of its own. The hosts of a cluster usually share a
//! user's state directory.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use haul_job::byte_words::{from_json, to_json};
use haul_job::description::JobDescription;
use haul_job::directory::{JobDirectory, replace};
use haul_job::error::{JobError, shown};
use haul_proto::path::escape;
use serde_json::{Value, json};

use super::opened::{OpenedJob, version};
use crate::user_dirs::state_dir;

/// The mark of each target.
fn marks(description: &JobDescription) -> Vec<(PathBuf, &OsStr)> {
    let Some(state) = state_dir() else { return Vec::new() };
    let mark = |target: &OsStr| {
        let mut hasher = blake3::Hasher::new();
        let path = target.as_bytes().strip_suffix(b"/").unwrap_or(target.as_bytes());
        hasher.update(path).update(b"\0").update(description.name.as_bytes());
        state.join("jobs").join(&hasher.finalize().to_hex()[..32])
    };
    description.targets.iter().map(|target| (mark(target), target.as_os_str())).collect()
}

/// Refuses a job whose target another job uses, and marks the target. A comparison writes nothing, and needs no mark.
pub fn claim(directory: &JobDirectory, description: &JobDescription) -> Result<(), JobError> {
    if description.verifies {
        return Ok(());
    }
    for (mark, target) in marks(description) {
        if let Some(other) = living(&mark)
            && other.description.id != description.id
        {
            let other = shown(other.directory.path());
            return Err(JobError::usage(
                format!("{}: the job {other} copies to this target", escape(target.as_bytes())),
                format!("finish it, or stop it with haul job cancel {other}"),
            ));
        }
        let value = json!({ "job": to_json(directory.path().as_os_str()), "id": description.id });
        // Without a home directory, two jobs are not detected.
        let made = mark.parent().is_some_and(|parent| fs::create_dir_all(parent).is_ok());
        if made {
            replace(&mark, value.to_string().as_bytes())?;
        }
    }
    Ok(())
}

/// Claims a job, and removes the mark of its cancellation.
pub fn continued(job: OpenedJob) -> anyhow::Result<OpenedJob> {
    claim(&job.directory, &job.description)?;
    let mark = job.directory.cancelled();
    match fs::remove_file(&mark) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(JobError::io(&mark, &error).into()),
        _ => Ok(job),
    }
}

/// The job of a mark, if it is neither finished nor cancelled.
fn living(mark: &std::path::Path) -> Option<OpenedJob> {
    let value: Value = serde_json::from_str(&fs::read_to_string(mark).ok()?).ok()?;
    let directory = JobDirectory::open(from_json(&value["job"])?.as_ref()).ok()?;
    let description = JobDescription::read(&directory, version()).ok()?;
    let is_it = Some(description.id.as_str()) == value["id"].as_str();
    let is_over = directory.report().exists() || directory.cancelled().exists();
    (is_it && !is_over).then_some(OpenedJob { directory, description })
}

/// Removes the marks of an ended job.
pub fn release(job: &OpenedJob) {
    for (mark, _) in marks(&job.description) {
        let value: Value =
            fs::read_to_string(&mark).ok().and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
        if value["id"].as_str() == Some(&job.description.id) {
            let _ = fs::remove_file(&mark);
        }
    }
}

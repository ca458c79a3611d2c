//! Two jobs with one target: refused by name, if this user's state directory has a mark of the first one.
//!
//! A target may be on any host, so a mark there would need a copy of its own. The hosts of a cluster usually share a
//! user's state directory.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use haul_base::held_directory::HeldDirectory;
use haul_proto::path::escape;
use serde_json::{Value, json};

use crate::byte_words::{from_json, to_json};
use crate::comparison::create;
use crate::description::JobDescription;
use crate::error::{JobError, shown};
use crate::opened::OpenedJob;

/// Largest mark, in bytes.
const MARK_MAX: u64 = 64 << 10;

/// The directory of marks, if this user has one that nobody else can change. Without it, two jobs are not detected.
fn marks_directory(state: Option<&Path>) -> Option<(HeldDirectory, PathBuf)> {
    let path = state?.join("jobs");
    Some((HeldDirectory::looked_up(&path).ok()?, path))
}

/// The mark of each target.
fn marks<'d>(directory: &Path, description: &'d JobDescription) -> Vec<(PathBuf, &'d OsStr)> {
    let mark = |target: &OsStr| {
        let mut hasher = blake3::Hasher::new();
        let path = target.as_bytes().strip_suffix(b"/").unwrap_or(target.as_bytes());
        hasher.update(path).update(b"\0").update(description.name.as_bytes());
        directory.join(&hasher.finalize().to_hex()[..32])
    };
    description.targets.iter().map(|target| (mark(target), target.as_os_str())).collect()
}

/// Refuses a job whose target another job uses, and marks the target. A comparison writes nothing, and needs no mark.
pub fn claim(job: &OpenedJob) -> Result<(), JobError> {
    let OpenedJob { directory, description, state, .. } = job;
    if description.verifies {
        return Ok(());
    }
    let Some((held, path)) = marks_directory(state.as_deref()) else { return Ok(()) };
    for (mark, target) in marks(&path, description) {
        if let Some(other) = living(&contents(&held, &mark))
            && other.description.id != description.id
        {
            let other = shown(other.directory.path());
            return Err(JobError::usage(
                format!("{}: the job {other} copies to this target", escape(target.as_bytes())),
                format!("finish it, or stop it with haul job cancel {other}"),
            ));
        }
        let value = json!({ "job": to_json(directory.path().as_os_str()), "id": description.id });
        held.replace(&mark, value.to_string().as_bytes()).map_err(|error| JobError::io(&mark, &error))?;
    }
    Ok(())
}

/// Claims a job that was cancelled, or held.
pub fn continued(job: OpenedJob) -> Result<OpenedJob, JobError> {
    claim(&job)?;
    job.directory.cancelled().remove()?;
    job.directory.held().remove()?;
    Ok(job)
}

/// Begins the comparison of a finished job, or continues an interrupted one.
pub fn begin_comparison(job: &OpenedJob) -> Result<OpenedJob, JobError> {
    let (directory, description) = create(&job.directory, &job.description)?;
    continued(OpenedJob { directory, description, ..job.clone() })
}

/// The job of a mark, if it is neither finished nor cancelled.
fn living(value: &Value) -> Option<OpenedJob> {
    let job = OpenedJob::open_to_read(&from_json(&value["job"])?).ok()?;
    let is_it = Some(job.description.id.as_str()) == value["id"].as_str();
    let is_over = job.directory.report().exists() || job.directory.cancelled().exists();
    (is_it && !is_over).then_some(job)
}

/// The contents of a mark; null without one.
fn contents(held: &HeldDirectory, mark: &Path) -> Value {
    held.read(mark, MARK_MAX).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default()
}

/// Removes the marks of an ended job.
pub fn release(job: &OpenedJob) {
    let Some((held, path)) = marks_directory(job.state.as_deref()) else { return };
    for (mark, _) in marks(&path, &job.description) {
        if contents(&held, &mark)["id"].as_str() == Some(&job.description.id) {
            let _ = held.remove(&mark);
        }
    }
}

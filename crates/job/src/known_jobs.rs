//! The jobs of this user, by this user's state directory: `STATE/known-jobs/ID` names the directory of each.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use haul_base::held_directory::HeldDirectory;
use serde_json::{Value, json};

use crate::byte_words::{from_json, to_json};
use crate::opened::OpenedJob;

/// Largest record, in bytes.
const RECORD_MAX: u64 = 64 << 10;
/// Time after which the record of a job that is gone is removed.
const KEPT_FOR: Duration = Duration::from_secs(30 * 24 * 3600);

fn records(state: Option<&Path>) -> Option<(HeldDirectory, PathBuf)> {
    let path = state?.join("known-jobs");
    Some((HeldDirectory::looked_up(&path).ok()?, path))
}

/// Records a new job. Without a state directory, it is not listed.
pub fn record(job: &OpenedJob) {
    let Some((held, path)) = records(job.state.as_deref()) else { return };
    let value = json!({ "job": to_json(job.directory.path().as_os_str()) });
    let _ = held.replace(&path.join(&job.description.id), value.to_string().as_bytes());
}

/// All recorded jobs whose directories are there, in the order of their plans. Removes old records of others.
pub fn all(state: Option<&Path>) -> Vec<OpenedJob> {
    let Some((held, path)) = records(state) else { return Vec::new() };
    let mut jobs = Vec::new();
    for name in held.names(&path).unwrap_or_default() {
        let record = path.join(&name);
        let value: Value =
            held.read(&record, RECORD_MAX).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
        let job = from_json(&value["job"]).and_then(|path| OpenedJob::open_to_read(&path).ok());
        match job.filter(|job| name == job.description.id.as_str()) {
            Some(job) => jobs.push((modified(&held, &record), job)),
            None if is_old(&held, &record) => drop(held.remove(&record)),
            None => {}
        }
    }
    jobs.sort_by_key(|(recorded, _)| *recorded);
    jobs.into_iter().map(|(_, job)| job).collect()
}

fn modified(held: &HeldDirectory, record: &Path) -> SystemTime {
    held.open(record).and_then(|file| file.metadata()?.modified()).unwrap_or(SystemTime::UNIX_EPOCH)
}

fn is_old(held: &HeldDirectory, record: &Path) -> bool {
    SystemTime::now().duration_since(modified(held, record)).unwrap_or_default() > KEPT_FOR
}

//! The comparison after a job, which is a job itself: `JOB/verify` has a shard for each list of files that was copied.
//! So it is run, resumed, shown and cancelled as any job.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use crate::description::JobDescription;
use crate::directory::JobDirectory;
use crate::error::{JobError, shown};
use crate::plan_index::{PlanIndex, PlanIndexWriter, PlanTotals, PlannedShard};

/// Makes the directory of the comparison, or opens that of an interrupted one. A finished one is made anew.
pub fn create(job: &JobDirectory, description: &JobDescription) -> Result<(JobDirectory, JobDescription), JobError> {
    let path = shown(job.path());
    if description.verifies {
        return Err(JobError::usage(
            format!("{path}: this job is itself a comparison"),
            format!("haul job run {path} continues it"),
        ));
    }
    if !job.report().exists() {
        return Err(JobError::usage(
            format!("{path}: the job is not finished"),
            format!("haul job run {path} continues it, and haul job status {path} shows its shards"),
        ));
    }
    let verification = job.verification();
    if verification.description().exists() && !verification.report().exists() {
        let begun = JobDescription::read(&verification, &description.version)?;
        return Ok((verification, begun));
    }
    match fs::remove_dir_all(verification.path()) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(JobError::io(verification.path(), &error));
        }
        _ => {}
    }
    let (created, host) = JobDescription::created_here();
    let id = JobDescription::new_id()?;
    let own = JobDescription { id, created, host, verifies: true, range_len: None, ..description.clone() };
    verification.make_folders()?;
    own.write(&verification)?;
    Ok((verification, own))
}

/// Plans `verification` from the plan of the job above it: the same lists, and each divided file as a whole.
pub fn plan(verification: &JobDirectory) -> Result<PlanTotals, JobError> {
    let path = verification.path();
    let job = JobDirectory::open(path.parent().unwrap_or(Path::new("/")))?;
    let PlanIndex { shards, complete } = PlanIndex::read(&job)?;
    let incomplete = || JobError::damaged(&job.plan(), "the plan is not complete");
    let mut totals = PlanTotals { shards: 0, failed: 0, lengthened: 0, ..complete.ok_or_else(incomplete)? };
    let mut index = PlanIndexWriter::create(verification)?;
    for shard in shards.iter().filter(|shard| shard.range.is_none_or(|range| range.number == 0)) {
        let (list, number) = (job.list(shard.number), totals.shards);
        let own = verification.list(number);
        match fs::hard_link(&list, &own) {
            // To copy onto it would cut the list, if it is the same file.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => return Err(JobError::io(&own, &error)),
            // Some file systems have no hard links.
            Err(_) => drop(fs::copy(&list, &own).map_err(|error| JobError::io(&list, &error))?),
            Ok(()) => {}
        }
        let bytes = shard.range.map_or(shard.bytes, |range| range.version.size);
        index.add(PlannedShard { number, files: shard.files, bytes, range: None })?;
        totals.shards += 1;
    }
    index.complete(totals)?;
    Ok(totals)
}

/// Records in the report of the job above `verification` what came of the comparison.
pub fn record(verification: &JobDirectory, is_same: bool) -> Result<(), JobError> {
    let path = verification.path();
    let job = JobDirectory::open(path.parent().unwrap_or(Path::new("/")))?;
    crate::report::record_verified(&job, is_same)
}

//! The comparison after a job, which is a job itself: `JOB/verify` has a shard for each copied list. So it is run,
//! resumed, displayed and cancelled like any job.

use std::io::{self, ErrorKind};
use std::path::Path;

use crate::description::{JobDescription, JobOrigin};
use crate::directory::JobDirectory;
use crate::error::{JobError, shown};
use crate::plan_index::{PlanIndex, PlanIndexWriter, PlanTotals, PlannedShard};

/// Creates the directory of the comparison, or opens that of an interrupted one. Replaces a finished one.
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
    let comparison = job.comparison();
    if comparison.description().exists() && !comparison.report().exists() {
        let begun = JobDescription::read(&comparison, &description.origin.version)?;
        return Ok((comparison, begun));
    }
    comparison.remove_tree()?;
    let origin = JobOrigin::here(&description.origin.version);
    let id = JobDescription::new_id()?;
    let own = JobDescription { id, origin, verifies: true, range_len: None, ..description.clone() };
    comparison.make_folders()?;
    own.write(&comparison)?;
    Ok((comparison, own))
}

/// Plans `comparison` from the plan of the job above it: the same lists, and each divided file as a whole.
pub fn plan(comparison: &JobDirectory) -> Result<PlanTotals, JobError> {
    let job = compared_job(comparison)?;
    let PlanIndex { shards, complete } = PlanIndex::read(&job)?;
    let incomplete = || JobError::damaged(job.plan().path(), "the plan is not complete");
    let mut totals = PlanTotals { shards: 0, failed: 0, lengthened: 0, ..complete.ok_or_else(incomplete)? };
    let mut index = PlanIndexWriter::create(comparison)?;
    for shard in shards.iter().filter(|shard| shard.range.is_none_or(|range| range.number == 0)) {
        let (list, number) = (job.list(shard.number), totals.shards);
        let own = comparison.list(number);
        match list.link(&own) {
            // A copy would truncate the list, if it is the same file.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => return Err(JobError::io(own.path(), &error)),
            // Some file systems have no hard links.
            Err(_) => {
                let mut copy = own.create_unnamed()?;
                let copied = list.open().and_then(|mut list| io::copy(&mut list, &mut copy));
                copied.map_err(|error| JobError::io(list.path(), &error))?;
                own.publish(copy)?;
            }
            Ok(()) => {}
        }
        let bytes = shard.range.map_or(shard.bytes, |range| range.version.size);
        index.add(PlannedShard { number, files: shard.files, bytes, range: None })?;
        totals.shards += 1;
    }
    index.complete(totals)?;
    Ok(totals)
}

/// Records the result of `comparison` in the report of the job above it.
pub fn record(comparison: &JobDirectory, is_same: bool) -> Result<(), JobError> {
    let job = compared_job(comparison)?;
    crate::report::record_verified(&job, is_same)
}

/// The job that `comparison` is in.
fn compared_job(comparison: &JobDirectory) -> Result<JobDirectory, JobError> {
    JobDirectory::open(comparison.path().parent().unwrap_or(Path::new("/")))
}

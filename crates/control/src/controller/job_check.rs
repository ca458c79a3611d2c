//! What no copy can do, refused before any worker starts.

use haul_base::job::error::Error;
use haul_base::job::spec::Job;

/// Refuses a job that contradicts itself.
pub fn check_job(job: &Job) -> Result<(), Error> {
    if job.sources.is_empty() == job.list.is_none() {
        return Err(Error::Usage("sources are either arguments or a list (-I), not both".into()));
    }
    let sync = &job.options.target.sync;
    if sync.source_removes && (sync.deletes() || sync.replaces_trees) {
        return Err(Error::Usage("--remove-source-files cannot be used with --delete".into()));
    }
    if job.sources.iter().any(|source| source.host != *job.source_host()) {
        return Err(Error::Usage("the sources are on different hosts\nrun one copy for each host".into()));
    }
    Ok(())
}

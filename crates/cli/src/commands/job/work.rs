//! `haul job work JOB`: takes shards until none is left, here or on a list of hosts.

use std::ffi::OsString;

use haul_job::error::shown;
use haul_job::local_run::LocalRun;
use haul_job::overview::JobOverview;
use haul_job::ssh_workers::{hosts_of, on_hosts};
use haul_show as show;
use haul_show::exit::Exit;

use super::step::{display_of, opened, watched};
use crate::args::flags;
use crate::args::values::Values;

/// Takes shards of the job of `operands`.
pub fn run(values: &Values, operands: &[OsString]) -> anyhow::Result<Exit> {
    let job = opened("work JOB", &operands[0], values)?;
    let workers = values.get(&flags::step::LOCAL)?.unwrap_or(1);
    let exit = match values.last(&flags::step::HOSTS) {
        None => watched(&job, display_of(values), None, |step| LocalRun::new(*step, false).take_shards(workers))?,
        Some(hosts) => {
            let hosts = hosts_of(hosts)?;
            watched(&job, display_of(values), None, |step| on_hosts(&job, &hosts, workers, step.cancel))?
        }
    };
    let overview = JobOverview::read(&job.directory)?;
    if exit == Exit::Done && !values.is_set(&flags::QUIET) && overview.is_copied() && !overview.is_finished() {
        show::stderr().plain(&format!("all shards have ended; next: haul job finish {}", shown(job.directory.path())));
    }
    Ok(exit)
}

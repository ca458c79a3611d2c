//! `haul job list`: the jobs of this user that this host can see.

use haul_job::known_jobs::all;
use haul_job::overview::JobOverview;
use haul_job::slurm::view::ShardTasks;
use haul_job::status_text::{as_json, as_row, exit_of};
use haul_show as show;
use haul_show::exit::Exit;
use haul_show::output::print;

use crate::args::flags;
use crate::args::values::Values;
use crate::user_dirs::state_dir;

/// Shows each job with its state.
pub fn run(values: &Values) -> anyhow::Result<Exit> {
    let jobs = all(state_dir().as_deref());
    if jobs.is_empty() {
        show::stderr().plain("no jobs");
    }
    for job in jobs {
        let overview = JobOverview::read(&job.directory)?;
        match values.is_set(&flags::JSON) {
            true => {
                let lines = as_json(&job, &overview, &ShardTasks::none(), exit_of(&overview));
                print(lines.lines().last().map_or_else(String::new, |line| format!("{line}\n")).as_str());
            }
            false => print(&as_row(&job, &overview)),
        }
    }
    Ok(Exit::Done)
}

//! `haul job status JOB` and `haul job report JOB`: the state and the results of a job.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use haul_job::description::JobOrigin;
use haul_job::error::JobError;
use haul_job::opened::OpenedJob;
use haul_job::overview::JobOverview;
use haul_job::report::MergedReport;
use haul_job::report_page::{ReportedJob, document};
use haul_job::report_text::as_text;
use haul_job::slurm::view::ShardTasks;
use haul_job::status_text::{as_json, as_table, exit_of, what};
use haul_proto::path::escape;
use haul_show::exit::Exit;
use haul_show::json::encode;
use haul_show::output::print;
use haul_show::report::publish;
use haul_show::text::harmless;
use serde_json::Value;

use crate::args::flags;
use crate::args::values::Values;

/// Shows the states of shards.
pub fn run(values: &Values, operands: &[OsString]) -> anyhow::Result<Exit> {
    let job = OpenedJob::open_to_read(&operands[0])?;
    let overview = JobOverview::read(&job.directory)?;
    let exit = exit_of(&overview);
    let tasks = ShardTasks::read(&job)?;
    let shown = match values.is_set(&flags::JSON) {
        true => as_json(&job, &overview, &tasks, exit),
        false => as_table(&job, &overview, &tasks),
    };
    if !values.is_set(&flags::QUIET) {
        print(&shown);
    }
    Ok(exit)
}

/// Shows the results so far, or those of a finished job; with `--out`, as a page.
pub fn report(values: &Values, operands: &[OsString]) -> anyhow::Result<Exit> {
    let job = OpenedJob::open_to_read(&operands[0])?;
    let overview = JobOverview::read(&job.directory)?;
    let merged = MergedReport::of(&overview);
    let out = values.last(&flags::step::OUT).map(Path::new);
    if let Some(out) = out {
        let JobOrigin { created, host, .. } = &job.description.origin;
        let when = format!("planned {} on {}", harmless(created), harmless(host));
        let reported = ReportedJob { what: what(&job), when, summary: &as_text(&job, &merged), overview: &overview };
        publish(out, &document(&reported))?;
    }
    match (values.is_set(&flags::JSON), out) {
        (true, _) => {
            let file = job.directory.report();
            let damaged = |error: serde_json::Error| JobError::damaged(file.path(), &error.to_string());
            let finished = file.read_text()?.map(|text| serde_json::from_str::<Value>(&text).map_err(damaged));
            print(&encode(&finished.transpose()?.unwrap_or_else(|| merged.json())));
        }
        (false, Some(out)) => print(&format!("{}\n", escape(out.as_os_str().as_bytes()))),
        (false, None) => print(&as_text(&job, &merged)),
    }
    Ok(exit_of(&overview))
}

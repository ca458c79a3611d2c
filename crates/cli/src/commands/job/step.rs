//! The context of a step: the opened job, this host's part, and what stops the step.

use std::ffi::OsStr;
use std::time::Duration;

use haul_base::copy::location::Location;
use haul_base::copy::runtime_control::RuntimeControl;
use haul_base::sys::cancel::Cancel;
use haul_base::usage_error::UsageError;
use haul_job::error::JobError;
use haul_job::node::{JobNode, Logins, PartDisplay, StepContext};
use haul_job::opened::OpenedJob;

use crate::args::values::Values;
use crate::args::{Dialect, flags};
use crate::commands::own_program::own_program;
use crate::config;
use crate::resolve::{HostNames, login};
use crate::signals::Watch;
use crate::user_dirs::state_dir;

/// This host.
const NODE: JobNode = JobNode { program: own_program, logins: configured_logins };

/// The logins by the configuration of this host alone.
fn configured_logins(source: &Location, target: &Location) -> Result<Logins, UsageError> {
    let hosts = HostNames::of(Some(source), target);
    let values = config::complete(Values::new(flags::COPY, Dialect::Haul, Vec::new()), &hosts)?;
    Ok((login(&values)?, values.at_target().map(login).transpose()?))
}

/// The job in this directory, for a step that takes `--confirm`.
pub fn opened(step: &'static str, path: &OsStr, values: &Values) -> anyhow::Result<OpenedJob> {
    Ok(OpenedJob::open_for(step, path, values.get(&flags::job::CONFIRM)?, state_dir())?)
}

/// The display by the options of a step.
pub fn display_of(values: &Values) -> PartDisplay {
    match (values.is_set(&flags::JSON), values.is_set(&flags::QUIET)) {
        (true, _) => PartDisplay::Json,
        (_, true) => PartDisplay::Quiet,
        _ => PartDisplay::Usual,
    }
}

/// The display of `haul job run`: that of its own options, or of the job's.
pub fn display_of_run(values: &Values, job: &OpenedJob) -> PartDisplay {
    match display_of(values) {
        PartDisplay::Usual if job.description.options.display.is_json => PartDisplay::Json,
        display => display,
    }
}

/// Runs a step that signals and the time limit stop.
pub fn watched<T>(
    job: &OpenedJob,
    display: PartDisplay,
    time_limit: Option<Duration>,
    step: impl FnOnce(&StepContext<'_>) -> Result<T, JobError>,
) -> anyhow::Result<T> {
    let (cancel, steering) = (Cancel::new(), RuntimeControl::new());
    let watch = Watch::start(cancel.clone(), steering.rate().clone(), time_limit)?;
    let context = StepContext { job, node: NODE, display, cancel: &cancel, steering: &steering };
    Ok(watch.during(|| step(&context))?)
}

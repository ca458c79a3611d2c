//! This host's part in a job: its own haul, and its logins.

use haul_base::copy::location::Location;
use haul_base::copy::runtime_control::RuntimeControl;
use haul_base::copy::spec::{Login, WorkerProgram};
use haul_base::sys::cancel::Cancel;
use haul_base::usage_error::UsageError;

use crate::opened::OpenedJob;

/// The logins at a source, and at a target where that differs.
pub type Logins = (Login, Option<Login>);

/// A host that runs steps of a job.
#[derive(Debug, Clone, Copy)]
pub struct JobNode {
    /// The program that its workers run.
    pub program: fn() -> WorkerProgram,
    /// The logins of its configuration for a source and a target.
    pub logins: fn(&Location, &Location) -> Result<Logins, UsageError>,
}

/// The display of a part's copy: `--quiet`, `--json` or neither.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartDisplay {
    /// Progress and messages.
    Usual,
    /// Errors alone.
    Quiet,
    /// Events for programs.
    Json,
}

/// Context of a step on this host.
#[derive(Clone, Copy)]
pub struct StepContext<'a> {
    /// The job.
    pub job: &'a OpenedJob,
    /// This host.
    pub node: JobNode,
    /// The display.
    pub display: PartDisplay,
    /// Stops the step.
    pub cancel: &'a Cancel,
    /// Changes its rate.
    pub steering: &'a RuntimeControl,
}

impl StepContext<'_> {
    /// The same step with errors alone.
    pub fn quiet(&self) -> Self {
        Self { display: PartDisplay::Quiet, ..*self }
    }
}

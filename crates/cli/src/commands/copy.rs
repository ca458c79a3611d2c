//! `haul SOURCE... TARGET`: runs a job and shows it.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use anyhow::Context;
use haul_engine::cancel::Cancel;
use haul_engine::error::{Error, Outcome};
use haul_engine::event::{Event, Observer};
use haul_engine::rate::RateHandle;
use haul_engine::spec::Job;
use haul_proto::path::escape;

use crate::args::values::Values;
use crate::checksums::Checksums;
use crate::exit::Exit;
use crate::resolve::{Plan, plan};
use crate::show::{self, Show};
use crate::signals::Watch;
use crate::terminal;

/// Copies `operands`, the last of which is the target.
pub fn run(values: &Values, operands: &[OsString]) -> anyhow::Result<Exit> {
    carry_out(plan(values, operands, terminal::stderr_is_terminal())?)
}

/// The same for a job that is planned.
pub fn carry_out(plan: Plan) -> anyhow::Result<Exit> {
    let cancel = Cancel::new();
    let rate = RateHandle::new();
    let watch = Watch::start(cancel.clone(), rate.clone()).context("signals cannot be caught")?;
    perform(plan, &cancel, &rate, &watch)
}

/// Runs the job of `plan` and shows all that the user asked to see of it.
pub fn perform(plan: Plan, cancel: &Cancel, rate: &RateHandle, watch: &Watch) -> anyhow::Result<Exit> {
    let checksums = plan.checksums.as_deref().map(create_checksums).transpose()?;
    let show = show::new(plan.display, &title(&plan.job));
    let mut audience = Audience { show, checksums };
    let outcome = watch.during(|| haul_engine::copy::run(plan.job, super::program(), cancel, rate, &mut audience));
    Ok(audience.close(if cancel.is_cancelled() { interrupted(outcome) } else { outcome }))
}

fn create_checksums(to: &Path) -> anyhow::Result<Checksums> {
    let shown = escape(to.as_os_str().as_bytes());
    Checksums::create(to).with_context(|| shown).map_err(|error| anyhow::anyhow!("--checksums {error:#}"))
}

/// A job that was told to stop may fail in many ways; the reason is the same for all of them.
fn interrupted(outcome: Outcome) -> Outcome {
    outcome.map_err(|_| Error::Interrupted)
}

/// What stands before the bar: the name of what is copied.
fn title(job: &Job) -> String {
    let Some(first) = job.sources.first() else { return String::new() };
    let name = first.path.file_name().unwrap_or(first.path.as_os_str());
    let name = escape(name.as_bytes());
    match job.sources.len() {
        1 => name,
        several => format!("{name} + {}", several - 1),
    }
}

/// Everyone who listens to the job.
struct Audience {
    show: Box<dyn Show>,
    checksums: Option<Checksums>,
}

impl Observer for Audience {
    fn event(&mut self, event: &Event) {
        self.show.event(event);
        if let (Event::FileDone { path, digest, .. }, Some(checksums)) = (event, &mut self.checksums)
            && let Some(complaint) = checksums.add(path, digest.as_ref())
        {
            self.show.complain(&complaint);
        }
    }
}

impl Audience {
    /// Ends all output; what could not be written makes a good job a failed one.
    fn close(mut self, outcome: Outcome) -> Exit {
        let mut incomplete = false;
        if let Err(error) = self.show.finish(&outcome) {
            self.show.complain(&format!("standard output: some events could not be written: {error}"));
            incomplete = true;
        }
        if let (Some(checksums), Ok(_)) = (self.checksums, &outcome) {
            let report = checksums.finish();
            report.messages.iter().for_each(|message| self.show.complain(message));
            incomplete |= report.incomplete;
        }
        match Exit::of(&outcome) {
            Exit::Done if incomplete => Exit::Failed,
            exit => exit,
        }
    }
}

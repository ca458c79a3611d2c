//! The plan of a source on another host: a dry run into an empty directory reports all entries.

use std::os::unix::ffi::OsStrExt;

use haul_base::copy::error::Error;
use haul_base::copy::event::{ChangeKind, EntryKind, Event, ItemReport, Observer};
use haul_base::copy::location::{Host, Location};
use haul_base::copy::runtime_control::RuntimeControl;
use haul_base::copy::spec::{DeleteMode, Retries};
use haul_base::sys::cancel::Cancel;
use haul_proto::limits::RANGES_MAX;
use haul_proto::path::escape;

use crate::description::PartEnds;
use crate::error::JobError;
use crate::node::StepContext;
use crate::opened::OpenedJob;
use crate::options::JobPart;
use crate::part::{PartPlan, full_copy_plan, on_some_ends};
use crate::plan_index::PlanTotals;
use crate::planner::ShardPlanner;

/// Plans the job of `step`. Calls `on_shard` for each shard.
pub fn plan_remote(step: &StepContext<'_>, on_shard: &mut dyn FnMut(&PlanTotals)) -> Result<PlanTotals, JobError> {
    let (job, cancel) = (step.job, step.cancel);
    job.directory.vacant_target().make_directory()?;
    let mut planned = None;
    let (ends, outcome) = on_some_ends(job, 0, &mut |ends| {
        let PartPlan { copy: dry_run, .. } = dry_run(job, full_copy_plan(&step.quiet(), ends, JobPart::Whole)?);
        let mut reported = ReportedEntries {
            planner: ShardPlanner::new(&job.directory, &job.description, RANGES_MAX)?,
            target: [dry_run.target.path.as_os_str().as_bytes(), b"/"].concat(),
            on_shard: &mut *on_shard,
            failure: None,
            error: None,
            cancel,
        };
        let (program, steering) = ((step.node.program)(), RuntimeControl::new());
        let outcome = haul_control::controller::run(dry_run, program, cancel, &steering, &mut reported);
        if let Some(error) = reported.error {
            return Err(error);
        }
        // Shards may be running. Only a new plan, which waits for them, may reuse their numbers.
        let has_shards = reported.planner.totals().shards > 0;
        planned = Some((reported.planner, reported.failure));
        Ok(match outcome {
            Err(Error::Connect(why)) if has_shards => Err(Error::Failed(why)),
            outcome => outcome,
        })
    })?;
    match (outcome, planned) {
        (Ok(_), Some((planner, failure))) if has_no_directory(job, planner.totals()) => {
            let why = failure.unwrap_or_else(|| "not a directory".to_owned());
            let remedy = "a job copies a directory: name one of that host";
            Err(JobError::usage(format!("{}: {why}", source_of(job, &ends)), remedy))
        }
        (Ok(_), Some((planner, _))) => planner.finish(),
        (Err(Error::Interrupted), _) => Err(JobError::cancelled(job.directory.path())),
        (Err(error), _) => Err(JobError::of_text(&error)),
        (Ok(_), None) => Err(JobError::of_text(&"the job has no source")),
    }
}

/// Whether the source itself is not a directory, or unreadable. Without a trailing `/.`, a dry run reports it.
fn has_no_directory(job: &OpenedJob, found: &PlanTotals) -> bool {
    let is_named = !job.description.name.is_empty();
    found.directories == 0 && (is_named || found.files == 0 && found.failed > 0)
}

/// The source for messages.
fn source_of(job: &OpenedJob, ends: &PartEnds) -> String {
    escape(ends.at_source(job.description.source.as_os_str()).as_bytes())
}

/// Turns the copy into a dry run into an empty directory.
fn dry_run(job: &OpenedJob, mut plan: PartPlan) -> PartPlan {
    plan.copy.target = Location { host: Host::Local, path: job.directory.vacant_target().path().to_owned() };
    let options = &mut plan.copy.options.target;
    options.sync.is_dry = true;
    options.sync.tells_items = true;
    options.sync.delete = DeleteMode::No;
    options.sync.backup_dir.clear();
    options.sync.backup_suffix.clear();
    options.sync.link_dests.clear();
    options.directory.create = false;
    options.write.check_space = false;
    // A second walk would report planned entries again.
    plan.copy.access.retries = Retries::NEVER;
    plan
}

/// Adds the entries reported by a dry run to a plan.
struct ReportedEntries<'j, 'a> {
    planner: ShardPlanner<'j>,
    /// Prefix of reported paths.
    target: Vec<u8>,
    on_shard: &'a mut dyn FnMut(&PlanTotals),
    /// The error of the first unreadable entry.
    failure: Option<String>,
    error: Option<JobError>,
    cancel: &'a Cancel,
}

impl ReportedEntries<'_, '_> {
    fn add(&mut self, item: &ItemReport) -> Result<(), JobError> {
        let Some(path) = item.path.strip_prefix(self.target.as_slice()) else {
            let is_target = self.target.strip_suffix(b"/") == Some(&item.path);
            // A report has only the end of a long path.
            return if is_target { Ok(()) } else { self.planner.fail(&item.path, "the path is too long for a job") };
        };
        match (item.item.what, item.item.change) {
            (EntryKind::Directory, ChangeKind::Made) => self.planner.add_directory(),
            (EntryKind::File, ChangeKind::Made) => match item.size {
                Some(size) => self.planner.add(path, size)?,
                None => self.planner.add_linked(),
            },
            (EntryKind::Symlink, ChangeKind::Made) => self.planner.add(path, 0)?,
            (EntryKind::Special, ChangeKind::Made) => self.planner.add_other(),
            (_, _) => {}
        }
        Ok(())
    }
}

impl Observer for ReportedEntries<'_, '_> {
    fn event(&mut self, event: &Event) {
        let shards = self.planner.totals().shards;
        let added = match event {
            Event::Item(item) => self.add(item),
            Event::FileFailed { path, message, .. } => {
                self.failure.get_or_insert_with(|| message.clone());
                self.planner.fail(path, message)
            }
            _ => Ok(()),
        };
        if let Err(error) = added {
            self.error.get_or_insert(error);
            self.cancel.cancel();
        }
        if self.planner.totals().shards != shards {
            (self.on_shard)(self.planner.totals());
        }
    }
}

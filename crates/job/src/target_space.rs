//! The free space of a job's target, compared with the plan. haul looks before anything is copied, and while the plan is
//! being made.
//!
//! Only of a tree that this job has begun does haul know what is there already. Another one may need less than the plan
//! says, so there a lack of space is a notice.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::time::Duration;

use haul_base::copy::error::Error;
use haul_base::copy::event::{Event, Observer};
use haul_base::copy::spec::{CopySpec, is_null};
use haul_control::controller::measurement::Benches;
use haul_proto::path::escape;
use haul_proto::wire::measure::TargetDirectoryFigures;
use haul_show::{self as show, units};

use crate::begun_plan::BegunPlan;
use crate::error::JobError;
use crate::node::StepContext;
use crate::overview::{JobOverview, ShardState};
use crate::part::{PartSources, list_plan};
use crate::plan_index::{PlanTotals, PlannedShard};
use crate::shard_result::ShardEnd;

/// The free space of a target, and what the job has already put there.
pub struct TargetSpace {
    /// The target, for messages.
    target: String,
    figures: TargetDirectoryFigures,
    /// Bytes and files of the plan that need no more space.
    present: (u64, u64),
    /// Whether nothing else of the source was there when the job began.
    is_exact: bool,
}

impl TargetSpace {
    /// Asks the first target that answers. Fails if a complete plan does not fit. `None` without a check: by
    /// `--nofschk`, during other runs of the job, or at a server, which measures nothing.
    pub fn check(step: &StepContext<'_>) -> Result<Option<Self>, JobError> {
        let (directory, description) = (&step.job.directory, &step.job.description);
        let overview = JobOverview::read(directory)?;
        let is_running = overview.shards.iter().any(|(_, state)| matches!(state, ShardState::Running(_)));
        if description.verifies || is_running {
            return Ok(None);
        }
        for ends in description.ends() {
            let nothing = PartSources::Lists { name: String::new(), lists: Vec::new() };
            let mut copy = list_plan(&step.quiet(), nothing, &ends)?.copy;
            if !copy.options.target.write.check_space || is_null(&copy.target.path) {
                return Ok(None);
            }
            let (figures, is_new) = match measured(&mut copy, &description.name, step) {
                Ok(Some(measured)) => measured,
                Err(Error::Connect(_)) => continue,
                Ok(None) | Err(_) => return Ok(None),
            };
            if is_new {
                directory.new_tree().replace(b"")?;
            } else if overview.complete.is_none() {
                directory.new_tree().remove()?;
            }
            let is_exact = directory.new_tree().exists() && !figures.may_compress;
            let present = if is_new { (0, 0) } else { present(&overview.shards) };
            let space = Self { target: escape(ends.target.as_encoded_bytes()), figures, present, is_exact };
            return overview.complete.map_or(Ok(()), |totals| space.compare(&totals)).map(|()| Some(space));
        }
        Ok(None)
    }

    fn compare(&self, totals: &PlanTotals) -> Result<(), JobError> {
        match self.lack(totals) {
            Some(lack) if self.is_exact => {
                Err(JobError::failed(lack, "free space, or plan the job with --nofschk, which skips this check"))
            }
            Some(lack) => {
                show::stderr().notice(&format!("{lack}: it fits only if enough files are up to date"));
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// What is needed, and what is free, if that is less.
    fn lack(&self, totals: &PlanTotals) -> Option<String> {
        let data = totals.bytes.saturating_sub(totals.holes);
        let (bytes, files) = (data.saturating_sub(self.present.0), totals.files.saturating_sub(self.present.1));
        let figures = &self.figures;
        let (needed, free) = if bytes > figures.free_bytes {
            (units::size(bytes), units::size(figures.free_bytes))
        } else if figures.counts_files && files > figures.free_files {
            (units::counted(files, "inode", "inodes"), units::count(figures.free_files))
        } else {
            return None;
        };
        Some(format!("{}: no space: the job needs {needed}, but only {free} are free", self.target))
    }
}

/// Makes a plan. Holds the job once so much is planned that it cannot fit.
pub fn plan_within(
    space: Option<&TargetSpace>,
    begun: BegunPlan,
    step: &StepContext<'_>,
    on_shard: &mut dyn FnMut(&PlanTotals),
) -> Result<(), JobError> {
    let hold_if_full = |totals: &PlanTotals| {
        let lack = space.filter(|space| space.is_exact).and_then(|space| space.lack(totals));
        lack.map_or(Ok(()), |lack| step.job.directory.hold(&lack))
    };
    let totals = begun.carry_out(step, &mut |totals| {
        // An error here shows up at the end.
        let _ = hold_if_full(totals);
        on_shard(totals);
    })?;
    hold_if_full(&totals)?;
    space.map_or(Ok(()), |space| space.compare(&totals))
}

/// The state of the target's file system, and whether the job's tree is absent there.
fn measured(
    copy: &mut CopySpec,
    name: &OsStr,
    step: &StepContext<'_>,
) -> Result<Option<(TargetDirectoryFigures, bool)>, Error> {
    let target = copy.target.path.clone();
    // Where the target is absent, too, the directory above it.
    for path in [target.join(name), target] {
        copy.target.path.clone_from(&path);
        let mut benches = Benches::start(copy, &(step.node.program)(), step.cancel, &mut DeploymentNotice)?;
        let ends = benches.measure(Duration::ZERO);
        benches.close();
        if let Ok([_, at_target]) = ends
            && let Some(figures) = at_target.measured.place
        {
            let scratch = PathBuf::from(OsString::from_vec(figures.scratch.clone()));
            let path = path.strip_prefix(".").unwrap_or(&path);
            let is_new = !scratch.parent().is_some_and(|made_in| made_in.ends_with(path));
            return Ok(Some((figures, is_new)));
        }
    }
    Ok(None)
}

/// Bytes and files that ended shards have put at the target.
fn present(shards: &[(PlannedShard, ShardState)]) -> (u64, u64) {
    let of_shard = |(shard, state): &(PlannedShard, ShardState)| match state {
        ShardState::Ended(result) if result.end == ShardEnd::Done => (shard.bytes, shard.files),
        ShardState::Ended(result) => (result.progress.bytes, result.progress.files),
        ShardState::Planned | ShardState::Running(_) => (0, 0),
    };
    let add = |sum: (u64, u64), more: (u64, u64)| (sum.0.saturating_add(more.0), sum.1.saturating_add(more.1));
    shards.iter().map(of_shard).fold((0, 0), add)
}

/// Names a host that haul was installed on.
struct DeploymentNotice;

impl Observer for DeploymentNotice {
    fn event(&mut self, event: &Event) {
        if let Event::Deployed { host, path } = event {
            show::stderr().notice(&format!("installed haul on {host}: {path}"));
        }
    }
}

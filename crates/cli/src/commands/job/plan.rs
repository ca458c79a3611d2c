//! `haul job plan`: creates a job's directory, walks the source, and writes shards.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::Path;

use haul_base::copy::location::Host;
use haul_base::copy::runtime_control::RuntimeControl;
use haul_base::sys::cancel::Cancel;
use haul_engine::fs::SpecialFiles;
use haul_job::comparison::plan as plan_comparison;
use haul_job::description::JobDescription;
use haul_job::directory::JobDirectory;
use haul_job::error::{JobError, shown};
use haul_job::exclusive::claim;
use haul_job::opened::{OpenedJob, absolute};
use haul_job::options::JobPart;
use haul_job::plan_index::{PlanIndex, PlanTotals};
use haul_job::planner::{WalkRules, check_source, plan as walk};
use haul_job::shard_lock::{LockHolder, LockedWork, ShardLock, locked_shards};
use haul_proto::limits::RANGES_MAX;
use haul_show::exit::Exit;
use haul_show::{self as show, units};

use super::describe::describe;
use super::part::PartDisplay;
use super::remote_plan::plan_remote;
use super::whole::full_copy_plan;
use crate::args::operand::parse_operand;
use crate::args::values::Values;
use crate::args::{UsageError, flags};
use crate::signals::Watch;
use crate::user_dirs::state_dir;

/// Plans a job, or restarts an interrupted plan.
pub fn run(values: &Values, operands: &[OsString]) -> anyhow::Result<Exit> {
    let dir = values.last(&flags::job::DIR).ok_or_else(|| {
        UsageError::new("haul job plan needs a directory for the job")
            .remedy("--dir JOB names a new directory that all hosts see")
    })?;
    let job = create(values, operands, dir)?;
    let cancel = Cancel::new();
    let watch = Watch::start(cancel.clone(), RuntimeControl::new().rate().clone(), None)?;
    let totals = watch.during(|| carry_out(&job, &cancel))?;
    if !values.is_set(&flags::QUIET) {
        show::stderr().plain(&planned(&job, &totals));
        let confirming = job.confirming_words()?.join(" ");
        if !confirming.is_empty() {
            let path = shown(job.directory.path());
            show::stderr()
                .plain(&format!("on hosts without your home directory: haul job shard {confirming} {path} N"));
        }
    }
    Ok(if totals.failed > 0 { Exit::Failed } else { Exit::Done })
}

/// `JOB: 18 shards, 70,211 files, 3.0 GB`
pub fn planned(job: &OpenedJob, totals: &PlanTotals) -> String {
    let shards = units::counted(totals.shards.into(), "shard", "shards");
    let failed = match totals.failed {
        0 => String::new(),
        failed => format!("; {} could not be read: see failures/plan.jsonl", units::count(failed)),
    };
    let (files, bytes) = (units::files(totals.files), units::size(totals.bytes));
    format!("{}: {shards}, {files}, {bytes}{failed}", shown(job.directory.path()))
}

/// The note about files with longer ranges than the job's.
fn lengthened(files: u64) -> String {
    let most = units::count(RANGES_MAX);
    format!("ranges of {} are longer than --shard-range: a file has at most {most}", units::files(files))
}

/// Creates the job that `values` describe, or opens the existing one.
pub fn create(values: &Values, operands: &[OsString], dir: &OsStr) -> anyhow::Result<OpenedJob> {
    let path = absolute(Path::new(dir));
    let description = describe(values, operands)?;
    let earlier = OpenedJob::open(path.as_os_str(), state_dir()).ok();
    if let Some(earlier) = earlier.filter(|earlier| earlier.description.is_same_command(&description)) {
        return Ok(OpenedJob::typed(earlier.directory, earlier.description, earlier.state));
    }
    if !description.is_pulled() {
        check_source(&description.source)?;
    }
    refuse_overlap(&path, &description)?;
    let job = OpenedJob::typed(JobDirectory::vacant(&path)?, description, state_dir());
    claim(&job)?;
    job.directory.make_folders()?;
    job.description.write(&job.directory)?;
    Ok(job)
}

/// A plan to be made.
pub struct BegunPlan {
    _lock: ShardLock,
    origin: PlanOrigin,
}

/// The origin of a plan.
enum PlanOrigin {
    /// The walk of the source.
    Walk(Box<WalkRules>),
    /// A dry run from the source's host.
    RemoteSource,
    /// The plan of the compared job.
    ComparedJob,
}

impl BegunPlan {
    /// Removes an interrupted plan, so that nobody claims its shards. `None` if the plan is complete.
    pub fn begin(job: &OpenedJob, cancel: &Cancel) -> anyhow::Result<Option<Self>> {
        let directory = &job.directory;
        directory.refuse_cancelled()?;
        if PlanIndex::read(directory)?.complete.is_some() {
            return Ok(None);
        }
        let lock = ShardLock::wait(directory, LockedWork::Plan, cancel, &mut |holder| {
            show::stderr().notice(&format!("the job is being planned by {}; waiting for it", holder.shown()));
        })?;
        if PlanIndex::read(directory)?.complete.is_some() {
            return Ok(None);
        }
        for (shard, _) in locked_shards(directory) {
            let on_holder = &mut |holder: &LockHolder| {
                show::stderr()
                    .notice(&format!("shard {shard} of an earlier plan is run by {}; waiting", holder.shown()));
            };
            ShardLock::wait(directory, LockedWork::Shard(shard), cancel, on_holder)?;
        }
        directory.clear_plan()?;
        if job.description.verifies {
            return Ok(Some(Self { _lock: lock, origin: PlanOrigin::ComparedJob }));
        }
        if job.description.is_pulled() {
            return Ok(Some(Self { _lock: lock, origin: PlanOrigin::RemoteSource }));
        }
        let whole = full_copy_plan(job, &job.description.ends()[0], PartDisplay::Quiet, JobPart::Whole)?;
        let options = whole.copy.options;
        let rules = WalkRules {
            symlinks: options.source.symlinks,
            one_file_system: options.source.skip.other_file_systems,
            filters: options.source.filters,
            nodes: SpecialFiles {
                devices: options.metadata.preserve.devices,
                specials: options.metadata.preserve.specials,
            },
            target: Some(whole.copy.target).filter(|target| target.host == Host::Local).map(|target| target.path),
            ranges_max: RANGES_MAX,
            is_alone: true,
        };
        Ok(Some(Self { _lock: lock, origin: PlanOrigin::Walk(Box::new(rules)) }))
    }

    /// Limits the walk, since copies on this host need CPUs too.
    pub fn limited_for_copies(mut self) -> Self {
        if let PlanOrigin::Walk(rules) = &mut self.origin {
            rules.is_alone = false;
        }
        self
    }

    /// Makes the plan. Calls `on_shard` for each shard.
    pub fn carry_out(
        self,
        job: &OpenedJob,
        cancel: &Cancel,
        on_shard: &mut dyn FnMut(&PlanTotals),
    ) -> anyhow::Result<PlanTotals> {
        let totals = match &self.origin {
            PlanOrigin::Walk(rules) => walk(&job.directory, &job.description, rules, cancel, on_shard)?,
            PlanOrigin::RemoteSource => plan_remote(job, cancel, on_shard)?,
            PlanOrigin::ComparedJob => {
                let totals = plan_comparison(&job.directory)?;
                on_shard(&totals);
                totals
            }
        };
        if totals.lengthened > 0 {
            show::stderr().notice(&lengthened(totals.lengthened));
        }
        Ok(totals)
    }
}

/// Makes the plan, unless it exists.
pub fn carry_out(job: &OpenedJob, cancel: &Cancel) -> anyhow::Result<PlanTotals> {
    match BegunPlan::begin(job, cancel)? {
        Some(begun) => begun.carry_out(job, cancel, &mut |_| {}),
        None => Ok(PlanIndex::read(&job.directory)?.complete.unwrap_or_default()),
    }
}

/// Refuses a job directory within the source: the job would copy itself without end.
fn refuse_overlap(job: &Path, description: &JobDescription) -> Result<(), JobError> {
    let real = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let parent = job.parent().map(real).unwrap_or_default();
    let job_path = parent.join(job.file_name().unwrap_or_default());
    let is_local = |target: &&OsString| parse_operand(target).is_ok_and(|at| at.host == Host::Local);
    let targets = description.targets.iter().filter(is_local).map(|target| ("target", real(Path::new(target))));
    let source = (!description.is_pulled()).then(|| ("source", real(&description.source)));
    let places = source.into_iter().chain(targets);
    match places.into_iter().find(|(_, place)| job_path.starts_with(place)) {
        None => Ok(()),
        Some((end, place)) => Err(JobError::usage(
            format!("{}: the job's directory is in the {end} {}", shown(job), shown(&place)),
            "choose another directory with --dir",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longer_ranges_are_reported() {
        let note = "ranges of 1 file are longer than --shard-range: a file has at most 1,048,576";
        assert_eq!(lengthened(1), note);
    }
}

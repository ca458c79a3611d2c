//! The last step of a job: work that no shard can do alone, and one report.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use haul_base::copy::error::Outcome;
use haul_base::copy::location::Host;
use haul_base::copy::spec::{CopyRange, RangeLen};
use haul_base::sys::cancel::Cancel;
use haul_control::operand::parse_operand;
use haul_engine::partials::find;
use haul_show::exit::Exit;
use haul_show::{self as show, json};

use crate::comparison::record;
use crate::description::PartEnds;
use crate::directory::JobDirectory;
use crate::error::{JobError, shown};
use crate::exclusive::release;
use crate::job_file::JobFile;
use crate::node::{PartDisplay, StepContext};
use crate::notification;
use crate::opened::OpenedJob;
use crate::options::JobPart;
use crate::overview::{JobOverview, ShardState};
use crate::part::{PartPlan, PartSources, copy_knowing, full_copy_plan, list_plan, on_some_ends, verify_plan};
use crate::plan_index::{PlanTotals, PlannedShard};
use crate::report::{MergedReport, write as write_report};
use crate::report_text::print_report;
use crate::shard_list::ShardListReader;
use crate::shard_lock::{LockedWork, ShardLock};
use crate::shard_progress::LiveProgress;
use crate::shard_result::ShardEnd;

/// Most missing shards listed by number.
const LISTED: usize = 20;
/// Failures of the last copy or comparison.
pub const LAST_FAILURES: &str = "finish.jsonl";
/// Interval at which `--wait` checks the shards.
const CHECK_EVERY: Duration = Duration::from_secs(5);

/// Waits until every shard has ended. An interrupted one is expected to run again.
pub fn wait_for_shards(job: &OpenedJob, cancel: &Cancel) -> Result<(), JobError> {
    loop {
        job.directory.refuse_stopped()?;
        let overview = JobOverview::read(&job.directory)?;
        let has_ended = |state: &ShardState| state.has_tried_all() || state.end() == Some(ShardEnd::Failed);
        if overview.complete.is_some() && overview.shards.iter().all(|(_, state)| has_ended(state)) {
            return Ok(());
        }
        if cancel.wait(CHECK_EVERY) {
            return Err(JobError::cancelled(job.directory.path()));
        }
    }
}

/// The last step of a job.
pub struct JobFinish<'a> {
    /// The step.
    pub step: StepContext<'a>,
    /// Whether source and target are compared.
    pub verifies: bool,
}

impl JobFinish<'_> {
    /// Finishes the job, if each file was tried: everything that a plain copy would do beside failed files. Then runs
    /// the command of `--notify`.
    pub fn carry_out(&self) -> Result<Exit, JobError> {
        let exit = self.finish()?;
        if !self.step.job.description.verifies {
            notify(self.step.job, exit)?;
        }
        Ok(exit)
    }

    fn finish(&self) -> Result<Exit, JobError> {
        let directory = &self.step.job.directory;
        directory.refuse_stopped()?;
        let cancel = self.step.cancel.of_part();
        let step = StepContext { cancel: &cancel, ..self.step };
        let mut has_waited = false;
        let _lock = ShardLock::wait(directory, LockedWork::Finish, &cancel, &mut |holder| {
            has_waited = true;
            show::stderr().notice(&format!("the job is being finished by {}; waiting for it", holder.shown()));
        })?;
        let overview = JobOverview::read(directory)?;
        if has_waited && overview.is_finished() {
            let report = MergedReport::of(&overview);
            print_report(self.step.job, &report, self.step.display);
            return Ok(exit_of(&report));
        }
        let Some(totals) = overview.complete.filter(|_| overview.is_copied()) else {
            show::stderr().error(&self.refusal(&overview));
            return Ok(Exit::Failed);
        };
        if self.step.job.description.verifies {
            return self.finish_comparison(&step, &overview, &totals);
        }
        let mut report = MergedReport::of_shards(&overview);
        for (len, lists) in divided_files(directory, &overview) {
            let outcome = name_files_of(&step.quiet(), len, &lists)?;
            let Ok(named) = &outcome else { return Ok(Exit::of(&outcome)) };
            report.failed += named.files.failed;
            report.vanished += named.files.vanished;
        }
        remove_vanished(self.step.job, &overview)?;
        let part = self.part(&overview, &totals);
        // A part without files is normal, except in a whole copy.
        let is_usual = part == JobPart::Whole || self.step.display == PartDisplay::Json;
        let shown = if is_usual { step } else { step.quiet() };
        let outcome = copy_part(&shown, &mut |ends| full_copy_plan(&shown, ends, part))?;
        let Ok(summary) = &outcome else { return Ok(Exit::of(&outcome)) };
        report.vanished += summary.files.vanished;
        report.moved = report.moved.saturating_add(summary.counters.bytes_stored);
        report.deleted = summary.sync.removed;
        report.left_out = summary.left_out.clone();
        if part == JobPart::Whole {
            // It has tried all failed files again, and lists what still fails.
            report.failed = summary.files.failed;
            directory.clear_failures(LAST_FAILURES)?;
        } else {
            report.failed += summary.files.failed.max(totals.failed);
        }
        let verified = match self.verifies {
            true => Some(copy_part(&step, &mut |ends| verify_plan(&step, ends, JobPart::Whole))?),
            false => None,
        };
        report.is_same = verified.as_ref().map(|outcome| Exit::of(outcome).is_complete());
        write_report(directory, &report, &json::last(&outcome))?;
        release(self.step.job);
        print_report(self.step.job, &report, self.step.display);
        Ok(match verified {
            Some(verified) if Exit::of(&verified) != Exit::Done => Exit::of(&verified),
            _ => exit_of(&report),
        })
    }

    /// Compares entries outside of shards: directories, or everything if links and special files are preserved.
    fn finish_comparison(
        &self,
        step: &StepContext<'_>,
        overview: &JobOverview,
        totals: &PlanTotals,
    ) -> Result<Exit, JobError> {
        let (directory, part) = (&self.step.job.directory, self.part(overview, totals));
        let shown = if step.display == PartDisplay::Json { *step } else { step.quiet() };
        let outcome = copy_part(&shown, &mut |ends| verify_plan(&shown, ends, part))?;
        let Ok(summary) = &outcome else { return Ok(Exit::of(&outcome)) };
        let mut report = MergedReport::of_shards(overview);
        report.vanished += summary.files.vanished;
        report.failed += summary.files.failed + summary.integrity.comparison.unwrap_or_default().differences;
        let is_same = report.failed == 0;
        report.is_same = Some(is_same);
        write_report(directory, &report, &json::last(&outcome))?;
        record(directory, is_same)?;
        print_report(self.step.job, &report, self.step.display);
        Ok(exit_of(&report))
    }

    /// The part for the last copy: directories alone, if lists have every other entry. A shard of a sync replaces no
    /// tree by a file and no file by a tree, since it does not know the filters; the last copy does.
    fn part(&self, overview: &JobOverview, totals: &PlanTotals) -> JobPart {
        let description = &self.step.job.description;
        let has_unlisted = totals.linked > 0 || totals.others > 0;
        let may_replace = description.is_sync && overview.ended(ShardEnd::Incomplete) > 0;
        let is_whole = description.options.deletes() || has_unlisted || may_replace;
        if is_whole { JobPart::Whole } else { JobPart::Directories }
    }

    fn refusal(&self, overview: &JobOverview) -> String {
        let job = shown(self.step.job.directory.path());
        if overview.complete.is_none() {
            let why = match &overview.planner {
                Some(planner) => format!("it is planned by {}", planner.shown()),
                None => "its planning was interrupted".to_owned(),
            };
            return format!("{job}: the plan is not complete: {why}\nhint: haul job run {job} completes it");
        }
        let missing = overview.missing();
        let mut numbers: Vec<_> = missing.iter().take(LISTED).map(u32::to_string).collect();
        if missing.len() > LISTED {
            numbers.push(format!("and {} more", missing.len() - LISTED));
        }
        let what = if missing.len() == 1 { "shard is" } else { "shards are" };
        format!(
            "{job}: {} {what} not done: {}\nhint: haul job shard {job} N copies one, haul job run {job} all of them",
            missing.len(),
            numbers.join(", ")
        )
    }
}

/// Files that were copied in ranges, by the length of their ranges: the list of each, if all its ranges are done.
fn divided_files(directory: &JobDirectory, overview: &JobOverview) -> Vec<(RangeLen, Vec<JobFile>)> {
    let mut lists: BTreeMap<u64, (RangeLen, Vec<JobFile>)> = BTreeMap::new();
    let is_whole = |(_, state): &(PlannedShard, ShardState)| match state {
        ShardState::Ended(result) => result.end == ShardEnd::Done && result.counts.vanished == 0,
        ShardState::Planned | ShardState::Running(_) => false,
    };
    for file in overview.shards.chunk_by(|(one, _), (next, _)| one.first_of_file() == next.first_of_file()) {
        let (first, _) = &file[0];
        if let Some(range) = first.range.filter(|_| file.iter().all(is_whole)) {
            let (_, of_len) = lists.entry(range.len.get()).or_insert((range.len, Vec::new()));
            of_len.push(directory.list(first.number));
        }
    }
    lists.into_values().collect()
}

/// Removes what ranges have left of vanished files, as far as possible. At another host, `haul clean` does.
fn remove_vanished(job: &OpenedJob, overview: &JobOverview) -> Result<(), JobError> {
    let target = parse_operand(&job.description.ends()[0].target)?;
    let has_vanished = |(shard, state): &&(PlannedShard, ShardState)| {
        shard.range.is_some() && matches!(state, ShardState::Ended(result) if result.counts.vanished > 0)
    };
    for (shard, _) in overview.shards.iter().filter(|_| target.host == Host::Local).filter(has_vanished) {
        let list = job.directory.list(shard.number);
        let paths = ShardListReader::open(&list).map_err(|error| JobError::io(list.path(), &error))?;
        let left = paths.flatten().filter_map(|path| find(&target.path.join(OsStr::from_bytes(&path)), None).ok());
        left.flatten().flatten().for_each(|mut partial| drop(partial.remove()));
    }
    Ok(())
}

/// Names files that were copied in ranges of this length.
fn name_files_of(step: &StepContext<'_>, len: RangeLen, lists: &[JobFile]) -> Result<Outcome, JobError> {
    let job = shown(step.job.directory.path());
    let outcome = copy_recorded(step, &format!("names-{}.jsonl", len.get()), &mut |ends| {
        let lists = PartSources::Lists { name: format!("divided files of {job}"), lists: lists.to_vec() };
        let mut plan = list_plan(step, lists, ends)?;
        plan.copy.options.range = Some(CopyRange::Finish(len));
        Ok(plan)
    })?;
    if Exit::of(&outcome) == Exit::Failed {
        show::stderr().error(&format!(
            "{job}: not every file has all its ranges\nhint: haul job status --json {job} has the ranges of shards"
        ));
    }
    Ok(outcome)
}

/// Runs the command of `--notify`, with the job, its status and its report in the environment.
fn notify(job: &OpenedJob, exit: Exit) -> Result<(), JobError> {
    if let Some(command) = &job.options()?.notify {
        let report = job.directory.report();
        let about = [("HAUL_JOB", job.directory.path()), ("HAUL_REPORT", report.path())];
        notification::notify(command, exit, &about.map(|(name, path)| (name, path.as_os_str())));
    }
    Ok(())
}

/// The exit status of a finished job, as of one copy.
pub fn exit_of(report: &MergedReport) -> Exit {
    if report.failed > 0 { Exit::Failed } else { Exit::of_vanished(report.vanished) }
}

fn copy_part(
    step: &StepContext<'_>,
    plan: &mut dyn FnMut(&PartEnds) -> Result<PartPlan, JobError>,
) -> Result<Outcome, JobError> {
    copy_recorded(step, LAST_FAILURES, plan)
}

/// Copies a part. Its failures are recorded under this name in `failures/`.
fn copy_recorded(
    step: &StepContext<'_>,
    failures: &str,
    plan: &mut dyn FnMut(&PartEnds) -> Result<PartPlan, JobError>,
) -> Result<Outcome, JobError> {
    let known = step.job.directory.known_failures(failures);
    let failures = step.job.directory.step_failures(failures);
    let (_, outcome) = on_some_ends(step.job, 0, &mut |ends| {
        copy_knowing(known.clone(), plan(ends)?, failures.clone(), step, &LiveProgress::default())
    })?;
    Ok(outcome)
}

/// Whether a job with this exit status is to be compared.
pub fn is_to_be_compared(job: &OpenedJob, exit: Exit) -> bool {
    let is_finished = (exit.is_complete() || exit == Exit::Failed) && job.directory.report().exists();
    is_finished && !job.description.verifies
}

/// The exit status of a job and its comparison.
pub fn worse(copied: Exit, compared: Exit) -> Exit {
    if compared == Exit::Done { copied } else { compared }
}

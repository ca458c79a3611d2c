//! `haul job finish JOB`: work that no shard can do alone, and one report.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::time::Duration;

use haul_base::copy::error::Outcome;
use haul_base::copy::runtime_control::RuntimeControl;
use haul_base::copy::spec::{CopyRange, RangeLen};
use haul_base::sys::cancel::Cancel;
use haul_job::comparison::record;
use haul_job::description::PartEnds;
use haul_job::error::{JobError, shown};
use haul_job::exclusive::release;
use haul_job::job_file::JobFile;
use haul_job::opened::OpenedJob;
use haul_job::options::JobPart;
use haul_job::overview::{JobOverview, ShardState};
use haul_job::plan_index::PlanTotals;
use haul_job::report::{MergedReport, write as write_report};
use haul_job::shard_lock::{LockedWork, ShardLock};
use haul_job::shard_progress::LiveProgress;
use haul_show::exit::Exit;
use haul_show::{self as show, json};

use super::merged::print_report;
use super::part::{PartDisplay, PartPlan, PartSources, copy, on_some_ends};
use super::shard::list_plan;
use super::whole::{full_copy_plan, verify_plan};
use crate::args::flags;
use crate::args::values::Values;
use crate::signals::Watch;
use crate::user_dirs::state_dir;

/// Most missing shards listed by number.
const LISTED: usize = 20;
/// Interval at which `--wait` checks the shards.
const CHECK_EVERY: Duration = Duration::from_secs(5);

/// Finishes the job of `operands`.
pub fn run(values: &Values, operands: &[OsString]) -> anyhow::Result<Exit> {
    let job = OpenedJob::open_for("finish JOB", &operands[0], values.get(&flags::job::CONFIRM)?, state_dir())?;
    let (cancel, steering) = (Cancel::new(), RuntimeControl::new());
    let watch = Watch::start(cancel.clone(), steering.rate().clone(), None)?;
    let verifies = values.is_set(&flags::step::VERIFY);
    let finish =
        JobFinish { job: &job, display: PartDisplay::of(values), verifies, cancel: &cancel, steering: &steering };
    watch.during(|| {
        if values.is_set(&flags::step::WAIT) {
            wait_for_shards(&job, &cancel)?;
        }
        finish.carry_out()
    })
}

/// Waits until every shard is done or has failed. An interrupted one is expected to run again.
fn wait_for_shards(job: &OpenedJob, cancel: &Cancel) -> Result<(), JobError> {
    loop {
        job.directory.refuse_cancelled()?;
        let overview = JobOverview::read(&job.directory)?;
        let has_ended = |state: &ShardState| state.is_done() || state.has_failed();
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
    /// The job.
    pub job: &'a OpenedJob,
    /// The display.
    pub display: PartDisplay,
    /// Whether source and target are compared.
    pub verifies: bool,
    /// Stops it.
    pub cancel: &'a Cancel,
    /// Changes its rate.
    pub steering: &'a RuntimeControl,
}

impl JobFinish<'_> {
    /// Finishes the job, if every shard is done.
    pub fn carry_out(&self) -> anyhow::Result<Exit> {
        let directory = &self.job.directory;
        directory.refuse_cancelled()?;
        let cancel = self.cancel.of_part();
        let mut has_waited = false;
        let _lock = ShardLock::wait(directory, LockedWork::Finish, &cancel, &mut |holder| {
            has_waited = true;
            show::stderr().notice(&format!("the job is being finished by {}; waiting for it", holder.shown()));
        })?;
        let overview = JobOverview::read(directory)?;
        if has_waited && overview.is_finished() {
            let report = MergedReport::of(&overview);
            print_report(self.job, &report, self.display);
            return Ok(if report.failed > 0 { Exit::Failed } else { Exit::of_vanished(report.vanished) });
        }
        let Some(totals) = overview.complete.filter(|_| overview.is_copied()) else {
            show::stderr().error(&self.refusal(&overview));
            return Ok(Exit::Failed);
        };
        if self.job.description.verifies {
            return self.finish_comparison(&overview, &totals, &cancel);
        }
        let named = self.name_divided_files(&overview, &cancel)?;
        if !named.is_complete() {
            return Ok(named);
        }
        let part = self.part(&totals);
        // A part without files is normal, except in a whole copy.
        let is_usual = part == JobPart::Whole || self.display == PartDisplay::Json;
        let display = if is_usual { self.display } else { PartDisplay::Quiet };
        let outcome = self.copy_part(&cancel, &mut |ends| full_copy_plan(self.job, ends, display, part))?;
        let exit = Exit::of(&outcome);
        if !exit.is_complete() {
            return Ok(exit);
        }
        let verified = match self.verifies {
            true => {
                Some(self.copy_part(&cancel, &mut |ends| verify_plan(self.job, ends, self.display, JobPart::Whole))?)
            }
            false => None,
        };
        let mut report = MergedReport::of_shards(&overview);
        report.vanished += vanished(&outcome);
        report.is_same = verified.as_ref().map(|outcome| Exit::of(outcome).is_complete());
        write_report(directory, &report, &json::last(&outcome))?;
        release(self.job);
        print_report(self.job, &report, self.display);
        Ok(match verified {
            Some(verified) if Exit::of(&verified) != Exit::Done => Exit::of(&verified),
            None if totals.failed > 0 => Exit::Failed,
            _ => Exit::of_vanished(report.vanished),
        })
    }

    /// Compares entries outside of shards: directories, or everything if links and special files are preserved.
    fn finish_comparison(&self, overview: &JobOverview, totals: &PlanTotals, cancel: &Cancel) -> anyhow::Result<Exit> {
        let (directory, part) = (&self.job.directory, self.part(totals));
        let display = if self.display == PartDisplay::Json { self.display } else { PartDisplay::Quiet };
        let outcome = self.copy_part(cancel, &mut |ends| verify_plan(self.job, ends, display, part))?;
        let Ok(summary) = &outcome else { return Ok(Exit::of(&outcome)) };
        let mut report = MergedReport::of_shards(overview);
        report.vanished += summary.files.vanished;
        report.failed += summary.files.failed + summary.integrity.comparison.unwrap_or_default().differences;
        let is_same = report.failed == 0;
        report.is_same = Some(is_same);
        write_report(directory, &report, &json::last(&outcome))?;
        record(directory, is_same)?;
        print_report(self.job, &report, self.display);
        Ok(if is_same { Exit::of_vanished(report.vanished) } else { Exit::Failed })
    }

    /// Names files that were copied in ranges: one copy for each range length.
    fn name_divided_files(&self, overview: &JobOverview, cancel: &Cancel) -> anyhow::Result<Exit> {
        let mut lists: BTreeMap<u64, (RangeLen, Vec<JobFile>)> = BTreeMap::new();
        for (shard, _) in &overview.shards {
            if let Some(range) = shard.range.filter(|range| range.number == 0) {
                let (_, of_len) = lists.entry(range.len.get()).or_insert((range.len, Vec::new()));
                of_len.push(self.job.directory.list(shard.number));
            }
        }
        let mut all = Exit::Done;
        for (len, lists) in lists.into_values() {
            match self.name_files_of(len, &lists, cancel)? {
                Exit::Done | Exit::Vanished => {}
                Exit::Failed => all = Exit::Failed,
                exit => return Ok(exit),
            }
        }
        Ok(all)
    }

    fn name_files_of(&self, len: RangeLen, lists: &[JobFile], cancel: &Cancel) -> anyhow::Result<Exit> {
        let job = shown(self.job.directory.path());
        let failures = format!("names-{}.jsonl", len.get());
        let outcome = self.copy_recorded(&failures, cancel, &mut |ends| {
            let lists = PartSources::Lists { name: format!("divided files of {job}"), lists: lists.to_vec() };
            let mut plan = list_plan(self.job, lists, ends, PartDisplay::Quiet)?;
            plan.copy.options.range = Some(CopyRange::Finish(len));
            Ok(plan)
        })?;
        let exit = Exit::of(&outcome);
        if exit == Exit::Failed {
            show::stderr().error(&format!(
                "{job}: not every file has all its ranges\nhint: haul job status --json {job} has the ranges of shards"
            ));
        }
        Ok(exit)
    }

    /// The part for the last copy: directories alone, if lists have every other entry.
    fn part(&self, totals: &PlanTotals) -> JobPart {
        let has_unlisted = totals.linked > 0 || totals.others > 0;
        if self.job.description.options.deletes() || has_unlisted { JobPart::Whole } else { JobPart::Directories }
    }

    fn copy_part(
        &self,
        cancel: &Cancel,
        plan: &mut dyn FnMut(&PartEnds) -> anyhow::Result<PartPlan>,
    ) -> Result<Outcome, anyhow::Error> {
        self.copy_recorded("finish.jsonl", cancel, plan)
    }

    /// Copies a part. Its failures are recorded under this name in `failures/`.
    fn copy_recorded(
        &self,
        failures: &str,
        cancel: &Cancel,
        plan: &mut dyn FnMut(&PartEnds) -> anyhow::Result<PartPlan>,
    ) -> Result<Outcome, anyhow::Error> {
        let failures = self.job.directory.step_failures(failures);
        let (_, outcome) = on_some_ends(self.job, 0, &mut |ends| {
            copy(plan(ends)?, failures.clone(), cancel, self.steering, &LiveProgress::default())
        })?;
        Ok(outcome)
    }

    fn refusal(&self, overview: &JobOverview) -> String {
        let job = shown(self.job.directory.path());
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

/// Entries that vanished during a part.
fn vanished(outcome: &Outcome) -> u64 {
    outcome.as_ref().map_or(0, |summary| summary.files.vanished)
}

//! A copy of a part of a job, by the options of the job's description. All copies of a job are made here.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use haul_base::copy::error::{Error, Outcome};
use haul_base::copy::location::{Host, Location};
use haul_base::copy::spec::{
    CopyOptions, CopySpec, ListLine, ListReader, NULL_TARGET, RemoteAccess, ReportOptions, SourceList, is_null,
};
use haul_base::sys::describe::describe;
use haul_control::operand::parse_operand;
use haul_control::secret_file;
use haul_proto::path::escape;
use haul_show::display::{Display, Mode};
use haul_show::{self as show, ListForm, terminal};

use crate::description::{PartEnds, source_operand};
use crate::error::{JobError, shown};
use crate::job_file::JobFile;
use crate::node::{JobNode, PartDisplay, StepContext};
use crate::opened::OpenedJob;
use crate::options::{JobDisplay, JobOptions, JobPart, completed_login};
use crate::part_recorder::PartRecorder;
use crate::shard_list::ShardListReader;
use crate::shard_progress::LiveProgress;
use crate::targets::{leave_out, turns};

/// A copy of a part, or its comparison, with its display.
pub struct PartPlan {
    /// The copy for the engine.
    pub copy: CopySpec,
    /// The display.
    pub display: Display,
}

/// The sources of a part.
pub enum PartSources {
    /// The lists of shards, with paths below the job's base.
    Lists {
        /// Their name in messages.
        name: String,
        /// Their files.
        lists: Vec<JobFile>,
    },
    /// The job's source, copied below the base.
    BelowBase,
    /// The job's source as typed, for a sync that deletes.
    AsTyped,
}

impl PartPlan {
    /// The copy of `sources` between `ends` with these options of the job.
    pub fn new(
        step: &StepContext<'_>,
        ends: &PartEnds,
        sources: PartSources,
        options: CopyOptions,
    ) -> Result<Self, JobError> {
        let (description, kept) = (&step.job.description, step.job.options()?);
        let base = parse_operand(&ends.at_source(description.base.as_os_str()))?;
        let mut target = parse_operand(&ends.target)?;
        secret_file::complete(kept.secret_file.as_deref().map(Path::as_os_str), false, std::iter::once(&mut target))?;
        let access = access(kept, step.node, [&base, &target])?;
        let display = display(&kept.display, step.display);
        let mut options = CopyOptions { reports: reports(&kept.display, &display), ..options };
        options.source.base = Some(base.path);
        if is_null(&target.path) {
            target.path = NULL_TARGET.into();
            options.metadata.preserve.hard_links = false;
        }
        let (mut list, mut typed) = (None, Vec::new());
        match sources {
            PartSources::Lists { name, lists } => list = Some(source_list(base.host, name, lists)),
            PartSources::BelowBase => typed.push(Location { host: base.host, path: step.job.full_source().into() }),
            PartSources::AsTyped => {
                options.source.base = None;
                let source = source_operand(&ends.source_host, &description.source, &description.name);
                typed.push(parse_operand(&source)?);
            }
        }
        let access = RemoteAccess { in_turn: terminal::stderr_is_terminal(), ..access };
        Ok(Self { copy: CopySpec { sources: typed, list, target, options, access }, display })
    }
}

/// The copy of lists of shards, or their comparison. Lists have no directories. So a directory created by this run has
/// no entries of another run.
pub fn list_plan(step: &StepContext<'_>, lists: PartSources, ends: &PartEnds) -> Result<PartPlan, JobError> {
    let (kept, verifies) = (step.job.options()?, step.job.description.verifies);
    let options = if verifies { kept.of_comparison(JobPart::List) } else { kept.of_copy(JobPart::List) };
    PartPlan::new(step, ends, lists, options)
}

/// The copy of the whole source, or of its directories.
pub fn full_copy_plan(step: &StepContext<'_>, ends: &PartEnds, part: JobPart) -> Result<PartPlan, JobError> {
    let options = step.job.options()?;
    // A base is refused beside --delete.
    let source = if options.deletes() { PartSources::AsTyped } else { PartSources::BelowBase };
    PartPlan::new(step, ends, source, options.of_copy(part))
}

/// The comparison of source and target, or of their directories.
pub fn verify_plan(step: &StepContext<'_>, ends: &PartEnds, part: JobPart) -> Result<PartPlan, JobError> {
    PartPlan::new(step, ends, PartSources::BelowBase, step.job.options()?.of_comparison(part))
}

/// The job's access to hosts. This host's configuration completes the login, and nothing else: all hosts of a job copy
/// by the same options.
fn access(options: &JobOptions, node: JobNode, [source, target]: [&Location; 2]) -> Result<RemoteAccess, JobError> {
    let access = options.access.clone();
    if !options.completes_login {
        return Ok(access);
    }
    let (login, target_login) = (node.logins)(source, target)?;
    let typed = &options.access.login;
    let target_login = target_login.map(|login| completed_login(typed, login));
    Ok(RemoteAccess { login: completed_login(typed, login), target_login, ..access })
}

/// The display of a step, by the job's options and its own.
fn display(kept: &JobDisplay, shown: PartDisplay) -> Display {
    let has_lines = kept.progress_every.is_some();
    let (is_json, is_quiet) = match shown {
        PartDisplay::Json => (true, false),
        PartDisplay::Quiet => (false, true),
        PartDisplay::Usual => (kept.is_json, kept.is_quiet),
    };
    let has_bar = terminal::stderr_is_terminal() && kept.log.is_none();
    Display {
        mode: Mode::of_copy(is_json, is_quiet, has_lines, has_bar),
        verbosity: kept.verbosity,
        progress_lines: has_lines,
        program: "haul",
        bits: kept.bits,
        has_statistics: false,
        target: None,
        log: kept.log.clone(),
        list: ListForm::default(),
    }
}

fn reports(kept: &JobDisplay, display: &Display) -> ReportOptions {
    ReportOptions {
        files: display.reports_files(),
        progress_every: kept.progress_every.unwrap_or_else(|| display.mode.progress_every()),
    }
}

/// The lists of shards as sources.
fn source_list(host: Host, name: String, lists: Vec<JobFile>) -> SourceList {
    let of_lines = host.clone();
    let open = Arc::new(move || Box::new(ShardListLines::new(of_lines.clone(), lists.clone())) as Box<dyn ListReader>);
    SourceList { name, host, open }
}

/// Reads lists for the engine.
struct ShardListLines {
    host: Host,
    paths: Option<ShardListReader>,
    /// Lists that are not open yet.
    left: std::vec::IntoIter<JobFile>,
    name: String,
    number: u64,
}

impl ShardListLines {
    fn new(host: Host, lists: Vec<JobFile>) -> Self {
        Self { host, paths: None, left: lists.into_iter(), name: String::new(), number: 0 }
    }
}

impl ListReader for ShardListLines {
    fn next(&mut self, _patience: Duration) -> ListLine {
        loop {
            match self.paths.as_mut().and_then(Iterator::next) {
                Some(Err(error)) => return ListLine::End(Some(format!("{}: {}", self.name, describe(&error)))),
                Some(Ok(path)) => {
                    self.number += 1;
                    let path = OsString::from_vec(path).into();
                    return ListLine::Source(Location { host: self.host.clone(), path });
                }
                None => {
                    let Some(list) = self.left.next() else { return ListLine::End(None) };
                    (self.name, self.number) = (shown(list.path()), 0);
                    match ShardListReader::open(&list) {
                        Ok(paths) => self.paths = Some(paths),
                        Err(error) => return ListLine::End(Some(format!("{}: {}", self.name, describe(&error)))),
                    }
                }
            }
        }
    }

    fn position(&self) -> String {
        format!("path {} of {}", self.number, self.name)
    }
}

/// Runs a planned copy, and records its progress.
pub fn copy(
    plan: PartPlan,
    failures: JobFile,
    step: &StepContext<'_>,
    progress: &LiveProgress,
) -> Result<Outcome, JobError> {
    copy_knowing(BTreeSet::new(), plan, failures, step, progress)
}

/// As [`copy`], without a display of failures that are `known`.
pub fn copy_knowing(
    known: BTreeSet<String>,
    plan: PartPlan,
    failures: JobFile,
    step: &StepContext<'_>,
    progress: &LiveProgress,
) -> Result<Outcome, JobError> {
    let title = plan.copy.list.as_ref().map_or("", |list| &list.name).to_owned();
    let show = show::new(&plan.display, &title, step.steering).map_err(|error| JobError::of_text(&error))?;
    let mut recorder = PartRecorder::new(show, failures, progress.clone(), step.cancel).knowing(known);
    let outcome =
        haul_control::controller::run(plan.copy, (step.node.program)(), step.cancel, step.steering, &mut recorder);
    let outcome = match recorder.full() {
        Some(why) => {
            step.job.directory.hold(why)?;
            Err(Error::Failed(format!("{why}\nthe job is held: free space, then run haul job run again")))
        }
        None if step.cancel.is_cancelled() => outcome.map_err(|_| Error::Interrupted),
        None => outcome,
    };
    recorder.finish(&outcome)?;
    Ok(outcome)
}

/// Logs in to each source and target, before any shard does: a dry run over nothing. Fails if none answers.
pub fn check_ends(step: &StepContext<'_>) -> Result<(), JobError> {
    let step = step.quiet();
    for (at, ends) in step.job.description.ends().iter().enumerate() {
        let mut plan = list_plan(&step, PartSources::Lists { name: String::new(), lists: Vec::new() }, ends)?;
        plan.copy.options.target.sync.is_dry = true;
        match copy(plan, step.job.directory.step_failures("check.jsonl"), &step, &LiveProgress::default())? {
            Ok(_) => return Ok(()),
            Err(Error::Connect(why)) => leave_out(&step.job.directory, at, &why)?,
            Err(error) => return Err(JobError::of_text(&error)),
        }
    }
    Err(JobError::failed("no target answers", "nothing was submitted; check the login with ssh"))
}

/// Tries the ends in a shard's order until their hosts answer. Returns the used ends, and the outcome.
pub fn on_some_ends(
    job: &OpenedJob,
    turn: u32,
    copy: &mut dyn FnMut(&PartEnds) -> Result<Outcome, JobError>,
) -> Result<(PartEnds, Outcome), JobError> {
    let all = job.description.ends();
    let order = turns(&job.directory, turn, all.len());
    let last = order.last().copied();
    for at in order {
        let ends = &all[at];
        let outcome = copy(ends)?;
        match &outcome {
            Err(Error::Connect(why)) if all.len() > 1 => {
                leave_out(&job.directory, at, why)?;
                let (shown, others) = match job.description.source_hosts.len() {
                    2.. => (ends.at_source(job.description.source.as_os_str()), "sources"),
                    _ => (ends.target.clone(), "targets"),
                };
                let shown = escape(shown.as_bytes());
                show::stderr().notice(&format!("{shown} does not answer: other {others} take its turns for a while"));
                if Some(at) == last {
                    return Ok((ends.clone(), outcome));
                }
            }
            _ => return Ok((ends.clone(), outcome)),
        }
    }
    Err(JobError::of_text(&"the job has no target"))
}

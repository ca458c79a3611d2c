//! A copy of a part of a job, by the options of the job's description. All copies of a job are made here.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::Arc;
use std::time::Duration;

use haul_base::copy::error::{Error, Outcome};
use haul_base::copy::location::{Host, Location};
use haul_base::copy::runtime_control::RuntimeControl;
use haul_base::copy::spec::{ListLine, ListReader, SourceList};
use haul_base::sys::cancel::Cancel;
use haul_base::sys::describe::describe;
use haul_job::description::PartEnds;
use haul_job::error::shown;
use haul_job::job_file::JobFile;
use haul_job::shard_list::ShardListReader;
use haul_job::shard_progress::LiveProgress;
use haul_job::targets::{leave_out, turns};
use haul_show as show;

use super::opened::OpenedJob;
use super::recorder::PartRecorder;
use crate::args::operand::parse_operand;
use crate::args::values::Values;
use crate::args::{UsageError, flags};
use crate::commands::own_program::own_program;
use crate::resolve::{HostNames, Plan, hosts};

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

impl PartDisplay {
    /// The display by the options of a step.
    pub fn of(values: &Values) -> Self {
        match (values.is_set(&flags::JSON), values.is_set(&flags::QUIET)) {
            (true, _) => Self::Json,
            (_, true) => Self::Quiet,
            _ => Self::Usual,
        }
    }

    /// Its options.
    pub fn words(self) -> &'static [&'static str] {
        match self {
            Self::Usual => &[],
            Self::Quiet => &["--quiet"],
            Self::Json => &["--json"],
        }
    }
}

/// Options besides those of the job's description: `--dirbase` and the display.
pub fn additional_arguments(job: &OpenedJob, ends: &PartEnds, display: PartDisplay) -> Vec<OsString> {
    let base = ends.at_source(job.description.base.as_os_str());
    let base = [OsStr::new("--dirbase="), &base].into_iter().collect::<OsString>();
    std::iter::once(base).chain(display.words().iter().map(OsString::from)).collect()
}

/// Adds the options of configuration files for a copy between these operands.
pub fn with_files(values: Values, operands: &[OsString]) -> anyhow::Result<Values> {
    let hosts: HostNames = hosts(&values, operands)?;
    Ok(crate::config::complete(values, &hosts)?)
}

/// The target of each part is a directory, and a listed symbolic link stays one, as in a sync. The overwrite policy is
/// that of a copy.
pub fn into_directory(plan: &mut Plan) {
    plan.copy.options.target.sync.into = true;
}

/// The lists of shards as sources.
pub fn source_list(
    job: &OpenedJob,
    ends: &PartEnds,
    name: String,
    lists: Vec<JobFile>,
) -> Result<SourceList, UsageError> {
    let host = parse_operand(&ends.at_source(job.description.base.as_os_str()))?.host;
    let of_lines = host.clone();
    let open = Arc::new(move || Box::new(ShardListLines::new(of_lines.clone(), lists.clone())) as Box<dyn ListReader>);
    Ok(SourceList { name, host, open })
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
    plan: Plan,
    failures: JobFile,
    cancel: &Cancel,
    steering: &RuntimeControl,
    progress: &LiveProgress,
) -> anyhow::Result<Outcome> {
    let title = plan.copy.list.as_ref().map_or("", |list| &list.name).to_owned();
    let show = show::new(&plan.display, &title, steering)?;
    let mut recorder = PartRecorder::new(show, failures, progress.clone());
    let outcome = haul_control::controller::run(plan.copy, own_program(), cancel, steering, &mut recorder);
    let outcome = if cancel.is_cancelled() { outcome.map_err(|_| Error::Interrupted) } else { outcome };
    recorder.finish(&outcome)?;
    Ok(outcome)
}

/// Tries the ends in a shard's order until their hosts answer. Returns the used ends, and the outcome.
pub fn on_some_ends(
    job: &OpenedJob,
    turn: u32,
    copy: &mut dyn FnMut(&PartEnds) -> anyhow::Result<Outcome>,
) -> anyhow::Result<(PartEnds, Outcome)> {
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
                let shown = haul_proto::path::escape(shown.as_bytes());
                show::stderr().notice(&format!("{shown} does not answer: other {others} take its turns for a while"));
                if Some(at) == last {
                    return Ok((ends.clone(), outcome));
                }
            }
            _ => return Ok((ends.clone(), outcome)),
        }
    }
    anyhow::bail!("the job has no target")
}

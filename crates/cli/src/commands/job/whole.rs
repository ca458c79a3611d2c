//! Copies of a job's whole source: to check its options, to finish it, and to compare.

use std::ffi::{OsStr, OsString};

use haul_job::description::PartEnds;
use haul_show::terminal;

use super::opened::OpenedJob;
use super::part::{PartDisplay, additional_arguments, into_directory, with_files};
use crate::args::flags;
use crate::args::job::{JobPart, part_values, verify_values};
use crate::resolve::{Plan, comparison, plan, sync};

/// The copy of the whole source, or of its directories.
pub fn full_copy_plan(job: &OpenedJob, ends: &PartEnds, display: PartDisplay, part: JobPart) -> anyhow::Result<Plan> {
    let description = &job.description;
    let display_words: Vec<_> = display.words().iter().map(OsString::from).collect();
    // A base is refused beside --delete.
    let (source, more) = match deletes(job) {
        true => (typed_source(job, ends), display_words),
        false => (job.full_source(), additional_arguments(job, ends, display)),
    };
    let operands = [source, ends.target.clone()];
    let values = with_files(part_values(job.options()?, &more, part)?, &operands)?;
    let of_kind = if description.is_sync { sync } else { plan };
    let mut plan = of_kind(&values, &operands, terminal::stderr_is_terminal())?;
    into_directory(&mut plan);
    Ok(plan)
}

/// The comparison of a part of source and target.
pub fn verify_plan(job: &OpenedJob, ends: &PartEnds, display: PartDisplay, part: JobPart) -> anyhow::Result<Plan> {
    let operands = match part {
        JobPart::List => vec![ends.target.clone()],
        JobPart::Whole | JobPart::Directories => vec![job.full_source(), ends.target.clone()],
    };
    let mut values = verify_values(job.options()?, &additional_arguments(job, ends, display), part)?;
    if job.description.is_sync && part != JobPart::List {
        values = values.and(vec![(&flags::RECURSIVE.row, None)]);
    }
    let values = with_files(values, &operands)?;
    Ok(comparison(&values, &operands, terminal::stderr_is_terminal())?)
}

/// Whether extraneous entries are to be deleted.
pub fn deletes(job: &OpenedJob) -> bool {
    job.description.has_option(flags::DELETE.id)
}

/// The source for a sync: a trailing slash means its contents.
fn typed_source(job: &OpenedJob, ends: &PartEnds) -> OsString {
    let slash = if job.description.name.is_empty() { "/" } else { "" };
    [&ends.at_source(job.description.source.as_os_str()), OsStr::new(slash)].into_iter().collect()
}

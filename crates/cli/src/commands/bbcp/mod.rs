//! haul under the name bbcp: a copy with bbcp's messages, output streams and exit statuses.
//!
//! bbcp's options are parsed with haul's ([`crate::args`]). Nothing here is used under haul's own name.

mod digest_lines;
mod habits;
mod lines;
mod log;
mod statistics;
mod status;
mod target_names;
mod words;

use std::cell::Cell;
use std::ffi::{OsStr, OsString};
use std::rc::Rc;
use std::time::Duration;

use haul_base::copy::location::Host;
use haul_base::copy::spec::{ChecksumAlgorithm, CopySpec, OverwritePolicy};
use haul_show as show;
use haul_show::exit::Exit;
use haul_show::human::{Human, Verbosity};
use haul_show::output::print;
use haul_show::text::TextOutput;

use self::digest_lines::DigestLines;
use self::lines::{Lines, ReportedDigests, Style};
use self::statistics::Statistics;
use super::copy;
use crate::args::values::Values;
use crate::args::{UsageError, flags};
use crate::resolve::{DigestSink, Plan, plan};

/// Longest time between two samples of a copy, also with rare progress lines.
const SAMPLE_EVERY: Duration = Duration::from_millis(250);
/// Commands of bbftp's `-e`.
const BBFTP_COMMANDS: &[&str] = &["put", "get", "mput", "mget", "cd", "lcd", "ls", "dir", "mkdir", "rm", "setnbstream"];

/// The digest of `-E`.
struct ShownDigest {
    algorithm: ChecksumAlgorithm,
    sink: DigestSink,
    /// Whether `%` asked for the source's.
    at_source: bool,
}

/// Copies `operands` as bbcp does. Returns the exit status.
pub fn run(values: &Values, operands: &[OsString]) -> anyhow::Result<u8> {
    refuse_bbftp(values, operands)?;
    habits::refuse_contradictions(values)?;
    let mut plan = plan(values, &habits::operands(values, operands), false)?;
    habits::refuse_empty_list(plan.copy.list.as_ref())?;
    let at_source = plan.copy.options.integrity.checksum.as_ref().is_some_and(|checksum| checksum.at_source);
    habits::adopt(&mut plan);
    let style = style(values, &plan);
    let digest = suit(&mut plan, style, at_source);
    let status = Rc::new(Cell::new(0));
    let shown_status = Rc::clone(&status);
    let exit = copy::carry_out_with(plan, |plan, _| Ok(Box::new(lines(plan, style, digest, shown_status)?)))?;
    Ok(match (exit, status.get()) {
        (Exit::Done, status) => status,
        (_, status::MISMATCH) if at_source => status::DAMAGED,
        (exit, 0) => status::of_incomplete(exit),
        (_, status) => status,
    })
}

/// Shows an error that prevented a copy. Returns the exit status.
pub fn refuse(error: &anyhow::Error) -> u8 {
    let text = error.to_string();
    show::stderr().called("bbcp").error(&words::in_bbcps_letters(&text));
    let status = status::of_refusal(error);
    if error.is::<UsageError>() && status::shows_usage(&text, status) {
        print(&format!("{}\n", crate::args::help::BBCP_USAGE));
    }
    status
}

/// Refuses bbftp's `-e` with commands: bbcp's `-e` has no argument, and would copy a file of that name.
fn refuse_bbftp(values: &Values, operands: &[OsString]) -> Result<(), UsageError> {
    let Some(first) = operands.first().and_then(|word| word.to_str()).filter(|_| values.is_set(&flags::ERROR_CHECK))
    else {
        return Ok(());
    };
    let command = first.split_whitespace().next().unwrap_or_default();
    let is_command = first.contains(char::is_whitespace) && BBFTP_COMMANDS.contains(&command);
    if !is_command || std::fs::symlink_metadata(OsStr::new(first)).is_ok() {
        return Ok(());
    }
    Err(UsageError::new(format!("-e '{}': -e with commands is an option of bbftp", haul_show::text::harmless(first)))
        .remedy("bbcp's -e takes no argument: write bbcp FILE HOST:FILE"))
}

fn style(values: &Values, plan: &Plan) -> Style {
    let options = &plan.copy.options;
    let (verbosity, progress) = (plan.display.verbosity, plan.display.progress_lines);
    Style {
        progress_every: progress.then_some(options.reports.progress_every),
        is_verbose: verbosity > 0,
        announces: progress || verbosity > 1,
        has_statistics: verbosity > 1,
        is_debug: verbosity > 2,
        indexes: options.source.recursive && (progress || verbosity > 0),
        omits: options.target.write.overwrite == OverwritePolicy::Omit,
        appends: values.is_set(&flags::JOURNAL_DIR),
        replaces: values.is_set(&flags::FORCE),
        is_piped: options.pipes.source.is_some(),
    }
}

/// Requests the events for bbcp's lines from the engine, and takes over the output of `-E`.
fn suit(plan: &mut Plan, style: Style, at_source: bool) -> Option<ShownDigest> {
    let digest = plan.digests.output.take();
    let digest = digest.map(|(algorithm, sink)| ShownDigest { algorithm, sink, at_source });
    let options = &mut plan.copy.options;
    options.stop.at_failure = true;
    options.reports.files |= style.announces || style.appends || style.is_verbose || (style.omits && digest.is_some());
    options.target.sync.tells_items = style.announces || style.appends || digest.is_some();
    options.reports.progress_every = options.reports.progress_every.min(SAMPLE_EVERY);
    digest
}

/// bbcp's display of a copy.
fn lines(plan: &Plan, style: Style, digest: Option<ShownDigest>, status: Rc<Cell<u8>>) -> anyhow::Result<Lines> {
    let text = || -> anyhow::Result<TextOutput> {
        let text = match &plan.display.log {
            None => show::stderr(),
            Some(path) => TextOutput::new(Box::new(log::open(path)?), false),
        };
        Ok(text.called("bbcp"))
    };
    let level = match (style.is_debug, style.is_verbose) {
        (true, _) => Verbosity::Path,
        (false, true) => Verbosity::Normal,
        _ => Verbosity::Errors,
    };
    let hosts = [plan.copy.source_host(), &plan.copy.target.host].map(host_name);
    let statistics = Statistics::new(hosts.clone(), plan.copy.options.streams.socket.clone());
    let [_, target_host] = hosts;
    let mut lines = Lines::new(Human::new(text()?, level), text()?, style, &plan.copy, status);
    lines.statistics = style.has_statistics.then_some(statistics);
    lines.ends_log = plan.display.log.is_some();
    if let Some(ShownDigest { algorithm, sink, at_source }) = digest {
        let written = DigestLines::new(&sink, target_host, at_source)?;
        lines.digests = Some(ReportedDigests::new(algorithm, written));
    }
    Ok(lines)
}

/// A host in bbcp's form: as typed, without the user.
fn host_name(host: &Host) -> String {
    host.name().unwrap_or("localhost").to_owned()
}

/// Whether all sources of a copy are one file or directory.
fn has_one_source(copy: &CopySpec) -> bool {
    copy.list.is_none() && copy.sources.len() == 1
}

/// The present date and time: `140304 06:46:12`.
fn stamp() -> String {
    jiff::Zoned::now().strftime("%y%m%d %H:%M:%S").to_string()
}

//! `haul SOURCE... TARGET`: runs a copy and displays it.

use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use haul_base::copy::error::{Error, Outcome};
use haul_base::copy::event::{Event, Observer};
use haul_base::copy::location::{Host, Location};
use haul_base::copy::null::null_size;
use haul_base::copy::runtime_control::RuntimeControl;
use haul_base::copy::spec::{
    ChecksumAlgorithm, ChecksumOptions, ChecksumReference, CopyOptions, CopySpec, PipeEnd, is_null,
};
use haul_base::sys::cancel::Cancel;
use haul_base::sys::describe::describe;
use haul_job::notification;
use haul_proto::path::escape;
use haul_show::display::Mode;
use haul_show::exit::Exit;
use haul_show::manifest_line::LineFormat;
use haul_show::report::CopyReport;
use haul_show::{self as show, Half, ListForm, Show, terminal};

use super::explain;
use crate::args::values::Values;
use crate::args::{Dialect, UsageError, flags};
use crate::checksums::Checksums;
use crate::commands::own_program::own_program;
use crate::manifest::Manifest;
use crate::metrics::CopyMetrics;
use crate::path_memory::PathMemory;
use crate::resolve::{DigestSink, Plan, plan, typed_lists};
use crate::signals::Watch;
use crate::slips::{foreign_pattern, forgotten_colon, quoted_pattern, split_name};

/// Copies `operands`. The last operand is the target.
pub fn run(values: &Values, operands: &[OsString]) -> anyhow::Result<Exit> {
    run_as(values, operands, display)
}

/// Copies `operands` with the display that `make` returns.
pub fn run_as(values: &Values, operands: &[OsString], make: impl MakeDisplay) -> anyhow::Result<Exit> {
    let mut plan = plan(values, operands, terminal::stderr_is_terminal())?;
    warn_of_slips(&mut plan, values, operands);
    explain::asked(values, &plan).unwrap_or_else(|| carry_out_and_notify_as(values, plan, make))
}

/// Warns before the start of a host without its colon, or a name without its quotes.
pub fn warn_of_slips(plan: &mut Plan, values: &Values, operands: &[OsString]) {
    if plan.copy.options.pipes.target.is_none() && values.dialect() == Dialect::Haul {
        let config = values.last(&flags::SSH_CONFIG);
        plan.notes.extend(operands.iter().find_map(|operand| forgotten_colon(operand, config)));
        plan.notes.extend(split_name(operands));
        let sources = operands.split_last().map_or(&[][..], |(_, sources)| sources);
        plan.notes.extend(quoted_pattern(sources));
        let patterns = typed_lists(values).filter_map(|list| list.pattern());
        plan.notes.extend(patterns.filter_map(|(option, pattern)| foreign_pattern(&option, pattern, sources)));
    }
}

/// Runs a planned job, then the command of `--notify`.
pub fn carry_out_and_notify(values: &Values, plan: Plan) -> anyhow::Result<Exit> {
    carry_out_and_notify_as(values, plan, display)
}

fn carry_out_and_notify_as(values: &Values, plan: Plan, make: impl MakeDisplay) -> anyhow::Result<Exit> {
    let exit = carry_out_as(plan, make)?;
    notify(values, exit, &[])?;
    Ok(exit)
}

/// Runs the command of `--notify`, if there is one.
pub fn notify(values: &Values, exit: Exit, environment: &[(&str, &OsStr)]) -> Result<(), UsageError> {
    if let Some(command) = values.get(&flags::NOTIFY)? {
        notification::notify(&command, exit, environment);
    }
    Ok(())
}

/// Runs a planned job with the display that `make` returns, and names entries where that is asked for.
pub fn carry_out_as(mut plan: Plan, make: impl MakeDisplay) -> anyhow::Result<Exit> {
    name_entries(&mut plan);
    carry_out_with(plan, make)
}

/// With `-v`, names the entries that the target creates, changes or deletes, unless standard output has other contents.
/// A server without read access reports no entries.
pub fn name_entries(plan: &mut Plan) {
    let is_possible = plan.display.names_entries() && !takes_stdout(plan) && !plan.copy.options.compare;
    let is_tree = !is_null(&plan.copy.target.path) && plan.copy.options.pipes.target.is_none();
    let is_served = matches!(plan.copy.target.host, Host::Served { .. });
    let sync = &mut plan.copy.options.target.sync;
    if is_possible && is_tree && !is_served && !sync.tells_items {
        sync.tells_items = true;
        plan.display.list = ListForm::Names;
    }
}

/// Whether standard output is for digests or the data itself.
fn takes_stdout(plan: &Plan) -> bool {
    plan.checksums.as_deref() == Some(Path::new("-"))
        || matches!(plan.digests.output, Some((_, DigestSink::Shown)))
        || matches!(plan.copy.options.pipes.target, Some(PipeEnd::Standard(_)))
}

/// Runs a planned job with the display that `make` returns.
pub fn carry_out_with(plan: Plan, make: impl MakeDisplay) -> anyhow::Result<Exit> {
    let cancel = Cancel::new();
    let steering = RuntimeControl::new();
    let watch = Watch::start(cancel.clone(), steering.rate().clone(), plan.time_limit)?;
    perform_with(plan, &cancel, &steering, &watch, make)
}

/// Makes the display of a copy.
pub trait MakeDisplay: FnOnce(&Plan, &RuntimeControl) -> anyhow::Result<Box<dyn Show>> {}

impl<F: FnOnce(&Plan, &RuntimeControl) -> anyhow::Result<Box<dyn Show>>> MakeDisplay for F {}

/// The usual display of a copy.
pub fn display(plan: &Plan, steering: &RuntimeControl) -> anyhow::Result<Box<dyn Show>> {
    show::new(&plan.display, &title(&plan.copy), steering)
}

/// Runs the copy of `plan`, with its output and reports.
pub fn perform(plan: Plan, cancel: &Cancel, steering: &RuntimeControl, watch: &Watch) -> anyhow::Result<Exit> {
    perform_with(plan, cancel, steering, watch, display)
}

/// Runs the copy of `plan` with the display that `make` returns.
pub fn perform_with(
    mut plan: Plan,
    cancel: &Cancel,
    steering: &RuntimeControl,
    watch: &Watch,
    make: impl MakeDisplay,
) -> anyhow::Result<Exit> {
    refuse_two_on_a_screen(&plan)?;
    // A FIFO is waited for, which a signal ends.
    let (mut audience, metrics) = match watch.during(|| audience(&mut plan, steering, make)) {
        Err(_) if cancel.is_cancelled() => {
            show::stderr().called(plan.display.program).error("interrupted");
            return Ok(Exit::Interrupted);
        }
        opened => opened?,
    };
    let missing = missing_sources(&plan);
    let paths = PathMemory::of_copy(&plan.copy).filter(|_| missing.is_none());
    let is_unlikely = paths.as_ref().is_some_and(|paths| paths.failed.is_some());
    plan.copy.options.streams.network.is_direct_unlikely = is_unlikely;
    let outcome = match missing {
        Some(error) => Err(error),
        None => {
            watch.during(|| haul_control::controller::run(plan.copy, own_program(), cancel, steering, &mut audience))
        }
    };
    paths.iter().for_each(|paths| paths.record(&outcome));
    let outcome = match watch.time_is_up() {
        Some(text) => outcome.map_err(|_| Error::Broken(text)),
        None if cancel.is_cancelled() => interrupted(outcome),
        None => outcome,
    };
    let outcome = outcome.map_err(|error| if audience.is_resumable { error } else { error.of_nothing_kept() });
    let written = metrics.map_or(Ok(()), |metrics| metrics.write(&outcome));
    let exit = audience.close(outcome);
    written?;
    Ok(exit)
}

/// Opens all outputs of a copy.
fn audience(
    plan: &mut Plan,
    steering: &RuntimeControl,
    make: impl MakeDisplay,
) -> anyhow::Result<(Audience, Option<CopyMetrics>)> {
    let manifest = match plan.digests.expected.take() {
        Some((file, algorithm)) => Some(expect(&file, algorithm, &mut plan.copy.options)?),
        None => None,
    };
    let writers = writers(plan)?;
    let report = plan.report.as_deref().map(|to| CopyReport::create(to, &plan.copy)).transpose()?;
    let metrics = plan.metrics.as_deref().map(|to| metrics(to, &plan.copy.target)).transpose()?;
    let mut show = make(plan, steering)?;
    plan.notes.iter().for_each(|note| show.event(&Event::Warning(note.clone())));
    Ok((Audience { show, writers, manifest, report, is_resumable: false }, metrics))
}

/// Without any source here, no login to the target's host is needed to say so. bbcp logs in first.
fn missing_sources(plan: &Plan) -> Option<Error> {
    let Plan { copy, display, .. } = plan;
    let is_asked = copy.list.is_none() && copy.options.source.base.is_none() && copy.options.pipes.source.is_none();
    if !is_asked || copy.target.host == Host::Local || display.program == Dialect::Bbcp.program() {
        return None;
    }
    let absent = |source: &Location| {
        let is_file = source.host == Host::Local && null_size(&source.path).is_none();
        let error = is_file.then(|| source.path.symlink_metadata().err()).flatten()?;
        let is_absent = error.kind() == io::ErrorKind::NotFound;
        is_absent.then(|| format!("{}: {}", escape(source.path.as_os_str().as_bytes()), describe(&error)))
    };
    let absent: Option<Vec<_>> = copy.sources.iter().map(absent).collect();
    absent.filter(|texts| !texts.is_empty()).map(|texts| Error::Failed(texts.join("\nnote: ")))
}

fn metrics(to: &Path, target: &Location) -> anyhow::Result<CopyMetrics> {
    let shown = escape(to.as_os_str().as_bytes());
    CopyMetrics::create(to, target).map_err(|error| anyhow::anyhow!("--metrics {shown}: {error}"))
}

/// Refuses other output to the terminal of a dashboard.
fn refuse_two_on_a_screen(plan: &Plan) -> Result<(), UsageError> {
    if plan.display.mode == Mode::Tui && takes_stdout(plan) && io::stdout().is_terminal() {
        return Err(UsageError::new("--tui: standard output of this copy is on the same terminal")
            .remedy("redirect it to a file, or omit --tui"));
    }
    Ok(())
}

/// Reads expected digests, and passes them to the copy.
fn expect(
    file: &Path,
    algorithm: Option<ChecksumAlgorithm>,
    options: &mut CopyOptions,
) -> Result<Manifest, UsageError> {
    let manifest =
        Manifest::read(file, algorithm).map_err(|error| UsageError::of_lines(&format!("--expect {error}")))?;
    let algorithm = manifest.lines.algorithm();
    let against = ChecksumReference::Lines(Arc::clone(&manifest.lines));
    let other =
        options.integrity.checksum.as_ref().map(|checksum| checksum.algorithm).filter(|asked| *asked != algorithm);
    if let Some(other) = other {
        let (has, wants) = (algorithm.name(), other.name());
        return Err(UsageError::new(format!(
            "--expect has {has}, but another option needs {wants}: only one digest can be computed"
        )));
    }
    options.integrity.checksum = Some(ChecksumOptions { algorithm, at_source: false, against });
    Ok(manifest)
}

/// The writers of digest lines.
fn writers(plan: &Plan) -> anyhow::Result<Vec<Checksums>> {
    let mut writers = Vec::new();
    let named = |option: &str, to: &Path, made: io::Result<Checksums>| {
        let shown = escape(to.as_os_str().as_bytes());
        made.with_context(|| shown).map_err(|error| anyhow::anyhow!("{option} {error:#}"))
    };
    if let Some(to) = &plan.checksums {
        let form = if plan.digests.of_lines.is_some() { LineFormat::Coreutils } else { LineFormat::B3sum };
        writers.push(named("--checksums", to, Checksums::create(to, form))?);
    }
    if let Some((algorithm, output)) = &plan.digests.output {
        let form = LineFormat::Bbcp(*algorithm);
        match output {
            DigestSink::Added(to) => writers.push(named("--checksum", to, Checksums::append(to, form))?),
            DigestSink::Shown if plan.display.mode == Mode::Json => {}
            DigestSink::Shown if matches!(plan.copy.options.pipes.target, Some(PipeEnd::Standard(_))) => {
                writers.push(Checksums::on_standard_error(form));
            }
            DigestSink::Shown => {
                let to = Path::new("-");
                writers.push(named("--checksum", to, Checksums::create(to, form))?);
            }
        }
    }
    Ok(writers)
}

/// Turns any failure of a cancelled copy into an interruption.
fn interrupted(outcome: Outcome) -> Outcome {
    outcome.map_err(|_| Error::Interrupted)
}

/// The title before the bar: the name of the copied data.
fn title(copy: &CopySpec) -> String {
    if let Some(list) = &copy.list {
        return list.name.clone();
    }
    if let Some(PipeEnd::Standard(_)) = copy.options.pipes.source {
        return "stdin".to_owned();
    }
    let Some(first) = copy.sources.first() else { return String::new() };
    let name = first.path.file_name().unwrap_or(first.path.as_os_str());
    let name = escape(name.as_bytes());
    match copy.sources.len() {
        1 => name,
        several => format!("{name} + {}", several - 1),
    }
}

/// All observers of the copy.
struct Audience {
    show: Box<dyn Show>,
    writers: Vec<Checksums>,
    manifest: Option<Manifest>,
    report: Option<CopyReport>,
    /// Whether a rerun can resume what ended early.
    is_resumable: bool,
}

impl Observer for Audience {
    fn event(&mut self, event: &Event) {
        if let Event::Stopped(summary) = event {
            self.is_resumable = summary.is_resumable;
        }
        self.show.event(event);
        self.report.iter_mut().for_each(|report| report.event(event));
        for complaint in self.writers.iter_mut().filter_map(|writer| writer.event(event)) {
            self.show.complain(&complaint);
        }
        let is_unlisted = self.manifest.as_mut().is_some_and(|manifest| manifest.event(event));
        if let Event::Checksum { path, .. } = event
            && is_unlisted
        {
            self.show.without_other_half(Half::File, path);
        }
    }
}

impl Audience {
    /// Ends all output. A write error makes a successful copy a failed one.
    fn close(mut self, mut outcome: Outcome) -> Exit {
        if let (Some(manifest), Ok(summary)) = (self.manifest.take(), &mut outcome) {
            let halves = manifest.halves();
            halves.unmet.iter().for_each(|path| self.show.without_other_half(Half::Line, path));
            halves.messages.iter().for_each(|message| self.show.complain(message));
            summary.files.failed += halves.count;
        }
        let mut incomplete = false;
        if let Err(error) = self.show.finish(&outcome) {
            self.show.complain(&format!("standard output: cannot write all events: {error}"));
            incomplete = true;
        }
        for report in self.writers.into_iter().filter(|_| outcome.is_ok()).map(Checksums::finish) {
            report.messages.iter().for_each(|message| self.show.complain(message));
            incomplete |= report.incomplete;
        }
        if let Some(Err(complaint)) = self.report.map(|report| report.finish(&outcome)) {
            self.show.complain(&complaint.to_string());
            incomplete = true;
        }
        match Exit::of(&outcome) {
            exit if exit.is_complete() && incomplete => Exit::Failed,
            exit => exit,
        }
    }
}

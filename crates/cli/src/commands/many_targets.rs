//! `haul SOURCE... --to TARGET,...`: copies the sources to several targets at the same time.
//!
//! Each target has a copy of its own, with its own workers: it verifies, resumes and ends as a copy to that target alone.
//! All sources read through the page cache and leave their pages there, so the data is read once from the disk.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, PathBuf};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use haul_base::copy::location::{Host, Location};
use haul_base::copy::runtime_control::RuntimeControl;
use haul_base::copy::spec::{CacheUse, DirectIo, is_null};
use haul_base::secrets::without_secrets;
use haul_base::sys::cancel::Cancel;
use haul_base::sys::describe::describe_start;
use haul_base::sys::sync::lock;
use haul_control::operand::{host_label, parse_operand};
use haul_proto::limits::RATE_MIN;
use haul_proto::path::escape;
use haul_show as show;
use haul_show::display::{Mode, output};
use haul_show::exit::Exit;
use haul_show::json::{JobLine, TargetStatus, encode};
use haul_show::output::print;
use haul_show::{Show, terminal, units};

use crate::args::row::OptionRow;
use crate::args::values::Values;
use crate::args::{UsageError, contradiction, flags};
use crate::commands::configured::between;
use crate::commands::{copy, explain};
use crate::resolve::{Plan, plan};
use crate::signals::Watch;

/// Most targets: each has a process here, and one there.
const TARGETS_MAX: usize = 256;
/// Interval of progress lines on a terminal, which has no room for a bar for each target.
const PROGRESS_EVERY: Duration = Duration::from_secs(5);
/// Options for one target, or one reading of the source.
const REFUSED: [&OptionRow; 10] = [
    &flags::PAIRS.row,
    &flags::PIPE.row,
    &flags::REALTIME.row,
    &flags::DURATION.row,
    &flags::TUI.row,
    &flags::REPORT.row,
    &flags::METRICS.row,
    &flags::CHECKSUMS.row,
    &flags::CHECKSUM.row,
    &flags::REMOVE_SOURCE_FILES.row,
];

/// Copies `sources` to all targets. Returns the status of all copies, or the worst.
pub fn run(values: &Values, sources: &[OsString]) -> anyhow::Result<Exit> {
    let plans = plans(values, sources, terminal::stderr_is_terminal())?;
    if let Some(explained) = plans.first().and_then(|plan| explain::asked(values, plan)) {
        return explained;
    }
    let exit = carry_out(plans, copy::display)?;
    copy::notify(values, exit, &[])?;
    Ok(exit)
}

/// The plan of each target's copy.
pub fn plans(values: &Values, sources: &[OsString], stderr_is_terminal: bool) -> anyhow::Result<Vec<Plan>> {
    let targets = values.all(&flags::TO)?.concat();
    refuse_options(values)?;
    refuse_target_among(sources)?;
    refuse_targets(values, &targets)?;
    let of_target = |target: &OsString| {
        let operands = [sources, std::slice::from_ref(target)].concat();
        let values = between(values.clone(), &operands)?;
        refuse_options(&values)?;
        let mut plan = plan(&values, &operands, stderr_is_terminal)?;
        if plan.copy.options.pipes.source.is_some() || plan.copy.options.pipes.target.is_some() {
            return Err(UsageError::new("--to: a pipe has one source and one target").into());
        }
        adapt(&mut plan, shown(target), targets.len() as u64, values.is_set(&flags::PROGRESS));
        anyhow::Ok(plan)
    };
    targets.iter().map(of_target).collect()
}

fn refuse_options(values: &Values) -> Result<(), UsageError> {
    if let Some(other) = values.first_of(&REFUSED) {
        return Err(contradiction(&flags::TO, other));
    }
    let is = |word: Option<&OsStr>, refused: &[&str]| word.is_some_and(|word| refused.iter().any(|one| word == *one));
    let rereads = "each target's copy would read the source from the disk again";
    let (what, why) = match () {
        () if is(values.last(&flags::UNBUFFERED), &["s", "st"]) => ("--unbuffered s", rereads),
        () if is(values.last(&flags::CACHE), &["cold"]) => ("--cache cold", rereads),
        () if is(values.last(&flags::INFILES), &["-"]) => ("--infiles -", "standard input can be read once"),
        () => return Ok(()),
    };
    Err(UsageError::new(format!("--to cannot be used with {what}: {why}")))
}

/// All operands are sources, on one host.
fn refuse_target_among(sources: &[OsString]) -> Result<(), UsageError> {
    let (Some(first), Some(last)) = (sources.first(), sources.last()) else { return Ok(()) };
    let (source, target) = (parse_operand(first)?, parse_operand(last)?);
    if source.host == target.host {
        return Ok(());
    }
    let last = shown(last);
    Err(UsageError::new(format!(
        "{last}: with --to, all operands are sources, but {} is another host",
        host_label(&target.host)
    ))
    .remedy(format!("name all targets in one list: --to {last},...")))
}

/// Refuses targets that two copies would write to.
fn refuse_targets(values: &Values, targets: &[OsString]) -> Result<(), UsageError> {
    if targets.len() > TARGETS_MAX {
        return Err(UsageError::new(format!("--to: {} targets, but at most {TARGETS_MAX}", targets.len())));
    }
    let places = targets.iter().map(|target| parse_operand(target).map(place)).collect::<Result<Vec<_>, _>>()?;
    for (at, place) in places.iter().enumerate() {
        for (other, earlier) in places[..at].iter().enumerate() {
            let (here, there) = (shown(&targets[at]), shown(&targets[other]));
            if place == earlier {
                return Err(UsageError::new(format!("--to: {here} and {there} are the same target")));
            }
            let is_inside = place.path.starts_with(&earlier.path) || earlier.path.starts_with(&place.path);
            if values.is_set(&flags::DELETE) && place.host == earlier.host && is_inside {
                return Err(UsageError::new(format!(
                    "--delete: one of the targets {here} and {there} contains the other"
                )));
            }
        }
    }
    Ok(())
}

/// A target in the form in which two spellings of it are equal, as far as this machine can tell.
fn place(Location { host, path }: Location) -> Location {
    let path = match host {
        Host::Local if !is_null(&path) => path.canonicalize().or_else(|_| std::path::absolute(&path)).unwrap_or(path),
        _ => path,
    };
    Location { host, path: path.components().filter(|part| *part != Component::CurDir).collect::<PathBuf>() }
}

/// A target in messages.
fn shown(target: &OsStr) -> String {
    without_secrets(&escape(target.as_bytes())).into_owned()
}

/// Makes a plan one of `count`.
fn adapt(plan: &mut Plan, target: String, count: u64, has_progress: bool) {
    copy::name_entries(plan);
    let options = &mut plan.copy.options;
    // Nothing else reads the source once: direct I/O and dropped pages are for one reader.
    options.storage.source.direct = DirectIo::Never;
    options.storage.source.cache = CacheUse::Keep;
    let streams = &mut options.streams;
    streams.rate_bytes_per_s = streams.rate_bytes_per_s.map(|rate| (rate / count).max(RATE_MIN));
    plan.display.target = Some(target);
    if plan.display.mode == Mode::Bar {
        plan.display.mode = Mode::ProgressLines;
        if !has_progress {
            options.reports.progress_every = PROGRESS_EVERY;
        }
    }
}

/// Runs the copies of all plans, each with the display that `make` returns. Several end with a list of their statuses.
pub fn carry_out(
    plans: Vec<Plan>,
    make: impl Fn(&Plan, &RuntimeControl) -> anyhow::Result<Box<dyn Show>> + Sync,
) -> anyhow::Result<Exit> {
    let plans = match <[Plan; 1]>::try_from(plans) {
        Ok([plan]) if plan.display.target.is_none() => return copy::carry_out_as(plan, make),
        Ok(only) => only.into(),
        Err(several) => several,
    };
    let Some(Plan { display, time_limit, .. }) = plans.first() else { return Ok(Exit::Done) };
    let (display, time_limit) = (display.clone(), *time_limit);
    let targets: Vec<_> = plans.iter().map(|plan| plan.display.target.clone().unwrap_or_default()).collect();
    let copies = RunningCopies::start(plans.len(), time_limit)?;
    let exits = thread::scope(|scope| {
        let (copies, make) = (&copies, &make);
        let of_target = |(index, plan): (usize, Plan)| {
            let named = thread::Builder::new().name("haul-to".to_owned());
            named.spawn_scoped(scope, move || copies.perform(index, plan, make))
        };
        let threads: Vec<_> = plans.into_iter().enumerate().map(of_target).collect();
        let ended = threads.into_iter().map(|thread| match thread {
            Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            Err(error) => {
                show::stderr().error(&format!("cannot start a thread: {}", describe_start(&error)));
                Exit::Failed
            }
        });
        ended.collect::<Vec<_>>()
    });
    let exit = Exit::of_several(&exits);
    match display.mode {
        Mode::Json => print(&encode(&JobLine::Targets { targets: statuses(targets, &exits), status: exit.number() })),
        Mode::Quiet if exit == Exit::Done => {}
        _ => output(&display)?.notice(&account(&targets, &exits)),
    }
    Ok(exit)
}

/// The copies of this process.
struct RunningCopies {
    cancel: Cancel,
    controls: Vec<RuntimeControl>,
    watch: Watch,
    /// The number of copies that have not ended.
    left: Mutex<u64>,
}

impl RunningCopies {
    fn start(count: usize, time_limit: Option<Duration>) -> anyhow::Result<Self> {
        let cancel = Cancel::new();
        let controls: Vec<_> = std::iter::repeat_with(RuntimeControl::new).take(count).collect();
        let rates = controls.iter().map(|control| control.rate().clone()).collect();
        let watch = Watch::start_for_several(cancel.clone(), rates, time_limit)?;
        Ok(Self { cancel, controls, watch, left: Mutex::new(count as u64) })
    }

    /// Runs the copy to a target.
    fn perform(
        &self,
        index: usize,
        plan: Plan,
        make: &(impl Fn(&Plan, &RuntimeControl) -> anyhow::Result<Box<dyn Show>> + Sync),
    ) -> Exit {
        let (display, control) = (plan.display.clone(), &self.controls[index]);
        let ended = copy::perform_with(plan, &self.cancel, control, &self.watch, make);
        // The others share the rate from now on.
        let mut left = lock(&self.left);
        self.controls.iter().for_each(|control| control.rate().reshare(*left, *left - 1));
        *left -= 1;
        drop(left);
        ended.unwrap_or_else(|error| {
            show::stderr().about(display.target.as_deref()).error(&error.to_string());
            if error.is::<UsageError>() { Exit::Usage } else { Exit::Failed }
        })
    }
}

fn statuses(targets: Vec<String>, exits: &[Exit]) -> Vec<TargetStatus> {
    targets.into_iter().zip(exits).map(|(to, exit)| TargetStatus { to, status: exit.number() }).collect()
}

/// A line for all targets, and one for each.
fn account(targets: &[String], exits: &[Exit]) -> String {
    let complete = exits.iter().filter(|exit| exit.is_complete()).count();
    let mut text = format!("{complete} of {} complete", units::counted(exits.len() as u64, "target", "targets"));
    for (target, exit) in targets.iter().zip(exits) {
        let ended = match exit {
            Exit::Done => "complete",
            Exit::Vanished => "complete, but entries vanished at the source (status 5)",
            Exit::Failed => "failed (status 1)",
            Exit::Usage => "refused (status 2)",
            Exit::Unreachable => "not reached (status 3)",
            Exit::Interrupted => "interrupted, rerun to resume (status 4)",
            // No copy has them.
            Exit::Conflicts => "conflicts (status 6)",
        };
        text.push_str(&format!("\n  {target}: {ended}"));
    }
    text
}

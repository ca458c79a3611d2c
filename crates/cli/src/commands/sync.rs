//! `haul sync SOURCE... TARGET`: makes the target match the sources; with `--watch`, again after each change.

use std::ffi::OsString;

use haul_base::copy::runtime_control::RuntimeControl;
use haul_base::sys::cancel::Cancel;
use haul_proto::watch::ChangedPart;
use haul_show::exit::Exit;
use haul_show::terminal;

use crate::args::row::OptionRow;
use crate::args::values::Values;
use crate::args::{UsageError, contradiction, flags};
use crate::commands::copy::{display, name_entries, perform_with};
use crate::commands::watch::{WatchedRoot, repeat};
use crate::resolve::{Plan, sync};
use crate::signals::Watch;

/// Options without a meaning for several runs.
const OF_ONE_RUN: [&OptionRow; 9] = [
    &flags::DRY_RUN.row,
    &flags::REMOVE_SOURCE_FILES.row,
    &flags::INFILES.row,
    &flags::DIRBASE.row,
    &flags::REPORT.row,
    &flags::METRICS.row,
    &flags::EXPECT.row,
    &flags::CHECKSUMS.row,
    &flags::NOTIFY.row,
];

/// Syncs `operands`. The last operand is the target.
pub fn run(values: &Values, operands: &[OsString]) -> anyhow::Result<Exit> {
    let mut plan = sync(values, operands, terminal::stderr_is_terminal())?;
    super::copy::warn_of_slips(&mut plan, values, operands);
    if values.is_set(&flags::WATCH) {
        return watch(values, operands, plan);
    }
    super::explain::asked(values, &plan).unwrap_or_else(|| super::copy::carry_out_and_notify(values, plan))
}

fn watch(values: &Values, operands: &[OsString], mut plan: Plan) -> anyhow::Result<Exit> {
    if let Some(row) = values.first_of(&OF_ONE_RUN) {
        return Err(contradiction(&flags::WATCH, row).into());
    }
    let [source] = &plan.copy.sources[..] else {
        return Err(UsageError::new("--watch watches one source").remedy("run a command for each").into());
    };
    let root = WatchedRoot {
        root: source.clone(),
        access: plan.copy.access.clone(),
        filters: plan.copy.options.source.filters.clone(),
    };
    let (cancel, steering) = (Cancel::new(), RuntimeControl::new());
    let signals = Watch::start(cancel.clone(), steering.rate().clone(), plan.time_limit)?;
    let is_quiet = values.is_set(&flags::QUIET) || values.is_set(&flags::JSON);
    let mut notes = std::mem::take(&mut plan.notes);
    repeat(vec![root], is_quiet, &cancel, |part| {
        let mut plan = sync(values, operands, terminal::stderr_is_terminal())?;
        plan.notes = std::mem::take(&mut notes);
        look_at(&mut plan, part);
        name_entries(&mut plan);
        perform_with(plan, &cancel, &steering, &signals, display)
    })
}

/// Restricts a run to what has changed. Groups of hard links may reach beyond that.
fn look_at(plan: &mut Plan, part: &ChangedPart) {
    let options = &mut plan.copy.options;
    if let ChangedPart::Paths(paths) = part
        && !options.metadata.preserve.hard_links
    {
        options.source.filters.changed = Some(paths.clone());
        // The first run has deleted them.
        options.target.sync.delete_filtered = false;
    }
}

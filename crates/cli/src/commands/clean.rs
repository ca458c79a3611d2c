//! `haul clean PATH...`: removes partial files of unfinished copies.

use std::ffi::OsString;

use haul_base::sys::describe::describe;
use haul_engine::partials::PartialRemoval;
use haul_show::exit::Exit;
use haul_show::partials::PartialOutcome;

use super::places::visit;
use crate::args::values::Values;

/// Removes unfinished files at `paths`, except for those of a running copy.
pub fn run(values: &Values, paths: &[OsString]) -> anyhow::Result<Exit> {
    visit("clean", values, paths, |account, mut partial| match partial.remove() {
        Ok(PartialRemoval::Removed) => account.report(&partial.about, PartialOutcome::Removed),
        Ok(PartialRemoval::Kept) => account.report(&partial.about, PartialOutcome::Kept),
        Ok(PartialRemoval::Vanished) => {}
        Err(error) => account.fail(&partial.about.path, &describe(&error)),
    })
}

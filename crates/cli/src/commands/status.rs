//! `haul status PATH...`: partial files of unfinished copies, and their progress.

use std::ffi::OsString;

use haul_show::exit::Exit;
use haul_show::partials::PartialOutcome;

use super::places::visit;
use crate::args::values::Values;

/// Shows unfinished files at `paths`.
pub fn run(values: &Values, paths: &[OsString]) -> anyhow::Result<Exit> {
    visit("status", values, paths, |account, partial| account.report(&partial.about, PartialOutcome::Shown))
}

//! `haul sync SOURCE... TARGET`: makes the target match the sources.

use std::ffi::OsString;

use haul_show::exit::Exit;
use haul_show::terminal;

use crate::args::values::Values;
use crate::resolve::sync;

/// Syncs `operands`. The last operand is the target.
pub fn run(values: &Values, operands: &[OsString]) -> anyhow::Result<Exit> {
    let mut plan = sync(values, operands, terminal::stderr_is_terminal())?;
    super::copy::warn_of_forgotten_colon(&mut plan, values, operands);
    super::explain::asked(values, &plan).unwrap_or_else(|| super::copy::carry_out_and_notify(values, plan))
}

//! `haul sync SOURCE... TARGET`: makes the target match the sources.

use std::ffi::OsString;

use crate::args::values::Values;
use crate::exit::Exit;
use crate::resolve::sync;
use crate::terminal;

/// Syncs `operands`. The last operand is the target.
pub fn run(values: &Values, operands: &[OsString]) -> anyhow::Result<Exit> {
    let plan = sync(values, operands, terminal::stderr_is_terminal())?;
    super::explain::asked(values, &plan).unwrap_or_else(|| super::copy::carry_out(plan))
}

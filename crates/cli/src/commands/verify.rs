//! `haul verify SOURCE... TARGET`: compares, and copies nothing.

use std::ffi::OsString;

use crate::args::values::Values;
use crate::exit::Exit;
use crate::resolve::comparison;
use crate::terminal;

/// Compares `operands`. The last operand is the target.
pub fn run(values: &Values, operands: &[OsString]) -> anyhow::Result<Exit> {
    let plan = comparison(values, operands, terminal::stderr_is_terminal())?;
    super::explain::asked(values, &plan).unwrap_or_else(|| super::copy::carry_out(plan))
}

//! The plans of detached copies.

use haul_base::copy::spec::PipeEnd;
use haul_show::display::Mode;

use crate::args::parse::Command;
use crate::args::values::Values;
use crate::args::{UsageError, flags};
use crate::commands::configured::between;
use crate::commands::many_targets;
use crate::resolve::{Plan, plan, sync};

/// The plans of a copy or a sync, with options of configuration files: one for each target. Other commands have none.
pub fn planned(command: Command) -> anyhow::Result<Option<(Values, Vec<Plan>)>> {
    Ok(match command {
        Command::Copy(values, sources) if values.is_set(&flags::TO) => {
            let plans = many_targets::plans(&values, &sources, false)?;
            Some((values, plans))
        }
        Command::Copy(values, operands) => {
            let values = between(values, &operands)?;
            let plan = plan(&values, &operands, false)?;
            Some((values, vec![plan]))
        }
        Command::Sync(values, operands) => {
            let values = between(values, &operands)?;
            let plan = sync(&values, &operands, false)?;
            Some((values, vec![plan]))
        }
        _ => None,
    })
}

/// Refuses copies that need the terminal, or another command's pipes.
pub fn refuse_attached(values: &Values, plan: &Plan) -> Result<(), UsageError> {
    let pipes = &plan.copy.options.pipes;
    let standard = |end: &Option<PipeEnd>| matches!(end, Some(PipeEnd::Standard(_)));
    let needs = match () {
        () if standard(&pipes.source) => "its standard input",
        () if standard(&pipes.target) => "its standard output",
        () if plan.display.mode == Mode::Tui => "the terminal",
        () if values.last(&flags::INFILES).is_some_and(|list| list == "-") => "its standard input",
        () => return Ok(()),
    };
    Err(UsageError::new(format!("--detach: this copy needs {needs}")).remedy("omit --detach"))
}

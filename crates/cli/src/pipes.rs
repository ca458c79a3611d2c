//! Pipes as ends of a copy: `-` for standard input and output or a server's pipe, other open descriptors by their paths
//! (`/dev/fd/3`), `--pipe` for FIFOs and programs.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use haul_base::copy::location::{Host, Location};
use haul_base::copy::spec::{PipeEnd, Pipes};
use haul_base::sys::describe::describe;
use haul_control::operand::parse_operand;
use haul_proto::path::escape;
use haul_show::own_descriptor;

use crate::args::values::Values;
use crate::args::{UsageError, flags};

/// The operand for standard input or output.
const STANDARD: &str = "-";

/// Locations of all operands. The last operand is the target.
pub fn locations(values: &Values, operands: &[OsString]) -> Result<Vec<Location>, UsageError> {
    let (source, target) = values.get(&flags::PIPE)?.unwrap_or_default();
    let last = operands.len().saturating_sub(1);
    let location = |(at, operand): (usize, &OsString)| match if at == last { target } else { source } {
        true => program_operand(operand),
        false => parse_operand(operand),
    };
    let locations: Result<Vec<_>, _> = operands.iter().enumerate().map(location).collect();
    let locations = locations?;
    locations.iter().zip(operands).try_for_each(|(location, operand)| refuse_elsewhere(location, operand))?;
    Ok(locations)
}

/// Refuses `host:/dev/stdout` and the like: haul's worker there has its own, which carry its messages.
fn refuse_elsewhere(location: &Location, operand: &OsString) -> Result<(), UsageError> {
    if location.host == Host::Local || own_descriptor::number(&location.path).is_none() {
        return Ok(());
    }
    let shown = escape(operand.as_bytes());
    Err(UsageError::new(format!("{shown}: standard input and output of another host are no files"))
        .remedy("write - for this machine's; --pipe runs a program there, or opens a FIFO"))
}

/// The descriptor of this process that an operand names: `-` is standard input or output.
fn descriptor(operand: &OsStr, is_target: bool) -> Option<u32> {
    match operand == STANDARD {
        true => Some(is_target.into()),
        false => own_descriptor::number(Path::new(operand)),
    }
}

/// Parses a program. A word before a colon is a host only if it can be one: `tar -cf - a:b` is local.
fn program_operand(operand: &OsString) -> Result<Location, UsageError> {
    let before_colon = operand.as_bytes().split(|byte| *byte == b':').next().unwrap_or_default();
    match before_colon.iter().any(|byte| byte.is_ascii_whitespace() || b"'\"|;&<>()$`=".contains(byte)) {
        true => Ok(Location { host: Host::Local, path: operand.into() }),
        false => parse_operand(operand),
    }
}

/// Finds the operands that are pipes. The last operand is the target.
pub fn pipes(
    values: &Values,
    operands: &[OsString],
    sources: &[Location],
    target_location: &Location,
) -> Result<Pipes, UsageError> {
    let Some((target, typed_sources)) = operands.split_last() else { return Ok(Pipes::default()) };
    let (source_named, target_named) = values.get(&flags::PIPE)?.unwrap_or_default();
    let output = descriptor(target, true);
    if output == Some(1) {
        refuse_standard_output(values)?;
    }
    let growing = values.get(&flags::REALTIME)?.map(PipeEnd::Growing);
    let input = typed_sources.iter().find_map(|source| Some((source, descriptor(source, false)?)));
    if growing.is_some() && (input.is_some() || source_named) {
        return Err(UsageError::new("--realtime follows a file, but the source is a pipe")
            .remedy("omit --realtime: a pipe is read until it ends"));
    }
    let source_named = source_named || sources.iter().any(is_served_pipe);
    let target_named = target_named || is_served_pipe(target_location);
    let source = match input {
        Some((operand, number)) => Some(opened(operand, number, false)?),
        None => source_named.then_some(PipeEnd::Named).or(growing),
    };
    let target = match output {
        Some(number) => Some(opened(target, number, true)?),
        None => target_named.then_some(PipeEnd::Named),
    };
    let are_several = sources.len() > 1 || values.is_set(&flags::INFILES);
    if (source.is_some() || target.is_some()) && are_several {
        return Err(UsageError::new("a pipe is one file, but there are several sources")
            .remedy("pipe tar's output into haul: tar -cf - FILES | haul - TARGET"));
    }
    Ok(Pipes { source, target })
}

/// Whether this is a server's pipe.
fn is_served_pipe(location: &Location) -> bool {
    matches!(location.host, Host::Served { .. }) && location.path.as_os_str() == STANDARD
}

fn refuse_standard_output(values: &Values) -> Result<(), UsageError> {
    let both = |option: &str| {
        Err(UsageError::new(format!("the target - and {option} both use standard output"))
            .remedy("use a file as the target, or omit the option"))
    };
    match values.last(&flags::CHECKSUMS) {
        _ if values.is_set(&flags::JSON) => both("--json"),
        Some(file) if file == STANDARD => both("--checksums -"),
        _ => Ok(()),
    }
}

fn opened(operand: &OsStr, number: u32, writes: bool) -> Result<PipeEnd, UsageError> {
    let fd = own_descriptor::open(number, writes)
        .map_err(|error| UsageError::new(format!("{}: {}", escape(operand.as_bytes()), describe(&error))))?;
    Ok(PipeEnd::Standard(Arc::new(fd)))
}

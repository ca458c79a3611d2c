//! Which ends of a copy are pipes: `-` for standard input and output.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use haul_engine::spec::{Location, Piped};

use crate::args::UsageError;
use crate::args::values::Values;

/// What stands for standard input or output.
const STANDARD: &str = "-";

/// The ends that are pipes.
#[derive(Debug, Default)]
pub struct Pipes {
    /// The one source.
    pub source: Option<Piped>,
    /// The target.
    pub target: Option<Piped>,
}

/// Finds out which ends of `operands` are pipes, the last of which is the target.
pub fn pipes(values: &Values, operands: &[OsString], sources: &[Location]) -> Result<Pipes, UsageError> {
    let is_standard = |operand: &OsString| operand == STANDARD;
    let Some((target, typed_sources)) = operands.split_last() else { return Ok(Pipes::default()) };
    if is_standard(target) {
        refuse_standard_output(values)?;
    }
    let source = typed_sources.iter().any(is_standard).then(|| standard(io::stdin()));
    let target = is_standard(target).then(|| standard(io::stdout()));
    let pipes = Pipes { source: source.transpose()?, target: target.transpose()? };
    if (pipes.source.is_some() || pipes.target.is_some()) && sources.len() > 1 {
        return Err(UsageError::new("a pipe takes or brings one file's bytes, and there are several sources")
            .remedy("pipe tar's output into haul: tar -cf - FILES | haul - TARGET"));
    }
    Ok(pipes)
}

fn refuse_standard_output(values: &Values) -> Result<(), UsageError> {
    let both = |option: &str| {
        Err(UsageError::new(format!("the target - and {option} both want standard output"))
            .remedy("name a file as the target, or leave the option out"))
    };
    match values.last("checksums") {
        _ if values.flag("json") => both("--json"),
        Some(file) if file == STANDARD => both("--checksums -"),
        _ => Ok(()),
    }
}

fn standard(stream: impl AsFd) -> Result<Piped, UsageError> {
    let owned = stream.as_fd().try_clone_to_owned();
    let fd: OwnedFd = owned.map_err(|error| UsageError::new(format!("-: it is not open: {error}")))?;
    Ok(Piped::Standard(Arc::new(fd)))
}

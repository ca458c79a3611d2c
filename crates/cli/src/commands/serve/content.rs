//! The served content: a directory, this process's standard input or output, or a program.

use std::ffi::OsStr;
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;

use haul_engine::policy::PolicyRule;
use haul_engine::worker::client_limits::ServedAccess;
use haul_serve::ServedContent;

use crate::args::row::OptionRow;
use crate::args::values::Values;
use crate::args::{UsageError, contradiction, flags};
use crate::host_policy;
use crate::standing::absolute;

/// The operand for standard input or output.
const STANDARD: &str = "-";
/// Options for the clients' access.
pub(super) const ACCESS: [&OptionRow; 3] =
    [&flags::serve::READ_ONLY.row, &flags::serve::WRITE_ONLY.row, &flags::serve::CREATE.row];

/// Returns the content of the command line, with the clients' access; `None` if a file names it.
pub(super) fn served(
    values: &Values,
    operand: Option<&OsStr>,
) -> Result<Option<(ServedContent, ServedAccess)>, UsageError> {
    if let Some(command) = values.last(&flags::serve::PIPE) {
        let permitted = host_policy::read().check(PolicyRule::NoPrograms);
        permitted.map_err(|refusal| UsageError::of_lines(&refusal.to_string()))?;
        return Ok(Some((ServedContent::Program(command.to_owned()), pipe_access(values)?)));
    }
    let Some(operand) = operand else { return Ok(None) };
    if operand == STANDARD {
        let access = pipe_access(values)?;
        return Ok(Some((standard(access)?, access)));
    }
    let path = absolute(Path::new(operand))?;
    Ok(Some((ServedContent::Directory(path), access(values)?)))
}

/// Serves standard input to clients that fetch, standard output to those that send.
fn standard(access: ServedAccess) -> Result<ServedContent, UsageError> {
    let fd = match access.reads() {
        true if io::stdin().is_terminal() => {
            return Err(UsageError::new("haul serve - --read-only sends standard input, which is a terminal")
                .remedy("pipe into it: tar -cf - DIR | haul serve - --read-only"));
        }
        true => io::stdin().as_fd().try_clone_to_owned(),
        false if io::stdout().is_terminal() => {
            return Err(UsageError::new(
                "haul serve - writes what it receives to standard output, which is a terminal",
            )
            .remedy("pipe it on, as in haul serve - | tar -xf -; to send standard input, add --read-only"));
        }
        false => io::stdout().as_fd().try_clone_to_owned(),
    };
    let fd = fd.map_err(|error| UsageError::new(format!("-: not open: {error}")))?;
    Ok(ServedContent::Standard(Arc::new(fd)))
}

/// A pipe has one direction: clients send, or fetch with `--read-only`.
fn pipe_access(values: &Values) -> Result<ServedAccess, UsageError> {
    match access(values)? {
        ServedAccess::ReadOnly => Ok(ServedAccess::ReadOnly),
        ServedAccess::Both | ServedAccess::WriteOnly => Ok(ServedAccess::WriteOnly),
        ServedAccess::Create => {
            Err(UsageError::new("a pipe has no names: --create is for directories").remedy("omit --create"))
        }
    }
}

fn access(values: &Values) -> Result<ServedAccess, UsageError> {
    let mut given = ACCESS.into_iter().filter(|option| values.is_set(option));
    match (given.next(), given.next()) {
        (Some(one), Some(other)) => Err(contradiction(one, other)),
        (Some(one), None) => Ok(ServedAccess::from_word(one.id).unwrap_or(ServedAccess::Both)),
        (None, _) => Ok(ServedAccess::Both),
    }
}

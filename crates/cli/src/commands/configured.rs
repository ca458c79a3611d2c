//! Options with those of configuration files.

use std::ffi::OsString;

use crate::args::Dialect;
use crate::args::flags::COPY;
use crate::args::local_files::LocalDisk;
use crate::args::scan::{Grammar, scan};
use crate::args::values::Values;
use crate::resolve::{HostNames, hosts};

/// Adds the options of configuration files, with those for the hosts of `operands`.
pub fn between(values: Values, operands: &[OsString]) -> anyhow::Result<Values> {
    let hosts = hosts(&values, operands)?;
    Ok(crate::config::complete(values, &hosts)?)
}

/// The options of a copy that another program's command line stands for: `words`, and those of configuration files.
pub fn copy_values(mut words: Vec<OsString>, operands: &[OsString]) -> anyhow::Result<Values> {
    words.push("--".into());
    words.extend_from_slice(operands);
    let grammar = Grammar { dialect: Dialect::Haul, operands: 2, has_rest: false, files: &LocalDisk, command: "" };
    between(scan(COPY, words, grammar)?.values, operands)
}

/// Adds the options of configuration files for a command on this host.
pub fn here(values: Values) -> anyhow::Result<Values> {
    Ok(crate::config::complete(values, &HostNames::default())?)
}

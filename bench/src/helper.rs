//! The benchmark's own programs, which run as processes of their own. Does not say what they do.

use std::ffi::{OsStr, OsString};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};

use crate::{bare_loop, old_cpu, primitives};

/// Words that come first on the command line of a helper; nobody types them.
const VERBS: [&str; 3] = ["bare-loop", "old-cpu", "primitives"];

/// A command that runs a helper: this very program, which is the benchmark or `cargo xtask`.
pub fn helper(verb: &str) -> Result<Command> {
    let own = std::env::current_exe().context("where is this program?")?;
    let name = own.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut command = Command::new(&own);
    match name.as_str() {
        "haul-bench" => {}
        "haul-xtask" => {
            command.arg("bench");
        }
        _ => bail!("{name} is neither haul-bench nor haul-xtask"),
    }
    command.arg(verb);
    Ok(command)
}

/// Whether a command line that begins with this word is a helper's.
pub fn is_meant(first: &OsStr) -> bool {
    VERBS.iter().any(|verb| first == *verb)
}

/// Runs the helper that these arguments mean.
pub fn main(args: &[OsString]) -> ExitCode {
    let (verb, rest) = args.split_first().map_or((None, args), |(verb, rest)| (Some(verb), rest));
    let result = match verb.and_then(|verb| verb.to_str()) {
        Some("bare-loop") => bare_loop::main(rest),
        Some("primitives") => primitives::main(rest),
        _ => old_cpu::main(rest),
    };
    result.unwrap_or_else(|error| {
        eprintln!("haul-bench: {error:#}");
        ExitCode::FAILURE
    })
}

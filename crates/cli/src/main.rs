//! The command `haul`: turns the command line into a copy for the engine, and its events into output.
#![forbid(unsafe_code)]

mod args;
mod checksums;
mod commands;
mod config;
mod echoes;
mod host_policy;
#[cfg(test)]
mod json_schema;
mod list;
mod manifest;
mod metrics;
mod network;
mod path_memory;
mod pipes;
mod probe;
mod resolve;
mod signals;
mod slips;
mod standing;
mod survey;
mod sweep;
mod user_dirs;

use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args_os().collect();
    // On failure, the words remain visible: see SECURITY.md.
    let _ = haul_engine::sys::arguments::overwrite(&words, haul_base::secrets::secret_in);
    // Without it, the process ends at such a write.
    let _ = signals::outlive_file_size_limit();
    let mut words = words.into_iter();
    let program = words.next().unwrap_or_default();
    ExitCode::from(commands::run(&program, words.collect()))
}

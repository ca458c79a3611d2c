//! The command `haul`: what was typed becomes a job for the engine, and its events what people see.
#![forbid(unsafe_code)]

mod args;
mod checksums;
mod commands;
mod exit;
mod network;
mod resolve;
mod secret;
mod show;
mod signals;
mod standing;
mod terminal;

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(commands::run(std::env::args_os().skip(1).collect()))
}

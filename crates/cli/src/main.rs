//! The command `haul`: what was typed becomes a job for the engine, and its events what people see.
#![forbid(unsafe_code)]

mod args;
mod checksums;
mod commands;
mod config;
mod exit;
mod manifest;
mod network;
mod pipes;
mod probe;
mod resolve;
mod show;
mod signals;
mod terminal;

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut words = std::env::args_os();
    let program = words.next().unwrap_or_default();
    ExitCode::from(commands::run(&program, words.collect()))
}

//! The command `haul`: what was typed becomes a job for the engine, and its events what people see.
#![forbid(unsafe_code)]

mod args;
mod checksums;
mod commands;
mod config;
mod exit;
mod list;
mod manifest;
mod network;
mod pending;
mod pipes;
mod probe;
mod report;
mod resolve;
mod secret;
mod show;
mod signals;
mod standing;
mod survey;
mod sweep;
mod terminal;

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut words = std::env::args_os();
    let program = words.next().unwrap_or_default();
    ExitCode::from(commands::run(&program, words.collect()))
}

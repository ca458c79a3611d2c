//! `cargo xtask lab probe`: compares `haul probe`'s forecasts with copies.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    haul_e2e::forecast::main()
}

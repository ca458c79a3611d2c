//! `cargo xtask lab probe`: whether what `haul probe` foretells is what a copy reaches.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    haul_e2e::forecast::main()
}

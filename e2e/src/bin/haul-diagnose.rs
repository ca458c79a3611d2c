//! `cargo xtask lab diagnose`: makes each limit of a copy on purpose, and prints whether haul's verdict names it.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    haul_e2e::diagnose::main()
}

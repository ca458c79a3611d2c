//! The same as `cargo xtask bench`, as a program of its own.

use std::process::ExitCode;

fn main() -> ExitCode {
    haul_bench::main(std::env::args_os().skip(1))
}

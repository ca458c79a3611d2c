//! `cargo xtask bench`, as a program of its own: builds the haul to measure, unless one is named, and measures it.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    if !haul_bench::brings_haul(&arguments) && !builds_haul() {
        eprintln!("haul-bench: haul could not be built");
        return ExitCode::FAILURE;
    }
    haul_bench::main(arguments)
}

/// Builds haul as users run it, where the benchmark looks for it.
fn builds_haul() -> bool {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut build = Command::new(cargo);
    build.args(["build", "--locked", "--release", "--package", "haul"]);
    build.current_dir(Path::new(env!("CARGO_MANIFEST_DIR"))).status().is_ok_and(|status| status.success())
}

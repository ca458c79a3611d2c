//! `cargo xtask fuzz --coverage`: lines of proto that the fuzz targets reach with their corpus and random mutations of
//! it. Measured on the stable toolchain by rustc's own instrumentation (`-C instrument-coverage`) and LLVM's tools.
//!
//! Only code within reach of a peer's bytes counts. proto's other decisions (number of streams, times to send,
//! compression) depend on measurements, not on a peer's messages.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::artifacts;
use crate::run::{Output, run};
use crate::workspace::{cargo, root};

/// Time limits for building and for running.
const LIMIT: Duration = Duration::from_secs(30 * 60);
/// Seconds for each target, on top of its corpus.
const MUTATED_SECONDS: &str = "2";
/// Files of proto within reach of a peer's bytes, or of bytes on a disk.
const REACHED: [&str; 9] =
    ["codec.rs", "integrity.rs", "journal.rs", "manifest.rs", "path.rs", "plan.rs", "ranges.rs", "session", "wire"];
/// Where instrumented builds go, apart from the others.
const DIRECTORY: &str = "target/coverage";

/// Builds, gives each target its corpus, and prints the table: a line for each file, and the sum.
pub fn measure() -> Result<(), String> {
    let (profdata, cov) = (tool("llvm-profdata")?, tool("llvm-cov")?);
    let directory = root().join(DIRECTORY);
    let flags = "-C instrument-coverage";
    let words = ["test", "--package", "haul-fuzz", "--tests", "--no-run", "--target-dir", DIRECTORY];
    let mut build = cargo(&words);
    build.arg("--message-format=json-render-diagnostics").env("RUSTFLAGS", flags);
    let built = completed(&mut build, Output::Kept, "the build")?;
    let tests: Vec<_> = artifacts::parse(&built).into_iter().filter(|executable| executable.test).collect();
    let merged = directory.join("merged.profdata");
    let (mut merge, mut report) = (Command::new(profdata), Command::new(cov));
    merge.args(["merge", "--sparse", "-o"]).arg(&merged);
    report
        .args(["report", "--show-region-summary=false", "--show-branch-summary=false", "--instr-profile"])
        .arg(&merged);
    for (at, test) in tests.iter().enumerate() {
        let raw = directory.join(format!("{}.profraw", test.target));
        let mut command = Command::new(&test.path);
        command.current_dir(&test.package_dir).env("LLVM_PROFILE_FILE", &raw).env("HAUL_FUZZ_SECONDS", MUTATED_SECONDS);
        completed(&mut command, Output::Shown, &test.target)?;
        merge.arg(&raw);
        // All but the first are named by an option.
        report.args((at > 0).then_some("--object")).arg(&test.path);
    }
    completed(&mut merge, Output::Shown, "llvm-profdata")?;
    let proto = root().join("crates/proto/src");
    report.arg("--sources").args(REACHED.map(|part| proto.join(part)));
    completed(&mut report, Output::Shown, "llvm-cov").map(|_| ())
}

/// Runs a command; gives its output, or an error if it fails.
fn completed(command: &mut Command, output: Output, what: &str) -> Result<String, String> {
    let ended = run(command, LIMIT, output);
    match ended.failure {
        Some(why) => Err(format!("{what}: {why}")),
        None => Ok(ended.stdout),
    }
}

/// One of LLVM's tools, of the toolchain that this was built with.
fn tool(name: &str) -> Result<PathBuf, String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let libdir = completed(Command::new(rustc).args(["--print", "target-libdir"]), Output::Kept, "rustc")?;
    let path = Path::new(libdir.trim()).with_file_name("bin").join(name);
    if path.exists() { Ok(path) } else { Err(format!("{name} is not installed: rustup component add llvm-tools")) }
}

//! `cargo xtask fuzz --coverage`: which lines of proto the fuzz targets reach with their corpus, measured on the stable
//! toolchain by rustc's own instrumentation (`-C instrument-coverage`) and LLVM's tools.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::artifacts;
use crate::run::{Output, run};
use crate::test::{cargo, root};

/// What building may take, and running.
const LIMIT: Duration = Duration::from_secs(30 * 60);
/// Where instrumented builds go, apart from the others.
const DIRECTORY: &str = "target/coverage";

/// Builds, gives each target its corpus, and prints the table: a line for each file, and the sum.
pub fn measure() -> Result<(), String> {
    let (profdata, cov) = (tool("llvm-profdata")?, tool("llvm-cov")?);
    let directory = root().join(DIRECTORY);
    let flags = "-C instrument-coverage";
    let words = ["test", "--package", "haul-fuzz", "--test", "replay", "--no-run", "--target-dir", DIRECTORY];
    let mut build = cargo(&words);
    build.arg("--message-format=json-render-diagnostics").env("RUSTFLAGS", flags);
    let built = completed(&mut build, Output::Kept, "the build")?;
    let tests = artifacts::parse(&built).into_iter().find(|executable| executable.test);
    let tests = tests.ok_or("cargo built no test called replay")?;
    let (raw, merged) = (directory.join("replay.profraw"), directory.join("replay.profdata"));
    let mut replay = Command::new(&tests.path);
    replay.arg("every_target_takes_its_corpus").current_dir(&tests.package_dir).env("LLVM_PROFILE_FILE", &raw);
    completed(&mut replay, Output::Shown, "the corpus")?;
    completed(
        Command::new(profdata).args(["merge", "--sparse", "-o"]).args([&merged, &raw]),
        Output::Shown,
        "merging",
    )?;
    let mut report = Command::new(cov);
    report.args(["report", "--show-region-summary=false", "--show-branch-summary=false", "--instr-profile"]);
    report.args([&merged, &tests.path]).arg("--sources").arg(root().join("crates/proto/src"));
    completed(&mut report, Output::Shown, "llvm-cov").map(|_| ())
}

/// Runs a command that has to succeed; what it printed.
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

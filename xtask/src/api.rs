//! `cargo xtask api`: compares the public interfaces of the libraries with their lists in `docs/reference/api`, or with
//! those of another commit.

use std::collections::BTreeSet;
use std::env::consts::ARCH;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;

use clap::Args;

use crate::run::{Output, run};
use crate::tools::{CARGO_PUBLIC_API, CARGO_SEMVER_CHECKS};
use crate::workspace::{cargo, root};

const LIBRARIES: [&str; 6] = ["haul-proto", "haul-base", "haul-engine", "haul-control", "haul-serve", "haul-inspect"];
const LIMIT: Duration = Duration::from_secs(30 * 60);

/// Options of the chore.
#[derive(Debug, Args)]
pub struct ApiArguments {
    /// Writes the lists anew
    #[arg(long, conflicts_with = "since")]
    write: bool,
    /// Looks for incompatible changes since REV, a commit or tag, instead
    #[arg(long, value_name = "REV")]
    since: Option<String>,
}

/// Runs the chore.
pub fn main(arguments: &ApiArguments) -> ExitCode {
    let compared = match &arguments.since {
        Some(rev) => check_compatibility(rev),
        None => compare_lists(arguments.write),
    };
    match compared {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("cargo xtask api: {why}");
            ExitCode::from(2)
        }
    }
}

/// Whether every library is compatible with its state at `rev`.
fn check_compatibility(rev: &str) -> Result<bool, String> {
    CARGO_SEMVER_CHECKS.provide()?;
    let mut check = Command::new("cargo-semver-checks");
    check.args(["semver-checks", "--baseline-rev", rev, "--target", &format!("{ARCH}-unknown-linux-gnu")]);
    for library in LIBRARIES {
        check.args(["--package", library]);
    }
    // The target's configuration asks for a dynamic library, and static executables cannot have one.
    check.env("RUSTFLAGS", "-C debuginfo=0").current_dir(root());
    Ok(run(&mut check, LIMIT, Output::Shown).failure.is_none())
}

/// Whether the lists are right, or now written.
fn compare_lists(write: bool) -> Result<bool, String> {
    CARGO_PUBLIC_API.provide()?;
    LIBRARIES.iter().try_fold(true, |equal, library| Ok(compare(library, write)? && equal))
}

/// Whether the list of `library` is right, or now written.
fn compare(library: &str, write: bool) -> Result<bool, String> {
    let path = root().join("docs/reference/api").join(format!("{library}.txt"));
    let found = list(library, &root().join("target/api"))?;
    if write {
        fs::write(&path, &found).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    let known = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let changes = changes(&known, &found);
    changes.iter().for_each(|change| println!("{library}: {change}"));
    println!("{library}: {} items, {} changes", found.lines().count(), changes.len());
    Ok(changes.is_empty())
}

/// Lists the interface, one item a line. Its own target folder keeps other builds up to date.
fn list(library: &str, folder: &Path) -> Result<String, String> {
    let mut describe = cargo(&["rustdoc", "--locked", "--lib", "--package", library, "--target-dir"]);
    describe.arg(folder).args(["--", "-Z", "unstable-options", "--output-format", "json"]);
    // cargo-public-api reads the toolchain's rustdoc JSON, an unstable format.
    let described = run(describe.env("RUSTC_BOOTSTRAP", "1"), LIMIT, Output::Kept);
    described.failure.map_or(Ok(()), |why| Err(format!("cargo rustdoc: {why}")))?;
    let json = format!("{ARCH}-unknown-linux-gnu/doc/{}.json", library.replace('-', "_"));
    let mut print = Command::new("cargo-public-api");
    let printed = run(print.args(["public-api", "-sss", "--rustdoc-json"]).arg(folder.join(json)), LIMIT, Output::Kept);
    printed.failure.map_or(Ok(printed.stdout), |why| Err(format!("cargo public-api: {why}")))
}

/// Lines that only one of the lists has.
fn changes(known: &str, found: &str) -> Vec<String> {
    let (known, found): (BTreeSet<&str>, BTreeSet<&str>) = (known.lines().collect(), found.lines().collect());
    let removed = known.difference(&found).map(|line| format!("- {line}"));
    removed.chain(found.difference(&known).map(|line| format!("+ {line}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_item_is_removed_and_added() {
        assert_eq!(changes("pub fn a()\npub fn b()\n", "pub fn b()\npub fn a()\n"), Vec::<String>::new());
        assert_eq!(changes("pub fn a()\n", "pub fn a(u8)\n"), ["- pub fn a()", "+ pub fn a(u8)"]);
    }
}

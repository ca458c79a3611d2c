//! `cargo xtask dist`: the static executable that is shipped, its packages, checksums, list of components and signatures.
//!
//! This file has the options and the order; the parts are in `dist/`.

pub mod boot;
mod build;
mod cell;
mod commands;
mod components;
mod crates;
mod deb_check;
pub mod emulate;
mod packages;
mod recipes;
mod rpm_check;
mod start;
mod sums;
mod vendored;
mod wheel;
mod workers;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use commands::fail;

use crate::install::{DOCUMENT, PROGRAM, install};
use crate::notices;
use crate::workspace::root;

/// haul copies itself to hosts that have none, so it stays small.
const MAX_BYTES: usize = 12 * 1024 * 1024;

/// Options of the chore.
#[derive(Debug, Args)]
pub struct DistArguments {
    /// Builds for this target triple (default: this host's)
    #[arg(long, value_name = "TRIPLE")]
    target: Option<String>,
    /// Packages this executable instead of building one
    #[arg(long, value_name = "FILE", conflicts_with = "reproducible")]
    executable: Option<PathBuf>,
    /// And a Debian package
    #[arg(long)]
    deb: bool,
    /// And an RPM package
    #[arg(long)]
    rpm: bool,
    /// And a Python wheel
    #[arg(long)]
    wheel: bool,
    /// And packages `haul-workers` with this released executable for another architecture (can be repeated)
    #[arg(long, value_name = "FILE")]
    workers: Vec<PathBuf>,
    /// And archives of the crates, for a registry
    #[arg(long)]
    crates: bool,
    /// And the list of components (CycloneDX)
    #[arg(long)]
    sbom: bool,
    /// And the archive of the sources, and recipes of Homebrew and conda-forge that fetch it from below URL
    #[arg(long, value_name = "URL")]
    source: Option<String>,
    /// And the archive of the sources with those of all crates, to build without a network
    #[arg(long)]
    vendored: bool,
    /// Signs the lists of checksums with this secret key of minisign
    #[arg(long, value_name = "KEY")]
    sign: Option<PathBuf>,
    /// Builds again in another folder, and compares the bytes
    #[arg(long)]
    reproducible: bool,
    /// Lints the packages; installs, uses, upgrades and removes them in directories of its own (as root)
    #[arg(long)]
    check: bool,
}

/// Runs the chore.
pub fn main(arguments: &DistArguments) -> ExitCode {
    match dist(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("cargo xtask dist: {why}");
            ExitCode::FAILURE
        }
    }
}

fn dist(arguments: &DistArguments) -> Result<(), String> {
    let target = arguments.target.clone().map_or_else(build::host, Ok)?;
    let built = match &arguments.executable {
        Some(file) => file.clone(),
        None => build::build(root(), &target)?,
    };
    let content = fs::read(&built).map_err(|error| fail(&built, error))?;
    build::check_static(&built)?;
    if arguments.executable.is_none() {
        check_size(content.len()).map_err(|why| fail(&built, why))?;
        build::check_no_folders(&content, root()).map_err(|why| fail(&built, why))?;
    }
    let (version, runs_in) = start::start_alone(&built, &target)?;
    let directory = root().join(format!("target/haul-{version}"));
    let path = directory.join(format!("haul-{version}-{target}"));
    install(&built, &path, PROGRAM).map_err(|error| fail(&path, error))?;
    let digest = sums::digest(sums::BLAKE3, &path)?;
    println!("{}\n{} bytes\nBLAKE3 {digest}\nruns {runs_in}", path.display(), content.len());
    let notices = directory.join("notices.txt");
    install(&root().join(notices::TEXT), &notices, DOCUMENT).map_err(|error| fail(&notices, error))?;
    for file in start::write_help(&directory, &path, &target)? {
        println!("{}", file.display());
    }
    if arguments.reproducible {
        build::check_reproducible(&content, &target)?;
        println!("a build in another folder is equal");
    }
    package(arguments, &directory, &path, &version, &target)
}

/// Makes the packages named by the options from the executable in `path`.
fn package(
    arguments: &DistArguments,
    directory: &Path,
    path: &Path,
    version: &str,
    target: &str,
) -> Result<(), String> {
    let date = build::source_date()?;
    let workers = &arguments.workers;
    workers.iter().try_for_each(|worker| workers::check_file(worker, version, target))?;
    let release = packages::Release { directory, executable: path, workers, version, target, date };
    let mut made = Vec::new();
    for kind in release.kinds() {
        if arguments.deb {
            made.push(release.deb(*kind, directory, packages::FIRST)?);
        }
        if arguments.rpm {
            made.push(release.rpm(*kind, directory, packages::FIRST)?);
        }
    }
    if arguments.sbom {
        made.push(components::write(directory, version, target, date)?);
    }
    let wheel = if arguments.wheel { Some(wheel::write(&release, directory)?) } else { None };
    made.extend(wheel.clone());
    let mut archives = Vec::new();
    if arguments.crates {
        archives = crates::package(directory, version)?;
        made.extend(archives.iter().cloned());
    }
    if let Some(url) = &arguments.source {
        made.extend(recipes::write(directory, version, url)?);
    }
    if arguments.vendored {
        made.push(vendored::write(directory, version, date)?);
    }
    let lists = sums::write(directory)?;
    made.extend(lists.iter().cloned());
    if let Some(key) = &arguments.sign {
        made.extend(sums::sign(&lists, key, version)?);
    }
    made.iter().for_each(|path| println!("{}", path.display()));
    if let Some(wheel) = wheel.filter(|_| arguments.check) {
        wheel::check(&wheel)?;
    }
    if arguments.check && arguments.deb {
        deb_check::check(&release)?;
    }
    if arguments.check && arguments.rpm {
        rpm_check::check(&release)?;
    }
    if arguments.check && arguments.crates {
        crates::check(&archives, version)?;
    }
    Ok(())
}

fn check_size(bytes: usize) -> Result<(), String> {
    if bytes <= MAX_BYTES {
        return Ok(());
    }
    Err(format!("it has {bytes} bytes, more than the {MAX_BYTES} that are allowed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_executable_is_refused() {
        assert_eq!(check_size(MAX_BYTES), Ok(()));
        assert!(check_size(MAX_BYTES + 1).is_err_and(|why| why.contains("12582912")));
    }
}

//! Archives of the crates as a registry takes them: packaged, unpacked, and installed from there with cargo.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::build::{check_static, host};
use super::commands::{fail, succeeds};
use crate::workspace::cargo;

/// In the order of their dependencies.
const CRATES: [&str; 9] = [
    "haul-proto",
    "haul-base",
    "haul-engine",
    "haul-control",
    "haul-serve",
    "haul-inspect",
    "haul-job",
    "haul-show",
    "haul",
];
const PACKAGE_LIMIT: Duration = Duration::from_secs(120);
/// It compiles everything, unoptimised.
const INSTALL_LIMIT: Duration = Duration::from_secs(40 * 60);

/// Packages the crates into `directory`; paths of the archives.
pub(super) fn package(directory: &Path, version: &str) -> Result<Vec<PathBuf>, String> {
    let target = tempfile::tempdir().map_err(|error| format!("no temporary directory: {error}"))?;
    let mut command = cargo(&["package", "--locked", "--no-verify", "--allow-dirty"]);
    for name in CRATES {
        command.args(["--package", name]);
    }
    succeeds(command.arg("--target-dir").arg(target.path()), PACKAGE_LIMIT)?;
    let mut archives = Vec::new();
    for name in CRATES {
        let file = format!("{name}-{version}.crate");
        let (from, to) = (target.path().join("package").join(&file), directory.join(&file));
        fs::copy(&from, &to).map_err(|error| fail(&from, error))?;
        archives.push(to);
    }
    Ok(archives)
}

/// Unpacks `archives` outside of the workspace, installs haul from there below an empty home, and copies with it.
pub(super) fn check(archives: &[PathBuf], version: &str) -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| format!("no temporary directory: {error}"))?;
    let folder = folder.path();
    for archive in archives {
        succeeds(Command::new("tar").arg("-xzf").arg(archive).arg("-C").arg(folder), PACKAGE_LIMIT)?;
    }
    let home = folder.join("home");
    let mut command = cargo(&["install", "--locked", "--debug", "--target", &host()?, "--path"]);
    command.arg(folder.join(format!("haul-{version}"))).arg("--root").arg(&home);
    // No registry has these crates yet.
    for name in CRATES.iter().filter(|name| **name != "haul") {
        let path = folder.join(format!("{name}-{version}"));
        command.arg("--config").arg(format!("patch.crates-io.{name}.path={:?}", path.display().to_string()));
    }
    command.arg("--target-dir").arg(folder.join("target")).current_dir(folder);
    command.env_remove("CARGO_TARGET_DIR").env("RUSTFLAGS", "-C target-feature=+crt-static");
    succeeds(&mut command, INSTALL_LIMIT)?;
    let program = home.join("bin/haul");
    check_static(&program)?;
    let mut demo = Command::new(&program);
    demo.args(["demo", "--size", "10m"]).env("HOME", &home).current_dir(folder);
    succeeds(&mut demo, PACKAGE_LIMIT)?;
    println!("haul was installed from {} archives of crates, and used", archives.len());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::root;

    #[test]
    fn every_published_crate_is_packaged() {
        let crates = fs::read_dir(root().join("crates")).unwrap();
        let manifests = crates.map(|entry| fs::read_to_string(entry.unwrap().path().join("Cargo.toml")).unwrap());
        let published: Vec<_> = manifests.filter(|text| !text.contains("publish = false")).collect();
        assert_eq!(published.len(), CRATES.len());
        for name in CRATES {
            assert!(published.iter().any(|text| text.contains(&format!("name = \"{name}\"\n"))), "{name}");
        }
    }
}

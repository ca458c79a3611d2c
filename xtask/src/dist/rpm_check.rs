//! Tries the RPM package: rpmlint, its digests, then installation, use, upgrade and removal in a root of its own.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use haul_lab::find_program;

use super::cell::Cell;
use super::commands::{fail, succeeds};
use super::packages::{FIRST, PackageKind, Release};
use super::workers;
use crate::install::{PROGRAM, install};
use crate::workspace::root;

const STEP_LIMIT: Duration = Duration::from_secs(300);
const CONFIGURATION: &str = "etc/haul/serve.toml";
/// Directories that each system has.
const DIRECTORIES: [&str; 5] = ["bin", "dev", "proc", "tmp", "root"];

/// Runs all checks; prints the results.
pub(super) fn check(release: &Release) -> Result<(), String> {
    let rpm = Rpm { program: tool("rpm", "rpm")?, folder: temporary()? };
    let rpmlint = tool("rpmlint", "rpmlint")?;
    let upgrade = release.rpm(PackageKind::Haul, rpm.folder.path(), "2")?;
    let package = release.rpm(PackageKind::Haul, rpm.folder.path(), FIRST)?;
    let rules = root().join("packaging/rpm/rpmlint.toml");
    let others = release.kinds().iter().filter(|kind| **kind != PackageKind::Haul);
    let others = others.map(|kind| release.rpm(*kind, rpm.folder.path(), FIRST)).collect::<Result<Vec<_>, _>>()?;
    let mut lint = Command::new(rpmlint);
    let linted = succeeds(lint.arg("--config").arg(rules).arg(&package).args(&others), STEP_LIMIT)?;
    if !linted.contains("0 errors, 0 warnings") {
        return Err(format!("rpmlint finds faults:\n{linted}"));
    }
    succeeds(Command::new(&rpm.program).args(["--checksig", "--nosignature"]).arg(&package), STEP_LIMIT)?;
    println!("rpmlint finds no fault; the digests hold");
    let cell = rpm.system()?;
    rpm.run(&["--install"], &package)?;
    rpm.verify()?;
    Cell::new(&cell).use_haul()?;
    println!("rpm: installed, used");
    for other in &others {
        rpm.try_workers(&Cell::new(&cell), other)?;
        println!("rpm: haul deploys what haul-workers has; removed, no file is left");
    }
    let kept = Cell::new(&cell).change(CONFIGURATION)?;
    rpm.run(&["--upgrade"], &upgrade)?;
    Cell::new(&cell).expect(CONFIGURATION, &kept)?;
    Cell::new(&cell).use_haul()?;
    println!("rpm: upgraded; the changed configuration is kept");
    let listed = rpm.run(&["--query", "--list"], Path::new("haul"))?;
    rpm.run(&["--erase"], Path::new("haul"))?;
    Cell::new(&cell).expect(&format!("{CONFIGURATION}.rpmsave"), &kept)?;
    let is_of_haul_alone = |path: &&str| *path != "/etc/haul";
    Cell::new(&cell).expect_gone(listed.lines().filter(is_of_haul_alone))?;
    println!("rpm: removed; no file is left but the changed configuration");
    Ok(())
}

fn tool(name: &str, package: &str) -> Result<PathBuf, String> {
    find_program(name).ok_or_else(|| format!("{name} is not installed: apt-get install {package}"))
}

fn temporary() -> Result<tempfile::TempDir, String> {
    tempfile::tempdir().map_err(|error| format!("no temporary directory: {error}"))
}

/// rpm, and the folder with the root that it works on.
struct Rpm {
    program: PathBuf,
    folder: tempfile::TempDir,
}

impl Rpm {
    fn root(&self) -> PathBuf {
        self.folder.path().join("system")
    }

    /// Makes a root with only a shell, for the package's scripts.
    fn system(&self) -> Result<PathBuf, String> {
        let system = self.root();
        for name in DIRECTORIES {
            let directory = system.join(name);
            fs::create_dir_all(&directory).map_err(|error| fail(&directory, error))?;
        }
        let busybox = tool("busybox", "busybox-static")?;
        install(&busybox, &system.join("bin/busybox"), PROGRAM).map_err(|error| fail(&busybox, error))?;
        // An ordinary file will do: scripts only write to it.
        let null = system.join("dev/null");
        fs::write(&null, "").map_err(|error| fail(&null, error))?;
        symlink("busybox", system.join("bin/sh")).map_err(|error| fail(&system, error))?;
        let chosen = Command::new(&self.program).arg("--root").arg(&system).arg("--initdb").status();
        match chosen {
            Ok(status) if status.success() => Ok(system),
            Ok(status) => Err(format!("rpm --initdb: {status}")),
            Err(error) => Err(format!("rpm --initdb: {error}")),
        }
    }

    /// Runs rpm on the root. The dependencies are Fedora's packages, absent there.
    fn run(&self, options: &[&str], what: &Path) -> Result<String, String> {
        let mut command = Command::new(&self.program);
        command.arg("--root").arg(self.root()).args(options);
        if !options.contains(&"--query") {
            command.arg("--nodeps");
        }
        succeeds(command.arg(what), STEP_LIMIT)
    }

    fn try_workers(&self, cell: &Cell, package: &Path) -> Result<(), String> {
        let name = Path::new(PackageKind::Workers.name());
        self.run(&["--install"], package)?;
        // Tools for the script that haul runs on a host.
        cell.run(&["busybox", "--install", "-s", "/bin"])?;
        workers::deploy(cell)?;
        let listed = self.run(&["--query", "--list"], name)?;
        self.run(&["--erase"], name)?;
        cell.expect_gone(listed.lines())
    }

    /// Fails where an installed file differs from the package.
    fn verify(&self) -> Result<(), String> {
        self.run(&["--verify"], Path::new("haul")).map(drop)
    }
}

//! Tries the Debian package: lintian, then installation, use, upgrade, removal and purge in a fresh Debian.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use haul_lab::find_program;

use super::cell::Cell;
use super::commands::{fail, succeeds};
use super::packages::{FIRST, PackageKind, Release};
use super::workers;

const LINT_LIMIT: Duration = Duration::from_secs(300);
/// It fetches some 60 MB.
const BOOTSTRAP_LIMIT: Duration = Duration::from_secs(600);
/// The package's dependencies, for an installation by dpkg alone.
const DEPENDENCIES: &str = "--include=openssh-client,systemd-standalone-sysusers";
const CONFIGURATION: &str = "etc/haul/serve.toml";
/// Lines of this system's configuration of apt.
const SOURCE_LISTS: [&str; 2] = ["/etc/apt/sources.list", "/etc/apt/sources.list.d/debian.sources"];

/// Runs all checks; prints the results.
pub(super) fn check(release: &Release) -> Result<(), String> {
    let (lintian, mmdebstrap) = (tool("lintian")?, tool("mmdebstrap")?);
    let folder = tempfile::tempdir().map_err(|error| format!("no temporary directory: {error}"))?;
    let upgrade = release.deb(PackageKind::Haul, folder.path(), "2")?;
    let package = release.deb(PackageKind::Haul, folder.path(), FIRST)?;
    let others = release.kinds().iter().filter(|kind| **kind != PackageKind::Haul);
    let others = others.map(|kind| release.deb(*kind, folder.path(), FIRST)).collect::<Result<Vec<_>, _>>()?;
    let mut lint = Command::new(lintian);
    lint.args(["--allow-root", "--fail-on", "error,warning"]).arg(&package).args(&others);
    succeeds(&mut lint, LINT_LIMIT)?;
    println!("lintian finds no fault");
    let root = folder.path().join("debian");
    let mut bootstrap = Command::new(mmdebstrap);
    bootstrap.args(["--quiet", "--variant=apt", DEPENDENCIES, &suite()?]).arg(&root);
    bootstrap.args(SOURCE_LISTS.iter().filter(|list| Path::new(list).exists()));
    succeeds(&mut bootstrap, BOOTSTRAP_LIMIT)?;
    let cell = Cell::new(&root);
    install(&cell, &package)?;
    println!("deb: installed, used");
    for other in &others {
        try_workers(&cell, other)?;
        println!("deb: haul deploys what haul-workers has; removed, no file is left");
    }
    replace(&cell, &upgrade)?;
    println!("deb: upgraded; the changed configuration is kept");
    remove(&cell)?;
    println!("deb: removed, purged; no file is left");
    Ok(())
}

fn tool(name: &str) -> Result<PathBuf, String> {
    find_program(name).ok_or_else(|| format!("{name} is not installed: apt-get install {name}"))
}

/// The name of this Debian's release.
fn suite() -> Result<String, String> {
    let path = Path::new("/etc/os-release");
    let text = fs::read_to_string(path).map_err(|error| fail(path, error))?;
    let name = text.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    name.map(str::to_owned).ok_or_else(|| fail(path, "no VERSION_CODENAME, so this is no Debian"))
}

fn install(cell: &Cell, package: &Path) -> Result<(), String> {
    let inside = cell.put(package)?;
    cell.run(&["dpkg", "--install", &inside])?;
    cell.use_haul()?;
    let changed = cell.run(&["dpkg", "--verify", "haul"])?;
    if !changed.is_empty() {
        return Err(format!("dpkg --verify haul: {changed}"));
    }
    let user = cell.run(&["getent", "passwd", "haul"])?;
    if !user.contains("/var/lib/haul:/usr/sbin/nologin") {
        return Err(format!("the account of the service is wrong: {user}"));
    }
    Ok(())
}

fn try_workers(cell: &Cell, package: &Path) -> Result<(), String> {
    let name = PackageKind::Workers.name();
    let inside = cell.put(package)?;
    cell.run(&["dpkg", "--install", &inside])?;
    workers::deploy(cell)?;
    let listed = cell.run(&["dpkg", "--listfiles", name])?;
    cell.run(&["dpkg", "--purge", name])?;
    cell.expect_gone(listed.lines().filter(|path| *path != "/usr/share/doc/haul"))
}

fn replace(cell: &Cell, package: &Path) -> Result<(), String> {
    let kept = cell.change(CONFIGURATION)?;
    let inside = cell.put(package)?;
    cell.run(&["dpkg", "--install", &inside])?;
    let version = cell.run(&["dpkg-query", "--show", "--showformat", "${Version}", "haul"])?;
    if !version.ends_with("-2") {
        return Err(format!("the upgrade left version {version}"));
    }
    cell.expect(CONFIGURATION, &kept)?;
    cell.use_haul()
}

fn remove(cell: &Cell) -> Result<(), String> {
    let listed = cell.run(&["dpkg", "--listfiles", "haul"])?;
    cell.run(&["dpkg", "--remove", "haul"])?;
    if cell.has("usr/bin/haul") || !cell.has(CONFIGURATION) {
        return Err("dpkg --remove: the executable is left, or the configuration is gone".to_owned());
    }
    cell.run(&["dpkg", "--purge", "haul"])?;
    cell.expect_gone(listed.lines())
}

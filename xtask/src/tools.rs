//! The programs that the tests need: found, installed where that is possible, or named.

use std::process::Command;
use std::time::Duration;

use haul_lab::find_program;

use crate::run::{Output, run};
use crate::workspace::cargo;

/// How long `apt-get` may take.
const INSTALL_LIMIT: Duration = Duration::from_secs(600);

/// A program, and where it comes from.
pub struct InstalledTool {
    /// Its name on PATH.
    pub program: &'static str,
    /// The Debian package that has it.
    pub package: &'static str,
    /// Whether the tests can run without it. They then report what they skip.
    pub optional: bool,
}

const fn needed(program: &'static str, package: &'static str) -> InstalledTool {
    InstalledTool { program, package, optional: false }
}

const fn optional(program: &'static str, package: &'static str) -> InstalledTool {
    InstalledTool { program, package, optional: true }
}

/// Every program that the tests start, except those of a Rust toolchain.
pub const TOOLS: &[InstalledTool] = &[
    needed("sshd", "openssh-server"),
    needed("ssh", "openssh-client"),
    needed("ssh-keygen", "openssh-client"),
    needed("b3sum", "b3sum"),
    needed("ip", "iproute2"),
    needed("nft", "nftables"),
    needed("ping", "iputils-ping"),
    needed("iperf3", "iperf3"),
    needed("nc", "netcat-openbsd"),
    needed("nsenter", "util-linux"),
    needed("strace", "strace"),
    needed("mount", "mount"),
    needed("busybox", "busybox-static"),
    needed("script", "bsdutils"),
    needed("objdump", "binutils"),
    optional("mkfs.btrfs", "btrfs-progs"),
    optional("mkfs.xfs", "xfsprogs"),
    optional("rsync", "rsync"),
    optional("zsh", "zsh"),
    optional("tcsh", "tcsh"),
    optional("fish", "fish"),
    optional("chromium", "chromium"),
    optional("python3", "python3-venv"),
    optional("parallel", "parallel"),
    optional("mpirun", "openmpi-bin"),
    optional("slurmctld", "slurm-wlm"),
    optional("munged", "munge"),
];

/// A program that cargo installs.
pub struct CargoTool {
    /// Its name on PATH.
    program: &'static str,
    /// The crate that has it.
    package: &'static str,
    /// The version that is installed where there is none.
    version: &'static str,
    /// Arguments that make it print its version.
    prints_version: &'static [&'static str],
}

const fn from_cargo(program: &'static str, package: &'static str, version: &'static str) -> CargoTool {
    CargoTool { program, package, version, prints_version: &["--version"] }
}

/// Checks dependencies.
pub const CARGO_DENY: CargoTool = from_cargo("cargo-deny", "cargo-deny", "0.20.2");
/// Checks spelling.
pub const TYPOS: CargoTool = from_cargo("typos", "typos-cli", "1.49.0");
/// Makes Debian packages.
pub const CARGO_DEB: CargoTool = from_cargo("cargo-deb", "cargo-deb", "3.8.0");
/// Makes RPM packages.
pub const CARGO_GENERATE_RPM: CargoTool = from_cargo("cargo-generate-rpm", "cargo-generate-rpm", "0.21.1");
/// Lists components.
pub const CARGO_CYCLONEDX: CargoTool = CargoTool {
    prints_version: &["cyclonedx", "--version"],
    ..from_cargo("cargo-cyclonedx", "cargo-cyclonedx", "0.5.9")
};
/// Lists the public interface of a library.
pub const CARGO_PUBLIC_API: CargoTool = from_cargo("cargo-public-api", "cargo-public-api", "0.52.0");
/// Finds incompatible changes of public interfaces.
pub const CARGO_SEMVER_CHECKS: CargoTool = CargoTool {
    program: "cargo-semver-checks",
    package: "cargo-semver-checks",
    version: "0.51.0",
    prints_version: &["semver-checks", "--version"],
};

impl CargoTool {
    /// Installs the program where it is missing; says why it could not be.
    pub fn provide(&self) -> Result<(), String> {
        let Self { program, package, version, prints_version } = *self;
        let is_there = || {
            let mut ask = Command::new(program);
            run(ask.args(prints_version), Duration::from_secs(60), Output::Kept).succeeded()
        };
        if is_there() {
            return Ok(());
        }
        println!("installing {package} {version}");
        // Unoptimised: it runs for a second, and compiles for a minute or two instead of several.
        let mut install = cargo(&["install", package, "--locked", "--debug", "--version", version]);
        run(&mut install, INSTALL_LIMIT, Output::Shown);
        if is_there() {
            return Ok(());
        }
        Err(format!("{program} is not installed: cargo install {package} --locked --version {version}"))
    }
}

/// The result of looking for the tools.
pub struct ToolSearch {
    /// Required tools that are missing and cannot be installed: one line each, with the remedy.
    pub missing: Vec<String>,
    /// Optional and missing: one line each.
    pub left_out: Vec<String>,
}

/// Looks for every tool. As root on a system with `apt-get`, installs missing ones.
pub fn provide() -> ToolSearch {
    let absent = absent();
    if !absent.is_empty() && rustix::process::geteuid().is_root() && find_program("apt-get").is_some() {
        install(&absent);
    }
    let mut found = ToolSearch { missing: Vec::new(), left_out: Vec::new() };
    for tool in self::absent() {
        let remedy = format!("{} is not installed: apt-get install {}", tool.program, tool.package);
        let list = if tool.optional { &mut found.left_out } else { &mut found.missing };
        list.push(remedy);
    }
    found
}

/// The tools that are not there.
fn absent() -> Vec<&'static InstalledTool> {
    TOOLS.iter().filter(|tool| find_program(tool.program).is_none()).collect()
}

/// Installs the packages of `tools`. The next search for the tools reveals failures.
fn install(tools: &[&InstalledTool]) {
    let mut packages: Vec<_> = tools.iter().map(|tool| tool.package).collect();
    packages.dedup();
    println!("installing {}", packages.join(" "));
    let apt = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command.args(["-q", "-y", "-o", "Dpkg::Use-Pty=0"]).args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
        // Services of a package are not wanted: tests start their own (invoke-rc.d(8)).
        command.env("RUNLEVEL", "1");
        run(&mut command, INSTALL_LIMIT, Output::Shown)
    };
    let arguments = [&["install", "--no-install-recommends"][..], &packages].concat();
    // A new machine has no package lists; fresh ones need no update.
    if !apt(&arguments).succeeded() && apt(&["update"]).succeeded() {
        apt(&arguments);
    }
}

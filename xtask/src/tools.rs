//! The programs that the tests need: found, installed where that is possible, or named.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use haul_lab::find_program;

use crate::run::{Output, run};
use crate::venv::VirtualEnvironment;
use crate::workspace::{cargo, root};

/// How long `apt-get` may take.
const INSTALL_LIMIT: Duration = Duration::from_secs(600);
/// How long compiling a tool may take.
const COMPILE_LIMIT: Duration = Duration::from_secs(1800);

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

/// A program of cargo's world: a wheel of `xtask/tools.txt`, or compiled by cargo.
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
/// Runs tests.
pub const CARGO_NEXTEST: CargoTool =
    CargoTool { prints_version: &["nextest", "--version"], ..from_cargo("cargo-nextest", "cargo-nextest", "0.9.148") };
/// Checks spelling.
pub const TYPOS: CargoTool = from_cargo("typos", "typos-cli", "1.52.0");
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
    prints_version: &["semver-checks", "--version"],
    ..from_cargo("cargo-semver-checks", "cargo-semver-checks", "0.51.0")
};

impl CargoTool {
    /// The program, installed where it is missing; or why it could not be.
    pub fn command(&self) -> Result<Command, String> {
        let wheel = wheels().map(|directory| directory.join("bin").join(self.program)).filter(|path| path.exists());
        match wheel {
            Some(path) => Ok(Command::new(path)),
            None => self.provide().map(|()| Command::new(self.program)),
        }
    }

    /// Compiles and installs the program where PATH has none; says why it could not be.
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
        run(&mut install, COMPILE_LIMIT, Output::Shown);
        if is_there() {
            return Ok(());
        }
        Err(format!("{program} is not installed: cargo install {package} --locked --version {version}"))
    }
}

/// The environment with the wheels of `tools.txt`, in the user's cache directory; none where it cannot be made.
fn wheels() -> Option<&'static Path> {
    static WHEELS: OnceLock<Option<PathBuf>> = OnceLock::new();
    let provided = WHEELS.get_or_init(|| {
        let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
        let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or(home)?;
        let directory = cache.join("haul-xtask/tools");
        let environment = VirtualEnvironment {
            directory: &directory,
            project: &root().join("xtask"),
            inputs: &["tools.txt"],
            installs: &[&["--only-binary", ":all:", "--require-hashes", "-r", "tools.txt"]],
        };
        let provided = environment.provide().inspect_err(|why| println!("no ready-made tools: {why}"));
        provided.is_ok().then_some(directory)
    });
    provided.as_deref()
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

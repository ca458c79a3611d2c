//! The hosts of a benchmark: ssh's server on the far one, and two namespaces that a cable joins.

use std::ffi::OsString;
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use haul_lab::{Netns, Options, Sshd};
use tempfile::TempDir;

use crate::programs;
use crate::settings::BenchSettings;

const NEAR: &str = "10.79.0.1/24";
const FAR: &str = "10.79.0.2/24";
/// Where the far host of a [`CabledPair`] is.
pub const FAR_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 79, 0, 2);

/// Starts ssh's server, where programs in `programs` are found by PATH, so that none has to be put there in the timed part.
/// An empty home directory keeps what this account's `.bashrc` does at each login out of the figures.
pub fn start_sshd(options: Options<'_>, programs: Option<&Path>, home: &Path) -> Result<Sshd> {
    let own = std::env::var_os("PATH").unwrap_or_else(|| OsString::from("/usr/bin:/bin"));
    let mut path = programs.map(|programs| programs.as_os_str().to_owned()).unwrap_or_default();
    if !path.is_empty() {
        path.push(":");
    }
    path.push(own);
    let home = Sshd::can_force_home().then(|| home.to_owned());
    Sshd::start(Options { home, path: Some(path), ..options })
}

/// Two hosts that a cable joins, with ssh's server on the far one. Fields are dropped in this order: whoever uses a
/// namespace goes before it.
pub struct CabledPair {
    /// The far host's.
    pub sshd: Sshd,
    /// Where commands are typed.
    pub near: Netns,
    /// The other one.
    pub far: Netns,
    /// The cable's ends: at the near host, and at the far one.
    pub cable: (String, String),
    /// For whatever is copied: removed in the end.
    pub directory: TempDir,
    /// The program.
    pub haul: PathBuf,
}

impl CabledPair {
    /// Makes the hosts, for a benchmark of this name.
    pub fn prepare(settings: &BenchSettings, name: &str) -> Result<Self> {
        let haul = programs::find_haul(settings.haul.as_deref())?
            .context("there is no haul: cargo build --release --package haul")?;
        let directory = tempfile::Builder::new().prefix(&format!("haul-{name}-")).tempdir_in(&settings.dir)?;
        let (near, far) = (Netns::create()?, Netns::create()?);
        let cable = near.connect(&far, NEAR, FAR)?;
        let home = directory.path().join("home");
        fs::create_dir(&home)?;
        let options = Options { address: IpAddr::V4(FAR_ADDRESS), netns: Some(&far), ..Options::default() };
        let sshd = start_sshd(options, haul.parent(), &home)?;
        Ok(Self { sshd, near, far, cable, directory, haul })
    }

    /// ssh as rsync starts it.
    pub fn ssh(&self) -> String {
        format!("ssh -F {}", self.sshd.ssh_config().display())
    }

    /// A path on the far host.
    pub fn location(&self, path: &Path) -> OsString {
        self.sshd.location(path)
    }

    /// The same command, on the near host.
    pub fn place(&self, command: &Command) -> Command {
        self.near.enclose(command)
    }
}

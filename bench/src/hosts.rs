//! The hosts of a benchmark: ssh's server on the far one, and two namespaces that a cable joins.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use haul_lab::{CabledHosts, Options, Sshd};
use tempfile::TempDir;

use crate::programs;
use crate::settings::BenchSettings;

/// Starts an sshd that finds programs in `programs` by PATH, so the timed part installs nothing. Its empty home
/// directory keeps the commands of this account's `.bashrc` out of the figures.
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
    /// Commands are typed on the near one.
    pub hosts: CabledHosts,
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
        let hosts = CabledHosts::new()?;
        let home = directory.path().join("home");
        fs::create_dir(&home)?;
        let sshd = start_sshd(hosts.sshd_options(), haul.parent(), &home)?;
        Ok(Self { sshd, hosts, directory, haul })
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
        self.hosts.near.enclose(command)
    }
}

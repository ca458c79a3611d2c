//! Two hosts that a cable joins, the servers on the far one, and what the cable has carried.

use anyhow::{Context, Result};
use haul_lab::{Finished, Netns, Options, Sshd};
use serde_json::Value;
use std::cell::RefCell;
use std::ffi::OsString;
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

use crate::args::Settings;
use crate::daemon::Daemon;
use crate::site;

const NEAR: &str = "10.79.0.1/24";
const FAR: &str = "10.79.0.2/24";
const FAR_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 79, 0, 2);
/// In a namespace of its own, nothing else is there.
const RSYNC_PORT: u16 = 8873;

/// Fields are dropped in this order: whoever uses a namespace goes before it.
pub struct Hosts {
    rsyncd: RefCell<Option<(Daemon, PathBuf)>>,
    sshd: Sshd,
    near: Netns,
    far: Netns,
    /// The near end of the cable.
    interface: String,
    directory: TempDir,
    haul: PathBuf,
}

impl Hosts {
    /// Makes the hosts, and starts ssh's server.
    pub fn prepare(settings: &Settings) -> Result<Self> {
        let haul = site::find_haul(settings.haul.as_deref())?
            .context("there is no haul: cargo build --release --package haul")?;
        let directory = tempfile::Builder::new().prefix("haul-sync-").tempdir_in(&settings.dir)?;
        let (near, far) = (Netns::create()?, Netns::create()?);
        let (interface, _) = near.connect(&far, NEAR, FAR)?;
        let home = directory.path().join("home");
        fs::create_dir(&home)?;
        let own = std::env::var("PATH").unwrap_or_default();
        let path = format!("{}:{own}", haul.parent().unwrap_or(Path::new("/usr/bin")).display());
        let sshd = Sshd::start(Options {
            address: IpAddr::V4(FAR_ADDRESS),
            netns: Some(&far),
            home: Sshd::can_force_home().then_some(home),
            path: Some(path.into()),
            ..Options::default()
        })?;
        Ok(Self { rsyncd: RefCell::new(None), sshd, near, far, interface, directory, haul })
    }

    /// Starts rsync's daemon for what is in a directory, in the place of the one before.
    pub fn serve(&self, place: &Path) -> Result<()> {
        self.rsyncd.borrow_mut().take();
        let file = self.directory.path().join("rsyncd.conf");
        let text = format!(
            "address = {FAR_ADDRESS}\nuse chroot = no\nreverse lookup = no\nuid = 0\ngid = 0\n[bench]\npath = {}\nread only = no\n",
            place.display()
        );
        fs::write(&file, text)?;
        let mut command = Command::new("rsync");
        command.args(["--daemon", "--no-detach", &format!("--port={RSYNC_PORT}")]).arg("--config").arg(file);
        let daemon = Daemon::start(&self.far.enclose(&command), RSYNC_PORT)?;
        *self.rsyncd.borrow_mut() = Some((daemon, place.to_owned()));
        Ok(())
    }

    /// haul's own command.
    pub fn haul(&self) -> Command {
        let mut command = Command::new(&self.haul);
        command.arg("sync").args(self.sshd.haul_args());
        command
    }

    /// ssh as rsync starts it.
    pub fn ssh(&self) -> String {
        format!("ssh -F {}", self.sshd.ssh_config().display())
    }

    /// A path on the far host.
    pub fn location(&self, path: &Path) -> OsString {
        self.sshd.location(path)
    }

    /// The same for rsync's daemon.
    pub fn module(&self, path: &Path) -> Result<String> {
        let serving = self.rsyncd.borrow();
        let (_, place) = serving.as_ref().context("rsync's daemon does not run")?;
        let below = path.strip_prefix(place).context("a target elsewhere")?;
        Ok(format!("rsync://{FAR_ADDRESS}:{RSYNC_PORT}/bench/{}", below.display()))
    }

    /// The same command, on the near host.
    pub fn place(&self, command: &Command) -> Command {
        self.near.enclose(command)
    }

    /// Bytes that the cable has carried so far, in both directions.
    pub fn bytes_on_cable(&self) -> Result<u64> {
        let said = self.near.run("ip", ["-j", "-s", "link", "show", "dev", &self.interface])?;
        let said: Value = serde_json::from_str(&said).context("ip -j -s link")?;
        let bytes = |direction: &str| said[0]["stats64"][direction]["bytes"].as_u64();
        bytes("rx").zip(bytes("tx")).map(|(received, sent)| received + sent).context("ip says nothing of bytes")
    }
}

/// What haul says with `--json`: the most memory of source and target, and the bytes of the records that it sent.
pub fn told(finished: &Finished) -> [u64; 3] {
    let stdout = finished.stdout_text();
    let summary: Value = stdout.lines().last().and_then(|line| serde_json::from_str(line).ok()).unwrap_or_default();
    ["source_peak_bytes", "target_peak_bytes", "bytes_on_wire"]
        .map(|figure| summary[figure].as_u64().unwrap_or_default())
}

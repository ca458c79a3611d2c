//! Two hosts joined by a cable, rsync's daemon on the far one, and the cable's byte counts.

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use haul_lab::{CabledHosts, Finished};
use serde_json::Value;

use crate::daemon::Daemon;
use crate::hosts::CabledPair;
use crate::settings::BenchSettings;

/// Any port is free in a private namespace.
const RSYNC_PORT: u16 = 8873;

/// Fields are dropped in this order: users of a namespace before the namespace.
pub struct SyncHosts {
    rsyncd: RefCell<Option<(Daemon, PathBuf)>>,
    pub pair: CabledPair,
}

impl SyncHosts {
    /// Makes the hosts, and starts ssh's server.
    pub fn prepare(settings: &BenchSettings) -> Result<Self> {
        Ok(Self { rsyncd: RefCell::new(None), pair: CabledPair::prepare(settings, "sync")? })
    }

    /// Starts rsync's daemon for a directory, and ends the one before.
    pub fn serve(&self, place: &Path) -> Result<()> {
        self.rsyncd.borrow_mut().take();
        let file = self.pair.directory.path().join("rsyncd.conf");
        let text = format!(
            "address = {}\nuse chroot = no\nreverse lookup = no\nuid = 0\ngid = 0\n[bench]\npath = {}\nread only = no\n",
            CabledHosts::FAR,
            place.display()
        );
        fs::write(&file, text)?;
        let mut command = Command::new("rsync");
        command.args(["--daemon", "--no-detach", &format!("--port={RSYNC_PORT}")]).arg("--config").arg(file);
        let daemon = Daemon::start(&self.pair.hosts.far.enclose(&command), RSYNC_PORT)?;
        *self.rsyncd.borrow_mut() = Some((daemon, place.to_owned()));
        Ok(())
    }

    /// A command of haul.
    pub fn haul(&self, word: &str) -> Command {
        let mut command = Command::new(&self.pair.haul);
        command.arg(word).args(self.pair.sshd.haul_args());
        command
    }

    /// A path on the far host, for rsync's daemon.
    pub fn module(&self, path: &Path) -> Result<String> {
        let serving = self.rsyncd.borrow();
        let (_, place) = serving.as_ref().context("rsync's daemon does not run")?;
        let below = path.strip_prefix(place).context("a target elsewhere")?;
        Ok(format!("rsync://{}:{RSYNC_PORT}/bench/{}", CabledHosts::FAR, below.display()))
    }

    /// Bytes that the cable has carried so far, in both directions.
    pub fn bytes_on_cable(&self) -> Result<u64> {
        let said = self.pair.hosts.near.run("ip", ["-j", "-s", "link", "show", "dev", &self.pair.hosts.cable.0])?;
        let said: Value = serde_json::from_str(&said).context("ip -j -s link")?;
        let bytes = |direction: &str| said[0]["stats64"][direction]["bytes"].as_u64();
        bytes("rx").zip(bytes("tx")).map(|(received, sent)| received + sent).context("ip says nothing of bytes")
    }
}

/// From haul's `--json` output: the peak memory of source and target, and the bytes of records sent.
pub fn told(finished: &Finished) -> [u64; 3] {
    let stdout = finished.stdout_text();
    let summary: Value = stdout.lines().last().and_then(|line| serde_json::from_str(line).ok()).unwrap_or_default();
    ["source_peak_bytes", "target_peak_bytes", "bytes_on_wire"]
        .map(|figure| summary[figure].as_u64().unwrap_or_default())
}

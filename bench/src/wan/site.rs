//! The two hosts at the ends of one link: their directories and the servers of the far one.

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use haul_lab::{Options, Sshd, TestTree, Wan, find_program};
use tempfile::TempDir;

use crate::daemon::{Daemon, free_port};
use crate::hosts;
use crate::programs::find_haul;
use crate::site::{PREFIX, ensure_plain, remove_leftovers};

const SEED: u64 = 0x6861_756c;
const FILE: &str = "file";
const HOSTS: &str = "hosts";
/// Names of the two hosts.
pub const NEAR: &str = "near";
const FAR: &str = "far";

/// The file that is copied. Removed in `Drop`.
#[derive(Debug)]
pub struct WanData {
    directory: TempDir,
    bytes: u64,
    haul: Option<PathBuf>,
}

impl WanData {
    /// Makes `bytes` in a new directory in `dir`, to be copied by the haul that was named, or else by the release build.
    pub fn make(dir: &Path, bytes: u64, haul: Option<&Path>) -> Result<Self> {
        remove_leftovers(dir);
        let prefix = format!("{PREFIX}{}-", std::process::id());
        let directory = tempfile::Builder::new().prefix(&prefix).tempdir_in(dir);
        let directory = directory.with_context(|| format!("making a directory in {dir:?}"))?;
        ensure_plain(directory.path())?;
        for child in ["source", "target", "home"] {
            fs::create_dir(directory.path().join(child)).with_context(|| format!("making {child} in {directory:?}"))?;
        }
        let bytes = TestTree::new(directory.path().join("source"), SEED).incompressible_file(FILE, bytes)?;
        Ok(Self { directory, bytes, haul: find_haul(haul)? })
    }
}

/// A link with servers at its far end. Ended in `Drop`, the servers before their network.
#[derive(Debug)]
pub struct WanSite<'a> {
    /// For everything that goes through ssh.
    pub sshd: Sshd,
    /// The GridFTP server, if its program is there, and its port.
    pub gridftp: Option<(Daemon, u16)>,
    /// The link.
    pub wan: Wan,
    /// The haul that is measured, if it exists.
    pub haul: Option<PathBuf>,
    /// Size of the file.
    pub bytes: u64,
    /// Where source and target are.
    pub directory: &'a Path,
}

impl<'a> WanSite<'a> {
    /// Starts the servers at the far end of `wan`.
    pub fn prepare(data: &'a WanData, wan: Wan) -> Result<Self> {
        let directory = data.directory.path();
        let sshd = start_sshd(&wan, data.haul.as_deref(), &directory.join("home"))?;
        ensure_plain(sshd.directory())?;
        fs::write(directory.join(HOSTS), hosts()).context("writing names of hosts")?;
        let gridftp = start_gridftp(&wan, directory)?;
        Ok(Self { sshd, gridftp, wan, haul: data.haul.clone(), bytes: data.bytes, directory })
    }

    /// The file that is copied.
    pub fn source(&self) -> PathBuf {
        self.directory.join("source").join(FILE)
    }

    /// The directory that it is copied into.
    pub fn target(&self) -> PathBuf {
        self.directory.join("target")
    }

    /// Where the copy is then.
    pub fn copy(&self) -> PathBuf {
        self.target().join(FILE)
    }

    /// Removes the copy.
    pub fn empty_target(&self) -> Result<()> {
        let target = self.target();
        fs::remove_dir_all(&target)
            .and_then(|()| fs::create_dir(&target))
            .with_context(|| format!("emptying {target:?}"))
    }
}

fn start_sshd(wan: &Wan, haul: Option<&Path>, home: &Path) -> Result<Sshd> {
    let options = Options { address: IpAddr::V4(Wan::ADDRESS_B), netns: Some(wan.b()), ..Options::default() };
    hosts::start_sshd(options, haul.and_then(Path::parent), home)
}

/// GridFTP insists on a name for every address; there is no name server at either end, and this machine's own table of
/// names shall stay as it is. So its programs see another one in its place.
pub fn with_hosts(directory: &Path, own_name: &str, program: &Path) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", r#"mount --bind "$0" /etc/hosts && exec "$@""#]);
    command.arg(directory.join(HOSTS)).arg("env").arg(format!("GLOBUS_HOSTNAME={own_name}")).arg(program);
    command
}

fn hosts() -> String {
    format!("127.0.0.1 localhost\n{} {NEAR}\n{} {FAR}\n", Wan::ADDRESS_A, Wan::ADDRESS_B)
}

fn start_gridftp(wan: &Wan, directory: &Path) -> Result<Option<(Daemon, u16)>> {
    let Some(server) = find_program("globus-gridftp-server") else { return Ok(None) };
    let (port, address) = (free_port()?, Wan::ADDRESS_B.to_string());
    let mut command = with_hosts(directory, FAR, &server);
    command.args(["-c", "/dev/null", "-no-detach", "-aa", "-p", &port.to_string()]);
    command.args(["-control-interface", &address, "-data-interface", &address]);
    // It is always root's: without root there is no link.
    command.args(["-allow-root", "-anonymous-user", "root"]);
    Ok(Some((Daemon::start(&wan.b().enclose(&command), port)?, port)))
}

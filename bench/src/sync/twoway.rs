//! Two-way synchronisation: the command lines, and the first runs that make the archives.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use haul_lab::{find_program, start_measured};

use super::hosts::SyncHosts;
use super::{SyncTool, failure};
use crate::settings::BenchSettings;

/// A tool's command to bring the directories `near` and `far` to agreement. Archives are beside `near`.
pub fn command(hosts: &SyncHosts, tool: SyncTool, near: &Path, far: &Path) -> Result<Command> {
    let archives = near.parent().context("a replica without a directory")?.join("archives");
    let sshd = &hosts.pair.sshd;
    let mut command = match tool {
        SyncTool::Haul => hosts.haul("twoway"),
        _ => Command::new(tool.program()),
    };
    command.env("XDG_STATE_HOME", &archives).env("UNISON", &archives);
    match tool {
        SyncTool::Unison => {
            command.args(["-batch", "-times", "-owner", "-group", "-ui", "text", "-sshargs"]);
            command.arg(format!("-F {}", sshd.ssh_config().display())).arg(near);
            command.arg(format!("ssh://{}/{}", sshd.host(), far.display()));
        }
        SyncTool::RcloneBisync => {
            // Otherwise it runs md5sum for each file, by a command of its own.
            command.args(["bisync", "--sftp-disable-hashcheck", "--config=", "--workdir"]).arg(&archives);
            command.args(["--sftp-host", &sshd.host(), "--sftp-port", &sshd.port().to_string()]);
            command.arg("--sftp-key-file").arg(sshd.identity());
            command.arg("--sftp-known-hosts-file").arg(sshd.known_hosts());
            command.arg(near).arg(format!(":sftp:{}", far.display()));
        }
        _ => {
            command.arg("--batch").arg(near).arg(hosts.pair.location(far));
        }
    }
    Ok(hosts.pair.place(&command))
}

/// The first run of a tool, whose replicas `near` and `far` are equal. Gives why it failed.
pub fn start(
    settings: &BenchSettings,
    hosts: &SyncHosts,
    tool: SyncTool,
    [near, far]: [&Path; 2],
) -> Result<Option<String>> {
    if tool != SyncTool::Haul && find_program(tool.program()).is_none() {
        return Ok(Some("not installed".into()));
    }
    let mut command = command(hosts, tool, near, far)?;
    if tool == SyncTool::RcloneBisync {
        command.arg("--resync");
    }
    Ok(failure(&start_measured(command)?.finish(settings.timeout)?))
}

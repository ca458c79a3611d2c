//! The tools compared over a long link, and their command lines. Each starts on the near host.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use haul_lab::{Wan, find_program};

use super::site::{NEAR, WanSite, with_hosts};

/// The fastest of ssh's ciphers on machines with AES instructions.
const CIPHER: &str = "aes128-gcm@openssh.com";

/// iperf3's own.
const IPERF3_PORT: u16 = 5201;

/// iperf3's own limit.
const STREAMS_MAX: u32 = 128;

/// One row of the tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WanTool {
    /// As on the command line; with its options, where it is a variant.
    pub name: String,
    kind: WanToolKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum WanToolKind {
    Haul(Vec<String>),
    Iperf3(u32),
    Rsync,
    Scp,
    Gridftp(u32),
}

/// All tools but haul's variants, in the order of the tables.
pub fn all() -> Vec<WanTool> {
    let all = [
        ("haul", WanToolKind::Haul(Vec::new())),
        ("iperf3-p8", WanToolKind::Iperf3(8)),
        ("iperf3-p1", WanToolKind::Iperf3(1)),
        ("rsync", WanToolKind::Rsync),
        ("scp", WanToolKind::Scp),
        ("gridftp-p8", WanToolKind::Gridftp(8)),
        ("gridftp-p16", WanToolKind::Gridftp(16)),
    ];
    all.into_iter().map(|(name, kind)| WanTool { name: name.to_owned(), kind }).collect()
}

/// The tool of this name: one of all, or iperf3 or GridFTP with another number of streams.
pub fn from_name(name: &str) -> Result<WanTool> {
    let names = || all().into_iter().map(|tool| tool.name).collect::<Vec<_>>().join(", ");
    let streams = |family: &str| {
        let number: u32 = name.strip_prefix(family)?.parse().ok()?;
        (1..=STREAMS_MAX).contains(&number).then_some(number)
    };
    let kind = streams("iperf3-p").map(WanToolKind::Iperf3).or_else(|| streams("gridftp-p").map(WanToolKind::Gridftp));
    let own = kind.map(|kind| WanTool { name: name.to_owned(), kind });
    let found = all().into_iter().find(|tool| tool.name == name).or(own);
    found.with_context(|| format!("there is no tool {name}; there are {}", names()))
}

impl WanTool {
    /// haul with options of its own.
    pub fn haul_with(options: &str) -> Self {
        let words: Vec<String> = options.split_whitespace().map(str::to_owned).collect();
        Self { name: format!("haul {}", words.join(" ")), kind: WanToolKind::Haul(words) }
    }

    /// Whether it is haul, with or without options.
    pub fn is_haul(&self) -> bool {
        matches!(self.kind, WanToolKind::Haul(_))
    }

    /// Whether it leaves a copy that can be compared.
    pub fn copies(&self) -> bool {
        !matches!(self.kind, WanToolKind::Iperf3(_))
    }

    /// Why it cannot run, with the remedy; none if it can.
    pub fn missing(&self, site: &WanSite) -> Option<String> {
        let (programs, remedy): (&[&str], _) = match self.kind {
            WanToolKind::Haul(_) if site.haul.is_none() => {
                return Some("not found: cargo build --release --package haul".into());
            }
            WanToolKind::Haul(_) => return None,
            WanToolKind::Iperf3(_) => (&["iperf3"], "apt-get install iperf3"),
            WanToolKind::Rsync => (&["rsync"], "apt-get install rsync"),
            WanToolKind::Scp => (&["scp"], "apt-get install openssh-client"),
            WanToolKind::Gridftp(_) => (
                &["globus-url-copy", "globus-gridftp-server"],
                "apt-get install globus-gass-copy-progs globus-gridftp-server-progs",
            ),
        };
        let lacking: Vec<&str> = programs.iter().copied().filter(|program| find_program(program).is_none()).collect();
        (!lacking.is_empty()).then(|| format!("not found: {} ({remedy})", lacking.join(", ")))
    }

    /// A server that serves one run alone, and the port it listens on.
    pub fn server(&self) -> Option<(Command, u16)> {
        let WanToolKind::Iperf3(_) = self.kind else { return None };
        let mut server = Command::new("iperf3");
        server.args(["--server", "--one-off", "--bind", &Wan::ADDRESS_B.to_string()]);
        Some((server, IPERF3_PORT))
    }

    /// The command to measure.
    pub fn client(&self, site: &WanSite) -> Result<Command> {
        let sshd = &site.sshd;
        let target = sshd.location(&site.target());
        let mut client;
        match &self.kind {
            WanToolKind::Haul(options) => {
                client = Command::new(site.haul.as_ref().context("there is no haul")?);
                client.args(options).args(sshd.haul_args()).arg(site.source()).arg(target);
            }
            WanToolKind::Iperf3(streams) => {
                client = Command::new("iperf3");
                client.args(["--json", "--client", &Wan::ADDRESS_B.to_string()]);
                client.args(["--parallel", &streams.to_string(), "--bytes", &site.bytes.to_string()]);
            }
            WanToolKind::Rsync => {
                client = Command::new("rsync");
                let shell = format!("ssh -F {} -c {CIPHER}", sshd.ssh_config().display());
                client.args(["-e", &shell]).arg(site.source()).arg(target);
            }
            WanToolKind::Scp => {
                client = Command::new("scp");
                client.arg("-q").arg("-F").arg(sshd.ssh_config()).args(["-c", CIPHER]).arg(site.source()).arg(target);
            }
            WanToolKind::Gridftp(streams) => {
                let (_, port) = site.gridftp.as_ref().context("the GridFTP server does not run")?;
                client = with_hosts(site.directory, NEAR, Path::new("globus-url-copy"));
                client.args(["-fast", "-p", &streams.to_string()]);
                client.arg(format!("file://{}", site.source().display()));
                client.arg(format!("ftp://{}:{port}{}", Wan::ADDRESS_B, site.copy().display()));
            }
        }
        Ok(client)
    }

    /// The bytes that a successful run transferred, if only the tool itself knows.
    pub fn brought(&self, said: &str) -> Option<u64> {
        let WanToolKind::Iperf3(_) = self.kind else { return None };
        let value: serde_json::Value = serde_json::from_str(said).ok()?;
        value["end"]["sum_received"]["bytes"].as_u64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_found() {
        let all = all();
        for (index, tool) in all.iter().enumerate() {
            assert!(all[index + 1..].iter().all(|other| other.name != tool.name), "{}", tool.name);
            assert_eq!(&from_name(&tool.name).expect("its own name"), tool);
        }
        let more = from_name("iperf3-p32").expect("any number of streams");
        assert_eq!((more.name.as_str(), more.kind), ("iperf3-p32", WanToolKind::Iperf3(32)));
        assert!(from_name("iperf3-p0").is_err() && from_name("iperf3-p129").is_err() && from_name("scp-p8").is_err());
        assert!(from_name("haul").is_ok_and(|tool| tool.is_haul() && tool.copies()));
    }

    #[test]
    fn iperf3_reports_received_bytes() {
        let iperf3 = from_name("iperf3-p8").expect("it is there");
        let said = r#"{"end": {"sum_sent": {"bytes": 7}, "sum_received": {"bytes": 5}}}"#;
        assert_eq!((iperf3.brought(said), iperf3.brought("{}")), (Some(5), None));
        assert_eq!(from_name("scp").expect("it is there").brought(said), None);
    }
}

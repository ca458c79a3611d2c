//! Two hosts and the network between them, built from a [`Network`].

use std::net::IpAddr;

use anyhow::{Context, Result};
use haul_lab::{Netns, Options, Wan, output_of};

use super::scene::{Network, SceneEnd, StartedBy, Window};
use crate::{Haul, HostPair, Remote, Sandbox};

/// A policer's burst is its traffic of this fraction of a second.
const POLICED_BURSTS_PER_S: u64 = 40;
/// No policer's burst is smaller: a few packets.
const POLICED_BURST_MIN_KIB: u64 = 64;

/// The hosts; gone with this value.
#[derive(Debug)]
pub enum DiagnoseHosts {
    /// Both are this machine.
    One(Remote),
    /// A cable.
    Pair(HostPair),
    /// A long link. The far host ends before its network does.
    Wan(Remote, Wan),
}

impl DiagnoseHosts {
    /// Builds them.
    pub fn build(sandbox: &Sandbox, network: &Network) -> Result<Self> {
        Ok(match network {
            Network::Loopback => Self::One(Remote::new(sandbox)),
            Network::Cable => Self::Pair(HostPair::new(sandbox)),
            Network::Slow { mbit_per_s } => Self::Pair(HostPair::slow(sandbox, *mbit_per_s)),
            Network::Policed { kib_per_s } => Self::Pair(policed(sandbox, *kib_per_s)?),
            Network::Filtered { rules } => Self::Pair(filtered(sandbox, *rules)?),
            Network::Wan(settings) => {
                let wan = Wan::new(settings)?;
                let address = IpAddr::V4(Wan::ADDRESS_B);
                let options = Options { address, netns: Some(wan.b()), ..Options::default() };
                Self::Wan(Remote::with_haul(sandbox, options), wan)
            }
        })
    }

    /// The far host.
    pub fn remote(&self) -> &Remote {
        match self {
            Self::One(remote) | Self::Wan(remote, _) => remote,
            Self::Pair(pair) => &pair.remote,
        }
    }

    /// The program on the near host.
    pub fn haul<'a>(&'a self, sandbox: &'a Sandbox) -> Haul<'a> {
        let haul = self.remote().haul(sandbox);
        match self.netns() {
            Some([near, _]) => haul.netns(near),
            None => haul,
        }
    }

    /// Keeps one end's socket buffers small.
    pub fn keep_small(&self, window: Window, way: StartedBy) -> Result<()> {
        let [near, far] = self.netns().context("windows belong to a host with a network of its own")?;
        let host = if way.near() == window.end { near } else { far };
        let setting = match window.end {
            SceneEnd::Source => "tcp_wmem",
            SceneEnd::Target => "tcp_rmem",
        };
        let bytes = window.bytes;
        let least = bytes.min(16 << 10);
        let script = format!("echo 4096 {least} {bytes} >/proc/sys/net/ipv4/{setting}");
        host.run("sh", ["-c", &script]).map(|_| ())
    }

    fn netns(&self) -> Option<[&Netns; 2]> {
        match self {
            Self::One(_) => None,
            Self::Pair(pair) => Some([&pair.near, &pair.far]),
            Self::Wan(_, wan) => Some([wan.a(), wan.b()]),
        }
    }
}

/// Hosts that drop incoming traffic above a rate, at once and without a queue.
fn policed(sandbox: &Sandbox, kib_per_s: u64) -> Result<HostPair> {
    let pair = HostPair::new(sandbox);
    let burst_kib = (kib_per_s / POLICED_BURSTS_PER_S).max(POLICED_BURST_MIN_KIB);
    let rule = format!("iifname != \"lo\" limit rate over {kib_per_s} kbytes/second burst {burst_kib} kbytes drop");
    let rules =
        format!("table inet police {{\n chain input {{\n type filter hook input priority 0;\n {rule}\n }}\n }}\n");
    for (host, interface) in pair.ends() {
        one_by_one(host, interface)?;
        host.nft(&rules)?;
    }
    Ok(pair)
}

/// Hosts where one processor takes all packets that come in, each past so many rules.
fn filtered(sandbox: &Sandbox, rules: u32) -> Result<HostPair> {
    let pair = HostPair::new(sandbox);
    let rule = "ip saddr 192.0.2.1 tcp dport 9 drop\n".repeat(rules as usize);
    let rules = format!("table inet busy {{\n chain input {{\n type filter hook input priority 0;\n {rule} }}\n }}\n");
    for (host, interface) in pair.ends() {
        one_by_one(host, interface)?;
        host.nft(&rules)?;
        // The files of a network's interfaces are seen with the mounts that `ip netns exec` makes.
        let one = format!("echo 2 >/sys/class/net/{interface}/queues/rx-0/rps_cpus");
        let mut command = std::process::Command::new("ip");
        output_of(command.args(["netns", "exec", host.name(), "sh", "-c", &one]))?;
    }
    Ok(pair)
}

/// Has an interface send packets as on a cable, not dozens in one.
fn one_by_one(host: &Netns, interface: &str) -> Result<()> {
    host.run("ip", ["link", "set", "dev", interface, "gso_max_segs", "1"]).map(|_| ())
}

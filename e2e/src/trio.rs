//! Three hosts: haul runs on the first, reaches the others by ssh, and copies from one of them to the other.

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use haul_lab::{Netns, Options};

use crate::program::Haul;
use crate::{Remote, Sandbox};

/// How the two hosts that ssh reaches may speak to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostLink {
    /// Not at all.
    None,
    /// A direct cable, unknown to the first host.
    Cable,
    /// Through the first host, which routes between the others.
    Routed,
}

/// Three hosts, each of the others joined to the first by a cable of its own.
#[derive(Debug)]
pub struct Trio {
    /// The source, reachable by ssh. Declared before the networks, to be dropped before them.
    pub a: Remote,
    /// The target; ssh reaches it.
    pub b: Remote,
    /// Where haul runs.
    pub first: Netns,
    /// The network of the source.
    pub net_a: Netns,
    /// The network of the target.
    pub net_b: Netns,
    ssh_options: Vec<String>,
}

impl Trio {
    /// Address of the source, as the first host knows it.
    pub const A: &str = "10.81.0.2";
    /// Address of the target, as the first host knows it.
    pub const B: &str = "10.82.0.2";

    /// The addresses of source and target on their own cable.
    pub const CABLE: [&str; 2] = ["10.83.0.1", "10.83.0.2"];

    /// Three hosts, two of them with an sshd.
    #[track_caller]
    pub fn new(sandbox: &Sandbox, link: HostLink) -> Self {
        Self::try_new(sandbox, link).unwrap_or_else(|error| panic!("{error:#}"))
    }

    #[track_caller]
    fn try_new(sandbox: &Sandbox, link: HostLink) -> anyhow::Result<Self> {
        let (first, net_a, net_b) = (Netns::create()?, Netns::create()?, Netns::create()?);
        first.connect(&net_a, "10.81.0.1/24", "10.81.0.2/24")?;
        first.connect(&net_b, "10.82.0.1/24", "10.82.0.2/24")?;
        if link == HostLink::Routed {
            first.run("sysctl", ["-qw", "net.ipv4.ip_forward=1"])?;
            net_a.run("ip", ["route", "add", "default", "via", "10.81.0.1"])?;
            net_b.run("ip", ["route", "add", "default", "via", "10.82.0.1"])?;
        }
        if link == HostLink::Cable {
            net_a.connect(&net_b, &format!("{}/24", Self::CABLE[0]), &format!("{}/24", Self::CABLE[1]))?;
        }
        let remote = |address: [u8; 4], netns, port| {
            let address = IpAddr::V4(Ipv4Addr::from(address));
            Remote::with_haul(sandbox, Options { address, port, netns: Some(netns), ..Options::default() })
        };
        // One port, since haul takes one for all hosts.
        let a = remote([10, 81, 0, 2], &net_a, None);
        let b = remote([10, 82, 0, 2], &net_b, Some(a.sshd().port()));
        let ssh_options = ssh_options(&a, &b);
        Ok(Self { a, b, first, net_a, net_b, ssh_options })
    }

    /// The program on the first host, with the options that it needs to log in to both others.
    pub fn haul<'a>(&'a self, sandbox: &'a Sandbox) -> Haul<'a> {
        let port = self.a.sshd().port().to_string();
        let options = self.ssh_options.iter().flat_map(|option| ["--ssh-option".to_owned(), option.clone()]);
        sandbox.haul(["--ssh-port", &port]).args(options).netns(&self.first)
    }

    /// The operands for a path at the source and one at the target.
    pub fn at(&self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> [OsString; 2] {
        [self.a.at(from), self.b.at(to)]
    }

    /// Fails the test unless every session of both hosts ends within a few seconds.
    #[track_caller]
    pub fn is_left_clean(&self) {
        self.a.is_left_clean();
        self.b.is_left_clean();
    }
}

/// ssh's options to log in to either of them.
fn ssh_options(a: &Remote, b: &Remote) -> Vec<String> {
    let mut options: Vec<String> =
        a.sshd().ssh_options().into_iter().filter(|option| !option.starts_with("UserKnownHostsFile")).collect();
    let files = [a, b].map(|remote| remote.sshd().known_hosts().display().to_string());
    options.push(format!("UserKnownHostsFile={}", files.join(" ")));
    options.extend([a, b].map(|remote| format!("IdentityFile={}", remote.sshd().identity().display())));
    options
}

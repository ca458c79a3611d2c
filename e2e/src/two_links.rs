//! Two hosts joined by two cables; ssh uses the first.

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use haul_lab::{Netns, Options};

use crate::program::Haul;
use crate::{Remote, Sandbox};

/// Haul runs on the near one, the sshd on the far one.
#[derive(Debug)]
pub struct TwoLinks {
    /// The far host; declared first, to be dropped before its network.
    pub remote: Remote,
    /// Where haul runs.
    pub near: Netns,
    /// Where the sshd runs.
    pub far: Netns,
    /// The interfaces of both cables at the near host.
    pub near_interfaces: [String; 2],
    /// The interfaces of both cables at the far host.
    pub far_interfaces: [String; 2],
}

impl TwoLinks {
    /// The near host's address on the first cable and on the second one.
    pub const NEAR: [&str; 2] = ["10.91.0.1", "10.92.0.1"];
    /// The far host's addresses.
    pub const FAR: [&str; 2] = ["10.91.0.2", "10.92.0.2"];
    /// The same, as IPv6.
    pub const FAR_V6: [&str; 2] = ["fd91::2", "fd92::2"];

    /// With cables that carry this much each way; 0: as much as the machine can.
    #[track_caller]
    pub fn new(sandbox: &Sandbox, megabit_per_s: [u32; 2]) -> Self {
        Self::try_new(sandbox, megabit_per_s).unwrap_or_else(|error| panic!("{error:#}"))
    }

    fn try_new(sandbox: &Sandbox, megabit_per_s: [u32; 2]) -> anyhow::Result<Self> {
        let (near, far) = (Netns::create()?, Netns::create()?);
        let mut interfaces = Vec::new();
        for (number, megabit_per_s) in [91, 92].into_iter().zip(megabit_per_s) {
            let (here, there) = near.connect(&far, &format!("10.{number}.0.1/24"), &format!("10.{number}.0.2/24"))?;
            for (host, interface, last) in [(&near, &here, 1), (&far, &there, 2)] {
                host.add_address(interface, &format!("fd{number}::{last}/64"))?;
                if megabit_per_s > 0 {
                    host.slow_down(interface, megabit_per_s)?;
                }
            }
            interfaces.push((here, there));
        }
        let [(near_1, far_1), (near_2, far_2)] = interfaces.try_into().expect("two cables");
        let address = IpAddr::V4(Ipv4Addr::new(10, 91, 0, 2));
        let remote = Remote::with_haul(sandbox, Options { address, netns: Some(&far), ..Options::default() });
        Ok(Self { remote, near, far, near_interfaces: [near_1, near_2], far_interfaces: [far_1, far_2] })
    }

    /// The program on the near host, with the options that it needs to log in to the far one.
    pub fn haul<'a>(&'a self, sandbox: &'a Sandbox) -> Haul<'a> {
        self.remote.haul(sandbox).netns(&self.near)
    }

    /// The operand for a path on the far host.
    pub fn at(&self, path: impl AsRef<Path>) -> OsString {
        self.remote.at(path)
    }

    /// Bytes that the near host has sent over each cable.
    #[track_caller]
    pub fn sent_bytes(&self) -> [u64; 2] {
        self.near_interfaces.each_ref().map(|interface| {
            let said = self.near.run("ip", ["-s", "-j", "link", "show", "dev", interface]);
            let said = said.unwrap_or_else(|error| panic!("{error:#}"));
            let parsed: serde_json::Value = serde_json::from_str(&said).expect("ip speaks JSON");
            parsed[0]["stats64"]["tx"]["bytes"].as_u64().unwrap_or_else(|| panic!("no figure in {said}"))
        })
    }

    /// Cuts a cable: whatever is sent over it is lost, without a word to anybody.
    #[track_caller]
    pub fn cut(&self, cable: usize) {
        for (hook, word) in [("input", "iifname"), ("output", "oifname")] {
            let interface = &self.far_interfaces[cable];
            let chain =
                format!("chain {hook} {{ type filter hook {hook} priority 0; {word} \"{interface}\" drop;\n }}\n");
            let rules = format!("table inet cut {{ {chain} }}\n");
            self.far.nft(&rules).unwrap_or_else(|error| panic!("{error:#}"));
        }
    }
}

//! Two hosts and the cable between them.

use std::net::Ipv4Addr;

use anyhow::Result;

use crate::netns::Netns;
use crate::sshd::Options;

/// Two hosts that a cable joins.
#[derive(Debug)]
pub struct CabledHosts {
    /// Where commands are typed.
    pub near: Netns,
    /// The other one.
    pub far: Netns,
    /// The cable's ends: at the near host, and at the far one.
    pub cable: (String, String),
}

impl CabledHosts {
    /// Address of the near host.
    pub const NEAR: &str = "10.77.0.1";
    /// Address of the far host.
    pub const FAR: &str = "10.77.0.2";

    /// Makes the hosts.
    pub fn new() -> Result<Self> {
        let (near, far) = (Netns::create()?, Netns::create()?);
        let cable = near.connect(&far, &format!("{}/24", Self::NEAR), &format!("{}/24", Self::FAR))?;
        Ok(Self { near, far, cable })
    }

    /// For an sshd on the far host.
    pub fn sshd_options(&self) -> Options<'_> {
        Options { address: Ipv4Addr::new(10, 77, 0, 2).into(), netns: Some(&self.far), ..Options::default() }
    }

    /// Both hosts, each with its end of the cable.
    pub fn ends(&self) -> [(&Netns, &str); 2] {
        [(&self.near, &self.cable.0), (&self.far, &self.cable.1)]
    }

    /// Lets the cable carry no more than this, each way.
    pub fn slow_down(&self, megabit_per_s: u32) -> Result<()> {
        self.ends().into_iter().try_for_each(|(host, interface)| host.slow_down(interface, megabit_per_s))
    }
}

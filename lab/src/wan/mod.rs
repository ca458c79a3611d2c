//! A long link between two hosts on this machine, for tests and benchmarks, with a configured delay, loss, rate and
//! queue.
//!
//! The link is a thread between two TUN devices, one in each host's network namespace. Netem is unsuitable, even where
//! the kernel has it: at the end of a sender's own interface, it tells TCP of drops that a real network keeps to
//! itself. It also loses superpackets as a whole, and does not tell losses from a full queue. This link is the same on
//! every machine, and a seed fixes its losses. `relay` describes its timing, `line` the packets' fate, and `packet` why
//! it is cheap: it keeps the kernel's superpackets whole where possible. It carries a gigabit a second on a fraction of
//! a core.

mod line;
mod packet;
mod relay;
mod tun;

use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use line::Properties;
use relay::Relay;

use crate::Netns;

/// The link's settings, the same in both directions, and those of its hosts' TCP.
#[derive(Debug, Clone, PartialEq)]
pub struct WanSettings {
    /// Round-trip time of an empty link: half of it each way.
    pub rtt: Duration,
    /// Probability that a packet is lost, each way, 0 to 1.
    pub loss: f64,
    /// Bits a second on the cable. Packets take as much as on Ethernet, 38 bytes more than themselves: TCP gets 94 % of it.
    pub rate_bits_per_s: u64,
    /// The queue's limit; none for one BDP.
    pub queue_bytes: Option<u64>,
    /// The same losses for the same packets.
    pub seed: u64,
    /// TCP's congestion control; none for this machine's default.
    pub congestion: Option<Congestion>,
    /// `net.ipv4.tcp_rmem` and `tcp_wmem`: most bytes of a socket's window; none for the kernel's default.
    pub window_max_bytes: Option<u64>,
}

impl Default for WanSettings {
    /// 1 Gbit/s, 50 ms, no loss.
    fn default() -> Self {
        Self {
            rtt: Duration::from_millis(50),
            loss: 0.0,
            rate_bits_per_s: 1_000_000_000,
            queue_bytes: None,
            seed: 1,
            congestion: None,
            window_max_bytes: None,
        }
    }
}

/// TCP's congestion control on both hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Congestion {
    /// As in `/proc/sys/net/ipv4/tcp_available_congestion_control`.
    pub name: String,
    /// Whether the route locks the link's congestion control, even for root. Sockets adopt it when they connect,
    /// whatever was set before, and a later setsockopt fails with EPERM. `tcp_allowed_congestion_control` still lists
    /// the whole machine's.
    pub only: bool,
}

/// Two hosts and the link between them. Gone with this value, and whatever still runs on the hosts.
#[derive(Debug)]
pub struct Wan {
    // Dropped in this order: without the relay no packet moves, and then the hosts go.
    relay: Relay,
    a: Netns,
    b: Netns,
}

/// Counts of one direction's packets, or segments of superpackets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Count {
    /// Sent on.
    pub carried: u64,
    /// Bytes of these, IP headers included.
    pub bytes: u64,
    /// Lost at random.
    pub lost: u64,
    /// Dropped because the queue was full.
    pub dropped: u64,
}

/// Interfaces of both hosts have this name.
const INTERFACE: &str = "wan0";

/// Room for packets between two rounds of the relay; the queue that is meant to fill up is the relay's.
const DEVICE_QUEUE_PACKETS: &str = "10000";

impl Wan {
    /// The first host's address.
    pub const ADDRESS_A: Ipv4Addr = Ipv4Addr::new(10, 66, 0, 1);
    /// The second host's address.
    pub const ADDRESS_B: Ipv4Addr = Ipv4Addr::new(10, 66, 0, 2);

    /// Makes the hosts and the link. Needs root, iproute2 and `/dev/net/tun`.
    pub fn new(settings: &WanSettings) -> Result<Self> {
        ensure!((0.0..=1.0).contains(&settings.loss), "a loss of {} is no probability", settings.loss);
        ensure!(settings.rate_bits_per_s > 0, "a link without a rate carries nothing");
        let (a, b) = (Netns::create()?, Netns::create()?);
        let devices = [host(&a, Self::ADDRESS_A, settings)?, host(&b, Self::ADDRESS_B, settings)?];
        let forth = properties(settings);
        let back = Properties { seed: !forth.seed, ..forth };
        Ok(Self { relay: Relay::start(devices, forth, back)?, a, b })
    }

    /// Whether this user and this machine can make such a link, for tests that would rather be skipped (loudly).
    pub fn available() -> bool {
        Netns::available() && Path::new(tun::DEVICE).exists()
    }

    /// The first host.
    pub fn a(&self) -> &Netns {
        &self.a
    }

    /// The second host.
    pub fn b(&self) -> &Netns {
        &self.b
    }

    /// Traffic from the first host to the second so far.
    pub fn forth(&self) -> Count {
        count(&self.relay.traffic().forth)
    }

    /// Traffic from the second host to the first so far.
    pub fn back(&self) -> Count {
        count(&self.relay.traffic().back)
    }

    /// Clears both kernels' TCP metrics (round-trip times, thresholds): the next program starts like the first.
    pub fn forget(&self) -> Result<()> {
        for host in [&self.a, &self.b] {
            host.run("ip", ["tcp_metrics", "flush", "all"])?;
        }
        Ok(())
    }
}

fn count(counters: &line::LineCounters) -> Count {
    let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let line::LineCounters { carried, carried_bytes, lost, dropped } = counters;
    Count { carried: read(carried), bytes: read(carried_bytes), lost: read(lost), dropped: read(dropped) }
}

fn properties(settings: &WanSettings) -> Properties {
    let delay_ns = u64::try_from(settings.rtt.as_nanos() / 2).unwrap_or(u64::MAX / 4);
    let round_trip = u128::from(settings.rate_bits_per_s) * settings.rtt.as_micros() / 8_000_000;
    // Below a few packets, no traffic gets through.
    let round_trip_bytes = u64::try_from(round_trip).unwrap_or(u64::MAX).max(64 << 10);
    Properties {
        delay_ns,
        loss: settings.loss,
        rate_bits_per_s: settings.rate_bits_per_s,
        queue_bytes: settings.queue_bytes.unwrap_or(round_trip_bytes),
        seed: settings.seed,
    }
}

/// Gives a host its interface, address and settings.
fn host(netns: &Netns, address: Ipv4Addr, settings: &WanSettings) -> Result<std::os::fd::OwnedFd> {
    // Only the programs' own traffic shall use the link.
    set(netns, "net/ipv6/conf/all/disable_ipv6", "1")?;
    let device = tun::create(netns, INTERFACE)?;
    netns.add_address(INTERFACE, &format!("{address}/24"))?;
    let up = ["link", "set", INTERFACE, "mtu", "1500", "txqueuelen", DEVICE_QUEUE_PACKETS, "up"];
    netns.run("ip", up)?;
    if let Some(bytes) = settings.window_max_bytes {
        set(netns, "net/ipv4/tcp_rmem", &format!("4096 131072 {bytes}"))?;
        set(netns, "net/ipv4/tcp_wmem", &format!("4096 16384 {bytes}"))?;
    }
    if let Some(congestion) = &settings.congestion {
        set_congestion(netns, address, congestion)?;
    }
    Ok(device)
}

fn set_congestion(netns: &Netns, address: Ipv4Addr, congestion: &Congestion) -> Result<()> {
    let Congestion { name, only } = congestion;
    let set = if *only {
        let route = format!(
            "route replace 10.66.0.0/24 dev {INTERFACE} proto kernel scope link src {address} congctl lock {name}"
        );
        netns.run("ip", route.split_whitespace()).map(|_| ())
    } else {
        // A namespace may set only algorithms that the machine allows to everybody.
        set(netns, "net/ipv4/tcp_congestion_control", name)
    };
    set.with_context(|| format!("this kernel does not offer {name}, or not to everybody (modprobe tcp_{name}?)"))
}

/// Sets a kernel setting of the namespace; absent files (a kernel without IPv6) are no error.
fn set(netns: &Netns, setting: &str, value: &str) -> Result<()> {
    let script = r#"test ! -e "/proc/sys/$0" || echo "$1" >"/proc/sys/$0""#;
    netns.run("sh", ["-c", script, setting, value]).map(|_| ())
}

//! ICMP echoes of the other host, while data flows and afterwards.

use std::net::{IpAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use haul_engine::job::event::TransportPath;
use haul_engine::probe::ping::Ping;

use super::figures::{EchoFigures, RoundTrips};
use crate::show::paths::without_port;

const UNDER_LOAD_EVERY: Duration = Duration::from_millis(200);
/// Queues on the path are empty after this time.
const DRAIN: Duration = Duration::from_millis(300);
const IDLE_ECHOES: usize = 10;
const IDLE_EVERY: Duration = Duration::from_millis(20);
const LIMIT: Duration = Duration::from_secs(2);

/// A thread that sends echoes while data flows.
pub struct Echoes {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<RoundTrips>,
}

impl Echoes {
    /// Starts to ping the other end of `way`. `None` without TCP, or where this user may not send echoes.
    pub fn start(way: &TransportPath) -> Option<Self> {
        let ping = Ping::open(other_end(way)?).ok()?;
        let is_over = Arc::<AtomicBool>::default();
        let ends = Arc::clone(&is_over);
        let thread = thread::Builder::new().name("haul-ping".into()).spawn(move || measure(ping, &ends)).ok()?;
        Some(Self { is_over, thread })
    }

    /// The data has ended: measures the idle path, and returns all figures.
    pub fn finish(self) -> RoundTrips {
        self.is_over.store(true, Ordering::Release);
        self.thread.join().unwrap_or_default()
    }
}

fn measure(mut ping: Ping, is_over: &AtomicBool) -> RoundTrips {
    let mut loaded = Vec::new();
    while !is_over.load(Ordering::Acquire) {
        loaded.extend(ping.round_trip(LIMIT).ok().flatten());
        thread::park_timeout(UNDER_LOAD_EVERY);
    }
    thread::sleep(DRAIN);
    let mut idle = Vec::new();
    for _ in 0..IDLE_ECHOES {
        idle.extend(ping.round_trip(LIMIT).ok().flatten());
        thread::sleep(IDLE_EVERY);
    }
    RoundTrips { idle: EchoFigures::of(&mut idle), loaded: EchoFigures::of(&mut loaded) }
}

/// The address of the other host: the end of the connection that this host does not have.
fn other_end(way: &TransportPath) -> Option<IpAddr> {
    let TransportPath::Tcp { path, .. } = way else { return None };
    let [from, to] = [&path.from, &path.to].map(|end| without_port(end).parse::<IpAddr>().ok());
    let is_here = |address: &IpAddr| UdpSocket::bind((*address, 0)).is_ok();
    [to, from].into_iter().flatten().find(|address| !is_here(address)).or(to)
}

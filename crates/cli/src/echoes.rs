//! ICMP echoes of the other host, on the idle path and under load.

use std::net::{IpAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use haul_base::copy::event::TransportPath;
use haul_control::probe::ping::Ping;
use haul_show::paths::without_port;
use serde::Serialize;

const UNDER_LOAD_EVERY: Duration = Duration::from_millis(200);
/// Time in which queues on the path drain.
const DRAIN: Duration = Duration::from_millis(300);
const IDLE_ECHOES: usize = 10;
const IDLE_EVERY: Duration = Duration::from_millis(20);
const LIMIT: Duration = Duration::from_secs(2);

/// Round-trip times of echoes, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct EchoFigures {
    /// The standard deviation: ping(8)'s mdev.
    pub deviation_s: f64,
    /// The longest.
    pub max_s: f64,
    /// The median.
    pub median_s: f64,
    /// The shortest.
    pub min_s: f64,
}

impl EchoFigures {
    /// The figures of some times; `None` without any.
    pub fn of(times: &mut [Duration]) -> Option<Self> {
        times.sort_unstable();
        let seconds = |time: Option<&Duration>| time.map(Duration::as_secs_f64);
        let mean =
            |of: &dyn Fn(f64) -> f64| times.iter().map(|time| of(time.as_secs_f64())).sum::<f64>() / times.len() as f64;
        let middle = mean(&|time| time);
        Some(Self {
            deviation_s: mean(&|time| (time - middle).powi(2)).sqrt(),
            min_s: seconds(times.first())?,
            median_s: seconds(times.get(times.len() / 2))?,
            max_s: seconds(times.last())?,
        })
    }
}

/// Echoes of the idle path and under load.
#[derive(Debug, Clone, Copy, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RoundTrips {
    /// Before or after the data.
    #[serde(rename = "ping_idle")]
    pub idle: Option<EchoFigures>,
    /// While data flowed.
    #[serde(rename = "ping_loaded")]
    pub loaded: Option<EchoFigures>,
}

/// A thread that sends echoes while data flows.
pub struct Echoes {
    address: IpAddr,
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<Option<EchoFigures>>,
}

impl Echoes {
    /// Starts to ping `address`. `None` if this user may not send echoes.
    pub fn start(address: IpAddr) -> Option<Self> {
        let ping = Ping::open(address).ok()?;
        let is_over = Arc::<AtomicBool>::default();
        let ends = Arc::clone(&is_over);
        let thread = thread::Builder::new().name("haul-ping".into()).spawn(move || loaded(ping, &ends)).ok()?;
        Some(Self { address, is_over, thread })
    }

    /// Stops at the end of the data.
    pub fn finish(self) -> Option<EchoFigures> {
        self.is_over.store(true, Ordering::Release);
        self.thread.thread().unpark();
        self.thread.join().unwrap_or_default()
    }

    /// Stops, and then measures the idle path.
    pub fn finish_idle(self) -> RoundTrips {
        let address = self.address;
        let loaded = self.finish();
        thread::sleep(DRAIN);
        RoundTrips { idle: idle(address), loaded }
    }
}

fn loaded(mut ping: Ping, is_over: &AtomicBool) -> Option<EchoFigures> {
    let mut times = Vec::new();
    while !is_over.load(Ordering::Acquire) {
        times.extend(ping.round_trip(LIMIT).ok().flatten());
        thread::park_timeout(UNDER_LOAD_EVERY);
    }
    EchoFigures::of(&mut times)
}

/// Echoes of the idle path; `None` if they are not permitted or not answered.
pub fn idle(address: IpAddr) -> Option<EchoFigures> {
    let mut ping = Ping::open(address).ok()?;
    let mut times = Vec::new();
    for _ in 0..IDLE_ECHOES {
        // A host that drops one echo on an idle path drops all.
        times.push(ping.round_trip(LIMIT).ok().flatten()?);
        thread::sleep(IDLE_EVERY);
    }
    EchoFigures::of(&mut times)
}

/// The address of the other host: the connection's end that is not on this host. `None` without TCP.
pub fn other_end(transport: &TransportPath) -> Option<IpAddr> {
    let TransportPath::Tcp { path, .. } = transport else { return None };
    let [from, to] = [&path.from, &path.to].map(|end| without_port(end).parse::<IpAddr>().ok());
    let is_here = |address: &IpAddr| UdpSocket::bind((*address, 0)).is_ok();
    [to, from].into_iter().flatten().find(|address| !is_here(address)).or(to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn echoes_have_their_median_and_deviation() {
        assert_eq!(EchoFigures::of(&mut []), None);
        let mut times = [9, 1, 5, 3, 7].map(Duration::from_secs);
        let figures = EchoFigures { deviation_s: 8_f64.sqrt(), min_s: 1.0, median_s: 5.0, max_s: 9.0 };
        assert_eq!(EchoFigures::of(&mut times), Some(figures));
    }
}

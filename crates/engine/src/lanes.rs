//! The streams of a running job, as they come and go: which there are, what their sockets say, and how more are made.
//! What a stream carries is not known here.

use haul_proto::ids::StreamId;
use haul_proto::tune::Look;
use haul_proto::wire::report::PathFigures;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use crate::os::tcp_info::{TcpInfo, tcp_info};
use crate::stream::Stream;
use crate::stream::connect::Connector;
use crate::stream::socket::bears_loss;
use crate::worker::lock;

/// All streams of a job.
#[derive(Default)]
pub struct Lanes {
    lanes: Mutex<BTreeMap<u16, Lane>>,
    /// Makes more, where this is the end that connects.
    connector: OnceLock<Arc<Connector>>,
}

struct Lane {
    socket: Weak<OwnedFd>,
    /// What it said last.
    last: TcpInfo,
}

/// Of the streams in use, at one moment.
#[derive(Debug, Clone, Copy, Default)]
pub struct Snapshot {
    /// The shortest round-trip time of all.
    pub round_trip: Duration,
    acknowledged_bytes: u64,
    waited: Duration,
}

impl Lanes {
    /// A stream has come; `false` for a second one of the same id, which is not wanted.
    pub fn admit(&self, StreamId(id): StreamId, stream: &Stream) -> bool {
        let mut lanes = lock(&self.lanes);
        let is_new = !lanes.contains_key(&id);
        if is_new {
            lanes.insert(id, Lane { socket: stream.watch(), last: TcpInfo::default() });
        }
        is_new
    }

    /// A stream is about to end: its figures are kept.
    pub fn ending(&self, StreamId(id): StreamId) {
        if let Some(lane) = lock(&self.lanes).get_mut(&id) {
            lane.look();
        }
    }

    /// How many streams have come.
    pub fn count(&self) -> u16 {
        u16::try_from(lock(&self.lanes).len()).unwrap_or(u16::MAX)
    }

    /// From now on, streams can be made here.
    pub fn set_connector(&self, connector: Arc<Connector>) {
        // A second one is of a second way, which is not taken once the first was.
        let _ = self.connector.set(connector);
    }

    /// Makes all streams with ids below `count`; `false` where that is for the other end to do.
    pub fn bring_up_to(&self, count: u16) -> bool {
        self.connector.get().map(|connector| connector.bring_up_to(count)).is_some()
    }

    /// The sockets of streams with ids below `streams`, now; `None` where one of them is not TCP's.
    pub fn snapshot(&self, streams: u16) -> Option<Snapshot> {
        let mut lanes = lock(&self.lanes);
        let mut all = Snapshot { round_trip: Duration::MAX, ..Snapshot::default() };
        for (_, lane) in lanes.range_mut(..streams) {
            let info = lane.look()?;
            all.round_trip = all.round_trip.min(info.round_trip_min);
            all.acknowledged_bytes = all.acknowledged_bytes.saturating_add(info.acknowledged_bytes);
            all.waited += info.busy.saturating_sub(info.receiver_limited + info.buffer_limited);
        }
        Some(all)
    }

    /// Whether all streams that there are bear losses ([`bears_loss`]).
    pub fn bear_loss(&self) -> bool {
        lock(&self.lanes).values().all(|lane| lane.socket.upgrade().is_none_or(|socket| bears_loss(&*socket)))
    }

    /// What all streams met with.
    pub fn figures(&self) -> PathFigures {
        let us = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let mut figures = PathFigures { round_trip_us: u64::MAX, ..PathFigures::default() };
        for lane in lock(&self.lanes).values_mut() {
            lane.look();
            let info = lane.last;
            figures.round_trip_us = figures.round_trip_us.min(us(info.round_trip_min));
            figures.segments += info.segments;
            figures.retransmitted += info.retransmitted;
            figures.busy_us += us(info.busy);
            figures.receiver_limited_us += us(info.receiver_limited);
            figures.buffer_limited_us += us(info.buffer_limited);
        }
        if figures.segments == 0 { PathFigures::default() } else { figures }
    }
}

impl Lane {
    /// Asks the socket once more, if there still is one.
    fn look(&mut self) -> Option<TcpInfo> {
        if let Some(socket) = self.socket.upgrade() {
            self.last = tcp_info(&*socket).ok()?;
        }
        Some(self.last)
    }
}

impl Snapshot {
    /// What happened to `streams` streams since `earlier`.
    pub fn since(&self, earlier: &Self, elapsed: Duration, streams: u16) -> Look {
        let waited = self.waited.saturating_sub(earlier.waited).as_secs_f64();
        let all = elapsed.as_secs_f64() * f64::from(streams.max(1));
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let network_permille = if all > 0.0 { (1000.0 * waited / all) as u32 } else { 0 };
        Look {
            elapsed_us: u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX),
            acknowledged_bytes: self.acknowledged_bytes.saturating_sub(earlier.acknowledged_bytes),
            network_permille,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_is_what_happened_since_the_last() {
        let earlier = Snapshot { acknowledged_bytes: 1000, waited: Duration::from_secs(1), ..Snapshot::default() };
        let later = Snapshot { acknowledged_bytes: 5000, waited: Duration::from_secs(4), ..Snapshot::default() };
        let look = later.since(&earlier, Duration::from_secs(2), 3);
        assert_eq!(look, Look { elapsed_us: 2_000_000, acknowledged_bytes: 4000, network_permille: 500 });
        assert_eq!(earlier.since(&later, Duration::ZERO, 0).acknowledged_bytes, 0);
    }
}

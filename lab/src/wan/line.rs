//! One direction of a long link: each packet's fate and time of arrival. Knows no clock and no device.
//!
//! A packet waits in a bounded queue, leaves at the link's rate, may be lost, and arrives after a delay. Each segment
//! has its own fate, as on a cable, even among many in one superpacket.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use super::packet::{ETHERNET_BYTES, PacketShape};
use crate::rng::Rng;

const NS_PER_S: u64 = 1_000_000_000;

/// Segments that leave within this time arrive together; larger groups are split.
const PIECE_NS: u64 = NS_PER_S / 1000;

/// Settings of one direction.
#[derive(Debug, Clone, Copy)]
pub struct Properties {
    /// From leaving the queue to arriving.
    pub delay_ns: u64,
    /// Probability that a segment is lost, 0 to 1.
    pub loss: f64,
    /// On an Ethernet cable, with its framing; at least 1.
    pub rate_bits_per_s: u64,
    /// The queue's limit. Further packets are dropped.
    pub queue_bytes: u64,
    /// The same losses again and again.
    pub seed: u64,
}

/// Counts of one direction's segments.
#[derive(Debug, Default)]
pub struct LineCounters {
    /// Sent on.
    pub carried: AtomicU64,
    /// Bytes of these, IP headers included.
    pub carried_bytes: AtomicU64,
    /// Lost at random.
    pub lost: AtomicU64,
    /// Dropped because the queue was full.
    pub dropped: AtomicU64,
}

/// One direction.
#[derive(Debug)]
pub struct WanDirection<'a> {
    properties: Properties,
    counters: &'a LineCounters,
    /// Losses are random numbers below this.
    lost_below: u64,
    /// How long a full queue takes to empty.
    queue_ns: u64,
    /// When all that was accepted will have left.
    free_at_ns: u64,
    random: Rng,
    /// In the order of their arrival. Bounded by the link's rate times delay and queue.
    under_way: VecDeque<(u64, Vec<u8>)>,
}

impl<'a> WanDirection<'a> {
    /// An empty line.
    pub fn new(properties: Properties, counters: &'a LineCounters) -> Self {
        Self {
            properties,
            counters,
            lost_below: threshold(properties.loss),
            queue_ns: time_for(properties.queue_bytes, properties.rate_bits_per_s),
            free_at_ns: 0,
            random: Rng::new(properties.seed),
            under_way: VecDeque::new(),
        }
    }

    /// Queues a packet sent at `now_ns`. Times never decrease.
    pub fn send(&mut self, now_ns: u64, frame: &[u8]) {
        let shape = PacketShape::of(frame);
        let mut run = SegmentRun::default();
        for segment in 0..shape.segments {
            let Some(left_ns) = self.pass(now_ns, shape.cable_bytes(segment)) else {
                self.send_on(frame, &shape, &mut run);
                continue;
            };
            if run.count == 0 {
                run = SegmentRun { first: segment, count: 0, first_left_ns: left_ns, left_ns };
            }
            (run.count, run.left_ns) = (run.count + 1, left_ns);
            if run.left_ns - run.first_left_ns >= PIECE_NS {
                self.send_on(frame, &shape, &mut run);
            }
        }
        self.send_on(frame, &shape, &mut run);
    }

    /// When a segment has left that will arrive; none for one that will not.
    fn pass(&mut self, now_ns: u64, bytes: usize) -> Option<u64> {
        if self.free_at_ns > now_ns.saturating_add(self.queue_ns) {
            self.counters.dropped.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        // A packet that will be lost still takes its time on the cable.
        self.free_at_ns = self.free_at_ns.max(now_ns) + time_for(bytes as u64, self.properties.rate_bits_per_s);
        if self.random.number() < self.lost_below {
            self.counters.lost.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        Some(self.free_at_ns)
    }

    /// Puts a run of segments on its way, and begins an empty one.
    fn send_on(&mut self, frame: &[u8], shape: &PacketShape, run: &mut SegmentRun) {
        if run.count > 0 {
            let arrives_ns = run.left_ns + self.properties.delay_ns;
            let segments = run.first..run.first + run.count;
            let bytes: usize = segments.map(|segment| shape.cable_bytes(segment) - ETHERNET_BYTES).sum();
            self.under_way.push_back((arrives_ns, shape.part(frame, run.first, run.count)));
            self.counters.carried.fetch_add(run.count as u64, Ordering::Relaxed);
            self.counters.carried_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        }
        *run = SegmentRun::default();
    }

    /// When the next packet arrives.
    pub fn next_arrival_ns(&self) -> Option<u64> {
        self.under_way.front().map(|(arrives_ns, _)| *arrives_ns)
    }

    /// The next packet that has arrived by now.
    pub fn arrived(&mut self, now_ns: u64) -> Option<Vec<u8>> {
        self.next_arrival_ns().filter(|arrives_ns| *arrives_ns <= now_ns)?;
        self.under_way.pop_front().map(|(_, frame)| frame)
    }
}

/// Segments one after the other that arrive together.
#[derive(Default)]
struct SegmentRun {
    first: usize,
    count: usize,
    first_left_ns: u64,
    left_ns: u64,
}

/// The share of all 64-bit numbers that is below the result is `probability`.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "casts from float saturate, as they should"
)]
#[expect(clippy::cast_precision_loss, reason = "a probability need not be exact to 2^-64")]
fn threshold(probability: f64) -> u64 {
    (probability * u64::MAX as f64) as u64
}

/// The time that this many bytes take.
fn time_for(bytes: u64, rate_bits_per_s: u64) -> u64 {
    let ns = u128::from(bytes) * 8 * u128::from(NS_PER_S) / u128::from(rate_bits_per_s.max(1));
    u64::try_from(ns).unwrap_or(u64::MAX / 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// 10 Mbit/s, 25 ms, room for 5 full packets, no loss.
    fn properties() -> Properties {
        Properties { delay_ns: 25 * MS, loss: 0.0, rate_bits_per_s: 10_000_000, queue_bytes: 5 * 1538, seed: 1 }
    }

    /// A plain packet of 1500 bytes.
    fn packet() -> Vec<u8> {
        vec![0; 1510]
    }

    /// A superpacket of ten segments.
    fn superpacket() -> Vec<u8> {
        let mut frame = vec![0; 10 + 40 + 14600];
        frame[1] = 1;
        frame[4..6].copy_from_slice(&1460_u16.to_ne_bytes());
        (frame[10], frame[10 + 20 + 12]) = (0x45, 0x50);
        frame
    }

    fn counts(counters: &LineCounters) -> [u64; 3] {
        [&counters.carried, &counters.lost, &counters.dropped].map(|counter| counter.load(Ordering::Relaxed))
    }

    #[test]
    fn packets_arrive_at_the_links_rate_after_the_delay() {
        let counters = LineCounters::default();
        let mut line = WanDirection::new(properties(), &counters);
        line.send(3 * MS, &packet());
        line.send(3 * MS, &packet());
        let takes_ns = 1538 * 800;
        assert_eq!(line.next_arrival_ns(), Some(28 * MS + takes_ns));
        assert!(line.arrived(28 * MS + takes_ns - 1).is_none());
        assert!(line.arrived(28 * MS + takes_ns).is_some());
        assert_eq!(line.next_arrival_ns(), Some(28 * MS + 2 * takes_ns));
        assert!(line.arrived(40 * MS).is_some() && line.arrived(40 * MS).is_none());
        // Idle time is lost: it gives no later burst.
        line.send(90 * MS, &packet());
        assert_eq!(line.next_arrival_ns(), Some(115 * MS + takes_ns));
    }

    #[test]
    fn a_full_queue_drops_packets_until_there_is_room() {
        let counters = LineCounters::default();
        let mut line = WanDirection::new(properties(), &counters);
        (0..10).for_each(|_| line.send(0, &packet()));
        assert_eq!(counts(&counters), [6, 0, 4], "one on the cable and five behind it");
        line.send(2 * MS, &packet());
        assert_eq!(counts(&counters), [7, 0, 4]);
    }

    #[test]
    fn losses_match_their_rate_and_are_reproducible() {
        let run = |seed| {
            let counters = LineCounters::default();
            let slow = Properties { loss: 0.02, rate_bits_per_s: 1 << 40, queue_bytes: 1 << 30, seed, ..properties() };
            let mut line = WanDirection::new(slow, &counters);
            (0..2000).for_each(|ms| line.send(ms * MS, &superpacket()));
            let [carried, lost, dropped] = counts(&counters);
            assert_eq!((carried + lost, dropped), (20_000, 0));
            let mut bytes = 0;
            while let Some(frame) = line.arrived(u64::MAX) {
                let shape = PacketShape::of(&frame);
                bytes += (0..shape.segments).map(|segment| shape.cable_bytes(segment) as u64).sum::<u64>();
            }
            assert_eq!(bytes, carried * 1538);
            lost
        };
        let lost = run(7);
        assert!((340..460).contains(&lost), "{lost} of 20000");
        assert_eq!(lost, run(7));
        assert_ne!(lost, run(8));
    }

    #[test]
    fn a_slow_link_splits_superpackets() {
        let counters = LineCounters::default();
        let plenty = Properties { queue_bytes: 1 << 20, ..properties() };
        let mut line = WanDirection::new(plenty, &counters);
        line.send(0, &superpacket());
        let mut arrivals = Vec::new();
        while let Some(arrives_ns) = line.next_arrival_ns() {
            arrivals.push((arrives_ns - 25 * MS) / 1_230_400);
            line.arrived(arrives_ns);
        }
        assert_eq!(arrivals, [2, 4, 6, 8, 10], "each two segments, when the second has left");
    }
}

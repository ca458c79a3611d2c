//! Breakdown of the network's share by socket statistics: windows, which the kernel reports, or the path.
//!
//! A full link has a queue before it, so round trips take longer than the shortest one. With losses and without a
//! queue, something drops packets below capacity: at a constant rate (a policer) or at random. With neither, the
//! congestion window has not grown to the bandwidth-delay product, or the congestion control has found the path's
//! capacity.

use super::{Bottleneck, BottleneckDetail, CopyMeasurements};
use crate::diagnose::part;
use crate::wire::resource_metrics::{ResourceMetrics, Sockets};

/// Share from which on a window is the limit.
const WINDOW_FULL: f64 = 0.6;
/// Least rate for windows to be the limit, as a share of what they permit in the shortest round trips. With less, they
/// are full because the reader is blocked.
const WINDOWS_MIN: f64 = 0.15;
/// Least queueing delay in microseconds on a short path with all CPUs busy, unless the rate is steady. Every reply
/// waits for a CPU there.
const QUEUE_OF_BUSY_MIN_US: f64 = 8000.0;
/// Share from which on all CPUs count as busy.
const BUSY: f64 = 0.95;
/// Round-trip time of a short path, in microseconds, at most.
const SHORT_US: f64 = 1000.0;
/// Least rate for random losses to be the limit, as a share of what they permit (cf. Mathis and others, 1997).
const BY_CHANCE_MIN: f64 = 0.125;
/// Approximate bytes of a segment.
const SEGMENT_BYTES: f64 = 1448.0;
/// Largest approximate share of a buffer that is data: the kernel charges its bookkeeping to the buffer.
const BUFFER_FULL: f64 = 0.4;
/// Range of payload rates at line rate, as shares of the interface's speed; a system's rounding permits slightly more
/// than 1.
pub const LINE_RATE: std::ops::RangeInclusive<f64> = 0.85..=1.1;
/// Factor between mean and shortest round trips that indicates a queue.
const QUEUE_TIMES: f64 = 1.5;
/// Least difference of them in microseconds, too: on short paths any delay may be a large factor.
const QUEUE_MIN_US: f64 = 1000.0;
/// Share of retransmitted segments that is normal on any path, at most.
const LOSS_MIN: f64 = 0.0005;
/// Share from which on a policer is possible, with a steady rate. It drops all excess traffic.
const POLICED_MIN: f64 = 0.005;
/// Share that indicates drops of excess traffic. A sender that responds to losses would slow down until they are few.
const POLICED: f64 = 0.035;
/// Shortest queueing delay, in microseconds, that can be the cause of many losses.
const QUEUE_OF_LOSSES_MIN_US: f64 = 5000.0;
/// Relative variation of a rate below which it counts as steady, and so as limited.
const STEADY_MAX: f64 = 0.08;
/// Fewest samples for a variation.
const SPANS_MIN: u64 = 4;
/// Least share of interrupts in a CPU's time for them to be what fills it.
const INTERRUPTS_MIN: f64 = 0.5;
/// Share from which on a CPU counts as fully busy.
const FULL: f64 = 0.95;
/// Least share of all interrupts on one CPU. Where several share them, the machine is busy.
const ON_ONE_MIN: f64 = 0.8;

/// Breakdown of the time in which sockets blocked streams.
#[derive(Debug, Clone, Copy, Default)]
pub struct NetworkShares {
    /// Share of the receive window.
    pub receiver: f64,
    /// Share of the send buffer.
    pub buffer: f64,
    /// Cause of the rest; `None` where it is unknown, as without TCP.
    pub rest: Option<(Bottleneck, Option<BottleneckDetail>)>,
}

/// Returns the breakdown of the sockets' time.
pub fn path(case: &CopyMeasurements) -> NetworkShares {
    let sockets = &case.source.sockets;
    if sockets.busy_us == 0 || case.is_within_host {
        return NetworkShares::default();
    }
    let seen = PathConditions::new(case);
    let of_busy = |time_us: u64, room: u64| match seen.is_filled_by(case, room) {
        true => part(time_us as f64, sockets.busy_us as f64),
        false => 0.0,
    };
    let receiver = of_busy(sockets.receiver_limited_us, sockets.receiver_bytes);
    let buffer = of_busy(sockets.buffer_limited_us, sockets.buffer_bytes).min(1.0 - receiver);
    let hidden = hidden_window(sockets).filter(|_| !seen.has_queue());
    match hidden {
        Some(Bottleneck::ReceiverWindow) if seen.is_filled_by(case, sockets.receiver_bytes) => {
            NetworkShares { receiver: 1.0 - buffer, buffer, rest: None }
        }
        Some(Bottleneck::SenderBuffer) if seen.is_filled_by(case, sockets.buffer_bytes) => {
            NetworkShares { receiver, buffer: 1.0 - receiver, rest: None }
        }
        _ => NetworkShares { receiver, buffer, rest: rest(case, seen) },
    }
}

/// Detects a window that the kernel does not report as the limit. A rate-based congestion control takes the window for
/// the path and holds back before the window is full. The bytes in flight reveal it.
fn hidden_window(sockets: &Sockets) -> Option<Bottleneck> {
    let fills = |room: u64, most: f64| room > 0 && sockets.under_way_bytes as f64 >= most * room as f64;
    match () {
        () if fills(sockets.window_bytes, WINDOW_FULL) => None,
        () if fills(sockets.receiver_bytes, WINDOW_FULL) => Some(Bottleneck::ReceiverWindow),
        () if fills(sockets.buffer_bytes, BUFFER_FULL) => Some(Bottleneck::SenderBuffer),
        () => None,
    }
}

fn rest(case: &CopyMeasurements, seen: PathConditions) -> Option<(Bottleneck, Option<BottleneckDetail>)> {
    let is_steady = seen.is_steady();
    let minds_losses = !case.source.present.bears_loss;
    let is_many = seen.loss >= POLICED || !seen.are_by_chance(case);
    let is_policed = seen.loss >= POLICED_MIN && (is_steady || minds_losses && is_many);
    Some(match () {
        () if [&case.source, &case.target].into_iter().any(is_at_line_rate) => {
            (Bottleneck::Link, Some(BottleneckDetail::Interface))
        }
        () if seen.has_queue() => (Bottleneck::Link, Some(BottleneckDetail::Queue)),
        () if is_policed => (Bottleneck::RateLimit, Some(BottleneckDetail::Policer)),
        // Both ends wait for each other, and for a CPU.
        () if seen.is_busy && seen.shortest_us < SHORT_US => return None,
        () if seen.loss >= LOSS_MIN => (Bottleneck::Congestion, Some(BottleneckDetail::Loss)),
        // A rate-based control sends no more than the delivery rate, so no queue forms.
        () if !minds_losses && is_steady => (Bottleneck::Link, None),
        () => (Bottleneck::Congestion, Some(BottleneckDetail::RoundTrip)),
    })
}

/// Observed conditions of a path.
#[derive(Debug, Clone, Copy)]
pub struct PathConditions {
    /// Mean round-trip time in microseconds.
    pub round_trip_us: f64,
    /// Shortest round-trip time in microseconds.
    pub shortest_us: f64,
    /// Share of retransmitted segments.
    pub loss: f64,
    /// Relative variation of the rate; `None` with too few samples.
    pub variation: Option<f64>,
    /// Whether all CPUs of an end are busy.
    is_busy: bool,
    streams: f64,
}

impl PathConditions {
    /// Derives the conditions from socket statistics.
    pub fn new(case: &CopyMeasurements) -> Self {
        let sockets = &case.source.sockets;
        let busy = |load: &ResourceMetrics| part(load.processors.busy_us as f64, load.processors.all_us as f64);
        let looks = sockets.looks.max(1) as f64;
        let (spans, mean) = (sockets.spans.max(1) as f64, sockets.rate_kib as f64 / sockets.spans.max(1) as f64);
        let variance = (sockets.rate_kib_squared as f64 / spans - mean * mean).max(0.0);
        Self {
            round_trip_us: sockets.rtt_us as f64 / looks,
            shortest_us: sockets.rtt_min_us as f64 / looks,
            loss: part(sockets.retransmitted as f64, sockets.segments as f64),
            variation: (sockets.spans >= SPANS_MIN && mean > 0.0).then(|| variance.sqrt() / mean),
            is_busy: busy(&case.source).max(busy(&case.target)) >= BUSY,
            streams: f64::from(case.source.present.streams.max(1)),
        }
    }

    /// Whether the rate is steady, and so limited by something.
    fn is_steady(&self) -> bool {
        self.variation.is_some_and(|variation| variation < STEADY_MAX)
    }

    /// Whether round trips take longer than on an empty path.
    pub fn has_queue(&self) -> bool {
        let of_losses = if self.loss >= POLICED_MIN { QUEUE_OF_LOSSES_MIN_US } else { QUEUE_MIN_US };
        let is_doubtful = self.is_busy && self.shortest_us < SHORT_US && !self.is_steady();
        let of_busy = if is_doubtful { QUEUE_OF_BUSY_MIN_US } else { 0.0 };
        let queue_us = self.round_trip_us - self.shortest_us;
        self.round_trip_us >= QUEUE_TIMES * self.shortest_us && queue_us >= of_losses.max(of_busy)
    }

    /// Whether the rate is high enough for windows of this size (summed over all samples) to limit it.
    fn is_filled_by(&self, case: &CopyMeasurements, room: u64) -> bool {
        let bytes = room as f64 / case.source.sockets.looks.max(1) as f64;
        case.rate() * self.shortest_us / 1e6 >= WINDOWS_MIN * bytes * self.streams
    }

    /// Whether the rate is high enough for random losses to limit it.
    fn are_by_chance(&self, case: &CopyMeasurements) -> bool {
        let in_a_round_trip = 1.22 * SEGMENT_BYTES / self.loss.max(1e-9).sqrt();
        case.rate() * self.shortest_us / 1e6 >= BY_CHANCE_MIN * in_a_round_trip * self.streams
    }
}

/// Returns the used share of the interface's speed; `None` where the speed is unknown.
pub fn line_share(load: &ResourceMetrics) -> Option<f64> {
    let bits_per_s = f64::from(load.present.mbit_per_s) * 1e6;
    let bytes = load.traffic.sent_bytes.max(load.traffic.received_bytes) as f64;
    let seconds = load.elapsed_us as f64 / 1e6;
    (bits_per_s > 0.0 && seconds > 0.0).then(|| bytes * 8.0 / seconds / bits_per_s)
}

/// Whether an interface is at line rate. A rate above the reported speed means that the speed is wrong.
fn is_at_line_rate(load: &ResourceMetrics) -> bool {
    line_share(load).is_some_and(|share| LINE_RATE.contains(&share))
}

/// Returns the busy share of a CPU filled with packet handling; 0 without one.
pub fn full_of_interrupts(load: &ResourceMetrics) -> f64 {
    let it = &load.processors;
    let of_top = |time_us: u64| part(time_us as f64, it.top_all_us as f64);
    let is_full = of_top(it.top_interrupts_us) >= INTERRUPTS_MIN && of_top(it.top_busy_us) >= FULL;
    let is_one = it.top_interrupts_us as f64 >= ON_ONE_MIN * it.interrupts_us as f64 && load.present.cores > 1;
    if is_full && is_one { of_top(it.top_busy_us) } else { 0.0 }
}

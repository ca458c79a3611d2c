//! What holds sockets up, as their kernel says: windows, which it tells by itself; else the path, and then what of it.
//!
//! A full link has a queue in front of it, and round trips take longer than the shortest one did. Without a queue and with
//! losses, something drops what it could have carried: always at the same rate (a policer), or by chance. With neither, the congestion window
//! has not grown to the distance, or whoever chose it found what the path gives.

use super::{Bottleneck, BottleneckDetail, JobMeasurements};
use crate::diagnose::part;
use crate::wire::resource_metrics::{ResourceMetrics, Sockets};

/// A window is what limits from this share of it on.
const WINDOW_FULL: f64 = 0.6;
/// Of what windows let through in the shortest round trips, what went has to be so much for them to be the limit: else they
/// are full because nobody reads, whatever keeps the other end from it.
const WINDOWS_MIN: f64 = 0.15;
/// On a machine whose processors are all busy, every answer on a short path waits for one: unless the rate is steady, a
/// queue is longer than this then, in microseconds.
const QUEUE_OF_BUSY_MIN_US: f64 = 8000.0;
/// From this share on, processors are all busy.
const BUSY: f64 = 0.95;
/// Below this round-trip time, in microseconds, a path is short.
const SHORT_US: f64 = 1000.0;
/// Of what losses by chance let through, so much has to go for them to be the reason (cf. Mathis and others, 1997).
const BY_CHANCE_MIN: f64 = 0.125;
/// Bytes of a segment, about.
const SEGMENT_BYTES: f64 = 1448.0;
/// The kernel counts its own bookkeeping into a buffer: at the most about so much of it is data.
const BUFFER_FULL: f64 = 0.4;
/// Of an interface's speed, what payloads can have; it may be a little more where the system rounds.
const LINE_RATE: std::ops::RangeInclusive<f64> = 0.85..=1.1;
/// Round trips this many times as long as the shortest ones have waited in a queue.
const QUEUE_TIMES: f64 = 1.5;
/// And by this much longer, in microseconds: on short paths everything is many times as long now and then.
const QUEUE_MIN_US: f64 = 1000.0;
/// A smaller share of segments sent again is what any path has.
const LOSS_MIN: f64 = 0.0005;
/// From this share on it may be a policer, which drops all that is too much: if the rate is steady.
const POLICED_MIN: f64 = 0.005;
/// A sender that minds losses slows down until they are few. Where so many are left, they are drops of what is too much.
const POLICED: f64 = 0.035;
/// With many losses, a queue that is no longer than this, in microseconds, is none that they come from.
const QUEUE_OF_LOSSES_MIN_US: f64 = 5000.0;
/// Rates that vary less than this around their mean are held by something.
const STEADY_MAX: f64 = 0.08;
/// From fewer, nothing is known of how they vary.
const SPANS_MIN: u64 = 4;
/// Of a processor's time, what interrupts have to have for them to be what it is full of.
const INTERRUPTS_MIN: f64 = 0.5;
/// From this share on, a processor counts as busy all the time.
const FULL: f64 = 0.95;
/// Of all interrupts, one processor has to have so many of them: where several share them, it is the machine that is busy.
const ON_ONE_MIN: f64 = 0.8;

/// What the time is made of in which sockets held up streams.
#[derive(Debug, Clone, Copy, Default)]
pub struct NetworkShares {
    /// The share of the receiver's window.
    pub receiver: f64,
    /// The share of the sender's buffer.
    pub buffer: f64,
    /// What the rest is: `None` where nothing is known, as without TCP.
    pub rest: Option<(Bottleneck, Option<BottleneckDetail>)>,
}

/// What holds the sockets up.
pub fn path(case: &JobMeasurements) -> NetworkShares {
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

/// A congestion control that sends at the rate which it sees come through takes a window for the path: it holds back
/// before the window is full, and the kernel does not call that limited by it. What is under way tells.
fn hidden_window(sockets: &Sockets) -> Option<Bottleneck> {
    let fills = |room: u64, most: f64| room > 0 && sockets.under_way_bytes as f64 >= most * room as f64;
    match () {
        () if fills(sockets.window_bytes, WINDOW_FULL) => None,
        () if fills(sockets.receiver_bytes, WINDOW_FULL) => Some(Bottleneck::ReceiverWindow),
        () if fills(sockets.buffer_bytes, BUFFER_FULL) => Some(Bottleneck::SenderBuffer),
        () => None,
    }
}

fn rest(case: &JobMeasurements, seen: PathConditions) -> Option<(Bottleneck, Option<BottleneckDetail>)> {
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
        // Both ends wait for each other, and for a processor.
        () if seen.is_busy && seen.shortest_us < SHORT_US => return None,
        () if seen.loss >= LOSS_MIN => (Bottleneck::Congestion, Some(BottleneckDetail::Loss)),
        // One that goes by the rate that it sees come through sends no more than that, and no queue forms.
        () if !minds_losses && is_steady => (Bottleneck::Link, None),
        () => (Bottleneck::Congestion, Some(BottleneckDetail::RoundTrip)),
    })
}

/// What was seen of a path.
#[derive(Debug, Clone, Copy)]
pub struct PathConditions {
    /// Mean round-trip time, in microseconds.
    pub round_trip_us: f64,
    /// The shortest one.
    pub shortest_us: f64,
    /// The share of segments that were sent again.
    pub loss: f64,
    /// How much the rate varied around its mean; `None` where too little was seen.
    pub variation: Option<f64>,
    /// At one of the ends, all processors are busy.
    is_busy: bool,
    streams: f64,
}

impl PathConditions {
    /// From what sockets counted.
    pub fn new(case: &JobMeasurements) -> Self {
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

    /// Whether something holds the rate.
    fn is_steady(&self) -> bool {
        self.variation.is_some_and(|variation| variation < STEADY_MAX)
    }

    /// Whether round trips take longer than they would on an empty path.
    pub fn has_queue(&self) -> bool {
        let of_losses = if self.loss >= POLICED_MIN { QUEUE_OF_LOSSES_MIN_US } else { QUEUE_MIN_US };
        let is_doubtful = self.is_busy && self.shortest_us < SHORT_US && !self.is_steady();
        let of_busy = if is_doubtful { QUEUE_OF_BUSY_MIN_US } else { 0.0 };
        let queue_us = self.round_trip_us - self.shortest_us;
        self.round_trip_us >= QUEUE_TIMES * self.shortest_us && queue_us >= of_losses.max(of_busy)
    }

    /// Whether so much goes that windows of this size (added up over all looks) could be the reason that it is not more.
    fn is_filled_by(&self, case: &JobMeasurements, room: u64) -> bool {
        let bytes = room as f64 / case.source.sockets.looks.max(1) as f64;
        case.rate() * self.shortest_us / 1e6 >= WINDOWS_MIN * bytes * self.streams
    }

    /// Whether so much goes that losses by chance could be the reason that it is not more.
    fn are_by_chance(&self, case: &JobMeasurements) -> bool {
        let in_a_round_trip = 1.22 * SEGMENT_BYTES / self.loss.max(1e-9).sqrt();
        case.rate() * self.shortest_us / 1e6 >= BY_CHANCE_MIN * in_a_round_trip * self.streams
    }
}

/// Of the interface's speed, how much goes through it; `None` where that is not known.
pub fn line_share(load: &ResourceMetrics) -> Option<f64> {
    let bits_per_s = f64::from(load.present.mbit_per_s) * 1e6;
    let bytes = load.traffic.sent_bytes.max(load.traffic.received_bytes) as f64;
    let seconds = load.elapsed_us as f64 / 1e6;
    (bits_per_s > 0.0 && seconds > 0.0).then(|| bytes * 8.0 / seconds / bits_per_s)
}

/// More than the system says can go through is a sign of one that does not know.
fn is_at_line_rate(load: &ResourceMetrics) -> bool {
    line_share(load).is_some_and(|share| LINE_RATE.contains(&share))
}

/// How busy the processor is that has its hands full of packets; nothing where none has.
pub fn full_of_interrupts(load: &ResourceMetrics) -> f64 {
    let it = &load.processors;
    let of_top = |time_us: u64| part(time_us as f64, it.top_all_us as f64);
    let is_full = of_top(it.top_interrupts_us) >= INTERRUPTS_MIN && of_top(it.top_busy_us) >= FULL;
    let is_one = it.top_interrupts_us as f64 >= ON_ONE_MIN * it.interrupts_us as f64 && load.present.cores > 1;
    if is_full && is_one { of_top(it.top_busy_us) } else { 0.0 }
}

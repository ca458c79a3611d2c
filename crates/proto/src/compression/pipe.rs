//! Estimate of a connection's time per byte: measured while the connection is the limit, and lowered gradually while it
//! is not.

use crate::compression::FrameTimes;

/// Weight of the latest frame once there are enough frames.
const LATEST_WEIGHT: f64 = 1.0 / 8.0;
/// Share of a stream's time in send calls above which the connection counts as the limit.
const HELD_UP_SHARE: f64 = 0.2;
/// Time per byte that sends must also exceed, since a send call costs time on any connection.
const HELD_UP_NS_PER_BYTE: f64 = 1.0;
/// Most frames that count as evidence. Beyond it, an estimate becomes no more certain.
const EVIDENCE_MAX: f64 = 256.0;
/// Divisor of the reduction per frame with little evidence; more evidence makes it larger.
const DOUBT: f64 = 8.0;
/// Frames before an estimate is used.
const FRAMES_MIN: u32 = 4;
/// Total time that also permits it with fewer frames.
const TIME_MIN_NS: f64 = 100e6;

/// Estimate of a connection.
#[derive(Debug, Clone, Default)]
pub struct SendRate {
    frames: u32,
    time_ns: f64,
    /// Moving averages of one frame.
    all_ns: f64,
    send_ns: f64,
    wire_bytes: f64,
    evidence: f64,
    ns_per_byte: Option<f64>,
}

impl SendRate {
    /// Records a sent frame; `all_ns` is its total time.
    pub fn sent(&mut self, frame: &FrameTimes, all_ns: f64) {
        self.frames = self.frames.saturating_add(1);
        self.time_ns += all_ns;
        let weight = (1.0 / f64::from(self.frames)).max(LATEST_WEIGHT);
        let average = |old: &mut f64, new: f64| *old += (new - *old) * weight;
        average(&mut self.all_ns, all_ns);
        average(&mut self.send_ns, frame.send_ns);
        average(&mut self.wire_bytes, frame.wire_bytes);
        let now = self.all_ns / self.wire_bytes.max(1.0);
        if self.holds_up() {
            self.evidence = (self.evidence + 1.0).min(EVIDENCE_MAX);
            self.ns_per_byte = Some(now);
        } else {
            // The connection carried this much, so it is no slower. It may be faster, which only more use shows.
            let doubt = 1.0 - 1.0 / (DOUBT + self.evidence);
            self.ns_per_byte = self.ns_per_byte.map(|known| known.min(now) * doubt);
        }
    }

    /// Returns the connection's time per byte in nanoseconds; `None` until it has been the limit.
    pub fn ns_per_byte(&self) -> Option<f64> {
        self.ns_per_byte.filter(|_| self.frames >= FRAMES_MIN || self.time_ns >= TIME_MIN_NS)
    }

    fn holds_up(&self) -> bool {
        self.send_ns > HELD_UP_SHARE * self.all_ns && self.send_ns > HELD_UP_NS_PER_BYTE * self.wire_bytes
    }
}

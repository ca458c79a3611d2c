//! How long a stream's connection takes for a byte: measured while it holds the stream up, and doubted while it does not.

use crate::compression::FrameTimes;

/// Weight of the latest frame once there have been enough.
const LATEST_WEIGHT: f64 = 1.0 / 8.0;
/// The connection counts as what holds a stream up if the stream spends more than this part of its time sending...
const HELD_UP_SHARE: f64 = 0.2;
/// ...and more than this on each byte: sending costs time on any connection.
const HELD_UP_NS_PER_BYTE: f64 = 1.0;
/// Frames that held the stream up, beyond which a figure becomes no more certain.
const EVIDENCE_MAX: f64 = 256.0;
/// With little evidence a figure is doubted by one part in so many a frame; with more, by less.
const DOUBT: f64 = 8.0;
/// Frames before anything is said...
const FRAMES_MIN: u32 = 4;
/// ...unless they took this long.
const TIME_MIN_NS: f64 = 100e6;

/// What is known about a connection.
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
    /// A frame was sent; `all_ns` is the time that it took in all.
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
            // It carried this much, so it is no slower; and it may well be faster, which shows when it is used more.
            let doubt = 1.0 - 1.0 / (DOUBT + self.evidence);
            self.ns_per_byte = self.ns_per_byte.map(|known| known.min(now) * doubt);
        }
    }

    /// Nanoseconds that the connection takes for a byte; `None` as long as it has not held anything up.
    pub fn ns_per_byte(&self) -> Option<f64> {
        self.ns_per_byte.filter(|_| self.frames >= FRAMES_MIN || self.time_ns >= TIME_MIN_NS)
    }

    fn holds_up(&self) -> bool {
        self.send_ns > HELD_UP_SHARE * self.all_ns && self.send_ns > HELD_UP_NS_PER_BYTE * self.wire_bytes
    }
}

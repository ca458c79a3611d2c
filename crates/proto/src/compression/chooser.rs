//! Choice of the compression method for a stream's next payload. The chooser takes the cost of each frame, and does no
//! work itself.
//!
//! With socket buffers, the connection and the source work in parallel. So a plain byte takes the longer of two times:
//! of the source to process it, or of the connection to carry it compressed. The method with the shortest such time is
//! chosen. On a fast connection that is no compression; on a slow one it is the strongest method that the source keeps
//! up with.
//!
//! Measurements correct the expectations, and a method without benefit is dropped: the receiver may be what slows the
//! connection.

use super::pipe::SendRate;
use super::{CompressionMethod, CompressionPolicy};
use crate::compression::FrameTimes;

/// Least time per byte on the connection for compression: none above 500 MB/s a stream.
pub const PIPE_MIN_NS_PER_BYTE: f64 = 2.0;
/// Most time to prepare a byte; more is a wait for work.
const PREPARE_MAX_NS_PER_BYTE: f64 = 20.0;
/// Time to encrypt a byte and pass it to the socket.
const SEAL_NS_PER_BYTE: f64 = 0.3;
/// Factor by which another method has to be better.
const GAIN_MIN: f64 = 0.95;
/// Frames with a method before a stronger one is tried.
const STEP_FRAMES: u32 = 4;
/// Consecutive compressed frames in a trial of its benefit.
const TRIAL_FRAMES: u32 = 24;
/// Leading frames of a trial that only fill the buffers.
const TRIAL_LEAD: u32 = 8;
/// Weight of the latest frame in the average time per byte without compression, once there are enough frames.
const WITHOUT_WEIGHT: f64 = 1.0 / 8.0;
/// Frames without a new trial after the first failed one; doubled after each further one.
const REST_FRAMES_MIN: u32 = 64;
/// Most frames without a new trial.
const REST_FRAMES_MAX: u32 = 4096;
/// Frames without compression after a formerly useful method is no longer better: enough to measure the present time
/// without compression.
const SAMPLED_FRAMES: u32 = 24;
/// Most frames to skip after a frame that did not shrink although its sample was promising.
const SKIP_FRAMES_MAX: u32 = 32;
/// Weight of a measurement in the estimate of the measured method.
const MEASURED_WEIGHT: f64 = 0.25;
/// Weight of a measurement in the estimates of the other methods, since changes of data and machine affect all methods.
const OTHERS_WEIGHT: f64 = 0.2;

/// The methods to choose from in order of cost, with initial estimates: nanoseconds per byte, and compression ratio.
/// These are rough guesses for text; measurements replace them within a few frames.
const CHOICES: [(CompressionMethod, f64, f64); 6] = [
    (CompressionMethod::Lz4, 2.0, 0.55),
    (CompressionMethod::Zstd(1), 3.0, 0.40),
    (CompressionMethod::Zstd(3), 5.0, 0.37),
    (CompressionMethod::Zstd(6), 14.0, 0.34),
    (CompressionMethod::Zstd(9), 22.0, 0.33),
    (CompressionMethod::Zstd(12), 60.0, 0.325),
];

/// Result of compressing a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompressionAttempt {
    /// Not attempted, by [`CompressionChooser::next`] or by the sample.
    None,
    /// Attempted, without a shorter result.
    InVain(CompressionMethod),
    /// Sent compressed.
    Done(CompressionMethod),
}

#[derive(Debug, Clone, Copy)]
struct MethodEstimate {
    cost_ns_per_byte: f64,
    ratio: f64,
}

/// A trial of compression: whether frames take less time than without it. One trial follows another as long as
/// compression is in use.
#[derive(Debug, Clone, Copy, Default)]
struct CompressionTrial {
    without_ns_per_byte: f64,
    passed_before: bool,
    frames: u32,
    ns: f64,
    bytes: f64,
}

/// Chooses for one stream.
#[derive(Debug, Clone)]
pub struct CompressionChooser {
    policy: CompressionPolicy,
    pipe: SendRate,
    prepare_ns_per_byte: f64,
    estimates: [MethodEstimate; CHOICES.len()],
    /// Index of the method in use; `None` for none.
    current: Option<usize>,
    frames_with_current: u32,
    plain: PlainAverage,
    trial: Option<CompressionTrial>,
    /// Frames without any method, after a trial without benefit.
    rest: FrameBackoff,
    /// Frames whose sample is not compressed, after one that did not become shorter.
    skip: FrameBackoff,
}

/// Recent time per plain byte without compression.
#[derive(Debug, Clone, Copy, Default)]
struct PlainAverage {
    ns_per_byte: f64,
    /// Frames in this average.
    frames: u32,
    /// Leading frames to ignore, since compressed data is still in the buffers.
    lead: u32,
}

impl PlainAverage {
    fn add(&mut self, ns_per_byte: f64) {
        if self.lead > 0 {
            self.lead -= 1;
            return;
        }
        self.frames = self.frames.saturating_add(1);
        let weight = (1.0 / f64::from(self.frames)).max(WITHOUT_WEIGHT);
        self.ns_per_byte += (ns_per_byte - self.ns_per_byte) * weight;
    }

    fn begin_anew(&mut self) {
        (self.frames, self.lead) = (0, TRIAL_LEAD);
    }
}

/// Frames for which something is not tried: twice as many each time.
#[derive(Debug, Clone, Copy)]
struct FrameBackoff {
    left: u32,
    next: u32,
}

impl FrameBackoff {
    fn new(first: u32) -> Self {
        Self { left: 0, next: first }
    }

    fn count_down(&mut self) {
        self.left = self.left.saturating_sub(1);
    }

    fn begin(&mut self, most: u32) {
        self.left = self.next;
        self.next = (2 * self.next).min(most);
    }
}

impl CompressionChooser {
    /// Creates a chooser without measurements.
    pub fn new(policy: CompressionPolicy) -> Self {
        Self {
            policy,
            pipe: SendRate::default(),
            prepare_ns_per_byte: 0.0,
            estimates: CHOICES.map(|(_, cost_ns_per_byte, ratio)| MethodEstimate { cost_ns_per_byte, ratio }),
            current: None,
            frames_with_current: 0,
            plain: PlainAverage::default(),
            trial: None,
            rest: FrameBackoff::new(REST_FRAMES_MIN),
            skip: FrameBackoff::new(1),
        }
    }

    /// Whether compression is off, so that measurements are useless.
    pub fn is_off(&self) -> bool {
        self.policy == CompressionPolicy::Off
    }

    /// Whether the method is chosen by measurements.
    pub fn is_auto(&self) -> bool {
        self.policy == CompressionPolicy::Auto
    }

    /// Returns the method for the next payload, if its sample shows that it is compressible.
    pub fn next(&self) -> Option<CompressionMethod> {
        match self.policy {
            CompressionPolicy::Off => None,
            CompressionPolicy::Always(method) => Some(method),
            CompressionPolicy::Auto if self.skip.left > 0 => None,
            CompressionPolicy::Auto => self.current.map(method),
        }
    }

    /// Records a sent frame.
    pub fn sent(&mut self, attempt: CompressionAttempt, frame: &FrameTimes) {
        if self.policy != CompressionPolicy::Auto || frame.plain_bytes < 1.0 {
            return;
        }
        let prepare_ns = frame.prepare_ns.min(PREPARE_MAX_NS_PER_BYTE * frame.plain_bytes);
        let all_ns = prepare_ns + frame.compress_ns + frame.seal_ns + frame.send_ns;
        self.prepare_ns_per_byte += (prepare_ns / frame.plain_bytes - self.prepare_ns_per_byte) / 8.0;
        self.pipe.sent(frame, all_ns);
        self.frames_with_current = self.frames_with_current.saturating_add(1);
        self.rest.count_down();
        self.learn(attempt, frame);
        self.judge(attempt, frame, all_ns);
        self.decide();
    }

    /// Updates the estimates of methods.
    fn learn(&mut self, attempt: CompressionAttempt, frame: &FrameTimes) {
        let CompressionAttempt::Done(used) = attempt else {
            self.skip.count_down();
            if matches!(attempt, CompressionAttempt::InVain(_)) {
                self.skip.begin(SKIP_FRAMES_MAX);
            }
            return;
        };
        self.skip.next = 1;
        let Some(index) = CHOICES.iter().position(|(method, ..)| *method == used) else { return };
        let Some(expected) = self.estimates.get(index).copied() else { return };
        let cost = (frame.compress_ns / frame.plain_bytes / expected.cost_ns_per_byte).clamp(0.02, 50.0);
        let ratio = (frame.wire_bytes / frame.plain_bytes / expected.ratio).clamp(0.02, 50.0);
        for (other, estimate) in self.estimates.iter_mut().enumerate() {
            let weight = if other == index { MEASURED_WEIGHT } else { OTHERS_WEIGHT };
            estimate.cost_ns_per_byte = (estimate.cost_ns_per_byte * cost.powf(weight)).clamp(0.01, 1e6);
            estimate.ratio = (estimate.ratio * ratio.powf(weight)).clamp(1e-4, 1.0);
        }
    }

    /// Checks in repeated trials whether compression has any benefit, and pauses it for some time if it has none.
    fn judge(&mut self, attempt: CompressionAttempt, frame: &FrameTimes, all_ns: f64) {
        if self.current.is_none() {
            self.plain.add(all_ns / frame.plain_bytes);
        }
        let Some(trial) = &mut self.trial else { return };
        if !matches!(attempt, CompressionAttempt::Done(_)) {
            *trial = CompressionTrial { frames: 0, ns: 0.0, bytes: 0.0, ..*trial };
            return;
        }
        trial.frames += 1;
        if trial.frames > TRIAL_LEAD {
            trial.ns += all_ns;
            trial.bytes += frame.plain_bytes;
        }
        if trial.frames < TRIAL_FRAMES {
            return;
        }
        if trial.ns < GAIN_MIN * trial.without_ns_per_byte * trial.bytes {
            *trial = CompressionTrial { frames: 0, ns: 0.0, bytes: 0.0, passed_before: true, ..*trial };
            self.rest.next = REST_FRAMES_MIN;
        } else if trial.passed_before {
            self.rest.left = SAMPLED_FRAMES;
            self.change_to(None);
        } else {
            self.rest.begin(REST_FRAMES_MAX);
            self.change_to(None);
        }
    }

    /// Changes to the best method: at once to a lighter one, step by step to a stronger one.
    fn decide(&mut self) {
        let Some(pipe) = self.pipe.ns_per_byte() else { return };
        if self.rest.left > 0 {
            return;
        }
        if pipe < PIPE_MIN_NS_PER_BYTE {
            self.change_to(None);
            return;
        }
        let choices = (0..CHOICES.len()).map(Some);
        let all = choices.map(|choice| (choice, self.expected_ns_per_byte(choice, pipe)));
        let (best, expected) =
            all.fold(
                (None, self.expected_ns_per_byte(None, pipe)),
                |best, next| {
                    if next.1 < best.1 { next } else { best }
                },
            );
        // The time without compression has to be known before any comparison.
        if self.current.is_none() && self.plain.frames == 0 {
            return;
        }
        let gain = expected < GAIN_MIN * self.expected_ns_per_byte(self.current, pipe);
        if gain && (best < self.current || self.frames_with_current >= STEP_FRAMES) {
            let step = self.current.map_or(0, |current| current + 1);
            self.change_to(best.map(|best| best.min(step)));
        }
    }

    /// Returns the expected time per plain byte with this choice.
    fn expected_ns_per_byte(&self, choice: Option<usize>, pipe: f64) -> f64 {
        let plain = MethodEstimate { cost_ns_per_byte: 0.0, ratio: 1.0 };
        let estimate = choice.and_then(|choice| self.estimates.get(choice)).unwrap_or(&plain);
        let source = self.prepare_ns_per_byte + estimate.cost_ns_per_byte + estimate.ratio * SEAL_NS_PER_BYTE;
        source.max(estimate.ratio * pipe)
    }

    fn change_to(&mut self, choice: Option<usize>) {
        if choice == self.current {
            return;
        }
        if choice.is_none() {
            self.trial = None;
            self.plain.begin_anew();
        } else if self.current.is_none() {
            self.trial =
                Some(CompressionTrial { without_ns_per_byte: self.plain.ns_per_byte, ..CompressionTrial::default() });
        }
        // The buffers hold more plain bytes with each stronger method, which is no lasting gain.
        if let Some(trial) = self.trial.as_mut().filter(|trial| !trial.passed_before) {
            *trial = CompressionTrial { without_ns_per_byte: trial.without_ns_per_byte, ..CompressionTrial::default() };
        }
        self.current = choice;
        self.frames_with_current = 0;
    }
}

/// Returns the method of this index.
fn method(index: usize) -> CompressionMethod {
    CHOICES.get(index).map_or(CompressionMethod::Lz4, |(method, ..)| *method)
}

#[cfg(test)]
#[path = "chooser_tests.rs"]
mod tests;

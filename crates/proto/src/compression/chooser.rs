//! What a stream's source does with the next payload: a machine that is told what frames cost, and does no work itself.
//!
//! A socket's buffer lets the connection work while the source computes. So with a method a plain byte takes the longer
//! of two times: what the source needs for it, or the connection for what becomes of it. The method with the
//! least such time is chosen; on a fast connection that is none, on a slow one the hardest that the source keeps up
//! with. What is measured corrects what was expected, and a method that brings nothing is left: that a
//! connection holds the stream up may be the fault of whoever reads at its other end.

use super::pipe::SendRate;
use super::{CompressionMethod, CompressionPolicy};
use crate::compression::FrameTimes;

/// Connections faster than this (500 MB/s a stream) are left alone.
pub const PIPE_MIN_NS_PER_BYTE: f64 = 2.0;
/// Preparing a byte never takes longer; what seems to is waiting for work.
const PREPARE_MAX_NS_PER_BYTE: f64 = 20.0;
/// Sealing and handing over a byte.
const SEAL_NS_PER_BYTE: f64 = 0.3;
/// Another method has to be better by this much.
const GAIN_MIN: f64 = 0.95;
/// Frames with a method before a harder one is tried.
const STEP_FRAMES: u32 = 4;
/// Frames in a row, compressed, after which it is asked whether it was of use...
const TRIAL_FRAMES: u32 = 24;
/// ...the first of which only fill what was there before.
const TRIAL_LEAD: u32 = 8;
/// Weight of the latest frame in what a byte takes without compression, once there have been enough.
const WITHOUT_WEIGHT: f64 = 1.0 / 8.0;
/// Frames for which nothing is tried after a trial that failed; twice as many after each further one, up to
const REST_FRAMES_MIN: u32 = 64;
/// this many.
const REST_FRAMES_MAX: u32 = 4096;
/// Frames without compression when a method that was of use is no longer better than none was: enough to see what
/// none would be now.
const LOOK_FRAMES: u32 = 24;
/// Most frames that are left alone after one that did not shrink, though its sample looked as if it would.
const SKIP_FRAMES_MAX: u32 = 32;
/// Weight of what was measured against what was expected of a method...
const MEASURED_WEIGHT: f64 = 0.25;
/// ...and of the others, which move along, since it is the data and the machine that change.
const OTHERS_WEIGHT: f64 = 0.2;

/// The methods to choose from, in order of what they cost, with what is expected of them at first: nanoseconds a byte, and what
/// is left of it. These are rough guesses for text, not measurements: what is measured takes their place within a few frames.
const CHOICES: [(CompressionMethod, f64, f64); 6] = [
    (CompressionMethod::Lz4, 2.0, 0.55),
    (CompressionMethod::Zstd(1), 3.0, 0.40),
    (CompressionMethod::Zstd(3), 5.0, 0.37),
    (CompressionMethod::Zstd(6), 14.0, 0.34),
    (CompressionMethod::Zstd(9), 22.0, 0.33),
    (CompressionMethod::Zstd(12), 60.0, 0.325),
];

/// What became of a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompressionAttempt {
    /// It was left alone: [`CompressionChooser::next`] said so, or its sample did.
    None,
    /// It did not become shorter.
    InVain(CompressionMethod),
    /// It travelled compressed.
    Done(CompressionMethod),
}

#[derive(Debug, Clone, Copy)]
struct MethodEstimate {
    cost_ns_per_byte: f64,
    ratio: f64,
}

/// A trial of compression: whether frames take less time than without it. One follows the other as long as it is used.
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
    /// What a plain byte took lately without compression, and how many frames say so.
    without_ns_per_byte: f64,
    without_frames: u32,
    /// Frames without compression that come first and do not say so: what was compressed is still under way.
    without_lead: u32,
    trial: Option<CompressionTrial>,
    rest_frames: u32,
    next_rest_frames: u32,
    skip_frames: u32,
    next_skip_frames: u32,
}

impl CompressionChooser {
    /// Knows nothing yet.
    pub fn new(policy: CompressionPolicy) -> Self {
        Self {
            policy,
            pipe: SendRate::default(),
            prepare_ns_per_byte: 0.0,
            estimates: CHOICES.map(|(_, cost_ns_per_byte, ratio)| MethodEstimate { cost_ns_per_byte, ratio }),
            current: None,
            frames_with_current: 0,
            without_ns_per_byte: 0.0,
            without_frames: 0,
            without_lead: 0,
            trial: None,
            rest_frames: 0,
            next_rest_frames: REST_FRAMES_MIN,
            skip_frames: 0,
            next_skip_frames: 1,
        }
    }

    /// Whether it can ever choose anything, so that times are worth taking.
    pub fn is_off(&self) -> bool {
        self.policy == CompressionPolicy::Off
    }

    /// How the next payload is to be compressed, if a look at it shows that it can be.
    pub fn next(&self) -> Option<CompressionMethod> {
        match self.policy {
            CompressionPolicy::Off => None,
            CompressionPolicy::Always(method) => Some(method),
            CompressionPolicy::Auto if self.skip_frames > 0 => None,
            CompressionPolicy::Auto => self.current.map(method),
        }
    }

    /// A frame was sent.
    pub fn sent(&mut self, attempt: CompressionAttempt, frame: &FrameTimes) {
        if self.policy != CompressionPolicy::Auto || frame.plain_bytes < 1.0 {
            return;
        }
        let prepare_ns = frame.prepare_ns.min(PREPARE_MAX_NS_PER_BYTE * frame.plain_bytes);
        let all_ns = prepare_ns + frame.compress_ns + frame.seal_ns + frame.send_ns;
        self.prepare_ns_per_byte += (prepare_ns / frame.plain_bytes - self.prepare_ns_per_byte) / 8.0;
        self.pipe.sent(frame, all_ns);
        self.frames_with_current = self.frames_with_current.saturating_add(1);
        self.rest_frames = self.rest_frames.saturating_sub(1);
        self.learn(attempt, frame);
        self.judge(attempt, frame, all_ns);
        self.decide();
    }

    /// Corrects what is expected of methods.
    fn learn(&mut self, attempt: CompressionAttempt, frame: &FrameTimes) {
        let CompressionAttempt::Done(used) = attempt else {
            self.skip_frames = self.skip_frames.saturating_sub(1);
            if matches!(attempt, CompressionAttempt::InVain(_)) {
                self.skip_frames = self.next_skip_frames;
                self.next_skip_frames = (2 * self.next_skip_frames).min(SKIP_FRAMES_MAX);
            }
            return;
        };
        self.next_skip_frames = 1;
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

    /// Asks again and again whether compression is of use at all, and gives it up for some time if not.
    fn judge(&mut self, attempt: CompressionAttempt, frame: &FrameTimes, all_ns: f64) {
        if self.current.is_none() {
            self.remember_without(all_ns / frame.plain_bytes);
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
            self.next_rest_frames = REST_FRAMES_MIN;
        } else if trial.passed_before {
            self.rest_frames = LOOK_FRAMES;
            self.change_to(None);
        } else {
            self.rest_frames = self.next_rest_frames;
            self.next_rest_frames = (2 * self.next_rest_frames).min(REST_FRAMES_MAX);
            self.change_to(None);
        }
    }

    fn remember_without(&mut self, ns_per_byte: f64) {
        if self.without_lead > 0 {
            self.without_lead -= 1;
            return;
        }
        self.without_frames = self.without_frames.saturating_add(1);
        let weight = (1.0 / f64::from(self.without_frames)).max(WITHOUT_WEIGHT);
        self.without_ns_per_byte += (ns_per_byte - self.without_ns_per_byte) * weight;
    }

    /// Moves to what is best now: at once to what is easier, step by step to what is harder.
    fn decide(&mut self) {
        let Some(pipe) = self.pipe.ns_per_byte() else { return };
        if self.rest_frames > 0 {
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
        // What none would be has to be known before there is something to compare with it.
        if self.current.is_none() && self.without_frames == 0 {
            return;
        }
        let gain = expected < GAIN_MIN * self.expected_ns_per_byte(self.current, pipe);
        if gain && (best < self.current || self.frames_with_current >= STEP_FRAMES) {
            let step = self.current.map_or(0, |current| current + 1);
            self.change_to(best.map(|best| best.min(step)));
        }
    }

    /// What a plain byte takes with this choice.
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
            (self.without_frames, self.without_lead) = (0, TRIAL_LEAD);
        } else if self.current.is_none() {
            self.trial =
                Some(CompressionTrial { without_ns_per_byte: self.without_ns_per_byte, ..CompressionTrial::default() });
        }
        // What is on the way holds more plain bytes with each harder method: that is no gain that lasts.
        if let Some(trial) = self.trial.as_mut().filter(|trial| !trial.passed_before) {
            *trial = CompressionTrial { without_ns_per_byte: trial.without_ns_per_byte, ..CompressionTrial::default() };
        }
        self.current = choice;
        self.frames_with_current = 0;
    }
}

/// The method of this index.
fn method(index: usize) -> CompressionMethod {
    CHOICES.get(index).map_or(CompressionMethod::Lz4, |(method, ..)| *method)
}

#[cfg(test)]
#[path = "chooser_tests.rs"]
mod tests;

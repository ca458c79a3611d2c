//! Recovery of streams that break or stall: which to give up, and when to open replacements.
//!
//! One unacknowledged stream is given up while others show that the path is alive. Where nothing is acknowledged at
//! all, the link may be down. Then the streams are kept, and one more is attempted repeatedly. The first success shows
//! that the link is up again. The old streams, with retransmission timers of up to half a minute, are then given up.
//!
//! If new streams open and their data is not acknowledged either, large packets may be lost on the path (a smaller MTU,
//! and no ICMP). All streams are then opened again, once, with small segments.
//!
//! Streams that crawl are given up, too ([`crate::crawling_streams`]).
//!
//! The engine supplies samples; the decision uses no clock.

use std::collections::BTreeMap;

use crate::crawling_streams::CrawlDetector;
use crate::ids::StreamId;
use crate::stream_sample::StreamSample;

/// Time without acknowledgement after which a stream is given up, if the path is alive.
const STALLED_US: u64 = 5_000_000;
/// Time without any acknowledgement after which a path may be down.
const LIFELESS_US: u64 = 2_000_000;
/// Time within which all streams notice that a link is down.
const SPREAD_US: u64 = 1_000_000;
/// Time from the first attempt to open a stream to the next one.
const FIRST_PAUSE_US: u64 = 1_000_000;
/// The same for all later attempts.
const PAUSE_US: u64 = 2_000_000;
/// Time without any stream after which a copy is given up.
const GONE_US: u64 = 30_000_000;
/// Time without any acknowledgement after which a copy is given up.
const UNANSWERED_US: u64 = 60_000_000;
/// Longest interval that one sample counts for: a suspended host has not waited for an acknowledgement.
const SAMPLE_US_MAX: u64 = 1_000_000;

/// Actions for the engine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecoveryAction {
    /// Streams to give up.
    pub give_up: Vec<StreamId>,
    /// Number of streams to open.
    pub make: u16,
    /// Whether the other end is unreachable for good.
    pub hopeless: bool,
}

/// Decides about a copy's streams.
#[derive(Debug, Default)]
pub struct StreamRecovery {
    /// Intended number of streams: the most so far, or the number set by [`Self::want`].
    wanted: u16,
    is_decided: bool,
    silences: BTreeMap<StreamId, StreamSilence>,
    /// Time without a sign of life from the path, while one was expected.
    lifeless_us: u64,
    /// Time without an acknowledgement of data, while one was expected. A new stream is none.
    silent_us: u64,
    /// Streams opened since the last sample.
    came: u16,
    /// Whether a stream opened while nothing was acknowledged.
    came_in_silence: bool,
    /// Whether new streams have small segments, once and for good.
    has_small_segments: bool,
    /// Lost streams without a replacement.
    lost: u16,
    attempt: Option<ReconnectAttempt>,
    /// Attempts since the last opened stream.
    attempts: u32,
    /// Streams requested at any time and not opened yet.
    owed: u32,
    crawl: CrawlDetector,
}

/// Time that a stream was not acknowledged.
#[derive(Debug, Clone, Copy)]
struct StreamSilence {
    acknowledged_bytes: u64,
    for_us: u64,
}

/// An attempt to open streams.
#[derive(Debug, Clone, Copy)]
struct ReconnectAttempt {
    streams: u16,
    for_us: u64,
}

impl StreamRecovery {
    /// Sets the intended number of streams; returns how many to open now, with `live` in use.
    pub fn want(&mut self, streams: u16, live: u16) -> u16 {
        self.is_decided = true;
        self.wanted = streams;
        self.make(streams.saturating_sub(live))
    }

    /// Records a newly opened stream; `live` is the number of streams now.
    pub fn stream_added(&mut self, live: u16) {
        self.came = self.came.saturating_add(1);
        self.lost = self.lost.saturating_sub(1);
        self.attempts = 0;
        self.attempt = self.attempt.and_then(|attempt| {
            let streams = attempt.streams.saturating_sub(1);
            (streams > 0).then_some(ReconnectAttempt { streams, ..attempt })
        });
        match self.owed {
            0 if !self.is_decided => self.wanted = self.wanted.max(live),
            owed => self.owed = owed.saturating_sub(1),
        }
    }

    /// Returns the intended number of streams. A stream beyond it was opened late and stays idle.
    pub fn wanted(&self) -> u16 {
        self.wanted
    }

    /// Records the loss of a stream. Streams in a [`RecoveryAction`] count already.
    pub fn stream_lost(&mut self) {
        self.lost = self.lost.saturating_add(1);
    }

    /// Whether a lost stream has no replacement. Total rates mean nothing then.
    pub fn is_recovering(&self) -> bool {
        self.lost > 0
    }

    /// Whether the other end has shown no sign of life for a while.
    pub fn is_lifeless(&self) -> bool {
        self.lifeless_us >= LIFELESS_US
    }

    /// Time without an acknowledgement of data, while one was expected.
    pub fn silent_us(&self) -> u64 {
        self.silent_us
    }

    /// Whether new streams have small segments.
    pub fn has_small_segments(&self) -> bool {
        self.has_small_segments
    }

    /// Takes samples of all streams and returns the actions.
    pub fn sample(&mut self, elapsed_us: u64, streams: &[StreamSample]) -> RecoveryAction {
        // The first stream is opened elsewhere.
        if self.wanted == 0 {
            return RecoveryAction::default();
        }
        let elapsed_us = elapsed_us.min(SAMPLE_US_MAX);
        let lifeless_before_us = self.lifeless_us;
        let came = std::mem::take(&mut self.came) > 0;
        let answered = self.listen(elapsed_us, streams);
        let is_awaited = streams.is_empty() || self.silences.values().any(|silence| silence.for_us > 0);
        self.lifeless_us = if came || answered || !is_awaited { 0 } else { self.lifeless_us + elapsed_us };
        self.silent_us = if answered || !is_awaited && !came { 0 } else { self.silent_us + elapsed_us };

        let healed = came && lifeless_before_us >= LIFELESS_US;
        let lifeless_us = self.lifeless_us;
        let is_stalled = |silence: &StreamSilence| match healed {
            true => silence.for_us >= LIFELESS_US,
            false => silence.for_us >= STALLED_US && lifeless_us + SPREAD_US <= silence.for_us,
        };
        let stalled = self.silences.iter().filter(|(_, silence)| is_stalled(silence));
        let mut give_up: Vec<_> = stalled.map(|(stream, _)| *stream).collect();
        if self.suspect_large_packets(answered, healed) {
            give_up = streams.iter().map(|seen| seen.stream).collect();
        }
        if lifeless_us == 0 {
            give_up.extend(self.crawl.sample(elapsed_us, streams));
            give_up.sort_unstable();
            give_up.dedup();
        }
        give_up.iter().for_each(|_| self.stream_lost());
        let live = u16::try_from(streams.len() - give_up.len()).unwrap_or(u16::MAX);
        if live >= self.wanted {
            self.lost = 0;
        }
        let patience_us = if streams.is_empty() { GONE_US } else { UNANSWERED_US };
        RecoveryAction { give_up, make: self.attempt(elapsed_us, live), hopeless: self.lifeless_us >= patience_us }
    }

    /// Whether small segments are tried from now on.
    fn suspect_large_packets(&mut self, answered: bool, healed: bool) -> bool {
        self.came_in_silence = !answered && (self.came_in_silence || healed);
        let is_new = self.came_in_silence && self.is_lifeless() && !self.has_small_segments;
        self.has_small_segments |= is_new;
        is_new
    }

    /// Records the samples; whether any stream was acknowledged.
    fn listen(&mut self, elapsed_us: u64, streams: &[StreamSample]) -> bool {
        let mut answered = false;
        let before = std::mem::take(&mut self.silences);
        for seen in streams {
            let first = StreamSilence { acknowledged_bytes: seen.acknowledged_bytes, for_us: 0 };
            let last = before.get(&seen.stream).copied().unwrap_or(first);
            let is_answered = seen.acknowledged_bytes > last.acknowledged_bytes;
            answered |= is_answered;
            let for_us = if seen.unanswered && !is_answered { last.for_us + elapsed_us } else { 0 };
            self.silences.insert(seen.stream, StreamSilence { acknowledged_bytes: seen.acknowledged_bytes, for_us });
        }
        answered
    }

    /// Returns the number of streams to open now: all that are missing, but one at a time while none succeeds.
    fn attempt(&mut self, elapsed_us: u64, live: u16) -> u16 {
        if let Some(attempt) = &mut self.attempt {
            attempt.for_us += elapsed_us;
            let pause_us = if self.attempts <= 1 { FIRST_PAUSE_US } else { PAUSE_US };
            if attempt.for_us < pause_us {
                return 0;
            }
            self.attempt = None;
        }
        let missing = self.wanted.saturating_sub(live);
        let may_be_down = self.lifeless_us >= LIFELESS_US;
        self.make(if may_be_down || self.attempts > 0 { missing.max(may_be_down.into()).min(1) } else { missing })
    }

    fn make(&mut self, streams: u16) -> u16 {
        let under_way = self.attempt.map_or(0, |attempt| attempt.streams);
        let more = streams.saturating_sub(under_way);
        if more > 0 {
            self.attempts = self.attempts.saturating_add(1);
            self.attempt = Some(ReconnectAttempt { streams: under_way + more, for_us: 0 });
            self.owed = self.owed.saturating_add(more.into());
        }
        more
    }
}

#[cfg(test)]
#[path = "stream_recovery_tests.rs"]
mod tests;

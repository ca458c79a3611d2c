//! Streams that break or stall: which are given up, and when others are made in their place.
//!
//! One stream that the other end does not answer is given up while the path shows that it is alive. Where nothing is
//! answered at all, the link may be down: then the streams are kept, and it is tried to make one more, again and again.
//! The first that comes shows that the link is back, and the old ones, whose retransmission timers may have grown to
//! half a minute, are given up. The engine looks now and then and tells what it saw; this decides, without a clock.

use std::collections::BTreeMap;

use crate::ids::StreamId;

/// A stream that is not answered for so long is given up, if the path is alive.
const STALLED_US: u64 = 5_000_000;
/// A path on which nothing is answered for so long may be down.
const LIFELESS_US: u64 = 2_000_000;
/// When a link goes down, streams notice it one after the other, within this time.
const SPREAD_US: u64 = 1_000_000;
/// How long the first attempt to make a stream may take, until there is another one.
const FIRST_PAUSE_US: u64 = 1_000_000;
/// The same for all later ones.
const PAUSE_US: u64 = 2_000_000;
/// A job without any stream for so long is given up.
const GONE_US: u64 = 30_000_000;
/// One whose streams are not answered for so long is, too.
const UNANSWERED_US: u64 = 60_000_000;
/// No look counts for more: a host that slept has not waited for an answer.
const LOOK_US_MAX: u64 = 1_000_000;

/// What was seen of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamSample {
    /// Which one.
    pub stream: StreamId,
    /// Bytes that the other end has acknowledged so far.
    pub acknowledged_bytes: u64,
    /// Something was sent, and nothing came back since. A receiver that has no room answers, and so it is not this.
    pub unanswered: bool,
}

/// What is to be done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecoveryAction {
    /// These streams are given up.
    pub give_up: Vec<StreamId>,
    /// So many are to be made.
    pub make: u16,
    /// There is no way to the other end any more.
    pub hopeless: bool,
}

/// Decides what becomes of a job's streams.
#[derive(Debug, Default)]
pub struct StreamRecovery {
    /// How many streams there are to be: as many as there have been, or as [`Self::want`] says.
    wanted: u16,
    is_decided: bool,
    silences: BTreeMap<StreamId, StreamSilence>,
    /// How long the path has shown no sign of life, while one was to be expected.
    lifeless_us: u64,
    /// Streams that have come since the last look.
    came: u16,
    /// Streams that are gone, and in whose place none has come.
    lost: u16,
    attempt: Option<ReconnectAttempt>,
    /// Attempts since a stream came.
    attempts: u32,
    /// Streams that were asked for and have not come, however long ago.
    owed: u32,
}

/// How long a stream was not answered.
#[derive(Debug, Clone, Copy)]
struct StreamSilence {
    acknowledged_bytes: u64,
    for_us: u64,
}

/// Streams that are being made.
#[derive(Debug, Clone, Copy)]
struct ReconnectAttempt {
    streams: u16,
    for_us: u64,
}

impl StreamRecovery {
    /// From now on, there are to be so many streams; returns how many are to be made now, where there are `live`.
    pub fn want(&mut self, streams: u16, live: u16) -> u16 {
        self.is_decided = true;
        self.wanted = streams;
        self.make(streams.saturating_sub(live))
    }

    /// A stream has come; there are so many now.
    pub fn came(&mut self, live: u16) {
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

    /// How many streams are to be in use; any other has come late, and rests.
    pub fn wanted(&self) -> u16 {
        self.wanted
    }

    /// A stream is gone. What [`RecoveryAction`] names is not to be told again.
    pub fn gone(&mut self) {
        self.lost = self.lost.saturating_add(1);
    }

    /// Whether a stream is gone and none has come in its place: figures of all together tell nothing then.
    pub fn is_mending(&self) -> bool {
        self.lost > 0
    }

    /// Whether nothing has shown for a while that there is anybody at the other end.
    pub fn is_lifeless(&self) -> bool {
        self.lifeless_us >= LIFELESS_US
    }

    /// Takes what was seen of the streams that there are.
    pub fn look(&mut self, elapsed_us: u64, streams: &[StreamSample]) -> RecoveryAction {
        // Before the first one has come, it is for others to find a way.
        if self.wanted == 0 {
            return RecoveryAction::default();
        }
        let elapsed_us = elapsed_us.min(LOOK_US_MAX);
        let lifeless_before_us = self.lifeless_us;
        let came = std::mem::take(&mut self.came) > 0;
        let answered = self.listen(elapsed_us, streams);
        let is_awaited = streams.is_empty() || self.silences.values().any(|silence| silence.for_us > 0);
        self.lifeless_us = if came || answered || !is_awaited { 0 } else { self.lifeless_us + elapsed_us };

        let healed = came && lifeless_before_us >= LIFELESS_US;
        let lifeless_us = self.lifeless_us;
        let is_stalled = |silence: &StreamSilence| match healed {
            true => silence.for_us >= LIFELESS_US,
            false => silence.for_us >= STALLED_US && lifeless_us + SPREAD_US <= silence.for_us,
        };
        let stalled = self.silences.iter().filter(|(_, silence)| is_stalled(silence));
        let give_up: Vec<_> = stalled.map(|(stream, _)| *stream).collect();
        give_up.iter().for_each(|_| self.gone());
        let live = u16::try_from(streams.len() - give_up.len()).unwrap_or(u16::MAX);
        if live >= self.wanted {
            self.lost = 0;
        }
        let patience_us = if streams.is_empty() { GONE_US } else { UNANSWERED_US };
        RecoveryAction { give_up, make: self.attempt(elapsed_us, live), hopeless: self.lifeless_us >= patience_us }
    }

    /// Whether any stream was answered.
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

    /// How many streams are to be made now: all that are missing, but as long as none comes, one at a time.
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

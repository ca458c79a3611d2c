//! Streams that crawl: their data is acknowledged, but at a tiny part of the rate that the path has shown.
//!
//! After outages, a congestion control can hold on to a wrong estimate: BBR has been seen to send one segment each two
//! seconds on a path of 50 Mbit/s. At the end of a copy, all other streams wait for such a stream. A new connection
//! starts with a fresh estimate.

use std::collections::BTreeMap;

use crate::ids::StreamId;
use crate::stream_sample::StreamSample;

/// Period over which a stream has to crawl before it is given up, at first. It doubles with each of them, so that a path that
/// has become slow for good keeps its streams.
const PATIENCE_US: u64 = 5_000_000;
/// A stream crawls below this part of the highest rate of any stream.
const SLOWER: u64 = 64;
/// A faster stream, in bytes per second, does not crawl.
const CRAWL_BYTES_PER_S_MAX: u64 = 64 << 10;
/// Period over which the highest rate is measured.
const RATE_PERIOD_US: u64 = 1_000_000;

/// Finds streams that crawl.
#[derive(Debug)]
pub struct CrawlDetector {
    streams: BTreeMap<StreamId, StreamProgress>,
    fastest_bytes_per_s: u64,
    patience_us: u64,
}

/// Progress of a stream since two moments.
#[derive(Debug, Clone, Copy)]
struct StreamProgress {
    /// Since data waits without a break, or since the last judgement.
    waiting: ProgressPeriod,
    /// Since the last measurement of the rate.
    rate: ProgressPeriod,
    receiver_limited_us: u64,
}

#[derive(Debug, Clone, Copy)]
struct ProgressPeriod {
    acknowledged_bytes: u64,
    for_us: u64,
}

impl Default for CrawlDetector {
    fn default() -> Self {
        Self { streams: BTreeMap::new(), fastest_bytes_per_s: 0, patience_us: PATIENCE_US }
    }
}

impl CrawlDetector {
    /// Takes samples of all streams of a path. Returns the streams to give up: never more than half of them, since then
    /// the path itself is slow.
    pub fn sample(&mut self, elapsed_us: u64, streams: &[StreamSample]) -> Vec<StreamId> {
        let before = std::mem::take(&mut self.streams);
        let mut crawling = Vec::new();
        for seen in streams {
            let progress = before.get(&seen.stream).copied().unwrap_or_else(|| StreamProgress::beginning(seen));
            let mut progress = progress.advanced(elapsed_us, seen);
            if progress.rate.for_us == 0 {
                let last = before.get(&seen.stream).map_or(0, |before| before.rate.rate_to(elapsed_us, seen));
                self.fastest_bytes_per_s = self.fastest_bytes_per_s.max(last);
            }
            if progress.waiting.for_us >= self.patience_us {
                let rate = progress.waiting.rate_to(0, seen);
                if rate <= CRAWL_BYTES_PER_S_MAX && rate.saturating_mul(SLOWER) < self.fastest_bytes_per_s {
                    crawling.push(seen.stream);
                }
                progress.waiting = ProgressPeriod::beginning(seen);
            }
            self.streams.insert(seen.stream, progress);
        }
        if crawling.is_empty() || 2 * crawling.len() > streams.len() {
            return Vec::new();
        }
        self.patience_us = self.patience_us.saturating_mul(2);
        crawling
    }
}

impl StreamProgress {
    fn beginning(seen: &StreamSample) -> Self {
        let now = ProgressPeriod::beginning(seen);
        Self { waiting: now, rate: now, receiver_limited_us: seen.receiver_limited_us }
    }

    fn advanced(self, elapsed_us: u64, seen: &StreamSample) -> Self {
        let receiver_limited_us = seen.receiver_limited_us;
        // A receiver without room is slow, not the path.
        let is_held_back = receiver_limited_us > self.receiver_limited_us;
        let waiting = match seen.has_data && !is_held_back {
            true => self.waiting.longer(elapsed_us),
            false => ProgressPeriod::beginning(seen),
        };
        let is_measured = self.rate.for_us + elapsed_us >= RATE_PERIOD_US;
        let rate = if is_measured { ProgressPeriod::beginning(seen) } else { self.rate.longer(elapsed_us) };
        Self { waiting, rate, receiver_limited_us }
    }
}

impl ProgressPeriod {
    fn beginning(seen: &StreamSample) -> Self {
        Self { acknowledged_bytes: seen.acknowledged_bytes, for_us: 0 }
    }

    fn longer(self, elapsed_us: u64) -> Self {
        Self { for_us: self.for_us.saturating_add(elapsed_us), ..self }
    }

    /// Returns the rate from its beginning to a sample that comes `more_us` later.
    fn rate_to(self, more_us: u64, seen: &StreamSample) -> u64 {
        let bytes = seen.acknowledged_bytes.saturating_sub(self.acknowledged_bytes);
        let us = self.for_us.saturating_add(more_us).max(1);
        u64::try_from(u128::from(bytes) * 1_000_000 / u128::from(us)).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE_US: u64 = 250_000;

    /// Streams with constant rates.
    struct Streams {
        detector: CrawlDetector,
        seen: Vec<StreamSample>,
    }

    impl Streams {
        fn new(count: u16) -> Self {
            let stream = |number| StreamSample { stream: StreamId(number), ..StreamSample::default() };
            Self { detector: CrawlDetector::default(), seen: (0..count).map(stream).collect() }
        }

        /// Samples for some seconds at these rates in bytes per second; a stream without one has nothing to send.
        fn run(&mut self, seconds: u64, rates: &[Option<u64>]) -> Vec<(u64, Vec<StreamId>)> {
            let mut found = Vec::new();
            for look in 1..=seconds * 1_000_000 / SAMPLE_US {
                for (seen, rate) in self.seen.iter_mut().zip(rates) {
                    seen.has_data = rate.is_some();
                    seen.acknowledged_bytes += rate.unwrap_or(0) * SAMPLE_US / 1_000_000;
                }
                let crawling = self.detector.sample(SAMPLE_US, &self.seen);
                if !crawling.is_empty() {
                    found.push((look * SAMPLE_US / 1_000_000, crawling));
                }
            }
            found
        }
    }

    #[test]
    fn a_stream_that_crawls_while_the_others_wait_is_found_after_five_seconds() {
        let mut streams = Streams::new(4);
        assert_eq!(streams.run(10, &[Some(1_000_000); 4]), []);
        let found = streams.run(8, &[None, Some(800), None, None]);
        assert_eq!(found[0], (5, vec![StreamId(1)]), "{found:?}");
    }

    #[test]
    fn a_path_that_has_become_slow_keeps_its_streams() {
        let mut streams = Streams::new(4);
        streams.run(10, &[Some(1_000_000); 4]);
        assert_eq!(streams.run(60, &[Some(800); 4]), []);
        assert_eq!(streams.run(60, &[Some(800), Some(900), Some(700), None]), []);
    }

    #[test]
    fn a_lone_stream_and_a_path_that_was_never_faster_are_left_alone() {
        let mut lone = Streams::new(1);
        lone.run(10, &[Some(1_000_000)]);
        assert_eq!(lone.run(60, &[Some(800)]), []);
        assert_eq!(Streams::new(4).run(60, &[None, Some(800), None, None]), []);
    }

    #[test]
    fn each_one_found_doubles_the_patience() {
        let mut streams = Streams::new(4);
        streams.run(10, &[Some(1_000_000); 4]);
        let at: Vec<_> = streams.run(40, &[None, Some(800), None, None]).into_iter().map(|(at, _)| at).collect();
        assert_eq!(at, [5, 15, 35]);
    }

    #[test]
    fn a_receiver_without_room_does_not_make_a_stream_crawl() {
        let mut streams = Streams::new(4);
        streams.run(10, &[Some(1_000_000); 4]);
        for _ in 0..20 {
            streams.seen[1].receiver_limited_us += 900_000;
            assert_eq!(streams.run(1, &[None, Some(0), None, None]), []);
        }
    }
}

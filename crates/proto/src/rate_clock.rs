//! Rate limiter. It takes the time and returns when how many bytes may be sent; it does not sleep.
//!
//! It is a debt clock. Each chunk costs the time that it takes at the set rate, and is sent at the end of that time.
//! The clock continues from the end of the last chunk, whenever that was sent. So a late sender loses nothing, up to
//! [`BUCKET`]; idle time beyond that is not saved up.
//!
//! Invariant, for any sequence of requests and any window of time: the granted bytes are at most the rate times the
//! sum of the window and [`BUCKET`]. That is three quarters of the tolerance that `--xfrrate` promises (5 % over 2 s,
//! 1 % over 10 s). The rest is left for socket buffers and the network.

use std::num::NonZeroU64;
use std::time::Duration;

use crate::limits::RATE_MIN;

/// Most idle time that is compensated: the lateness of a waiting sender's wake-up without a loss of rate.
pub const BUCKET: Duration = Duration::from_millis(75);
/// Chunks per second with enough data to send: none takes more than [`PIECE`] at the set rate.
const PIECES_PER_S: u64 = 100;
/// Duration of the largest chunk.
pub const PIECE: Duration = Duration::from_millis(10);
const NANOS_PER_S: u128 = 1_000_000_000;

/// The clock of one limit. All times come from one monotonic clock of the caller's choice.
#[derive(Debug, Clone)]
pub struct RateClock {
    rate_bytes_per_s: NonZeroU64,
    /// End of the granted time; `None` before the first request.
    paid: Option<Duration>,
}

/// Reply to a request to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RateGrant {
    /// This many bytes may be sent now: at least one, at most as many as requested.
    Now(u64),
    /// None may be sent yet; ask again at that time.
    At(Duration),
}

impl RateClock {
    /// Creates an unused limit. A rate below [`RATE_MIN`] becomes [`RATE_MIN`].
    pub fn new(rate_bytes_per_s: u64) -> Self {
        Self { rate_bytes_per_s: at_least_min(rate_bytes_per_s), paid: None }
    }

    /// Returns the limit.
    pub fn rate_bytes_per_s(&self) -> u64 {
        self.rate_bytes_per_s.get()
    }

    /// Changes the limit. Bytes granted earlier keep their cost.
    pub fn set_rate(&mut self, rate_bytes_per_s: u64) {
        self.rate_bytes_per_s = at_least_min(rate_bytes_per_s);
    }

    /// Requests to send part of `wanted` bytes at the time `now`.
    ///
    /// # Panics
    /// If `wanted` is zero: a programmer's error.
    pub fn grant(&mut self, now: Duration, wanted: u64) -> RateGrant {
        self.take_after(Duration::ZERO, now, wanted)
    }

    /// Requests to send with low priority: grants only bytes that could have been sent for `grace` already and were
    /// not.
    ///
    /// # Panics
    /// If `wanted` is zero, or `grace` is so long that the bucket would never hold a chunk: a programmer's error.
    pub fn take_after(&mut self, grace: Duration, now: Duration, wanted: u64) -> RateGrant {
        assert!(wanted > 0, "nothing needs no permission");
        assert!(grace + 2 * PIECE <= BUCKET, "who waits for longer than the bucket holds waits for ever");
        let piece = wanted.min((self.rate_bytes_per_s.get() / PIECES_PER_S).max(1));
        // The first request starts the clock, so that nothing has been saved up before it.
        let paid = self.paid.unwrap_or(now).max(now.saturating_sub(BUCKET));
        let end = paid.saturating_add(self.cost(piece));
        if end.saturating_add(grace) > now {
            self.paid = Some(paid);
            return RateGrant::At(end.saturating_add(grace));
        }
        self.paid = Some(end);
        RateGrant::Now(piece)
    }

    /// Returns the time that `bytes` take at the set rate, rounded up.
    fn cost(&self, bytes: u64) -> Duration {
        let nanos = (u128::from(bytes) * NANOS_PER_S).div_ceil(u128::from(self.rate_bytes_per_s.get()));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

fn at_least_min(rate_bytes_per_s: u64) -> NonZeroU64 {
    NonZeroU64::new(rate_bytes_per_s.max(RATE_MIN)).unwrap_or(NonZeroU64::MIN)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A granted chunk: its time and length.
    type Sent = (Duration, u64);

    /// Simulates a busy sender until `end`. It wakes up `late` after each granted time; the delays repeat in a cycle.
    fn always_busy(pacer: &mut RateClock, wanted: u64, late: &[Duration], end: Duration) -> Vec<Sent> {
        let (mut now, mut sent) = (Duration::ZERO, Vec::new());
        let mut late = late.iter().cycle();
        while now <= end {
            match pacer.grant(now, wanted) {
                RateGrant::Now(bytes) => sent.push((now, bytes)),
                RateGrant::At(time) => {
                    assert!(time > now);
                    now = time + *late.next().unwrap();
                }
            }
        }
        sent
    }

    fn bytes(sent: &[Sent]) -> u128 {
        sent.iter().map(|(_, bytes)| u128::from(*bytes)).sum()
    }

    fn at_rate(rate: u64, time: Duration) -> u128 {
        u128::from(rate) * time.as_nanos() / NANOS_PER_S
    }

    /// Asserts that no window of this length exceeds the rate's allowance.
    fn assert_no_window_exceeds(sent: &[Sent], rate: u64, window: Duration) -> Result<(), TestCaseError> {
        let (mut first, mut in_window) = (0, 0u128);
        for (at, bytes) in sent {
            in_window += u128::from(*bytes);
            while sent[first].0 + window < *at {
                in_window -= u128::from(sent[first].1);
                first += 1;
            }
            let most = at_rate(rate, window + BUCKET) + 1;
            prop_assert!(in_window <= most, "{in_window} bytes in {window:?} up to {at:?}, at most {most}");
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn no_window_ever_exceeds_rate_and_bucket(
            rate in prop_oneof![RATE_MIN..1_000_000, 1_000_000..4_000_000_000u64],
            // Many requests at a time, and then a pause.
            asks in prop::collection::vec((prop_oneof![19 => 0u64..1000, 1 => 0u64..2_000_000_000], 1u64..50_000_000), 1..400),
            window_ms in 1u64..20_000,
        ) {
            let mut pacer = RateClock::new(rate);
            let (mut now, mut sent) = (Duration::ZERO, Vec::new());
            for (pause_ns, wanted) in asks {
                now += Duration::from_nanos(pause_ns);
                if let RateGrant::Now(bytes) = pacer.grant(now, wanted) {
                    prop_assert!(bytes > 0 && bytes <= wanted && bytes <= (rate / 100).max(1));
                    sent.push((now, bytes));
                }
            }
            assert_no_window_exceeds(&sent, rate, Duration::from_millis(window_ms))?;
        }

        #[test]
        fn a_late_sender_within_the_bucket_loses_nothing(
            rate in 512_000u64..2_000_000_000,
            wanted in 1_000_000u64..2_000_000,
            late_ms in prop::collection::vec(0u64..60, 1..8),
        ) {
            let late: Vec<_> = late_ms.into_iter().map(Duration::from_millis).collect();
            let end = Duration::from_secs(1);
            let sent = always_busy(&mut RateClock::new(rate), wanted, &late, end);
            // In each second, the first one included, all but the time that can still be compensated.
            let least = at_rate(rate, end - BUCKET) * 999 / 1000;
            prop_assert!(bytes(&sent) >= least, "{} of {least}", bytes(&sent));
            prop_assert!(bytes(&sent) <= at_rate(rate, end + BUCKET));
        }

        #[test]
        fn a_changed_rate_holds_from_then_on(
            before in 512_000u64..1_000_000_000,
            after in 512_000u64..1_000_000_000,
        ) {
            let mut pacer = RateClock::new(before);
            let half = Duration::from_secs(1);
            always_busy(&mut pacer, 1 << 20, &[Duration::ZERO], half);
            pacer.set_rate(after);
            let mut sent = Vec::new();
            let mut now = half;
            while now <= 2 * half {
                match pacer.grant(now, 1 << 20) {
                    RateGrant::Now(bytes) => sent.push((now, bytes)),
                    RateGrant::At(time) => now = time,
                }
            }
            assert_no_window_exceeds(&sent, after, half)?;
            let least = at_rate(after, half - Duration::from_millis(25));
            prop_assert!(bytes(&sent) >= least, "{} of {least}", bytes(&sent));
        }
    }

    #[test]
    fn a_send_starts_empty_and_in_small_pieces() {
        let mut pacer = RateClock::new(512_000);
        let long_after = Duration::from_secs(3600);
        assert_eq!(pacer.grant(long_after, 512 << 10), RateGrant::At(long_after + Duration::from_millis(10)));
        assert_eq!(pacer.grant(long_after + Duration::from_millis(10), 512 << 10), RateGrant::Now(5120));
    }

    #[test]
    fn idle_time_is_not_saved_up() {
        let mut pacer = RateClock::new(1_000_000);
        assert_eq!(pacer.grant(Duration::ZERO, 1), RateGrant::At(Duration::from_micros(1)));
        let later = Duration::from_secs(60);
        let at_once: u64 = std::iter::from_fn(|| match pacer.grant(later, 1 << 20) {
            RateGrant::Now(bytes) => Some(bytes),
            RateGrant::At(_) => None,
        })
        .sum();
        assert_eq!(at_once, 70_000, "as many pieces as the bucket holds, and no more");
    }

    #[test]
    fn an_earlier_clock_gets_only_unused_permits() {
        let mut pacer = RateClock::new(1_000_000);
        let ms = Duration::from_millis;
        assert_eq!(pacer.take_after(ms(5), ms(0), 10_000), RateGrant::At(ms(15)));
        assert_eq!(pacer.take_after(ms(5), ms(12), 10_000), RateGrant::At(ms(15)));
        assert_eq!(pacer.grant(ms(14), 1000), RateGrant::Now(1000), "the first of all had not to wait so long");
        assert_eq!(pacer.take_after(ms(5), ms(15), 10_000), RateGrant::At(ms(16)));
        assert_eq!(pacer.take_after(ms(5), ms(16), 10_000), RateGrant::Now(10_000));
    }

    #[test]
    fn a_standstill_has_no_rate() {
        assert_eq!(RateClock::new(0).rate_bytes_per_s(), RATE_MIN);
        let mut fastest = RateClock::new(u64::MAX);
        assert!(matches!(fastest.grant(Duration::from_secs(1), u64::MAX), RateGrant::At(_) | RateGrant::Now(_)));
    }
}

//! A limit on bytes a second: when may how many bytes go? Takes the time, returns the time; does not sleep.
//!
//! A debt clock: each piece has a cost, the time that it takes at the set rate, and goes at the end of that time.
//! The clock runs on from where the last piece ended and not from when it was sent, so that whoever comes late loses
//! nothing, up to [`BUCKET`]. Time in which nobody had anything to send is not saved up beyond that.
//!
//! What holds, whatever is asked for and whenever: in any window of time, no more goes than the rate times the window
//! and [`BUCKET`]. That is three quarters of what `-x` promises (5 % over 2 s, 1 % over 10 s); the rest is left
//! to the sockets and the way.

use std::num::NonZeroU64;
use std::time::Duration;

use crate::limits::RATE_MIN;

/// Most time that is made up for: how late whoever waits may wake up without losing any of the rate.
pub const BUCKET: Duration = Duration::from_millis(75);
/// Pieces a second, where there is that much to send: none is more than [`PIECE`] of the rate.
const PIECES_PER_S: u64 = 100;
/// The time that the largest piece takes.
pub const PIECE: Duration = Duration::from_millis(10);
const NANOS_PER_S: u128 = 1_000_000_000;

/// The clock of one limit. Times are of one clock that does not go back; which one is the caller's.
#[derive(Debug, Clone)]
pub struct RateClock {
    rate_bytes_per_s: NonZeroU64,
    /// What was let go is paid for up to here; `None` before anything was asked for.
    paid: Option<Duration>,
}

/// An answer to a wish to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RateGrant {
    /// So many bytes may go now: at least one, at most as many as were asked for.
    Now(u64),
    /// None yet: ask again at that time.
    At(Duration),
}

impl RateClock {
    /// A limit under which nothing was sent yet. Less than [`RATE_MIN`] counts as that.
    pub fn new(rate_bytes_per_s: u64) -> Self {
        Self { rate_bytes_per_s: at_least_min(rate_bytes_per_s), paid: None }
    }

    /// The limit.
    pub fn rate_bytes_per_s(&self) -> u64 {
        self.rate_bytes_per_s.get()
    }

    /// Changes the limit. What has gone is paid for at the rate at which it went.
    pub fn set_rate(&mut self, rate_bytes_per_s: u64) {
        self.rate_bytes_per_s = at_least_min(rate_bytes_per_s);
    }

    /// Asks at the time `now` whether something of `wanted` bytes may go.
    ///
    /// # Panics
    /// If nothing is wanted: a programmer's error.
    pub fn take(&mut self, now: Duration, wanted: u64) -> RateGrant {
        self.take_after(Duration::ZERO, now, wanted)
    }

    /// Asks for one who steps back: only what could have gone for as long as `grace`, and did not, may go.
    ///
    /// # Panics
    /// If nothing is wanted, or `grace` is so long that the bucket would never hold a piece: a programmer's error.
    pub fn take_after(&mut self, grace: Duration, now: Duration, wanted: u64) -> RateGrant {
        assert!(wanted > 0, "nothing needs no permission");
        assert!(grace + 2 * PIECE <= BUCKET, "who waits for longer than the bucket holds waits for ever");
        let piece = wanted.min((self.rate_bytes_per_s.get() / PIECES_PER_S).max(1));
        // The first to ask begins the clock, so that nothing has been saved up before it.
        let paid = self.paid.unwrap_or(now).max(now.saturating_sub(BUCKET));
        let end = paid.saturating_add(self.cost(piece));
        if end.saturating_add(grace) > now {
            self.paid = Some(paid);
            return RateGrant::At(end.saturating_add(grace));
        }
        self.paid = Some(end);
        RateGrant::Now(piece)
    }

    /// The time that `bytes` take at the set rate, rounded up.
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
    use super::*;
    use proptest::prelude::*;

    /// A piece that went: when, and how many bytes.
    type Sent = (Duration, u64);

    /// Someone who always has something to send, and wakes up `late` after each time that was named; the lateness comes
    /// round again. Until `end`.
    fn always_busy(pacer: &mut RateClock, wanted: u64, late: &[Duration], end: Duration) -> Vec<Sent> {
        let (mut now, mut sent) = (Duration::ZERO, Vec::new());
        let mut late = late.iter().cycle();
        while now <= end {
            match pacer.take(now, wanted) {
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

    /// The most that went in any window of this length, over what the rate allows for it.
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
            // Many at a time, and then nothing for a while.
            asks in prop::collection::vec((prop_oneof![19 => 0u64..1000, 1 => 0u64..2_000_000_000], 1u64..50_000_000), 1..400),
            window_ms in 1u64..20_000,
        ) {
            let mut pacer = RateClock::new(rate);
            let (mut now, mut sent) = (Duration::ZERO, Vec::new());
            for (pause_ns, wanted) in asks {
                now += Duration::from_nanos(pause_ns);
                if let RateGrant::Now(bytes) = pacer.take(now, wanted) {
                    prop_assert!(bytes > 0 && bytes <= wanted && bytes <= (rate / 100).max(1));
                    sent.push((now, bytes));
                }
            }
            assert_no_window_exceeds(&sent, rate, Duration::from_millis(window_ms))?;
        }

        #[test]
        fn who_is_late_within_the_bucket_loses_nothing(
            rate in 512_000u64..2_000_000_000,
            wanted in 1_000_000u64..2_000_000,
            late_ms in prop::collection::vec(0u64..60, 1..8),
        ) {
            let late: Vec<_> = late_ms.into_iter().map(Duration::from_millis).collect();
            let end = Duration::from_secs(1);
            let sent = always_busy(&mut RateClock::new(rate), wanted, &late, end);
            // In each second, the first one included, all but what is still to be made up for.
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
                match pacer.take(now, 1 << 20) {
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
    fn it_begins_empty_and_in_small_pieces() {
        let mut pacer = RateClock::new(512_000);
        let long_after = Duration::from_secs(3600);
        assert_eq!(pacer.take(long_after, 512 << 10), RateGrant::At(long_after + Duration::from_millis(10)));
        assert_eq!(pacer.take(long_after + Duration::from_millis(10), 512 << 10), RateGrant::Now(5120));
    }

    #[test]
    fn idle_time_is_not_saved_up() {
        let mut pacer = RateClock::new(1_000_000);
        assert_eq!(pacer.take(Duration::ZERO, 1), RateGrant::At(Duration::from_micros(1)));
        let later = Duration::from_secs(60);
        let at_once: u64 = std::iter::from_fn(|| match pacer.take(later, 1 << 20) {
            RateGrant::Now(bytes) => Some(bytes),
            RateGrant::At(_) => None,
        })
        .sum();
        assert_eq!(at_once, 70_000, "as many pieces as the bucket holds, and no more");
    }

    #[test]
    fn who_steps_back_gets_what_nobody_has_taken() {
        let mut pacer = RateClock::new(1_000_000);
        let ms = Duration::from_millis;
        assert_eq!(pacer.take_after(ms(5), ms(0), 10_000), RateGrant::At(ms(15)));
        assert_eq!(pacer.take_after(ms(5), ms(12), 10_000), RateGrant::At(ms(15)));
        assert_eq!(pacer.take(ms(14), 1000), RateGrant::Now(1000), "the first of all had not to wait so long");
        assert_eq!(pacer.take_after(ms(5), ms(15), 10_000), RateGrant::At(ms(16)));
        assert_eq!(pacer.take_after(ms(5), ms(16), 10_000), RateGrant::Now(10_000));
    }

    #[test]
    fn no_rate_stands_still() {
        assert_eq!(RateClock::new(0).rate_bytes_per_s(), RATE_MIN);
        let mut fastest = RateClock::new(u64::MAX);
        assert!(matches!(fastest.take(Duration::from_secs(1), u64::MAX), RateGrant::At(_) | RateGrant::Now(_)));
    }
}

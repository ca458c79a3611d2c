//! The source's rate limit, shared by all streams. Streams send chunk by chunk at the set rate.
//!
//! [`haul_proto::rate_clock`] decides on times; this module waits for them. Of the waiting records, the one started
//! first goes first. Records thus finish one after the other, and few streams are active at a low rate. A stream with a
//! full socket does not wait here, so it delays no other. A thread that the scheduler wakes late delays no other
//! either: the next ones wait for the clock too, and overtake it after [`GRACE`].
//!
//! A paused source sends nothing, whatever its limit.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use haul_base::sys::sync::lock;
use haul_proto::rate_clock::{PIECE, RateClock, RateGrant};
use haul_proto::wire::resource_metrics::Stage;

use crate::metrics::stage_timer::during;

/// Delay of the first record in line after which another may overtake it.
const GRACE: Duration = Duration::from_millis(5);

/// The rate limit of one source.
#[derive(Debug)]
pub struct RateLimiter {
    /// Whether there is a limit or a pause. Otherwise streams skip the rest.
    limited: AtomicBool,
    /// Number of pauses and resumes: odd while paused. Changed under the lock.
    pauses: AtomicU64,
    /// Origin of the clock's times.
    epoch: Instant,
    /// Number of records started.
    begun: AtomicU64,
    state: Mutex<LimiterState>,
}

#[derive(Debug)]
struct LimiterState {
    pacer: Option<RateClock>,
    /// Waiting records by number, at most one per stream.
    waiting: BTreeMap<u64, Arc<Condvar>>,
}

/// A record in transmission.
#[derive(Debug)]
pub struct RatePermit<'p> {
    limiter: &'p RateLimiter,
    number: u64,
    paused: Cell<Duration>,
}

impl RateLimiter {
    /// Creates a limiter of `rate_bytes_per_s`; 0 sets no limit.
    pub fn new(rate_bytes_per_s: u64) -> Self {
        let pacer = (rate_bytes_per_s > 0).then(|| RateClock::new(rate_bytes_per_s));
        Self {
            limited: AtomicBool::new(pacer.is_some()),
            pauses: AtomicU64::new(0),
            epoch: Instant::now(),
            begun: AtomicU64::new(0),
            state: Mutex::new(LimiterState { pacer, waiting: BTreeMap::new() }),
        }
    }

    /// Changes the limit for all bytes not sent yet; 0 lifts it.
    pub fn set(&self, rate_bytes_per_s: u64) {
        let mut state = lock(&self.state);
        match &mut state.pacer {
            _ if rate_bytes_per_s == 0 => state.pacer = None,
            Some(pacer) => pacer.set_rate(rate_bytes_per_s),
            none => *none = Some(RateClock::new(rate_bytes_per_s)),
        }
        self.changed(&state);
    }

    /// Pauses or resumes sending.
    pub fn pause(&self, is_paused: bool) {
        let state = lock(&self.state);
        if self.is_paused() != is_paused {
            self.pauses.fetch_add(1, Ordering::Release);
            self.changed(&state);
        }
    }

    /// Wakes the waiting streams to evaluate the new limit, which may change the chunk size.
    fn changed(&self, state: &LimiterState) {
        self.limited.store(state.pacer.is_some() || self.is_paused(), Ordering::Release);
        state.waiting.values().for_each(|waiting| waiting.notify_one());
    }

    /// Returns the number of pauses and resumes: odd during a pause.
    pub fn pauses(&self) -> u64 {
        self.pauses.load(Ordering::Acquire)
    }

    /// Whether the source is paused.
    pub fn is_paused(&self) -> bool {
        self.pauses() % 2 == 1
    }

    /// Whether a limit or a pause applies.
    pub fn is_limited(&self) -> bool {
        self.limited.load(Ordering::Acquire)
    }

    /// Starts a record.
    pub fn permit(&self) -> RatePermit<'_> {
        RatePermit { limiter: self, number: self.begun.fetch_add(1, Ordering::Relaxed), paused: Cell::default() }
    }
}

impl LimiterState {
    /// Requests permission for some of this record's `rest` bytes, or the time to retry; `None` without a limit.
    fn ask(&mut self, number: u64, now: Duration, rest: usize) -> Option<RateGrant> {
        let before = u32::try_from(self.waiting.range(..number).count()).unwrap_or(u32::MAX);
        let grace = if before == 0 { Duration::ZERO } else { GRACE };
        match self.pacer.as_mut()?.take_after(grace, now, rest as u64) {
            // Streams wake one after the other, as if all earlier ones were late.
            RateGrant::At(time) => Some(RateGrant::At(time + PIECE.saturating_mul(before.saturating_sub(1)))),
            granted => Some(granted),
        }
    }
}

impl RatePermit<'_> {
    /// Waits until some of the `rest` bytes may go. Returns their number: all of them without a limit, and 0 of 0.
    pub fn acquire(&self, rest: usize) -> usize {
        if rest == 0 || !self.limiter.is_limited() {
            return rest;
        }
        during(Stage::Pace, || self.wait_to_take(rest))
    }

    fn wait_to_take(&self, rest: usize) -> usize {
        let mut state = lock(&self.limiter.state);
        let own = Arc::<Condvar>::default();
        state.waiting.insert(self.number, Arc::clone(&own));
        let granted = loop {
            if self.limiter.is_paused() {
                let since = Instant::now();
                state = own.wait(state).unwrap_or_else(PoisonError::into_inner);
                self.paused.set(self.paused.get() + since.elapsed());
                continue;
            }
            let now = self.limiter.epoch.elapsed();
            match state.ask(self.number, now, rest) {
                None => break rest,
                Some(RateGrant::Now(bytes)) => break usize::try_from(bytes).unwrap_or(rest),
                Some(RateGrant::At(time)) => {
                    let waited = own.wait_timeout(state, time.saturating_sub(now));
                    state = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
            }
        };
        state.waiting.remove(&self.number);
        if let Some((_, next)) = state.waiting.first_key_value() {
            next.notify_one();
        }
        granted
    }

    /// Returns the time spent paused.
    pub fn paused(&self) -> Duration {
        self.paused.get()
    }

    /// Waits until all `bytes` may go at once, for data that cannot be sent in chunks.
    pub fn take_all(&self, bytes: usize) {
        let mut rest = bytes;
        while rest > 0 {
            rest -= self.acquire(rest).min(rest);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{RecvTimeoutError, channel};
    use std::thread;
    use std::time::Duration;

    use super::*;

    /// Time limit of a test.
    const LIMIT: Duration = Duration::from_secs(20);

    /// Sends a record of `bytes` in a separate thread, which reports its end through the channel.
    fn sending(limiter: &Arc<RateLimiter>, bytes: usize) -> std::sync::mpsc::Receiver<()> {
        let (done, gone) = channel();
        let limiter = Arc::clone(limiter);
        thread::spawn(move || {
            limiter.permit().take_all(bytes);
            let _ = done.send(());
        });
        gone
    }

    #[test]
    fn all_streams_together_keep_to_the_rate() {
        let limiter = Arc::new(RateLimiter::new(1_000_000));
        let began = Instant::now();
        let streams: Vec<_> = (0..8).map(|_| sending(&limiter, 50_000)).collect();
        streams.iter().for_each(|gone| gone.recv_timeout(LIMIT).unwrap());
        // Lower bound on any machine: 400,000 bytes, less the capacity of the token bucket.
        assert!(began.elapsed() >= Duration::from_millis(320), "{:?}", began.elapsed());
    }

    #[test]
    fn the_earliest_record_goes_first_unless_late() {
        let ms = Duration::from_millis;
        let pacer = Some(RateClock::new(1_000_000));
        let mut state = LimiterState { pacer, waiting: (3..6).map(|number| (number, Arc::default())).collect() };
        assert_eq!(state.ask(5, ms(0), 10_000), Some(RateGrant::At(ms(25))));
        assert_eq!(state.ask(4, ms(0), 10_000), Some(RateGrant::At(ms(15))));
        assert_eq!(state.ask(3, ms(0), 10_000), Some(RateGrant::At(ms(10))));
        assert_eq!(state.ask(4, ms(11), 10_000), Some(RateGrant::At(ms(15))), "it steps back");
        assert_eq!(state.ask(3, ms(11), 10_000), Some(RateGrant::Now(10_000)));
        assert_eq!(state.ask(5, ms(25), 10_000), Some(RateGrant::Now(10_000)), "the others are late");
    }

    #[test]
    fn a_raised_or_lifted_limit_wakes_waiting_threads() {
        for rate in [u64::MAX, 0] {
            let limiter = Arc::new(RateLimiter::new(1));
            let slow: Vec<_> = (0..4).map(|_| sending(&limiter, 10_000_000)).collect();
            assert_eq!(slow[0].recv_timeout(Duration::from_millis(50)), Err(RecvTimeoutError::Timeout));
            limiter.set(rate);
            slow.iter().for_each(|gone| gone.recv_timeout(LIMIT).unwrap());
        }
    }

    #[test]
    fn a_pause_stops_everything_with_and_without_a_limit() {
        for rate in [0, 1 << 30] {
            let limiter = Arc::new(RateLimiter::new(rate));
            limiter.pause(true);
            limiter.pause(true);
            assert_eq!((limiter.pauses(), limiter.is_paused(), limiter.is_limited()), (1, true, true));
            let held = sending(&limiter, 1000);
            limiter.set(1 << 31);
            limiter.set(rate);
            assert_eq!(held.recv_timeout(Duration::from_millis(50)), Err(RecvTimeoutError::Timeout));
            limiter.pause(false);
            held.recv_timeout(LIMIT).unwrap();
            assert_eq!((limiter.pauses(), limiter.is_paused(), limiter.is_limited()), (2, false, rate > 0));
        }
    }

    #[test]
    fn a_record_knows_how_long_it_was_paused() {
        let limiter = Arc::new(RateLimiter::new(0));
        limiter.pause(true);
        let (told, paused) = channel();
        let sending = Arc::clone(&limiter);
        thread::spawn(move || {
            let turn = sending.permit();
            turn.take_all(1000);
            let _ = told.send(turn.paused());
        });
        assert_eq!(paused.recv_timeout(Duration::from_millis(30)), Err(RecvTimeoutError::Timeout));
        limiter.pause(false);
        assert!(paused.recv_timeout(LIMIT).unwrap() > Duration::ZERO);
    }

    #[test]
    fn without_a_limit_everything_passes_at_once() {
        let limiter = RateLimiter::new(0);
        assert_eq!((limiter.permit().acquire(1 << 20), limiter.permit().acquire(0)), (1 << 20, 0));
        limiter.set(100_000);
        assert_eq!(limiter.permit().acquire(1 << 20), 1000);
    }
}

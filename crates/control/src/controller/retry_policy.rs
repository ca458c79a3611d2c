//! Decides whether and when to restart a copy after a lost connection. It does not wait itself.

use std::time::{Duration, Instant};

use haul_base::copy::spec::Retries;
use haul_proto::wire::counters::Counters;

/// First pause, and its growth per attempt, soon after the loss: a recovered path is used within seconds.
const PAUSE_STEP: Duration = Duration::from_secs(1);
/// Longest pause soon after the loss.
const PAUSE_AT_FIRST_MAX: Duration = Duration::from_secs(3);
/// Later, a pause is this fraction of the time since the loss.
const PAUSE_PART: u32 = 20;
/// Longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// ssh's connect timeout soon after the loss: a long timeout delays the next attempt.
const CONNECT_MIN: Duration = Duration::from_secs(4);
/// Later, the connect timeout is this fraction of the time since the loss.
const CONNECT_PART: u32 = 8;
/// Longest connect timeout.
const CONNECT_MAX: Duration = Duration::from_secs(15);

/// State of the attempts so far.
pub struct RetryLoop {
    policy: Retries,
    /// Best progress of any attempt: bytes and files present at the target, or compared.
    furthest: (u64, u64),
    /// End of the first attempt without further progress.
    stuck_since: Option<Instant>,
    /// Attempts started since then.
    in_a_row: u32,
    /// Attempts without further progress that were under way when they ended.
    breaks: u32,
    /// Attempts started after the first.
    begun: u32,
}

/// The next attempt.
#[derive(Debug, PartialEq, Eq)]
pub struct RetryStep {
    /// Time to wait before it.
    pub pause: Duration,
    /// Number of attempts in a row, including the next one.
    pub attempt: u32,
    /// Time left for retries, if limited.
    pub left: Option<Duration>,
    /// ssh's connect timeout.
    pub connect_timeout: Duration,
}

impl RetryLoop {
    /// Creates the state of a copy without losses.
    pub fn new(policy: Retries) -> Self {
        Self { policy, furthest: (0, 0), stuck_since: None, in_a_row: 0, breaks: 0, begun: 0 }
    }

    /// Returns the number of attempts after the first.
    pub fn begun(&self) -> u32 {
        self.begun
    }

    /// Records the end of an attempt: the time, the summed counters of both ends, and whether it was under way. Returns
    /// `None` to give up.
    pub fn next(&mut self, now: Instant, ends: &Counters, was_under_way: bool) -> Option<RetryStep> {
        let came_to = (
            [ends.bytes_written, ends.bytes_skipped, ends.bytes_compared].into_iter().fold(0, u64::saturating_add),
            [ends.files_copied, ends.files_skipped, ends.files_compared].into_iter().fold(0, u64::saturating_add),
        );
        if came_to.0 > self.furthest.0 || came_to.1 > self.furthest.1 {
            self.furthest = (self.furthest.0.max(came_to.0), self.furthest.1.max(came_to.1));
            self.stuck_since = None;
            self.in_a_row = 0;
            self.breaks = 0;
        } else if was_under_way {
            self.breaks += 1;
        }
        let stuck = now.duration_since(*self.stuck_since.get_or_insert(now));
        let left = self.policy.time.map(|time| time.saturating_sub(stuck));
        let is_enough = |limit: Option<u32>, count| limit.is_some_and(|limit| count >= limit);
        if left.is_some_and(|left| left.is_zero())
            || is_enough(self.policy.times, self.in_a_row)
            || is_enough(self.policy.breaks, self.breaks)
        {
            return None;
        }
        self.in_a_row += 1;
        self.begun += 1;
        let young = (PAUSE_STEP * self.in_a_row).min(PAUSE_AT_FIRST_MAX);
        let pause = young.max(stuck / PAUSE_PART).min(PAUSE_MAX);
        Some(RetryStep {
            pause: left.map_or(pause, |left| pause.min(left)),
            attempt: self.in_a_row,
            left,
            connect_timeout: (stuck / CONNECT_PART).clamp(CONNECT_MIN, CONNECT_MAX),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(bytes_written: u64, files_skipped: u64) -> Counters {
        Counters { bytes_written, files_skipped, ..Counters::default() }
    }

    fn limits(times: Option<u32>, seconds: Option<u64>) -> Retries {
        Retries { times, time: seconds.map(Duration::from_secs), breaks: None, from_the_start: false }
    }

    /// Returns the pauses, in seconds, between attempts that end at once, until the policy gives up.
    fn pauses(policy: Retries) -> Vec<f64> {
        let (mut retry, mut now) = (RetryLoop::new(policy), Instant::now());
        std::iter::from_fn(|| {
            let next = retry.next(now, &at(0, 0), false)?;
            now += next.pause;
            Some(next.pause.as_secs_f64())
        })
        .collect()
    }

    #[test]
    fn pauses_are_short_at_first_and_grow_while_the_loss_lasts() {
        let pauses = pauses(limits(None, Some(3600)));
        assert_eq!(pauses[..6], [1.0, 2.0, 3.0, 3.0, 3.0, 3.0]);
        let until = |count: usize| pauses[..count].iter().sum::<f64>();
        let in_the_first_minute = (0..pauses.len()).take_while(|count| until(*count) < 60.0);
        assert!(in_the_first_minute.map(|at| pauses[at]).all(|pause| pause <= 3.0), "{pauses:?}");
        let (last, others) = pauses.split_last().unwrap();
        assert!(others.windows(2).all(|pair| pair[0] <= pair[1]), "{pauses:?}");
        assert!(others.ends_with(&[30.0]) && *last <= 30.0, "{pauses:?}");
        assert!((until(pauses.len()) - 3600.0).abs() < 0.001, "the last one ends with the time");
    }

    #[test]
    fn retries_end_after_a_number_of_attempts_or_a_time() {
        assert_eq!(pauses(limits(Some(4), None)).len(), 4);
        assert_eq!(pauses(limits(Some(4), Some(5))), [1.0, 2.0, 2.0]);
        assert_eq!(pauses(limits(Some(2), Some(600))), [1.0, 2.0]);
        assert!(pauses(Retries::NEVER).is_empty() && pauses(limits(None, Some(0))).is_empty());
    }

    #[test]
    fn progress_restores_all_attempts() {
        let (mut retry, now) = (RetryLoop::new(limits(Some(2), Some(60))), Instant::now());
        let mut attempt = |seconds, counters: Counters| {
            retry.next(now + Duration::from_secs(seconds), &counters, true).map(|next| next.attempt)
        };
        assert_eq!(attempt(0, at(10, 0)), Some(1));
        assert_eq!(attempt(50, at(10, 0)), Some(2), "as far as before is no further");
        assert_eq!(attempt(59, at(11, 0)), Some(1), "bytes");
        assert_eq!(attempt(100, at(5, 1)), Some(1), "files");
        assert_eq!(attempt(120, at(11, 1)), Some(2));
        assert_eq!(attempt(121, at(3, 0)), None);
        assert_eq!(retry.begun(), 5);
    }

    #[test]
    fn repeated_failures_at_one_place_end_the_copy() {
        let (mut retry, now) = (RetryLoop::new(Retries { breaks: Some(2), ..Retries::default() }), Instant::now());
        let mut goes_on = |bytes, was_under_way| retry.next(now, &at(bytes, 0), was_under_way).is_some();
        assert!(goes_on(10, true) && goes_on(10, true), "the first one came further");
        assert!(goes_on(0, false) && goes_on(0, false), "these did not even begin");
        assert!(goes_on(11, true) && goes_on(11, true) && !goes_on(11, true));
    }

    #[test]
    fn ssh_gets_more_time_to_connect_after_an_old_loss() {
        let (mut retry, now) = (RetryLoop::new(Retries::default()), Instant::now());
        let mut timeout = |seconds| {
            let next = retry.next(now + Duration::from_secs(seconds), &at(0, 0), false);
            next.unwrap().connect_timeout.as_secs()
        };
        assert_eq!([0, 10, 80, 500].map(&mut timeout), [4, 4, 10, 15]);
    }
}

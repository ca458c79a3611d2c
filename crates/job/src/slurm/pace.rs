//! The times of Slurm's calls: rare enough for a shared cluster.

use std::time::Duration;

/// Shortest interval between calls of squeue, over all commands of a job.
pub const POLL_EVERY: Duration = Duration::from_secs(10);
/// Interval of checks of results and the plan, without calls of Slurm.
pub const CHECK_EVERY: Duration = Duration::from_millis(300);
/// The pause after a submission. It doubles during the plan, so that long plans make few arrays.
const PAUSE_MIN: Duration = Duration::from_secs(5);
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// The times of the next calls, relative to a common start.
#[derive(Debug, Clone)]
pub struct CallPace {
    next_poll: Duration,
    next_submission: Duration,
    pause: Duration,
}

impl CallPace {
    /// A pace after a read of the queue at `now`.
    pub fn new(now: Duration) -> Self {
        Self { next_poll: now + POLL_EVERY, next_submission: now, pause: PAUSE_MIN }
    }

    /// Whether to read the queue at `now`; if so, sets the next time.
    pub fn begins_poll(&mut self, now: Duration) -> bool {
        let is_due = now >= self.next_poll;
        if is_due {
            self.next_poll = now + POLL_EVERY;
        }
        is_due
    }

    /// Whether a submission is permitted at `now`.
    pub fn may_submit(&self, now: Duration) -> bool {
        now >= self.next_submission
    }

    /// Records a submission, or a failed one.
    pub fn record_submission(&mut self, now: Duration, is_plan_complete: bool) {
        self.next_submission = now + if is_plan_complete { PAUSE_MIN } else { self.pause };
        self.pause = (self.pause * 2).min(PAUSE_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_while_the_plan_is_written() {
        let mut pace = CallPace::new(Duration::ZERO);
        let mut now = 0;
        let mut pauses = Vec::new();
        for is_plan_complete in [false, false, false, false, false, false, true] {
            pace.record_submission(Duration::from_secs(now), is_plan_complete);
            let pause = (0..).find(|pause| pace.may_submit(Duration::from_secs(now + pause))).unwrap_or_default();
            pauses.push(pause);
            now += pause;
        }
        assert_eq!(pauses, [5, 10, 20, 40, 60, 60, 5]);
    }

    #[test]
    fn the_queue_is_read_at_most_once_in_ten_seconds() {
        let mut pace = CallPace::new(Duration::ZERO);
        let polls = (0..200).filter(|tick| pace.begins_poll(CHECK_EVERY * *tick)).count();
        assert_eq!(polls, 5, "in a minute");
    }
}

//! Peers that connect to a server and do not authenticate, logged at a bounded rate.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use haul_base::sys::sync::lock;

/// At most one peer is reported in this interval; the others are counted.
const EVERY: Duration = Duration::from_secs(1);

/// Number of peers since the last report.
#[derive(Debug, Default)]
pub(super) struct UnauthenticatedClients(Mutex<UnauthenticatedState>);

#[derive(Debug, Default)]
struct UnauthenticatedState {
    reported: Option<Instant>,
    untold: u64,
}

impl UnauthenticatedClients {
    /// Counts one peer. If it is to be reported, returns the number of unreported peers before it.
    pub(super) fn one_more(&self, now: Instant) -> Option<u64> {
        let mut state = lock(&self.0);
        if state.reported.is_some_and(|reported| now.saturating_duration_since(reported) < EVERY) {
            state.untold += 1;
            return None;
        }
        state.reported = Some(now);
        Some(std::mem::take(&mut state.untold))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_reported_and_the_others_are_counted() {
        let strangers = UnauthenticatedClients::default();
        let began = Instant::now();
        let at = |ms: u64| strangers.one_more(began + Duration::from_millis(ms));
        assert_eq!(
            [at(0), at(1), at(999), at(1000), at(1500), at(2100)],
            [Some(0), None, None, Some(2), None, Some(1)]
        );
    }
}
